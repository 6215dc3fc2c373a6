"""Schemas of JSON records, and the one reader of JSON files.

A schema is a value, built from the functions below; `records.py` has those of the files of a run:

    fields(seeds=list_of(integer(), least=1), reason=TEXT, optional={"note": TEXT})
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from gems_jax.runner.errors import RunError

LARGEST_FILE = 2**28  # bytes of a record
LARGEST_TABLE = 2**32  # bytes of metrics.csv: half a kilobyte for each of some million iterations
_LARGEST = 2**63 - 1
_SHOWN = 60  # characters of an unexpected value in a message


class Fault(NamedTuple):
    """First value of a record that does not fit its schema."""

    where: str  # dotted name of the field; "" for the record itself
    expected: str
    got: str

    def __str__(self) -> str:
        """Formats the fault as the end of a message."""
        return f"{self.where or 'the record'}: expected {self.expected}, got {self.got}"


Schema = Callable[[Any, str], Fault | None]  # schema(value, dotted name of the value)


def value(expected: str, fits: Callable[[Any], bool]) -> Schema:
    """Makes the schema of a single value from its description and a predicate."""
    return lambda given, where: None if fits(given) else Fault(where, expected, shorten(given))


def integer(least: int = -_LARGEST, most: int = _LARGEST) -> Schema:
    """Makes the schema of an integer in a range; a bool is not an integer."""
    bound = f"an integer from {least} to {most}" if (least, most) != (-_LARGEST, _LARGEST) else "an integer"
    return value(bound, lambda given: type(given) is int and least <= given <= most)


def number(least: float = -math.inf) -> Schema:
    """Makes the schema of a finite number of at least `least`, or of a text that stands for infinity."""
    words = "a number" if least == -math.inf else f"a number of at least {least:g}"
    infinite = ("inf",) if least > -math.inf else ("inf", "-inf")
    return value(words, lambda given: given in infinite if isinstance(given, str) else _is_number(given, least))


def _is_number(given: Any, least: float) -> bool:
    return isinstance(given, int | float) and not isinstance(given, bool) and least <= given < math.inf


TEXT = value("text", lambda given: isinstance(given, str))
NAME = value("a printable name", lambda given: isinstance(given, str) and 0 < len(given) < 1000 and given.isprintable())
BOOL = value("true or false", lambda given: isinstance(given, bool))
RECORD = value("a record", lambda given: isinstance(given, dict))


def is_plain(given: Any) -> bool:
    """Checks that all texts of plain JSON data can be printed: they contain no control characters."""
    if isinstance(given, str):
        return given.isprintable()
    if isinstance(given, list):
        return all(map(is_plain, given))
    return not isinstance(given, dict) or all(map(is_plain, [*given, *given.values()]))


def plain_record(given: Any, where: str) -> Fault | None:
    """Checks a record of any fields, whose texts can be printed."""
    try:
        fits = is_plain(given)
    except RecursionError:
        fits = False
    return RECORD(given, where) or (None if fits else Fault(where, "texts without control characters", shorten(given)))


def one_of(*choices: Any) -> Schema:
    """Makes the schema of a value that equals one of the choices, in type as well."""
    words = f"one of {', '.join(map(str, choices))}"
    return value(words, lambda given: any(type(given) is type(one) and given == one for one in choices))


def nullable(schema: Schema) -> Schema:
    """Makes the schema of a value that may be null."""
    return lambda given, where: None if given is None else schema(given, where)


def list_of(item: Schema, least: int = 0, distinct: bool = False) -> Schema:
    """Makes the schema of a list.

    Args:
      item: schema of the items.
      least: minimum length.
      distinct: whether all items differ.
    """
    words = f"a list{f' of at least {least}' * bool(least)}"

    def check(given: Any, where: str) -> Fault | None:
        if not isinstance(given, list) or len(given) < least:
            return Fault(where, words, shorten(given))
        faults = (item(one, f"{where}[{index}]") for index, one in enumerate(given))
        fault = next(filter(None, faults), None)
        if fault is None and distinct and len(set(map(str, given))) < len(given):
            return Fault(where, "different items", shorten(given))
        return fault

    return check


def mapping_of(item: Schema) -> Schema:
    """Makes the schema of a record whose values all have the same schema."""

    def check(given: Any, where: str) -> Fault | None:
        fault = RECORD(given, where)
        return fault or next(filter(None, (item(one, _dotted(where, name)) for name, one in given.items())), None)

    return check


def fields(optional: Mapping[str, Schema] | None = None, **required: Schema) -> Schema:
    """Makes the schema of a record; fields that it does not name are not checked.

    Args:
      optional: fields that may be absent.
      **required: fields that must be there.
    """

    def check(given: Any, where: str) -> Fault | None:
        fault = RECORD(given, where)
        if fault:
            return fault
        missing = [name for name in required if name not in given]
        if missing:
            return Fault(_dotted(where, missing[0]), "a value", "none")
        known = {**required, **(optional or {})}
        found = (schema(given[name], _dotted(where, name)) for name, schema in known.items() if name in given)
        return next(filter(None, found), None)

    return check


def _dotted(where: str, name: str) -> str:
    return f"{where}.{shorten_text(name)}" if where else shorten_text(name)


def shorten(given: Any) -> str:
    """Formats an unexpected value for a message of one line, without control characters."""
    try:
        text = json.dumps(given)
    except (TypeError, ValueError, RecursionError):
        text = type(given).__name__
    return shorten_text(text)


def shorten_text(text: str) -> str:
    """Cuts a text and replaces what cannot be printed."""
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def check_record(record: Any, schema: Schema, where: Path | str, error: type[RunError] = RunError) -> None:
    """Checks a record against a schema.

    Args:
      record: plain JSON data.
      schema: the schema.
      where: file of the record, for the message.
      error: class of the error.

    Raises:
      RunError: of the class `error`, if the record does not fit; it names the first field that does not.
    """
    fault = schema(record, "")
    if fault:
        raise error(f"{where} is damaged: {fault}. Restore the file from a copy")


def read_json(path: Path, schema: Schema | None = None, error: type[RunError] = RunError) -> Any:
    """Reads a JSON file and checks it against a schema. Every reader of JSON files uses this function.

    Args:
      path: the file.
      schema: schema of its content; None to check that it is JSON only.
      error: class of the error.

    Returns:
      The content.

    Raises:
      FileNotFoundError: if there is no such file.
      RunError: of the class `error`, if it cannot be read, is not JSON, or does not fit the schema.
    """
    try:
        content = json.loads(read_text(path, error), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as fault:
        reason = "it is nested too deeply" if isinstance(fault, RecursionError) else shorten_text(str(fault))
        raise error(
            f"cannot read {path}: expected JSON, got a damaged file ({reason}). Restore it from a copy"
        ) from None
    if schema is not None:
        check_record(content, schema, path, error)
    return content


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def read_text(path: Path, error: type[RunError] = RunError, largest: int = LARGEST_FILE) -> str:
    """Reads a regular text file of a limited size.

    Args:
      path: the file.
      error: class of the error.
      largest: size in bytes above which it is refused.

    Raises:
      FileNotFoundError: if there is no such file.
      RunError: of the class `error`, if it is not a regular file, too large, unreadable, or not UTF-8.
    """
    try:
        found = os.stat(path)
        if not stat.S_ISREG(found.st_mode):
            raise error(f"cannot read {path}: expected a regular file, got another kind of entry")
        if found.st_size > largest:
            raise error(f"cannot read {path}: expected at most {largest} bytes, got {found.st_size}")
        return path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as fault:
        raise error(f"cannot read {path}: expected UTF-8 text, got a byte that is not ({fault.reason})") from None
    except FileNotFoundError:
        raise
    except OSError as fault:
        raise error(f"cannot read {path}: {fault.strerror or fault}") from None
