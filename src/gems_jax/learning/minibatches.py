"""Minibatches: rows of experience in random order, decisions first, gathered for each gradient step."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.accelerator.cpu import cpu_workarounds
from gems_jax.accelerator.packing import PackedBits, argsort_uniform, pack_bits, unpack_bits
from gems_jax.accelerator.prng import draw_uniform
from gems_jax.learning.batches import Experience
from gems_jax.types import Array

_ROWS = ("observation", "legal", "action", "log_prob", "acted", "advantage", "target", "row")


def pack_observations(batch: Experience) -> Experience:
    """Packs boolean observations, which `gather_rows` unpacks; on CPUs only."""
    flags = batch.observation.dtype == np.bool_ and batch.observation[0, 0].size
    if not flags or not cpu_workarounds():
        return batch
    packed: Any = pack_bits(batch.observation, 2)
    return batch.replace(observation=packed)


def gather_rows(batch: Experience, indices: Array) -> Experience:
    """Gathers the rows at `indices` [G, n] of every code: [G, n, ...]."""
    rows = {name: getattr(batch, name) for name in _ROWS}
    drawn: dict[str, Any] = jax.tree.map(lambda leaf: jax.vmap(lambda r, i: r[i])(leaf, indices), rows)
    if isinstance(drawn["observation"], PackedBits):
        drawn["observation"] = unpack_bits(drawn["observation"])
    return batch.replace(**drawn)


def sample_decisions(key: Array, batch: Experience, count: int) -> Experience:
    """Draws `count` rows per code in random order, decisions first: [G, count, ...]. key: consumed."""
    return gather_rows(batch, _shuffled_indices(key, batch, count))


def shuffle_rows(key: Array, batch: Experience, minibatches: int, fraction: float) -> Array:
    """Deals a fraction of the rows out to minibatches, decisions first, so that each one gets as many decisions.

    Args:
      key: typed PRNG key; consumed.
      batch: experience of G codes.
      minibatches: number of minibatches.
      fraction: fraction of the rows to use.

    Returns:
      Indices of rows, [minibatches, G, rows] int32.
    """
    available = batch.acted.shape[1]
    size = min(math.ceil(fraction * available / minibatches), available // minibatches)
    indices = _shuffled_indices(key, batch, size * minibatches)
    return jnp.moveaxis(indices.reshape(len(indices), size, minibatches), 2, 0)


def _shuffled_indices(key: Array, batch: Experience, count: int) -> Array:
    """Indices [G, count] of rows in random order, decisions first. key: consumed."""
    # Sort keys of decisions are below 1 and those of other rows above: decisions come first, in random order.
    sort_keys = draw_uniform(key, batch.acted.shape) + jnp.where(batch.acted, 0.0, 1.0)
    return argsort_uniform(sort_keys)[:, :count]
