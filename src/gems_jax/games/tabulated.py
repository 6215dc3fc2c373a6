"""Small Python games as arrays: `tabulated:openspiel:<id>`.

The tree of a game that enumerates itself on the host (`Branching`) is enumerated once. A position is then an index, and
`step` looks up its successor, so that play is compiled and needs no Python. Chance after a move is part of the move:
its outcomes are adjacent in the arrays, and one uniform number selects one by their CDF.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.accelerator.prng import draw_uniform
from gems_jax.games.adapters.openspiel import OpenSpielGame, openspiel_game
from gems_jax.types import Array, GameState, NotEnumerableError, Struct, expect, static_field

MAX_POSITIONS = 500_000
MAX_ENTRIES = 2**23  # limit on successors: positions times joint actions


class GameArrays(Struct):
    """The whole tree of a game: N positions, breadth first from the starts, and I information sets.

    J is the number of joint actions: A if seats take turns, A^S if they move simultaneously.
    """

    first: Array  # [N, J] int32, first successor of a joint action; 0 if it is illegal
    outcomes: Array  # [N, J] int32, number of successors: 1 unless chance acts
    chance: Array  # [N] float32, probability of the position given its start or joint action
    cdf: Array  # [N] float32, cumulative sum of `chance` up to this position
    infoset: Array  # [N, S] int32, 0 for seats that are not to move
    to_move: Array  # [N, S] bool
    reward: Array  # [N, S] float32, reward of the move to the position
    over: Array  # [N] bool
    observation: Array  # [I, *obs] float32
    legal: Array  # [I, A] bool
    idle: Array  # [S, *obs] float32, observation of seats that are not to move
    starts: int = static_field()
    most_outcomes: int = static_field()  # largest number of outcomes of a move
    depth: int = static_field()  # moves of the longest episode


class _IndexedPosition(NamedTuple):
    """A position of the source game with its index."""

    at: int
    state: Any


class _Enumeration:
    """A breadth-first enumeration of a game."""

    def __init__(self, source: OpenSpielGame):
        self.source = source
        self.seen: list[Any] = []  # of every position
        self.chance: list[float] = []
        self.cdf: list[float] = []
        self.edges: list[tuple[int, int, int, int]] = []  # position, joint action, first successor, number of them
        self.infosets: dict[bytes, int] = {}
        self.rows: list[tuple[np.ndarray, np.ndarray]] = []  # observation and legal actions, of every information set
        self.numbers: list[list[int]] = []
        self.depth = 0

    def run(self) -> GameArrays:
        """Enumerates the game and returns its arrays."""
        level = self.place(self.source.starts())
        starts = len(level)
        while level := [position for position in level if not self.seen[position.at].terminated]:
            self.depth += 1
            level = [below for position in level for below in self.expand(position)]
        return self.arrays(starts)

    def place(self, branches: list[Any]) -> list[_IndexedPosition]:
        """Assigns adjacent indices to the outcomes of a start or of a joint action."""
        base, total = len(self.seen), 0.0
        for branch in branches:
            total += branch.chance
            self.seen.append(branch.seen)
            self.chance.append(branch.chance)
            self.cdf.append(total)
            self.numbers.append([self.index_infoset(branch.seen, seat) for seat in range(self.source.num_seats)])
        if len(self.seen) > MAX_POSITIONS:
            self.refuse(f"more than {MAX_POSITIONS:,} positions")
        return [_IndexedPosition(base + offset, branch.state) for offset, branch in enumerate(branches)]

    def refuse(self, why: str) -> None:
        """Raises NotEnumerableError."""
        raise NotEnumerableError(
            f"cannot tabulate {self.source.name}: expected a small tree, got {why}. Play it in Python as "
            f"{self.source.name}."
        )

    def index_infoset(self, seen: Any, seat: int) -> int:
        """Returns the index of a seat's information set in the order of discovery; 0 if it is not to move."""
        if not seen.to_move[seat]:
            return 0
        look = bytes([seat]) + seen.observation[seat].tobytes() + seen.legal[seat].tobytes()
        number = self.infosets.setdefault(look, len(self.rows))
        if number == len(self.rows):
            self.rows.append((seen.observation[seat], seen.legal[seat]))
        return number

    def expand(self, position: _IndexedPosition) -> list[_IndexedPosition]:
        """Returns all successors of a position."""
        seen, found = self.seen[position.at], []
        actions = self.source.num_actions
        moving = zip(seen.legal, seen.to_move, strict=True)
        choices = [np.flatnonzero(legal) if moves else [0] for legal, moves in moving]
        for joint in np.stack(np.meshgrid(*choices, indexing="ij"), axis=-1).reshape(-1, len(choices)):
            column = joint @ actions ** np.arange(len(joint)) if self.source.simultaneous else joint.sum()
            below = self.place(self.source.branches(position.state, joint))
            self.edges.append((position.at, int(column), below[0].at, len(below)))
            found += below
        return found

    def arrays(self, starts: int) -> GameArrays:
        positions, actions, seats = len(self.seen), self.source.num_actions, self.source.num_seats
        columns = actions**seats if self.source.simultaneous else actions
        if positions * columns > MAX_ENTRIES:
            self.refuse(f"{positions:,} positions times {columns:,} joint actions")
        successor = np.zeros((2, positions, columns), np.int32)
        position, column, first, count = np.asarray(self.edges).T
        successor[:, position, column] = first, count
        observation, legal = map(np.stack, zip(*self.rows, strict=True))
        over = np.asarray([seen.terminated for seen in self.seen])
        found = {
            "first": successor[0],
            "outcomes": successor[1],
            "chance": np.asarray(self.chance, np.float32),
            "cdf": np.asarray(self.cdf, np.float32),
            "infoset": np.asarray(self.numbers, np.int32),
            "to_move": np.stack([seen.to_move for seen in self.seen]),
            "reward": np.stack([seen.reward for seen in self.seen]),
            "over": over,
            "observation": observation,
            "legal": legal,
            "idle": self.seen[int(np.argmax(over))].observation,
        }
        with jax.ensure_compile_time_eval():
            arrays = {name: jnp.asarray(array) for name, array in found.items()}
        return GameArrays(**arrays, starts=starts, most_outcomes=int(count.max()), depth=self.depth)


