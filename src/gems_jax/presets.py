"""Named settings per game. `paper` is what the paper prints; `tuned` is the best this project knows.

The presets called `paper`, and every departure from the printed numbers, are in `gems/paper_presets.py`.
"""

from __future__ import annotations

from gems_jax.config import GemsConfig
from gems_jax.gems.paper_presets import PAPER
from gems_jax.types import did_you_mean

# The newest anchor alone is trained, on many episodes, while the trust region holds the others. All candidates are
# fresh codes: a mutation stands so near its parent that training the one drags the other along.
RPS_TUNED = GemsConfig(
    iterations=20,
    capacity=20,
    generator_widths=(64,),
    latent_dim=16,
    opponents="stratified",
    num_opponents=16,
    episodes=1,
    mixture_samples=0,
    meta_steps=200,
    eta=2.0,
    oracle_opponents=32,
    oracle_episodes=1,
    mutations=0,
    randoms=32,
    common_random_numbers=True,
    jacobian="none",
    abr_steps=10,
    abr_anchors=1,
    abr_opponents=256,
    abr_episodes=1,
    kl_protects="others",
    kl_opponents=1,
    reset_optimizer=True,
    learning_rate=0.05,
    beta_kl=10.0,
    q_new=1.0,
)

# The meta-game is solved well every iteration (many updates, a large step, common random numbers), the newest anchor
# alone is trained on many episodes, and the trust region holds all the others.
KUHN_TUNED = GemsConfig(
    capacity=41,
    generator_widths=(64,),
    opponents="stratified",
    num_opponents=48,
    episodes=1,
    mixture_samples=0,
    meta_steps=200,
    eta=10.0,
    oracle_opponents=256,
    oracle_episodes=1,
    common_random_numbers=True,
    jacobian="none",
    critic_hidden=(16,),
    abr_steps=60,
    abr_anchors=1,
    abr_opponents=512,
    abr_episodes=1,
    kl_protects="others",
    reset_optimizer=True,
    learning_rate=0.02,
    critic_learning_rate=0.02,
    beta_kl=10.0,
    q_new=1.0,
    gradient_clip=10.0,
)

# All episodes estimate: profiles are drawn from the mixture, half of them uniformly, and every stored episode says
# something of every anchor. The newest anchor learns from the same episodes, so that nothing is played for training but
# a few episodes that measure forgetting. The estimate is solved by regret matching+ at no episode.
KUHN_REPLAY = KUHN_TUNED.replace(
    estimator="trajectories",
    mixture_samples=10_000,
    sigma_floor=0.5,
    buffer_episodes=65_536,
    meta_rule="rm_plus",
    meta_steps=300,
    mutations=0,
    randoms=4,
    oracle_opponents=16,
    abr_steps=0,
    kl_opponents=1,
    replay_steps=100,
    learning_rate=0.01,
    beta_kl=1.0,
    entropy_weight=0.01,
)

# Leduc poker: no anchor but the newest is worth much in an equilibrium of this size, so that all opponents of the
# training are the newest anchors as they are. Small steps without momentum, which shrink, and a good deal of entropy.
LEDUC_REPLAY = KUHN_REPLAY.replace(
    mixture_samples=5_500,
    oracle_opponents=8,
    policy="tabular",
    replay_batch=8_192,
    live_opponents=True,
    self_play_fraction=1.0,
    momentum=0.0,
    learning_rate=0.001,
    learning_rate_decay=1.0,
    beta_kl=0.1,
    entropy_weight=0.03,
)

# The generator emits the weights of an MLP on the plain observation.
KUHN_TUNED_MLP = KUHN_TUNED.replace(
    policy="mlp",
    policy_hidden=(16,),
    latent_dim=16,
    generator_scale=0.3,
    kl_opponents=16,
    learning_rate=0.005,
    entropy_weight=0.01,
)

# The estimate and its solution as in `replay`. Networks learn from games of their own: steps on stored episodes move
# what a network plays where few of them have been.
KUHN_REPLAY_MLP = KUHN_TUNED_MLP.replace(
    estimator="trajectories",
    mixture_samples=3_000,
    sigma_floor=0.5,
    buffer_episodes=65_536,
    meta_rule="rm_plus",
    meta_steps=300,
    mutations=0,
    randoms=4,
    oracle_opponents=16,
    abr_steps=24,
    abr_opponents=128,
    kl_opponents=4,
    learning_rate=0.003,
)

