"""The rules of Go in a form that XLA fuses: equal states to pgx, in a fraction of the time on a CPU.

pgx gathers neighbors, counts the liberties of every chain twice per move, and scores the whole board after every move.
Here neighbors are shifted boards, liberties are counted only for chains next to a move and for legal moves, and only
finished games are scored.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from pgx._src.games import go

from gems_jax.types import Array


def _neighbors(board: Array) -> Array:
    """Returns the four neighbors of every point, [X, X] -> [4, X, X]; zero beyond the edge."""
    wide = jnp.pad(board, 1)
    return jnp.stack([wide[:-2, 1:-1], wide[2:, 1:-1], wide[1:-1, :-2], wide[1:-1, 2:]])


class GoRules(go.Game):
    """The rules of Go, equal to `pgx._src.games.go.Game`; legal moves only."""

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
        """Places a stone on an empty point: removes captured chains and merges own neighbors into one chain."""
        board, own = state.board, 1 - 2 * state.color
        here = jnp.arange(self.size**2) == action
        near = go._adj_ixs(action, self.size)  # [4], -1 beyond the edge
        ids, inside = board[near], near != -1
        theirs, ours = inside & (ids * own < 0), inside & (ids * own > 0)
        chains = board[None, :] == ids[:, None]  # [4, X X]
        alive = _neighbors(self._grid((board == 0) & ~here)).any(axis=0).reshape(-1)  # next to a remaining liberty
        taken = theirs & ~(chains & alive[None, :]).any(axis=1)
        gone = chains & taken[:, None]
        captured = jnp.sum(gone, dtype=jnp.int32)  # a chain with two adjacent points counts twice, as in pgx
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
        # The code of a liberty is its index and the complement. The bitwise or over a chain's liberties has a bit in
        # both halves unless they are a single point.
        bits = (self.size**2).bit_length()
        code = points | ((points ^ (2**bits - 1)) << bits)
        code = jnp.where(board == 0, code, 0)
        seen = jax.lax.reduce(_neighbors(self._grid(code)), jnp.int32(0), jax.lax.bitwise_or, (0,)).reshape(-1)
        liberties = self._combine_over_chains(board, seen)
        atari = (liberties & (liberties >> bits)) == 0
        helps = (board == 0) | ((board * own < 0) & atari) | ((board * own > 0) & ~atari)
        legal = (board == 0) & _neighbors(self._grid(helps)).any(axis=0).reshape(-1) & (points != state.ko)
        return jnp.append(legal, True)

    def _combine_over_chains(self, board: Array, seen: Array) -> Array:
        """Computes the bitwise or of `seen` [X X] over every stone's chain, in a loop, which XLA does not fuse."""

        def add(found: Array, row: tuple[Array, Array]) -> tuple[Array, None]:
            for chain, liberties in zip(*row, strict=True):
                found = found | jnp.where(board == chain, liberties, 0)
            return found, None

        return jax.lax.scan(add, jnp.zeros_like(seen), (self._grid(board), self._grid(seen)))[0]

    def rewards(self, state: Any) -> Array:
        over = self.is_terminal(state)
        colors = jnp.asarray([1, -1])
        stones = self._grid(state.board)[None] * colors[:, None, None] > 0  # [2, X, X]
        empty = self._grid(state.board) == 0

        def fill(carry: tuple[Array, Array]) -> tuple[Array, Array]:
            reached, _ = carry
            further = reached | (jax.vmap(_neighbors)(reached).any(axis=1) & empty[None])
            return further, jnp.any(further != reached)

        # Only finished games need a score.
        reached, _ = jax.lax.while_loop(lambda carry: carry[1], fill, (stones, over))
        area = jnp.sum(stones | (empty[None] & ~reached[::-1]), axis=(1, 2))
        black_wins = area[0] - self.komi > area[1]
        ends = jnp.where(black_wins, jnp.float32(1), jnp.float32(-1)) * colors
        repeated = jnp.where(jnp.arange(2) == state.color, jnp.float32(1), jnp.float32(-1))
        return jnp.where(over, jnp.where(state.is_psk, repeated, ends), 0.0)