@functools.lru_cache(maxsize=16)
def tabulate(source: OpenSpielGame) -> GameArrays:
    """Enumerates a game from all starts to all ends; the arrays are cached by the value of the game.

    Args:
      source: a game that enumerates its tree on the host.

    Returns:
      The tree as arrays of N positions.

    Raises:
      NotEnumerableError: if the tree has more than `MAX_POSITIONS` positions or `MAX_ENTRIES` successors.
    """
    return _Enumeration(source).run()


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class TabulatedGame:
    """A game as arrays without chance after the start, made by `tabulated_game`. Positions are indices [] int32."""

    source: OpenSpielGame
    short: str = ""  # replaces the default name

    continuous = False
    truncates = False

    @property
    def arrays(self) -> GameArrays:
        return tabulate(self.source)

    @property
    def name(self) -> str:
        return self.short or f"tabulated:{self.source.name}"

    @property
    def num_seats(self) -> int:
        return self.source.num_seats

    @property
    def num_actions(self) -> int:
        return self.source.num_actions

    @property
    def num_positions(self) -> int:
        """Positions of the whole tree, ends included."""
        return self.arrays.over.size

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return self.source.observation_shape

    @property
    def max_steps(self) -> int:
        return self.arrays.depth

    @property
    def simultaneous(self) -> bool:
        return self.source.simultaneous

    @property
    def player_of_seat(self) -> tuple[int, ...]:
        return self.source.player_of_seat

    @property
    def population_of_player(self) -> tuple[int, ...]:
        return self.source.population_of_player

    @property
    def return_bounds(self) -> tuple[float, float]:
        return self.source.return_bounds

    @property
    def zero_sum(self) -> bool:
        return self.source.zero_sum

    @property
    def cooperative(self) -> bool:
        return self.source.cooperative

    @property
    def player_names(self) -> tuple[str, ...] | None:
        return self.source.player_names

    def init(self, key: Array) -> GameState:
        """Draws one of the starts. key: consumed."""
        arrays = self.arrays
        drawn = jnp.sum(arrays.cdf[: arrays.starts - 1] <= draw_uniform(key), dtype=jnp.int32)
        return self._game_state(drawn, jnp.bool_(False))

    def deals(self) -> tuple[GameState, Array]:
        """Returns all starts, [N], and their probabilities, [N]."""
        starts, arrays = jnp.arange(self.arrays.starts), self.arrays
        return jax.vmap(lambda at: self._game_state(at, jnp.bool_(False)))(starts), arrays.chance[: arrays.starts]

    def step(self, state: GameState, actions: Array, key: Array) -> GameState:
        """Looks up the next position. actions: [S] int32. key: consumed if chance acts, else unused."""
        arrays, here = self.arrays, state.inner
        own = jnp.where(state.to_move, actions, 0)
        weights = self.num_actions ** np.arange(self.num_seats) if self.simultaneous else np.ones(self.num_seats, int)
        joint = jnp.sum(own * jnp.asarray(weights, jnp.int32))
        after = arrays.first[here, joint]
        if arrays.most_outcomes > 1:
            others = jnp.arange(arrays.most_outcomes - 1)
            passed = arrays.cdf[after + others] <= draw_uniform(key)
            after += jnp.sum(passed & (others < arrays.outcomes[here, joint] - 1), dtype=jnp.int32)
        return self._game_state(jnp.where(state.done, here, after), state.done)

    def _game_state(self, here: Array, was_over: Array) -> GameState:
        """Returns the state of a position [] upon arrival, without reward if the game `was_over` there already."""
        arrays = self.arrays
        to_move, infoset = arrays.to_move[here], arrays.infoset[here]
        moves = to_move.reshape(-1, *(1,) * len(self.observation_shape))
        return GameState(
            inner=here,
            observation=jnp.where(moves, arrays.observation[infoset], arrays.idle),
            legal=arrays.legal[infoset] & to_move[:, None],
            to_move=to_move,
            reward=jnp.where(was_over, 0.0, arrays.reward[here]),
            terminated=arrays.over[here],
            truncated=jnp.zeros((), jnp.bool_),
            infoset=infoset,
        )


