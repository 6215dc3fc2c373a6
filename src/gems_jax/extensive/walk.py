"""Breadth-first enumeration behind `build_tree`: from the deals of a game to all its ends, on the host.

The game's own `step` runs on chunks of positions; the results are stored as NumPy arrays. A *position* is a history of
the game. If observations forget (`add_history`), many positions share a state, and every state is stepped once.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.types import (
    Array,
    Averaging,
    Branching,
    Enumerable,
    Game,
    GameState,
    ImperfectRecallError,
    NotEnumerableError,
    PyTree,
    expect,
    supports,
)

_CHUNK = 512  # positions stepped at once: one compilation per game, whatever the width of its tree
_MAX_BYTES = 2**29  # limit on the positions of one depth: board games exceed memory before the count
ALTERNATIVES = (
    "Measure it by playing: `gems eval RUN --exploiter 200` computes a lower bound of exploitability, "
    "gems_jax.evaluate.sampled.sampled_row the returns of a profile against fixed opponents."
)

REMEMBER = (
    "Use gems_jax.games.with_history(game), by name history:<id>: it adds the seat's past observations and moves to "
    "its observation. Exact evaluation does so behind the scenes."
)


def _stack_branches(branches: list[Any]) -> tuple[GameState, np.ndarray]:
    """Stacks branches (chance, state, seen) into [n] states, which hold the game's own, and chances [n]."""
    inner = np.empty(len(branches), object)
    inner[:] = [branch.state for branch in branches]
    fields: Any = map(np.stack, zip(*(branch.seen for branch in branches), strict=True))
    return GameState(inner, *fields), np.asarray([branch.chance for branch in branches])


def _advance(game: Game, states: GameState, actions: Array) -> tuple[GameState, Array]:
    """Steps [n] states by joint actions [n, S]; also returns whether each step is equal for two keys."""

    def one(state: GameState, action: Array) -> tuple[GameState, Array]:
        if supports(game, Averaging):
            return game.expected_step(state, action), jnp.bool_(True)
        after, again = (game.step(state, action, jax.random.key(seed)) for seed in (0, 1))
        return after, _all_equal(after, again)

    return jax.vmap(one)(states, actions)


_advance_jit = jax.jit(_advance)


def _deals(game: Game) -> tuple[GameState, Array]:
    if not supports(game, Enumerable):
        raise NotImplementedError("it does not list its initial states (no `deals`).")
    return game.deals()


_deals_jit = jax.jit(_deals)


def _list_deals(game: Game) -> tuple[GameState, Array]:
    if is_pytree(game):
        try:
            return _deals_jit(game)  # much faster than eager evaluation
        except jax.errors.JAXTypeError:  # it needs concrete values
            pass
    return _deals(game)


def is_pytree(game: Game) -> bool:
    """Returns whether the game is a pytree (static or with leaves), and so may be an argument of a jitted function."""
    return not any(leaf is game for leaf in jax.tree.leaves(game))


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _all_equal(tree: PyTree, other: PyTree) -> Array:
    """Compares two trees of numbers; ignores PRNG keys that the game carries along."""
    pairs = zip(jax.tree.leaves(tree), jax.tree.leaves(other), strict=True)
    return jnp.stack([jnp.array_equal(a, b, equal_nan=False) for a, b in pairs if not _is_key(a)]).all()


def _to_host(tree: PyTree) -> PyTree:
    return jax.tree.map(lambda leaf: leaf if _is_key(leaf) else np.asarray(leaf), tree)


def _take(tree: PyTree, rows: np.ndarray) -> PyTree:
    return jax.tree.map(lambda leaf: leaf[rows], tree)


def _concatenate(trees: list[PyTree]) -> PyTree:
    join = lambda *leaves: (jnp if _is_key(leaves[0]) else np).concatenate(leaves)  # noqa: E731
    return jax.tree.map(join, *trees)


