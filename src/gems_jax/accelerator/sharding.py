"""Play laid out over devices, in the global view: the program and its numbers are those of one device.

`spread(tree, axes)` marks where there is something to share out: the leading axes of a batch of episodes (candidates or
anchors, opponents, episodes). Without a mesh it does nothing. In one (`with jax.set_mesh(play_mesh()):` around what is
compiled) XLA gives every device its part of the episodes, and brings together what is summed over them.

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
    """A mesh of all devices, or of some; `seeds`, a divisor of their number, of them share out the seeds of a batch."""
    found = jax.devices() if devices is None else list(devices)
    if seeds < 1 or len(found) % seeds:
        raise ValueError(f"seeds must divide the {len(found)} devices: got {seeds}")
    factors = _prime_factors(len(found) // seeds)
    names = (SEEDS, *(f"{PLAY}{number}" for number in range(len(factors))))
    shape = (seeds, *factors)
    return jax.make_mesh(shape, names, axis_types=(AxisType.Auto,) * len(names), devices=found)


def spread(tree: PyTree, axes: int) -> PyTree:
    """The tree with the first `axes` axes of its arrays shared out over the devices of the mesh, as far as they go."""
    mesh = jax.sharding.get_abstract_mesh()
    if not laid_out():
        return tree
    sizes = {name: size for name, size in mesh.shape.items() if name.startswith(PLAY)}
    return jax.tree.map(lambda leaf: _constrained(leaf, layout(leaf.shape[:axes], sizes)), tree)


def gather(tree: PyTree) -> PyTree:
    """The tree whole on every device (but for the seeds of a batch): what one iteration hands to the next."""
    if not laid_out():
        return tree
    return jax.tree.map(lambda leaf: _constrained(leaf, PartitionSpec()), tree)


def laid_out() -> bool:
    """Whether play is shared out over devices.

    Not without a mesh, and not inside somebody's `shard_map`, where every device has its own program already.
    """
    mesh = jax.sharding.get_abstract_mesh()
    return not mesh.empty and AxisType.Manual not in mesh.axis_types


def layout(shape: Sequence[int], sizes: dict[str, int]) -> PartitionSpec:
    """Every axis of the mesh to the first axis of an array that it divides evenly; the others stay unused."""
    left, given = list(shape), [[] for _ in shape]  # type: tuple[list[int], list[list[str]]]
    for name, size in sizes.items():
        for axis, length in enumerate(left):
            if length % size == 0 and length >= size:
                given[axis].append(name)
                left[axis] = length // size
                break
    return PartitionSpec(*(tuple(names) or None for names in given))


def _constrained(leaf: Any, spec: PartitionSpec) -> Any:
    return jax.lax.with_sharding_constraint(leaf, spec)


def replicated(mesh: Mesh) -> NamedSharding:
    """Whole on every device."""
    return NamedSharding(mesh, PartitionSpec())


def placed(tree: PyTree, mesh: Mesh | None) -> PyTree:
    """Arrays, the same in every process, whole on every device of the mesh; as they are without one."""
    if mesh is None:
        return tree
    whole = replicated(mesh)

    def place(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array) and leaf.sharding == whole:
            return leaf
        return jax.device_put(np.asarray(leaf) if jax.process_count() > 1 else leaf, whole)

    return jax.tree.map(place, tree)


def _prime_factors(number: int) -> list[int]:
    """12 -> [2, 2, 3]; 1 -> []."""
    found, factor = [], 2
    while number > 1:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return found
