"""The run directory: `runs/<game>/<method>/<time>-s<seed>/`, one folder per seed, never written over.

    config.json    the resolved configuration, schema version, commit, package versions, device
    metrics.csv    one row per iteration, flushed as it goes
    status.json    running | done | failed | interrupted, and why
    log.txt        what was said while it ran
    checkpoints/   figures/   replays/

Seeds that run as one vmapped batch share one state: each still has its own folder as above, and the checkpoints stand
beside them in `<time>-shared/`. Every folder names the others by relative paths, so that `open_run` takes any of them
and a finished batch can be moved as a whole. A single seed is its own shared folder.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gems_jax.runner import machine
from gems_jax.runner.errors import RunError, RunExistsError, writing
from gems_jax.runner.files import is_locked, resolve, write_json

SCHEMA = 1
STATES = ("running", "done", "failed", "interrupted")
# What a checkpoint must agree with; everything else in config.json may change between start and resume.
IDENTITY = ("game", "method", "seeds", "config")


@dataclasses.dataclass(frozen=True)
class RunDirectory:
    """Where one run, of one seed or of a batch of seeds, keeps its files."""

    shared: Path  # checkpoints of the whole batch
    members: tuple[Path, ...]  # one folder per seed; (shared,) when there is one seed
    seeds: tuple[int, ...]

    @property
    def checkpoints(self) -> Path:
        return self.shared / "checkpoints"

    @property
    def folders(self) -> tuple[Path, ...]:
        """Every folder of the run, the shared one first."""
        return tuple(dict.fromkeys((self.shared, *self.members)))


def create_run(
    *,
    game: str,
    method: str,
    config: Any,
    seeds: Sequence[int],
    iterations: int,
    root: Path | str = "runs",
    path: Path | str | None = None,
    options: Mapping[str, Any] | None = None,
) -> RunDirectory:
    """Makes the folders of a new run and writes their config.json. Nothing that exists is ever written over.

    `path` names the folder instead of `<root>/<game>/<method>/<time>-s<seed>`; a batch then has its seeds in
    `<path>/s<seed>`. `options` is kept in config.json beside `config` without being part of the run's identity.
    """
    seeds = tuple(int(seed) for seed in seeds)
    if not seeds or len(set(seeds)) != len(seeds):
        raise ValueError(f"seeds must be one or more different integers, got {seeds}")
    record = {
        "schema": SCHEMA,
        "game": game,
        "method": method,
        "seeds": list(seeds),
        "iterations": int(iterations),
        "config": resolve(config),
        "options": resolve(options or {}),
        "created": _now(),
        **machine.describe_machine(),
    }
    where = Path(path) if path is not None else Path(root) / slug(game) / slug(method)
    with writing(where):
        run = (_claim_timestamp if path is None else _claim_path)(where, seeds)
        _write_configs(run, record)
    write_status(run, "running", iteration=0, iterations=iterations)
    return run


def _write_configs(run: RunDirectory, record: dict[str, Any]) -> None:
    """Writes the shared record last: a run whose creation was cut short is not offered for resume."""
    own = dict(zip(run.members, run.seeds, strict=True))
    for folder in dict.fromkeys((*run.members, run.shared)):
        for name in ("figures", "replays"):
            (folder / name).mkdir()
        write_json(folder / "config.json", {**record, "seed": own.get(folder), **_relatives(run, folder)})


def open_run(path: Path | str) -> RunDirectory:
    """Opens the run that `path` (a seed's folder, or the shared one) belongs to."""
    folder = Path(path)
    if folder.name == "config.json":
        folder = folder.parent
    if not folder.is_dir():
        raise RunError(f"no run at {folder}: the folder does not exist")
    record = read_config(folder)
    shared, *members = (_join(folder, name) for name in (record["shared"], *record["members"]))
    for other in (shared, *members):
        _check_beside(folder, other)
    return RunDirectory(shared=shared, members=tuple(members), seeds=tuple(record["seeds"]))


def _check_beside(folder: Path, other: Path) -> None:
    if not Path(os.path.abspath(other)).is_relative_to(Path(os.path.abspath(folder)).parent):
        raise RunError(f"{folder} names {other}, outside of the folder that it lies in: a batch is in one place")
    if not (other / "config.json").is_file():
        raise RunError(f"{folder} belongs to a batch of seeds, but {other} is missing: move a batch as a whole")


def read_config(folder: Path | str) -> dict[str, Any]:
    """Reads config.json of a run folder, checked for its schema version."""
    path = Path(folder) / "config.json"
    try:
        record = json.loads(path.read_text())
    except FileNotFoundError:
        raise RunError(f"{folder} is not a run directory: it has no config.json") from None
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {path}: {error}") from error
    _check_record(path, record)
    return record


def _check_record(path: Path, record: Any) -> None:
    if not isinstance(record, dict) or "schema" not in record:
        raise RunError(f"{path} was not written by gems_jax: it has no schema version")
    if record["schema"] != SCHEMA:
        raise RunError(f"{path} has schema {record['schema']}, this version reads schema {SCHEMA}")
    missing = {"game", "method", "seeds", "config", "iterations", "shared", "members"} - record.keys()
    if missing:
        raise RunError(f"{path} lacks {', '.join(sorted(missing))}")


def identity(run: RunDirectory) -> dict[str, Any]:
    """What a checkpoint must agree with to be continued: game, method, seeds and config."""
    record = read_config(run.shared)
    return {name: record[name] for name in IDENTITY}


def extend(run: RunDirectory, iterations: int) -> None:
    """Record a new planned length; the rest of config.json stays."""
    for folder in run.folders:
        write_json(folder / "config.json", {**read_config(folder), "iterations": int(iterations)})


def write_status(run: RunDirectory, state: str, *, iteration: int, iterations: int, reason: str = "") -> None:
    if state not in STATES:
        raise ValueError(f"unknown state {state!r}, known: {', '.join(STATES)}")
    record = {
        "state": state,
        "reason": reason,
        "iteration": int(iteration),
        "iterations": int(iterations),
        "updated": _now(),
        "pid": os.getpid(),
    }
    for folder in run.folders:
        write_json(folder / "status.json", record)


def read_status(folder: Path | str) -> dict[str, Any]:
    """status.json; a run that says it is running while no process holds it was killed, and is told as interrupted."""
    path = Path(folder) / "status.json"
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise RunError(f"cannot read {path}: {error}") from error
    if record["state"] == "running" and not is_locked(_join(Path(folder), read_config(folder)["shared"])):
        record = {**record, "state": "interrupted", "reason": "the process ended without a word"}
    return record


def log(run: RunDirectory, text: str) -> None:
    """Append to log.txt of every folder of the run."""
    stamp = _now()
    for folder in run.folders:
        with writing(folder / "log.txt"), open(folder / "log.txt", "a", encoding="utf-8") as file:
            file.writelines(f"{stamp} {line}\n" for line in text.splitlines() or [""])


def slug(name: str) -> str:
    """A game or method name as a folder name: `pgx:hex` -> `pgx_hex`."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._") or "unnamed"


def claim_folder(where: Path) -> Path:
    """Makes a folder below `where` that is named by the time."""
    with writing(where):
        where.mkdir(parents=True, exist_ok=True)
        for folder in _timestamps(where):
            if _claimed(folder):
                return folder
    raise RunExistsError(f"no free name in {where}")


def _timestamps(where: Path) -> Iterator[Path]:
    """Names by the time: a second one within the same second gets a number behind the time."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    yield where / stamp
    yield from (where / f"{stamp}.{attempt}" for attempt in range(2, 1000))


def _claimed(folder: Path) -> bool:
    """Makes the folder: of two processes one succeeds."""
    try:
        folder.mkdir()
    except FileExistsError:
        return False
    return True


def _claim_timestamp(where: Path, seeds: tuple[int, ...]) -> RunDirectory:
    where.mkdir(parents=True, exist_ok=True)
    for name in _timestamps(where):
        members = tuple(Path(f"{name}-s{seed}") for seed in seeds)
        shared = members[0] if len(seeds) == 1 else Path(f"{name}-shared")
        if not any(map(Path.exists, (shared, *members))) and _claimed(shared):
            return _with_members(shared, members, seeds)
    raise RunExistsError(f"no free name for a run in {where}")


def check_free(path: Path) -> None:
    """RunExistsError for a path that holds something."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise RunExistsError(
            f"{path} exists and is not empty; runs are never written over. Choose another folder, or resume it: "
            f"gems resume {path}"
        )


def _claim_path(path: Path, seeds: tuple[int, ...]) -> RunDirectory:
    check_free(path)
    path.mkdir(parents=True, exist_ok=True)
    return _with_members(path, (path,) if len(seeds) == 1 else tuple(path / f"s{seed}" for seed in seeds), seeds)


def _with_members(shared: Path, members: tuple[Path, ...], seeds: tuple[int, ...]) -> RunDirectory:
    for member in members:
        member.mkdir(exist_ok=member == shared)
    return RunDirectory(shared=shared, members=members, seeds=seeds)


def _relatives(run: RunDirectory, folder: Path) -> dict[str, Any]:
    beside = os.path.relpath(run.members[0].parent, folder)  # where all of them are; a relpath for each takes long
    return {
        "shared": os.path.relpath(run.shared, folder),
        "members": [
            "." if member == folder else os.path.normpath(os.path.join(beside, member.name)) for member in run.members
        ],
    }


def _join(folder: Path, relative: str) -> Path:
    """`folder/relative` without the `..`, and without resolving links."""
    return Path(os.path.normpath(folder / relative))


def _now() -> str:
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")
