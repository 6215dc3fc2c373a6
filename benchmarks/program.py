"""Size of the program of an iteration, by game and phase, and a roofline estimate for machines that are not at hand.

    python -m benchmarks.program [--games kuhn_poker connect_four ...] [--preset paper] [--no-phases] [--no-compile]

Of the whole step: StableHLO operations, and CPU seconds to trace, lower and compile it. Of each phase: operations,
launches, bytes and floating-point operations of the program that XLA optimizes for this machine's back end, with loops
as often as they run (`benchmarks/hlo.py`), and the seconds of an A100 and of a TPU v5e by `ROOFLINES`. These seconds
are estimates: nothing was run there, and back ends differ in what they fuse.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import jax

from benchmarks.hlo import Cost, Program, count_stablehlo
from benchmarks.predictions import ROOFLINES, roofline
from benchmarks.timing import HISTORY, Figure, record
from gems_jax import gems_step, init_gems, make_game, preset
from gems_jax.accelerator.compile import compiler_options, program
from gems_jax.accelerator.prng import fused_key
from gems_jax.config import GemsConfig
from gems_jax.profiling.phase_times import phase_programs
from gems_jax.types import Game

GAMES = ("kuhn_poker", "leduc_holdem", "connect_four", "go_9x9", "chess", "simple_tag", "hanabi")
# The phases are compiled for their text alone: LLVM may be quick, HLO is optimized as usual.
_QUICK: dict[str, Any] = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def step_figures(game: Game, config: GemsConfig, compiling: bool) -> list[Figure]:
    """Measures the whole step: operations, and CPU seconds of each part of its compilation."""
    key = jax.random.key(0)
    state = jax.eval_shape(lambda k: init_gems(k, game, config), key)
    begin = time.process_time()
    traced = program(lambda state, key: gems_step(state, fused_key(key), game, config)).trace(state, key)
    traced_at = time.process_time()
    lowered = traced.lower()
    lowered_at = time.process_time()
    figures = [
        Figure("step: operations", count_stablehlo(lowered.as_text()), ""),
        Figure("step: tracing", traced_at - begin, "CPU s"),
        Figure("step: lowering", lowered_at - traced_at, "CPU s"),
    ]
    if compiling:
        begin = time.process_time()
        lowered.compile()
        figures.append(Figure("step: compiling", time.process_time() - begin, "CPU s"))
    return figures


def phase_figures(game: Game, config: GemsConfig) -> list[Figure]:
    """Counts the compiled program of each phase; loops until a game ends count `max_steps` turns."""
    key = jax.eval_shape(fused_key, jax.random.key(0))
    state = jax.eval_shape(lambda k: init_gems(k, game, config), jax.random.key(0))
    before: Any = None
    figures = []
    for name, phase in phase_programs(game, config).items():
        lowered = jax.jit(phase).lower(state, key, before)
        text = lowered.compile(compiler_options=compiler_options() | _QUICK).as_text()
        compiled = Program(text, game.max_steps)
        figures += _figures(name, count_stablehlo(lowered.as_text()), compiled)
        before = jax.eval_shape(phase, state, key, before)
    return figures


def _figures(phase: str, operations: int, compiled: Program) -> list[Figure]:
    cost, loops = compiled.cost(), compiled.loops()
    turns = [loop.trips for loop in loops if loop.trips is not None]
    return [
        Figure(f"{phase}: operations", operations, ""),
        Figure(f"{phase}: loops", len(loops), ""),
        Figure(f"{phase}: turns of the longest loop", max(turns, default=0), ""),
        Figure(f"{phase}: launches", cost.launches, ""),
        Figure(f"{phase}: bytes", cost.bytes, "B"),
        Figure(f"{phase}: floating-point operations", cost.flops, ""),
        Figure(f"{phase}: intensity", _intensity(cost), "per B"),
        *(Figure(f"{phase}: estimate, {machine.name}", 1e3 * roofline(cost, machine), "ms") for machine in ROOFLINES),
    ]


def _intensity(cost: Cost) -> float:
    return cost.flops / max(cost.bytes, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", nargs="+", default=list(GAMES))
    parser.add_argument("--preset", default="paper")
    parser.add_argument("--no-phases", action="store_true", help="the whole step alone")
    parser.add_argument("--no-compile", action="store_true", help="trace and lower the step, do not compile it")
    arguments = parser.parse_args()
    for name in arguments.games:
        game, config = make_game(name), preset(name, arguments.preset)
        record(f"program, {name}", step_figures(game, config, not arguments.no_compile), HISTORY)
        if not arguments.no_phases:
            record(f"program phases, {name}", phase_figures(game, config), HISTORY)


if __name__ == "__main__":
    main()
