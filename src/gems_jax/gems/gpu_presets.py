"""The presets called `gpu`: batches that fill one accelerator of 16 GB or more.

They are the presets that a game gets by default, with more opponents, candidates and episodes at a time. Learning
rates and numbers of rounds are unchanged and were not tuned for these batches; nothing was run on an accelerator.
`tests/gems/test_gpu_presets.py` checks their memory, `tests/accelerator/test_lowering.py` that they lower.
"""

from __future__ import annotations

from collections.abc import Mapping

from gems_jax.config import GemsConfig
from gems_jax.gems.joint_presets import CONNECT_FOUR_JOINT, SPREAD_JOINT, TAG_JOINT
from gems_jax.gems.tuned_presets import CHESS_TUNED, GO_TUNED, HANABI_TUNED, KUHN_REPLAY, LEDUC_REPLAY

LIMIT = 16e9  # bytes of one accelerator that a step may take

# Tables: all episodes of an iteration are one batch.
KUHN_GPU = KUHN_REPLAY.replace(mixture_samples=131_072, buffer_episodes=1_048_576, replay_batch=65_536, randoms=16)
LEDUC_GPU = LEDUC_REPLAY.replace(mixture_samples=262_144, buffer_episodes=524_288, replay_batch=32_768, randoms=8)

# Boards: 8,192 games of Connect Four, 2,048 of Go and 512 of chess continue from round to round.
CONNECT_FOUR_GPU = CONNECT_FOUR_JOINT.replace(
    num_opponents=256, oracle_opponents=256, mutations=16, randoms=16, abr_opponents=64, abr_episodes=128
)
GO_GPU = GO_TUNED.replace(
    num_opponents=128, oracle_opponents=128, mutations=8, randoms=8, abr_opponents=32, abr_episodes=64
)
CHESS_GPU = CHESS_TUNED.replace(
    num_opponents=64, oracle_opponents=64, mutations=4, randoms=4, abr_opponents=16, abr_episodes=32
)

# Particle worlds and Hanabi: 4,096 episodes a round.
TAG_GPU = TAG_JOINT.replace(
    num_opponents=256, oracle_opponents=256, mutations=16, randoms=16, abr_opponents=64, abr_episodes=64
)
SPREAD_GPU = SPREAD_JOINT.replace(num_opponents=256, oracle_opponents=256, mutations=16, randoms=16, abr_episodes=4_096)
HANABI_GPU = HANABI_TUNED.replace(
    num_opponents=256, oracle_opponents=256, mutations=16, randoms=16, abr_opponents=64, abr_episodes=64
)

GPU: Mapping[str, GemsConfig] = {
    "kuhn_poker": KUHN_GPU,
    "leduc_holdem": LEDUC_GPU,
    "connect_four": CONNECT_FOUR_GPU,
    "go_9x9": GO_GPU,
    "chess": CHESS_GPU,
    "simple_tag": TAG_GPU,
    "simple_spread": SPREAD_GPU,
    "hanabi": HANABI_GPU,
}
