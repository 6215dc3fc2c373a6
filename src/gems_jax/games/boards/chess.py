"""Legal moves of chess for all squares at once, equal to those of pgx, which tests up to 200 moves for check.

From every square eight rays of seven squares and eight knight's leaps are looked up. A ray determines where a piece can
move and, read backwards, what the opponent attacks. Moves that would leave the own king in check follow from the king's
rays: a check must be met, and a pinned piece stays on its line.

As in pgx a square is 8 file + rank, and the board is from the view of the player to move: own pieces are 1 and up, the
opponent's -1 and down, and own pawns move to higher ranks.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jax import lax, vmap
from pgx._src.games import chess
from pgx._src.games.chess import BISHOP, EMPTY, KING, KNIGHT, PAWN, QUEEN, ROOK

from gems_jax.accelerator.cpu import compute_once
from gems_jax.types import Array

_EDGE = 7  # marks squares beyond the edge like an own piece
# Planes 9 to 64 of pgx: rays in this order, each starting at its far or near end, then the knight's leaps.
_RAYS = ((0, -1), (0, 1), (-1, 0), (1, 0), (-1, -1), (1, 1), (-1, 1), (1, -1))  # (file, rank)
_NEAR_FIRST = (False, True, False, True, False, True, False, True)
_LEAPS = ((-2, -1), (-2, 1), (-1, -2), (-1, 2), (2, -1), (2, 1), (1, -2), (1, 2))
_AXIS = np.asarray([0, 0, 1, 1, 2, 2, 3, 3])  # of a ray; opposite rays share it
_STRAIGHT = _AXIS < 2
_UP, _UP_RIGHT, _UP_LEFT, _LEFT, _RIGHT = 1, 5, 6, 2, 3
_FAR = np.asarray([range(1, 8) if near else range(7, 0, -1) for near in _NEAR_FIRST])  # [8, 7], distance in squares
_RANK = np.arange(64) % 8
_TURN = np.eye(64, dtype=np.float32)[np.rot90(np.arange(64).reshape(8, 8)).reshape(-1)].T  # quarter turn of a board


def _square(square: int, move: tuple[int, int], times: int) -> int:
    file, rank = square // 8 + times * move[0], square % 8 + times * move[1]
    return 8 * file + rank if 0 <= file < 8 and 0 <= rank < 8 else 64


_SEEN = np.asarray(
    [
        [_square(s, ray, far) for ray, row in zip(_RAYS, _FAR, strict=True) for far in row]
        + [_square(s, leap, 1) for leap in _LEAPS]
        for s in range(64)
    ]
)  # [64, 64], 64 beyond the edge
_RAY_TO, _FAR_TO = np.full((64, 64), -1), np.full((64, 64), -1)  # ray from one square to another, and the distance
for _s in range(64):
    for _number, _to in enumerate(_SEEN[_s, :56]):
        if _to < 64:
            _RAY_TO[_s, _to], _FAR_TO[_s, _to] = _number // 7, _FAR[_number // 7, _number % 7]


class _Rays(NamedTuple):
    """Pieces along eight rays, and whether the squares before them are empty; [..., 8, 7]."""

    piece: Array
    free: Array


def _rays(piece: Array) -> _Rays:
    taken = jnp.sum((piece != EMPTY) << (_FAR - 1), axis=-1, keepdims=True)  # a bit per square
    return _Rays(piece, (taken & ((1 << (_FAR - 1)) - 1)) == 0)


def _slides(piece: Array) -> Array:
    """Returns whether the opponent's piece slides along the ray, [..., 8, 7]."""
    across = jnp.asarray(_STRAIGHT)[:, None]
    return (piece == -QUEEN) | ((piece == -ROOK) & across) | ((piece == -BISHOP) & ~across)


def _attacks(rays: _Rays) -> Array:
    """Returns where the opponent's pieces attack the origin of the rays, [..., 8, 7]."""
    one = np.zeros((8, 7), bool) | (_FAR == 1)
    pawn = one & np.isin(np.arange(8), (_UP_LEFT, _UP_RIGHT))[:, None]
    piece = rays.piece
    return rays.free & (_slides(piece) | ((piece == -KING) & one) | ((piece == -PAWN) & pawn))