# The same on Leduc, where returns are noisier and best responses take longer to learn. Many short meta updates, and no
# anchor so light that it could not come back within one iteration. Normalised advantages need small steps and a good
# deal of entropy: a newcomer that has stopped trying actions learns no more.
LEDUC_TUNED = KUHN_TUNED_MLP.replace(
    iterations=80,
    capacity=48,
    policy_hidden=(64,),
    critic_hidden=(32,),
    num_opponents=64,
    meta_steps=100,
    eta=15.0,
    logit_cap=7.0,
    oracle_opponents=128,
    mutations=16,
    randoms=16,
    abr_steps=200,
    abr_epochs=2,
    abr_opponents=256,
    kl_opponents=8,
    normalise_advantages=True,
    learning_rate=0.0015,
    critic_learning_rate=0.005,
    entropy_weight=0.1,
    beta_kl=4.0,
)

# Whoever learns here must not settle too early: the arms' rewards are noisy, and a Receiver that has come to pull the
# second-best arm alone learns no more. Large batches, small steps and some entropy keep it looking. The best reply is
# the same against everybody, so the trust region may be loose.
DECEPTIVE_TUNED = KUHN_TUNED.replace(
    iterations=6,
    capacity=7,
    num_opponents=16,
    meta_steps=50,
    oracle_opponents=32,
    beta_kl=0.1,
    entropy_weight=0.01,
)

# One logit per player and a dominant action: small batches and large steps will do, and what a tight trust region
# holds back is what all anchors must learn.
PUBLIC_GOODS_TUNED = DECEPTIVE_TUNED.replace(
    iterations=10,
    initial_anchors=2,
    capacity=12,
    abr_steps=30,
    abr_opponents=128,
    learning_rate=0.05,
    entropy_weight=0.0,
)

# Boards: a torso that all codes share, games that go on from round to round, small batches and many of them. The newest
# anchor alone is trained, against all anchors alike: a best response to the one or two that hold the mass exploits
# them and beats nobody else. The step size of the generator's output layer is one over its number of features, so that
# torso and head learn at one pace. Entropy keeps the games various and is annealed.
CONNECT_FOUR_TUNED = GemsConfig(
    iterations=800,
    capacity=16,
    policy="film",
    policy_hidden=(64, 64),
    generator_widths=(32,),
    generator_scale=0.1,
    critic_hidden=(64, 64),
    opponents="stratified",
    num_opponents=16,
    episodes=1,
    mixture_samples=0,
    meta_steps=2,
    eta=2.0,
    oracle_opponents=16,
    oracle_episodes=1,
    mutations=4,
    randoms=4,
    jacobian="none",
    abr_steps=8,
    abr_segment=42,
    abr_anchors=1,
    abr_opponents=16,
    abr_episodes=8,
    abr_epochs=4,
    abr_minibatches=4,
    abr_floor=1.0,
    kl_protects="others",
    kl_opponents=1,
    kl_states=8,
    normalise_advantages=True,
    learning_rate=5e-4,
    output_rate=0.03,
    beta_kl=0.1,
    q_new=1.0,
    entropy_weight=0.12,
    entropy_decay=0.0005,
    gae_lambda=0.95,
)
# Longer games, a slower environment: fewer of them for measuring, more learning from each. Among themselves the
# policies soon stop to bring about the positions that a weak player does; opponents that tremble keep them in view.
GO_TUNED = CONNECT_FOUR_TUNED.replace(
    iterations=200,
    capacity=8,
    critic_channels=8,
    num_opponents=8,
    meta_steps=1,
    oracle_opponents=8,
    mutations=2,
    randoms=2,
    abr_segment=64,
    abr_opponents=8,
    abr_episodes=8,
    abr_epochs=2,
    learning_rate=1e-3,
    entropy_weight=0.003,
    entropy_decay=0.0,
    abr_tremble=0.5,
)
# Games of 300 plies, most of them drawn at first: as few as will do for measuring, and advantages that look far ahead.
CHESS_TUNED = GO_TUNED.replace(
    iterations=1000,
    capacity=4,
    policy="board",
    policy_channels=16,
    generator_scale=0.05,
    num_opponents=4,
    oracle_opponents=4,
    mutations=1,
    randoms=1,
    abr_steps=16,
    gae_lambda=0.98,
    critic_learning_rate=2e-4,
    entropy_weight=0.005,
    abr_tremble=0.0,
)

