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
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.config import GemsConfig, is_real
from gems_jax.runner.engine import Family, Parts
from gems_jax.runner.rebuild import make_stored_game, starting_settings
from gems_jax.sweep.file import MAX_POINTS, SweepError, SweepFile, check_names, expect_value
from gems_jax.types import Game, PyTree, Solver

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

    def describe_cell(self, cell: Cell) -> str:
        """The settings that all points of a cell share, among those that are swept."""
        first = self.changes[cell.points[0]]
        return ", ".join(f"{name} = {value}" for name, value in first.items() if name not in self.traced)


def make_plan(file: SweepFile, trust: bool = False) -> SweepPlan:
    """Looks everything up: unknown games, methods, presets and fields, and values out of range, are told in one line.

    trust: import the game where the file names a user's own class; UntrustedGameError without it.
    """
    from gems_jax.solvers import make_solver

    try:
        game = make_stored_game(file.game, file.game_options, file.name, trust=trust)
        base = _base(file, game)
        changes = list_points(file, base)
        configs = tuple(base.replace(**change).validate() for change in changes)
        traceable = traced_fields(base, make_solver(file.method, game, configs[0]))
    except (ValueError, TypeError, ImportError) as error:
        raise SweepError(f"{file.name}: {error}") from None
    alone = {name for change in changes for name, value in change.items() if isinstance(value, tuple)}
    axes = tuple(changes[0])
    traced = tuple(name for name in axes if name in set(traceable) - alone)
    return SweepPlan(file, game, configs, changes, axes, traced, group_points(changes, traced), trust)


def group_points(changes: Sequence[Changes], traced: Sequence[str]) -> tuple[Cell, ...]:
    """Groups points that agree in everything but `traced` fields; each is alone where there are no such fields."""
    groups: dict[Any, list[int]] = {}
    for number, change in enumerate(changes):
        static = tuple((name, value) for name, value in change.items() if name not in traced)
        groups.setdefault(static if traced else number, []).append(number)
    return tuple(Cell(number, tuple(points)) for number, points in enumerate(groups.values()))


def list_points(file: SweepFile, base: Any) -> tuple[Changes, ...]:
    """Lists all points, in the order of the file: the grid's last field turns fastest."""
    parts = [part for part in (_grid(file, base), _rows(file, base), _draws(file, base)) if part]
    _check_swept(file, [name for part in parts for name in part[0]])
    count = math.prod(map(len, parts))
    if count > MAX_POINTS:
        raise SweepError(f"{file.name} has {count} points, more than the {MAX_POINTS} that a sweep may have")
    return tuple(dict(itertools.chain(*map(dict.items, combined))) for combined in itertools.product(*parts))


def _check_swept(file: SweepFile, swept: list[str]) -> None:
    twice = sorted({name for name in swept if swept.count(name) > 1})
    if twice:
        raise SweepError(f"{file.name} sweeps {twice[0]} twice: a field belongs to one of [grid], [list], [random]")
    fixed = sorted(set(swept) & set(file.config))
    if fixed:
        raise SweepError(f"{file.name} sweeps {fixed[0]} and fixes it in [config]: leave one of them out")
    if not swept:
        raise SweepError(f"{file.name} sweeps nothing: give a [grid], a [list] or a [random] part with values")


def _grid(file: SweepFile, base: Any) -> list[Changes]:
    columns = [_column(file, base, "grid", name, values) for name, values in file.grid.items()]
    return [dict(zip(file.grid, row, strict=True)) for row in itertools.product(*columns)] if columns else []


def _rows(file: SweepFile, base: Any) -> list[Changes]:
    columns = {name: _column(file, base, "list", name, values) for name, values in file.list.items()}
    if len(set(map(len, columns.values()))) > 1:
        told = ", ".join(f"{name} {len(column)}" for name, column in columns.items())
        raise SweepError(f"{file.name}: the lists of [list] must have one length: got {told}")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _draws(file: SweepFile, base: Any) -> list[Changes]:
    if not file.random:
        return []
    fields = {name: value for name, value in file.random.items() if name not in ("samples", "seed")}
    samples, seed = file.random.get("samples"), file.random.get("seed", 0)
    expect_value(
        type(samples) is int and samples > 0, file.name, "random.samples", "a whole number, at least 1", samples
    )
    expect_value(type(seed) is int, file.name, "random.seed", "a whole number", seed)
    if not fields:
        raise SweepError(f"{file.name}: [random] names no field to draw")
    # a generator per field: one more field changes no other field's draws
    streams = [_stream(file, base, name, spec, random.Random(f"{seed} {name}")) for name, spec in fields.items()]
    return [dict(zip(fields, row, strict=True)) for row in itertools.islice(zip(*streams, strict=True), samples)]


