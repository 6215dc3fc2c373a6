"""Sweep file: TOML, validated completely before anything starts.

    name = "kuhn-step-sizes"          # default: the file's name
    game = "kuhn_poker"
    method = "gems"                   # the default
    preset = "tuned"                  # of the game; default: the first of replay, joint, tuned, auto that it has
    iterations = 20                   # default: that of the settings
    seeds = 5                         # 0 to 4, or a list
    metric = "exploitability"         # column to rank points by; default: the run's headline
    highest = false                   # whether its highest value is the best; scores and returns need not say so

    [game_options]                    # of the game
    [config]                          # changes for all points
    [grid]                            # every combination of these
    eta = [0.03, 0.1, 0.3]
    [list]                            # lists of equal length, one point per index
    [random]                          # `samples` draws of these, from `seed`
    samples = 20
    learning_rate = { low = 1e-4, high = 1e-2, log = true }
    index = { choices = ["eb_ucb", "ucb1"] }

    [run]                             # execution
    executor = "local"                # or slurm, submitit-local, submitit-debug, ray
    workers = 2                       # concurrent cells
    gpus = 0                          # assigned to local workers round-robin
    memory_gb = 8.0                   # limit per cell
    retries = 1                       # of a cell that failed
    [slurm]                           # passed to submitit: slurm_partition, timeout_min, gpus_per_node, ...
    [ray]                             # resources of a trial: CPU, GPU

A sweep is the product of its grid, list and random parts.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from gems_jax.runner.errors import RunError
from gems_jax.runner.integrity.schema import read_text
from gems_jax.types import did_you_mean

EXECUTORS = ("local", "slurm", "submitit-local", "submitit-debug", "ray")
MAX_POINTS = 10_000


class SweepError(RunError):
    """Raised for an invalid sweep file."""

    exit_code = 2


@dataclasses.dataclass(frozen=True)
class Execution:
    """Settings of the execution of cells."""

    executor: str = "local"
    workers: int = 1
    gpus: int = 0  # assigned to local workers round-robin; 0: all workers see all devices
    memory_gb: float = 0.0  # limit per cell; 0: this machine's memory divided by the workers
    retries: int = 1
    chunk: int = 10
    checkpoint_seconds: float = 10.0
    exact: bool = True
    evaluation_episodes: int = 256
    evaluation_every: int = 10


@dataclasses.dataclass(frozen=True)
class SweepFile:
    """Contents of a sweep file: types are checked, names are not yet resolved."""

    name: str
    game: str
    method: str = "gems"
    preset: str = ""
    iterations: int = 0  # 0: that of the settings
    seeds: tuple[int, ...] = (0,)
    metric: str = ""  # "": the headline of the run
    highest: bool = False  # whether the highest value of `metric` is the best, if its column has no known direction
    game_options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    grid: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    list: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    random: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    run: Execution = Execution()
    slurm: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    ray: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def read_sweep(path: Path) -> SweepFile:
    """Reads a sweep file. Raises SweepError if it is invalid."""
    try:
        text = read_text(path, SweepError)
    except FileNotFoundError as error:
        raise SweepError(f"cannot read {path}: {error.strerror}") from None
    try:
        record = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SweepError(f"{path} is not valid TOML: {error}") from None
    return parse_sweep({"name": path.stem, **record}, str(path))


def parse_sweep(record: Mapping[str, Any], where: str = "the sweep") -> SweepFile:
    """Makes a SweepFile from plain data; `where` names its source in messages. Raises SweepError."""
    check_names(record, {field.name for field in dataclasses.fields(SweepFile)}, where)
    if "game" not in record:
        raise SweepError(f"{where} has no game: add a line such as game = 'kuhn_poker'")
    values = {**record, "seeds": record.get("seeds", 1), "run": record.get("run", {})}
    for names, (fits, expected) in _KINDS.items():
        for name in filter(values.__contains__, names):
            expect_value(
                fits(values[name]), where, f"[{name}]" if expected == "a table" else name, expected, values[name]
            )
    return SweepFile(**{**values, "seeds": _seeds(values["seeds"]), "run": _execution(values["run"], where)})


def _execution(table: Mapping[str, Any], where: str) -> Execution:
    known = {field.name: field.default for field in dataclasses.fields(Execution)}
    check_names(table, known, f"{where}: [run]")
    values: dict[str, Any] = {}
    for name, value in table.items():
        kind: Any = type(known[name])
        fits = type(value) is kind or (kind is float and type(value) is int)
        expect_value(fits, where, f"run.{name}", _WORDS[kind], value)
        values[name] = kind(value)
    run = Execution(**values)
    if run.executor not in EXECUTORS:
        hint = did_you_mean(run.executor, EXECUTORS)
        raise SweepError(f"{where}: unknown executor {run.executor!r}; {hint}known: {', '.join(EXECUTORS)}")
    for name, least in _LEAST.items():
        if getattr(run, name) < least:
            raise SweepError(f"{where}: run.{name} must be at least {least}, got {getattr(run, name)}")
    return run


def _is_seeds(value: Any) -> bool:
    """Checks a number of seeds, or a list of seeds."""
    if type(value) is int:
        return 1 <= value <= MAX_POINTS
    return isinstance(value, list) and bool(value) and all(map(_is_seed, value)) and len(set(value)) == len(value)


def _is_seed(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31


def _seeds(value: Any) -> tuple[int, ...]:
    return tuple(range(value)) if isinstance(value, int) else tuple(value)


def check_names(record: Mapping[str, Any], known: Any, where: str) -> None:
    """Checks the names of a record.

    Args:
      record: values by name.
      known: valid names.
      where: subject of the message.

    Raises:
      SweepError: for the first unknown name, with the closest known one.
    """
    for name in record:
        if name not in known:
            hint = did_you_mean(name, known).rstrip().replace("'", "") or f"known: {', '.join(sorted(known))}"
            raise SweepError(f"{where} has an unknown field {name!r}; {hint}")


def expect_value(fits: bool, where: str, name: str, expected: str, got: Any) -> None:
    """Raises SweepError unless a value fits.

    Args:
      fits: whether the value fits.
      where: file of the value.
      name: field of the value.
      expected: description of valid values.
      got: the value.
    """
    if not fits:
        raise SweepError(f"{where}: {name} must be {expected}, got {got!r}")


# types of fields: (test, description)
_KINDS: dict[tuple[str, ...], tuple[Callable[[Any], bool], str]] = {
    ("name", "game", "method", "preset", "metric"): (lambda value: isinstance(value, str), "a string"),
    ("game_options", "config", "grid", "list", "random", "run", "slurm", "ray"): (
        lambda value: isinstance(value, dict),
        "a table",
    ),
    ("iterations",): (lambda value: type(value) is int and value >= 1, "an integer of at least 1"),
    ("highest",): (lambda value: isinstance(value, bool), "true or false"),
    ("seeds",): (_is_seeds, "a number of seeds, or a list of distinct integers"),
}
_WORDS = {int: "an integer", float: "a number", bool: "true or false", str: "a string"}
_LEAST = {
    "workers": 1, "gpus": 0, "retries": 0, "memory_gb": 0, "chunk": 1, "evaluation_episodes": 0, "evaluation_every": 1,
}  # fmt: skip
