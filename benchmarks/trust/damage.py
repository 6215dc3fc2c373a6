"""Kinds of damage to a run folder, each a function that changes one file of a copy.

A kind is named `<file>: <what>`. The folder is that of one seed with at least one checkpoint. `seal` writes a manifest
with a correct checksum, as someone would who changes it on purpose.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from gems_jax.runner.checkpoint import checksum_record, iterations

Damage = Callable[[Path], None]
MISSING = object()


def newest(run: Path) -> Path:
    """Returns the folder of the newest checkpoint of a run."""
    return run / "checkpoints" / f"{iterations(run / 'checkpoints')[-1]:08d}"


def seal(path: Path, manifest: Any) -> None:
    """Writes a manifest with the checksum that fits it."""
    path.write_text(json.dumps({**manifest, "checksum": checksum_record(manifest)}))


def set_field(record: Any, dotted: str, value: Any) -> None:
    """Sets, or removes if `value` is MISSING, a field of a record; numbers in the name index lists."""
    *path, last = (int(part) if part.isdecimal() else part for part in dotted.split("/"))
    for part in path:
        record = record[part]
    if value is MISSING:
        del record[last]
    else:
        record[last] = value


def change_json(run: Path, name: str, dotted: str, value: Any) -> None:
    """Changes a field of config.json or status.json."""
    record = json.loads((run / name).read_text())
    set_field(record, dotted, value)
    (run / name).write_text(json.dumps(record))


def change_manifest(run: Path, dotted: str, value: Any) -> None:
    """Changes a field of the newest manifest, whose checksum is then correct."""
    path = newest(run) / "manifest.json"
    manifest = json.loads(path.read_text())
    set_field(manifest, dotted, value)
    seal(path, manifest)


def change_text(run: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    """Changes the bytes of a file."""
    (run / name).write_bytes(change((run / name).read_bytes()))


def change_manifest_text(run: Path, change: Callable[[bytes], bytes]) -> None:
    """Changes the bytes of the newest manifest without its checksum."""
    change_text(newest(run), "manifest.json", change)


def swap_names(text: bytes) -> bytes:
    """Swaps the names of the first two leaves of a manifest."""
    manifest = json.loads(text)
    one, other = manifest["leaves"][:2]
    one["name"], other["name"] = other["name"], one["name"]
    return json.dumps(manifest).encode()


def edit_manifest(dotted: str, value: Any, text: bytes) -> bytes:
    """Changes one field of a manifest and leaves its checksum."""
    manifest = json.loads(text)
    set_field(manifest, dotted, value)
    return json.dumps(manifest).encode()


def change_cell(cell: bytes, text: bytes) -> bytes:
    """Replaces the last cell of the first row of a CSV file."""
    header, row, *others = text.split(b"\n")
    return b"\n".join([header, row.rpartition(b",")[0] + b"," + cell, *others])


def flip(text: bytes) -> bytes:
    """Flips the lowest bit of the byte in the middle."""
    middle = len(text) // 2
    return text[:middle] + bytes([text[middle] ^ 1]) + text[middle + 1 :]


def halve(text: bytes) -> bytes:
    """Cuts a file in the middle."""
    return text[: len(text) // 2]


def largest_leaf(run: Path) -> Path:
    """Returns the largest file of the newest state."""
    files = [path for path in (newest(run) / "state").rglob("*") if path.is_file()]
    return max(files, key=lambda path: path.stat().st_size)


def change_leaf(run: Path, change: Callable[[bytes], bytes]) -> None:
    """Changes the largest file of the newest state."""
    path = largest_leaf(run)
    path.write_bytes(change(path.read_bytes()))


def move_outside(run: Path, name: str) -> None:
    """Moves a file or folder out of the run, and leaves a link to it."""
    path, outside = run / name, run.parent / f"{run.name}-outside"
    outside.mkdir()
    os.rename(path, outside / path.name)
    os.symlink(outside / path.name, path)


def link_checkpoint(run: Path) -> None:
    """Moves the newest checkpoint out of the run, and leaves a link to it."""
    move_outside(run, str(newest(run).relative_to(run)))


def link_file(run: Path, name: str) -> None:
    """Replaces a file, which may be missing, by a link to one outside."""
    (run / name).unlink(missing_ok=True)
    os.symlink(run.parent / f"{run.name}-target", run / name)


def replace_by_pipe(run: Path, name: str) -> None:
    """Replaces a file by a pipe, whose reader would wait forever."""
    (run / name).unlink()
    os.mkfifo(run / name)


def rename_checkpoint(run: Path) -> None:
    """Gives the newest checkpoint the number of a later iteration."""
    path = newest(run)
    os.rename(path, path.with_name("00000077"))


DEEP = b'{"a":' * 100_000
_CONFIG = {
    "iterations": (-1, 0, "x", None, math.nan, 2**31, 1.5, True, MISSING),
    "seeds": ("0", [], [0, 0], [None], [1.5], 0, [[0]], {"0": 1}),
    "members": (3, [], ["."] * 2, [None], "..", None),
    "shared": (3, None, "../..", "/etc", [], ""),
    "game": (None, ["a"], "[red]\u001b[31m", ""),
    "method": (None, 3, "no such method"),
    "config": (3, [], "x"),
    "schema": (99, None, "1"),
    "options": ([], 3, "x"),
}
_OPTIONS = {
    "chunk": (0, -1, "ten", None, 1.5, 2**40),
    "keep": (0, None, "3", [3]),
    "writers": (3, "wandb", [3], ["mlflow"], {"a": 1}),
    "checkpoint_seconds": (-1, None, "soon", math.nan, [1]),
    "evaluation_episodes": (-1, "x", None),
    "evaluation_every": (0, None),
    "exact": (3, "yes"),
    "mesh": ("x", 1),
    "seed_batch": (-1, None),
    "game": ([], 3, "x"),
}
_STATUS = {"state": (3, "finished", None, MISSING), "iteration": (-1, None, "x"), "iterations": (None, 2**31)}
_MANIFEST = {
    "identity": (MISSING, None, [], "x"),
    "leaves": (MISSING, None, {}, [3], [{}]),
    "files": (MISSING, None, [], {"x": 3}),
    "extra": (MISSING, None, [], {}),
    "extra/counters": (MISSING, None, {}, {"seconds": "x"}),
    "extra/counters/episodes": ([], "x", [-1], [0.5], [1, 2, 3]),
    "extra/versions": (None, 3),
    "extra/metric": ("x", []),
    "leaves/0/kind": ("pickle", 3, "key:evil", None, "bool"),
    "leaves/0/dtype": ("object", "float99", 3),
    "leaves/0/shape": (None, [-1], [10**12], ["x"]),
    "leaves/0/name": (None, "['state'].nothing"),
    "iteration": (-1, "x", 77),
    "format": ("2", None),
}


def _cases(make: Callable[..., None], prefix: str, name: str, table: dict[str, tuple[Any, ...]]) -> dict[str, Damage]:
    return {
        f"{name}: {field} = {'missing' if value is MISSING else ascii(value)}": partial(make, prefix + field, value)
        for field, values in table.items()
        for value in values
    }


def _in_config(dotted: str, value: Any, run: Path) -> None:
    change_json(run, "config.json", dotted, value)


def _in_status(dotted: str, value: Any, run: Path) -> None:
    change_json(run, "status.json", dotted, value)


def _in_manifest(dotted: str, value: Any, run: Path) -> None:
    change_manifest(run, dotted, value)


def _bytes(name: str, what: str, change: Callable[[bytes], bytes]) -> dict[str, Damage]:
    return {f"{name}: {what}": lambda run: change_text(run, name, change)}


def _damaged_bytes(name: str) -> dict[str, Damage]:
    changes: dict[str, Callable[[bytes], bytes]] = {
        "cut": halve,
        "empty": lambda text: b"",
        "binary": lambda text: b"\xff\xfe\x00" + text,
        "list": lambda text: b"[]",
        "number": lambda text: b"1e999",
        "deep": lambda text: DEEP,
        "null": lambda text: b"null",
    }
    return {
        kind: damage
        for what, change in changes.items()
        for kind, damage in _bytes(name, f"bytes {what}", change).items()
    }


KINDS: dict[str, Damage] = {
    **_cases(_in_config, "", "config.json", _CONFIG),
    **_cases(_in_config, "options/", "config.json", {f"{name}": values for name, values in _OPTIONS.items()}),
    **_cases(_in_status, "", "status.json", _STATUS),
    **_cases(_in_manifest, "", "manifest.json", _MANIFEST),
    **_damaged_bytes("config.json"),
    **_damaged_bytes("status.json"),
    "manifest.json: leaf names swapped": lambda run: change_manifest_text(run, swap_names),
    "manifest.json: total changed": lambda run: change_manifest_text(
        run, partial(edit_manifest, "extra/counters/env_steps/0", 7)
    ),
    "manifest.json: kind changed": lambda run: change_manifest_text(
        run, partial(edit_manifest, "leaves/0/kind", "numpy")
    ),
    "manifest.json: cut": lambda run: change_manifest_text(run, halve),
    "manifest.json: flipped": lambda run: change_manifest_text(run, flip),
    "manifest.json: deep": lambda run: change_manifest_text(run, lambda text: DEEP),
    "manifest.json: gone": lambda run: (newest(run) / "manifest.json").unlink(),
    "metrics.csv: changed cell": lambda run: change_text(run, "metrics.csv", partial(change_cell, b"7.5")),
    "metrics.csv: text cell": lambda run: change_text(run, "metrics.csv", partial(change_cell, b"seven")),
    "metrics.csv: binary cell": lambda run: change_text(run, "metrics.csv", partial(change_cell, b"\xff\x00\xfe")),
    "metrics.csv: row gone": lambda run: change_text(run, "metrics.csv", lambda text: text.split(b"\n")[0] + b"\n"),
    "metrics.csv: header changed": lambda run: change_text(run, "metrics.csv", lambda text: b"x" + text),
    "metrics.csv: gone": lambda run: (run / "metrics.csv").unlink(),
    "state: flipped": lambda run: change_leaf(run, flip),
    "state: cut": lambda run: change_leaf(run, halve),
    "state: gone": lambda run: largest_leaf(run).unlink(),
    "state: more": lambda run: (newest(run) / "state" / "more").write_text("more"),
    "checkpoints: renamed": rename_checkpoint,
    "config.json: gone": lambda run: (run / "config.json").unlink(),
}
LINKS: dict[str, Damage] = {
    "link: checkpoint": link_checkpoint,
    "link: checkpoints": lambda run: move_outside(run, "checkpoints"),
    "link: state": lambda run: move_outside(run, f"checkpoints/{newest(run).name}/state"),
    "link: manifest": lambda run: move_outside(run, f"checkpoints/{newest(run).name}/manifest.json"),
    **{f"link: {name}": partial(move_outside, name=name) for name in ("config.json", "metrics.csv", "status.json")},
    **{f"link: {name}": partial(link_file, name=name) for name in (".lock", "log.txt")},
    **{f"pipe: {name}": partial(replace_by_pipe, name=name) for name in ("config.json", "metrics.csv", "status.json")},
}
