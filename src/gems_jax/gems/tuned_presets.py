"""Tuned settings of GEMS: the best that this project knows, per game.

`gems_jax.presets` lists them by game and name; `auto_preset` scales them to other games.
"""

from __future__ import annotations

from gems_jax.config import GemsConfig

# Only the newest anchor is trained, on many episodes, while the trust region holds the others. All candidates are fresh
# codes: a mutation is so close to its parent that training one of them changes the other.
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

# Every iteration solves the meta-game accurately (many updates, a large step, common random numbers) and trains only
# the newest anchor, on many episodes, while the trust region holds all the others.
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

# All episodes are estimates: profiles are drawn from the mixture, half of them uniformly, and every stored episode is
# reweighted for every anchor. The newest anchor learns from the same episodes, so training plays only a few episodes
# that measure forgetting. Regret matching+ solves the estimated game without further episodes.
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
    learning_rate_decay=0.1,
    beta_kl=1.0,
    entropy_weight=0.01,
    entropy_decay=0.1,
)

# An update of the mixtures of three players reads all stored episodes: fewer of them do as well.
KUHN_3P_REPLAY = KUHN_REPLAY.replace(meta_steps=60, learning_rate_decay=0.0, entropy_decay=0.0)

# Leduc poker: few anchors contribute to an equilibrium of this size besides the newest, so the capacity is small and
# all training opponents are the current newest anchors. Small, annealed steps without momentum, and a large entropy
# bonus. A fifth of the stored decisions explore, so that rarely reached decisions are learned, too.
LEDUC_REPLAY = KUHN_REPLAY.replace(
    iterations=32,
    mixture_samples=56_000,
    capacity=8,
    randoms=1,
    oracle_opponents=8,
    policy="tabular",
    generator_scale=0.03,
    buffer_episodes=131_072,
    replay_steps=150,
    replay_batch=4_096,
    exploration=0.2,
    live_opponents=True,
    self_play_fraction=1.0,
    momentum=0.0,
    learning_rate=0.001,
    learning_rate_decay=1.0,
    beta_kl=0.1,
    entropy_weight=0.03,
    entropy_decay=0.0,
)

# Liar's Dice has 24,576 information sets, so that tables of few features are generated, in fewer and larger steps.
LIARS_DICE_REPLAY = LEDUC_REPLAY.replace(
    iterations=40,
    mixture_samples=5_500,
    capacity=4,
    latent_dim=4,
    generator_widths=(8,),
    replay_steps=50,
    learning_rate=0.01,
    learning_rate_decay=0.2,
)

# Boards whose positions can be listed: tables learn by PPO against the newest anchors. A large entropy bonus keeps all
# positions visited, and the anchors play at a tenth of the temperature they train at, since one move is best.
TIC_TAC_TOE_TUNED = LIARS_DICE_REPLAY.replace(
    iterations=12,
    mixture_samples=500,
    buffer_episodes=4_096,
    meta_steps=50,
    critic_hidden=(64,),
    replay_steps=0,
    abr_steps=40,
    abr_opponents=512,
    learning_rate=0.01,
    entropy_weight=0.2,
    entropy_decay=0.3,
    play_temperature=0.1,
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

# Estimate and meta-solution as in `replay`. Networks learn from fresh episodes: gradient steps on stored episodes
# change a network's play at decisions that few of these episodes visit.
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

# Leduc has noisier returns, and its best responses take longer to learn. Many small meta updates; the logit cap keeps
# every anchor heavy enough to return within one iteration. Normalized advantages need small steps and a large entropy
# bonus: a new anchor that stops exploring stops learning.
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

# Learning must not converge too early: the arms' rewards are noisy, and a Receiver that pulls only the second-best arm
# stops learning. Large batches, small steps and an entropy bonus keep it exploring. The best response is the same
# against all opponents, so the trust region may be loose.
DECEPTIVE_TUNED = KUHN_TUNED.replace(
    iterations=6,
    capacity=7,
    num_opponents=16,
    meta_steps=50,
    oracle_opponents=32,
    beta_kl=0.1,
    entropy_weight=0.01,
)

# One logit per player and a dominant action: small batches and large steps suffice. All anchors must learn the same
# action, which a tight trust region would prevent.
PUBLIC_GOODS_TUNED = DECEPTIVE_TUNED.replace(
    iterations=10,
    initial_anchors=2,
    capacity=12,
    abr_steps=30,
    abr_opponents=128,
    learning_rate=0.05,
    entropy_weight=0.0,
)

# Boards: all codes share a torso, games continue from round to round, and batches are small and many. Only the newest
# anchor is trained, against all anchors uniformly: a best response to the one or two anchors that hold the mass
# exploits them and beats no other opponent. The step size of the generator's output layer is one over its number of
# features, so that torso and head learn at the same rate. The annealed entropy bonus diversifies the games.
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
# Longer games and a slower environment: fewer games for estimates, more gradient steps on each. Trained policies soon
# stop reaching the states that weak players reach; trembling opponents still visit them.
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
# Games of 300 plies, most of them drawn at first: few games for estimates, and a long horizon of the advantages.
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
# would diverge. Values are scaled by a wide interval of returns, so the meta-strategy takes large steps.
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
# One policy for all seats learns from all hands (the game's option teams=True). A hint is worth a few hundredths of the
# largest score, which a critic with large steps does not resolve.
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

# Games that run in Python, at thousands of steps per second instead of millions: small batches, few rounds of
# estimates, more gradient steps per episode.
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
