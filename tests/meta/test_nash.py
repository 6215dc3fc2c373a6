"""Equilibria of known games, by regret matching+ with its certificate and by the linear program."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.meta import META_SOLVERS, duality_gap, regret_matching_plus, zero_sum_equilibrium
from gems_jax.meta.nash import match_values

RPS = np.array([[0.0, -1, 1], [1, 0, -1], [-1, 1, 0]])
BIASED_RPS = np.array([[0.0, -1, 3], [1, 0, -2], [-3, 2, 0]])
PENNIES = np.array([[2.0, -1], [-1, 1]])
DOMINANCE = np.array([[0.0, -1, -1], [1, 0, -1], [1, 1, 0]])
KNOWN = [
    (RPS, [1 / 3] * 3, [1 / 3] * 3, 0.0),
    (BIASED_RPS, [1 / 3, 1 / 2, 1 / 6], [1 / 3, 1 / 2, 1 / 6], 0.0),
    (PENNIES, [0.4, 0.6], [0.4, 0.6], 0.2),
    (DOMINANCE, [0, 0, 1], [0, 0, 1], 0.0),
    (np.array([[1.0, 2], [0, 1]]), [1, 0], [1, 0], 1.0),
]


def zero_sum(matrix):
    matrix = jnp.asarray(matrix, jnp.float32)
    return jnp.stack([matrix, -matrix])


def everyone(payoffs):
    return jnp.ones(payoffs.shape[:2], dtype=bool)


def antisymmetric(seed, size):
    draws = np.random.default_rng(seed).uniform(-1, 1, (size, size))
    matrix = (draws - draws.T) / 2
    return matrix / np.abs(matrix).max()


@pytest.mark.parametrize(("matrix", "row", "column", "value"), KNOWN)
def test_linear_program(matrix, row, column, value):
    x, y, v = zero_sum_equilibrium(matrix)
    np.testing.assert_allclose(x, row, atol=1e-9)
    np.testing.assert_allclose(y, column, atol=1e-9)
    np.testing.assert_allclose(v, value, atol=1e-9)
    sigma = META_SOLVERS["nash_lp"](zero_sum(matrix), jnp.ones((2, len(matrix)), bool))
    np.testing.assert_allclose(sigma, [row, column], atol=1e-6)


@pytest.mark.parametrize(("matrix", "row", "column", "value"), KNOWN)
def test_regret_matching_plus(matrix, row, column, value):
    payoffs = zero_sum(matrix)
    sigma, gap, _ = jax.jit(regret_matching_plus)(payoffs, everyone(payoffs))
    assert 0 <= float(gap) <= 1e-4 * np.abs(matrix).max()
    np.testing.assert_allclose(gap, duality_gap(payoffs, sigma, everyone(payoffs)), atol=1e-7)
    np.testing.assert_allclose(sigma, [row, column], atol=1e-3)
    np.testing.assert_allclose(sigma[0] @ payoffs[0] @ sigma[1], value, atol=1e-4 * np.abs(matrix).max())


@pytest.mark.parametrize("size", [3, 10, 40])
def test_the_gap_of_random_games(size):
    """The certificate is the gap itself, not an estimate of it."""
    payoffs = jnp.stack([zero_sum(antisymmetric(seed, size)) for seed in range(4)])
    active = jnp.ones(payoffs.shape[:3], bool)
    sigma, gap, _ = jax.jit(jax.vmap(regret_matching_plus))(payoffs, active)
    assert float(gap.max()) <= 1e-4
    x, y = np.asarray(sigma[:, 0], np.float64), np.asarray(sigma[:, 1], np.float64)
    matrix = np.asarray(payoffs[:, 0], np.float64)
    by_hand = np.einsum("gij,gj->gi", matrix, y).max(1) - np.einsum("gi,gij->gj", x, matrix).min(1)
    np.testing.assert_allclose(gap, by_hand, atol=2e-7)
    for game in range(4):  # the value of an antisymmetric game is 0, and the linear program agrees
        np.testing.assert_allclose(zero_sum_equilibrium(matrix[game])[2], 0.0, atol=1e-8)


@pytest.mark.parametrize("tolerance", [1e-2, 1e-3, 1e-4])
def test_the_solver_stops_at_the_tolerance(tolerance):
    """The gap is what both players can gain, by hand; the value is within it of the linear program's."""
    matrix = 5.0 * np.random.default_rng(1).uniform(-1, 1, (12, 12))
    payoffs = zero_sum(matrix)
    solve = jax.jit(regret_matching_plus, static_argnames=("num_steps", "check_every"))
    sigma, gap, steps = solve(payoffs, everyone(payoffs), tolerance=tolerance)
    x, y = np.asarray(sigma, np.float64)
    value, least = x @ matrix @ y, tolerance * np.abs(matrix).max()
    gains = (matrix @ y).max() - value, value - (x @ matrix).min()
    np.testing.assert_allclose(gap, sum(gains), atol=5e-6)
    assert min(gains) >= -1e-6 and sum(gains) <= least + 5e-6
    assert abs(value - zero_sum_equilibrium(matrix)[2]) <= least
    assert 0 < int(steps) < 20_000 and int(steps) % 50 == 0
    # 50 steps earlier the gap was still too large
    if int(steps) > 50:
        assert float(solve(payoffs, everyone(payoffs), num_steps=int(steps) - 50, tolerance=0.0).gap) > least


