"""The error budget by held-out episodes: its intervals cover the exact terms at their stated rate."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game
from gems_jax.evaluate.error_budget import error_budget
from gems_jax.evaluate.sampled_budget import Candidates, MeasuredValues, sampled_budget
from gems_jax.extensive.infosets import tabular_policies
from gems_jax.extensive.values import best_response_policy, build_tree

REPEATS, EPISODES, CONFIDENCE = 100, 150, 0.9
TERMS = ("best_response_gap", "oracle_gap", "newcomer_gain", "meta_regret", "monte_carlo_error", "total")


def tables_like(tree, seed, shape):
    draws = jax.random.uniform(jax.random.key(seed), (*shape, *tree.legal.shape)) ** 5
    draws = draws * tree.legal[(None,) * len(shape)]
    return draws / draws.sum(axis=-1, keepdims=True)


@pytest.fixture(scope="module", params=[pytest.param("kuhn_poker", marks=pytest.mark.slow), "biased_rps"])
def measured(request):
    """(exact budget, sampled ones [REPEATS]). Exploiters are exact best responses: theirs is the largest bound."""
    game = make_game(request.param)
    tree = build_tree(game)
    anchors, pool = tables_like(tree, 0, (2, 4)), tables_like(tree, 1, (2, 5))
    active = jnp.array([[True, True, True, False]] * 2)
    sigma = jnp.array([[0.2, 0.5, 0.3, 0.0], [0.6, 0.1, 0.3, 0.0]])
    chosen, values = jnp.array([2, -1]), jnp.array([[0.3, -0.2, 0.1, 9.0], [0.0, 0.5, -0.4, 9.0]])
    exact = error_budget(
        tree,
        tables_anchors=anchors,
        active=active,
        sigma=sigma,
        tables_pool=pool,
        chosen=chosen,
        estimated_values=values,
    )
    best = jnp.stack([best_response_policy(tree, anchors, sigma, player) for player in range(2)])[:, None]
    policies = {
        "anchors": tabular_policies(game, anchors),
        "pool": Candidates(tabular_policies(game, pool), chosen),
        "exploiters": tabular_policies(game, best),
    }

    def one(key):
        return sampled_budget(
            key,
            game,
            **policies,
            active=active,
            sigma=sigma,
            estimate=MeasuredValues(values),
            episodes=EPISODES,
            confidence=CONFIDENCE,
        )

    found = jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=10))(jax.random.split(jax.random.key(2), REPEATS))
    return exact, found


def inside(found, exact, shrunk=1.0):
    """[REPEATS], whether all terms of all players lie in their intervals, which may be shrunk around the estimate."""
    covered = []
    for term in TERMS:
        bounds, true = jax.tree.map(np.asarray, getattr(found, term)), np.asarray(getattr(exact, term))
        low, high = (bounds.estimate + shrunk * (side - bounds.estimate) for side in (bounds.low, bounds.high))
        covered.append(((true >= low - 1e-5) & (true <= high + 1e-5)).all(axis=1))
    return np.stack(covered).all(axis=0)


def test_intervals_cover_at_their_stated_rate(measured):
    """At a true rate of 0.9 five standard deviations below it are 0.75: by chance once in three million."""
    exact, found = measured
    assert inside(found, exact).mean() >= CONFIDENCE - 5 * np.sqrt(CONFIDENCE * (1 - CONFIDENCE) / REPEATS)


def test_they_are_not_idle(measured):
    """A fifth of their width does not cover, and they are narrower than the returns are wide."""
    exact, found = measured
    assert inside(found, exact, shrunk=0.2).mean() < 0.9
    for term in ("oracle_gap", "newcomer_gain", "meta_regret", "monte_carlo_error"):
        bounds = getattr(found, term)
        assert float((bounds.high - bounds.low).mean()) < 4.0  # of returns that span 4 and 6, by 150 episodes


def test_estimates_are_near(measured):
    exact, found = measured
    for term in ("meta_regret", "total"):
        spread = np.asarray(getattr(found, term).estimate).mean(axis=0) - np.asarray(getattr(exact, term))
        assert (np.abs(spread) < 0.2).all()  # a maximum of noisy means is biased upwards, by less than that


def test_the_exploiter_bounds_from_below_only(measured):
    exact, found = measured
    low = np.asarray(found.best_response_gap.low)
    assert (low <= np.asarray(exact.best_response_gap) + 1e-5).all(axis=1).mean() >= 0.9
    assert (found.best_response_gap.high > 0.5).all()


def test_what_it_cost(measured):
    # 4 anchors, 5 candidates, 1 exploiter, for two players, and the joint episodes
    assert (measured[1].episodes == (2 * 10 + 1) * EPISODES).all()
