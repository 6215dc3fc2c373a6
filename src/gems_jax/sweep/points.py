"""From a sweep file to its points, and to the cells they are computed in.

A *point* is one choice of all swept fields; every point runs with every seed. Points that differ in real-valued fields
only are one program: they share a *cell*, whose points and seeds are vmapped into one compiled call. Any other field
is part of the program, and each of its values is a cell of its own.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import random
import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from gems_jax.config import is_real
from gems_jax.runner.rebuild import make_stored_game, starting_settings
from gems_jax.sweep.families import traced_fields
from gems_jax.sweep.file import MAX_POINTS, SweepError, SweepFile, check_names
from gems_jax.types import Game

Changes = dict[str, Any]  # values of swept fields


class Cell(NamedTuple):
    """What one process computes."""

    number: int
    points: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class SweepPlan:
    """A sweep file with everything looked up and checked."""

    file: SweepFile
    game: Game
    configs: tuple[Any, ...]  # one per point
    changes: tuple[Changes, ...]  # likewise, the swept fields only
    axes: tuple[str, ...]  # names of the swept fields
    traced: tuple[str, ...]  # those that are numbers of a compiled program
    cells: tuple[Cell, ...]
    trust: bool = False  # whether the game may be imported from a user's own module


def make_plan(file: SweepFile, trust: bool = False) -> SweepPlan:
    """Look everything up: unknown games, methods, presets and fields, and values out of range, are told in one line.

    trust: import the game where the file names a user's own class; UntrustedGameError without it.
    """
    from gems_jax.solvers import make_solver

    try:
        game = make_stored_game(file.game, file.game_options, file.name, trust=trust)
        base = _base(file, game)
        changes = list_points(file, base)
        configs = tuple(base.replace(**change).validate() for change in changes)
        solver = make_solver(file.method, game, configs[0])
    except (ValueError, TypeError, ImportError) as error:
        raise SweepError(f"{file.name}: {error}") from None
    axes = tuple(changes[0])
    alone = {name for change in changes for name, value in change.items() if isinstance(value, tuple)}
    traced = tuple(name for name in axes if name in traced_fields(base, solver) and name not in alone)
    return SweepPlan(file, game, configs, changes, axes, traced, group_points(changes, traced), trust)


def group_points(changes: Sequence[Changes], traced: Sequence[str]) -> tuple[Cell, ...]:
    """Points that agree in everything but `traced` fields, together; each alone where there are no such fields."""
    groups: dict[Any, list[int]] = {}
    for number, change in enumerate(changes):
        static = tuple((name, value) for name, value in change.items() if name not in traced)
        groups.setdefault(static if traced else number, []).append(number)
    return tuple(Cell(number, tuple(points)) for number, points in enumerate(groups.values()))


def list_points(file: SweepFile, base: Any) -> tuple[Changes, ...]:
    """All points, in the order of the file: the grid's last field turns fastest."""
    parts = [_grid(file, base), _rows(file, base), _draws(file, base)]
    swept = [name for part in parts for name in (part[0] if part else {})]
    twice = sorted({name for name in swept if swept.count(name) > 1})
    if twice:
        raise SweepError(f"{file.name} sweeps {twice[0]} twice: a field belongs to one of [grid], [list], [random]")
    fixed = sorted(set(swept) & set(file.config))
    if fixed:
        raise SweepError(f"{file.name} sweeps {fixed[0]} and fixes it in [config]: leave one of them out")
    count = math.prod(len(part) for part in parts if part)
    if not swept:
        raise SweepError(f"{file.name} sweeps nothing: give a [grid], a [list] or a [random] part with values")
    if count > MAX_POINTS:
        raise SweepError(f"{file.name} has {count} points, more than the {MAX_POINTS} that a sweep may have")
    combined = itertools.product(*(part for part in parts if part))
    return tuple({name: value for part in combination for name, value in part.items()} for combination in combined)


def _grid(file: SweepFile, base: Any) -> list[Changes]:
    columns = [_column(file, base, "grid", name, values) for name, values in file.grid.items()]
    return [dict(zip(file.grid, row, strict=True)) for row in itertools.product(*columns)] if columns else []


def _rows(file: SweepFile, base: Any) -> list[Changes]:
    columns = [_column(file, base, "list", name, values) for name, values in file.list.items()]
    lengths = {name: len(column) for name, column in zip(file.list, columns, strict=True)}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise SweepError(f"{file.name}: the lists of [list] must have one length: got {told}")
    return [dict(zip(file.list, row, strict=True)) for row in zip(*columns, strict=True)]


