"""Measures this machine and writes one file that a user can send: `gems bench --json FILE`."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from gems_jax.cli.parsing import UsageError, check_minima, parse
from gems_jax.runner.errors import report_write_errors


@dataclasses.dataclass(frozen=True)
class BenchArguments:
    """Measure starts, compilation and the phases of an iteration of GEMS, and write the figures with the machine."""

    games: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[GAME ...]")] = ()
    """Games to measure (`gems games` lists them; with --json by default kuhn_poker)."""
    preset: str = ""
    """Named settings, as in gems train (default: replay, tuned or auto, the first that the game has)."""
    repeats: int = 5
    """Measurements per phase; the phases alternate."""
    starts: bool = True
    """Measure two starts of gems train as well, the first with an empty cache."""
    json: Path | None = None
    """File to write (default: none; the figures are printed)."""


def main(argv: Sequence[str]) -> int:
    """Runs `gems bench` and returns its exit code."""
    arguments = parse(BenchArguments, argv, prog="gems bench")
    check_minima(arguments, repeats=1)
    names = arguments.games or (("kuhn_poker",) if arguments.json is not None else ())
    if not names:
        raise UsageError("nothing to do: name games, or a file to write by --json")
    from gems_jax.accelerator.cache import enable_compilation_cache
    from gems_jax.cli.commands.plan import prepare_game
    from gems_jax.profiling.bench_report import measure_game, measure_starts
    from gems_jax.runner.machine import describe_circumstances

    chosen = {name: prepare_game(name, arguments.preset) for name in names}
    enable_compilation_cache()
    found: dict[str, Any] = {"command": " ".join(["gems", "bench", *argv]), "machine": describe_circumstances()}
    found["games"] = {}
    for name, (game, config, preset) in chosen.items():
        print(f"{game.name}, {preset or 'default'} settings: compiling, then measuring", flush=True)
        own: dict[str, Any] = {"preset": preset, **measure_game(game, config, arguments.repeats)}
        if arguments.starts:
            own["starts"] = measure_starts(name, arguments.preset)
        found["games"][name] = own
        _print(own)
    if arguments.json is not None:
        with report_write_errors(arguments.json):
            arguments.json.parent.mkdir(parents=True, exist_ok=True)
            arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(f"written: {arguments.json}", file=sys.stdout)
    return 0


def _print(own: dict[str, Any]) -> None:
    """Prints medians of a game's figures."""
    import numpy as np

    print(f"  compiling the phases and the iteration: {own['compiling']:.1f} s")
    print(f"  an iteration: {1e3 * np.median(own['iteration']):.2f} ms")
    for name, phase in own["phases"].items():
        print(f"    {name}: {1e3 * np.median(phase['seconds']):.2f} ms, {phase['env_steps']} environment steps")
    for which, start in own.get("starts", {}).items():
        waits = ", ".join(f"{what} {seconds:.1f} s" for what, seconds in start["waits"].items())
        print(f"  {which} start of gems train: ready after {start['ready']:.1f} s ({waits})")