def test_a_solution_is_a_start():
    """A double oracle until nothing is added: starting from the last solution takes fewer steps to the same gaps."""
    matrix, tolerance = antisymmetric(0, 20), 1e-4
    payoffs, slots = zero_sum(matrix), jnp.arange(20)
    solve = jax.jit(regret_matching_plus)
    rows, columns, last, steps = [0], [0], None, {"cold": 0, "warm": 0}
    for _ in range(20):
        active = jnp.stack([jnp.isin(slots, jnp.asarray(chosen)) for chosen in (rows, columns)])
        cold = solve(payoffs, active, tolerance=tolerance)
        warm = cold if last is None else solve(payoffs, active, tolerance=tolerance, start=last)
        for name, found in (("cold", cold), ("warm", warm)):
            steps[name] += int(found.steps)
            np.testing.assert_allclose(found.gap, duality_gap(payoffs, found.sigma, active), atol=1e-6)
            assert float(found.gap) <= tolerance and not np.asarray(found.sigma)[~np.asarray(active)].any()
        last = warm.sigma
        rows.append(int(jnp.argmax(payoffs[0] @ last[1])))
        columns.append(int(jnp.argmin(last[0] @ payoffs[0])))
    again = solve(payoffs, active, tolerance=tolerance, start=last)
    assert int(again.steps) == 0 and np.allclose(again.sigma, last)
    assert 0 < steps["warm"] < 0.8 * steps["cold"], steps


def test_unequal_numbers_of_strategies():
    """A 2 x 3 game in a 4 x 4 tensor, with garbage around it."""
    matrix = np.array([[3.0, -1, 0], [-2, 1, 2]])
    payoffs = jnp.full((2, 4, 4), jnp.nan).at[:, 1:3, :3].set(zero_sum(matrix))
    active = jnp.zeros((2, 4), bool).at[0, 1:3].set(True).at[1, :3].set(True)
    x, y, value = zero_sum_equilibrium(matrix)
    for name in ("nash", "nash_lp"):
        sigma = jax.jit(META_SOLVERS[name])(payoffs, active)
        np.testing.assert_allclose(sigma, [[0, *x, 0], [*y, 0]], atol=1e-3)
        assert float(duality_gap(payoffs, sigma, active)) <= 3e-4
    np.testing.assert_allclose(value, (3 * 1 - 2) / 7, atol=1e-9)  # mixes the first two columns


def test_host_solvers_under_jit_and_vmap():
    games = jnp.stack([zero_sum(BIASED_RPS), zero_sum(DOMINANCE)])
    active = jnp.ones((2, 2, 3), bool)
    together = jax.jit(jax.vmap(META_SOLVERS["nash_lp"]))(games, active)
    alone = [META_SOLVERS["nash_lp"](game, mask) for game, mask in zip(games, active, strict=True)]
    np.testing.assert_allclose(together, jnp.stack(alone), atol=1e-7)


def test_bad_arguments():
    dilemma = jnp.array([[[3.0, 0.0], [5.0, 1.0]], [[3.0, 5.0], [0.0, 1.0]]])
    with pytest.raises(ValueError, match="zero-sum game, got 2 players whose payoffs add up to as much as 6"):
        META_SOLVERS["nash_lp"](dilemma, everyone(dilemma))
    with pytest.raises(ValueError, match="num_steps=0"):
        regret_matching_plus(dilemma, everyone(dilemma), num_steps=0)
    with pytest.raises(ValueError, match="check_every=0"):
        regret_matching_plus(dilemma, everyone(dilemma), check_every=0)
    with pytest.raises(AssertionError):
        META_SOLVERS["nash"](dilemma[0], everyone(dilemma))


def values_of(payoffs):
    """Values [2, K] of a two-player game as a function of the mixtures."""
    return lambda sigma: jnp.stack([payoffs[0] @ sigma[1], sigma[0] @ payoffs[1]])


@pytest.mark.parametrize("matrix", [RPS, BIASED_RPS / 3, DOMINANCE], ids=["rps", "biased", "dominance"])
def test_values_alone_are_matched_as_payoffs_are(matrix):
    """Step by step: both begin with the mean of their start and uniform mixtures as regrets."""
    payoffs = zero_sum(matrix)
    start = jnp.asarray([[0.7, 0.2, 0.1], [0.1, 0.1, 0.8]])
    expected, _, steps = regret_matching_plus(payoffs, everyone(payoffs), 100, tolerance=0.0, start=start)
    assert int(steps) == 100
    got = jax.jit(lambda: match_values(values_of(payoffs), everyone(payoffs), start, 100))()
    np.testing.assert_allclose(got, expected, atol=2e-5)


@pytest.mark.parametrize("size", [3, 10, 30])
def test_values_alone_are_enough(size):
    """The gap of random zero-sum games falls below a thousandth of the largest payoff, with values in [0, 1] too."""
    payoffs = zero_sum(np.random.default_rng(size).uniform(-1, 1, (size, size)))
    active = everyone(payoffs).at[0, -1].set(False)
    scaled = values_of((payoffs + 1.0) / 2.0)
    start = jax.random.dirichlet(jax.random.key(size), jnp.ones(size), (2,))
    sigma = jax.jit(lambda: match_values(scaled, active, start, 3000))()
    np.testing.assert_allclose(sigma.sum(axis=1), 1.0, rtol=1e-5)
    assert sigma[0, -1] == 0.0 and float(duality_gap(payoffs, sigma, active)) < 1e-3


def test_a_row_that_two_players_share_finds_the_symmetric_equilibrium():
    matrix = jnp.asarray(BIASED_RPS, jnp.float32)
    got = match_values(
        lambda sigma: (matrix @ sigma[0])[None], jnp.ones((1, 3), bool), jnp.asarray([[1.0, 0, 0]]), 2000
    )
    np.testing.assert_allclose(got, [[1 / 3, 1 / 2, 1 / 6]], atol=5e-3)
