"""Storage of the leaves of any pytree by orbax, described by name, shape, dtype and kind.

The leaves of each dtype are concatenated into one array: a state has many small leaves, and orbax's overhead per array
is eight times the cost of their bytes. Kinds: `jax` array, `numpy` array, `key:<implementation>` (typed PRNG keys), and
the Python numbers `bool`, `int`, `float`.

Arrays are written by orbax's V1 API where the installed version has it, and by its V0 API elsewhere. Each reads what
the other wrote: V1 has V0's layout in a subfolder.
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
    """Describes each leaf by a JSON record that suffices to rebuild it from its bytes."""
    records = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        name = jax.tree_util.keystr(path)
        kind, array = _kind(name, leaf), _as_array(leaf)
        records.append({"name": name, "kind": kind, "shape": list(array.shape), "dtype": str(array.dtype)})
    return records


def write_leaves(path: Path, tree: PyTree) -> None:
    """Writes all leaves synchronously: on return they are on the disk."""
    parts: dict[str, list[np.ndarray]] = {}
    for leaf in jax.tree_util.tree_leaves(tree):
        array = np.asarray(_as_array(leaf))  # on the host: orbax takes twice as long for device arrays
        if array.size:
            parts.setdefault(str(array.dtype), []).append(array.reshape(-1))
    if parts:  # orbax refuses an empty tree
        arrays = {dtype: np.concatenate(flat) for dtype, flat in parts.items()}
        _save_arrays(path.absolute(), arrays)


def read_leaves(path: Path, records: list[dict[str, Any]]) -> list[Any]:
    """Reads leaves from disk.

    Args:
      path: the folder that `write_leaves` wrote.
      records: the records of `describe_leaves`.

    Returns:
      The leaves in the order of `records`.

    Raises:
      CheckpointError: if they cannot be read or do not match the records.
    """
    arrays = _read_arrays(path, {record["dtype"] for record in records if math.prod(record["shape"])})
    taken: dict[str, int] = {}
    leaves = []
    for record in records:
        dtype = record["dtype"]
        start, end = taken.get(dtype, 0), taken.get(dtype, 0) + math.prod(record["shape"])
        leaves.append(_rebuild(record, arrays.get(dtype, np.zeros(0, _parse_dtype(dtype)))[start:end]))
        taken[dtype] = end
    for dtype, array in arrays.items():
        if array.size != taken[dtype]:
            raise CheckpointError(f"wrong size of {dtype} data: expected {taken[dtype]} numbers, got {array.size}")
    return leaves


def _read_arrays(path: Path, dtypes: set[str]) -> dict[str, np.ndarray]:
    """Reads the concatenated array of each dtype."""
    if not dtypes:
        return {}
    try:
        return _restore_arrays(path.absolute(), dtypes)
    except Exception as error:  # orbax and tensorstore raise many kinds for unreadable files
        first = (str(error).splitlines() or [""])[0]
        raise CheckpointError(f"orbax cannot read it ({type(error).__name__}: {first})") from error


def stored_shape(leaf: Any) -> tuple[int, ...]:
    """Returns the stored shape of an array or ShapeDtypeStruct; for a typed key, that of its key data."""
    if holds_keys(leaf):
        return tuple(jax.eval_shape(jax.random.key_data, leaf).shape)
    return tuple(leaf.shape) if hasattr(leaf, "shape") else np.shape(leaf)


def holds_keys(leaf: Any) -> bool:
    """Checks whether a leaf is an array, or a ShapeDtypeStruct, of typed PRNG keys."""
    return hasattr(leaf, "dtype") and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def strip_keys(tree: PyTree) -> PyTree:
    """Replaces typed keys by their data, so that a copy beside the keys themselves does not count as their reuse."""
    return jax.tree.map(lambda leaf: jax.random.key_data(leaf) if holds_keys(leaf) else leaf, tree)


def restore_keys(tree: PyTree, template: PyTree) -> PyTree:
    """Reverts `strip_keys`; template: a tree with typed keys, arrays or ShapeDtypeStructs."""
    return jax.tree.map(
        lambda leaf, like: jax.random.wrap_key_data(leaf, impl=_implementation(like)) if holds_keys(like) else leaf,
        tree,
        template,
    )


def _implementation(key: Any) -> Any:
    """Returns the implementation of typed keys, which a ShapeDtypeStruct has but `key_impl` does not take."""
    found: list[Any] = []
    jax.eval_shape(lambda traced: found.append(jax.random.key_impl(traced)), key)
    return found[0]


def _as_array(leaf: Any) -> Any:
    if holds_keys(leaf):
        return jax.random.key_data(leaf)
    return leaf if isinstance(leaf, jax.Array) else np.asarray(leaf)


def _kind(name: str, leaf: Any) -> str:
    if holds_keys(leaf):
        return f"key:{jax.random.key_impl(leaf)}"
    if isinstance(leaf, jax.Array):
        return "jax"
    if isinstance(leaf, bool | int | float):
        return type(leaf).__name__
    if isinstance(leaf, np.ndarray | np.generic) and leaf.dtype.kind in "biufc":
        return "numpy"
    raise CheckpointError(f"cannot save {name}: a state contains arrays and numbers only, got {type(leaf).__name__}")


_REBUILD: dict[str, Callable[[np.ndarray], Any]] = {
    "jax": jnp.asarray,
    "numpy": np.copy,  # a copy, not a view of all leaves of its dtype
    "bool": lambda value: bool(value.item()),
    "int": lambda value: int(value.item()),
    "float": lambda value: float(value.item()),
}


def _rebuild(record: dict[str, Any], flat: np.ndarray) -> Any:
    kind, dtype = record["kind"], _parse_dtype(record["dtype"])
    if flat.size != math.prod(record["shape"]) or flat.dtype != dtype:
        raise CheckpointError(f"leaf {record['name']} does not match the manifest: got {flat.size} of {flat.dtype}")
    value = flat.reshape(record["shape"])
    try:
        if kind.startswith("key:"):
            return jax.random.wrap_key_data(jnp.asarray(value), impl=kind.removeprefix("key:"))
        return _REBUILD[kind](value)
    except (KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"leaf {record['name']} is no {kind}: {error}") from error


def _parse_dtype(name: str) -> Any:
    try:
        return jnp.dtype(name)
    except TypeError as error:
        raise CheckpointError(f"unknown dtype {name!r}") from error


_ITEM = "state"  # subfolder of V1 for the tree


def _orbax_v1() -> Any:
    """Returns orbax's V1 API; None if the installed version lacks it, or has an earlier form of it."""
    import orbax.checkpoint as ocp

    api = getattr(ocp, "v1", None)
    return api if all(hasattr(api, name) for name in ("save", "load", "Context")) else None