class ChanceOutcome(NamedTuple):
    """A position that chance may lead to, on the host."""

    chance: float
    state: int  # index of the position
    seen: tuple[np.ndarray, ...]  # the fields of `GameState` after `inner`


class _HostArrays(NamedTuple):
    """Arrays on the host from which outcomes of moves are made."""

    fields: list[np.ndarray]  # of `GameState` at every position, without `inner`
    chance: np.ndarray
    first: np.ndarray
    outcomes: np.ndarray


@functools.lru_cache(maxsize=16)
def _host_arrays(game: TabulatedGame) -> _HostArrays:
    arrays = game.arrays
    state: Any = jax.jit(jax.vmap(lambda at: game._game_state(at, jnp.bool_(False))))(jnp.arange(arrays.over.size))
    fields = [np.asarray(getattr(state, field.name)) for field in dataclasses.fields(state) if field.name != "inner"]
    return _HostArrays(fields, *map(np.asarray, (arrays.chance, arrays.first, arrays.outcomes)))


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class ChanceTabulatedGame(TabulatedGame):
    """A game as arrays in which chance also acts after moves; exact evaluation enumerates its outcomes."""

    def starts(self) -> list[ChanceOutcome]:
        """Returns all positions before the first move."""
        return self._outcomes(0, self.arrays.starts)

    def branches(self, state: int, actions: np.ndarray) -> list[ChanceOutcome]:
        """Returns all positions that actions [S] may lead to from the position with index `state`."""
        fields, _, first, outcomes = _host_arrays(self)
        to_move = fields[2][state]  # after observation and legal
        own = np.where(to_move, actions, 0)
        joint = own @ self.num_actions ** np.arange(self.num_seats) if self.simultaneous else own.sum()
        return self._outcomes(first[state, joint], outcomes[state, joint])

    def _outcomes(self, first: int, count: int) -> list[ChanceOutcome]:
        fields, chance, _, _ = _host_arrays(self)
        return [
            ChanceOutcome(chance[at], at, tuple(field[at] for field in fields)) for at in range(first, first + count)
        ]


def tabulated_game(id: str, *, teams: bool = True, shared: bool = False, name: str = "") -> TabulatedGame:
    """Makes `tabulated:openspiel:<id>`, a small game of OpenSpiel as arrays.

    Args:
      id: `openspiel:<id>`, parameters as OpenSpiel writes them: "openspiel:kuhn_poker(players=3)".
      teams: players with identical utilities form one player.
      shared: all players are drawn from one population.
      name: name of the game; empty for `tabulated:openspiel:<id>`.

    Returns:
      The game, with its tree enumerated.

    Raises:
      NotEnumerableError: if its tree is too large.
      ValueError: if the id is not one of OpenSpiel.
      ImportError: if OpenSpiel is not installed.
    """
    provider, _, own = id.partition(":")
    expect(provider == "openspiel" and own, f"cannot tabulate {id!r}: expected tabulated:openspiel:<id>.")
    source = openspiel_game(own, teams=teams, shared=shared)
    return (ChanceTabulatedGame if tabulate(source).most_outcomes > 1 else TabulatedGame)(source, name)


def goofspiel(num_cards: int = 4, points_order: str = "random", shared: bool = False) -> TabulatedGame:
    """Makes two-player Goofspiel with imperfect information: players observe who won a round, not the bids.

    Args:
      num_cards: cards of each hand and number of prizes. Above 4 the tree is too large unless the order is fixed.
      points_order: order of the prizes: "random", "descending" or "ascending".
      shared: both players are drawn from one population.

    Returns:
      The game of OpenSpiel as arrays.

    Raises:
      NotEnumerableError: if its tree is too large.
      ImportError: if OpenSpiel is not installed.
    """
    orders = ("random", "descending", "ascending")
    expect(points_order in orders, f"points_order must be one of {orders}, got {points_order!r}.")
    sound = type(num_cards) is int and num_cards >= 2
    expect(sound, f"num_cards must be an integer of at least 2, got {num_cards!r}.")
    id = f"openspiel:goofspiel(imp_info=True,num_cards={num_cards},points_order={points_order})"
    return tabulated_game(id, shared=shared, name="goofspiel")
