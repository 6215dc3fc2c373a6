"""Games restricted for one side only: by hand, against the normal form, and by no-regret play."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game
from gems_jax.extensive.restricted import (
    best_reply_value,
    inner_gap,
    opponent_sums,
    plan_table,
    solve_by_no_regret,
    solve_restricted,
)
from gems_jax.extensive.sequence_form import group_by_infoset
from gems_jax.extensive.values import best_response_values, build_tree, expected_returns, reach, uniform_table
from gems_jax.meta import zero_sum_equilibrium

KUHN, SHARED = build_tree(make_game("kuhn_poker")), build_tree(make_game("kuhn_poker", shared=True))
RPS = build_tree(make_game("rock_paper_scissors"))


def sums_of(tree, tables, population):
    return jax.vmap(lambda table: opponent_sums(tree, table, population))(tables)


def random_tables(tree, count, seed=0):
    draws = jax.random.uniform(jax.random.key(seed), (count, *tree.legal.shape), minval=0.01)
    draws = draws * tree.legal[None]
    return draws / draws.sum(axis=-1, keepdims=True)


def pure_tables(tree, seat):
    own = np.nonzero(np.asarray(tree.seat) == seat)[0]
    tables = []
    for actions in itertools.product(range(2), repeat=len(own)):
        table = np.array(uniform_table(tree))
        table[own] = np.eye(2)[list(actions)]
        tables.append(table)
    return jnp.asarray(np.stack(tables))


@pytest.mark.parametrize("population", [0, 1])
def test_sums_give_the_opponent_s_return(population):
    mine, theirs = random_tables(KUHN, 2)
    pair = jnp.stack([mine, theirs] if population == 0 else [theirs, mine])
    earned = expected_returns(KUHN, pair)[1 - population]
    plan = reach(KUHN, theirs)
    sums = opponent_sums(KUHN, mine, population)
    np.testing.assert_allclose(sums @ plan, earned, atol=1e-6)
    best = best_response_values(KUHN, jnp.stack([mine, mine])[:, None], jnp.ones((2, 1)))[1 - population]
    np.testing.assert_allclose(best_reply_value(KUHN, sums), best, atol=1e-6)
    assert not np.asarray(group_by_infoset(KUHN, sums))[np.asarray(KUHN.seat) == population].any()


def test_one_population_for_both_takes_either_seat():
    mine, theirs = random_tables(SHARED, 2)
    first, second = (expected_returns(SHARED, jnp.stack(pair)) for pair in ((mine, theirs), (theirs, mine)))
    sums = opponent_sums(SHARED, mine, 0)
    np.testing.assert_allclose(sums @ reach(SHARED, theirs), (first[1] + second[0]) / 2, atol=1e-6)


def test_rock_paper_scissors_by_hand():
    """All three: 1/3 each. Rock and paper only: a third of rock, since -x = 2x - 1; the opponent takes no rock."""
    tables = jnp.broadcast_to(jnp.eye(3)[:, None], (3, 2, 3))
    sums = np.asarray(sums_of(RPS, tables, 0))
    sigma, plan = solve_restricted(RPS, sums)
    np.testing.assert_allclose(sigma, [1 / 3] * 3, atol=1e-8)
    theirs = np.asarray(RPS.seat) == 1
    np.testing.assert_allclose(
        np.asarray(plan_table(RPS, jnp.asarray(plan, jnp.float32)))[theirs], [[1 / 3] * 3], atol=1e-6
    )
    sigma, plan = solve_restricted(RPS, sums[:2])
    np.testing.assert_allclose(sigma, [1 / 3, 2 / 3], atol=1e-8)
    np.testing.assert_allclose(np.asarray(group_by_infoset(RPS, plan))[theirs], [[0, 2 / 3, 1 / 3]], atol=1e-8)


@pytest.mark.parametrize("population", [0, 1])
def test_the_linear_program_agrees_with_the_normal_form(population):
    tables = random_tables(KUHN, 4, seed=population)
    sums = sums_of(KUHN, tables, population)
    sigma, plan = solve_restricted(KUHN, np.asarray(sums))
    plans = jax.vmap(lambda table: reach(KUHN, table))(pure_tables(KUHN, 1 - population))
    matrix = -np.asarray(jnp.einsum("kq,sq->ks", sums, plans, precision="highest"), np.float64)
    _, _, value = zero_sum_equilibrium(matrix)  # 4 x 64
    np.testing.assert_allclose((sigma @ matrix).min(), value, atol=1e-6)
    gap = inner_gap(KUHN, sums, jnp.ones(4, bool), jnp.asarray(sigma, jnp.float32), jnp.asarray(plan, jnp.float32))
    np.testing.assert_allclose(gap, 0, atol=1e-6)


@pytest.mark.parametrize(("rule", "bar"), [("mwu", 0.06), ("rm_plus", 5e-3)])
def test_no_regret_approaches_it(rule, bar):
    """With garbage in a slot that is not active; the gap is a certificate of both averages."""
    tables = random_tables(KUHN, 5)
    sums = sums_of(KUHN, tables, 0)
    active = jnp.array([True, True, False, True, True])
    solve = jax.jit(solve_by_no_regret, static_argnames=("rule", "num_steps"))
    sigma, plan = solve(KUHN, sums.at[2].set(jnp.nan), active, rule=rule, num_steps=1000)
    exact, _ = solve_restricted(KUHN, np.asarray(sums)[np.asarray(active)])
    best = best_reply_value(KUHN, jnp.asarray(exact, jnp.float32) @ sums[active])
    reached = best_reply_value(KUHN, sigma @ sums)
    assert -1e-6 <= float(reached - best) <= bar
    assert 0 <= float(inner_gap(KUHN, sums, active, sigma, plan)) <= bar
    assert float(sigma[2]) == 0.0
    table = plan_table(KUHN, plan)
    np.testing.assert_allclose(group_by_infoset(KUHN, reach(KUHN, table)), group_by_infoset(KUHN, plan), atol=1e-5)


@pytest.mark.parametrize("rule", ["mwu", "rm_plus"])
def test_weights_move_towards_whoever_beats_the_learner(rule):
    """Rock or paper against anybody: the first reply, paper, loses nothing to paper and beats rock."""
    tables = jnp.broadcast_to(jnp.eye(3)[:2, None], (2, 2, 3))
    sums = sums_of(RPS, tables, 0)
    start, _ = solve_by_no_regret(RPS, sums, jnp.ones(2, bool), rule, 1)
    np.testing.assert_allclose(start, [0.5, 0.5])
    sigma, _ = solve_by_no_regret(RPS, sums, jnp.ones(2, bool), rule, 3)
    assert float(sigma[1]) > float(sigma[0])
    with pytest.raises(ValueError, match="unknown no-regret rule 'hedge'; known: mwu, rm_plus"):
        solve_by_no_regret(RPS, sums, jnp.ones(2, bool), "hedge", 1)