def _save_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Saves a dictionary of arrays and waits until it is on the disk."""
    import orbax.checkpoint as ocp

    api = _orbax_v1()
    if api is None:
        _checkpointer_v0().save(path, args=ocp.args.PyTreeSave(arrays))
        return
    with _context_v1(api):
        api.save(path, arrays, checkpointable_name=_ITEM)


def _restore_arrays(path: Path, dtypes: set[str]) -> dict[str, np.ndarray]:
    """Restores the arrays named by `dtypes` as NumPy arrays, from a folder of either API."""
    import orbax.checkpoint as ocp

    api, is_v1 = _orbax_v1(), (path / _ITEM).is_dir()
    if api is None:
        arguments = {dtype: ocp.RestoreArgs(restore_type=np.ndarray) for dtype in dtypes}
        found = path / _ITEM if is_v1 else path
        return _checkpointer_v0().restore(found, args=ocp.args.PyTreeRestore(restore_args=arguments))
    templates = {dtype: np.zeros(0, _parse_dtype(dtype)) for dtype in dtypes}  # orbax takes dtypes, but not sizes
    with _context_v1(api):
        return api.load(path, templates, checkpointable_name=_ITEM if is_v1 else None)


def _process_alone() -> dict[str, Any]:
    """Returns the options by which orbax does not wait for other processes: only one calls this module."""
    if jax.process_count() == 1:
        return {}
    own = jax.process_index()
    return {"primary_host": own, "active_processes": {own}, "barrier_sync_key_prefix": f"process{own}"}


def _context_v1(api: Any) -> Any:
    context = api.Context()
    for name, value in _process_alone().items():
        setattr(context.multiprocessing, name, value)
    return context


def _checkpointer_v0() -> Any:
    import orbax.checkpoint as ocp

    options = ocp.options.MultiprocessingOptions(**_process_alone())
    return ocp.Checkpointer(
        ocp.PyTreeCheckpointHandler(multiprocessing_options=options), multiprocessing_options=options
    )
