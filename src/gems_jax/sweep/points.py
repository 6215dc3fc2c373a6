"""Points of a sweep file, and their cells.

A *point* is one choice of all swept fields; every point runs with every seed. Points that differ only in real-valued
fields form a *cell*, whose points and seeds are vmapped into one compiled call. Any other field is part of the program,
and each of its values is a separate cell.
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
    """Points that one process computes together."""

    number: int
    points: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class SweepPlan:
    """Validated sweep file with its game, points and cells."""

    file: SweepFile
    game: Game
    configs: tuple[Any, ...]  # one per point
    changes: tuple[Changes, ...]  # swept fields of each point
    axes: tuple[str, ...]  # names of the swept fields
    traced: tuple[str, ...]  # swept fields that are traced
    cells: tuple[Cell, ...]
    trust: bool = False  # whether the game may be imported from a user's module

    def describe_cell(self, cell: Cell) -> str:
        """Formats the swept settings that all points of a cell have in common."""
        first = self.changes[cell.points[0]]
        return ", ".join(f"{name} = {value}" for name, value in first.items() if name not in self.traced)


def make_plan(file: SweepFile, trust: bool = False) -> SweepPlan:
    """Resolves and validates a sweep file.

    Args:
      file: the sweep file.
      trust: import the game if the file names a user's own class.

    Raises:
      SweepError: for an unknown game, method, preset or field, or a value out of range.
      UntrustedGameError: if the game is a user's own class without `trust`.
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
    """Groups points that differ only in `traced` fields; without such fields each point is a cell."""
    groups: dict[Any, list[int]] = {}
    for number, change in enumerate(changes):
        static = tuple((name, value) for name, value in change.items() if name not in traced)
        groups.setdefault(static if traced else number, []).append(number)
    return tuple(Cell(number, tuple(points)) for number, points in enumerate(groups.values()))


def list_points(file: SweepFile, base: Any) -> tuple[Changes, ...]:
    """Lists all points in the order of the file; the last field of the grid varies fastest."""
    parts = [part for part in (_grid(file, base), _rows(file, base), _draws(file, base)) if part]
    _check_swept(file, [name for part in parts for name in part[0]])
    count = math.prod(map(len, parts))
    if count > MAX_POINTS:
        raise SweepError(f"{file.name} must have at most {MAX_POINTS} points, got {count}")
    return tuple(dict(itertools.chain(*map(dict.items, combined))) for combined in itertools.product(*parts))


def _check_swept(file: SweepFile, swept: list[str]) -> None:
    twice = sorted({name for name in swept if swept.count(name) > 1})
    if twice:
        raise SweepError(f"{file.name} sweeps {twice[0]} twice: use it in only one of [grid], [list], [random]")
    fixed = sorted(set(swept) & set(file.config))
    if fixed:
        raise SweepError(f"{file.name} sweeps {fixed[0]} and sets it in [config]: leave one of them out")
    if not swept:
        raise SweepError(f"{file.name} sweeps nothing: add a [grid], [list] or [random] table with values")


def _grid(file: SweepFile, base: Any) -> list[Changes]:
    columns = [_column(file, base, "grid", name, values) for name, values in file.grid.items()]
    return [dict(zip(file.grid, row, strict=True)) for row in itertools.product(*columns)] if columns else []


def _rows(file: SweepFile, base: Any) -> list[Changes]:
    columns = {name: _column(file, base, "list", name, values) for name, values in file.list.items()}
    if len(set(map(len, columns.values()))) > 1:
        lengths = ", ".join(f"{name} {len(column)}" for name, column in columns.items())
        raise SweepError(f"{file.name}: the lists of [list] must have equal lengths, got {lengths}")
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _draws(file: SweepFile, base: Any) -> list[Changes]:
    if not file.random:
        return []
    fields = {name: value for name, value in file.random.items() if name not in ("samples", "seed")}
    samples, seed = file.random.get("samples"), file.random.get("seed", 0)
    expect_value(type(samples) is int and samples > 0, file.name, "random.samples", "an integer of at least 1", samples)
    expect_value(type(seed) is int, file.name, "random.seed", "an integer", seed)
    if not fields:
        raise SweepError(f"{file.name}: [random] has no field to draw")
    # one generator per field: adding a field does not change the draws of others
    streams = [_stream(file, base, name, spec, random.Random(f"{seed} {name}")) for name, spec in fields.items()]
    return [dict(zip(fields, row, strict=True)) for row in itertools.islice(zip(*streams, strict=True), samples)]


