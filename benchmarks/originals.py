"""Short trainings of board and particle experiments on our games and on the originals of pgx and JaxMARL.

    python -m benchmarks.originals train [--only connect4 spread tag go chess] [--sides ours original]
    python -m benchmarks.originals pace [--only ...]       (seconds of an iteration; on an idle machine)
    python -m benchmarks.originals write

`train` runs GEMS and random play of an experiment (`experiments.run --game NAME`) with equal settings, iterations and
seeds on both implementations, so that environment steps are equal up to the length of games. Finished runs are kept in
runs/originals and not repeated. `pace` runs the first iterations of each again for their seconds. `write` stores all of
it in docs/originals.json and writes the tables of docs/originals.md from that file.
"""

from __future__ import annotations

import argparse
import csv
import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.tables import number, table

ROOT = Path(__file__).resolve().parents[1]
RUNS = ROOT / "runs" / "originals"
STORE = ROOT / "docs" / "originals.json"
PAGE = ROOT / "docs" / "originals.md"
SIDES = ("ours", "original")
PACED = 4  # iterations of `pace`; the first and the last, which measure play, do not count


class Pair(NamedTuple):
    """An experiment, the original of its game, and the size of a short training."""

    original: str
    iterations: int
    seeds: tuple[int, ...]
    columns: tuple[str, ...]  # results to publish


PAIRS = {
    "connect4": Pair("pgx:connect_four", 20, (0, 1, 2), ("win_random", "win_tactician")),
    "go": Pair("pgx:go_9x9", 6, (0, 1, 2), ("win_random",)),
    "chess": Pair("pgx:chess", 2, (0,), ("score_random",)),
    "spread": Pair("jaxmarl:MPE_simple_spread_v3", 8, (0, 1, 2), ("return_team",)),
    "tag": Pair("jaxmarl:MPE_simple_tag_v3", 8, (0, 1, 2), ("pursuers_vs_random", "random_vs_evader")),
}


def command_of(name: str, side: str, iterations: int, arms: Sequence[str] = ("gems", "random")) -> list[str]:
    """Returns the arguments of `python -m experiments.run` for one side of a pair."""
    pair = PAIRS[name]
    game = ["--game", pair.original] if side == "original" else []
    seeds = ["--seeds", *map(str, pair.seeds)]
    return [name, *game, "--iterations", str(iterations), *seeds, "--arms", *arms]


def run_experiment(name: str, side: str, iterations: int, folder: Path, arms: Sequence[str]) -> None:
    """Runs one side of a pair in its own process, or resumes it. Raises RuntimeError if it does not finish."""
    if (folder / "summary.json").exists():
        return
    words = ["-m", "experiments.run", *command_of(name, side, iterations, arms), "--run-dir", str(folder)]
    done = subprocess.run([sys.executable, *words], cwd=ROOT)  # a check of the full size may fail: the code is not used
    if not (folder / "summary.json").exists():
        raise RuntimeError(f"{name}, {side}: exit code {done.returncode}, {folder} is not finished")


def read_cells(path: Path, column: str) -> list[float]:
    """Reads the measured values of a column of metrics.csv."""
    with path.open() as file:
        return [float(row[column]) for row in csv.DictReader(file) if row.get(column)]


def last_values(folder: Path, arm: str, column: str) -> list[float]:
    """Returns the last measured value of a column in every seed of an arm, in the order of the seeds."""
    files = sorted((folder / arm).glob("**/metrics.csv"))
    found = [read_cells(path, column) for path in files]
    return [values[-1] for values in found if values]


def gather_side(name: str, side: str) -> dict[str, Any] | None:
    """Collects what one side of a pair reached and what it cost; None if it has not run."""
    folder = RUNS / f"{name}-{side}"
    if not (folder / "summary.json").exists():
        return None
    summary = json.loads((folder / "summary.json").read_text())
    kept = ("command", "commit", "dirty", "finished", "processor", "cpus", "python")
    return {
        **{field: summary[field] for field in kept},
        "jax": summary["versions"]["jax"],
        "game": summary["game"],
        "results": {
            column: {arm: last_values(folder, arm, column) for arm in ("gems", "random")}
            for column in PAIRS[name].columns
        },
        "env_steps": last_values(folder, "gems", "total_env_steps"),
        "pace": pace_of(RUNS / f"{name}-{side}-pace"),
    }


def pace_of(folder: Path) -> dict[str, Any] | None:
    """Computes environment steps per second of training from the seconds between the first and the last iteration."""
    if not (folder / "summary.json").exists():
        return None
    files = sorted((folder / "gems").glob("**/metrics.csv"))
    seconds = read_cells(files[0], "seconds")  # of all seeds, cumulative
    steps = [read_cells(path, "total_env_steps") for path in files]
    between = [
        sum(each[i + 1] - each[i] for each in steps) / (seconds[i + 1] - seconds[i]) for i in range(len(seconds) - 2)
    ]
    summary = json.loads((folder / "summary.json").read_text())
    return {"steps_per_second": between, "commit": summary["commit"], "finished": summary["finished"]}


