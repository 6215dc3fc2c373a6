"""The figures of documents as Markdown, from stored entries alone: one function for each block."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gems_jax.profiling.phase_times import PHASES

Entry = Mapping[str, Any]  # {"benchmark", "command", "commit", "date", "machine", "figures": [...]}
Entries = Mapping[str, Entry]  # by benchmark
Row = Mapping[str, Any]  # one figure: name, value, unit, low, high, repeats, equal


def number(value: float) -> str:
    """Three significant digits, thousands separated, no exponent for what a reader would write out."""
    if value != 0 and not 1e-4 <= abs(value) < 1e7:
        return f"{value:.2e}"
    digits = f"{value:.3g}"
    if "e" in digits or abs(value) >= 1000:
        return f"{value:,.0f}"
    return digits


def amount(row: Row | None, unit: bool = True) -> str:
    """A figure with its interval: `4.16 ms [4.12, 5.89]`; nothing where there is none."""
    if row is None:
        return ""
    within = "" if row.get("low") is None else f" [{number(row['low'])}, {number(row['high'])}]"
    named = f" {row['unit']}" if unit and row["unit"] and row["unit"] != "times" else ""
    return f"{number(row['value'])}{named}{within}"


def by_name(entry: Entry) -> dict[str, Row]:
    return {row["name"]: row for row in entry["figures"]}


def table(head: Sequence[str], rows: Sequence[Sequence[str]], numbers_from: int = 1) -> str:
    """A Markdown table; columns from `numbers_from` on are aligned to the right."""
    rule = ["---" if column < numbers_from else "---:" for column in range(len(head))]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *rows])


INTERVALS = ". Medians with 95 % bootstrap intervals."


def source(*found: Entry) -> str:
    """Where figures come from: command, commit, day, machine."""
    lines = []
    for entry in found:
        machine = entry.get("machine") or {}
        parts = [f"`{entry['command']}`" if "command" in entry else entry["benchmark"], f"commit {entry['commit']}"]
        parts.append(entry["date"][:10])
        if machine:
            parts.append(f"{machine['cpus']} CPUs ({machine['processor']}), jax {machine['jax']}")
        beside = "; **provisional**, other work on the machine" if entry.get("provisional") else ""
        lines.append(f"{', '.join(parts)}{beside}")
    return "; ".join(dict.fromkeys(lines)) + INTERVALS


def not_stored(module: str) -> str:
    return f"No figures are stored yet: `python -m benchmarks.{module}`, then `python -m benchmarks.publish`."


def openspiel(stored: Entries) -> str:
    """Each ratio with both times and what was made equal."""
    found = [stored[name] for name in ("openspiel, leduc", "openspiel, kuhn") if name in stored]
    if not found:
        return not_stored("openspiel")
    rows = []
    for entry in found:
        figures = by_name(entry)
        for name, row in figures.items():
            label, _, pair = name.rpartition(": ")
            if not row.get("equal") or not pair.endswith("/ ours"):
                continue
            other = pair.removesuffix(" / ours")
            times = [amount(figures.get(f"{label}: {side}")) for side in ("ours", other)]
            rows.append([label, *times, f"**{amount(row)}**", str(row["repeats"]), row["equal"]])
    head = ["", "ours", "OpenSpiel", "OpenSpiel / ours", "repeats", "what is equal"]
    return f"{table(head, rows)}\n\n{source(*found)}"


def growth_over_iterations(stored: Entries) -> str:
    if "growth over iterations" not in stored:
        return not_stored("growth")
    entry = stored["growth over iterations"]
    figures = by_name(entry)
    marks = [found[1] for name in figures if (found := re.fullmatch(r"iteration (\d+): a step", name))]
    rows = [
        [
            mark,
            amount(figures[f"iteration {mark}: a step"], unit=False),
            amount(figures[f"iteration {mark}: live on the device"], unit=False),
            amount(figures[f"iteration {mark}: resident"], unit=False),
        ]
        for mark in marks
    ]
    last = next(row for name, row in figures.items() if name.startswith("a step at iteration"))
    text = f"{last['name'][0].upper()}{last['name'][1:]}: {amount(last)}."
    head = ["iteration", "a step, ms", "live on the device, kB", "resident, MB"]
    return f"{table(head, rows, 0)}\n\n{text} {source(entry)}"


def growth_with_anchors(stored: Entries) -> str:
    if "growth with anchors" not in stored:
        return not_stored("growth")
    entry = stored["growth with anchors"]
    figures = by_name(entry)
    sizes = [found[1] for name in figures if (found := re.fullmatch(r"(\d+) policies: psro / gems", name))]
    columns = {
        "GEMS, ms": "an iteration of gems",
        "PSRO, ms": "an iteration of psro",
        "of which meta-solver, ms": "psro's meta-solver",
        "its steps": "steps of the meta-solver",
        "PSRO / GEMS": "psro / gems",
        "PSRO without its meta-solver / GEMS": "psro without its meta-solver / gems",
        "state of GEMS, kB": "state of gems",
        "state of PSRO, kB": "state of psro",
    }
    rows = [
        [size, *(amount(figures.get(f"{size} policies: {name}"), unit=False) for name in columns.values())]
        for size in sizes
    ]
    powers = [
        f"{number(row['value'])} ({name.split(',')[1].split(':')[0].strip()})"
        for name, row in figures.items()
        if name.endswith("time grows as their power")
    ]
    text = f"Time of GEMS grows as a power of the number of anchors: {', '.join(powers)}."
    return f"{table(['policies', *columns], rows, 0)}\n\n{text} {source(entry)}"


def fractions(stored: Entries) -> str:
    found = [entry for name, entry in stored.items() if name.startswith("fractions, ")]
    if not found:
        return not_stored("fractions")
    rows = []
    for entry in found:
        game, figures = entry["benchmark"].removeprefix("fractions, "), by_name(entry)
        whole = next(name for name in figures if "the step (to reach" in name)
        label = whole.split(", ")[1]
        parts = [
            next((row for name, row in figures.items() if name == f"{game}: fraction, {label}, {phase}"), None)
            for phase in PHASES
        ]
        strict = figures.get(f"{game}: fraction, ours, the step")
        goal = whole.rpartition("to reach: ")[2].rstrip(")")
        rows.append([game, goal, *(amount(row) for row in (figures[whole], *parts, strict))])
    head = ["game", "to reach", "the step", *PHASES, "against our own bare play"]
    return f"{table(head, rows)}\n\n{source(*found)}"


def originals(stored: Entries) -> str:
    """Ours beside the environments of pgx and JaxMARL: speed of random play, and what it earns."""
    found = [entry for name, entry in stored.items() if name.startswith("worlds, ")]
    if not found:
        return not_stored("worlds")
    rows = []
    for entry in found:
        game, figures = entry["benchmark"].removeprefix("worlds, "), by_name(entry)
        parts = ("the original", "ours", "ours, share of the original")
        played = (f"random {what}, {side}" for what in ("return", "length") for side in parts[:2])
        rows.append([game, *(amount(figures.get(f"{game}: {part}")) for part in (*parts, *played))])
    head = ["game", "original", "ours", "ours / original", "return, original", "return, ours", "length, original"]
    return f"{table([*head, 'length, ours'], rows)}\n\n{source(*found)}"


def mpe(stored: Entries) -> str:
    return _all_figures(stored, "mpe budget, ", "mpe_budget")


def startup(stored: Entries) -> str:
    names = {name: entry for name, entry in stored.items() if name == "import" or name.startswith("startup, ")}
    return _all_figures(names, "", "startup")


def second_start(stored: Entries) -> str:
    return _all_figures(stored, "second start, ", "second_start")


def seeds(stored: Entries) -> str:
    return _all_figures(stored, "seeds", "seeds")


def reuse(stored: Entries) -> str:
    return _all_figures(stored, "reuse", "reuse")


def _all_figures(stored: Entries, prefix: str, module: str) -> str:
    """Every figure of the benchmarks whose names begin with `prefix`, a row each."""
    found = [entry for name, entry in stored.items() if name.startswith(prefix)]
    if not found:
        return not_stored(module)
    rows = []
    for entry in found:
        for row in entry["figures"]:
            times = " times" if row["unit"] == "times" else ""
            rows.append([row["name"], amount(row) + times, str(row.get("repeats") or "")])
    return f"{table(['', 'measured', 'repeats'], rows)}\n\n{source(*found)}"


def ratios(stored: Entries) -> str:
    """Lists the ratios at the top of docs/speed.md, one per line, with what was held equal."""
    found = [stored[name] for name in ("openspiel, leduc", "openspiel, kuhn", "growth with anchors") if name in stored]
    if not found:
        return not_stored("openspiel")
    lines = []
    for entry in found:
        rows = [row for row in entry["figures"] if row.get("equal") and not row["name"].endswith("per iteration")]
        if entry["benchmark"] == "growth with anchors":  # the largest populations alone
            largest = max(int(row["name"].split()[0]) for row in rows)
            rows = [row for row in rows if row["name"].startswith(f"{largest} ")]
        lines += [f"- {row['name']}: **{amount(row)}** (equal: {row['equal']})" for row in rows]
    commits = ", ".join(sorted({entry["commit"] for entry in found}))
    end = "; provisional, other work on the machine" if any(entry.get("provisional") for entry in found) else ""
    return "\n".join([*lines, "", f"Ratios of medians [95 % interval], commit {commits}{end}."])


_SIZES = ("operations", "tracing", "lowering", "compiling")


def program_size(stored: Entries) -> str:
    """Lists operations and CPU seconds of the step's compilation, a row for each game."""
    found = {name: entry for name, entry in stored.items() if name.startswith("program, ")}
    if not found:
        return not_stored("program")
    rows = []
    for name, entry in found.items():
        figures = by_name(entry)
        cells = [amount(figures.get(f"step: {what}"), unit=False) for what in _SIZES]
        rows.append([name.removeprefix("program, "), *cells])
    head = ["game", "StableHLO operations", *(f"{what}, CPU s" for what in _SIZES[1:])]
    return f"{table(head, rows)}\n\n{source(*found.values()).removesuffix(INTERVALS)}."


