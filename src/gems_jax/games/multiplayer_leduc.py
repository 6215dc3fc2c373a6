"""Leduc poker for two or three players, by OpenSpiel's rules (`leduc_poker(players=n, suit_isomorphism=True)`).

The deck has n + 1 ranks of two cards each. Every player antes 1 and gets one card. Two rounds of betting follow, with
at most two raises each, of 2 and then 4, and a public card between them. A pair with the public card wins, else the
highest rank; equal hands split the pot. Actions: 0 folds, 1 calls, 2 raises.

Betting is public and independent of the cards. Its tree, 1,120 nodes for three players, is tabulated on the host: a
position is the cards and a node. Suits do not matter: deals are of ranks, weighted by their probability.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.types import Array, GameState, Struct, expect

FOLD, CALL, RAISE = 0, 1, 2
RAISES = 2  # per round
SIZES = (2, 4)  # of a raise, by round


class BettingLine(NamedTuple):
    """A node of the betting tree during its construction."""

    played: tuple[tuple[int, ...], ...] = ((), ())  # actions by round
    paid: tuple[int, ...] = ()  # chips in the pot, by seat
    folded: tuple[bool, ...] = ()
    round: int = 0
    seat: int = 0  # to move
    calls: int = 0  # since the last raise of the round
    raises: int = 0  # in the round
    over: bool = False


def _legal(line: BettingLine) -> list[int]:
    behind = line.paid[line.seat] < max(line.paid)
    return [FOLD] * behind + [CALL] + [RAISE] * (line.raises < RAISES)


def _play(line: BettingLine, action: int) -> BettingLine:
    """Returns the node after an action of the seat to move."""
    seat, players = line.seat, len(line.paid)
    stakes = max(line.paid) + (SIZES[line.round] if action == RAISE else 0)
    paid = tuple(stakes if s == seat and action != FOLD else chips for s, chips in enumerate(line.paid))
    folded = tuple(gone or (s == seat and action == FOLD) for s, gone in enumerate(line.folded))
    played = (*line.played[: line.round], (*line.played[line.round], action), *line.played[line.round + 1 :])
    calls = 0 if action == RAISE else line.calls + (action == CALL)
    raises, left = line.raises + (action == RAISE), folded.count(False)
    settled = calls == (left if raises == 0 else left - 1)
    over = left == 1 or (settled and line.round == 1)
    following = range(players) if settled else [(seat + step) % players for step in range(1, players)]
    mover = next(s for s in following if not folded[s])
    if settled and not over:
        return BettingLine(played, paid, folded, line.round + 1, mover, 0, 0, False)
    return BettingLine(played, paid, folded, line.round, mover, calls, raises, over)


class BettingTree(NamedTuple):
    """All M nodes of the betting tree, on the host; node 0 is the first."""

    after: np.ndarray  # [M, 3] int32
    legal: np.ndarray  # [M, 3] bool
    seat: np.ndarray  # [M] int32
    second: np.ndarray  # [M] bool, in the second round
    over: np.ndarray  # [M] bool
    paid: np.ndarray  # [M, n] float32
    folded: np.ndarray  # [M, n] bool
    seen: np.ndarray  # [M, B] float32, two bits per action: called, raised
    decision: np.ndarray  # [M] int32, index among the nodes where a seat moves


@functools.cache
def betting_tree(players: int) -> BettingTree:
    """Tabulates the betting of Leduc poker, breadth first.

    Args:
      players: number of players.

    Returns:
      Arrays of M nodes, 1,120 for three players.
    """
    lines = [BettingLine(paid=(1,) * players, folded=(False,) * players)]
    after: list[list[int]] = []
    for line in lines:  # grows while it is read
        row = [0, 0, 0]
        for action in [] if line.over else _legal(line):
            row[action] = len(lines)
            lines.append(_play(line, action))
        after.append(row)
    over = np.asarray([line.over for line in lines])
    return BettingTree(
        np.asarray(after, np.int32),
        np.asarray(after) > 0,
        np.asarray([line.seat for line in lines], np.int32),
        np.asarray([line.round == 1 for line in lines]),
        over,
        np.asarray([line.paid for line in lines], np.float32),
        np.asarray([line.folded for line in lines]),
        np.stack([_bits(line, 3 * players - 2) for line in lines]),
        np.where(over, 0, np.cumsum(~over) - 1).astype(np.int32),
    )


def _bits(line: BettingLine, longest: int) -> np.ndarray:
    """Returns OpenSpiel's encoding of the betting: per slot whether it was a call and whether a raise."""
    bits = np.zeros((2, longest, 2), np.float32)
    for betting, actions in zip(bits, line.played, strict=True):
        for slot, action in enumerate(actions):
            if action != FOLD:
                betting[slot, action - CALL] = 1.0
    return bits.reshape(-1)


