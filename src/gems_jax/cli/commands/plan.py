"""Proposes settings that fit the time: `gems plan GAME --minutes M`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from gems_jax.cli.parsing import UsageError, check_minima, parse

if TYPE_CHECKING:
    from gems_jax.config import GemsConfig
    from gems_jax.profiling.planner import Rates


@dataclasses.dataclass(frozen=True)
class Plan:
    """Measure GEMS on a game for a few seconds, and propose episodes, candidates and steps that fit the time."""

    game: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="GAME")]
    """Game to solve (`gems games` lists them); your own is package.module:MyGame."""
    minutes: float = 20.0
    """Minutes that the run may take, excluding compilation."""
    preset: str = ""
    """Named settings to start from, as in gems train (default: the first of replay, joint, tuned and auto that the game
    has)."""
    iterations: int = 0
    """Iterations of the run (0: those of the preset)."""
    seeds: int = 1
    """Seeds of the run; the estimate runs them one after another."""
    measure: float = 10.0
    """Seconds to measure for, excluding compilation."""
    game_option: tuple[str, ...] = ()
    """Options of the game as name=value, separated by spaces."""


def main(argv: Sequence[str]) -> int:
    """Runs `gems plan` and returns its exit code."""
    arguments = parse(Plan, argv, prog="gems plan")
    for name in ("minutes", "measure", "seeds"):
        if not getattr(arguments, name) > 0:
            raise UsageError(f"--{name} must be positive, got {getattr(arguments, name)}")
    check_minima(arguments, iterations=0)
    from gems_jax.accelerator.cache import enable_compilation_cache
    from gems_jax.profiling.planner import fit_to_seconds, measure_rates

    game, config, preset = prepare_game(arguments.game, arguments.preset, arguments.game_option)
    config = config.replace(iterations=arguments.iterations or config.iterations)
    enable_compilation_cache()
    print(
        f"{game.name}, {preset or 'default'} settings: compiling, then measuring for {arguments.measure:g} s",
        flush=True,
    )
    rates = measure_rates(game, config, arguments.measure)
    allowed = 60.0 * arguments.minutes / config.iterations / arguments.seeds
    planned = fit_to_seconds(rates, config, allowed)
    _print_table(arguments, rates, config, planned, allowed)
    print(_command(arguments, preset, config, planned))
    return 0


def prepare_game(name: str, preset: str, options: Sequence[str] = ()) -> tuple[Any, GemsConfig, str]:
    """Makes a game whose phases can be measured.

    Args:
      name: name of the game.
      preset: name of the settings; "" for those that `gems train` chooses.
      options: options of the game as name=value.

    Returns:
      The game, the settings of GEMS, and the name of their preset.

    Raises:
      UsageError: if there is no such game or preset, or the game runs in Python.
    """
    from gems_jax.cli.commands.train import make_named_game
    from gems_jax.host.stages import on_host
    from gems_jax.runner.rebuild import starting_settings

    game = make_named_game(name, options)
    if on_host(game):
        raise UsageError(f"{game.name} runs in Python, where phases cannot be measured: time `gems train` instead")
    try:
        config, chosen = starting_settings("gems", name, game, preset)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return game, config, chosen


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
        print(f"the smallest sizes take longer than {arguments.minutes:g} minutes: plan fewer --iterations")


def _command(arguments: Plan, preset: str, config: GemsConfig, planned: GemsConfig) -> str:
    """Formats the command that trains with the planned settings."""
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