def program_compared(stored: Entries) -> str:
    """Lists the program and its compilation of this commit and of the one before, a row for each game."""
    found = {name: entry for name, entry in stored.items() if name.startswith("program compared, ")}
    if not found:
        return not_stored("program_compare")
    rows = []
    for name, entry in found.items():
        figures = by_name(entry)

        def pair(what: str, figures: Mapping[str, Row] = figures) -> str:
            sides = [figures.get(f"{which}: {what}") for which in ("the commit before", "this commit")]
            return " → ".join(number(row["value"]) for row in sides if row is not None)

        parts = [f"{part}{end}" for part in ("tracing", "lowering", "compiling", "all") for end in (", CPU", "")]
        rows.append([name.removeprefix("program compared, "), *map(pair, ("operations", *parts, "step"))])
    heads = [f"{part}, {unit}" for part in ("tracing", "lowering", "compiling", "all") for unit in ("CPU s", "s")]
    head = ["game", "StableHLO operations", *heads, "a step, ms"]
    return f"{table(head, rows)}\n\n{source(*found.values()).removesuffix(INTERVALS)}. Medians of the repeats."


def program_on_devices(stored: Entries) -> str:
    return _all_figures(stored, "program on devices", "program_devices")


def rooflines(stored: Entries) -> str:
    """Lists what each phase launches, moves and computes, and the estimated milliseconds of two accelerators."""
    found = {name: entry for name, entry in stored.items() if name.startswith("program phases, ")}
    if not found:
        return not_stored("program")
    rows = []
    for name, entry in found.items():
        figures = by_name(entry)
        for phase in PHASES:
            of_phase = {key.removeprefix(f"{phase}: "): row for key, row in figures.items() if key.startswith(phase)}
            counts = [amount(of_phase.get(what), unit=False) for what in ("launches", "bytes")]
            counts += [amount(of_phase.get(what), unit=False) for what in ("floating-point operations", "intensity")]
            estimates = [amount(row, unit=False) for key, row in of_phase.items() if key.startswith("estimate")]
            rows.append([name.removeprefix("program phases, "), phase, *counts, *estimates])
    head = ["game", "phase", "launches", "bytes", "operations", "per byte", "A100, ms (estimate)", "v5e, ms (estimate)"]
    return f"{table(head, rows, 2)}\n\n{source(*found.values()).removesuffix(INTERVALS)}."


BLOCKS: dict[str, Callable[[Entries], str]] = {
    "ratios": ratios,
    "openspiel": openspiel,
    "growth-over-iterations": growth_over_iterations,
    "growth-with-anchors": growth_with_anchors,
    "fractions": fractions,
    "mpe": mpe,
    "originals": originals,
    "startup": startup,
    "second-start": second_start,
    "seeds": seeds,
    "reuse": reuse,
    "program-size": program_size,
    "program-compared": program_compared,
    "program-on-devices": program_on_devices,
    "rooflines": rooflines,
}
