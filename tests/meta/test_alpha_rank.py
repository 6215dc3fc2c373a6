"""alpha-Rank: closed forms, OpenSpiel's numbers, masks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.meta import META_SOLVERS, alpha_rank, alpha_rank_single
from gems_jax.meta.alpha_rank import fixation_probability, profile_marginals, stationary_distribution

DOMINANCE = np.array([[0.0, -1, -1], [1, 0, -1], [1, 1, 0]])


def rps(a, b, c):
    return np.array([[0.0, -a, c], [a, 0, -b], [-c, b, 0]])


def loser():
    """Rock, paper, scissors, and a fourth strategy that loses to all of them."""
    matrix = np.zeros((4, 4))
    matrix[:3, :3], matrix[3, :3], matrix[:3, 3] = rps(1, 1, 1), -1, 1
    return matrix


@pytest.mark.parametrize(
    ("matrix", "options", "expected"),
    [
        (rps(1, 1, 1), {"alpha": 0.1}, [1 / 3] * 3),
        (rps(1, 1, 1), {"epsilon": 0.2}, [1 / 3] * 3),
        (rps(1, 1, 1), {}, [1 / 3] * 3),
        (rps(1, 2, 3), {"alpha": 0.1}, [0.512398, 0.281738, 0.205864]),
        (rps(1, 2, 3), {"alpha": 1.0}, [0.363953, 0.320568, 0.315479]),
        (rps(1, 2, 3), {"alpha": 10.0}, [1 / 3] * 3),
        (rps(1, 2, 3), {"alpha": 1000.0}, [1 / 3] * 3),
        (rps(1, 2, 3), {}, [1 / 3] * 3),
        (rps(1, 1, 2), {"alpha": 0.1}, [0.392187, 0.392177, 0.215636]),
        (rps(1, 1, 2), {"alpha": 1.0}, [0.347126, 0.347126, 0.305748]),
        (DOMINANCE, {"alpha": 0.1}, [2.77e-5, 8.32e-5, 0.999889]),
        (DOMINANCE, {"epsilon": 0.1}, [0.052632, 0.129187, 0.818182]),
        (DOMINANCE, {"epsilon": 0.01}, [0.005025, 0.014777, 0.980198]),
        (DOMINANCE, {}, [0, 0, 1]),
        (loser(), {}, [1 / 3, 1 / 3, 1 / 3, 0]),
    ],
)
def test_single_population(matrix, options, expected):
    np.testing.assert_allclose(alpha_rank_single(matrix, **options), expected, atol=1e-5, rtol=0)


def test_two_populations():
    pennies = np.array([[2.0, -1], [-1, 1]])
    np.testing.assert_allclose(alpha_rank(np.stack([pennies, -pennies])), np.full((2, 2), 0.25), atol=1e-9)
    corner = np.array([[1.0, 2], [0, 1]])
    np.testing.assert_allclose(alpha_rank(np.stack([corner, -corner])), [[1, 0], [0, 0]], atol=1e-5)
    # the chain of two populations keeps mass on the strategy that loses to all: a property, not a fault
    kept = [0.314815] * 3 + [0.055556]
    for masses in profile_marginals(alpha_rank(np.stack([loser(), -loser()]))):
        np.testing.assert_allclose(masses, kept, atol=1e-5)


@pytest.mark.parametrize("options", [{"alpha": 0.5}, {"alpha": 20.0}, {"epsilon": 0.05}])
def test_open_spiel_agrees(options):
    theirs = pytest.importorskip("open_spiel.python.egt.alpharank")
    rng = np.random.default_rng(0)
    single = rng.normal(size=(4, 4))
    pair = [rng.normal(size=(3, 4)), rng.normal(size=(3, 4))]
    for tables, ours in (
        ([single], alpha_rank_single(single, **options)),
        (pair, alpha_rank(np.stack(pair), **options).ravel()),
    ):
        with np.errstate(all="ignore"):
            *_, pi, _, _ = theirs.compute(
                tables,
                alpha=options.get("alpha", 1.0),
                use_inf_alpha="epsilon" in options,
                inf_alpha_eps=options.get("epsilon", 0.01),
            )
        np.testing.assert_allclose(ours, pi, atol=1e-8)


def test_three_players_take_turns():
    """Everybody prefers strategy 1 whatever the others do: all the mass there."""
    payoffs = np.stack([np.moveaxis(np.broadcast_to([0.0, 1.0], (2, 2, 2)), 2, p) for p in range(3)])
    expected = np.zeros((2, 2, 2))
    expected[1, 1, 1] = 1
    np.testing.assert_allclose(alpha_rank(payoffs), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["alpha_rank", "alpha_rank_single"])
def test_padding_to_twice_the_size_changes_nothing(name):
    draws = np.random.default_rng(1).normal(size=(4, 4)).astype(np.float32)
    game = jnp.stack([draws, draws.T])
    slots = np.array([0, 2, 5, 6])
    large = jnp.asarray(np.random.default_rng(2).normal(size=(2, 8, 8)), jnp.float32)
    large = large.at[:, slots[:, None], slots[None, :]].set(game)
    active = jnp.zeros((2, 8), bool).at[:, slots].set(True)
    small = META_SOLVERS[name](game, jnp.ones((2, 4), bool))
    padded = jax.jit(META_SOLVERS[name])(large, active)
    np.testing.assert_allclose(padded[:, slots], small, atol=1e-6)
    assert not np.asarray(padded)[:, ~np.isin(np.arange(8), slots)].any()
    np.testing.assert_allclose(small.sum(axis=1), 1, atol=1e-6)


def test_fixation_probability():
    """A neutral mutant takes over one of m; a certain winner nearly always; and nothing overflows."""
    rho = fixation_probability(alpha=1.0, population_size=50)
    np.testing.assert_allclose(rho(np.array([0.0, 1e-15])), 1 / 50)
    np.testing.assert_allclose(rho(np.array([1e-6, -1e-6])), 1 / 50, rtol=1e-4)
    z = np.array([0.3, -0.3, 2.0, -2.0])
    np.testing.assert_allclose(rho(z), (1 - np.exp(-z)) / (1 - np.exp(-50 * z)), rtol=1e-10)
    np.testing.assert_allclose(rho(np.array([1e4, -1e4])), [1, 0], atol=1e-12)


def test_bad_arguments():
    with pytest.raises(ValueError, match="alpha or epsilon"):
        alpha_rank_single(DOMINANCE, alpha=1.0, epsilon=0.1)
    with pytest.raises(ValueError, match="asymmetric one. Use alpha_rank"):
        META_SOLVERS["alpha_rank_single"](jnp.stack([jnp.eye(2), 2 * jnp.eye(2)]), jnp.ones((2, 2), bool))
    with pytest.raises(ValueError, match="shape \\(2, 2, 1\\)"):
        META_SOLVERS["alpha_rank_single"](jnp.zeros((2, 2, 2)), jnp.ones((2, 2), bool).at[1, 0].set(False))
    with pytest.raises(np.linalg.LinAlgError):
        stationary_distribution(np.eye(3))  # nobody ever moves: every distribution is stationary
