"""Evaluation over states: exact for single policies, bounds for mixtures, against evaluation over histories."""

import re
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.cli.commands.evaluate import _print_bounds
from gems_jax.evaluate.exact_gains import certify_gap, exact_gains
from gems_jax.extensive import state_graph, values
from gems_jax.extensive.recall import build_history_tree, evaluate_memoryless
from gems_jax.extensive.state_graph import bound_gains, build_state_graph, evaluate_pure, state_gain_bounds
from gems_jax.games import make_game
from gems_jax.policies.population import StackedPolicies
from gems_jax.types import NotEnumerableError, PolicyOutput, Profile

GAME = make_game("connect_four", rows=3, columns=3, connect=3)


def wild(params, observation, legal):
    """A policy that plays differently on every board: sines of a random projection."""
    return PolicyOutput(logits=jnp.where(legal, 3.0 * jnp.sin(observation.reshape(-1) @ params), -1e9))


@pytest.fixture(scope="module")
def population():
    return StackedPolicies(5.0 * jax.random.normal(jax.random.key(0), (2, 3, 18, 3)), wild)


@pytest.fixture(scope="module")
def sigma():
    return jnp.array([[[1.0, 0, 0], [1, 0, 0]], [[0.2, 0.5, 0.3], [0.4, 0.0, 0.6]]])


def test_states_of_a_board():
    """505 boards of 3x3 with gravity before the end, counted by an independent recursion; one start, no chance."""
    graph = build_state_graph(GAME)
    assert graph.legal.shape == (505, 3) == graph.child.shape and graph.level_ends[:2] == (1, 4)
    assert (np.asarray(graph.child) <= 505).all() and graph.chance.tolist() == [1.0]


def test_single_policies_are_exact_and_mixtures_are_bounded(population, sigma):
    graph = build_state_graph(GAME)
    exact = evaluate_memoryless(build_history_tree(GAME), population, sigma)
    pure = evaluate_pure(graph, population)
    np.testing.assert_allclose(pure.values, exact.values[0], atol=2e-5)
    np.testing.assert_allclose(pure.gains, exact.gains[0], atol=2e-5)
    low, high = bound_gains(graph, population, sigma[1])
    assert (low <= exact.gains[1] + 1e-5).all() and (exact.gains[1] <= high + 1e-5).all()
    assert (high - low < 0.5).all() and (low > 0.1).all()


def test_a_state_that_recurs_at_several_depths_is_one_view():
    """Nim: both sides take a stone in several orders. 17 positions of heaps 1, 2 and 2 per seat at most."""
    game = make_game("nim", heaps=(1, 2, 2))
    graph = build_state_graph(game)
    assert len(graph.observation) < len(graph.legal) == graph.level_ends[-1]
    uniform = StackedPolicies(
        jnp.zeros((2, 1, 1)), lambda params, seen, legal: PolicyOutput(jnp.where(legal, 0.0, -1e9))
    )
    exact = evaluate_memoryless(build_history_tree(game), uniform, jnp.ones((1, 2, 1)))
    np.testing.assert_allclose(evaluate_pure(graph, uniform).gains, exact.gains[0], atol=1e-6)


def test_hidden_cards_and_simultaneous_moves_have_no_graph():
    with pytest.raises(NotEnumerableError, match="observations do not determine the state"):
        build_state_graph(make_game("kuhn_poker"))
    with pytest.raises(NotEnumerableError, match="several seats move at once"):
        build_state_graph(make_game("matching_pennies"))


def test_evaluation_falls_back_to_states_where_histories_are_too_many(population, sigma, monkeypatch):
    def refuse(game, profile):
        raise NotEnumerableError("too many histories")

    one = StackedPolicies(population.params[:, :1], wild)
    profile, mixture = Profile(one, jnp.ones((2, 1))), Profile(population, sigma[1])
    expected = values.player_gains(GAME, profile)
    exact = values.player_gains(GAME, mixture).sum() / 2
    monkeypatch.setattr(values, "memoryless_outcome", refuse)
    np.testing.assert_allclose(values.player_gains(GAME, profile), expected, atol=2e-5)
    np.testing.assert_allclose(exact_gains(GAME, Profile(population, sigma[0])), expected, atol=2e-5)
    with pytest.raises(NotEnumerableError, match="too many histories"):
        exact_gains(GAME, mixture)
    found = certify_gap(GAME, mixture)
    assert found.kind == "bounds" and found.low <= exact + 1e-5 and exact <= found.high + 1e-5
    assert str(found).startswith("between ") and certify_gap(GAME, profile).kind == "exact"
    monkeypatch.setattr(state_graph, "MAX_SUPPORT", 2)
    with pytest.raises(NotEnumerableError, match="two players and at most 2 policies with mass, got 2 and 3"):
        state_gain_bounds(GAME, mixture)


def test_gems_eval_prints_bounds(population, sigma, monkeypatch, capsys):
    def refuse(game, profile):
        raise NotEnumerableError("too many histories")

    monkeypatch.setattr("gems_jax.evaluate.exact_gains.player_gains", refuse)
    _print_bounds([SimpleNamespace(seed=3, game=GAME, profile=Profile(population, sigma[1]))])
    said = capsys.readouterr().out
    assert re.fullmatch(r"seed 3: exploitability between 0\.\d+ and 0\.\d+ \(bounds; best responses to .*\)\n", said), (
        said
    )
    _print_bounds([SimpleNamespace(seed=3, game=make_game("kuhn_poker"), profile=Profile(population, sigma[1]))])
    assert not capsys.readouterr().out
