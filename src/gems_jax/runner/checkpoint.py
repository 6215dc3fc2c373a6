"""Atomic checkpoints: every leaf of a run's state, saved by orbax.

    checkpoints/<iteration>/manifest.json   names, shapes and kinds of the leaves, checksum of every file and of the
                                            manifest itself, the run's identity, and host-side counters
    checkpoints/<iteration>/state/          the leaves, in orbax's format

A checkpoint is written to a temporary folder and then renamed, so a folder named by a number is complete. Checksums
detect later damage; they do not prove who wrote a checkpoint. Leaves are stored in order and described by the manifest,
because a state is any pytree, including structs, typed PRNG keys, empty arrays and Python numbers. The structure itself
comes from the solver.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import shutil
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.runner import leaves
from gems_jax.runner.errors import CheckpointError, ConfigMismatchError, report_write_errors
from gems_jax.runner.files import differing_field, write_json
from gems_jax.runner.integrity.links import check_entries
from gems_jax.runner.integrity.records import MANIFEST
from gems_jax.runner.integrity.schema import Schema, check_record, read_json
from gems_jax.types import PyTree

FORMAT = 4
READABLE = (2, 3, 4)  # 2 has no checksum of the manifest; before 4 leaves are in the layout of orbax's V0 API
_OTHERS = " (another version of the code, or other options)"
ROOM = 2**18  # upper limit on the bytes besides the leaves: manifest, orbax's metadata, page rounding


class Checkpoint(NamedTuple):
    """Restored checkpoint: the iteration it was saved after, the tree, and the host-side counters."""

    iteration: int
    tree: PyTree
    extra: dict[str, Any]


def write_checkpoint(
    folder: Path,
    iteration: int,
    tree: PyTree,
    *,
    identity: Mapping[str, Any],
    extra: Mapping[str, Any] | None = None,
    keep: int = 3,
) -> Path:
    """Writes a checkpoint atomically, and removes old ones except the last `keep`.

    Args:
      folder: folder of all checkpoints of the run.
      iteration: iteration that the tree is saved after.
      tree: any pytree of arrays, typed keys and Python numbers.
      identity: record that `restore_checkpoint` compares with.
      extra: host-side counters, plain JSON.
      keep: number of latest checkpoints to retain.

    Returns:
      The folder of the checkpoint.

    Raises:
      DiskFullError, RunError: if it cannot be written; earlier checkpoints are untouched.
    """
    if keep < 1:
        raise ValueError(f"keep must be at least 1, got {keep}")
    good = [step for step in iterations(folder) if step != iteration]
    note = f"; the last good checkpoint is iteration {good[-1]}" if good else "; there is no earlier checkpoint"
    temporary, final = folder / f"tmp-{iteration:08d}-{os.getpid()}", folder / f"{iteration:08d}"
    manifest = {
        "format": FORMAT,
        "iteration": iteration,
        "identity": dict(identity),
        "extra": dict(extra or {}),
    }
    with report_write_errors(folder, note):
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _write_files(temporary, manifest, tree)
            shutil.rmtree(final, ignore_errors=True)  # left by an earlier attempt at the same iteration
            os.rename(temporary, final)
            _sync_folder(folder)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        _prune(folder, keep)
    return final


def _write_files(path: Path, manifest: dict[str, Any], tree: PyTree) -> None:
    records = leaves.describe_leaves(tree)
    _check_room(path.parent, records)
    path.mkdir()
    leaves.write_leaves(path / "state", tree)
    whole = {**manifest, "leaves": records, "files": _checksums(path / "state")}
    write_json(path / "manifest.json", {**whole, "checksum": checksum_record(whole)})


def checksum_record(manifest: Mapping[str, Any]) -> str:
    """Computes the SHA-256 of a manifest without its field `checksum`."""
    record = {name: value for name, value in manifest.items() if name != "checksum"}
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def restore_checkpoint(
    folder: Path,
    template: PyTree,
    *,
    identity: Mapping[str, Any] | None = None,
    same_shapes: bool = True,
    optional: Collection[str] = (),
    set_aside: bool = False,
    among: Collection[int] | None = None,
    extra: Schema | None = None,
    say: Callable[[str], None] = lambda text: None,
) -> Checkpoint | None:
    """Restores the newest intact checkpoint of a folder.

    Args:
      folder: folder of all checkpoints of the run.
      template: structure of the tree (arrays or ShapeDtypeStructs), possibly with fewer top-level entries than saved.
      identity: record that must equal the saved one; None to skip the comparison.
      same_shapes: require the shapes of `template`; False accepts leaves that grew since `init`.
      optional: top-level entries of `template` that the tree lacks if the checkpoint does.
      set_aside: rename damaged checkpoints, so that they no longer count. Only for the process that holds the lock.
      among: iterations to consider, by default all.
      extra: schema of the host-side counters; None to skip the check.
      say: called with one line for every damaged checkpoint.

    Returns:
      The checkpoint, or None if there is none.

    Raises:
      CheckpointError: if all checkpoints are damaged.
      ConfigMismatchError: if identity, names or shapes differ.
    """
    found = iterations(folder) if among is None else [step for step in iterations(folder) if step in among]
    for step in reversed(found):
        path = folder / f"{step:08d}"
        try:
            manifest = verify_checkpoint(path)
            if extra is not None:
                check_record(manifest["extra"], extra, path / "manifest.json", CheckpointError)
            check_identity(manifest["identity"], identity)
            wanted = _drop_absent(template, optional, manifest) if optional else template
            return Checkpoint(step, _load(path, manifest, wanted, same_shapes), manifest["extra"])
        except CheckpointError as error:
            say(f"checkpoint of iteration {step} cannot be used: {error}")
            if set_aside:
                _set_aside(path)
    if found:
        raise CheckpointError(f"no intact checkpoint in {folder}: all {len(found)} are damaged")
    return None


def iterations(folder: Path) -> list[int]:
    """Lists the iterations that have a complete checkpoint, ascending."""
    if not folder.is_dir():
        return []
    return sorted(int(path.name) for path in folder.iterdir() if path.name.isdecimal() and path.is_dir())


def verify_checkpoint(path: Path) -> dict[str, Any]:
    """Verifies the schema, links and checksums of one checkpoint and returns its manifest.

    Raises:
      CheckpointError: if it is damaged.
      ConfigMismatchError: if it has a format that this version does not read.
    """
    check_entries(path, CheckpointError)
    manifest = read_manifest(path)
    files, present = manifest["files"], _checksums(path / "state")
    wrong = [name for name in sorted(files.keys() | present.keys()) if files.get(name) != present.get(name)]
    if wrong:
        name = wrong[0]
        word = {(True, False): "missing", (False, True): "unexpected"}.get((name in files, name in present), "damaged")
        raise CheckpointError(f"file {name} is {word}")
    return manifest


def read_manifest(path: Path) -> dict[str, Any]:
    """Reads and verifies the manifest of one checkpoint. Raises as `verify_checkpoint` does."""
    if path.is_symlink() or path.parent.is_symlink():
        raise CheckpointError(f"{path} is a link: expected a folder of the run. Replace it by a copy if you trust it")
    file = path / "manifest.json"
    try:
        manifest = read_json(file, error=CheckpointError)
    except FileNotFoundError:
        raise CheckpointError(f"{path} is not a gems_jax checkpoint: it has no manifest.json") from None
    version = manifest.get("format") if isinstance(manifest, dict) else None
    if type(version) is int and version not in READABLE:  # intact, but not readable: it must not be treated as damaged
        raise ConfigMismatchError(
            f"{path} has format {version}, this version of gems_jax reads format {FORMAT}. Install the version that "
            "wrote it"
        )
    check_record(manifest, MANIFEST, file, CheckpointError)
    _check_manifest(path, manifest)
    return manifest


def _check_manifest(path: Path, manifest: Mapping[str, Any]) -> None:
    """Checks what relates several fields of a manifest. Raises CheckpointError."""
    if ("checksum" in manifest or manifest["format"] > 2) and manifest.get("checksum") != checksum_record(manifest):
        raise CheckpointError("its manifest is damaged: the checksum differs from the content")
    if path.name.isdecimal() and int(path.name) != manifest["iteration"]:
        raise CheckpointError(f"its manifest is of iteration {manifest['iteration']}")
    names = [record["name"] for record in manifest["leaves"]]
    if len(set(names)) != len(names):
        raise CheckpointError("its manifest is damaged: expected different names of leaves, got one twice")


def replace_extra(path: Path, extra: Mapping[str, Any]) -> None:
    """Replaces the host-side counters of an intact checkpoint, atomically."""
    manifest = {**verify_checkpoint(path), "format": FORMAT, "extra": dict(extra)}
    write_json(path / "manifest.json", {**manifest, "checksum": checksum_record(manifest)})


def remove_leftovers(folder: Path) -> None:
    """Removes partial checkpoints of a killed process. Only the process that holds the lock may call this."""
    if folder.is_dir():
        for path in folder.glob("tmp-*"):
            shutil.rmtree(path, ignore_errors=True)


def _load(path: Path, manifest: dict[str, Any], template: PyTree, same_shapes: bool) -> PyTree:
    """Checks the manifest against the template, and loads its leaves into the template's structure."""
    described = {record["name"]: record for record in manifest["leaves"]}
    flat, structure = jax.tree_util.tree_flatten_with_path(template)
    wanted = {jax.tree_util.keystr(name): leaf for name, leaf in flat}
    _check_names(described, wanted)
    for name, leaf in wanted.items() if same_shapes else ():
        there, here = tuple(described[name]["shape"]), leaves.stored_shape(leaf)
        if there != here:
            raise ConfigMismatchError(f"state differs from checkpoint: {name} has shape {there} there, {here} here")
    loaded = dict(zip(described, leaves.read_leaves(path / "state", manifest["leaves"]), strict=True))
    return jax.tree_util.tree_unflatten(structure, [loaded[name] for name in wanted])