@dataclasses.dataclass
class Positions:
    """Positions of one depth, [n], with their histories. Positions may share a state, [u]."""

    states: Any  # GameState of [u], None for positions that are finished
    state: np.ndarray  # [n] int, index of the state
    chance: np.ndarray  # [n] float64
    returns: np.ndarray  # [n, S] float64
    last: np.ndarray  # [n, S] last sequence of each seat in the order of discovery, -1 for the empty one

    def take(self, rows: np.ndarray) -> Positions:
        """Selects positions; keeps all states."""
        return Positions(self.states, self.state[rows], self.chance[rows], self.returns[rows], self.last[rows])

    @classmethod
    def join(cls, parts: list[Positions]) -> Positions:
        """Concatenates finished positions, without their states."""
        fields = zip(*((part.state, part.chance, part.returns, part.last) for part in parts), strict=True)
        return cls(None, *map(np.concatenate, fields))


@dataclasses.dataclass
class Layer:
    """Transitions from the unfinished positions of one depth, [m], to the [n] positions of the next."""

    infosets: np.ndarray  # [m, S] in the order of discovery, -1 where a seat does not move
    parent: np.ndarray  # [n] int, from 0 to m - 1
    actions: np.ndarray  # [n, S] int32, 0 where a seat does not move
    chance: np.ndarray  # [n] float64, probability of the position after its joint action