def _moves(own: Array, rays: _Rays) -> Array:
    """Returns where own pieces [64] may move along their rays, [64, 8, 7], regardless of checks."""
    own, across = own[:, None, None], jnp.asarray(_STRAIGHT)[:, None]
    far, ray = jnp.asarray(_FAR), jnp.arange(8)[:, None]
    slider = (own == QUEEN) | ((own == ROOK) & across) | ((own == BISHOP) & ~across)
    second = (far == 2) & (jnp.asarray(_RANK) == 1)[:, None, None]
    push = (ray == _UP) & ((far == 1) | second) & (rays.piece == EMPTY)
    capture = ((ray == _UP_LEFT) | (ray == _UP_RIGHT)) & (far == 1) & (rays.piece < 0)
    reaches = slider | ((own == KING) & (far == 1)) | ((own == PAWN) & (push | capture))
    return reaches & rays.free & (rays.piece <= 0)


def legal_action_mask(state: Any) -> Array:
    """Computes the mask [4672] of `pgx._src.games.chess._legal_action_mask`."""
    board = state.board
    king = jnp.argmax(board == KING)
    ray_to, far_to = jnp.asarray(_RAY_TO)[king], jnp.asarray(_FAR_TO)[king]  # [64], from the king

    # From the king: checks, and own pieces between the king and an attacker.
    around = jnp.append(board, _EDGE)[jnp.asarray(_SEEN)[king]]
    rays = _rays(around[:56].reshape(8, 7))
    checks, leaps = _attacks(rays), around[56:] == -KNIGHT
    count = checks.sum() + leaps.sum()
    first_far = jnp.min(jnp.where(rays.piece != EMPTY, _FAR, 8), axis=1)  # [8], 8 where a ray is empty
    shield = (rays.piece > 0) & (rays.piece < _EDGE) & (first_far[:, None] == _FAR)
    behind = _rays(jnp.where(shield, EMPTY, rays.piece))
    pins = shield.any(axis=1) & (behind.free & _slides(behind.piece)).any(axis=1)  # [8]
    check_far = jnp.max(jnp.where(checks, _FAR, 0), axis=1)  # [8]
    own_ray = ray_to[:, None] == jnp.arange(8)
    blocks = (own_ray & (far_to[:, None] <= check_far)).any(axis=1)
    leaper = ((jnp.asarray(_SEEN)[king, 56:] == jnp.arange(64)[:, None]) & leaps).any(axis=1)
    meets = (count == 0) | ((count == 1) & (blocks | leaper))  # [64], targets that meet all checks
    pinned = (own_ray & pins & (far_to[:, None] == first_far)).any(axis=1)  # [64]

    # From every square.
    # The product appends the edge; XLA would recompute its operand for each of the 4096 lookups.
    packed = ((board + 8) | (meets << 4)).astype(jnp.float32) @ jnp.eye(64, 65)
    packed = (packed.astype(jnp.int32) + (jnp.arange(65) == 64) * (_EDGE + 8))[jnp.asarray(_SEEN)]
    seen, meets = (packed & 15) - 8, packed >> 4 == 1
    piece, leap = seen[:, :56].reshape(64, 8, 7), seen[:, 56:]
    attacked = _attacks(_rays(jnp.where(piece == KING, EMPTY, piece))).any(axis=(1, 2)) | (leap == -KNIGHT).any(axis=1)
    kings = board == KING
    safe = ~jnp.append(attacked, True)[jnp.asarray(_SEEN)[king, :56]].reshape(8, 7)
    on_line = ~pinned[:, None] | (jnp.asarray(_AXIS)[ray_to][:, None] == jnp.asarray(_AXIS))
    held = meets[:, :56].reshape(64, 8, 7) & on_line[:, :, None]
    along = _moves(board, _rays(piece)) & jnp.where(kings[:, None, None], safe, held)
    along = along | _en_passant(state) | _castling(state, attacked)
    leaping = (board == KNIGHT)[:, None] & (leap <= 0) & meets[:, 56:] & ~pinned[:, None]
    pawns = (board == PAWN) & (jnp.asarray(_RANK) == 6)
    promoted = pawns[:, None] & jnp.stack([along[:, ray, _nearest(ray)] for ray in (_UP, _UP_RIGHT, _UP_LEFT)], axis=1)
    return jnp.concatenate([jnp.tile(promoted, (1, 3)), along.reshape(64, 56), leaping], axis=1).reshape(-1)


