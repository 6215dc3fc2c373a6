"""`gems plan GAME --minutes M`: settings that fit the time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated

import tyro

from gems_jax.cli.parsing import UsageError, parse


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
    if arguments.iterations < 0:
        raise UsageError(f"--iterations must be at least 0: got {arguments.iterations}")
    from gems_jax.accelerator.cache import enable_compilation_cache
    from gems_jax.cli.train import make_named_game
    from gems_jax.host.stages import on_host
    from gems_jax.profiling.planner import SCALED, fit, iteration_seconds, measure_rates
    from gems_jax.runner.rebuild import starting_settings

    game = make_named_game(arguments.game, arguments.game_option)
    if on_host(game):
        raise UsageError(f"{game.name} is played in Python, by as many workers as there are: time a `gems train` of it")
    try:
        config, preset = starting_settings("gems", arguments.game, game, arguments.preset)
    except ValueError as error:
        raise UsageError(str(error)) from None
    if arguments.iterations:
        config = config.replace(iterations=arguments.iterations)
    enable_compilation_cache()
    print(
        f"{game.name}, {preset or 'default'} settings: compiling, then measuring for {arguments.measure:g} s",
        flush=True,
    )
    rates = measure_rates(game, config, arguments.measure)
    before = iteration_seconds(rates, config, config)
    allowed = 60.0 * arguments.minutes / config.iterations / arguments.seeds
    planned = fit(rates, config, allowed)
    after = iteration_seconds(rates, config, planned)
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
    changed = [name for name in SCALED if getattr(planned, name) != getattr(config, name)]
    flags = [f"--{name.replace('_', '-')} {getattr(planned, name)}" for name in changed]
    start = ["gems train", arguments.game, *([f"--preset {preset}"] if preset else [])]
    options = [f"--game-option {' '.join(arguments.game_option)}"] if arguments.game_option else []
    rest = [f"--iterations {config.iterations}", *([f"--seeds {arguments.seeds}"] if arguments.seeds > 1 else [])]
    print(" ".join([*start, *rest, *flags, *options]))
    return 0
