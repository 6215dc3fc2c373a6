"""`gems eval RUN`: how far from equilibrium, exactly; `--why`: what limits it."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import tyro

from gems_jax.run.commands.parsing import UsageError, parse


@dataclasses.dataclass(frozen=True)
class Evaluate:
    """Exact exploitability (NashConv / 2) of a trained mixture, or NashConv where there is no such thing."""

    run: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run directory (a seed's folder or a batch's), exported file, or the name of a shipped policy."""
    why: bool = False
    """Name the largest term of the error budget, and the flag that makes it smaller."""
    which: Literal["iterate", "average"] = "iterate"
    """The mixture of the last iteration, or the average over the run."""
    seed: int | None = None
    """One seed of a batch (default: all)."""
    at: str = "last"
    """Which checkpoint: last, best (of lowest exploitability), or an iteration that was kept."""


def main(argv: Sequence[str]) -> int:
    arguments = parse(Evaluate, argv, prog="gems eval")
    from gems_jax.evaluate.tabular import nash_conv
    from gems_jax.run.cache import enable_compilation_cache
    from gems_jax.run.console import format_mean
    from gems_jax.run.load import load
    from gems_jax.types import NotEnumerableError, num_players

    enable_compilation_cache()
    say = lambda text: print(text, file=sys.stderr)  # noqa: E731
    policies = [
        load(arguments.run, seed=seed, which=arguments.which, at=arguments.at, say=say)
        for seed in _seeds(arguments.run, arguments.seed)
    ]
    game = policies[0].game
    try:
        gaps = [float(nash_conv(game, policy.profile)) for policy in policies]
    except NotEnumerableError as error:
        raise UsageError(str(error)) from None
    zero_sum = num_players(game) == 2 and game.zero_sum
    mixture = "the mixture of iteration" if arguments.which == "iterate" else "the average mixture of iterations 1 to"
    print(f"{game.name}, {policies[0].method}: {mixture} {policies[0].iteration}, exact")
    for policy, gap in zip(policies, gaps, strict=True):
        print(f"seed {policy.seed}: {_words(gap, zero_sum)}")
    if len(gaps) > 1:
        import numpy as np

        values = np.asarray(gaps) / (2 if zero_sum else 1)
        print(f"mean: {'exploitability' if zero_sum else 'NashConv'} {format_mean(values)} (95 % interval)")
    if arguments.why:
        from gems_jax.run.why import explain, when

        rows = [_rows(policy) for policy in policies]
        print(f"why: {explain(rows)}")
        print(f"     ({when(rows)})")
    return 0


def _words(gap: float, zero_sum: bool) -> str:
    return f"exploitability {gap / 2:.6f} (NashConv {gap:.6f})" if zero_sum else f"NashConv {gap:.6f}"


def _seeds(run: str, seed: int | None) -> Sequence[int | None]:
    """All seeds of a batch's folder; the one of a seed's folder or of a file."""
    from gems_jax.run.directory import open_run, read_config
    from gems_jax.run.load import find, run_folder

    path = find(run)
    if seed is not None or path.suffix == ".safetensors":
        return (seed,)
    folder = run_folder(path)
    return (None,) if read_config(folder).get("seed") is not None else open_run(folder).seeds


def _rows(policy: Any) -> Mapping[str, Any]:
    from pathlib import Path

    from gems_jax.run.writers import read_metrics

    if not Path(policy.source).is_dir():
        return policy.last_row
    return {name: values[: policy.iteration] for name, values in read_metrics(policy.source).items()}
