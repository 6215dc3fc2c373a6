"""Settings of GEMS on top of plain self-play, for games that cannot be enumerated.

Most of the training games of an iteration are played between the current newest anchors of all players, who all learn
from them (`joint_play`), in many games that continue across rounds; the others are against sigma'. Estimates take one
to five percent of the environment steps. `psro/self_play.py` has the same learner without a population
(`SELF_PLAY_OF`).
"""

from __future__ import annotations

from gems_jax.gems.tuned_presets import CONNECT_FOUR_TUNED, MPE_TUNED

# An iteration is a million steps: 56 rounds of 448 joint games and 64 games of each player against anchors, 32 steps
# each. Half of the games open with up to six random moves. The entropy bonus falls from .125 to .036: early games stay
# varied, and late policies are sharp enough not to lose by chance.
CONNECT_FOUR_JOINT = CONNECT_FOUR_TUNED.replace(
    iterations=16,
    capacity=8,
    policy_hidden=(256, 256),
    critic_hidden=(128, 128),
    eta=20.0,
    abr_steps=56,
    abr_segment=32,
    abr_opponents=16,
    abr_episodes=32,
    abr_epochs=2,
    abr_minibatches=8,
    live_opponents=True,
    joint_play=True,
    self_play_fraction=0.875,
    learning_rate=7e-4,
    critic_learning_rate=7e-4,
    entropy_weight=0.15,
    entropy_decay=0.2,
    opening_plies=6,
)

# Particle worlds: whole episodes, a shared torso, few games a round, many gradient steps, and step sizes that fall to a
# quarter. All seats of Simple Spread are one player: there is nobody else to play jointly with, and the mixture should
# soon be the best anchor alone, hence the large eta.
SPREAD_JOINT = MPE_TUNED.replace(
    iterations=10,
    capacity=8,
    policy="film",
    policy_hidden=(128, 128),
    critic_hidden=(128, 128),
    output_rate=0.03,
    num_opponents=128,
    meta_steps=1,
    eta=1000.0,
    abr_steps=279,
    abr_opponents=1,
    abr_episodes=64,
    abr_epochs=4,
    abr_minibatches=8,
    learning_rate=2e-3,
    critic_learning_rate=2e-3,
    learning_rate_decay=1.5,
    entropy_weight=0.01,
)
# 56 joint games, and 8 of each side against anchors.
TAG_JOINT = SPREAD_JOINT.replace(
    iterations=16,
    eta=50.0,
    abr_steps=248,
    abr_opponents=8,
    abr_episodes=8,
    learning_rate_decay=1.0,
    live_opponents=True,
    joint_play=True,
    self_play_fraction=0.875,
)
