"""Measures the gap of a trained mixture, or its score (`gems eval RUN`), and with `--why` explains what limits it.

Every gap is printed with its kind: exact on enumerable games, bounds on boards whose states alone can be listed,
otherwise a trained exploiter's lower bound.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from gems_jax.cli.parsing import PolicyArguments, UsageError, check_minima, load_policy, parse


@dataclasses.dataclass(frozen=True)
class Evaluate(PolicyArguments):
    """Measure the exact exploitability (NashConv / 2) of a trained mixture; NashConv unless two-player zero-sum.

    On games that are not enumerable, measure its score and that of random play against fixed opponents, with actions
    drawn from its policies and with their most probable actions (greedy). Connect Four adds how often a move keeps the
    value of a solved position. With
    --exploiter, add a lower bound of its exploitability and the error budget, both by held-out episodes."""

    why: bool = False
    """Print the largest term of the error budget, its cause, and the flags that reduce it."""
    which: Literal["iterate", "average"] = "iterate"
    """Evaluate the mixture of the last iteration, or the average over the run."""
    seed: int | None = None
    """Seed of a batch to evaluate (default: all)."""
    episodes: int = 1000
    """Episodes per measured mean, on games that are not enumerable and with --exploiter."""
    opponents: tuple[str, ...] = ()
    """Fixed opponents to play against, separated by spaces (default: all of the game)."""
    exploiter: int = 0
    """Training rounds of an exploiter, whose gain is a lower bound (0: no exploiter and no error budget)."""
    confidence: float = 0.95
    """Confidence level of the bounds and intervals of --exploiter."""


def main(argv: Sequence[str]) -> int:
    """Runs `gems eval` and returns its exit code."""
    arguments = parse(Evaluate, argv, prog="gems eval")
    check_minima(arguments, episodes=2)
    if arguments.exploiter < 0 or not 0.0 < arguments.confidence < 1.0:
        raise UsageError(
            "--exploiter must be at least 0 and --confidence must be between 0 and 1, "
            f"got {arguments.exploiter} and {arguments.confidence}"
        )
    from gems_jax.runner.load import list_seeds
    from gems_jax.types import NotEnumerableError

    seeds = list_seeds(arguments.run) if arguments.seed is None else (arguments.seed,)
    policies = [load_policy(arguments, seed=seed, which=arguments.which) for seed in seeds]
    try:
        _print_exact(policies, arguments.which)
    except NotEnumerableError:
        _print_bounds(policies)
        _print_sampled(policies, arguments)
    sampled = _certify_policies(policies, arguments) if arguments.exploiter else []
    if any(sampled):
        _explain(sampled, policies[0].config)
    elif arguments.why:
        _explain([_rows(policy) for policy in policies], policies[0].config, logged=True)
    return 0


def _explain(rows: Sequence[Mapping[str, Any]], config: Any, logged: bool = False) -> None:
    from gems_jax.cli.why import explain, explain_timing

    print(f"why: {explain(rows, config)}")
    if logged:
        print(f"     ({explain_timing(rows)})")


def _title(policies: Sequence[Any], which: str, how: str) -> str:
    mixture = "the mixture of iteration" if which == "iterate" else "the average mixture of iterations 1 to"
    iterations = str(policies[0].iteration)
    if any(policy.iteration != policies[0].iteration for policy in policies):  # with --at best every seed has its own
        iterations = ", ".join(f"{policy.iteration} (seed {policy.seed})" for policy in policies)
    return f"{policies[0].game.name}, {policies[0].method}: {mixture} {iterations}, {how}"


def _print_exact(policies: Sequence[Any], which: str) -> None:
    import numpy as np

    from gems_jax.evaluate.exact_gains import exact_gains
    from gems_jax.evaluate.statistics import describe_mean, format_mean
    from gems_jax.types import is_two_player_zero_sum

    game = policies[0].game
    gains = [exact_gains(game, policy.profile) for policy in policies]
    zero_sum = is_two_player_zero_sum(game)
    print(_title(policies, which, "exact"))
    for policy, gain in zip(policies, gains, strict=True):
        print(f"seed {policy.seed}: {_describe_gap(float(gain.sum()), zero_sum)}")
        print(f"  gain of each player by deviating: {', '.join(f'{float(each):.4f}' for each in gain)}")
        _print_joint_play(policy, which)
    if len(policies) > 1:
        name, divisor = ("exploitability", 2) if zero_sum else ("NashConv", 1)
        values = np.asarray([gain.sum() for gain in gains]) / divisor
        print(f"{name} {format_mean(values)} ({describe_mean(len(values))})")


def _print_bounds(policies: Sequence[Any]) -> None:
    """Prints bounds of every seed's gap in games whose states can be listed, but not their histories."""
    from gems_jax.evaluate.exact_gains import certify_gap
    from gems_jax.types import NotEnumerableError, is_two_player_zero_sum

    name = "exploitability" if is_two_player_zero_sum(policies[0].game) else "NashConv"
    for policy in policies:
        try:
            print(f"seed {policy.seed}: {name} {certify_gap(policy.game, policy.profile)}")
        except NotEnumerableError:
            return


