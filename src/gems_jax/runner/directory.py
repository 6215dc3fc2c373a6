"""The run directory: `runs/<game>/<method>/<time>-s<seed>/`, one folder per seed, never overwritten.

    command.json   the command line, written before anything is imported; with the status "starting" alone, it is
                   the trace of a run that was killed before its settings were complete
    config.json    the resolved configuration, schema version, commit, package versions, device
    metrics.csv    one row per iteration, flushed as it goes
    mixtures.csv   the mixture at about 200 iterations, for `gems view`
    status.json    starting | running | done | failed | interrupted, and why
    log.txt        messages of the run
    checkpoints/   figures/   replays/

Seeds that run as one vmapped batch share one state. Each still has its own folder as above, and the checkpoints are in
the sibling folder `<time>-shared/`. Every folder names the others by relative paths, so `open_run` accepts any of them
and a complete batch can be moved. A single seed is its own shared folder.
"""

from __future__ import annotations

import dataclasses
import datetime
import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gems_jax.runner import machine
from gems_jax.runner.errors import RunError, RunExistsError, report_write_errors
from gems_jax.runner.files import is_locked, resolve, write_json
from gems_jax.runner.integrity.links import check_entries
from gems_jax.runner.integrity.records import COMMAND, CONFIG, DISTINCT_SEEDS, STATES, STATUS
from gems_jax.runner.integrity.schema import check_record, read_json, shorten

SCHEMA = 1
_TRACES = ("command.json", "status.json", "config.json", ".lock")  # files of a run that has not begun
# Fields of config.json that a checkpoint must match; the others may change between start and resume.
IDENTITY = ("game", "method", "seeds", "config")


@dataclasses.dataclass(frozen=True)
class RunDirectory:
    """Folders of one run, which has one seed or a batch of seeds."""

    shared: Path  # folder of the checkpoints of all seeds
    members: tuple[Path, ...]  # one folder per seed; (shared,) when there is one seed
    seeds: tuple[int, ...]

    @property
    def checkpoints(self) -> Path:
        """Folder of the checkpoints."""
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
    begun: RunDirectory | None = None,
) -> RunDirectory:
    """Creates the folders of a new run and writes their config.json. Existing files are never overwritten.

    Args:
      game: name of the game.
      method: name of the method.
      config: settings of the method, a dataclass.
      seeds: one or more distinct integers.
      iterations: planned number of iterations.
      root: folder of all runs; the run is `<root>/<game>/<method>/<time>-s<seed>`.
      path: folder of the run instead; the seeds of a batch are then in `<path>/s<seed>`.
      options: further settings, written to config.json without being part of the run's identity.
      begun: folders that `begin_run` has made for this run; `root` and `path` are then ignored.

    Returns:
      The folders of the run.

    Raises:
      RunExistsError: if `path` is not empty.
      RunError: if a folder cannot be written.
    """
    seeds = tuple(int(seed) for seed in seeds)
    if not seeds or len(set(seeds)) != len(seeds):
        raise ValueError(f"seeds must be one or more distinct integers, got {seeds}")
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
    run = begun or _claim(game, method, seeds, root, path)
    with report_write_errors(run.shared):
        _write_configs(run, record)
    write_status(run, "running", iteration=0, iterations=iterations)
    return run


def begin_run(
    command: Sequence[str],
    *,
    game: str,
    method: str,
    seeds: Sequence[int],
    root: Path | str = "runs",
    path: Path | str | None = None,
) -> RunDirectory:
    """Creates the folders of a run whose settings are not known yet, with command.json and the status "starting".

    Args:
      command: the command line.
      game, method, seeds, root, path: see `create_run`.

    Returns:
      The folders, for `create_run(begun=...)`.

    Raises:
      RunExistsError: if `path` is not empty.
      RunError: if a folder cannot be written.
    """
    run = _claim(game, method, tuple(seeds), root, path)
    write_json(run.shared / "command.json", {"command": list(command), "created": _now()})
    write_status(run, "starting", iteration=0, iterations=0)
    return run


def _claim(game: str, method: str, seeds: tuple[int, ...], root: Path | str, path: Path | str | None) -> RunDirectory:
    where = Path(path) if path is not None else Path(root) / slug(game) / slug(method)
    with report_write_errors(where):
        return (_claim_timestamp if path is None else _claim_path)(where, seeds)


