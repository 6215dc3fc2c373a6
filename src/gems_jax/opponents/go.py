"""A scripted Go player that captures, saves its own chains and does not fill its eyes.

In this order it plays uniformly among

1. the moves that capture most stones,
2. the moves that extend the largest own chain in atari to at least two liberties,
3. all moves but self-atari and own single-point eyes,
4. a pass.

It does not read ladders or count territory.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.policies.distributions import mask_logits
from gems_jax.types import Array, Policy, PolicyOutput, PyTree

_WORD = 27  # points per uint32


def _shift_all(board: Array, edge: Array | bool | int = 0) -> Array:
    """Returns the four neighbors of every point, [..., X, X, W] -> [4, ..., X, X, W]; `edge` beyond the edge."""
    pad = [(0, 0)] * (board.ndim - 3) + [(1, 1), (1, 1), (0, 0)]
    wide = jnp.pad(board, pad, constant_values=edge)
    return jnp.stack([wide[..., :-2, 1:-1, :], wide[..., 2:, 1:-1, :], wide[..., 1:-1, :-2, :], wide[..., 1:-1, 2:, :]])


def _join(parts: Array) -> Array:
    """Computes the bitwise or over the first axis."""
    return jax.lax.reduce(parts, jnp.zeros((), parts.dtype), jax.lax.bitwise_or, (0,))


def _point_bits(size: int) -> np.ndarray:
    """Returns a bit set with one point for every point, [X, X, W] uint32."""
    points = np.arange(size * size)
    bits = np.zeros((size * size, -(-size * size // _WORD)), np.uint32)
    bits[points, points // _WORD] = np.uint32(1) << (points % _WORD).astype(np.uint32)
    return bits.reshape(size, size, -1)


def _count(bits: Array) -> Array:
    """Counts the points of bit sets [..., W]."""
    return jnp.sum(jax.lax.population_count(bits), axis=-1).astype(jnp.int32)


def chain_liberties(stones: Array) -> tuple[Array, Array]:
    """Finds chains and their liberties.

    Args:
      stones: own stones and the opponent's, [2, X, X] bool.

    Returns:
      For every stone the points of its chain and the liberties of its chain, bit sets [2, X, X, W] uint32; empty where
      there is no stone.
    """
    points = jnp.asarray(_point_bits(stones.shape[-1]))
    filled = stones[..., None]
    free = jnp.where(stones.any(axis=0)[..., None], jnp.uint32(0), points)
    near = jnp.broadcast_to(_join(_shift_all(free))[None], (2, *points.shape))
    both = jnp.concatenate([jnp.broadcast_to(points[None], near.shape), near], axis=-1)
    both = jnp.where(filled, both, jnp.uint32(0))

    def grow(carry: tuple[Array, Array]) -> tuple[Array, Array]:
        old, _ = carry
        new = jnp.where(filled, old | _join(_shift_all(old)), jnp.uint32(0))
        return new, jnp.any(new != old)

    both, _ = jax.lax.while_loop(lambda carry: carry[1], grow, (both, jnp.bool_(True)))
    chains, liberties = jnp.split(both, 2, axis=-1)
    return chains, liberties


@dataclasses.dataclass(frozen=True)
class GoTactician:
    """Plays Go by the rules of the module docstring; needs the planes of both players' stones."""

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        del phi
        stones = jnp.moveaxis(observation[:, :, :2], -1, 0) > 0  # [2, X, X]
        allowed = legal[:-1].reshape(stones.shape[1:])
        chains, liberties = chain_liberties(stones)
        points = jnp.asarray(_point_bits(stones.shape[1]))
        atari = stones & (_count(liberties) == 1)
        own, other = atari[..., None]
        # A stone in atari is captured, or saved, at its only liberty; count the stones by that point.
        taken = jnp.where(allowed, _stones_at(jnp.where(other, liberties[1], 0), points), 0)
        after = self._liberties_after(stones[0], liberties[0], observation, points)
        safe = allowed & ((after >= 2) | (taken > 0))
        saved = jnp.where(safe, _stones_at(jnp.where(own, liberties[0], 0), points), 0)
        eye = _shift_all(stones[0][..., None], edge=True).all(axis=0)[..., 0]
        quiet = safe & ~eye
        most_taken, most_saved = (each == jnp.max(each) for each in (taken, saved))
        wanted = jnp.where(quiet.any(), quiet, False)
        wanted = jnp.where((saved > 0).any(), most_saved & (saved > 0), wanted)
        wanted = jnp.where((taken > 0).any(), most_taken & (taken > 0), wanted).reshape(-1)
        return PolicyOutput(logits=mask_logits(jnp.zeros(len(legal)), jnp.append(wanted, legal[-1] & ~wanted.any())))

    def _liberties_after(self, own: Array, liberties: Array, observation: Array, points: Array) -> Array:
        """Counts the liberties [X, X] of the chain that a stone on each point would make, captures aside."""
        free = jnp.where((observation[:, :, :2] > 0).any(axis=-1)[..., None], jnp.uint32(0), points)
        reach = jnp.where(own[..., None], liberties, free)
        return _count(_join(_shift_all(reach)) & ~points)


def _stones_at(liberty: Array, points: Array) -> Array:
    """Counts the stones whose bit set [X, X, W] is each point: [X, X] int32."""
    words = points.shape[-1]
    same = (liberty.reshape(-1, 1, words) & points.reshape(1, -1, words)) != 0
    return jnp.sum(same.any(axis=-1), axis=0, dtype=jnp.int32).reshape(points.shape[:-1])


def go_tactician() -> Policy:
    """Makes the scripted player for Go on any size of board."""
    return Policy((), GoTactician())
