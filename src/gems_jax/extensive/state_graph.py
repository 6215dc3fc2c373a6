"""Perfect-information games as graphs of states: exact for single policies, bounds for mixtures.

The histories of a board may be too many to list (131 million in Connect Four on 4x4) where its states are few
(134,289). If every observation determines the state, a memoryless policy of the opponents makes the game a Markov
decision process for the deviating player, whose optimal policy depends on the state alone. Backward induction over
states is then exact for *one* policy per player,

    u_p(s) = sum_a pi(a | s) (r_p(s, a) + u_p(s')),     BR_p(s) = max_a (r_p(s, a) + BR_p(s'))  where p moves,

and BR_p(s) is the mean over a where another player moves. A mixture draws its policy k ~ sigma once per episode, and
the best response to it must infer k from the moves (see `extensive.recall`). Two bounds hold for two players:

    max_c f_p(c)  <=  BR_p(sigma)  <=  sum_k sigma_k BR_p(k)

f_p(c) is what any policy c earns against the mixture: here those of the best responses to single policies k. The upper
bound reveals k to the responder before the game.
"""

from __future__ import annotations

import dataclasses
import functools

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.extensive.recall import MixtureOutcome
from gems_jax.extensive.tables import mix, play_observations
from gems_jax.extensive.tree import GameKey, eager_evaluation, game_key
from gems_jax.extensive.walk import ALTERNATIVES, Positions, Walk, state_bytes
from gems_jax.policies.population import StackedPolicies
from gems_jax.types import (
    Array,
    Game,
    NotEnumerableError,
    Population,
    Profile,
    Struct,
    expect,
    num_players,
    stack_policies,
    static_field,
)

MAX_MOVES = 2**20  # limit on the moves of all states
MAX_SUPPORT = 16  # limit on the policies with mass, of which bounds evaluate all pairs


class StateGraph(Struct):
    """States [V] of a game in which one seat moves at a time and observations determine the state."""

    observation: Array  # [W, *obs] float32, what the seat to move sees in W <= V views
    view_legal: Array  # [W, A] bool
    view: Array  # [V] int32, view of each state: equal for a state that recurs at several depths
    legal: Array  # [V, A] bool
    player: Array  # [V] int32, who moves
    child: Array  # [V, A] int32, V where the game ends
    reward: Array  # [V, A, players] float32, of the move
    start: Array  # [N] int32, states before the first move
    chance: Array  # [N] float32
    level_ends: tuple[int, ...] = static_field()  # depth d is the states level_ends[d-1]:level_ends[d]
    population_of_player: tuple[int, ...] = static_field()

    @property
    def levels(self) -> tuple[tuple[int, int], ...]:
        return tuple(zip((0, *self.level_ends[:-1]), self.level_ends, strict=True))

    @property
    def num_actions(self) -> int:
        return self.legal.shape[1]


def build_state_graph(game: Game, max_moves: int = MAX_MOVES) -> StateGraph:
    """Enumerates the states of a game of perfect information, once each; the graph is cached by the value of the game.

    Args:
      game: the game, with one player per seat.
      max_moves: largest number of moves, summed over the states.

    Returns:
      The graph.

    Raises:
      NotEnumerableError: if it is too large, has teams, simultaneous moves, or observations that hide part of the
        state.
      ValueError: if the game is traced.
    """
    return _cached_graph(game_key(game), max_moves)


@functools.lru_cache(maxsize=8)
def _cached_graph(key: GameKey, max_moves: int) -> StateGraph:
    with eager_evaluation():
        return _Graph(Walk(key.game, max_moves, add_history=True)).arrays()