def _draws(file: SweepFile, base: Any) -> list[Changes]:
    fields = {name: value for name, value in file.random.items() if name not in ("samples", "seed")}
    if not file.random:
        return []
    samples, seed = file.random.get("samples"), file.random.get("seed", 0)
    if type(samples) is not int or samples < 1:
        raise SweepError(f"{file.name}: random.samples must be a whole number, at least 1: got {samples!r}")
    if type(seed) is not int:
        raise SweepError(f"{file.name}: random.seed must be a whole number: got {seed!r}")
    if not fields:
        raise SweepError(f"{file.name}: [random] names no field to draw")
    # a generator per field: one more field changes no other field's draws
    streams = [_stream(file, base, name, spec, random.Random(f"{seed} {name}")) for name, spec in fields.items()]
    return [dict(zip(fields, (next(stream) for stream in streams), strict=True)) for _ in range(samples)]


def _stream(file: SweepFile, base: Any, name: str, spec: Any, source: random.Random) -> Iterator[Any]:
    where = f"random.{name}"
    if not isinstance(spec, Mapping) or not ({"choices"} == set(spec) or {"low", "high"} <= set(spec)):
        raise SweepError(
            f"{file.name}: {where} must be {{ low = ..., high = ... }} or {{ choices = [...] }}: got {spec!r}"
        )
    if "choices" in spec:
        choices = _column(file, base, "random", name, spec["choices"])
        return iter(lambda: source.choice(choices), object())
    check_names(spec, ("low", "high", "log"), f"{file.name}: {where}")
    low, high = _column(file, base, "random", name, [spec["low"], spec["high"]])
    log, whole = spec.get("log", False), isinstance(low, int)
    if isinstance(low, bool) or not isinstance(low, int | float):
        raise SweepError(f"{file.name}: {where} is no number: draw it from {{ choices = [...] }}")
    if not isinstance(log, bool) or not low < high or not math.isfinite(high) or (log and low <= 0):
        raise SweepError(f"{file.name}: {where} needs low < high, both above 0 where log = true: got {spec!r}")

    def draw() -> Any:
        if log:
            value = math.exp(source.uniform(math.log(low), math.log(high + whole)))
            return min(int(value), high) if whole else value
        return source.randint(int(low), int(high)) if whole else source.uniform(low, high)

    return iter(draw, object())


def _column(file: SweepFile, base: Any, part: str, name: str, values: Any) -> list[Any]:
    """The values of one field as its type wants them."""
    where = f"{file.name}: {part}.{name}"
    hints = typing.get_type_hints(type(base))
    check_names({name: values}, [field.name for field in dataclasses.fields(base)], f"{file.name}: [{part}]")
    if not isinstance(values, list):
        raise SweepError(f"{where} must be a list of values: got {values!r}")
    if not values:
        raise SweepError(f"{where} is empty: a sweep over no value has no points")
    column = [_typed(where, hints[name], value) for value in values]
    if part != "list" and len({repr(value) for value in column}) < len(column):
        raise SweepError(f"{where} holds a value twice: {values!r}")
    return column


def _typed(where: str, hint: Any, value: Any) -> Any:
    if is_real(hint):
        each = value if hint is not float and isinstance(value, list) and value else [value]
        fits = all(isinstance(one, int | float) and not isinstance(one, bool) for one in each)
        words = "numbers" if hint is float else "numbers, or lists with one for each player"
    elif hint is int:
        fits, words = type(value) is int, "whole numbers"
    elif hint is bool:
        fits, words = isinstance(value, bool), "true or false"
    elif typing.get_origin(hint) is tuple:
        fits, words = isinstance(value, list) and all(type(one) is int for one in value), "lists of whole numbers"
    else:
        fits, words = isinstance(value, str), "names"
    if not fits:
        raise SweepError(f"{where} takes {words}: got {value!r}")
    if is_real(hint):
        return tuple(map(float, value)) if isinstance(value, list) else float(value)
    return _frozen(value)


def _base(file: SweepFile, game: Game) -> Any:
    """The settings that every point changes."""
    base, _ = starting_settings(file.method, file.game, game, file.preset)
    hints = typing.get_type_hints(type(base))
    check_names(file.config, [field.name for field in dataclasses.fields(base)], f"{file.name}: [config]")
    fixed = {name: _typed(f"{file.name}: config.{name}", hints[name], value) for name, value in file.config.items()}
    base = base.replace(**fixed)
    return base.replace(iterations=file.iterations) if file.iterations else base


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
