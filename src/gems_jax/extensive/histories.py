"""The histories of an enumerable game as arrays, one row of nodes per deal: the input of sampling methods.

`GameTree` is the sequence form, which does not store the order in which different seats moved. Here every history is a
node. Seats that move simultaneously become consecutive nodes in seat order. Later seats do not observe what earlier
ones chose, because their nodes share an information set. Chance after a move is a separate node.

The nodes of a deal are ordered by level, the number of nodes above them. All deals are padded to the same levels, so
that a sweep over the levels of one deal is a sweep over static slices of [M].
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.extensive.tree import build_tree, eager_evaluation, node_limit, sort_infosets
from gems_jax.extensive.walk import Layer, Positions, Walk
from gems_jax.types import Array, Game, Struct, num_players, static_field


class Histories(Struct):
    """Nodes [M] of one deal, or [D, M] of all deals; K slots per node hold its actions or the outcomes of chance.

    Padding has no children, no payoff and `exists` False. Node 0 is the first position of the deal.
    """

    infoset: Array  # [..., M] int32, index in the `GameTree`; 0 if nobody moves
    player: Array  # [..., M] int32, the player who moves; -1 for chance, ends and padding
    draw: Array  # [..., M] int32, first node of the deal with the same information set; the node itself if nobody moves
    child: Array  # [..., M, K] int32, the node behind a slot; 0 for none
    open: Array  # [..., M, K] bool, slots that lead somewhere
    chance: Array  # [..., M, K] float32, probabilities of the outcomes of chance; 0 at other nodes
    parent: Array  # [..., M] int32
    slot: Array  # [..., M] int32, of the parent
    exists: Array  # [..., M] bool
    end: Array  # [..., M] bool
    steps: Array  # [..., M] int32, calls of `step` on the edge that leads to the node: 1 or 0
    payoff: Array  # [..., M, players] float32, at ends; 0 elsewhere
    level_ends: tuple[int, ...] = static_field()  # level d is the nodes level_ends[d-1]:level_ends[d]

    @property
    def levels(self) -> tuple[tuple[int, int], ...]:
        return tuple(zip((0, *self.level_ends[:-1]), self.level_ends, strict=True))

    def take(self, deal: Array) -> Histories:
        """Returns the nodes [M] of one deal []."""
        return jax.tree.map(lambda leaf: leaf[deal], self)


def build_histories(game: Game) -> tuple[Histories, Array]:
    """Builds the nodes of all deals of a game; the result is cached by the value of the game.

    Args:
      game: an enumerable game.

    Returns:
      `Histories` with a leading axis of D deals, and the probabilities of the deals [D] float32.

    Raises:
      NotEnumerableError: if `build_tree` cannot enumerate the game.
    """
    build_tree(game)
    hashable: Any = game
    return _cached_histories(hashable)


@lru_cache(maxsize=64)
def _cached_histories(game: Any) -> tuple[Histories, Array]:
    with eager_evaluation():
        walk = Walk(game, node_limit(game))
        leaves = walk.run()
        nodes = _Nodes(walk, leaves)
        return nodes.arrays(), jnp.asarray(walk.deal_chance, jnp.float32)


@dataclasses.dataclass
class _Arrival:
    """The edge that leads to a position: the node above (-1 for a deal), its slot, and calls of `step`."""

    parent: int
    slot: int
    steps: int
    deal: int


class _Nodes:
    """Nodes of all deals as lists, parents before children."""

    def __init__(self, walk: Walk, leaves: list[Positions]):
        self.walk = walk
        self.place = np.argsort(sort_infosets(walk)[0])
        self.edges: list[_Arrival] = []
        self.level: list[int] = []
        self.infoset: list[int] = []  # -1 for chance and ends
        self.returns: dict[int, np.ndarray] = {}  # of ends
        self.outcomes: dict[int, np.ndarray] = {}  # of chance
        arrivals = [_Arrival(-1, 0, 0, deal) for deal in range(len(walk.done[0]))]
        for depth, (done, ends) in enumerate(zip(walk.done, leaves, strict=True)):
            for row, position in enumerate(np.nonzero(done)[0]):
                self.returns[self.add(arrivals[position])] = ends.returns[row]
            if depth < len(walk.layers):
                arrivals = self.expand(list(itertools.compress(arrivals, ~done)), walk.layers[depth])

    def add(self, edge: _Arrival, infoset: int = -1) -> int:
        self.edges.append(edge)
        self.level.append(0 if edge.parent < 0 else self.level[edge.parent] + 1)
        self.infoset.append(-1 if infoset < 0 else int(self.place[infoset]))
        return len(self.level) - 1

    def expand(self, arrivals: list[_Arrival], layer: Layer) -> list[_Arrival]:
        """Adds the nodes of unfinished positions; returns the edges to the positions of the next depth."""
        found: list[_Arrival] = []
        bounds = np.searchsorted(layer.parent, np.arange(len(arrivals) + 1))
        for arrival, infosets, (start, stop) in zip(arrivals, layer.infosets, itertools.pairwise(bounds), strict=True):
            movers = np.nonzero(infosets >= 0)[0]
            joint = [tuple(actions) for actions in layer.actions[start:stop][:, movers].tolist()]
            made: dict[tuple[int, ...], int] = {}
            for actions, outcomes in _runs(joint, layer.chance[start:stop]):
                edge = arrival
                for number, seat in enumerate(movers):
                    if actions[:number] not in made:
                        made[actions[:number]] = self.add(edge, infosets[seat])
                    edge = _Arrival(made[actions[:number]], actions[number], 0, arrival.deal)
                found += self.expand_chance(
                    dataclasses.replace(edge, steps=1) if len(movers) else edge, outcomes, len(movers)
                )
        return found

    def expand_chance(self, edge: _Arrival, outcomes: np.ndarray, movers: int) -> list[_Arrival]:
        """Returns the edges to the positions that chance may lead to after all movers have moved."""
        if movers and len(outcomes) == 1:
            return [edge]
        chance = self.add(edge)
        self.outcomes[chance] = outcomes
        steps = 0 if movers else 1  # a step without movers is itself a chance node
        return [_Arrival(chance, slot, steps, edge.deal) for slot in range(len(outcomes))]

    def arrays(self) -> Histories:
        game = self.walk.game
        deal, level = np.asarray([edge.deal for edge in self.edges]), np.asarray(self.level)
        counts = np.zeros((deal.max() + 1, level.max() + 1), int)
        np.add.at(counts, (deal, level), 1)
        ends = np.cumsum(counts.max(axis=0))
        order = np.lexsort((np.arange(len(deal)), level, deal))
        first = np.cumsum(counts.ravel()) - counts.ravel()  # of every deal and level, in `order`
        place = np.empty(len(deal), int)
        place[order] = np.arange(len(deal)) - np.repeat(first, counts.ravel())
        place += (ends - counts.max(axis=0))[level]
        widest = max([game.num_actions, *map(len, self.outcomes.values())])
        shape = (deal.max() + 1, ends[-1])
        return self.fill(shape, widest, deal, place).replace(level_ends=tuple(ends.tolist()))

    def payoffs(self, player_of_seat: np.ndarray) -> np.ndarray:
        """Returns the payoff of every player at every end, [ends, players]."""
        returns = np.stack(list(self.returns.values()))
        owned = [player_of_seat == player for player in range(max(player_of_seat) + 1)]
        return np.stack([returns[:, seats].mean(axis=1) for seats in owned], axis=1)

    def fill(self, shape: tuple[int, int], slots: int, deal: np.ndarray, place: np.ndarray) -> Histories:
        """Writes every node to [deal, place] of arrays of `shape`."""
        at, game = (deal, place), self.walk.game
        player_of_seat = np.asarray(game.player_of_seat)
        seat_of_infoset = np.asarray(self.walk.seat, int)[np.argsort(self.place)]
        above = np.asarray([edge.parent for edge in self.edges])
        slot, infoset = np.asarray([edge.slot for edge in self.edges]), np.asarray(self.infoset)
        below = np.nonzero(above >= 0)[0]
        found = {name: np.zeros(shape, np.int32) for name in ("infoset", "parent", "slot", "steps")}
        found["infoset"][at] = np.maximum(infoset, 0)
        found["parent"][deal[below], place[below]] = place[above[below]]
        found["slot"][at] = slot
        found["steps"][at] = [edge.steps for edge in self.edges]
        player, draw = np.full(shape, -1, np.int32), np.tile(np.arange(shape[1], dtype=np.int32), (shape[0], 1))
        decides = infoset >= 0
        player[deal[decides], place[decides]] = player_of_seat[seat_of_infoset[infoset[decides]]]
        child, is_open = np.zeros((*shape, slots), np.int32), np.zeros((*shape, slots), bool)
        edges = (deal[below], place[above[below]], slot[below])
        child[edges], is_open[edges] = place[below], True
        exists, end = np.zeros(shape, bool), np.zeros(shape, bool)
        exists[at] = True
        payoff = np.zeros((*shape, num_players(game)), np.float32)
        ends = np.fromiter(self.returns, int)
        end[deal[ends], place[ends]] = True
        payoff[deal[ends], place[ends]] = self.payoffs(player_of_seat)
        chance = np.zeros((*shape, slots), np.float32)
        for node, outcomes in self.outcomes.items():
            chance[deal[node], place[node], : len(outcomes)] = outcomes / outcomes.sum()
        for row in range(shape[0]):
            nodes = np.nonzero(player[row] >= 0)[0]
            _, firsts, inverse = np.unique(found["infoset"][row, nodes], return_index=True, return_inverse=True)
            draw[row, nodes] = nodes[firsts[inverse]]
        arrays = {**found, "player": player, "draw": draw, "child": child, "open": is_open, "chance": chance}
        arrays |= {"exists": exists, "end": end, "payoff": payoff}
        return Histories(**{name: jnp.asarray(array) for name, array in arrays.items()}, level_ends=())


def _runs(joint: list[tuple[int, ...]], chance: np.ndarray) -> Iterator[tuple[tuple[int, ...], np.ndarray]]:
    """Consecutive equal joint actions, with the chances of the positions that each leads to."""
    start = 0
    for actions, group in itertools.groupby(joint):
        stop = start + len(list(group))
        yield actions, chance[start:stop]
        start = stop