def _nearest(ray: int) -> int:
    return 0 if _NEAR_FIRST[ray] else 6


def _ray_mask(ray: int, far: int) -> np.ndarray:
    """Returns the mask [8, 7] of one square of a ray."""
    return (np.arange(8) == ray)[:, None] & (far == _FAR)


def _en_passant(state: Any) -> Array:
    """Returns legal en passant captures, [64, 8, 7]; tests the move, because two pawns leave a line at once."""
    to = state.en_passant
    origin = jnp.stack([to - 9, to + 7])  # to the right, to the left
    inside = (to >= 0) & (origin >= 0) & (origin < 64)
    legal = inside & (state.board[origin] == PAWN) & (state.board[to - 1] == -PAWN)

    def checked(square: Array) -> Array:
        return chess._is_checked(chess._apply_move(state, chess.Action(from_=square, to=to)))

    legal = legal & ~vmap(checked)(origin)
    here = (jnp.arange(64)[:, None] == origin) & legal  # [64, 2]
    right, left = (_ray_mask(ray, 1) for ray in (_UP_RIGHT, _UP_LEFT))
    return (here[:, 0, None, None] & right) | (here[:, 1, None, None] & left)


def _castling(state: Any, attacked: Array) -> Array:
    """Returns legal castling moves, [64, 8, 7], as two steps of the king."""
    board, rights = state.board, state.castling_rights[0]
    home = board[32] == KING
    left = home & (board[0] == ROOK) & (board[jnp.asarray([8, 16, 24])] == EMPTY).all()
    right = home & (board[56] == ROOK) & (board[jnp.asarray([40, 48])] == EMPTY).all()
    left = left & rights[0] & ~attacked[jnp.asarray([16, 24, 32])].any()
    right = right & rights[1] & ~attacked[jnp.asarray([32, 40, 48])].any()
    king = (np.arange(64) == 32)[:, None, None]
    return (left & (king & _ray_mask(_LEFT, 2))) | (right & (king & _ray_mask(_RIGHT, 2)))


class ChessRules(chess.Game):
    """The rules of chess, equal to `pgx._src.games.chess.Game`."""

    def observe(self, state: Any, color: Array | None = None) -> Array:
        """Computes the observation [8, 8, 119]: pieces and repetitions of eight positions, then scalar facts.

        Args:
          state: state of the game.
          color: whose view of the board; None for the color to move.
        """
        color = state.color if color is None else color
        state = lax.cond(color == state.color, lambda: state, lambda: chess._flip(state))
        hashes = state.hash_history
        recent = hashes[:8]
        repeated = jnp.sum((hashes[None] == recent[:, None]).all(axis=2), axis=1) > 1
        repeated = repeated & (recent != 0).any(axis=1)
        # XLA computes products once; it would recompute other operations for each of the 119 planes.
        boards = (state.board_history.astype(jnp.float32) @ _TURN).reshape(8, 8, 8).transpose(1, 2, 0)
        plane = jnp.arange(14)
        code = jnp.where(plane < 6, plane + 1, 5 - plane)
        past = jnp.where(plane < 12, boards[..., None] == code, repeated[:, None] == (plane == 13))
        facts = jnp.stack(
            [
                color.astype(jnp.float32),
                state.step_count / chess.MAX_TERMINATION_STEPS,
                *state.castling_rights.reshape(-1).astype(jnp.float32),
                state.halfmove_count.astype(jnp.float32) / 100.0,
            ]
        )
        facts = jnp.matmul(facts, jnp.eye(7), precision="highest")
        past = compute_once(past).reshape(8, 8, 112).astype(jnp.float32)
        return jnp.concatenate([past, jnp.broadcast_to(facts, (8, 8, 7))], axis=2)

    def step(self, state: Any, action: Array) -> Any:
        state = chess._apply_move(state, chess.Action._from_label(action))
        state = chess._update_history(chess._flip(state))
        return state._replace(legal_action_mask=legal_action_mask(state), step_count=state.step_count + 1)