class Walk:
    """One enumeration of a game: `run()` returns the leaves; the attributes hold the information sets by discovery.

    Sequences have indices in that order, too: `infoset * A + action`, -1 for the empty one.

    A *view* is what a policy can distinguish: a seat, its observation and its legal actions. With perfect recall every
    view is one information set. `add_history=True` is for games whose observations forget: an information set is then a
    view and the seat's last sequence, hence everything that the seat observed and did at its earlier moves. Positions
    of one depth whose states agree in every byte are stepped once.

    Args:
      game: the game.
      max_nodes: largest number of positions.
      add_history: make information sets of histories instead of refusing imperfect recall.
    """

    def __init__(self, game: Game, max_nodes: int, add_history: bool = False):
        self.game, self.max_nodes, self.add_history = game, max_nodes, add_history
        self.nodes = 0
        self.index: dict[bytes, int] = {}  # (seat, observation, legal) -> view
        self.observation: list[np.ndarray] = []  # of every view
        self.legal: list[np.ndarray] = []  # of every view
        self.view_seat: list[int] = []
        self.number: list[int] = []  # the game's own indices of the views, if it has them
        self.histories: dict[tuple[int, int], int] = {}  # (view, last sequence) -> information set
        self.view: list[int] = []  # of every information set
        self.seat: list[int] = []
        self.parent: list[int] = []
        self.layers: list[Layer] = []  # one per depth that was expanded
        self.deal_chance = np.zeros(0)  # [deals]
        self.done: list[np.ndarray] = []  # one per depth, [n] bool, which of its positions are finished
        # The game is an argument, so that matrix games that differ only in their payoffs share one compilation.
        self.advance = partial(_advance_jit, game) if is_pytree(game) else jax.jit(partial(_advance, game))

    def refuse(self, why: str, instead: str = ALTERNATIVES) -> NoReturn:
        """Raises NotEnumerableError with the reason."""
        raise NotEnumerableError(f"cannot enumerate the game {self.game.name!r}: {why} {instead}")

    def deals(self) -> Positions:
        """Returns the initial positions."""
        if self.game.continuous:
            self.refuse("its actions are continuous.")
        if supports(self.game, Branching):
            states, chance = _stack_branches(self.game.starts())
        else:
            states, chance = self.list_deals()
        shape = (chance.size, self.game.num_seats)
        states, state = self.merge(states)
        return Positions(states, state, chance, np.zeros(shape), np.full(shape, -1))

    def list_deals(self) -> tuple[GameState, np.ndarray]:
        """Returns all `deals` [N] on the host and their probabilities [N]."""
        try:
            states, probabilities = _list_deals(self.game)
        except (NotImplementedError, NotEnumerableError) as error:
            self.refuse(str(error))
        chance = np.asarray(probabilities, np.float64)
        sound = chance.ndim == 1 and np.isclose(chance.sum(), 1.0, atol=1e-5) and (chance >= 0).all()
        expect(sound, f"deals() of {self.game.name!r} must give probabilities [N] that sum to 1, got {chance}.")
        return _to_host(states), chance / chance.sum()

    def run(self) -> list[Positions]:
        """Enumerates the game; returns the finished positions of every depth, without their states."""
        positions, leaves = self.deals(), []
        self.deal_chance = positions.chance
        for depth in range(self.game.max_steps + 1):
            done = np.asarray(positions.states.done, bool)[positions.state]
            self.nodes += done.size
            self.done.append(done)
            leaves.append(dataclasses.replace(positions.take(done), states=None))
            if done.all():
                return leaves
            if depth < self.game.max_steps:
                positions = self.expand(positions.take(~done), depth)
        raise ValueError(
            f"{self.game.name!r} does not end: expected at most max_steps = {self.game.max_steps} steps, got more."
        )

    def expand(self, positions: Positions, depth: int) -> Positions:
        """Plays every joint action of every position, once per state."""
        state, seats = positions.states, self.game.num_seats
        first = np.arange(self.game.num_actions) == 0
        choices = np.where(state.to_move[..., None], state.legal, first)  # [u, S, A]; idle seats get a dummy
        rows = np.nonzero(~np.asarray(state.done, bool))[0]
        self.check_size(choices.sum(-1), positions, rows, depth)
        infosets = self.register(positions)  # [m, S]
        actions = np.zeros((rows.size, seats), np.int32)
        for seat in range(seats):
            old, action = np.nonzero(choices[rows, seat])
            rows, actions = rows[old], actions[old]
            actions[:, seat] = action
        if supports(self.game, Branching):
            after, masses, parents = self.branch(self.game, state, rows, actions)
            rows, actions = rows[parents], actions[parents]
        else:
            after, masses = self.step(state, rows, actions, depth), np.ones(rows.size)
        parent, edge = _follow(rows, positions.state)
        actions, masses = actions[edge], masses[edge]
        taken = infosets[parent] * self.game.num_actions + actions
        last = np.where(infosets[parent] >= 0, taken, positions.last[parent])
        self.layers.append(Layer(infosets, parent, actions, masses))
        returns = positions.returns[parent] + after.reward[edge]
        states, place = self.merge(after)
        return Positions(states, place[edge], positions.chance[parent] * masses, returns, last)

    def merge(self, states: GameState) -> tuple[GameState, np.ndarray]:
        """Merges states [n] that agree in every byte but the reward: states [u] by first occurrence, and indices [n].

        Without `add_history` nothing is merged: observations then contain the history, and few states would agree.
        """
        if not self.add_history or supports(self.game, Branching):
            return states, np.arange(len(states.terminated))
        firsts, index = first_rows(state_bytes(states))
        return _take(states, firsts), index

    def check_size(self, counts: np.ndarray, positions: Positions, rows: np.ndarray, depth: int) -> None:
        """Raises NotEnumerableError if the next depth would be too large.

        Where the history is added, also if two more moves at the present growth exceed the limit in the first half of
        the longest game, before millions of positions are listed.

        Args:
          counts: legal actions per state and seat, [u, S].
          positions: unfinished positions of this depth.
          rows: their states.
          depth: their depth.
        """
        expect(counts.all(), f"{self.game.name!r} has a seat to move without a legal action, at depth {depth}.")
        joint = counts.prod(-1)
        children = int(joint[positions.state].sum())
        if self.nodes + children > self.max_nodes:
            size = f"{self.nodes + children:,} positions down to depth {depth + 1}"
            self.refuse(f"its tree has {size} and more below, over the limit of {self.max_nodes:,} (max_nodes).")
        growth = children / positions.state.size
        if self.add_history and 2 * (depth + 1) < self.game.max_steps and children * growth**2 > self.max_nodes:
            size = f"{self.nodes + children:,} positions down to depth {depth + 1} of {self.game.max_steps}"
            self.refuse(
                f"its tree has {size} and grows {growth:.1f} times per move: limit {self.max_nodes:,} (max_nodes)."
            )
        steps = int(joint[rows].sum())
        need = steps * sum(leaf.nbytes for leaf in jax.tree.leaves(positions.states)) // len(counts)
        if need > _MAX_BYTES:
            self.refuse(f"the {steps:,} positions of depth {depth + 1} need {need:,} bytes; limit {_MAX_BYTES:,}.")

    def branch(
        self, game: Branching, states: GameState, rows: np.ndarray, actions: np.ndarray
    ) -> tuple[GameState, np.ndarray, np.ndarray]:
        """Steps positions one by one where chance may act after any move: positions, chances [n], parents [n]."""
        made, parents = [], []
        for parent, (row, joint) in enumerate(zip(rows, actions, strict=True)):
            found = game.branches(states.inner[row], joint)
            made += found
            parents += [parent] * len(found)
        if self.nodes + len(made) > self.max_nodes:
            self.refuse(f"its tree has more than {self.max_nodes:,} positions (max_nodes).")
        return *_stack_branches(made), np.asarray(parents)

    def step(self, states: GameState, rows: np.ndarray, actions: np.ndarray, depth: int) -> GameState:
        """Steps states chunk by chunk; copies of its first row fill the last chunk."""
        parts = []
        for start in range(0, rows.size, _CHUNK):
            chunk = np.arange(start, start + _CHUNK)
            chunk = np.where(chunk < rows.size, chunk, start)
            after, same = self.advance(_take(states, rows[chunk]), actions[chunk])
            if not np.asarray(same).all():
                self.refuse(f"its step is random (at depth {depth}), but chance may only act in `deals`.")
            parts.append(_take(_to_host(after), np.arange(min(_CHUNK, rows.size - start))))
        return _concatenate(parts)

    def register(self, positions: Positions) -> np.ndarray:
        """Returns the information set of each position and seat, [m, S], -1 if the seat does not move."""
        infosets = np.full(positions.last.shape, -1)
        for seat in range(self.game.num_seats):
            view = self.register_views(positions.states, seat)[positions.state]
            rows = np.nonzero(view >= 0)[0]
            if rows.size:
                find = self.find_histories if self.add_history else self.find_infosets
                infosets[rows, seat] = find(view[rows], positions.last[rows, seat], seat)
        return infosets

    def register_views(self, state: GameState, seat: int) -> np.ndarray:
        """Returns the view of one seat in each state, [u], -1 if it does not move. New views get the next indices."""
        views = np.full(len(state.to_move), -1)
        rows = np.nonzero(state.to_move[:, seat])[0]
        if not rows.size:
            return views
        observation = np.ascontiguousarray(state.observation[rows, seat], np.float32) + 0.0  # -0.0 equals 0.0
        legal = np.ascontiguousarray(state.legal[rows, seat], bool)
        looks = np.concatenate([as_bytes(observation), as_bytes(legal)], axis=1)
        firsts, inverse = first_rows(looks)  # new views get indices in the order of discovery
        ids = np.empty(firsts.size, int)
        for place, row in enumerate(firsts):
            ids[place] = self.index.setdefault(f"{seat}:".encode() + looks[row].tobytes(), len(self.view_seat))
            if ids[place] == len(self.view_seat):
                self.observation.append(observation[row])
                self.legal.append(legal[row])
                self.view_seat.append(seat)
                if state.infoset is not None:
                    self.number.append(int(state.infoset[rows[row], seat]))
        views[rows] = ids[inverse]
        self.check_numbers(state, rows, seat, views[rows])
        return views

    def find_infosets(self, views: np.ndarray, last: np.ndarray, seat: int) -> np.ndarray:
        """Returns the information sets [n] of views [n] after the sequences `last` [n], one per view.

        Raises:
          ImperfectRecallError: if a seat forgets its own moves.
        """
        found, firsts = np.unique(views, return_index=True)
        for view, row in zip(found, firsts, strict=True):
            if view >= len(self.seat):
                self.add_infoset(int(view), int(last[row]))
        forgotten = np.nonzero(np.asarray(self.parent)[views] != last)[0]
        if forgotten.size:
            seen = self.observation[views[forgotten[0]]]
            what = f"the observation {seen.tolist()}" if seen.size <= 64 else "one observation"
            raise ImperfectRecallError(
                f"cannot enumerate the game {self.game.name!r}: imperfect recall: seat {seat} forgets, {what} follows "
                f"two different sequences of its own moves. {REMEMBER}"
            )
        return views

    def find_histories(self, views: np.ndarray, last: np.ndarray, seat: int) -> np.ndarray:
        """Returns the information sets [n] of views [n] after the sequences `last` [n], one per pair."""
        pairs = np.stack([views, last], axis=1).astype(np.int64)
        firsts, inverse = first_rows(as_bytes(pairs))
        ids = np.empty(firsts.size, int)
        for place, (view, before) in enumerate(pairs[firsts].tolist()):
            ids[place] = self.histories.setdefault((view, before), len(self.seat))
            if ids[place] == len(self.seat):
                self.add_infoset(view, before)
        return ids[inverse]

    def add_infoset(self, view: int, parent: int) -> None:
        """Adds an information set of a view, after the sequence `parent`."""
        self.view.append(view)
        self.seat.append(self.view_seat[view])
        self.parent.append(parent)

    def check_numbers(self, state: GameState, rows: np.ndarray, seat: int, views: np.ndarray) -> None:
        """Raises ValueError unless the game's own indices map one to one to its views and start at 0."""
        if state.infoset is None:
            return
        given, known = state.infoset[rows, seat], np.asarray(self.number)
        if (given != known[views]).any() or len(np.unique(known)) < len(known) or (known < 0).any():
            raise ValueError(
                f"{self.game.name!r} must number its information sets one to one, from 0 on (GameState.infoset): got "
                f"{sorted(set(given.tolist()))} of seat {seat} for {len(np.unique(views))} information sets."
            )


