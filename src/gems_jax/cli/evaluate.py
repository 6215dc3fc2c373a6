"""`gems eval RUN`: how far from equilibrium, exactly, or what the mixture earns; `--why`: what limits it.

Every gap is told with its kind: exact where the tree can be walked, otherwise a trained exploiter's lower bound.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from gems_jax.cli.parsing import PolicyArguments, UsageError, check_least, load_policy, parse


@dataclasses.dataclass(frozen=True)
class Evaluate(PolicyArguments):
    """Exact exploitability (NashConv / 2) of a trained mixture, or NashConv where there is no such thing.

    Games that cannot be walked: what it earns against fixed opponents, beside what random play earns, and with
    --exploiter a lower bound of its exploitability and the error budget, by held-out episodes."""

    why: bool = False
    """Name the largest term of the error budget, its cause, and the flags that make it smaller."""
    which: Literal["iterate", "average"] = "iterate"
    """The mixture of the last iteration, or the average over the run."""
    seed: int | None = None
    """One seed of a batch (default: all)."""
    episodes: int = 1000
    """Episodes per number where the game cannot be walked, and with --exploiter."""
    exploiter: int = 0
    """Rounds of training of an exploiter: a lower bound at --confidence, and the error budget with its intervals."""
    confidence: float = 0.95
    """At which the bounds and intervals of --exploiter hold."""


def main(argv: Sequence[str]) -> int:
    arguments = parse(Evaluate, argv, prog="gems eval")
    check_least(arguments, episodes=2)
    if arguments.exploiter < 0 or not 0.0 < arguments.confidence < 1.0:
        raise UsageError(
            "--exploiter must not be negative and --confidence must be between 0 and 1: "
            f"got {arguments.exploiter} and {arguments.confidence}"
        )
    from gems_jax.types import NotEnumerableError

    seeds = _seeds(arguments.run, arguments.seed)
    policies = [load_policy(arguments, seed=seed, which=arguments.which) for seed in seeds]
    try:
        _exact(policies, arguments.which)
    except NotEnumerableError:
        _by_playing(policies, arguments)
    sampled = _certified(policies, arguments) if arguments.exploiter else []
    if any(sampled):
        _explain(sampled, policies[0].config)
    elif arguments.why:
        _explain([_rows(policy) for policy in policies], policies[0].config, logged=True)
    return 0


def _explain(rows: Sequence[Mapping[str, Any]], config: Any, logged: bool = False) -> None:
    from gems_jax.cli.why import explain, when

    print(f"why: {explain(rows, config)}")
    if logged:
        print(f"     ({when(rows)})")


def _title(policies: Sequence[Any], which: str, how: str) -> str:
    mixture = "the mixture of iteration" if which == "iterate" else "the average mixture of iterations 1 to"
    return f"{policies[0].game.name}, {policies[0].method}: {mixture} {policies[0].iteration}, {how}"


def _exact(policies: Sequence[Any], which: str) -> None:
    import numpy as np

    from gems_jax.evaluate.exact_gains import exact_gains
    from gems_jax.runner.console import format_mean
    from gems_jax.types import is_two_player_zero_sum

    game = policies[0].game
    gains = [exact_gains(game, policy.profile) for policy in policies]
    zero_sum = is_two_player_zero_sum(game)
    print(_title(policies, which, "exact"))
    for policy, gain in zip(policies, gains, strict=True):
        print(f"seed {policy.seed}: {_words(float(gain.sum()), zero_sum)}")
        print(f"  gain of each player by deviating: {', '.join(f'{float(each):.4f}' for each in gain)}")
        _joint_play(policy, which)
    if len(policies) > 1:
        name, share = ("exploitability", 2) if zero_sum else ("NashConv", 1)
        print(f"mean: {name} {format_mean(np.asarray([gain.sum() for gain in gains]) / share)} (95 % interval)")


def _joint_play(policy: Any, which: str) -> None:
    """What the run logged of its whole joint play, up to the iteration of this mixture."""
    import numpy as np

    from gems_jax.runner.labels import readable

    row = {name: float(np.atleast_1d(values)[-1]) for name, values in _rows(policy).items()}
    columns = ("exploit_restricted",) * (which == "iterate") + ("cce_gap", "cce_gap_anchors", "cce_gap_ids")
    logged = [f"{readable(column)} {row[column]:.4f}" for column in columns if column in row]
    if logged:
        print(f"  logged, exact: {'; '.join(logged)}")


def _certified(policies: Sequence[Any], arguments: Evaluate) -> list[Mapping[str, Any]]:
    """Prints what held-out episodes say of every seed; the estimated budgets, {} for other methods than GEMS."""
    import jax

    from gems_jax.cli.certify import certify, describe_budget
    from gems_jax.types import is_two_player_zero_sum

    game = policies[0].game
    budgets: list[Mapping[str, Any]] = []
    name = "exploitability" if is_two_player_zero_sum(game) else "NashConv"
    for policy in policies:
        held = certify(
            jax.random.key(policy.seed), game, policy.profile, policy.config,
            rounds=arguments.exploiter, episodes=arguments.episodes, confidence=arguments.confidence,
        )  # fmt: skip
        print(f"seed {policy.seed}: {name} {held.gap}")
        for line in describe_budget(held):
            print(line)
        budgets.append(held.estimates)
    return budgets


def _by_playing(policies: Sequence[Any], arguments: Evaluate) -> None:
    """Every measured column of every seed, and of random play."""
    import jax

    from gems_jax.evaluate.sampled import random_profile, sampled_row
    from gems_jax.runner.labels import readable

    game, key = policies[0].game, jax.random.key(0)
    profiles = {f"seed {policy.seed}": policy.profile for policy in policies} | {"random": random_profile(game)}
    rows = {name: sampled_row(key, game, profile, arguments.episodes) for name, profile in profiles.items()}
    print(_title(policies, arguments.which, f"{arguments.episodes} episodes, ± half of the 95 % interval"))
    columns = [column for column in rows["random"] if not column.endswith("_interval")]
    width = max(map(len, map(readable, columns)))
    print(" " * width, *(f"{name:>18}" for name in rows))
    for column in columns:
        print(f"{readable(column):<{width}}", *(f"{_cell(row, column):>18}" for row in rows.values()))


def _cell(row: Mapping[str, Any], column: str) -> str:
    margin = row.get(f"{column}_interval")
    return f"{float(row[column]):.3f}" + ("" if margin is None else f" ± {float(margin):.3f}")


def _words(gap: float, zero_sum: bool) -> str:
    from gems_jax.evaluate.certificates import exact

    return f"exploitability {exact(gap / 2)}, NashConv {gap:.6f}" if zero_sum else f"NashConv {exact(gap)}"


def _seeds(run: str, seed: int | None) -> Sequence[int | None]:
    """All seeds of a batch's folder; the one of a seed's folder or of a file."""
    from gems_jax.runner.directory import open_run, read_config
    from gems_jax.runner.load import find_run, run_folder

    path = find_run(run)
    if seed is not None or path.suffix == ".safetensors":
        return (seed,)
    folder = run_folder(path)
    return (None,) if read_config(folder).get("seed") is not None else open_run(folder).seeds


def _rows(policy: Any) -> Mapping[str, Any]:
    from pathlib import Path

    from gems_jax.runner.writers import read_metrics

    if not Path(policy.source).is_dir():
        return policy.last_row
    return {name: values[: policy.iteration] for name, values in read_metrics(policy.source).items()}
