"""Runs cells, shows what is left, writes the page, tunes a baseline (`run`, `plan`, `write`, `tune`)."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.leaderboard.cells import GAMES, METHODS, RESULTS, list_cells
from experiments.leaderboard.page import write_page
from experiments.leaderboard.running import describe_plan, load_cells, run_cells
from experiments.leaderboard.tuning import tunable_methods, tune
from gems_jax.runner.errors import RunError


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        if arguments.command == "tune":
            for method in [arguments.method] if arguments.method else tunable_methods():
                budgets = (arguments.budget,) if arguments.budget else ()
                tune(arguments.game or "kuhn_poker", method, arguments.trials, arguments.root, budgets)
            return 0
        cells = list(list_cells(arguments.game, arguments.method, arguments.budget))
        if arguments.command == "plan":
            print("\n".join(describe_plan(cells, arguments.root)))
            return 0
        if arguments.command == "run":
            return run_cells(cells, arguments.root, arguments.max_minutes, num_seeds=arguments.seeds)
        for path in write_page(load_cells(cells, arguments.root), arguments.page):
            print(path)
        return 0
    except (ValueError, RunError) as error:
        print(f"leaderboard: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m experiments.leaderboard", description=__doc__)
    parser.add_argument("command", choices=("run", "plan", "write", "tune"))
    parser.add_argument("--game", default="", help=f"one game alone: {', '.join(GAMES)}")
    parser.add_argument("--method", default="", help=f"one method alone: {', '.join(METHODS)}")
    parser.add_argument("--budget", type=int, default=0, help="one total budget alone, in environment steps")
    parser.add_argument("--max-minutes", type=float, default=0.0, help="start no cell that is estimated to end later")
    parser.add_argument("--seeds", type=int, default=0, help="the first seeds of each game alone; the page states it")
    parser.add_argument("--trials", type=int, default=43, help="settings that `tune` tries per method")
    parser.add_argument("--root", type=Path, default=RESULTS, help="folder of the stored cells")
    parser.add_argument("--page", type=Path, default=Path("docs/leaderboard.md"), help="the page that `write` writes")
    return parser


if __name__ == "__main__":
    sys.exit(main())
