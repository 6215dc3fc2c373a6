"""Joint PSRO: equilibria by hand, correlated play that no product of mixtures is, dilemmas, one network for all."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game, make_solver, nash_conv
from gems_jax.extensive.infosets import infoset_policy, tabular_policies
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.jpsro import (
    JointPlay,
    JpsroConfig,
    NeuplJpsroConfig,
    draw_profiles,
    exact_joint_oracle,
    own_marginals,
)


def curve(game, config, iterations, method="jpsro"):
    solver = make_solver(method, game, config)
    state, rows = solver.init(jax.random.key(0)), []
    for key in jax.random.split(jax.random.key(1), iterations):
        state, metrics = solver.step(state, key)
        rows.append(metrics)
    return solver, state, rows


@pytest.mark.parametrize("seed", range(3))
def test_three_players(seed):
    """Random games of 5 actions each: the CCE gap against any deviation falls below 0.01, and nobody joins after."""
    payoffs = np.random.default_rng(seed).normal(size=(3, 5, 5, 5)).astype(np.float32)
    _, state, rows = curve(make_game("matrix", payoffs=payoffs), JpsroConfig(capacity=8), 8)
    assert float(rows[-1].joint_cce_gap) < 0.01 < float(rows[0].joint_cce_gap)
    np.testing.assert_array_equal(rows[-1].num_active, rows[-2].num_active)
    assert float(rows[-1].restricted_gap) < 1e-5
    np.testing.assert_allclose(state.joint.sum(), 1.0, atol=1e-6)


@pytest.mark.parametrize("solver", ["max_gini", "regret_matching"])
def test_public_goods_end_in_all_defect(solver):
    """The only CCE of the dilemma: gap 0, welfare 0, after one best response."""
    game = make_game("public_goods")
    made, state, rows = curve(game, JpsroConfig(capacity=2, meta_solver=solver), 2)
    assert float(rows[-1].joint_cce_gap) < 1e-3
    np.testing.assert_allclose(state.joint[(1,) * 5], 1.0, atol=1e-3)
    assert float(nash_conv(game, made.profile(state))) < 1e-3
    assert rows[-1].num_active.tolist() == [2] * 5 or solver == "regret_matching"


@pytest.mark.slow
def test_kuhn_is_solved():
    """Of two players whose payoffs add up to zero, the marginals of a CCE are an equilibrium."""
    kuhn = make_game("kuhn_poker")
    solver, state, rows = curve(kuhn, JpsroConfig(capacity=16), 9)
    assert float(nash_conv(kuhn, solver.profile(state))) < 1e-4
    np.testing.assert_allclose(rows[-1].joint_cce_gap, nash_conv(kuhn, solver.profile(state)), atol=1e-4)
    average = solver.profile(state, "average").sigma
    np.testing.assert_allclose(average.sum(axis=1), 1.0, atol=1e-5)
    with pytest.raises(ValueError, match="unknown profile 'best'"):
        solver.profile(state, "best")


def correlated():
    """Players 1 and 2 toss one coin for both. Player 0 earns 1 or -1 for saying that they match, and 0 for nothing."""
    payoffs = np.zeros((3, 2, 2, 2), np.float32)
    same = np.eye(2, dtype=np.float32)
    payoffs[0] = np.stack([2 * same - 1, np.zeros((2, 2))])
    game = make_game("matrix", payoffs=payoffs)
    tables = jnp.broadcast_to(jnp.eye(2)[None, :, None], (3, 2, 3, 2))  # slot i plays action i
    joint = jnp.zeros((2, 2, 2)).at[1, 0, 0].set(0.5).at[1, 1, 1].set(0.5)
    return game, JointPlay(tabular_policies(game, tables), jnp.ones((3, 2), bool), joint)


def test_responses_are_to_correlated_play():
    """Against independent coins either answer is worth 0; against one coin the first earns 1."""
    game, play = correlated()
    response = exact_joint_oracle(game, "lowest")(jax.random.key(0), play, 1)
    np.testing.assert_allclose(response.gain, [1.0, 0.0, 0.0], atol=1e-6)
    assert int(jnp.argmax(response.params[0, 0])) == 0
    np.testing.assert_allclose(own_marginals(game, play.joint), [[0, 1], [0.5, 0.5], [0.5, 0.5]])


def test_drawn_profiles_are_correlated():
    """Slot m of every population is its part of one profile: players 1 and 2 hold the same action everywhere."""
    game, play = correlated()
    drawn = draw_profiles(jax.random.key(0), game, play, 50)
    actions = np.stack([np.asarray(drawn.policies.params)[p, :, p].argmax(axis=-1) for p in range(3)])
    assert (actions[0] == 1).all() and (actions[1] == actions[2]).all() and 10 < actions[1].sum() < 40
    assert drawn.sigma.shape == (50,) and isinstance(drawn.policies, StackedPolicies)
    assert drawn.policies.apply == infoset_policy(game)


def test_one_network_for_all_policies():
    """Public goods of two: exact responses, distilled into one network each, which ends up withholding."""
    game = make_game("public_goods", n=2, r=1.5)
    config = NeuplJpsroConfig(capacity=2, opponents=64, rounds=80)
    solver, state, rows = curve(game, config, 1, "neupl_jpsro")
    assert float(rows[-1].joint_cce_gap) < 0.01 and int(rows[-1].env_steps) == 2 * 40 * 64
    assert int(rows[-1].gradient_steps) == 2 * 40 * 4  # four passes over every round
    assert float(nash_conv(game, solver.profile(state))) < 0.01
    assert float(rows[-1].parameter_bytes) > state.store.params.nbytes


def test_what_is_refused():
    with pytest.raises(ValueError, match="one population per player"):
        make_solver("jpsro", make_game("public_goods", shared=True), JpsroConfig(oracle="ppo")).init(jax.random.key(0))
    with pytest.raises(ValueError, match="meta_solver must be one of max_gini, regret_matching: got 'nash'"):
        make_solver("jpsro", make_game("kuhn_poker"), JpsroConfig(meta_solver="nash"))


@pytest.mark.slow
def test_learned_responses_of_three_players():
    """Public goods by PPO: nearly everybody withholds, with policies stored or in one network."""
    game = make_game("public_goods", n=3, r=2.0)
    small = {"oracle": "ppo", "capacity": 4, "opponents": 64, "rounds": 120, "entry_episodes": 50}
    for method, config in (("jpsro", JpsroConfig(**small)), ("neupl_jpsro", NeuplJpsroConfig(**small))):
        _, _, rows = curve(game, config, 3, method)
        assert float(rows[-1].joint_cce_gap) < 0.1, method
