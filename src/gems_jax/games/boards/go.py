"""The rules of Go as pgx has them, in forms that XLA fuses: the same states, in a fraction of the time on a CPU.

pgx looks neighbours up by gathers, counts the liberties of every chain twice in a move, and after every move fills the
whole board to score it. Here neighbours are shifted boards, liberties are counted for the chains next to a move and for
the legal moves only, and a game is scored when it is over.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from pgx._src.games import go

from gems_jax.types import Array


def _around(board: Array) -> Array:
    """What the four neighbours of every point hold, [X, X] -> [4, X, X]; nothing beyond the edge."""
    wide = jnp.pad(board, 1)
    return jnp.stack([wide[:-2, 1:-1], wide[2:, 1:-1], wide[1:-1, :-2], wide[1:-1, 2:]])


class GoRules(go.Game):
    """Go as `pgx._src.games.go.Game` has it; legal moves only."""

    def _grid(self, points: Array) -> Array:
        return points.reshape(self.size, self.size)

    def step(self, state: Any, action: Array) -> Any:
        state = state._replace(ko=jnp.int32(-1))
        passed = state._replace(consecutive_pass_count=state.consecutive_pass_count + 1)
        put = self._put(state._replace(consecutive_pass_count=jnp.int32(0)), action)
        state = jax.tree.map(lambda a, b: jnp.where(action < self.size**2, a, b), put, passed)
        stones = jnp.clip(state.board, -1, 1)
        past = jnp.concatenate([stones[None], state.board_history[:-1]])
        # ZOBRIST_BOARD[stones, point]: -1 counts from the end.
        empty, black, white = go.ZOBRIST_BOARD[:, : self.size**2]
        codes = jnp.where(stones[:, None] == 0, empty, jnp.where(stones[:, None] == 1, black, white))
        code = jax.lax.reduce(codes, jnp.uint32(0), jax.lax.bitwise_xor, (0,))
        now = jnp.arange(self.max_termination_steps) == state.step_count
        hashes = jnp.where(now[:, None], code[None, :], state.hash_history)
        repeated = jnp.sum((hashes == code[None, :]).all(axis=1)) > 1
        return state._replace(
            board_history=past,
            hash_history=hashes,
            is_psk=(state.consecutive_pass_count == 0) & repeated,
            step_count=state.step_count + 1,
        )

    def _put(self, state: Any, action: Array) -> Any:
        """A stone on an empty point: chains that lose their last liberty go, own neighbours become one chain."""
        board, own = state.board, 1 - 2 * state.color
        here = jnp.arange(self.size**2) == action
        near = go._adj_ixs(action, self.size)  # [4], -1 beyond the edge
        ids, inside = board[near], near != -1
        theirs, ours = inside & (ids * own < 0), inside & (ids * own > 0)
        chains = board[None, :] == ids[:, None]  # [4, X X]
        alive = _around(self._grid((board == 0) & ~here)).any(axis=0).reshape(-1)  # next to a liberty that is left
        taken = theirs & ~(chains & alive[None, :]).any(axis=1)
        gone = chains & taken[:, None]
        captured = jnp.sum(gone, dtype=jnp.int32)  # a chain that is met twice counts twice, as in pgx
        ko = (~inside | theirs).all() & (captured == 1)
        joined = here | (chains & ours[:, None]).any(axis=0)
        lowest = jnp.minimum(jnp.min(jnp.where(ours, jnp.abs(ids), 9999)), action + 1) * own
        return state._replace(
            board=jnp.where(joined, lowest, jnp.where(gone.any(axis=0), 0, board)),
            num_captured=state.num_captured + jnp.where(jnp.arange(2) == state.color, captured, 0),
            ko=jnp.where(ko, jnp.sum(jnp.where(taken, near, 0)), -1).astype(jnp.int32),
        )

    def legal_action_mask(self, state: Any) -> Array:
        board, own = state.board, 1 - 2 * state.color
        points = jnp.arange(self.size**2)
        # A liberty's number and its complement, side by side: where a chain's liberties are or-ed together, a bit
        # stands in both halves unless all of them are one point.
        bits = (self.size**2).bit_length()
        code = points | ((points ^ (2**bits - 1)) << bits)
        code = jnp.where(board == 0, code, 0)
        seen = jax.lax.reduce(_around(self._grid(code)), jnp.int32(0), jax.lax.bitwise_or, (0,)).reshape(-1)
        liberties = self._of_chain(board, seen)
        atari = (liberties & (liberties >> bits)) == 0
        helps = (board == 0) | ((board * own < 0) & atari) | ((board * own > 0) & ~atari)
        legal = (board == 0) & _around(self._grid(helps)).any(axis=0).reshape(-1) & (points != state.ko)
        return jnp.append(legal, True)

    def _of_chain(self, board: Array, seen: Array) -> Array:
        """`seen` [X X] or-ed together over every stone's chain; a loop, into which XLA cannot fuse what makes them."""

        def add(found: Array, row: tuple[Array, Array]) -> tuple[Array, None]:
            for chain, liberties in zip(*row, strict=True):
                found = found | jnp.where(board == chain, liberties, 0)
            return found, None

        return jax.lax.scan(add, jnp.zeros_like(seen), (self._grid(board), self._grid(seen)))[0]

    def rewards(self, state: Any) -> Array:
        over = self.is_terminal(state)
        colours = jnp.asarray([1, -1])
        stones = self._grid(state.board)[None] * colours[:, None, None] > 0  # [2, X, X]
        empty = self._grid(state.board) == 0

        def fill(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            reached, _ = carry
            further = reached | (jax.vmap(_around)(reached).any(axis=1) & empty[None])
            return further, jnp.any(further != reached)

        # Nobody looks at the score of a game that goes on.
        reached, _ = jax.lax.while_loop(lambda carry: carry[1], fill, (stones, over))
        area = jnp.sum(stones | (empty[None] & ~reached[::-1]), axis=(1, 2))
        black_wins = area[0] - self.komi > area[1]
        ends = jnp.where(black_wins, jnp.float32(1), jnp.float32(-1)) * colours
        repeated = jnp.where(jnp.arange(2) == state.color, jnp.float32(1), jnp.float32(-1))
        return jnp.where(over, jnp.where(state.is_psk, repeated, ends), 0.0)