def _stream(file: SweepFile, base: Any, name: str, spec: Any, source: random.Random) -> Iterator[Any]:
    """Values of one field without end."""
    if not isinstance(spec, Mapping) or not ({"choices"} == set(spec) or {"low", "high"} <= set(spec)):
        expected = "{ low = ..., high = ... } or { choices = [...] }"
        expect_value(False, file.name, f"random.{name}", expected, spec)
    if "choices" in spec:
        choices = _column(file, base, "random", name, spec["choices"])
        return iter(lambda: source.choice(choices), object())
    check_names(spec, ("low", "high", "log"), f"{file.name}: random.{name}")
    low, high = _column(file, base, "random", name, [spec["low"], spec["high"]])
    _check_range(f"{file.name}: random.{name}", low, high, spec)
    return iter(partial(_draw_number, source, low, high, spec.get("log", False)), object())


def _check_range(where: str, low: Any, high: Any, spec: Mapping[str, Any]) -> None:
    if not _is_number(low):
        raise SweepError(f"{where} is no number: draw it from {{ choices = [...] }}")
    log = spec.get("log", False)
    if not isinstance(log, bool) or not (0 if log else -math.inf) < low < high < math.inf:
        raise SweepError(f"{where} needs low < high, both above 0 where log = true: got {spec!r}")


def _draw_number(source: random.Random, low: Any, high: Any, log: bool) -> Any:
    whole = isinstance(low, int)
    if log:
        value = math.exp(source.uniform(math.log(low), math.log(high + whole)))
        return min(int(value), high) if whole else value
    return source.randint(int(low), int(high)) if whole else source.uniform(low, high)


def _column(file: SweepFile, base: Any, part: str, name: str, values: Any) -> list[Any]:
    """The values of one field as its type wants them."""
    where = f"{file.name}: {part}.{name}"
    check_names({name: values}, [field.name for field in dataclasses.fields(base)], f"{file.name}: [{part}]")
    if not isinstance(values, list):
        raise SweepError(f"{where} must be a list of values: got {values!r}")
    if not values:
        raise SweepError(f"{where} is empty: a sweep over no value has no points")
    hint = typing.get_type_hints(type(base))[name]
    column = [_typed(where, hint, value) for value in values]
    if part != "list" and len(set(map(repr, column))) < len(column):
        raise SweepError(f"{where} holds a value twice: {values!r}")
    return column


def _typed(where: str, hint: Any, value: Any) -> Any:
    """The value as its field wants it: real fields floats, lists tuples."""
    fits, words = _kind(hint)
    if not fits(value):
        raise SweepError(f"{where} takes {words}: got {value!r}")
    if not is_real(hint):
        return tuple(value) if isinstance(value, list) else value
    return tuple(map(float, value)) if isinstance(value, list) else float(value)


def _kind(hint: Any) -> tuple[Callable[[Any], bool], str]:
    """What a field of this type takes: a test, and its words."""
    if is_real(hint) and hint is not float:
        return _is_number_or_numbers, "numbers, or lists with one for each player"
    if typing.get_origin(hint) is tuple:
        return _is_sizes, "lists of whole numbers"
    return _KINDS.get(hint, (lambda value: isinstance(value, str), "names"))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_KINDS: dict[Any, tuple[Callable[[Any], bool], str]] = {
    float: (_is_number, "numbers"),
    int: (lambda value: type(value) is int, "whole numbers"),
    bool: (lambda value: isinstance(value, bool), "true or false"),
}


def _is_number_or_numbers(value: Any) -> bool:
    return all(map(_is_number, value)) and bool(value) if isinstance(value, list) else _is_number(value)


def _is_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(one) is int for one in value)


def _base(file: SweepFile, game: Game) -> Any:
    """The settings that every point changes."""
    base, _ = starting_settings(file.method, file.game, game, file.preset)
    hints = typing.get_type_hints(type(base))
    check_names(file.config, [field.name for field in dataclasses.fields(base)], f"{file.name}: [config]")
    fixed = {name: _typed(f"{file.name}: config.{name}", hints[name], value) for name, value in file.config.items()}
    base = base.replace(**fixed)
    return base.replace(iterations=file.iterations) if file.iterations else base


def traced_fields(config: Any, solver: Solver) -> tuple[str, ...]:
    """The fields that may be tracers: all real-valued fields of GEMS, where a step is one compiled program.

    Numbers for each player (a tuple) stay as they are: arms that differ in them have programs of their own.

    Step sizes, weights, shares, caps and scales alike: no phase branches in Python on any of them
    (`tests/sweep/test_cells.py` runs with all of them traced). The other methods look at some of theirs.
    """
    if not solver.jittable or not isinstance(config, GemsConfig):
        return ()
    hints = typing.get_type_hints(type(config))
    return tuple(name for name, hint in hints.items() if is_real(hint) and not isinstance(getattr(config, name), tuple))


def family_of(
    parts: Callable[[dict[str, Any]], Parts], numbers: Mapping[str, Sequence[float]], program: Hashable = None
) -> Family:
    """One run for each of the `numbers` of a field. parts(own): of the run whose fields have the values `own`."""

    def member(own: PyTree) -> Parts:
        with jax.ensure_compile_time_eval():  # a game is walked now, whoever traces
            return parts(own)

    columns = {name: jnp.asarray(column, jnp.float32) for name, column in numbers.items()}
    return Family(member, columns, program)
