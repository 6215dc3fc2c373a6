"""Exact responses: what ties, and which of the tied ones is taken."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game
from gems_jax.extensive.infosets import tables_of, tabular_policies
from gems_jax.extensive.values import best_response_values, build_tree, tied_actions, uniform_table, values_against
from gems_jax.psro.responses import Mixture, exact_oracle, exact_replies, infosets_of, novel_plan, pure_plans
from gems_jax.psro.responses import _reaches as reaches

KUHN = make_game("kuhn_poker")
RPS = make_game("rock_paper_scissors")
KEY = jax.random.key(0)


def lowest(tree):
    return np.broadcast_to(np.arange(tree.num_actions), tree.legal.shape)


@pytest.mark.parametrize(("seat", "different"), [(0, 27), (1, 64)])
def test_every_plan_of_kuhn_is_found_once(seat, different):
    """Where everything ties, one novel plan after the other: 27 plans of the first seat, 64 of the second, no more."""
    tree, own = build_tree(KUHN), infosets_of(KUHN, seat)
    tied, plans = np.asarray(tree.legal), np.zeros((0, 12), int)
    rng = np.random.default_rng(seat)
    for found in range(different + 1):
        order = np.argsort(rng.uniform(size=tree.legal.shape), axis=1)  # whatever the order
        chosen = novel_plan(tree, tied, own, plans, order)
        table = jnp.where(own[:, None], jax.nn.one_hot(chosen, 2), uniform_table(tree))
        plans = np.unique(np.concatenate([plans, pure_plans(np.asarray(reaches(tree, table[None])), own)]), axis=0)
        assert len(plans) == min(found + 1, different)


def test_the_lowest_novel_plan_comes_first():
    tree, own = build_tree(KUHN), infosets_of(KUHN, 1)  # the second seat moves once: plans are products
    rows = np.nonzero(own)[0]
    plans = np.full((2, 12), -1)
    plans[0, rows], plans[1, rows] = 0, [0, 0, 0, 0, 0, 1]
    np.testing.assert_array_equal(novel_plan(tree, np.asarray(tree.legal), own, plans, lowest(tree))[rows],
                                  [0, 0, 0, 0, 1, 0])  # fmt: skip
    # only the first and the last set tie, and two of four plans are held: 01 and 10 are free, 01 is lower
    tied = np.zeros((12, 2), bool)
    tied[:, 0] = True
    tied[rows[[0, -1]], 1] = True
    plans[1, rows] = [1, 0, 0, 0, 0, 1]
    np.testing.assert_array_equal(novel_plan(tree, tied, own, plans, lowest(tree))[rows], [0, 0, 0, 0, 0, 1])
    plans = np.stack([plans[0], plans[1], *np.full((2, 12), -1)])
    plans[2, rows], plans[3, rows] = [0, 0, 0, 0, 0, 1], [1, 0, 0, 0, 0, 0]
    np.testing.assert_array_equal(novel_plan(tree, tied, own, plans, lowest(tree))[rows], [0] * 6)  # none is free


def test_plans_of_policies():
    """Mixed policies have none, what is never reached does not count, and copies count once."""
    tree, own = build_tree(KUHN), infosets_of(KUHN, 0)
    bet = jnp.where(own[:, None], jnp.array([1.0, 0.0])[None], 0.5)
    names = np.asarray(tree.observation)[:, 7] + np.asarray(tree.observation)[:, 9] > 0  # facing a bet
    other = jnp.where((own & names)[:, None], jnp.array([0.3, 0.7])[None], bet)  # mixes where it never gets
    tables = jnp.stack([uniform_table(tree), bet, other, bet])
    plans = pure_plans(np.asarray(reaches(tree, tables)), own)
    assert plans.shape == (1, 12)
    np.testing.assert_array_equal(plans[0], np.where(own & ~names, 0, -1))


def test_ties_in_rock_paper_scissors():
    """Against uniform play everything ties: what is not held yet, then the lowest; against rock only paper is best."""
    one_hot, uniform = jnp.eye(3), jnp.full((3,), 1 / 3)
    both = lambda *rows: jnp.broadcast_to(jnp.stack(rows)[:, None], (2, len(rows), 2, 3))  # noqa: E731
    for held, reply in (([], 0), ([0], 1), ([0, 1], 2), ([1], 0), ([2, 0, 1], 0)):
        tables = both(uniform, *one_hot[jnp.array(held, int)])
        active, sigma = jnp.ones(tables.shape[:2], bool), jnp.zeros(tables.shape[:2]).at[:, 0].set(1.0)
        replies = exact_replies(KEY, RPS, tables, active, sigma, "novel")
        for player in range(2):
            row = int(np.nonzero(np.asarray(build_tree(RPS).seat) == player)[0][0])
            np.testing.assert_array_equal(replies[player, row], one_hot[reply])
        lowest_one = exact_replies(KEY, RPS, tables, active, sigma, ties="lowest")
        np.testing.assert_array_equal(lowest_one[0, 0], one_hot[0])
    rock = both(one_hot[0], one_hot[1])
    sigma = jnp.zeros((2, 2)).at[:, 0].set(1.0)
    np.testing.assert_array_equal(exact_replies(KEY, RPS, rock, sigma > 2, sigma)[0, 0], one_hot[1])
    with pytest.raises(ValueError, match="unknown tie-breaking rule 'old'; known: robust, random, novel, lowest"):
        exact_replies(KEY, RPS, rock, sigma > 0, sigma, "old")


def test_ties_are_broken_by_what_else_the_opponents_hold():
    """Uniform play is met: everything ties. The opponents hold rock (and paper) too: paper (or whatever was drawn)."""
    one_hot, uniform = jnp.eye(3), jnp.full((3,), 1 / 3)
    tables = jnp.broadcast_to(jnp.stack([uniform, one_hot[0]])[:, None], (2, 2, 2, 3))
    sigma, active = jnp.zeros((2, 2)).at[:, 0].set(1.0), jnp.ones((2, 2), bool)
    for ties in ("robust", "random"):
        np.testing.assert_array_equal(exact_replies(KEY, RPS, tables, active, sigma, ties)[0, 0], one_hot[1])
    # held, but not by a slot that is active: rock does not count
    inactive = exact_replies(KEY, RPS, tables, active.at[:, 1].set(False), sigma, "robust")
    np.testing.assert_array_equal(inactive[0, 0], one_hot[0])
    # three opponents alike cancel out for `robust`; a random mixture of them prefers each action now and then:
    # one is missing after 20 draws with probability 3 (2/3)^20 < 1e-3
    tables = jnp.broadcast_to(jnp.stack([uniform, *one_hot])[:, None], (2, 4, 2, 3))
    sigma, active = jnp.zeros((2, 4)).at[:, 0].set(1.0), jnp.ones((2, 4), bool)
    drawn = [exact_replies(jax.random.key(seed), RPS, tables, active, sigma, "random") for seed in range(20)]
    assert {int(replies[0, 0].argmax()) for replies in drawn} == {0, 1, 2}
    np.testing.assert_array_equal(exact_replies(KEY, RPS, tables, active, sigma, "robust")[0, 0], one_hot[0])


@pytest.mark.parametrize("game", [KUHN, make_game("kuhn_poker", shared=True), make_game("leduc_holdem")],
                         ids=["kuhn", "shared", "leduc"])  # fmt: skip
def test_the_oracle_earns_the_best_response_value(game):
    tree = build_tree(game)
    draws = jax.random.uniform(jax.random.key(0), (tree.num_populations, 3, *tree.legal.shape), minval=0.01)
    draws = draws * tree.legal[None, None]
    policies = tabular_policies(game, draws / draws.sum(axis=-1, keepdims=True))
    active = jnp.array([[True, True, False]] * tree.num_populations)
    sigma = jnp.array([[0.3, 0.7, 0.0]] * tree.num_populations)
    response = exact_oracle(game)(jax.random.key(1), Mixture(policies, active, sigma))
    tables = tables_of(game, policies)
    replies = tables_of(game, type(policies)(response.params[:, None], policies.apply))
    best = best_response_values(tree, tables, sigma)
    np.testing.assert_allclose(values_against(tree, replies, tables, sigma)[:, 0], best, atol=1e-5)
    own = values_against(tree, tables, tables, sigma)
    gains = np.asarray(best - (own * sigma[jnp.array(game.population_of_player)]).sum(axis=1))
    expected = gains if tree.num_populations == 2 else gains.mean(keepdims=True)
    np.testing.assert_allclose(response.gain, expected, atol=1e-5)
    assert response.cost.tree_walks == tree.num_populations and response.cost.episodes == 0


def test_tied_actions_of_kuhn_s_equilibrium():
    """Against the equilibrium with alpha = 1/6 everybody is indifferent where it mixes, and calls with no jack."""
    tree = build_tree(KUHN)
    seen = np.asarray(tree.observation)
    cards, facing = seen[:, :3].argmax(axis=1), (seen[:, 7] + seen[:, 9] > 0).astype(int)
    bets = np.array([[[1 / 6, 0, 1 / 2], [0, 1 / 2, 1]], [[1 / 3, 0, 1], [0, 1 / 3, 1]]])
    probs = bets[np.asarray(tree.seat), facing, cards]
    table = jnp.asarray(np.stack([probs, 1 - probs], axis=1), jnp.float32)
    tied = np.asarray(tied_actions(tree, jnp.stack([table, table])[:, None], jnp.ones((2, 1))))
    both = {tuple(map(int, (s, f, c))) for s, f, c, t in
            zip(np.asarray(tree.seat), facing, cards, tied, strict=True) if t.all()}  # fmt: skip
    mixed = {(s, f, c) for s, f, c in itertools.product(range(2), range(2), range(3)) if 0 < bets[s, f, c] < 1}
    assert mixed <= both and (0, 1, 0) not in both and (1, 1, 0) not in both
