"""Counts of compiled programs: operations of StableHLO, and launches, bytes and operations of optimized HLO.

An optimized program is a text of computations. A *launch* is an instruction that runs as a kernel of its own (a fusion,
a product, a sort, ...); loops multiply the launches of their bodies by their trip counts. XLA's own cost analysis
counts the body of a loop once, so bytes and floating-point operations are counted here by the same rule of trip counts.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

_STABLEHLO = re.compile(r'^\s+(?:%\S+(?:, %\S+)* = )?"?(stablehlo\.\w+|chlo\.\w+|call|func\.call) ?"?', re.MULTILINE)
_HEADER = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\) -> .* \{$")
_INSTRUCTION = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = (.*)$")
_ARRAY = re.compile(r"\b(pred|[suf]\d+|bf16|c64|c128)\[([\d,]*)\]")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
_BYTES = {"pred": 1, "s4": 1, "u4": 1, "bf16": 2, "c64": 8, "c128": 16}
# Instructions without a kernel: names for memory that exists, or control flow that is counted by what it calls.
_CONTROL = {"while", "call", "conditional"}
_NAMES = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "opt-barrier"}
_FREE = _CONTROL | _NAMES | {"add-dependency", "partition-id", "replica-id"}
_COPIES = {"copy", "copy-start", "copy-done", "broadcast", "reshape", "transpose", "slice", "concatenate", "pad"}
_SELECTIONS = {"reverse", "gather", "scatter", "dynamic-slice", "dynamic-update-slice", "select", "compare", "sort"}
_MOVES = _COPIES | _SELECTIONS | {"iota", "convert", "bitcast-convert", "custom-call"}  # no arithmetic is counted


class Cost(NamedTuple):
    """Cost of a computation, with the bodies of loops as often as they run."""

    launches: float = 0.0
    bytes: float = 0.0  # operands and results of all launches
    flops: float = 0.0  # multiplications and additions of products, one for each number of other arithmetic

    def plus(self, other: Cost, times: float = 1.0) -> Cost:
        return Cost(*(one + times * two for one, two in zip(self, other, strict=True)))


class Loop(NamedTuple):
    """A loop of an optimized program."""

    trips: int | None  # None if XLA does not know it: episodes until they end
    launches: float  # of one turn


class _Instruction(NamedTuple):
    opcode: str
    shape: str  # type of the result
    operands: tuple[str, ...]
    called: dict[str, tuple[str, ...]]
    trips: int | None
    contracted: tuple[int, ...]


def count_stablehlo(text: str) -> int:
    """Counts the operations of a StableHLO module without its constants. Functions count once, calls of them one."""
    return sum(name != "stablehlo.constant" for name in _STABLEHLO.findall(text))


class Program:
    """An optimized HLO module.

    Args:
      text: what `compiled.as_text()` returns.
      unknown_trips: turns of loops whose trip count XLA does not know.
    """

    def __init__(self, text: str, unknown_trips: int = 1):
        self._unknown, self._found = unknown_trips, dict[str, Cost]()
        self._computations, self._entry = _parse(text)

    def cost(self) -> Cost:
        """Adds up the whole program."""
        return self._cost_of(self._entry)

    def loops(self) -> list[Loop]:
        """Lists the loops, outermost first within a computation."""
        every = [one for body in self._computations.values() for one in body.values() if one.opcode == "while"]
        return [Loop(one.trips, self._turn(one).launches) for one in every]

    def _turn(self, loop: _Instruction) -> Cost:
        return self._cost_of(loop.called["body"][0]).plus(self._cost_of(loop.called["condition"][0]))

    def _cost_of(self, name: str) -> Cost:
        if name not in self._found:
            body = self._computations.get(name, {})
            total = Cost()
            for one in body.values():
                total = total.plus(self._cost_of_instruction(one, body))
            self._found[name] = total
        return self._found[name]

    def _cost_of_instruction(self, one: _Instruction, body: Mapping[str, _Instruction]) -> Cost:
        if one.opcode == "while":
            return Cost().plus(self._turn(one), self._unknown if one.trips is None else one.trips)
        if one.opcode == "call":
            return self._cost_of(one.called["to_apply"][0])
        if one.opcode == "conditional":
            branches = [self._cost_of(name) for names in one.called.values() for name in names]
            return max(branches, key=lambda cost: cost.launches, default=Cost())
        if one.opcode in _FREE:
            return Cost()
        moved = _size(one.shape)[1] + sum(_size(body[name].shape)[1] for name in one.operands if name in body)
        return Cost(1.0, moved, self._flops(one, body))

    def _flops(self, one: _Instruction, body: Mapping[str, _Instruction]) -> float:
        numbers = _size(one.shape)[0]
        if one.opcode == "fusion":
            inner = self._computations.get(one.called["calls"][0], {})
            return sum(self._flops(each, inner) for each in inner.values())
        if one.opcode == "dot":
            left = body[one.operands[0]].shape if one.operands and one.operands[0] in body else ""
            sizes = _dimensions(left)
            return 2.0 * numbers * math.prod(sizes[axis] for axis in one.contracted if axis < len(sizes))
        if one.opcode == "reduce":
            return float(sum(_size(body[name].shape)[0] for name in one.operands[:1] if name in body))
        return 0.0 if one.opcode in _FREE or one.opcode in _MOVES else float(numbers)


def _parse(text: str) -> tuple[dict[str, dict[str, _Instruction]], str]:
    """The instructions of every computation by name, and the name of the entry computation."""
    computations: dict[str, dict[str, _Instruction]] = {}
    entry, current = "", None
    for line in text.splitlines():
        if header := _HEADER.match(line):
            current = computations.setdefault(header[2], {})
            entry = header[2] if header[1] else entry
        elif current is not None and (found := _INSTRUCTION.match(line)):
            current[found[1]] = _read(found[2])
    return computations, entry


def _read(rest: str) -> _Instruction:
    """Reads what stands behind `name =`: type, opcode(operands), attributes."""
    shape, rest = _split_type(rest)
    opcode, _, rest = rest.partition("(")
    inside, attributes = _split_parenthesis(rest)
    called = {
        key: tuple(name.strip().lstrip("%") for name in names.strip("{}").split(","))
        for key, names in re.findall(
            r"(calls|to_apply|body|condition|branch_computations|true_computation|false_computation)="
            r"(\{[^}]*\}|%?[\w.\-]+)",
            attributes,
        )
    }
    trips = _TRIPS.search(attributes)
    contracted = re.search(r"lhs_contracting_dims=\{([\d,]*)\}", attributes)
    axes = tuple(int(axis) for axis in contracted[1].split(",") if axis) if contracted else ()
    operands = tuple(re.findall(r"%([\w.\-]+)", inside))
    return _Instruction(opcode.strip(), shape, operands, called, int(trips[1]) if trips else None, axes)


def _split_type(rest: str) -> tuple[str, str]:
    """Splits a type, which may be a tuple, from the rest of a line."""
    if rest.startswith("("):
        inside, after = _split_parenthesis(rest[1:])
        return inside, after.lstrip()
    shape, _, after = rest.partition(" ")
    return shape, after


def _split_parenthesis(text: str) -> tuple[str, str]:
    """Splits text behind an opening parenthesis at the closing one."""
    depth = 1
    for index, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return text[:index], text[index + 1 :]
    return text, ""


def _dimensions(shape: str) -> list[int]:
    found = _ARRAY.search(shape)
    return [int(size) for size in found[2].split(",") if size] if found else []


def _size(shape: str) -> tuple[int, int]:
    """Numbers and bytes of a type, summed over the parts of a tuple."""
    numbers = total = 0
    for kind, sizes in _ARRAY.findall(shape):
        count = math.prod(int(size) for size in sizes.split(",") if size)
        numbers += count
        total += count * (_BYTES[kind] if kind in _BYTES else int(kind[1:]) // 8)
    return numbers, total
