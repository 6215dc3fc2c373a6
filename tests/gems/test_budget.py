"""Episodes of an iteration by hand, static and traced. `test_solvers.py` holds them against what a step plays."""

import jax
import jax.numpy as jnp

from gems_jax.gems.budget import episodes_per_phase, phase_episodes
from gems_trails import RPS, TINY

CONFIG = TINY.replace(oracle_rounds=2, meta_steps=5)  # 3 opponents x 2 episodes, 4 x 2 joint; 4 candidates x 2


def test_units_by_hand():
    """Two players with two anchors each: 4 x 6 + 8; 8 x 2 and half of it; 2 x 3 slots x 2; 2 x (2 x 2 x 2)."""
    counted = episodes_per_phase(RPS, CONFIG, 2)
    assert counted == (32, 16, 8, 12, 16)
    assert counted.sum_without_training(CONFIG) == 5 * 32 + 16 + 12
    assert counted.sum_without_training(CONFIG, oracle=False) == 5 * 32 + 12


def test_anchors_are_candidates_where_the_config_says_so():
    """Two anchors of each player that exist, but a later round is among all three slots."""
    counted = episodes_per_phase(RPS, CONFIG.replace(pool_anchors=True), 2)
    assert counted.oracle_call == (8 + 4) * 2 and counted.oracle_round == 2 * 7


def test_other_estimators_play_joint_episodes_or_none():
    assert episodes_per_phase(RPS, CONFIG.replace(estimator="importance"), 2).meta_update == 8
    assert episodes_per_phase(RPS, CONFIG.replace(estimator="exact"), 2).meta_update == 0


def test_a_traced_number_of_anchors_counts_the_same():
    traced = jax.jit(lambda anchors: phase_episodes(CONFIG, 2, anchors).meta_update)(jnp.int32(4))
    assert traced == episodes_per_phase(RPS, CONFIG, 2).meta_update
