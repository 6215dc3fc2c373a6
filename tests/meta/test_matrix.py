"""Meta-solvers on known payoff tensors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.meta import META_SOLVERS, duality_gap, slot_values
from gems_jax.meta.matrix import multiplicative_weights, solve_last_k


def zero_sum(matrix):
    matrix = jnp.array(matrix, jnp.float32)
    return jnp.stack([matrix, -matrix])


BIASED_RPS = zero_sum([[0, -1, 3], [1, 0, -2], [-3, 2, 0]])
BIASED_PENNIES = zero_sum([[2, -1], [-1, 1]])
DOMINANCE = zero_sum([[0, -1, -1], [1, 0, -1], [1, 1, 0]])
SOLVERS = {name: jax.jit(solve) for name, solve in META_SOLVERS.items()}
INDIFFERENT = [name for name in META_SOLVERS if name not in ("last_k", "self_play", "nash_lp")]


def everyone(payoffs):
    return jnp.ones(payoffs.shape[:2], dtype=bool)


def padded(payoffs, slots, filler):
    """The same game in the first slots of a larger tensor that holds `filler` elsewhere."""
    players, size = payoffs.shape[:2]
    inside = (slice(None),) + (slice(0, size),) * players
    larger = jnp.full((players,) + (slots,) * players, filler).at[inside].set(payoffs)
    active = jnp.zeros((players, slots), dtype=bool).at[:, :size].set(True)
    return larger, active


def test_slot_values_and_gap_by_hand():
    sigma = jnp.array([[0.5, 0.5], [0.25, 0.75]])
    np.testing.assert_allclose(slot_values(BIASED_PENNIES, sigma), [[-0.25, 0.5], [-0.5, 0.0]])
    # player 0: 0.5 - 0.125; player 1: 0 - (-0.125)
    np.testing.assert_allclose(duality_gap(BIASED_PENNIES, sigma, everyone(BIASED_PENNIES)), 0.5)
    nash = jnp.array([[0.4, 0.6], [0.4, 0.6]])
    np.testing.assert_allclose(duality_gap(BIASED_PENNIES, nash, everyone(BIASED_PENNIES)), 0.0, atol=1e-6)


def test_slot_values_of_three_players_equal_the_sum_over_profiles():
    keys = jax.random.split(jax.random.key(0))
    payoffs = jax.random.normal(keys[0], (3, 4, 4, 4))
    sigma = jax.nn.softmax(jax.random.normal(keys[1], (3, 4)))
    expected = [
        np.einsum("ijk,j,k->i", payoffs[0], sigma[1], sigma[2]),
        np.einsum("ijk,i,k->j", payoffs[1], sigma[0], sigma[2]),
        np.einsum("ijk,i,j->k", payoffs[2], sigma[0], sigma[1]),
    ]
    np.testing.assert_allclose(slot_values(payoffs, sigma), expected, rtol=1e-5, atol=1e-6)


def test_uniform():
    payoffs, active = padded(BIASED_RPS, 5, jnp.nan)
    np.testing.assert_allclose(SOLVERS["uniform"](payoffs, active), [[1 / 3] * 3 + [0] * 2] * 2, rtol=1e-6)


def test_newest_slots():
    payoffs, active = padded(BIASED_RPS, 5, jnp.nan)
    active = active.at[1, 2].set(False).at[0, 3:].set(True)
    np.testing.assert_allclose(SOLVERS["self_play"](payoffs, active), [[0, 0, 0, 0, 1], [0, 1, 0, 0, 0]])
    last = [[0, 0, 1 / 3, 1 / 3, 1 / 3], [1 / 2, 1 / 2, 0, 0, 0]]
    np.testing.assert_allclose(SOLVERS["last_k"](payoffs, active), last, rtol=1e-6)
    with pytest.raises(ValueError, match="k=0"):
        solve_last_k(payoffs, active, k=0)


@pytest.mark.parametrize(("name", "bar"), [("omwu", 1e-3), ("mwu", 2e-2)])
@pytest.mark.parametrize(
    ("payoffs", "nash"),
    [(BIASED_RPS, [1 / 3, 1 / 2, 1 / 6]), (BIASED_PENNIES, [0.4, 0.6]), (DOMINANCE, [0.0, 0.0, 1.0])],
    ids=["biased_rps", "biased_pennies", "dominance"],
)
def test_multiplicative_weights_solve_zero_sum_games(name, bar, payoffs, nash):
    sigma = SOLVERS[name](payoffs, everyone(payoffs))
    span = float(payoffs.max() - payoffs.min())
    assert float(duality_gap(payoffs, sigma, everyone(payoffs))) < bar * span
    assert float(duality_gap(payoffs, SOLVERS["uniform"](payoffs, everyone(payoffs)), everyone(payoffs))) > bar * span
    np.testing.assert_allclose(sigma, np.broadcast_to(nash, sigma.shape), atol=2 * bar)


def test_multiplicative_weights_in_general_sum_games_drop_dominated_slots():
    dilemma = jnp.array([[[3.0, 0.0], [5.0, 1.0]], [[3.0, 5.0], [0.0, 1.0]]])
    np.testing.assert_allclose(SOLVERS["omwu"](dilemma, everyone(dilemma)), [[0, 1], [0, 1]], atol=2e-3)
    # public goods among three: contributing costs 1 and returns 0.5 to each, so nobody contributes
    gives = 1 - jnp.indices((2, 2, 2))
    goods = 0.5 * gives.sum(axis=0, keepdims=True) - gives
    np.testing.assert_allclose(SOLVERS["omwu"](goods, everyone(goods)), [[0, 1]] * 3, atol=2e-3)


@pytest.mark.parametrize("name", META_SOLVERS)
@pytest.mark.parametrize("filler", [7.0, jnp.nan])
def test_padding_changes_nothing(name, filler):
    payoffs, active = padded(BIASED_RPS, 5, filler)
    small = SOLVERS[name](BIASED_RPS, everyone(BIASED_RPS))
    large = SOLVERS[name](payoffs, active)
    np.testing.assert_allclose(large[:, :3], small, atol=1e-5)
    np.testing.assert_array_equal(large[:, 3:], 0.0)
    np.testing.assert_allclose(
        duality_gap(payoffs, large, active), duality_gap(BIASED_RPS, small, everyone(BIASED_RPS)), atol=1e-4
    )


@pytest.mark.parametrize("name", META_SOLVERS)
def test_one_slot_is_a_point_mass(name):
    payoffs, active = padded(jnp.zeros((2, 1, 1)), 3, 4.0)
    np.testing.assert_allclose(SOLVERS[name](payoffs, active), [[1, 0, 0]] * 2)


@pytest.mark.parametrize("name", INDIFFERENT)
def test_constant_payoffs_keep_uniform(name):
    flat = jnp.full((2, 3, 3), 4.0)
    np.testing.assert_allclose(SOLVERS[name](flat, everyone(flat)), [[1 / 3] * 3] * 2, rtol=1e-5)


def test_result_is_invariant_to_the_scale_of_the_payoffs():
    sigma = SOLVERS["omwu"](BIASED_RPS, everyone(BIASED_RPS))
    scaled = SOLVERS["omwu"](100.0 * BIASED_RPS + 5.0, everyone(BIASED_RPS))
    np.testing.assert_allclose(sigma, scaled, atol=1e-4)


def test_vmap_equals_loop_and_jit_equals_eager():
    def solve(payoffs, active):
        return multiplicative_weights(payoffs, active, optimistic=True, num_steps=20, step_size=1.0)

    games = jnp.stack([BIASED_RPS, DOMINANCE, 0.0 * DOMINANCE])
    active = jnp.ones((3, 2, 3), dtype=bool).at[0, 0, 1].set(False)
    batched = jax.jit(jax.vmap(solve))(games, active)
    for game in range(3):
        np.testing.assert_allclose(batched[game], solve(games[game], active[game]), atol=1e-5)


def test_bad_arguments():
    with pytest.raises(AssertionError):
        META_SOLVERS["omwu"](BIASED_RPS[0], everyone(BIASED_RPS))
    with pytest.raises(ValueError, match="num_steps=0"):
        multiplicative_weights(BIASED_RPS, everyone(BIASED_RPS), optimistic=True, num_steps=0, step_size=1.0)