class _Graph:
    """States by depth in the order of discovery, with their moves."""

    def __init__(self, walk: Walk):
        self.walk, self.ends = walk, [0]
        if num_players(walk.game) < walk.game.num_seats:
            walk.refuse("its players are teams.")
        self.views: list[np.ndarray] = []
        self.edges: list[
            tuple[np.ndarray, ...]
        ] = []  # state, action, place among the states of the next depth, rewards
        self.index: list[np.ndarray] = []  # of every depth: index of each of its states, -1 for those that are finished
        self.known: dict[int, bytes] = {}  # the state behind every view
        positions = walk.deals()
        self.chance, self.starts = positions.chance, positions.state
        for depth in range(walk.game.max_steps + 1):
            positions = _forget_histories(positions)
            done = np.asarray(positions.states.done, bool)
            walk.nodes += done.size
            self.index.append(np.where(done, -1, self.ends[-1] + np.cumsum(~done) - 1))
            if done.all():
                return
            expect(depth < walk.game.max_steps, f"{walk.game.name!r} does not end within max_steps.")
            positions = self.expand(positions.take(~done), depth)

    def expand(self, live: Positions, depth: int) -> Positions:
        """Plays every move of the unfinished states of one depth."""
        after = self.walk.expand(live, depth)
        layer, start = self.walk.layers[-1], self.ends[-1]
        views = layer.infosets.max(axis=1)
        self.check_information(layer.infosets, views, state_bytes(live.states)[live.state])
        self.views.append(views)
        self.ends.append(start + views.size)
        seat = np.asarray(self.walk.seat)[views][layer.parent]
        action = layer.actions[np.arange(seat.size), seat]
        self.edges.append((start + layer.parent, action, after.state, after.returns))
        return after

    def check_information(self, infosets: np.ndarray, views: np.ndarray, states: np.ndarray) -> None:
        """Raises NotEnumerableError unless one seat moves in every state and its view belongs to that state alone."""
        if ((infosets >= 0).sum(axis=1) != 1).any():
            self.walk.refuse("several seats move at once.")
        for view, state in zip(views.tolist(), states, strict=True):
            if self.known.setdefault(view, state.tobytes()) != state.tobytes():
                self.walk.refuse("its observations do not determine the state.")

    def arrays(self) -> StateGraph:
        walk, game, total = self.walk, self.walk.game, self.ends[-1]
        child = np.full((total, game.num_actions), total)
        reward = np.zeros((total, game.num_actions, game.num_seats), np.float32)
        for (state, action, place, earned), index in zip(self.edges, self.index[1:], strict=True):
            child[state, action] = np.where(index[place] < 0, total, index[place])
            reward[state, action] = earned
        owner, view = np.asarray(game.player_of_seat), np.concatenate(self.views)
        legal = np.stack(walk.legal)[walk.view]
        return StateGraph(
            observation=jnp.asarray(np.stack(walk.observation)[walk.view], jnp.float32),
            view_legal=jnp.asarray(legal),
            view=jnp.asarray(view, jnp.int32),
            legal=jnp.asarray(legal[view]),
            player=jnp.asarray(owner[np.asarray(walk.seat)[view]], jnp.int32),
            child=jnp.asarray(child, jnp.int32),
            reward=jnp.asarray(reward[..., np.argsort(owner)]),
            start=jnp.asarray(self.index[0][self.starts], jnp.int32),
            chance=jnp.asarray(self.chance, jnp.float32),
            level_ends=tuple(self.ends[1:]),
            population_of_player=tuple(game.population_of_player),
        )


def _forget_histories(positions: Positions) -> Positions:
    """Returns one position per distinct state."""
    count = len(positions.states.terminated)
    shape = (count, positions.last.shape[1])
    return dataclasses.replace(
        positions, state=np.arange(count), chance=np.ones(count), returns=np.zeros(shape), last=np.full(shape, -1)
    )


def sweep_states(graph: StateGraph, policy: Array, responder: int | None = None) -> tuple[Array, Array]:
    """Computes the values of one policy per player by backward induction, or of a best response to the others'.

    Args:
      graph: the game.
      policy: action probabilities of the player to move, [V, A].
      responder: the player who best-responds instead (static); ties go to the lowest action. None for nobody.

    Returns:
      Returns at the start [players], and what is played [V, A].
    """
    values, played = jnp.zeros((graph.legal.shape[0] + 1, graph.reward.shape[2])), policy
    for begin, end in reversed(graph.levels):
        here = slice(begin, end)
        worth = graph.reward[here] + values[graph.child[here]]  # [n, A, players]
        if responder is not None:
            own = jnp.where(graph.legal[here], worth[..., responder], -jnp.inf)
            best = jax.nn.one_hot(jnp.argmax(own, axis=1), graph.num_actions)
            moves = (graph.player[here] == responder)[:, None]
            played = played.at[here].set(jnp.where(moves, best, policy[here]))
        values = values.at[here].set(jnp.sum(played[here][..., None] * worth, axis=1))
    return jnp.sum(graph.chance[:, None] * values[graph.start], axis=0), played


