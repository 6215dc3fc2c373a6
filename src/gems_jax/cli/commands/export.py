"""Writes the trained mixture as one file of float32 arrays: `gems export RUN`."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro

from gems_jax.cli.parsing import Trust, UsageError, parse

if TYPE_CHECKING:
    from gems_jax.evaluate.loaded_policy import LoadedPolicy

COSTS = ("iteration", "seconds", "total_episodes", "total_env_steps")


@dataclasses.dataclass(frozen=True)
class Export:
    """Write the policy of a run as a safetensors file, which `gems_jax.load` and every command accept."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """Run directory: the folder of a seed or of a batch."""
    output: Path | None = None
    """File to write (default: policy-sSEED.safetensors in the run's folder)."""
    which: Literal["iterate", "average"] = "iterate"
    """Export the mixture of the last iteration, or the average over the run."""
    seed: int | None = None
    """Seed of a batch (default: the first)."""
    at: str = "last"
    """Checkpoint to use: last, best (lowest exploitability or highest score), or a saved iteration."""
    temperature: float = 1.0
    """Divide all logits once more, as `play_temperature` does (GEMS only). The exported policy is measured anew."""
    trust: Trust = False


def training_command(record: Mapping[str, Any], seed: int) -> str:
    """Writes the command that trains a run again, without changes to single settings, which the file stores.

    Args:
      record: config.json of the run.
      seed: seed of the policy.

    Returns:
      The words of `gems train`.
    """
    options = record["options"]
    words = ["gems", "train", record["game"], "--method", record["method"]]
    if options.get("preset"):
        words += ["--preset", options["preset"]]
    if options.get("game"):
        words += ["--game-option", *(f"{name}={value!r}" for name, value in options["game"].items())]
    return shlex.join([*words, "--iterations", str(record["iterations"]), "--seed", str(seed)])


def sharpen(policy: LoadedPolicy, temperature: float, episodes: int = 4000) -> LoadedPolicy:
    """Divides the logits of a policy of GEMS, and measures the result.

    Args:
      policy: a mixture of anchors.
      temperature: divisor.
      episodes: episodes per measured mean.

    Returns:
      The policy, whose last row has the costs of its training and the measured columns.
    """
    import jax

    from gems_jax.evaluate.sampled import sampled_row
    from gems_jax.policies.population import Anchors

    population = policy.profile.population
    if not isinstance(population, Anchors) or not temperature > 0:
        raise UsageError(
            f"--temperature divides the logits of GEMS by a positive number: got {temperature} for a policy of "
            f"{policy.method}"
        )
    profile = policy.profile.replace(population=population.replace(temperature=population.temperature * temperature))
    row = sampled_row(jax.random.key(policy.seed), policy.game, profile, episodes)
    costs = {name: value for name, value in policy.last_row.items() if name in COSTS}
    return dataclasses.replace(
        policy,
        profile=profile,
        config=policy.config.replace(play_temperature=policy.config.play_temperature * temperature),
        last_row={**costs, **{name: float(value) for name, value in row.items()}},
    )


def main(argv: Sequence[str]) -> int:
    """Runs `gems export` and returns its exit code."""
    arguments = parse(Export, argv, prog="gems export")
    from gems_jax.runner.directory import read_config
    from gems_jax.runner.files import resolve
    from gems_jax.runner.load import export_policy, find_run, load, read_description

    path = find_run(arguments.run)
    policy = load(path, seed=arguments.seed, which=arguments.which, at=arguments.at, trust=arguments.trust)
    single = path.suffix == ".safetensors"
    record = read_description(path) if single else read_config(policy.source)
    if not single:
        record = {**record, "command": training_command(record, policy.seed)}
    if arguments.temperature != 1.0:
        policy = sharpen(policy, arguments.temperature)
        record = {**record, "config": resolve(policy.config)}
    folder = path.parent if single else Path(policy.source)
    output = arguments.output or folder / f"policy-s{policy.seed}.safetensors"
    export_policy(policy, output, record)
    print(f"{output}: {policy.game.name}, {policy.method}, seed {policy.seed}, {output.stat().st_size / 1e3:.1f} kB")
    return 0