def _stream(file: SweepFile, base: Any, name: str, spec: Any, source: random.Random) -> Iterator[Any]:
    """Returns an infinite iterator over random values of one field."""
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
        raise SweepError(f"{where} is not a number: draw it from {{ choices = [...] }}")
    log = spec.get("log", False)
    if not isinstance(log, bool) or not (0 if log else -math.inf) < low < high < math.inf:
        raise SweepError(f"{where} must have low < high, both positive if log = true, got {spec!r}")


def _draw_number(source: random.Random, low: Any, high: Any, log: bool) -> Any:
    integer = isinstance(low, int)
    if log:
        value = math.exp(source.uniform(math.log(low), math.log(high + integer)))
        return min(int(value), high) if integer else value
    return source.randint(int(low), int(high)) if integer else source.uniform(low, high)


def _column(file: SweepFile, base: Any, part: str, name: str, values: Any) -> list[Any]:
    """Checks the values of one field and converts them to its type."""
    where = f"{file.name}: {part}.{name}"
    check_names({name: values}, [field.name for field in dataclasses.fields(base)], f"{file.name}: [{part}]")
    if not isinstance(values, list):
        raise SweepError(f"{where} must be a list of values, got {values!r}")
    if not values:
        raise SweepError(f"{where} is empty: give at least one value")
    hint = typing.get_type_hints(type(base))[name]
    column = [_convert(where, hint, value) for value in values]
    if part != "list" and len(set(map(repr, column))) < len(column):
        raise SweepError(f"{where} must have distinct values, got {values!r}")
    return column


def _convert(where: str, hint: Any, value: Any) -> Any:
    """Checks a value and converts it to the type of its field."""
    fits, expected = _kind(hint)
    if not fits(value):
        raise SweepError(f"{where} must contain {expected}, got {value!r}")
    if not is_real(hint):
        return tuple(value) if isinstance(value, list) else value
    return tuple(map(float, value)) if isinstance(value, list) else float(value)


def _kind(hint: Any) -> tuple[Callable[[Any], bool], str]:
    """Returns the test of values of a type, and their description."""
    if is_real(hint) and hint is not float:
        return _is_number_or_numbers, "numbers, or lists with one for each player"
    if typing.get_origin(hint) is tuple:
        return _is_sizes, "lists of integers"
    return _KINDS.get(hint, (lambda value: isinstance(value, str), "names"))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_KINDS: dict[Any, tuple[Callable[[Any], bool], str]] = {
    float: (_is_number, "numbers"),
    int: (lambda value: type(value) is int, "integers"),
    bool: (lambda value: isinstance(value, bool), "true or false"),
}


def _is_number_or_numbers(value: Any) -> bool:
    return all(map(_is_number, value)) and bool(value) if isinstance(value, list) else _is_number(value)


def _is_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(one) is int for one in value)


def _base(file: SweepFile, game: Game) -> Any:
    """Returns the settings that the points override."""
    base, _ = starting_settings(file.method, file.game, game, file.preset)
    hints = typing.get_type_hints(type(base))
    check_names(file.config, [field.name for field in dataclasses.fields(base)], f"{file.name}: [config]")
    fixed = {name: _convert(f"{file.name}: config.{name}", hints[name], value) for name, value in file.config.items()}
    base = base.replace(**fixed)
    return base.replace(iterations=file.iterations) if file.iterations else base


def traced_fields(config: Any, solver: Solver) -> tuple[str, ...]:
    """Lists the fields that may be traced: all real-valued fields of GEMS, if its step is one compiled program.

    No phase of GEMS branches in Python on a real-valued field (`tests/sweep/test_cells.py` traces all of them). Other
    methods branch on some of theirs. Tuples of one number per player are static.
    """
    if not solver.jittable or not isinstance(config, GemsConfig):
        return ()
    hints = typing.get_type_hints(type(config))
    return tuple(name for name, hint in hints.items() if is_real(hint) and not isinstance(getattr(config, name), tuple))


def make_family(
    parts: Callable[[dict[str, Any]], Parts], numbers: Mapping[str, Sequence[float]], program: Hashable = None
) -> Family:
    """Makes a family of runs that differ in real-valued fields.

    Args:
      parts: makes the parts of a run from its values by field.
      numbers: one value per run for each field.
      program: see `Family`.
    """

    def member(own: PyTree) -> Parts:
        with jax.ensure_compile_time_eval():  # the game tree is built now, even inside a trace
            return parts(own)

    columns = {name: jnp.asarray(column, jnp.float32) for name, column in numbers.items()}
    return Family(member, columns, program)
