"""The breadth-first walk behind `build_tree`: from the deals of a game to all its ends, on the host.

The game's own `step` runs on a whole chunk of positions at a time; what is remembered of them is numpy.
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
    NotEnumerableError,
    PyTree,
    expect,
    supports,
)

_CHUNK = 512  # positions stepped at once: one compilation per game, whatever the width of its tree
_MAX_BYTES = 2**29  # of the positions of one depth: a board game outgrows the machine before it outgrows the count
ALTERNATIVES = (
    "Measure it by playing: `gems eval RUN --exploiter 200` gives a lower bound of exploitability, "
    "gems_jax.evaluate.sampled.sampled_row what a profile earns against fixed opponents."
)


def _behind_chance(branches: list[Any]) -> tuple[GameState, np.ndarray]:
    """Branches (chance, state, seen) of a game that walks itself, as [n] states that hold its own, and chances [n]."""
    inner = np.empty(len(branches), object)
    inner[:] = [branch.state for branch in branches]
    fields: Any = map(np.stack, zip(*(branch.seen for branch in branches), strict=True))
    return GameState(inner, *fields), np.asarray([branch.chance for branch in branches])


def _advance(game: Game, states: GameState, actions: Array) -> tuple[GameState, Array]:
    """[n] states one joint action [n, S] further, and whether each step came out the same for two keys."""

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


def _deals_of(game: Game) -> tuple[GameState, Array]:
    if registered(game):
        try:
            return _deals_jit(game)  # much quicker than one operation after the other
        except jax.errors.JAXTypeError:  # it looks at concrete values
            pass
    return _deals(game)


def registered(game: Game) -> bool:
    """Whether the game is a pytree (static or with leaves) and so may be an argument of a jitted function."""
    return not any(leaf is game for leaf in jax.tree.leaves(game))


def _is_key(leaf: Any) -> bool:
    return jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _all_equal(tree: PyTree, other: PyTree) -> Array:
    """Whether two trees hold the same numbers; a key that the game carries along unused does not count."""
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
    """Positions of one depth, [n], with what led to them."""

    states: Any  # GameState of [n], None for those that are finished
    chance: np.ndarray  # [n] float64
    returns: np.ndarray  # [n, S] float64
    last: np.ndarray  # [n, S] last sequence of each seat in the order of discovery, -1 for the empty one

    def take(self, rows: np.ndarray) -> Positions:
        return Positions(_take(self.states, rows), self.chance[rows], self.returns[rows], self.last[rows])

    @classmethod
    def join(cls, parts: list[Positions]) -> Positions:
        """All finished positions, without their states."""
        fields = zip(*((part.chance, part.returns, part.last) for part in parts), strict=True)
        return cls(None, *map(np.concatenate, fields))


@dataclasses.dataclass
class Layer:
    """How the unfinished positions of one depth, [m], lead to the [n] positions of the next."""

    infosets: np.ndarray  # [m, S] in the order of discovery, -1 where a seat does not move
    parent: np.ndarray  # [n] int, from 0 to m - 1
    actions: np.ndarray  # [n, S] int32, 0 where a seat does not move
    chance: np.ndarray  # [n] float64, probability of the position after its joint action


class Walk:
    """One walk: `run()` returns the leaves and leaves the information sets behind, in the order of discovery.

    Sequences are numbered by that order too: `infoset * A + action`, -1 for the empty one.
    """

    def __init__(self, game: Game, max_nodes: int):
        self.game, self.max_nodes = game, max_nodes
        self.nodes = 0
        self.index: dict[bytes, int] = {}  # (seat, observation, legal) -> information set
        self.observation: list[np.ndarray] = []
        self.legal: list[np.ndarray] = []
        self.seat: list[int] = []
        self.parent: list[int] = []
        self.layers: list[Layer] = []  # one per depth that was expanded
        self.deal_chance = np.zeros(0)  # [deals]
        self.done: list[np.ndarray] = []  # one per depth, [n] bool, which of its positions are finished
        self.number: list[int] = []  # what the game itself calls the information set, where it does
        # As an argument, so that matrix games which differ only in their numbers share one compilation.
        self.advance = partial(_advance_jit, game) if registered(game) else jax.jit(partial(_advance, game))

    def refuse(self, why: str) -> NoReturn:
        raise NotEnumerableError(f"Exact evaluation cannot walk the game {self.game.name!r}: {why} {ALTERNATIVES}")

    def deals(self) -> Positions:
        if self.game.continuous:
            self.refuse("its actions are continuous.")
        if supports(self.game, Branching):
            states, chance = _behind_chance(self.game.starts())
        else:
            states, chance = self.listed_deals()
        shape = (chance.size, self.game.num_seats)
        return Positions(states, chance, np.zeros(shape), np.full(shape, -1))

    def listed_deals(self) -> tuple[GameState, np.ndarray]:
        """All `deals` [N] on the host, and their probabilities [N]."""
        try:
            states, probabilities = _deals_of(self.game)
        except (NotImplementedError, NotEnumerableError) as error:
            self.refuse(str(error))
        chance = np.asarray(probabilities, np.float64)
        sound = chance.ndim == 1 and np.isclose(chance.sum(), 1.0, atol=1e-5) and (chance >= 0).all()
        expect(sound, f"deals() of {self.game.name!r} must give probabilities [N] that sum to 1, got {chance}.")
        return _to_host(states), chance / chance.sum()

    def run(self) -> list[Positions]:
        """The finished positions of every depth, without their states."""
        positions, leaves = self.deals(), []
        self.deal_chance = positions.chance
        for depth in range(self.game.max_steps + 1):
            done = np.asarray(positions.states.done, bool)
            self.nodes += done.size
            self.done.append(done)
            leaves.append(dataclasses.replace(positions.take(done), states=None))
            if done.all():
                return leaves
            if depth < self.game.max_steps:
                positions = self.expand(positions.take(~done), depth)
        raise ValueError(f"{self.game.name!r} goes on after its max_steps of {self.game.max_steps}.")

    def expand(self, positions: Positions, depth: int) -> Positions:
        """Every joint action of every position."""
        state, seats = positions.states, self.game.num_seats
        first = np.arange(self.game.num_actions) == 0
        choices = np.where(state.to_move[..., None], state.legal, first)  # [n, S, A]; a seat at rest has one dummy move
        self.check_size(choices.sum(-1), state, depth)
        infosets = self.register(positions)  # [n, S]
        rows, actions = np.arange(len(choices)), np.zeros((len(choices), seats), np.int32)
        for seat in range(seats):
            old, action = np.nonzero(choices[rows, seat])
            rows, actions = rows[old], actions[old]
            actions[:, seat] = action
        taken = infosets[rows] * self.game.num_actions + actions
        last = np.where(infosets[rows] >= 0, taken, positions.last[rows])
        if supports(self.game, Branching):
            after, masses, parents = self.branch(self.game, state, rows, actions)
            rows, last, actions = rows[parents], last[parents], actions[parents]
        else:
            after, masses = self.step(state, rows, actions, depth), np.ones(rows.size)
        self.layers.append(Layer(infosets, rows, actions, masses))
        return Positions(after, positions.chance[rows] * masses, positions.returns[rows] + after.reward, last)

    def check_size(self, counts: np.ndarray, state: GameState, depth: int) -> None:
        """Refuses trees that would grow too large. counts: [n, S], how many actions each seat has."""
        expect(counts.all(), f"{self.game.name!r} has a seat to move without a legal action, at depth {depth}.")
        children = int(counts.prod(-1).sum())
        if self.nodes + children > self.max_nodes:
            size = f"{self.nodes + children:,} positions down to depth {depth + 1}"
            self.refuse(f"its tree has {size} and more below, over the limit of {self.max_nodes:,} (max_nodes).")
        need = children * sum(leaf.nbytes for leaf in jax.tree.leaves(state)) // len(counts)
        if need > _MAX_BYTES:
            self.refuse(f"the {children:,} positions of depth {depth + 1} need {need:,} bytes; limit {_MAX_BYTES:,}.")

    def branch(
        self, game: Branching, states: GameState, rows: np.ndarray, actions: np.ndarray
    ) -> tuple[GameState, np.ndarray, np.ndarray]:
        """One after the other, where chance may act after any move: positions, their chances, and who led to each."""
        made, parents = [], []
        for parent, (row, joint) in enumerate(zip(rows, actions, strict=True)):
            found = game.branches(states.inner[row], joint)
            made += found
            parents += [parent] * len(found)
        if self.nodes + len(made) > self.max_nodes:
            self.refuse(f"its tree has more than {self.max_nodes:,} positions (max_nodes).")
        return *_behind_chance(made), np.asarray(parents)

    def step(self, states: GameState, rows: np.ndarray, actions: np.ndarray, depth: int) -> GameState:
        """Chunk by chunk, the last one filled up with copies of its first row."""
        parts = []
        for start in range(0, rows.size, _CHUNK):
            chunk = np.arange(start, start + _CHUNK)
            chunk = np.where(chunk < rows.size, chunk, start)
            after, same = self.advance(_take(states, rows[chunk]), actions[chunk])
            if not np.asarray(same).all():
                self.refuse(f"its step draws at random (seen at depth {depth}), and chance may only act in `deals`.")
            parts.append(_take(_to_host(after), np.arange(min(_CHUNK, rows.size - start))))
        return _concatenate(parts)

    def register(self, positions: Positions) -> np.ndarray:
        """The information set of each position and seat, [n, S], -1 where the seat does not move."""
        state, infosets = positions.states, np.full(positions.last.shape, -1)
        for seat in range(self.game.num_seats):
            rows = np.nonzero(state.to_move[:, seat])[0]
            if not rows.size:
                continue
            observation = np.ascontiguousarray(state.observation[rows, seat], np.float32) + 0.0  # -0.0 equals 0.0
            legal = np.ascontiguousarray(state.legal[rows, seat], bool)
            looks = np.concatenate([as_bytes(observation), as_bytes(legal)], axis=1)
            _, firsts, inverse = np.unique(looks, axis=0, return_index=True, return_inverse=True)
            ids = np.empty(firsts.size, int)
            for rank in np.argsort(firsts):  # number new information sets in the order of the walk
                row = firsts[rank]
                ids[rank] = self.index.setdefault(f"{seat}:".encode() + looks[row].tobytes(), len(self.seat))
                if ids[rank] == len(self.seat):
                    self.observation.append(observation[row])
                    self.legal.append(legal[row])
                    self.seat.append(seat)
                    self.parent.append(int(positions.last[rows[row], seat]))
                    if state.infoset is not None:
                        self.number.append(int(state.infoset[rows[row], seat]))
            self.check_numbers(state, rows, seat, ids[inverse.ravel()])
            infosets[rows, seat] = ids[inverse.ravel()]
            self.check_recall(infosets[rows, seat], positions.last[rows, seat], seat)
        return infosets

    def check_numbers(self, state: GameState, rows: np.ndarray, seat: int, infosets: np.ndarray) -> None:
        """Numbers of what is seen, where the game has them, count from 0; what looks alike has one, no other has it."""
        if state.infoset is None:
            return
        given, known = state.infoset[rows, seat], np.asarray(self.number)
        if (given != known[infosets]).any() or len(np.unique(known)) < len(known) or (known < 0).any():
            raise ValueError(
                f"{self.game.name!r} must number its information sets one to one, from 0 on (GameState.infoset): got "
                f"{sorted(set(given.tolist()))} of seat {seat} for {len(np.unique(infosets))} information sets."
            )

    def check_recall(self, infosets: np.ndarray, last: np.ndarray, seat: int) -> None:
        forgotten = np.nonzero(np.asarray(self.parent)[infosets] != last)[0]
        if forgotten.size:
            seen = self.observation[infosets[forgotten[0]]]
            what = f"the observation {seen.tolist()}" if seen.size <= 64 else "one observation"
            self.refuse(
                f"seat {seat} forgets what it did: {what} comes after two different sequences of its own moves, and a "
                "best response is then no matter of one sweep. Put the seat's own past moves into its observation."
            )


def as_bytes(rows: np.ndarray) -> np.ndarray:
    """[n, ...] numbers as [n, bytes]."""
    return np.ascontiguousarray(rows).reshape(rows.shape[0], -1).view(np.uint8)