def _write_configs(run: RunDirectory, record: dict[str, Any]) -> None:
    """Writes the shared record last, so that a run whose creation was interrupted cannot be resumed."""
    own = dict(zip(run.members, run.seeds, strict=True))
    for folder in dict.fromkeys((*run.members, run.shared)):
        for name in ("figures", "replays"):
            (folder / name).mkdir()
        write_json(folder / "config.json", {**record, "seed": own.get(folder), **_relatives(run, folder)})


def open_run(path: Path | str) -> RunDirectory:
    """Opens the run that a seed's folder or a shared folder belongs to.

    Raises:
      RunError: if it is not a run, its config.json is damaged, or a link in one of its folders leaves the folder.
    """
    folder = Path(path)
    if folder.name == "config.json":
        folder = folder.parent
    if not folder.is_dir():
        raise RunError(f"no run at {folder}: the folder does not exist")
    record = read_config(folder)
    check_record(record, DISTINCT_SEEDS, folder / "config.json")
    if len(record["members"]) != len(record["seeds"]):
        count = len(record["members"])
        raise RunError(f"{folder / 'config.json'} is damaged: members: expected one for each seed, got {count}")
    shared, *members = (_join(folder, name) for name in (record["shared"], *record["members"]))
    run = RunDirectory(shared=shared, members=tuple(members), seeds=tuple(record["seeds"]))
    for other in run.folders:
        _check_beside(folder, other)
        check_entries(other)
    return run


def _check_beside(folder: Path, other: Path) -> None:
    beside = Path(os.path.abspath(other)).is_relative_to(Path(os.path.abspath(folder)).parent)
    if not beside or (other != folder and not _lands_beside(folder, other)):
        raise RunError(f"invalid batch: {folder} refers to {other}, expected a folder inside {folder.parent}")
    if not (other / "config.json").is_file():
        raise RunError(f"incomplete batch: {folder} refers to {other}, which is missing. Move all folders together")


def _lands_beside(folder: Path, other: Path) -> bool:
    """Checks that another folder of a batch is not a link to somewhere else."""
    parents = [folder.resolve().parent, Path(os.path.abspath(folder)).parent.resolve()]
    return any(other.resolve().is_relative_to(parent) for parent in parents)


def read_config(folder: Path | str) -> dict[str, Any]:
    """Reads config.json of a run folder and checks its schema. Raises RunError."""
    path = Path(folder) / "config.json"
    try:
        record = read_json(path)
    except FileNotFoundError:
        raise RunError(_describe_missing(Path(folder))) from None
    _check_version(path, record)
    check_record(record, CONFIG, path)
    return record


def _describe_missing(folder: Path) -> str:
    """Describes a folder without config.json: it is not a run, or was killed while it started."""
    try:
        command = read_json(folder / "command.json", COMMAND)["command"]
    except (FileNotFoundError, RunError):
        return f"{folder} is not a run directory: it has no config.json"
    line = shlex.join(["gems", *command])
    return f"{folder} was stopped before its settings were complete. Start it again: {line}"


def _check_version(path: Path, record: Any) -> None:
    if not isinstance(record, dict) or "schema" not in record:
        raise RunError(f"{path} was not written by gems_jax: it has no schema version")
    if record["schema"] != SCHEMA:
        raise RunError(f"{path} has schema {shorten(record['schema'])}, this version reads schema {SCHEMA}")
    missing = {"game", "method", "seeds", "config", "iterations", "shared", "members"} - record.keys()
    if missing:
        raise RunError(f"{path} lacks {', '.join(sorted(missing))}")


def identity(run: RunDirectory) -> dict[str, Any]:
    """Returns the record that a checkpoint must match: game, method, seeds and config."""
    record = read_config(run.shared)
    return {name: record[name] for name in IDENTITY}


def extend_run(run: RunDirectory, iterations: int) -> None:
    """Writes a new planned number of iterations to config.json of every folder."""
    for folder in run.folders:
        write_json(folder / "config.json", {**read_config(folder), "iterations": int(iterations)})


