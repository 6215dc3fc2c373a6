"""The leaves of any pytree on disk, through orbax: stored by position, described by name, shape, dtype and kind.

Kinds: `jax` array, `numpy` array, `key:<implementation>` (typed PRNG keys), and the Python numbers `bool`, `int`,
`float`. Empty arrays have a description and no bytes. Nothing here knows what a run is.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.run.errors import CheckpointError
from gems_jax.types import PyTree


def describe(tree: PyTree) -> list[dict[str, Any]]:
    """One JSON-able record per leaf: all that is needed to rebuild it from its bytes."""
    records = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        name = jax.tree_util.keystr(path)
        kind, array = _kind(name, leaf), _as_array(leaf)
        records.append({"name": name, "kind": kind, "shape": list(array.shape), "dtype": str(array.dtype)})
    return records


def write(path: Path, tree: PyTree) -> None:
    """All leaves, synchronously: on return they are on the disk, or the error was raised."""
    import orbax.checkpoint as ocp

    # from the host: orbax's way for device arrays takes twice the processor time, for shards that are not there
    arrays = {f"{n:05d}": np.asarray(_as_array(leaf)) for n, leaf in enumerate(jax.tree_util.tree_leaves(tree))}
    arrays = {name: array for name, array in arrays.items() if array.size}
    if arrays:  # orbax refuses an empty tree
        _checkpointer().save(path.absolute(), args=ocp.args.PyTreeSave(arrays))


def read(path: Path, records: list[dict[str, Any]]) -> list[Any]:
    """The leaves that `describe` described, in the same order. CheckpointError when they cannot be read."""
    import orbax.checkpoint as ocp

    names = [f"{n:05d}" for n, record in enumerate(records) if math.prod(record["shape"])]
    arguments = {name: ocp.RestoreArgs(restore_type=np.ndarray) for name in names}
    arrays: dict[str, np.ndarray] = {}
    if names:
        try:
            arrays = _checkpointer().restore(path.absolute(), args=ocp.args.PyTreeRestore(restore_args=arguments))
        except Exception as error:  # whatever orbax and tensorstore make of files they cannot read
            first = (str(error).splitlines() or [""])[0]
            raise CheckpointError(f"orbax cannot read it ({type(error).__name__}: {first})") from error
    return [_rebuild(record, arrays.get(f"{n:05d}")) for n, record in enumerate(records)]


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


def _rebuild(record: dict[str, Any], array: np.ndarray | None) -> Any:
    kind, dtype = record["kind"], jnp.dtype(record["dtype"])
    value = np.zeros(record["shape"], dtype) if array is None else np.asarray(array)
    if value.shape != tuple(record["shape"]) or value.dtype != dtype:
        raise CheckpointError(f"leaf {record['name']} is {value.dtype}{value.shape}, the manifest says otherwise")
    if kind == "jax":
        return jnp.asarray(value)
    if kind.startswith("key:"):
        return jax.random.wrap_key_data(jnp.asarray(value), impl=kind.removeprefix("key:"))
    if kind in ("bool", "int", "float"):
        return {"bool": bool, "int": int, "float": float}[kind](value.item())
    return value


def _checkpointer() -> Any:
    import orbax.checkpoint as ocp

    return ocp.Checkpointer(ocp.PyTreeCheckpointHandler())