def _print_joint_play(policy: Any, which: str) -> None:
    """Prints the gaps of joint play that the run logged at the iteration of this mixture."""
    import numpy as np

    from gems_jax.runner.labels import column_label

    row = {name: float(np.atleast_1d(values)[-1]) for name, values in _rows(policy).items() if np.size(values)}
    columns = ("exploit_restricted",) * (which == "iterate") + ("cce_gap", "cce_gap_anchors", "cce_gap_ids")
    logged = [f"{column_label(column)} {row[column]:.4f}" for column in columns if column in row]
    if logged:
        print(f"  logged, exact: {'; '.join(logged)}")


def _certify_policies(policies: Sequence[Any], arguments: Evaluate) -> list[Mapping[str, Any]]:
    """Prints the certified gap and budget of every seed; returns the budgets, {} unless the method is GEMS."""
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


def _print_sampled(policies: Sequence[Any], arguments: Evaluate) -> None:
    """Prints every measured column for each seed, drawn and greedy, and for random play."""
    import jax

    from gems_jax.evaluate.greedy import greedy_profile
    from gems_jax.evaluate.sampled import random_profile, sampled_row
    from gems_jax.runner.labels import column_label

    game = policies[0].game
    labels = _opponents(game, arguments.opponents)
    profiles = {}
    for policy in policies:
        profiles[f"seed {policy.seed}"] = policy.profile
        profiles["greedy" if len(policies) == 1 else f"seed {policy.seed} greedy"] = greedy_profile(policy.profile)
    profiles["random"] = random_profile(game)
    rows = {
        # All profiles play with the same key, so that they meet the same deals.
        name: sampled_row(jax.random.key(0), game, profile, arguments.episodes, labels) | _solved_columns(game, profile)
        for name, profile in profiles.items()
    }
    print(_title(policies, arguments.which, f"{arguments.episodes} episodes, ± half of the 95 % interval"))
    columns = [column for column in rows["random"] if not column.endswith("_interval")]
    width = max(map(len, map(column_label, columns)))
    print(" " * width, *(f"{name:>18}" for name in rows))
    for column in columns:
        print(f"{column_label(column):<{width}}", *(f"{_cell(row, column):>18}" for row in rows.values()))


def _opponents(game: Any, wanted: Sequence[str]) -> tuple[str, ...]:
    """Returns the labels of the opponents to play against, all of the game's by default."""
    from gems_jax.opponents.registry import opponents_of
    from gems_jax.types import did_you_mean

    known = tuple(opponents_of(game))
    if unknown := [label for label in wanted if label not in known]:
        hint = did_you_mean(unknown[0], known).replace("did", "Did", 1)
        raise UsageError(f"{game.name} has no opponent {', '.join(unknown)}. {hint}Known: {', '.join(known)}.")
    return tuple(wanted) or known


def _solved_columns(game: Any, profile: Any) -> dict[str, Any]:
    """Measures how often moves keep the value of solved positions, in games that have some."""
    from gems_jax.evaluate.solved_moves import has_solved_positions, solved_move_rate

    if not has_solved_positions(game):
        return {}
    found = solved_move_rate(game, profile)
    return {"solved_move_rate": found.sampled, "solved_move_rate_interval": found.sampled_interval}


def _cell(row: Mapping[str, Any], column: str) -> str:
    margin = row.get(f"{column}_interval")
    return f"{float(row[column]):.3f}" + ("" if margin is None else f" ± {float(margin):.3f}")


def _describe_gap(gap: float, zero_sum: bool) -> str:
    from gems_jax.evaluate.certificates import certify_exact

    return (
        f"exploitability {certify_exact(gap / 2)}, NashConv {gap:.6f}" if zero_sum else f"NashConv {certify_exact(gap)}"
    )


def _rows(policy: Any) -> Mapping[str, Any]:
    from pathlib import Path

    from gems_jax.runner.writers import read_metrics

    if not Path(policy.source).is_dir():
        return policy.last_row
    return {name: values[: policy.iteration] for name, values in read_metrics(policy.source).items()}