def _drop_absent(template: Mapping[str, PyTree], optional: Collection[str], manifest: Mapping[str, Any]) -> PyTree:
    """Drops the optional entries that a checkpoint does not have."""
    there = {_top(record["name"]) for record in manifest["leaves"]}
    return {name: part for name, part in template.items() if name not in optional or f"['{name}'" in there}


def _check_names(described: Collection[str], wanted: Collection[str]) -> None:
    lacking = [name for name in wanted if name not in described]
    if lacking:
        raise ConfigMismatchError(f"state differs from checkpoint: {lacking[0]} is only in the state{_OTHERS}")
    tops = set(map(_top, wanted))
    surplus = [name for name in set(described) - set(wanted) if _top(name) in tops]
    if surplus:
        raise ConfigMismatchError(f"state differs from checkpoint: {min(surplus)} is only in the checkpoint{_OTHERS}")


def check_identity(there: Mapping[str, Any], here: Mapping[str, Any] | None) -> None:
    """Compares the identity of a checkpoint with that of a run; None skips. Raises ConfigMismatchError."""
    found = differing_field(there, here) if here is not None else None
    if found:
        name, old, new = found
        raise ConfigMismatchError(
            f"config differs from checkpoint: field {name.removeprefix('config.')} is {old!r} there, {new!r} here"
        )


