"""Payoff tables: exact entries, measured entries, and only the new ones."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game
from gems_jax.extensive.infosets import tabular_policies
from gems_jax.extensive.values import build_tree, expected_returns
from gems_jax.psro.payoffs import (
    PayoffTable,
    fill_exact,
    fill_sampled,
    meta_game,
    new_profiles,
    new_table,
    solve_payoffs,
    widen_table,
)
from gems_jax.types import Struct, static_field

KUHN = make_game("kuhn_poker")
SHARED = make_game("kuhn_poker", shared=True)


def random_tables(game, populations, slots):
    tree = build_tree(game)
    draws = jax.random.uniform(jax.random.key(0), (populations, slots, *tree.legal.shape), minval=0.01)
    draws = draws * tree.legal[None, None]
    return draws / draws.sum(axis=-1, keepdims=True)


def by_hand(game, tables, owners, profiles):
    tree = build_tree(game)
    played = [[tables[owner, slot] for owner, slot in zip(owners, profile, strict=True)] for profile in profiles]
    return np.stack([expected_returns(tree, jnp.stack(rows)) for rows in played])


@pytest.mark.parametrize(("game", "populations"), [(KUHN, 2), (SHARED, 1)])
def test_exact_entries(game, populations):
    """Two policies, then a third: the old entries are left alone, the new ones are the expected returns."""
    tables = random_tables(game, populations, 4)
    policies = tabular_policies(game, tables)
    active = np.array([[True, True, True, False]] * populations)
    fresh = np.array([[False, False, True, False]] * populations)
    marked = PayoffTable(jnp.full((2, 4, 4), 7.0), jnp.zeros((4, 4), jnp.int32))
    table, cost = fill_exact(game, marked, policies, active, fresh)
    profiles = new_profiles(game, active, fresh)
    assert len(profiles) == 5 and cost.tree_walks == 5
    expected = by_hand(game, tables, game.population_of_player, profiles)
    np.testing.assert_allclose(np.asarray(table.values)[:, profiles[:, 0], profiles[:, 1]].T, expected, atol=1e-6)
    np.testing.assert_array_equal(table.values[:, :2, :2], 7.0)


def test_three_players():
    payoffs = np.random.default_rng(0).normal(size=(3, 2, 2, 2)).astype(np.float32)
    game = make_game("matrix", payoffs=payoffs)
    tables = random_tables(game, 3, 2)
    active, fresh = np.ones((3, 2), bool), np.array([[False, True]] * 3)
    table, cost = fill_exact(game, new_table(game, 2), tabular_policies(game, tables), active, fresh)
    profiles = new_profiles(game, active, fresh)
    assert len(profiles) == cost.tree_walks == 7
    expected = by_hand(game, tables, (0, 1, 2), profiles)
    np.testing.assert_allclose(np.asarray(table.values)[(slice(None), *profiles.T)].T, expected, atol=1e-6)


def test_measured_entries():
    """Within five standard errors of the exact ones (sd at most 2): fails once in 4e5 for 4 entries."""
    tables, episodes = random_tables(KUHN, 2, 2), 4096
    policies, active = tabular_policies(KUHN, tables), np.ones((2, 2), bool)
    empty = new_table(KUHN, 2)
    exact, _ = fill_exact(KUHN, empty, policies, active, active)
    measured, cost = fill_sampled(jax.random.key(0), KUHN, empty, policies, active, active, episodes)
    np.testing.assert_allclose(measured.values, exact.values, atol=5 * 2 / np.sqrt(episodes))
    np.testing.assert_allclose(measured.values[0], -measured.values[1], atol=1e-6)
    np.testing.assert_array_equal(measured.episodes, episodes)
    assert cost.episodes == 4 * episodes and 2 * cost.episodes <= cost.env_steps <= 3 * cost.episodes
    newest = np.array([[False, True], [False, False]])
    again, cost = fill_sampled(jax.random.key(1), KUHN, measured, policies, active, newest, 16)
    np.testing.assert_array_equal(again.values[:, 0], measured.values[:, 0])
    np.testing.assert_array_equal(again.episodes, [[episodes] * 2, [16] * 2])
    assert cost.episodes == 2 * 16


def test_wider_tables_hold_the_same():
    table = PayoffTable(jnp.arange(8.0).reshape(2, 2, 2), jnp.arange(4).reshape(2, 2))
    wide = widen_table(table, 4)
    np.testing.assert_array_equal(wide.values[:, :2, :2], table.values)
    np.testing.assert_array_equal(wide.episodes[:2, :2], table.episodes)
    assert wide.values.shape == (2, 4, 4) and float(wide.values.sum()) == 28.0


def test_two_players_that_share_a_population_play_a_symmetric_game():
    tables = random_tables(SHARED, 1, 3)
    active = np.ones((1, 3), bool)
    table, _ = fill_exact(SHARED, new_table(SHARED, 3), tabular_policies(SHARED, tables), active, active)
    payoffs, mask = meta_game(SHARED, table, jnp.asarray(active))
    assert mask.shape == (2, 3)
    np.testing.assert_allclose(payoffs[0], -payoffs[0].T, atol=1e-6)
    np.testing.assert_allclose(payoffs[1], payoffs[0].T, atol=1e-6)
    one, other = (by_hand(SHARED, tables, (0, 0), [pair])[0, 0] for pair in ((0, 1), (1, 0)))
    np.testing.assert_allclose(payoffs[0, 0, 1], (one - other) / 2, atol=1e-6)
    for name in ("nash_lp", "alpha_rank"):
        sigma, gap = solve_payoffs(SHARED, name, table, jnp.asarray(active))
        assert sigma.shape == (1, 3)
        np.testing.assert_allclose(sigma.sum(), 1, atol=1e-6)
        assert name != "nash_lp" or float(gap) < 1e-6


def test_players_that_share_otherwise_are_refused():
    class Odd(Struct):
        population_of_player: tuple[int, ...] = static_field(default=(0, 0, 1))
        player_of_seat: tuple[int, ...] = static_field(default=(0, 1, 2))

    with pytest.raises(ValueError, match=r"one population per player.*got population_of_player=\(0, 0, 1\)"):
        new_table(Odd(), 2)