def gather() -> dict[str, Any]:
    """Merges what is found in runs/originals into the stored record; a pair needs both sides."""
    record = json.loads(STORE.read_text()) if STORE.exists() else {"pairs": {}}
    for name, pair in PAIRS.items():
        entry = record["pairs"].setdefault(name, {})
        for side in SIDES:
            found = gather_side(name, side)
            if found is not None:
                entry[side] = {**found, "pace": found["pace"] or entry.get(side, {}).get("pace")}
                entry |= {"original_game": pair.original, "iterations": pair.iterations, "seeds": list(pair.seeds)}
    return {"pairs": {name: record["pairs"][name] for name in PAIRS if set(SIDES) <= set(record["pairs"][name])}}


def describe(values: Sequence[float]) -> str:
    """Formats the mean of some seeds with all of them; one seed is itself."""
    if not values:
        return ""
    each = ", ".join(number(value) for value in values)
    return number(values[0]) if len(values) == 1 else f"{number(statistics.fmean(values))} ({each})"


def rows_of(name: str, entry: Mapping[str, Any]) -> Iterator[list[str]]:
    """Yields the rows of a pair: one for each published column."""
    sides = [entry.get(side) or {} for side in SIDES]
    for column in PAIRS[name].columns:
        cells = [
            describe(side.get("results", {}).get(column, {}).get(arm, [])[: None if arm == "gems" else 1])
            for arm in ("gems", "random")
            for side in sides
        ]
        steps = [number(statistics.fmean(side["env_steps"])) if side else "" for side in sides]
        yield [f"`{entry['original_game']}`", f"`{column}`", str(len(entry["seeds"])), *steps, *cells]


def results_table(record: Mapping[str, Any]) -> str:
    """Formats what short trainings reached on both implementations."""
    missing = [f"`{pair.original}`" for name, pair in PAIRS.items() if name not in record["pairs"]]
    note = f"\n\nNot trained yet: {', '.join(missing)}." if missing else ""
    head = ["original", "column", "seeds", "steps a seed, ours", "steps, original", "GEMS, ours", "GEMS, original"]
    rows = [row for name, entry in record["pairs"].items() for row in rows_of(name, entry)]
    return table([*head, "random, ours", "random, original"], rows, 2) + note


def pace_table(record: Mapping[str, Any]) -> str:
    """Formats the steps per second of training on both implementations."""
    if not any(entry[side].get("pace") for entry in record["pairs"].values() for side in SIDES):
        return "Not measured yet: `python -m benchmarks.originals pace` on an idle machine, then `write`."
    rows = []
    for entry in record["pairs"].values():
        paces = [((entry.get(side) or {}).get("pace") or {}).get("steps_per_second") for side in SIDES]
        if all(paces):
            middle = [statistics.median(each) for each in paces]
            cells = [f"{number(mid)} ({', '.join(map(number, each))})" for mid, each in zip(middle, paces, strict=True)]
            rows.append([f"`{entry['original_game']}`", *cells, number(middle[0] / middle[1])])
    return table(["original", "ours, steps/s", "original, steps/s", "ours / original"], rows)


def sources(record: Mapping[str, Any]) -> str:
    """Lists commands, commits and the machine of every side."""
    lines = []
    for name, entry in record["pairs"].items():
        for which in SIDES:
            side, command = entry[which], f"python -m benchmarks.originals train --only {name} --sides {which}"
            dirty = "+" * bool(side["dirty"])
            lines.append(
                f"- `{command}`: commit {side['commit'][:10]}{dirty}, {side['finished'][:10]}, "
                f"{side['processor']}, {side['cpus']} CPUs, Python {side['python']}, jax {side['jax']}"
            )
    return "\n".join(lines)


BLOCKS = {"results": results_table, "pace": pace_table, "sources": sources}


def render(text: str, record: Mapping[str, Any]) -> str:
    """Replaces the generated blocks of the page."""
    for name, block in BLOCKS.items():
        begin, end = f"<!-- originals: {name} -->\n", "<!-- /originals -->"
        before, _, rest = text.partition(begin)
        text = f"{before}{begin}{block(record)}\n{end}{rest.partition(end)[2]}"
    return text


def write() -> None:
    """Writes docs/originals.json and the generated blocks of docs/originals.md."""
    record = gather()
    STORE.write_text(json.dumps(record, indent=1) + "\n")
    PAGE.write_text(render(PAGE.read_text(), record))


def main() -> int:
    """Runs one of the three commands."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["train", "pace", "write"])
    parser.add_argument("--only", nargs="+", default=list(PAIRS), choices=list(PAIRS))
    parser.add_argument("--sides", nargs="+", default=list(SIDES), choices=SIDES)
    arguments = parser.parse_args()
    for name in arguments.only if arguments.what != "write" else ():
        for side in arguments.sides:
            if arguments.what == "train":
                run_experiment(name, side, PAIRS[name].iterations, RUNS / f"{name}-{side}", ("gems", "random"))
            else:
                folder = RUNS / f"{name}-{side}-pace"
                shutil.rmtree(folder, ignore_errors=True)  # measured anew
                run_experiment(name, side, PACED, folder, ("gems",))
    if arguments.what == "write":
        write()
    return 0


if __name__ == "__main__":
    sys.exit(main())
