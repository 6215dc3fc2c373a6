"""Chess players that count material: a greedy one, and one that also looks at the opponent's best capture.

Both see the pieces and the legal moves, as every policy does. Pieces count 1, 3, 3, 5 and 9 pawns. The players ignore
checkmate, checks and repetition, and draw uniformly among the best moves.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.opponents.bit_rows import look, pack_rows
from gems_jax.policies.distributions import mask_logits
from gems_jax.types import Array, Policy, PolicyOutput, PyTree

VALUES = (1, 3, 3, 5, 9, 0)  # pawn, knight, bishop, rook, queen; the king is never captured
_PAWN, _QUEEN = 0, 4
_PROMOTIONS = (3, 2, 1)  # pieces of the planes of underpromotion: rook, bishop, knight
_MOST_MOVES = 218  # legal moves of any position
_STRAIGHT, _DIAGONAL = ((1, 0), (-1, 0), (0, 1), (0, -1)), ((1, 1), (1, -1), (-1, 1), (-1, -1))
_LEAPS = ((-1, -2), (1, -2), (-2, -1), (2, -1), (-1, 2), (1, 2), (-2, 1), (2, 1))  # (rank, file), in pgx's order
# Rays of the planes 9 to 64: (rank, file) of a step, and whether the nearest square comes first.
_RAYS = (
    ((-1, 0), False), ((1, 0), True), ((0, -1), False), ((0, 1), True),
    ((-1, -1), False), ((1, 1), True), ((1, -1), False), ((-1, 1), True),
)  # fmt: skip


class MoveTable(NamedTuple):
    """Facts about the 4672 actions. A square is 8 file + rank, from the view of the player to move."""

    origin: np.ndarray  # [4672]
    target: np.ndarray  # [4672], 64 beyond the edge
    diagonal: np.ndarray  # one step diagonally forwards, [4672] bool
    promoted: np.ndarray  # piece that a pawn becomes on the last rank, [4672]


@functools.cache
def move_table() -> MoveTable:
    """Decodes all actions of chess: planes of underpromotion, of rays and of leaps for every square."""
    steps = [(1, file) for _ in _PROMOTIONS for file in (0, 1, -1)]
    for (rank, file), near_first in _RAYS:
        steps += [(rank * far, file * far) for far in (range(1, 8) if near_first else range(7, 0, -1))]
    rank, file = np.asarray([*steps, *_LEAPS]).T[:, None, :]  # [1, 73]
    square = np.arange(64)[:, None]
    to_rank, to_file = square % 8 + rank, square // 8 + file
    inside = (to_rank >= 0) & (to_rank < 8) & (to_file >= 0) & (to_file < 8)
    plane = np.broadcast_to(np.arange(73), inside.shape)
    pieces = np.asarray([*np.repeat(_PROMOTIONS, 3), *[_QUEEN] * 64])
    return MoveTable(
        origin=np.broadcast_to(square, inside.shape).reshape(-1),
        target=np.where(inside, 8 * to_file + to_rank, 64).reshape(-1),
        diagonal=np.broadcast_to((rank == 1) & (np.abs(file) == 1), inside.shape).reshape(-1),
        promoted=pieces[plane].reshape(-1),
    )


def _by_square(planes: Array) -> Array:
    """Orders planes [8, 8, n], top rank first, by square: [64, n]."""
    return jnp.swapaxes(planes[::-1], 0, 1).reshape(64, -1)


def capture_gains(observation: Array) -> Array:
    """Computes the material that every action wins at once.

    Args:
      observation: [8, 8, 119], of the player to move.

    Returns:
      Value of the captured piece, and of a promotion, in pawns, [4672] float32; arbitrary for illegal actions.
    """
    table, values = move_table(), jnp.asarray(VALUES, jnp.float32)
    theirs = _by_square(observation[:, :, 6:12])
    own_pawn = _by_square(observation[:, :, :1])[:, 0] > 0
    held = jnp.append(theirs @ values, 0.0)[jnp.asarray(table.target)]
    taken = jnp.append(theirs.sum(axis=1), 0.0)[jnp.asarray(table.target)] > 0
    pawn = own_pawn[jnp.asarray(table.origin)]
    en_passant = pawn & jnp.asarray(table.diagonal) & ~taken
    promotes = pawn & jnp.asarray(table.origin % 8 == 6)
    return held + en_passant + jnp.where(promotes, values[jnp.asarray(table.promoted)] - 1.0, 0.0)


def attacked_squares(pieces: Array, filled: Array) -> Array:
    """Finds the squares that the opponent attacks, for any number of boards.

    Args:
      pieces: the opponent's pawns, knights, bishops, rooks, queens and kings, integers per rank [6, ..., 8].
      filled: squares with any piece, [..., 8].

    Returns:
      The attacked squares, [..., 8], empty or not.
    """
    pawn, knight, bishop, rook, queen, king = pieces
    found = look(pawn, 1, 1) | look(pawn, 1, -1)  # the opponent's pawns move down
    for step in _LEAPS:
        found |= look(knight, *step)
    for steps, sliders in ((_STRAIGHT, rook | queen), (_DIAGONAL, bishop | queen)):
        for up, right in steps:
            found |= look(king, up, right)
            reached, free = sliders, ~filled & 255
            for far in (1, 2, 4):
                reached |= free & look(reached, far * up, far * right)
                free &= look(free, far * up, far * right)
            found |= look(reached, up, right)
    return found & 255


def _rows_of(squares: Array) -> Array:
    """Converts squares [...] to boards [..., 8] with one bit; none for square 64."""
    board = np.zeros((65, 8), np.int32)
    board[np.arange(64), np.arange(64) % 8] = 1 << np.arange(64) // 8
    return jnp.asarray(board)[squares]


def _reply_losses(observation: Array, actions: Array) -> Array:
    """Computes the value [n] of the most valuable piece that the opponent attacks after each action [n]."""
    table = move_table()
    planes = jax.vmap(pack_rows, in_axes=2)(observation[:, :, :12])  # [12, 8]
    own, theirs = (jnp.broadcast_to(part[:, None], (6, len(actions), 8)) for part in jnp.split(planes, 2))
    origin, target = jnp.asarray(table.origin)[actions], jnp.asarray(table.target)[actions]
    left, reached = _rows_of(origin)[None], _rows_of(target)[None]
    moved = jnp.any((own & left) != 0, axis=2)  # [6, n], which piece moves
    promotes = moved[_PAWN] & (origin % 8 == 6)
    piece = jnp.where(promotes, jnp.asarray(table.promoted)[actions], jnp.argmax(moved, axis=0))
    becomes = (jnp.arange(6)[:, None] == piece[None, :])[..., None]
    own = (own & ~left) | jnp.where(becomes, reached, 0)
    quiet = ~jnp.any((theirs & reached) != 0, axis=(0, 2))
    en_passant = moved[_PAWN] & jnp.asarray(table.diagonal)[actions] & quiet
    passed = jnp.where(en_passant[None, :, None], look(reached, 1, 0), 0)
    theirs = theirs & ~(reached | passed)
    filled = jax.lax.reduce(jnp.concatenate([own, theirs]), jnp.int32(0), jax.lax.bitwise_or, (0,))
    attacked = attacked_squares(theirs, filled)
    hit = jnp.any((own & attacked[None]) != 0, axis=2)  # [6, n]
    return jnp.max(jnp.where(hit, jnp.asarray(VALUES, jnp.float32)[:, None], 0.0), axis=0)


def _choose(scores: Array, legal: Array) -> PolicyOutput:
    """Plays uniformly among the legal actions of the highest score."""
    scores = jnp.where(legal, scores, -jnp.inf)
    return PolicyOutput(logits=mask_logits(jnp.zeros(len(legal)), legal & (scores == jnp.max(scores))))


@dataclasses.dataclass(frozen=True)
class MaterialGreedy:
    """Makes the capture or promotion that wins most material, or any move if there is none."""

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        del phi
        return _choose(capture_gains(observation), legal)


@dataclasses.dataclass(frozen=True)
class MaterialExchange:
    """Maximizes the material that a move wins minus the most valuable piece that the reply can capture.

    Replies are all captures by the way pieces move, including those that a pin forbids. Castling is seen as a move of
    the king alone.
    """

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        del phi
        (actions,) = jnp.nonzero(legal, size=_MOST_MOVES, fill_value=0)
        there = jnp.arange(_MOST_MOVES) < jnp.sum(legal)
        scores = capture_gains(observation)[actions] - _reply_losses(observation, actions)
        best = there & (scores == jnp.max(jnp.where(there, scores, -jnp.inf)))
        wanted = jnp.zeros(len(legal), jnp.int32).at[actions].max(best.astype(jnp.int32)) > 0
        return PolicyOutput(logits=mask_logits(jnp.zeros(len(legal)), wanted & legal))


def material_greedy() -> Policy:
    """Makes the chess player that captures the most valuable piece."""
    return Policy((), MaterialGreedy())


def material_exchange() -> Policy:
    """Makes the chess player that looks two plies ahead: its move, and the opponent's best capture."""
    return Policy((), MaterialExchange())
