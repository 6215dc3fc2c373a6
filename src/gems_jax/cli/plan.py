"""`gems plan GAME --minutes M`: settings that fit the time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from gems_jax.cli.parsing import UsageError, check_least, parse

if TYPE_CHECKING:
    from gems_jax.config import GemsConfig
    from gems_jax.profiling.planner import Rates


@dataclasses.dataclass(frozen=True)
class Plan:
    """Measure GEMS on a game for a few seconds, and propose episodes, a pool and steps that fit the time."""

    game: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="GAME")]
    """Game to solve: see `gems games`. Your own: package.module:MyGame."""
    minutes: float = 20.0
    """What the run may take, compiling apart."""
    preset: str = ""
    """Named settings to begin with (default: tuned, or paper where there is none)."""
    iterations: int = 0
    """Iterations of the run (0: the preset's)."""
    seeds: int = 1
    """Seeds of the run, one after another in the estimate."""
    measure: float = 10.0
    """Seconds to measure for, compiling apart."""
    game_option: tuple[str, ...] = ()
    """Options of the game as name=value, several apart by spaces."""


def main(argv: Sequence[str]) -> int:
    arguments = parse(Plan, argv, prog="gems plan")
    for name in ("minutes", "measure", "seeds"):
        if not getattr(arguments, name) > 0:
            raise UsageError(f"--{name} must be above 0: got {getattr(arguments, name)}")
    check_least(arguments, iterations=0)
    from gems_jax.accelerator.cache import enable_compilation_cache
    from gems_jax.profiling.planner import fit, measure_rates

    game, config, preset = _start(arguments)
    enable_compilation_cache()
    print(
        f"{game.name}, {preset or 'default'} settings: compiling, then measuring for {arguments.measure:g} s",
        flush=True,
    )
    rates = measure_rates(game, config, arguments.measure)
    allowed = 60.0 * arguments.minutes / config.iterations / arguments.seeds
    planned = fit(rates, config, allowed)
    _print_table(arguments, rates, config, planned, allowed)
    print(_command(arguments, preset, config, planned))
    return 0


def _start(arguments: Plan) -> tuple[Any, GemsConfig, str]:
    """The game, the settings to begin with, and their preset."""
    from gems_jax.cli.train import make_named_game
    from gems_jax.host.stages import on_host
    from gems_jax.runner.rebuild import starting_settings

    game = make_named_game(arguments.game, arguments.game_option)
    if on_host(game):
        raise UsageError(f"{game.name} is played in Python, by as many workers as there are: time a `gems train` of it")
    try:
        config, preset = starting_settings("gems", arguments.game, game, arguments.preset)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return game, config.replace(iterations=arguments.iterations or config.iterations), preset


def _print_table(arguments: Plan, rates: Rates, config: GemsConfig, planned: GemsConfig, allowed: float) -> None:
    from gems_jax.profiling.planner import SCALED, iteration_seconds

    before, after = (iteration_seconds(rates, config, settings) for settings in (config, planned))
    print(f"one meta-strategy update {rates.estimate:.4f} s, an oracle call {rates.oracle:.4f} s, "
          f"the trust region's states {rates.protect:.4f} s, an ABR step {rates.step:.4f} s")  # fmt: skip
    print(f"{'':<20}{'now':>10}{'planned':>10}")
    for name in SCALED:
        print(f"{name:<20}{getattr(config, name):>10}{getattr(planned, name):>10}")
    print(f"{'s per iteration':<20}{before:>10.3f}{after:>10.3f}")
    per_run = config.iterations * arguments.seeds / 60.0
    print(f"{'minutes':<20}{before * per_run:>10.1f}{after * per_run:>10.1f}   ({config.iterations} iterations)")
    if after > 1.05 * allowed:
        print(f"even the smallest sizes take longer than {arguments.minutes:g} minutes: plan fewer --iterations")


def _command(arguments: Plan, preset: str, config: GemsConfig, planned: GemsConfig) -> str:
    """The line that trains with the planned settings."""
    from gems_jax.profiling.planner import SCALED

    changed = [name for name in SCALED if getattr(planned, name) != getattr(config, name)]
    words = {
        "preset": preset,
        "iterations": config.iterations,
        "seeds": arguments.seeds if arguments.seeds > 1 else "",
        **{name: getattr(planned, name) for name in changed},
        "game_option": " ".join(arguments.game_option),
    }
    flags = [f"--{name.replace('_', '-')} {value}" for name, value in words.items() if value != ""]
    return " ".join(["gems train", arguments.game, *flags])
