"""Elo against closed forms, a slow independent fit, and intervals that cover."""

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import beta

from gems_jax.meta.elo import SCALE, credit_shutouts, find_links, fit_elo, rate_entrants


def table(*entries: tuple[int, int, float, float], count: int = 2) -> np.ndarray:
    """Points of pairs (i, j, points of i, points of j)."""
    points = np.zeros((count, count))
    for i, j, mine, theirs in entries:
        points[i, j], points[j, i] = mine, theirs
    return points


def expected(ratings: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + 10.0 ** ((ratings[None, :] - ratings[:, None]) / 400.0))


@pytest.mark.parametrize(
    ("mine", "theirs", "difference"),
    [(75.0, 25.0, 190.8485), (64.0, 36.0, 99.9509), (500.0, 500.0, 0.0), (10.0, 1.0, 400.0)],
)
def test_two_players(mine: float, theirs: float, difference: float) -> None:
    """The difference is 400 log10(p / (1 - p)): 75 % of the points are 190.85."""
    rating = fit_elo(table((0, 1, mine, theirs)))
    np.testing.assert_allclose(rating, [difference / 2, -difference / 2], atol=1e-3)


def test_all_draws_are_equal() -> None:
    points = np.full((5, 5), 20.0)
    found = rate_entrants(points, np.stack([points] * 10))
    np.testing.assert_allclose([found.rating, found.low, found.high], 0.0, atol=1e-9)
    assert not found.group.any()


def test_a_transitive_triple() -> None:
    """Scores of 10/11 to 1/11 and 100/101 to 1/101 are 400 apart at each step, and the fit is exact."""
    points = table((0, 1, 100.0, 10.0), (1, 2, 100.0, 10.0), (0, 2, 1000.0, 10.0), count=3)
    np.testing.assert_allclose(fit_elo(points), [400.0, 0.0, -400.0], atol=1e-6)
    np.testing.assert_allclose(fit_elo(np.stack([points, points.T])), [[400, 0, -400], [-400, 0, 400]], atol=1e-6)


def test_the_maximum_of_the_likelihood() -> None:
    """A table that no ratings explain, against a general optimizer."""
    generator = np.random.default_rng(3)
    points = generator.integers(1, 50, (6, 6)).astype(float)
    np.fill_diagonal(points, 0.0)
    best = minimize(lambda x: -(points * np.log(expected(x * SCALE))).sum(), np.zeros(6), tol=1e-10).x * SCALE
    np.testing.assert_allclose(fit_elo(points), best - best.mean(), atol=1e-2)


def test_shutouts_are_bounds() -> None:
    """The last of three never scored: a bound, credited with the 95 % limit 1 - 0.05^(1/N), on the others' scale."""
    points = table((0, 1, 60.0, 40.0), (0, 2, 100.0, 0.0), (1, 2, 100.0, 0.0), count=3)
    np.testing.assert_array_equal(find_links(points), [[1, 1, 0], [1, 1, 0], [0, 0, 1]])
    credited = credit_shutouts(points, find_links(points))
    np.testing.assert_allclose(credited[2, :2] / 100.0, 1.0 - 0.05**0.01)
    np.testing.assert_allclose(credited + credited.T, points + points.T)
    found = rate_entrants(points, np.stack([points] * 40))
    assert list(found.group) == [0, 0, 1]
    np.testing.assert_allclose(found.rating[:2].mean(), 0.0, atol=1e-9)
    assert found.low[2] == -np.inf and -700 < found.rating[2] < -500 and np.isfinite(found.low[:2]).all()
    # two entrants: the strongest of equal groups has rating 0, and the bound is exactly that of the rate
    one = rate_entrants(table((0, 1, 50.0, 0.0)), np.stack([table((0, 1, 50.0, 0.0))] * 10))
    rate = 1.0 - 0.05 ** (1 / 50)
    np.testing.assert_allclose(one.rating, [0.0, 400.0 * np.log10(rate / (1.0 - rate))], atol=1e-6)
    other = rate_entrants(table((0, 1, 0.0, 50.0)), np.stack([table((0, 1, 0.0, 50.0))] * 10))
    np.testing.assert_allclose(other.rating, one.rating[::-1], atol=1e-6)


def test_a_single_point_does_not_bound_an_interval() -> None:
    """Half of the resamplings of one point do not contain it, so the link is not counted, but the point is."""
    points = table((0, 1, 99.0, 1.0))
    replicates = np.stack([table((0, 1, 100.0 - k, float(k))) for k in (0, 1, 2, 0, 1, 1, 0, 2, 3, 1)])
    found = rate_entrants(points, replicates)
    assert list(found.group) == [0, 1] and found.low[1] == -np.inf
    rate = beta.ppf(0.95, 2.0, 99.0)
    np.testing.assert_allclose(found.rating[1], 400.0 * np.log10(rate / (1.0 - rate)), atol=1e-6)


def test_chains_of_points_link_what_never_met_a_win() -> None:
    """0 beats 1 beats 2 beats 0: linked, although every pair is a shutout."""
    cycle = table((0, 1, 10.0, 0.0), (1, 2, 10.0, 0.0), (0, 2, 0.0, 10.0), count=3)
    found = rate_entrants(cycle, np.stack([cycle] * 5))
    assert not found.group.any()
    np.testing.assert_allclose(found.rating, 0.0, atol=1e-9)


def test_intervals_cover() -> None:
    """Of 60 arenas of three entrants with known ratings, about 95 % of the intervals contain them."""
    ratings, generator, hits = np.asarray([120.0, 10.0, -130.0]), np.random.default_rng(0), []
    upper = np.triu(np.ones((3, 3)), 1)
    for _ in range(60):
        mine = generator.binomial(200, expected(ratings)) * upper
        points = mine + ((200 - mine) * upper).T
        again = generator.binomial(200, points / 200, (200, 3, 3)) * upper
        found = rate_entrants(points, again + np.swapaxes((200 - again) * upper, 1, 2))
        hits.append((found.low <= ratings) & (ratings <= found.high))
    assert 0.88 < np.mean(hits) < 0.995


def test_every_pair_must_play() -> None:
    points = table((0, 1, 1.0, 1.0), count=3)
    with pytest.raises(ValueError, match="games of every pair"):
        rate_entrants(points, points[None])
