"""The leaves of any pytree on disk, through orbax: end to end by dtype, described by name, shape, dtype and kind.

Orbax gets one long array per dtype instead of one per leaf: for the many small leaves of a state, what it does per
array costs eight times what the bytes cost. Kinds: `jax` array, `numpy` array, `key:<implementation>` (typed PRNG
keys), and the Python numbers `bool`, `int`, `float`. Nothing here knows what a run is.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.runner.errors import CheckpointError
from gems_jax.types import PyTree


def describe_leaves(tree: PyTree) -> list[dict[str, Any]]:
    """One JSON-able record per leaf: all that is needed to rebuild it from its bytes."""
    records = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        name = jax.tree_util.keystr(path)
        kind, array = _kind(name, leaf), _as_array(leaf)
        records.append({"name": name, "kind": kind, "shape": list(array.shape), "dtype": str(array.dtype)})
    return records


def write_leaves(path: Path, tree: PyTree) -> None:
    """All leaves, synchronously: on return they are on the disk, or the error was raised."""
    import orbax.checkpoint as ocp

    parts: dict[str, list[np.ndarray]] = {}
    for leaf in jax.tree_util.tree_leaves(tree):
        array = np.asarray(_as_array(leaf))  # on the host: orbax's way for device arrays takes twice the time
        if array.size:
            parts.setdefault(str(array.dtype), []).append(array.reshape(-1))
    if parts:  # orbax refuses an empty tree
        arrays = {dtype: np.concatenate(flat) for dtype, flat in parts.items()}
        _checkpointer().save(path.absolute(), args=ocp.args.PyTreeSave(arrays))


def read_leaves(path: Path, records: list[dict[str, Any]]) -> list[Any]:
    """Reads the leaves that `describe_leaves` described, in the same order. CheckpointError if they cannot be read."""
    arrays = _read_arrays(path, {record["dtype"] for record in records if math.prod(record["shape"])})
    taken: dict[str, int] = {}
    leaves = []
    for record in records:
        dtype = record["dtype"]
        start, end = taken.get(dtype, 0), taken.get(dtype, 0) + math.prod(record["shape"])
        leaves.append(_rebuild(record, arrays.get(dtype, np.zeros(0, jnp.dtype(dtype)))[start:end]))
        taken[dtype] = end
    for dtype, array in arrays.items():
        if array.size != taken[dtype]:
            raise CheckpointError(f"it holds {array.size} numbers of {dtype}, the manifest says {taken[dtype]}")
    return leaves


def _read_arrays(path: Path, dtypes: set[str]) -> dict[str, np.ndarray]:
    """All numbers of each dtype, end to end."""
    import orbax.checkpoint as ocp

    if not dtypes:
        return {}
    arguments = {dtype: ocp.RestoreArgs(restore_type=np.ndarray) for dtype in dtypes}
    try:
        return _checkpointer().restore(path.absolute(), args=ocp.args.PyTreeRestore(restore_args=arguments))
    except Exception as error:  # whatever orbax and tensorstore make of files they cannot read
        first = (str(error).splitlines() or [""])[0]
        raise CheckpointError(f"orbax cannot read it ({type(error).__name__}: {first})") from error


def stored_shape(leaf: Any) -> tuple[int, ...]:
    """Shape of the leaf's bytes: that of the key data for a typed key. Takes ShapeDtypeStructs too."""
    if _is_key(leaf):
        return tuple(jax.eval_shape(jax.random.key_data, leaf).shape)
    return tuple(leaf.shape) if hasattr(leaf, "shape") else np.shape(leaf)


def _is_key(leaf: Any) -> bool:
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _as_array(leaf: Any) -> Any:
    if _is_key(leaf):
        return jax.random.key_data(leaf)
    return leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)


def _kind(name: str, leaf: Any) -> str:
    if _is_key(leaf):
        return f"key:{jax.random.key_impl(leaf)}"
    if isinstance(leaf, jax.Array):
        return "jax"
    if isinstance(leaf, bool | int | float):
        return type(leaf).__name__
    if isinstance(leaf, np.ndarray | np.generic) and leaf.dtype.kind in "biufc":
        return "numpy"
    raise CheckpointError(f"a state holds arrays and numbers only; {name} is a {type(leaf).__name__}")


_REBUILD: dict[str, Callable[[np.ndarray], Any]] = {
    "jax": jnp.asarray,
    "numpy": np.copy,  # its own memory, not a window on all of its dtype
    "bool": lambda value: bool(value.item()),
    "int": lambda value: int(value.item()),
    "float": lambda value: float(value.item()),
}


def _rebuild(record: dict[str, Any], flat: np.ndarray) -> Any:
    kind, dtype = record["kind"], jnp.dtype(record["dtype"])
    if flat.size != math.prod(record["shape"]) or flat.dtype != dtype:
        raise CheckpointError(f"leaf {record['name']} is {flat.size} of {flat.dtype}, the manifest says otherwise")
    value = flat.reshape(record["shape"])
    if kind.startswith("key:"):
        return jax.random.wrap_key_data(jnp.asarray(value), impl=kind.removeprefix("key:"))
    return _REBUILD[kind](value)


def _checkpointer() -> Any:
    import orbax.checkpoint as ocp

    own = jax.process_index()  # of several processes, who calls this is alone with it: orbax must not wait for others
    alone = ocp.options.MultiprocessingOptions(
        primary_host=own, active_processes={own}, barrier_sync_key_prefix=f"process{own}"
    )
    options = alone if jax.process_count() > 1 else ocp.options.MultiprocessingOptions()
    return ocp.Checkpointer(
        ocp.PyTreeCheckpointHandler(multiprocessing_options=options), multiprocessing_options=options
    )
