"""Episodes sharded over devices, in the global view: the program and its results are those of one device.

`spread(tree, axes)` marks the leading axes of a batch of episodes (candidates or anchors, opponents, episodes), which
can be sharded. Without a mesh it does nothing. In a mesh (`with jax.set_mesh(play_mesh()):` around the compilation) XLA
gives every device its part of the episodes, and reduces over all of them.

The mesh has an axis for every prime factor of the number of devices, so that 4 candidates x 2 opponents fill 8 devices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from gems_jax.types import PyTree

SEEDS, PLAY = "seeds", "play"


def play_mesh(devices: Sequence[Any] | None = None, seeds: int = 1) -> Mesh:
    """Makes a mesh of devices for `spread`.

    Args:
      devices: devices of the mesh; all by default.
      seeds: number of devices that shard a batch of seeds, a divisor of the number of devices.

    Returns:
      A mesh with an axis for seeds, and one axis for every prime factor of the number of the other devices.

    Raises:
      ValueError: if `seeds` does not divide the number of devices.
    """
    found = jax.devices() if devices is None else list(devices)
    if seeds < 1 or len(found) % seeds:
        raise ValueError(f"play_mesh: seeds must divide the {len(found)} devices, got {seeds}.")
    factors = _prime_factors(len(found) // seeds)
    names = (SEEDS, *(f"{PLAY}{number}" for number in range(len(factors))))
    shape = (seeds, *factors)
    return jax.make_mesh(shape, names, axis_types=(AxisType.Auto,) * len(names), devices=found)


def spread(tree: PyTree, axes: int) -> PyTree:
    """Shards the first `axes` axes of a tree's arrays over the devices of the mesh, as far as the sizes divide."""
    mesh = jax.sharding.get_abstract_mesh()
    if not is_sharded():
        return tree
    sizes = {name: size for name, size in mesh.shape.items() if name.startswith(PLAY)}
    return jax.tree.map(lambda leaf: _constrain(leaf, assign_axes(leaf.shape[:axes], sizes)), tree)


def gather(tree: PyTree) -> PyTree:
    """Replicates a tree on every device, except along the axis of seeds; iterations pass their state like this."""
    if not is_sharded():
        return tree
    return jax.tree.map(lambda leaf: _constrain(leaf, PartitionSpec()), tree)


def is_sharded() -> bool:
    """Returns whether episodes are sharded: in a mesh, but not inside `shard_map`, where devices run by themselves."""
    mesh = jax.sharding.get_abstract_mesh()
    return not mesh.empty and AxisType.Manual not in mesh.axis_types


def assign_axes(shape: Sequence[int], sizes: dict[str, int]) -> PartitionSpec:
    """Assigns every axis of the mesh to the first axis of an array that it divides evenly, or to none.

    Args:
      shape: shape of the array.
      sizes: size of every axis of the mesh.

    Returns:
      The partition of the array.
    """
    left, given = list(shape), [[] for _ in shape]  # type: tuple[list[int], list[list[str]]]
    for name, size in sizes.items():
        for axis, length in enumerate(left):
            if length % size == 0 and length >= size:
                given[axis].append(name)
                left[axis] = length // size
                break
    return PartitionSpec(*(tuple(names) or None for names in given))


def _constrain(leaf: Any, spec: PartitionSpec) -> Any:
    return jax.lax.with_sharding_constraint(leaf, spec)


def replicated_sharding(mesh: Mesh) -> NamedSharding:
    """Returns the sharding that replicates an array on every device."""
    return NamedSharding(mesh, PartitionSpec())


def replicate(tree: PyTree, mesh: Mesh | None) -> PyTree:
    """Copies arrays, equal in every process, to every device of the mesh; without a mesh returns them unchanged."""
    if mesh is None:
        return tree
    whole = replicated_sharding(mesh)

    def copy(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array) and leaf.sharding == whole:
            return leaf
        return jax.device_put(np.asarray(leaf) if jax.process_count() > 1 else leaf, whole)

    return jax.tree.map(copy, tree)


def _prime_factors(number: int) -> list[int]:
    """12 -> [2, 2, 3]; 1 -> []."""
    found, factor = [], 2
    while number > 1:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return found
