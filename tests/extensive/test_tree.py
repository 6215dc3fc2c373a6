"""The walk: sizes, generality, what it refuses, and what it remembers.

Two small games are written to the `Game` protocol by hand. `Relay` is asymmetric in everything: seat 0 holds a private
coin and may move twice, seats 0 and 1 move at once at first and have two and three actions, seat 2 sees only whether
seat 1 took its last action, rewards come in at up to three times, and nothing adds up to zero. `relay_returns` is a
second opinion: it plays it in plain Python, from the rules alone. `Faceless` breaks rules.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.extensive.infosets import find_infoset
from gems_jax.extensive.values import (
    anchor_values,
    best_response_policy,
    best_response_values,
    build_tree,
    exact_mixture_returns,
    expected_returns,
    mixture_to_behavior,
    player_gains_of_tables,
    population_mean,
    uniform_table,
)
from gems_jax.games import make_game
from gems_jax.types import Array, GameState, ImperfectRecallError, NotEnumerableError

_RNG = np.random.default_rng(0)
FIRST = _RNG.integers(-3, 4, (2, 2, 3, 3)).astype(np.float32)  # rewards [coin, a0, a1] -> [S] of the first round
SECOND = _RNG.integers(-3, 4, (2, 2, 3, 2, 3)).astype(np.float32)  # [coin, a0, a1, a2] -> [S], when seat 2 moves
THIRD = _RNG.integers(-3, 4, (2, 3, 2, 3)).astype(np.float32)  # [coin, a1, last a0] -> [S], when seat 0 moves again


@jax.tree_util.register_static
@dataclass(frozen=True)
class Relay:
    player_of_seat: tuple[int, ...] = (0, 1, 2)
    population_of_player: tuple[int, ...] = (0, 1, 2)

    name = "relay"
    num_seats = 3
    num_actions = 3
    observation_shape = (5,)
    max_steps = 3
    simultaneous = True
    continuous = False
    return_bounds = (-9.0, 9.0)
    zero_sum = False

    def _state(self, coin: Array, acts: Array, stage: Array, reward: Array) -> GameState:
        """inner: coin, (a0, a1, a2), stage; an observation is (seat, stage, coin, own first action, what is seen)."""
        over = stage > 2
        to_move = jnp.stack([stage == 0, stage == 0, stage == 1]) | jnp.stack([stage == 2, over & False, over & False])
        counts = jnp.array([2, 3, 2])
        again = stage == 2
        views = jnp.stack(
            [
                jnp.stack([0, stage, coin, jnp.where(again, acts[0], -1), jnp.where(again, acts[2], -1)]),
                jnp.stack([1, stage, -1, -1, -1]),
                jnp.stack([2, stage, -1, -1, acts[1] == 2]),
            ]
        )
        return GameState(
            inner=(coin, acts, stage),
            observation=views.astype(jnp.float32),
            legal=to_move[:, None] & (jnp.arange(3)[None] < counts[:, None]),
            to_move=to_move,
            reward=reward.astype(jnp.float32),
            terminated=over,
            truncated=jnp.bool_(False),
        )

    def init(self, key: Array) -> GameState:
        coin = jax.random.bernoulli(key, 0.75).astype(jnp.int32)
        return self._state(coin, jnp.full(3, -1), jnp.int32(0), jnp.zeros(3))

    def step(self, state: GameState, actions: Array, key: Array) -> GameState:
        coin, acts, stage = state.inner
        first = self._state(coin, acts.at[:2].set(actions[:2]), jnp.int32(1), jnp.asarray(FIRST)[coin, *actions[:2]])
        a2 = actions[2]
        reward = jnp.asarray(SECOND)[coin, acts[0], acts[1], a2]
        second = self._state(coin, acts.at[2].set(a2), jnp.where(a2 == 1, 2, 3), reward)
        third = self._state(coin, acts, jnp.int32(3), jnp.asarray(THIRD)[coin, acts[1], actions[0]])
        over = state.replace(reward=jnp.zeros(3))
        pick = lambda a, b, c, d: jnp.where(stage == 0, a, jnp.where(stage == 1, b, jnp.where(stage == 2, c, d)))  # noqa: E731
        return jax.tree.map(pick, first, second, third, over)

    def deals(self) -> tuple[GameState, Array]:
        start = lambda coin: self._state(coin, jnp.full(3, -1), jnp.int32(0), jnp.zeros(3))  # noqa: E731
        return jax.vmap(start)(jnp.arange(2)), jnp.array([0.25, 0.75])


Strategy = Callable[[int, tuple[int, ...]], Any]  # (seat, what it sees) -> probabilities of its actions


def relay_returns(strategy: Strategy) -> np.ndarray:
    """Expected returns [S], by plain recursion over the rules."""
    total = np.zeros(3)
    for coin, (a0, a1) in itertools.product((0, 1), itertools.product(range(2), range(3))):
        way = (0.25, 0.75)[coin] * strategy(0, (0, 0, coin, -1, -1))[a0] * strategy(1, (1, 0, -1, -1, -1))[a1]
        total += way * FIRST[coin, a0, a1]
        seen = (2, 1, -1, -1, int(a1 == 2))
        for a2 in range(2):
            total += way * strategy(2, seen)[a2] * SECOND[coin, a0, a1, a2]
        for again in range(2):
            reach = way * strategy(2, seen)[1] * strategy(0, (0, 2, coin, a0, 1))[again]
            total += reach * THIRD[coin, a1, again]
    return total


RELAY_VIEWS = {
    0: [(0, 0, c, -1, -1) for c in range(2)] + [(0, 2, c, a, 1) for c in range(2) for a in range(2)],
    1: [(1, 0, -1, -1, -1)],
    2: [(2, 1, -1, -1, s) for s in range(2)],
}
RELAY_ACTIONS = {0: 2, 1: 3, 2: 2}


def relay_best_return(strategy: Strategy, seat: int) -> float:
    """The best over all pure strategies of one seat."""
    views = RELAY_VIEWS[seat]
    best = -np.inf
    for choice in itertools.product(range(RELAY_ACTIONS[seat]), repeat=len(views)):
        pure = {view: np.eye(3)[action] for view, action in zip(views, choice, strict=True)}
        mixed = lambda s, view, pure=pure: pure[view] if s == seat else strategy(s, view)  # noqa: E731
        best = max(best, relay_returns(mixed)[seat])
    return best


@jax.tree_util.register_static
@dataclass(frozen=True)
class Faceless:
    """Matching pennies whose seats see the same thing; `flaw` breaks one rule of enumerable games.

    flaw: "" none; "random" steps draw, "noisy" draws but offers `expected_step`, "forgetful" plays twice without a
    memory, "stuck" never ends, "mute" leaves a seat to move without an action.
    """

    flaw: str = ""

    name = "faceless"
    num_seats = 2
    num_actions = 2
    observation_shape = (1,)
    simultaneous = True
    continuous = False
    player_of_seat = (0, 1)
    population_of_player = (0, 1)
    return_bounds = (-1.0, 1.0)
    zero_sum = True

    @property
    def max_steps(self) -> int:
        return 2 if self.flaw == "forgetful" else 1

    @property
    def expected_step(self) -> Any:
        if self.flaw != "noisy":
            raise AttributeError
        return lambda state, actions: self._step(state, actions, jnp.zeros(()))

    def _state(self, key: Array, turn: Array, reward: Array) -> GameState:
        over = (turn >= self.max_steps) & (self.flaw != "stuck")
        return GameState(
            inner=(key, turn),
            observation=jnp.ones((2, 1)),
            legal=jnp.full((2, 2), ~over & (self.flaw != "mute")),
            to_move=jnp.full(2, ~over),
            reward=reward,
            terminated=over,
            truncated=jnp.bool_(False),
        )

    def _step(self, state: GameState, actions: Array, noise: Array) -> GameState:
        key, turn = state.inner
        win = jnp.where(actions[0] == actions[1], 1.0, -1.0) + noise
        return self._state(key, turn + 1, jnp.stack([win, -win]))

    def init(self, key: Array) -> GameState:
        return self._state(key, jnp.int32(0), jnp.zeros(2))

    def step(self, state: GameState, actions: Array, key: Array) -> GameState:
        noise = jax.random.normal(key) if self.flaw in ("random", "noisy") else jnp.zeros(())
        return self._step(state, actions, noise)

    def deals(self) -> tuple[GameState, Array]:
        return jax.vmap(self.init)(jax.random.split(jax.random.key(0), 1)), jnp.ones(1)


@partial(jax.jit, static_argnums=2)
def random_tables(tree, key, leading):
    draws = jax.random.uniform(key, (*leading, *tree.legal.shape)) * tree.legal[(None,) * len(leading)]
    return draws / draws.sum(axis=-1, keepdims=True)


def strategy_of(tree, tables):
    """What `relay_returns` wants, from tables [players, I, A]."""
    rows = {tuple(view): row for row, view in enumerate(np.asarray(tree.observation, int).tolist())}
    tables = np.asarray(tables, np.float64)
    return lambda seat, view: tables[seat, rows[view]]


@pytest.mark.parametrize("observation", ["plain", "infoset"])
def test_poker_has_its_information_sets(observation):
    kuhn = build_tree(make_game("kuhn_poker", observation=observation))
    assert (kuhn.num_infosets, kuhn.num_leaves) == (12, 30)  # 6 deals, 5 ends each
    assert np.bincount(kuhn.seat).tolist() == [6, 6]
    # The deck of pgx has ranks and no suits: 288 sets stand for the 936 of OpenSpiel's leduc_poker (144 for each seat).
    leduc = build_tree(make_game("leduc_holdem", observation=observation))
    assert np.bincount(leduc.seat).tolist() == [144, 144]
    assert leduc.num_leaves == 24 * 49
    suits = build_tree(make_game("leduc_holdem", observation=observation, suits=True))
    assert np.bincount(suits.seat).tolist() == [468, 468]
    assert suits.num_leaves == 120 * 49
    assert sorted(np.asarray(suits.number)) == list(range(936))


def test_arrays_of_kuhn():
    tree = build_tree(make_game("kuhn_poker"))
    np.testing.assert_allclose(tree.chance, 1 / 6, rtol=1e-6)
    assert tree.level_ends == (9, 12)
    assert (np.asarray(tree.parent)[:9] >= 24).all()  # nobody has moved: the empty sequences
    assert np.asarray(tree.seat)[9:].tolist() == [0, 0, 0]
    assert (np.asarray(tree.parent)[9:] % 2 == 1).all()  # only after passing does the first player move again
    np.testing.assert_array_equal(tree.twin, np.arange(12))
    np.testing.assert_array_equal(tree.payoff.sum(axis=1), 0)
    assert set(np.abs(tree.payoff).ravel().tolist()) == {1.0, 2.0}


def test_find_infoset_finds_every_set_and_says_when_there_is_none():
    tree = build_tree(make_game("kuhn_poker"))
    seats, seen = np.asarray(tree.seat), np.asarray(tree.observation)
    assert [find_infoset(tree, *place) for place in zip(seats, seen, strict=True)] == list(range(12))
    assert find_infoset(tree, seats[0], seen[0] + 1) == -1
    assert find_infoset(tree, 1 - seats[0], seen[0]) == -1


def test_three_seats_against_a_plain_recursion():
    tree = build_tree(Relay())
    assert np.bincount(tree.seat).tolist() == [len(RELAY_VIEWS[seat]) for seat in range(3)]
    for seed in range(3):
        tables = random_tables(tree, jax.random.key(seed), (3,))
        strategy = strategy_of(tree, tables)
        returns = relay_returns(strategy)
        best = np.array([relay_best_return(strategy, seat) for seat in range(3)])
        np.testing.assert_allclose(expected_returns(tree, tables), returns, atol=1e-6)
        np.testing.assert_allclose(player_gains_of_tables(tree, tables), best - returns, atol=1e-6)
        sigma = jnp.ones((3, 1))
        np.testing.assert_allclose(best_response_values(tree, tables[:, None], sigma), best, atol=1e-6)
        for player in range(3):
            reply = tables.at[player].set(best_response_policy(tree, tables[:, None], sigma, player))
            np.testing.assert_allclose(relay_returns(strategy_of(tree, reply))[player], best[player], atol=1e-6)


def test_three_seat_mixtures_against_a_plain_recursion():
    tree, k = build_tree(Relay()), 3
    tables = random_tables(tree, jax.random.key(0), (3, k))
    sigma = jax.random.dirichlet(jax.random.key(1), jnp.ones(k), (3,))
    returns, values = np.zeros(3), np.zeros((3, k))
    for drawn in np.ndindex(k, k, k):  # all ways of drawing one policy per player
        chance = np.array([sigma[player, i] for player, i in enumerate(drawn)])
        outcome = relay_returns(strategy_of(tree, tables[np.arange(3), np.array(drawn)]))
        returns += chance.prod() * outcome
        for player, i in enumerate(drawn):
            values[player, i] += np.delete(chance, player).prod() * outcome[player]
    np.testing.assert_allclose(exact_mixture_returns(tree, tables, sigma), returns, atol=1e-6)
    np.testing.assert_allclose(anchor_values(tree, tables, sigma), values, atol=1e-6)
    behaviours = jax.vmap(mixture_to_behavior, in_axes=(None, 0, 0))(tree, tables, sigma)
    np.testing.assert_allclose(expected_returns(tree, behaviours), returns, atol=1e-6)


def test_teams_have_values_but_no_exact_best_response():
    team = Relay(player_of_seat=(0, 1, 0), population_of_player=(0, 1))
    tree = build_tree(team)
    tables = random_tables(tree, jax.random.key(0), (2, 2))
    sigma = jnp.array([[0.3, 0.7], [0.6, 0.4]])
    expected = np.zeros(2)
    for i, j in np.ndindex(2, 2):  # one policy plays both seats of the team, which earns their mean
        profile = jnp.stack([tables[0, i], tables[1, j], tables[0, i]])
        outcome = relay_returns(strategy_of(tree, profile))
        expected += float(sigma[0, i] * sigma[1, j]) * np.array([(outcome[0] + outcome[2]) / 2, outcome[1]])
    np.testing.assert_allclose(exact_mixture_returns(tree, tables, sigma), expected, atol=1e-6)
    values = anchor_values(tree, tables, sigma)
    np.testing.assert_allclose((values * sigma).sum(axis=1), expected, atol=1e-6)
    with pytest.raises(NotEnumerableError, match="teams"):
        best_response_values(tree, tables, sigma)
    with pytest.raises(NotEnumerableError, match="teams"):
        best_response_policy(tree, tables, sigma, 0)
    with pytest.raises(NotEnumerableError, match="correlates"):
        mixture_to_behavior(tree, tables[0], sigma[0])


def test_players_of_one_population_are_averaged():
    tree = build_tree(Relay(population_of_player=(0, 1, 0)))
    np.testing.assert_allclose(population_mean(tree, jnp.array([[1.0, 2.0], [5.0, 6.0], [3.0, 4.0]])), [[2, 3], [5, 6]])
    tables = random_tables(tree, jax.random.key(0), (2, 2))
    sigma = jnp.array([[0.3, 0.7], [0.6, 0.4]])
    apart = build_tree(Relay())
    owner = jnp.array([0, 1, 0])
    np.testing.assert_allclose(
        anchor_values(tree, tables, sigma), anchor_values(apart, tables[owner], sigma[owner]), atol=1e-7
    )


def test_seats_that_look_alike_share_a_row():
    tree = build_tree(Faceless())
    assert tree.num_infosets == 2
    assert tree.twin.tolist() == [0, 0]
    # Seat 1 wants the pennies to differ; looked up by what it sees, its best response is found in row 0 as well.
    heads = jnp.broadcast_to(jnp.array([1.0, 0.0]), (2, 1, 2, 2))
    reply = best_response_policy(tree, heads, jnp.ones((2, 1)), 1)
    np.testing.assert_array_equal(reply, [[0, 1], [0, 1]])


def test_expected_step_stands_in_for_noise():
    tree, clean = build_tree(Faceless("noisy")), build_tree(Faceless())
    np.testing.assert_array_equal(tree.payoff, clean.payoff)


@pytest.mark.parametrize(
    ("flaw", "error", "words"),
    [
        ("random", NotEnumerableError, "step is random.*gems eval RUN --exploiter"),
        ("forgetful", ImperfectRecallError, "imperfect recall: seat 0 forgets.*gems_jax.games.with_history"),
        ("stuck", ValueError, "at most max_steps = 1 steps, got more"),
        ("mute", ValueError, "without a legal action"),
    ],
)
def test_games_that_break_a_rule_are_refused(flaw, error, words):
    with pytest.raises(error, match=words):
        build_tree(Faceless(flaw))


def test_large_games_are_refused_with_their_size():
    with pytest.raises(
        NotEnumerableError, match="42 positions down to depth 2.*limit of 25.*gems eval RUN --exploiter"
    ):
        build_tree(make_game("kuhn_poker"), max_nodes=25)
    with pytest.raises(NotEnumerableError, match="over the limit"):
        build_tree(make_game("pgx:tic_tac_toe"), max_nodes=1000)
    with pytest.raises(ValueError, match="max_nodes"):
        build_tree(make_game("kuhn_poker"), max_nodes=0)


def test_no_deals_and_continuous_actions_are_refused():
    class Smooth(Relay):
        continuous = True

    bare = type("Bare", (), {"name": "bare", "num_seats": 2, "continuous": False})()
    with pytest.raises(NotEnumerableError, match="no `deals`"):
        build_tree(bare)
    with pytest.raises(NotEnumerableError, match="continuous"):
        build_tree(Smooth())


def test_trees_are_remembered_by_the_value_of_the_game():
    assert build_tree(make_game("kuhn_poker")) is build_tree(make_game("kuhn_poker"))
    one, same, other = (make_game("matrix", payoffs=np.diag(diagonal)) for diagonal in ([1.0, 2], [1.0, 2], [1.0, 3]))
    assert build_tree(one) is build_tree(same)
    assert build_tree(one) is not build_tree(other)
    assert jax.tree.structure(build_tree(one)) == jax.tree.structure(build_tree(other))  # they stack


def test_a_tree_can_be_built_inside_a_trace():
    @jax.jit
    def gains(scale):
        tree = build_tree(Relay((0, 1, 2), (0, 0, 0)))  # not built anywhere else
        return scale * player_gains_of_tables(tree, jnp.stack([uniform_table(tree)] * 3))

    tree = build_tree(Relay())
    uniform = player_gains_of_tables(tree, jnp.stack([uniform_table(tree)] * 3))
    np.testing.assert_allclose(gains(2.0), 2 * uniform, rtol=1e-6)
    assert not any(
        isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(build_tree(Relay((0, 1, 2), (0, 0, 0))))
    )
    with pytest.raises(ValueError, match="traced"):
        jax.jit(lambda game: build_tree(game).num_leaves)(make_game("matrix", payoffs=np.eye(2)))