def _prune(folder: Path, keep: int) -> None:
    """Removes all checkpoints except the last `keep`."""
    for step in iterations(folder)[:-keep]:
        # Renamed first: an interrupted removal must not leave half a checkpoint under a number.
        doomed = folder / f"tmp-old-{step:08d}"
        os.rename(folder / f"{step:08d}", doomed)
        shutil.rmtree(doomed, ignore_errors=True)


def _set_aside(path: Path) -> None:
    target = path.with_name(f"damaged-{path.name}")
    shutil.rmtree(target, ignore_errors=True)
    os.rename(path, target)


def _checksums(folder: Path) -> dict[str, str]:
    """Computes the SHA-256 of every file below `folder`, by relative name."""
    sums = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            with open(path, "rb") as file:
                sums[path.relative_to(folder).as_posix()] = hashlib.file_digest(file, "sha256").hexdigest()
    return sums


def _check_room(folder: Path, records: list[dict[str, Any]]) -> None:
    """Raises ENOSPC before orbax starts, whose threads print tracebacks on a full disk that cannot be caught."""
    needed = sum(math.prod(record["shape"]) * jnp.dtype(record["dtype"]).itemsize for record in records) + ROOM
    if shutil.disk_usage(folder).free < needed:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(folder))


def _top(name: str) -> str:
    """Top-level entry of a leaf's name: `['state'].anchors` -> `['state']`."""
    return name.split("]", 1)[0]


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