# Particle worlds and Hanabi. Every episode ends by the time limit, which bootstraps: without a discount the values
# would grow without end. Values are scaled by a wide interval of returns, so the meta-strategy takes large steps.
MPE_TUNED = CONNECT_FOUR_TUNED.replace(
    iterations=200,
    policy="mlp",
    policy_hidden=(32,),
    num_opponents=32,
    meta_steps=4,
    eta=50.0,
    oracle_opponents=32,
    abr_segment=0,
    abr_steps=64,
    abr_opponents=32,
    abr_episodes=2,
    abr_epochs=2,
    abr_floor=0.0,
    learning_rate=1e-3,
    output_rate=1.0,
    entropy_weight=0.01,
    entropy_decay=0.0,
    discount=0.95,
)
# The evader learns late: a wider policy, and a generator whose output layer moves no faster than the rest.
TAG_TUNED = MPE_TUNED.replace(policy_hidden=(64,), output_rate=0.1)
# One policy for the whole table learns from all hands (the game's option teams=True). A hint is worth some hundredths
# of the largest score: a critic that takes large steps does not see it.
HANABI_TUNED = CONNECT_FOUR_TUNED.replace(
    iterations=60,
    policy_hidden=(128, 128),
    critic_hidden=(128, 128),
    eta=50.0,
    abr_steps=32,
    abr_segment=64,
    abr_opponents=32,
    abr_episodes=2,
    learning_rate=1e-3,
    critic_learning_rate=1e-4,
    entropy_weight=0.01,
    entropy_decay=0.0,
    discount=0.99,
    gae_lambda=0.9,
)

# The same games where Python plays them, thousands of steps a second instead of millions: small batches, few rounds of
# measuring, more gradient steps on what was played.
PYTHON_CONNECT_FOUR_TUNED = CONNECT_FOUR_TUNED.replace(
    iterations=100,
    capacity=8,
    num_opponents=4,
    meta_steps=1,
    oracle_opponents=4,
    mutations=2,
    randoms=2,
    abr_opponents=8,
    abr_episodes=4,
    learning_rate=2e-3,
    entropy_weight=0.05,
)
PYTHON_LEDUC_TUNED = KUHN_TUNED.replace(
    capacity=16,
    num_opponents=16,
    meta_steps=10,
    oracle_opponents=32,
    mutations=8,
    randoms=8,
    abr_steps=20,
    abr_opponents=256,
    abr_epochs=4,
    kl_opponents=4,
    learning_rate=0.01,
    entropy_weight=0.02,
)

PRESETS: dict[str, dict[str, GemsConfig]] = {
    "pz:connect_four_v3": {"tuned": PYTHON_CONNECT_FOUR_TUNED},
    "openspiel:leduc_poker": {"tuned": PYTHON_LEDUC_TUNED},
    "simple_tag": {"paper": PAPER["simple_tag"], "tuned": TAG_TUNED},
    "simple_spread": {"paper": PAPER["simple_spread"], "tuned": MPE_TUNED},
    "hanabi": {"paper": PAPER["hanabi"], "tuned": HANABI_TUNED},
    "chess": {"paper": PAPER["chess"], "tuned": CHESS_TUNED},
    "connect_four": {"paper": PAPER["connect_four"], "tuned": CONNECT_FOUR_TUNED},
    "go_9x9": {"paper": PAPER["go_9x9"], "tuned": GO_TUNED},
    "tic_tac_toe": {"paper": PAPER["tic_tac_toe"], "tuned": CONNECT_FOUR_TUNED.replace(iterations=40)},
    "biased_rps": {"tuned": RPS_TUNED},
    "kuhn_poker": {
        "paper": PAPER["kuhn_poker"],
        "tuned": KUHN_TUNED,
        "tuned-mlp": KUHN_TUNED_MLP,
        "replay": KUHN_REPLAY,
        "replay-mlp": KUHN_REPLAY_MLP,
    },
    "leduc_holdem": {"paper": PAPER["leduc_holdem"], "tuned": LEDUC_TUNED, "replay": LEDUC_REPLAY},
    "deceptive_messages": {"paper": PAPER["deceptive_messages"], "tuned": DECEPTIVE_TUNED},
    "public_goods": {"paper": PAPER["public_goods"], "tuned": PUBLIC_GOODS_TUNED},
}


def preset(game: str, which: str = "paper") -> GemsConfig:
    """The settings `which` for a game. Raises ValueError that lists what there is."""
    name = game if isinstance(game, str) else getattr(game, "name", game)
    if name not in PRESETS:
        hint = did_you_mean(name, PRESETS)
        raise ValueError(f"no presets for the game {name!r}; {hint}games with presets: {', '.join(sorted(PRESETS))}")
    if which not in PRESETS[name]:
        hint = did_you_mean(which, PRESETS[name])
        raise ValueError(f"{name} has no preset {which!r}; {hint}known: {', '.join(PRESETS[name])}")
    return PRESETS[name][which]