def _tables(graph: StateGraph, population: Population, slots: int) -> Array:
    """Computes what every player does with each policy of its population, [players, slots, V, A]."""

    def of_slot(slot: Array) -> Array:
        tables = []
        for owner in range(max(graph.population_of_player) + 1):
            one = jax.tree.map(lambda leaf, owner=owner: leaf[owner], population)
            tables.append(play_observations(graph.observation, graph.view_legal, population.apply, one.select(slot)))
        return jnp.stack([tables[owner][graph.view] for owner in graph.population_of_player])

    return jnp.swapaxes(jax.lax.map(of_slot, jnp.arange(slots)), 0, 1)


def _join(graph: StateGraph, tables: Array) -> Array:
    """Selects the policy of the player to move, [V, A], from tables [players, V, A]."""
    return jnp.take_along_axis(tables, graph.player[None, :, None], axis=0)[0]


@jax.jit
def evaluate_pure(graph: StateGraph, population: Population) -> MixtureOutcome:
    """Computes values and best-response gains when every population has one policy.

    Args:
      graph: the game.
      population: policies with a leading axis P; slot 0 plays.

    Returns:
      Values and gains, [players] each.
    """
    policy = _join(graph, _tables(graph, population, 1)[:, 0])
    values, _ = sweep_states(graph, policy)
    best = jnp.stack([sweep_states(graph, policy, player)[0][player] for player in range(values.shape[0])])
    return MixtureOutcome(values, best - values)


@jax.jit
def bound_gains(graph: StateGraph, population: Population, sigma: Array) -> tuple[Array, Array]:
    """Bounds BR_p - u_p of mixtures in a two-player game, as in the module docstring. Takes 3 K^2 sweeps.

    Args:
      graph: the game.
      population: policies with a leading axis P.
      sigma: the mixtures, [P, K].

    Returns:
      Lower and upper bounds [players].
    """
    slots = sigma.shape[1]
    tables, mass = _tables(graph, population, slots), sigma[jnp.array(graph.population_of_player)]

    def against(own: Array, player: int) -> Array:
        """Earnings [players] of a table [V, A] of one player against the other's mixture."""
        other = 1 - player
        play = lambda table: sweep_states(graph, _join(graph, _pair(own, table, player)))[0]  # noqa: E731
        return mix(mass[other], jax.lax.map(play, tables[other]))

    values = mix(mass[0], jax.lax.map(lambda own: against(own, 0), tables[0]))
    low, high = [], []
    for player in range(2):

        def respond(table: Array, player: int = player) -> tuple[Array, Array]:
            best, reply = sweep_states(graph, table, player)
            return best[player], against(reply, player)[player]

        revealed, earned = jax.lax.map(respond, tables[1 - player])
        high.append(mix(mass[1 - player], revealed))
        low.append(jnp.maximum(jnp.max(earned), values[player]))
    return jnp.stack(low) - values, jnp.stack(high) - values


def _pair(own: Array, other: Array, player: int) -> Array:
    """Stacks tables [V, A] in the order of the players."""
    return jnp.stack([own, other] if player == 0 else [other, own])


def state_gain_bounds(game: Game, profile: Profile) -> tuple[np.ndarray, np.ndarray]:
    """Bounds what each player gains by deviating from a profile, where states can be listed and histories cannot.

    Both bounds are equal, and exact, if every population plays one policy.

    Args:
      game: a game of perfect information.
      profile: mixtures sigma [P, K] over populations with a leading axis P; not traced.

    Returns:
      Lower and upper bounds of BR_p - u_p, [players] each.

    Raises:
      NotEnumerableError: if the states cannot be listed, more than `MAX_SUPPORT` policies have mass, or a mixture is of
        more than two players.
    """
    graph = build_state_graph(game)
    used = np.nonzero(np.asarray(profile.sigma).any(axis=0))[0]
    stacked = jax.vmap(lambda one: stack_policies(one.select, jnp.asarray(used)))(profile.population)
    population = StackedPolicies(stacked, profile.population.apply)
    if len(used) == 1:
        gains = np.asarray(evaluate_pure(graph, population).gains)
        return gains, gains
    if len(used) > MAX_SUPPORT or num_players(game) != 2:
        raise NotEnumerableError(
            f"cannot bound the gains in {game.name!r}: expected two players and at most {MAX_SUPPORT} policies with "
            f"mass, got {num_players(game)} and {len(used)}. {ALTERNATIVES}"
        )
    low, high = bound_gains(graph, population, jnp.asarray(profile.sigma)[:, used])
    return np.asarray(low), np.asarray(high)