@functools.cache
def _deals(players: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns the ranks of all hands and of the public card [N, n + 1], and the probability of each deal [N]."""
    counted = [
        (ranks, collections.Counter(ranks)) for ranks in itertools.product(range(players + 1), repeat=players + 1)
    ]
    ways = {ranks: 2 ** len(times) for ranks, times in counted if max(times.values()) <= 2}
    chance = np.asarray(list(ways.values()), np.float64)
    return np.asarray(list(ways), np.int32), chance / chance.sum()


class LeducPosition(Struct):
    """A position of Leduc poker."""

    ranks: Array  # [n] int32, the hands
    public: Array  # [] int32, the public card's rank, shown in the second round
    node: Array  # [] int32, of the betting tree


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class MultiplayerLeduc:
    """Leduc poker for two or three players.

    Observations are OpenSpiel's information-state tensors: the seat, the hand, the public card, the bets.

    Args:
      players: 2 or 3. With four the tree has over 25 million positions.
      shared: all players are drawn from one population.
    """

    players: int = 3
    shared: bool = False

    num_actions = 3
    simultaneous = False
    continuous = False
    zero_sum = True
    truncates = False

    def __post_init__(self) -> None:
        expect(self.players in (2, 3), f"players must be 2 or 3, got {self.players!r}.")

    @property
    def name(self) -> str:
        return f"leduc_poker_{self.players}p"

    @property
    def num_seats(self) -> int:
        return self.players

    @property
    def max_steps(self) -> int:
        """Longest episode: in either round n - 1 checks, a raise, n - 2 calls, a raise and n - 1 calls."""
        return 2 * (3 * self.players - 2)

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return (self.players + 2 * (self.players + 1) + 2 * self.max_steps,)

    @property
    def player_of_seat(self) -> tuple[int, ...]:
        return tuple(range(self.players))

    @property
    def population_of_player(self) -> tuple[int, ...]:
        return (0,) * self.players if self.shared else tuple(range(self.players))

    @property
    def return_bounds(self) -> tuple[float, float]:
        """The ante and two raises per round, lost, or won from all others."""
        most = 1.0 + RAISES * sum(SIZES)
        return -most, most * (self.players - 1)

    @property
    def num_positions(self) -> int:
        """Positions of the whole tree: the betting tree once per deal."""
        return len(_deals(self.players)[1]) * len(betting_tree(self.players).over)

    def init(self, key: Array) -> GameState:
        """Deals all cards. key: consumed."""
        ranks, chance = _deals(self.players)
        ends = jnp.asarray(np.cumsum(chance)[:-1], jnp.float32)
        return self._start(jnp.asarray(ranks)[jnp.sum(ends <= jax.random.uniform(key))])

    def deals(self) -> tuple[GameState, Array]:
        """Returns all deals of ranks, [N], and their probabilities, [N]."""
        ranks, chance = _deals(self.players)
        return jax.vmap(self._start)(jnp.asarray(ranks)), jnp.asarray(chance, jnp.float32)

    def step(self, state: GameState, actions: Array, key: Array) -> GameState:
        """Plays the move of the seat to move, one of actions [n] int32. key: unused, chance acts in `init`."""
        del key
        inner: LeducPosition = state.inner
        action = jnp.sum(jnp.where(state.to_move, actions, 0))
        after = jnp.asarray(betting_tree(self.players).after)[inner.node, action]
        moved = inner.replace(node=jnp.where(state.done, inner.node, after))
        return self._game_state(moved, jnp.where(state.done, 0.0, self._returns(moved)))

    def _start(self, cards: Array) -> GameState:
        inner = LeducPosition(cards[:-1], cards[-1], jnp.int32(0))
        return self._game_state(inner, jnp.zeros(self.players, jnp.float32))

    def _returns(self, inner: LeducPosition) -> Array:
        """Returns what every player wins or loses, [n], zeros before the end."""
        tree = betting_tree(self.players)
        paid, folded = jnp.asarray(tree.paid)[inner.node], jnp.asarray(tree.folded)[inner.node]
        strength = jnp.where(inner.ranks == inner.public, self.players + 1, inner.ranks)
        strength = jnp.where(folded, -1, strength)
        wins = strength == strength.max()
        won = jnp.where(wins, paid.sum() / wins.sum(), 0.0)
        return jnp.where(jnp.asarray(tree.over)[inner.node], won - paid, 0.0)

    def _game_state(self, inner: LeducPosition, reward: Array) -> GameState:
        tree, node, seats = betting_tree(self.players), inner.node, jnp.arange(self.players)
        over = jnp.asarray(tree.over)[node]
        to_move = (seats == jnp.asarray(tree.seat)[node]) & ~over
        shown = jnp.where(jnp.asarray(tree.second)[node], inner.public, -1)
        cards, betting = self.players + 1, jnp.asarray(tree.seen)[node]

        def observe(seat: Array, rank: Array) -> Array:
            parts = (seats == seat, jnp.arange(cards) == rank, jnp.arange(cards) == shown)
            return jnp.concatenate([*(part.astype(jnp.float32) for part in parts), betting])

        return GameState(
            inner=inner,
            observation=jax.vmap(observe)(seats, inner.ranks),
            legal=to_move[:, None] & jnp.asarray(tree.legal)[node][None, :],
            to_move=to_move,
            reward=reward.astype(jnp.float32),
            terminated=over,
            truncated=jnp.zeros((), jnp.bool_),
            infoset=(jnp.asarray(tree.decision)[node] * cards + inner.ranks) * (cards + 1) + shown + 1,
        )