def write_status(run: RunDirectory, state: str, *, iteration: int, iterations: int, reason: str = "") -> None:
    """Writes status.json of every folder of the run.

    Args:
      run: the folders.
      state: one of `STATES`.
      iteration: iterations done.
      iterations: iterations planned.
      reason: why the run failed or stopped.
    """
    if state not in STATES:
        raise ValueError(f"unknown state {state!r}; known: {', '.join(STATES)}")
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
    """Reads status.json. A running state that no process holds the lock of is reported as interrupted."""
    path = Path(folder) / "status.json"
    try:
        record = read_json(path, STATUS)
    except FileNotFoundError:
        raise RunError(f"cannot read {path}: there is no such file") from None
    if record["state"] == "starting":
        alive = is_locked(Path(folder))
    else:
        alive = record["state"] != "running" or is_locked(_join(Path(folder), read_config(folder)["shared"]))
    if not alive:
        record = {**record, "state": "interrupted", "reason": "the process was killed"}
    return record


def log(run: RunDirectory, text: str) -> None:
    """Appends lines with a time stamp to log.txt of every folder of the run."""
    stamp = _now()
    for folder in run.folders:
        with report_write_errors(folder / "log.txt"), open(folder / "log.txt", "a", encoding="utf-8") as file:
            file.writelines(f"{stamp} {line}\n" for line in text.splitlines() or [""])


def slug(name: str) -> str:
    """Converts a game or method name to a folder name: `pgx:hex` -> `pgx_hex`."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._") or "unnamed"


def claim_folder(where: Path) -> Path:
    """Creates a folder below `where` that is named by the current time."""
    with report_write_errors(where):
        where.mkdir(parents=True, exist_ok=True)
        for folder in _timestamps(where):
            if _try_claim(folder):
                return folder
    raise RunExistsError(f"no free name in {where}")


def _timestamps(where: Path) -> Iterator[Path]:
    """Yields folder names by the current time; further names within the same second get a numeric suffix."""
    stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    yield where / stamp
    yield from (where / f"{stamp}.{attempt}" for attempt in range(2, 1000))


def _try_claim(folder: Path) -> bool:
    """Creates the folder; returns False if another process was first."""
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
        if not any(map(Path.exists, (shared, *members))) and _try_claim(shared):
            return _make_members(shared, members, seeds)
    raise RunExistsError(f"no free name for a run in {where}")


def check_free(path: Path) -> None:
    """Checks that a path does not exist, is an empty folder, or is abandoned. Raises RunExistsError."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())) and not is_abandoned(path):
        raise RunExistsError(
            f"{path} exists and is not empty; runs are never overwritten. Choose another folder, or resume it: "
            f"gems resume {path}"
        )


def is_abandoned(path: Path) -> bool:
    """Checks whether a folder is only the trace of a run that was killed before its settings were complete."""
    if not (path / "command.json").is_file() or (path / "config.json").exists() or is_locked(path):
        return False
    files = [each.name for each in path.rglob("*") if not each.is_dir()]
    return all(name in _TRACES or name.startswith("error-") for name in files)


def check_writable(path: Path) -> None:
    """Checks that a folder can be created or written, by writing a folder that is removed at once. Raises RunError."""
    existing = next(each for each in (path, *path.absolute().parents) if each.exists())
    with report_write_errors(path):
        os.rmdir(tempfile.mkdtemp(prefix=".gems-", dir=existing))


def _claim_path(path: Path, seeds: tuple[int, ...]) -> RunDirectory:
    check_free(path)
    if is_abandoned(path):
        shutil.rmtree(path)
    path.mkdir(parents=True, exist_ok=True)
    return _make_members(path, (path,) if len(seeds) == 1 else tuple(path / f"s{seed}" for seed in seeds), seeds)


def _make_members(shared: Path, members: tuple[Path, ...], seeds: tuple[int, ...]) -> RunDirectory:
    for member in members:
        member.mkdir(exist_ok=member == shared)
    return RunDirectory(shared=shared, members=members, seeds=seeds)


def _relatives(run: RunDirectory, folder: Path) -> dict[str, Any]:
    beside = os.path.relpath(run.members[0].parent, folder)  # parent of all members: relpath is slow
    return {
        "shared": os.path.relpath(run.shared, folder),
        "members": [
            "." if member == folder else os.path.normpath(os.path.join(beside, member.name)) for member in run.members
        ],
    }


def _join(folder: Path, relative: str) -> Path:
    """Joins two paths and removes `..`, without resolving links."""
    return Path(os.path.normpath(folder / relative))


def _now() -> str:
    return datetime.datetime.now().astimezone().isoformat(timespec="seconds")