def _follow(rows: np.ndarray, states: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lists every edge of every position: parents [n] and edges [n], from the sorted states of edges and [m] states."""
    start = np.searchsorted(rows, states, "left")
    count = np.searchsorted(rows, states, "right") - start
    parent = np.repeat(np.arange(states.size), count)
    return parent, np.arange(parent.size) - np.repeat(np.cumsum(count) - count - start, count)


def as_bytes(rows: np.ndarray) -> np.ndarray:
    """Returns the bytes [n, bytes] of rows [n, ...]."""
    return np.ascontiguousarray(rows).reshape(rows.shape[0], -1).view(np.uint8)


def state_bytes(states: GameState) -> np.ndarray:
    """Returns the bytes [n, bytes] of states [n], without the rewards of the steps that led to them."""
    leaves = jax.tree.leaves(states.replace(reward=None))
    arrays = [np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf) for leaf in leaves]
    return np.concatenate(list(map(as_bytes, arrays)), axis=1)


def first_rows(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Finds equal rows of bytes [n, bytes]: the first row of each kind [u], ascending, and the kind of each row [n]."""
    whole = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1]))).ravel()
    _, firsts, inverse = np.unique(whole, return_index=True, return_inverse=True)
    order = np.argsort(firsts)
    return firsts[order], np.argsort(order)[inverse.ravel()]
