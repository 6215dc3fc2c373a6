"""Exact monitoring: one row of scalars per iteration with exploitability, its causes and training statistics.

`exact_monitor(game, solver)` returns the pair `(init_monitor, measure)` that a driver scans along with the step:

    monitor = init_monitor(state)
    monitor, row = measure(monitor, state_before, metrics, state_after, iteration)

Both are pure and handle one seed: callers vmap. A solver needs only its `profile`. Columns whose inputs its metrics and
states lack (a pool, anchors) are left out. Returns are in the game's own units (chips per game in poker).

    column                       meaning, after the iteration unless noted otherwise
    nash_conv                    sum_p BR_p - u_p of the played mixture (profile "iterate")
    exploitability               NashConv / 2, for two-player zero-sum games only, like the next column
    exploitability_average       of the run's average mixture (profile "average"); nash_conv_average in other games
    exploit_restricted           max_i v_i - sigma . v of the played mixture within its anchors (eq:exploit_revised),
                                 mean over players: 0 at any restricted equilibrium
    regret_<player>              gain of the best fixed policy of the game over what the player earned, mean over the
                                 run's iterations (`evaluate/joint_play.py`)
    cce_gap                      sum of the positive regrets: distance of the run's joint play, as played, from a
                                 coarse correlated equilibrium of the game
    cce_gap_anchors              cce_gap with deviations to the current anchors only
    cce_gap_ids, cce_gap_ids_anchors
                                 both gaps for the joint play by anchor id under the current generator, if the joint
                                 distribution is small enough
    value_<player>               u_p of the played mixture, in games that are not zero-sum or that name their players
    welfare                      sum_p u_p, in the same games
    <choice>                     probabilities that the game declares (`evaluate/outcomes.py`): coop, the cooperation
                                 rate, in public goods; target_after_<message> in deceptive messages
    <column>_auc                 area under the curve of such a column from the start of the run until now
    budget_best_response, budget_oracle, budget_newcomer, budget_meta_regret
                                 the four terms of `error_budget`, of sigma' with the generator before ABR, averaged
                                 over the players: for two players they add up to the exploitability of that mixture
    budget_total                 that gap, computed independently of the terms
    budget_violation             the worst over players of |sum of the terms - gap| and of how negative a term is
    monte_carlo_error            max over active anchors of |v-hat - v| in the last round, v exact against the same
                                 mixture; mean over populations
    meta_regret_estimated        with reused returns: max_i v-hat_i - sigma' . v-hat, v-hat against sigma' itself, mean
                                 over populations: the regret that the meta-solver leaves on its own estimate. The rest
                                 of budget_meta_regret comes from the noise of that estimate
    value_error                  with reused returns: standard error that the estimator claims for v-hat, root mean
                                 square over the active anchors that have one; monte_carlo_error is the true error
    abr_gap                      BR - f(newest anchor) against sigma', f with the generator after ABR: the gap that
                                 training left; mean over players
    forgetting_kl                KL(at insertion || now) in nats, mean over active anchors. An anchor's policy at
                                 insertion is its policy at the end of the iteration that added it
    forgetting_value             value now minus value at insertion against the current mixture, mean over anchors
    forgetting_value_worst       forgetting_value of the anchor that lost most (at most 0)
    effective_policies           effective number of distinct policies under sigma, mean over populations
    effective_policies_uniform   effective number of distinct policies with uniform weights on the active anchors
    active_anchors               sum over all populations
    entropy, kl, objective, value_loss, gradient_norm, jacobian, max_score
                                 means over populations of the solver's metrics (scores of scaled returns)
    share_meta, share_oracle, share_abr
                                 with adaptive budgets: fractions of the iteration's episodes
    episodes, env_steps          of this iteration
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.evaluate.error_budget import ErrorBudget, error_budget
from gems_jax.evaluate.forgetting import effective_policies, infoset_choices, policy_drift, value_drift
from gems_jax.evaluate.joint_play import (
    MeanPlay,
    add_joint,
    add_play,
    anchor_regrets,
    joint_fits,
    play_of_joint,
    regrets,
    restricted_gains,
    sum_positive_regrets,
)
from gems_jax.evaluate.outcomes import outcome_columns
from gems_jax.extensive.tree import GameTree, build_tree
from gems_jax.extensive.values import (
    anchor_values,
    best_response_values,
    player_gains_of_mixture,
    policy_tables,
    population_mean,
    values_against,
)
from gems_jax.types import (
    Accumulated,
    Array,
    Game,
    Profile,
    PyTree,
    Solver,
    is_two_player_zero_sum,
    num_players,
    player_names,
    supports,
)

Row = dict[str, Array]
InitMonitor = Callable[[PyTree], PyTree]
Measure = Callable[[PyTree, PyTree, PyTree, PyTree, Array], tuple[PyTree, Row]]

BUDGET_TERMS = ("budget_best_response", "budget_oracle", "budget_newcomer", "budget_meta_regret")

_FromMetrics = Callable[[str, Array], Iterable[tuple[str, Array]]]
_COLUMNS: dict[str, _FromMetrics] = {  # field of a solver's metrics -> its columns
    "num_active": lambda name, value: [("active_anchors", value.sum())],
    **dict.fromkeys(
        ("entropy", "kl", "objective", "value_loss", "gradient_norm", "jacobian"),
        lambda name, value: [(name, jnp.mean(value))],
    ),
    "scores": lambda name, value: [("max_score", value.max(axis=1).mean())],
    "shares": lambda name, value: [(f"share_{phase}", value[i]) for i, phase in enumerate(("meta", "oracle", "abr"))],
    **dict.fromkeys(("episodes", "env_steps"), lambda name, value: [(name, value)]),
}


class Area(NamedTuple):
    """Area under a curve of points with unit spacing: the last point and the area up to it, [] each."""

    last: Array
    total: Array


def plain_monitor(game: Game, solver: Solver) -> tuple[InitMonitor, Measure]:
    """Makes a monitor that logs only the solver's own metrics, for games that are not enumerable."""
    del game, solver

    def measure(
        monitor: PyTree, before: PyTree, metrics: PyTree, after: PyTree, iteration: Array | None = None
    ) -> tuple[PyTree, Row]:
        del iteration
        return monitor, training_columns(metrics)

    return lambda state: (), measure


def exact_monitor(game: Game, solver: Solver) -> tuple[InitMonitor, Measure]:
    """Builds the game tree and makes a monitor that computes all columns of the module docstring exactly.

    Args:
      game: an enumerable game.
      solver: the solver whose states and metrics are measured.

    Returns:
      `init_monitor(state)` and `measure(monitor, before, metrics, after, iteration)`, which returns monitor and row.

    Raises:
      NotEnumerableError: if the game cannot be enumerated.
    """
    tree = build_tree(game)
    names = player_names(game) or tuple(map(str, range(num_players(game))))
    zero_sum = is_two_player_zero_sum(game)
    outcomes = outcome_columns(game)
    areas = game.areas if supports(game, Accumulated) else ()

    def tables_of(profile: Profile) -> Array:
        return policy_tables(tree, profile.population, profile.sigma.shape[1])

    def init_monitor(state: PyTree) -> PyTree:
        has_anchors = hasattr(state, "anchor_id")
        monitor: dict[str, Any] = {"play": MeanPlay.zeros(tree)}
        if not (has_anchors or areas):
            return monitor
        profile = solver.profile(state)
        tables = tables_of(profile)
        start = outcomes(tables, profile.sigma) if areas else {}
        if areas:
            monitor["areas"] = {name: Area(start[name], jnp.zeros(())) for name in areas}
        if has_anchors:
            monitor["inserted"] = tables
            if joint_fits(tree, slots := profile.sigma.shape[1]):
                monitor["joint"] = jnp.zeros((slots,) * tree.num_players)
        return monitor

    def measure(
        monitor: PyTree, before: PyTree, metrics: PyTree, after: PyTree, iteration: Array | None = None
    ) -> tuple[PyTree, Row]:
        del iteration
        profile = solver.profile(after)
        tables = tables_of(profile)
        row = _distance_columns(tree, tables, profile.sigma, solver.profile(after, which="average").sigma, zero_sum)
        play = add_play(tree, monitor["play"], tables, profile.sigma)
        row |= _regret_columns(tree, play, names)
        row |= outcomes(tables, profile.sigma)
        if hasattr(after, "active"):
            row["exploit_restricted"] = restricted_gains(tree, tables, profile.sigma, after.active).mean()
            row["cce_gap_anchors"] = sum_positive_regrets(anchor_regrets(tree, play, tables, after.active))
        if "joint" in monitor:
            fresh = after.anchor_id != before.anchor_id
            joint = add_joint(tree, monitor["joint"], monitor["play"].count, profile.sigma, fresh)
            by_id = play_of_joint(tree, tables, joint)
            row["cce_gap_ids"] = sum_positive_regrets(regrets(tree, by_id))
            row["cce_gap_ids_anchors"] = sum_positive_regrets(anchor_regrets(tree, by_id, tables, after.active))
            monitor = monitor | {"joint": joint}
        monitor = monitor | {"play": play}
        if areas:
            grown = {name: _add_trapezoid(monitor["areas"][name], row[name]) for name in areas}
            monitor = monitor | {"areas": grown}
            row |= {f"{name}_auc": grown[name].total for name in areas}
        if hasattr(metrics, "pool") and hasattr(before, "active"):
            frozen = solver.profile(before)
            then = tables_of(frozen)
            row |= _budget_columns(tree, then, _pool_tables(tree, frozen, metrics.pool), before, metrics)
            row["monte_carlo_error"] = _monte_carlo_error(tree, game, then, before.active, metrics)
            if getattr(before, "replay", None) is not None:
                row |= _confidence_columns(game, before.active, metrics)
            row["abr_gap"] = _abr_gap(tree, then, tables, metrics, after)
        if hasattr(after, "anchor_id"):
            fresh = (after.anchor_id != before.anchor_id)[:, :, None, None]
            inserted = jnp.where(fresh, tables, monitor["inserted"])
            monitor = monitor | {"inserted": inserted}
            row |= _forgetting_columns(tree, inserted, tables, profile.sigma, after.active)
            row |= _diversity_columns(tree, tables, profile.sigma, after.active)
        return monitor, row | training_columns(metrics)

    return init_monitor, measure


def _add_trapezoid(area: Area, value: Array) -> Area:
    """Extends the area by one trapezoid."""
    return Area(value, area.total + (area.last + value) / 2)


def _pool_tables(tree: GameTree, frozen: Profile, pool: Array) -> Array:
    """Tables [P, C, I, A] of candidate codes [P, C, D], by the generator of `frozen`."""
    if pool.shape[1] == 0:
        return jnp.zeros((pool.shape[0], 0, *tree.legal.shape))
    return policy_tables(tree, frozen.population.replace(codes=pool), pool.shape[1])  # type: ignore[attr-defined]


def _distance_columns(tree: GameTree, tables: Array, sigma: Array, average: Array, zero_sum: bool) -> Row:
    played, averaged = (player_gains_of_mixture(tree, tables, mixture).sum() for mixture in (sigma, average))
    if not zero_sum:
        return {"nash_conv": played, "nash_conv_average": averaged}
    return {"exploitability": played / 2, "nash_conv": played, "exploitability_average": averaged / 2}


def _regret_columns(tree: GameTree, play: MeanPlay, names: tuple[str, ...]) -> Row:
    found = regrets(tree, play)
    row = {f"regret_{name}": found[player] for player, name in enumerate(names)}
    return row | {"cce_gap": sum_positive_regrets(found)}


def _budget_columns(tree: GameTree, tables: Array, proposed: Array, before: PyTree, metrics: PyTree) -> Row:
    """Computes the budget with the generator before ABR and sigma', where the newcomer has no mass yet."""
    budget = error_budget(
        tree,
        tables_anchors=tables,
        active=before.active,
        sigma=metrics.sigma,
        tables_pool=proposed,
        chosen=metrics.chosen,
        estimated_values=metrics.values,  # its term is computed below, against another mixture
    )
    terms = _terms(budget)  # [4, players]
    columns = dict(zip(BUDGET_TERMS, terms.mean(axis=1), strict=True))
    gap = jnp.abs(terms.sum(axis=0) - budget.total).max()
    return columns | {"budget_total": budget.total.mean(), "budget_violation": jnp.maximum(gap, -terms.min())}


def _terms(budget: ErrorBudget) -> Array:
    return jnp.stack([budget.best_response_gap, budget.oracle_gap, budget.newcomer_gain, budget.meta_regret])


def _monte_carlo_error(tree: GameTree, game: Game, tables: Array, active: Array, metrics: PyTree) -> Array:
    """Compares v-hat with exact values against the mixture that it was measured against, not sigma'."""
    low, high = game.return_bounds
    exact = population_mean(tree, anchor_values(tree, tables, metrics.measured_sigma))
    error = jnp.abs(metrics.values * (high - low) + low - exact)
    return jnp.where(active, error, 0.0).max(axis=1).mean()


def _confidence_columns(game: Game, active: Array, metrics: PyTree) -> Row:
    """Computes regret and standard error from v-hat against the mixture that solves the estimate."""
    low, high = game.return_bounds
    best = jnp.where(active, metrics.values, -jnp.inf).max(axis=1)
    regret = best - jnp.sum(metrics.sigma * metrics.values, axis=1)
    known = active & jnp.isfinite(metrics.value_errors)
    squares = jnp.where(known, metrics.value_errors, 0.0) ** 2
    return {
        "meta_regret_estimated": (high - low) * regret.mean(),
        "value_error": (high - low) * jnp.sqrt(_masked_mean(squares, known)),
    }


def _abr_gap(tree: GameTree, then: Array, now: Array, metrics: PyTree, after: PyTree) -> Array:
    """Computes the gap of the newest anchor against sigma' over the policies before training."""
    newest = jnp.argmax(after.anchor_id, axis=1)
    trained = jnp.take_along_axis(now, newest[:, None, None, None], axis=1)  # [P, 1, I, A]
    earned = values_against(tree, trained, then, metrics.sigma)[:, 0]
    return (best_response_values(tree, then, metrics.sigma) - earned).mean()


def _forgetting_columns(tree: GameTree, inserted: Array, now: Array, sigma: Array, active: Array) -> Row:
    drift = policy_drift(tree, inserted, now)  # [P, K]
    earned = value_drift(tree, inserted, now, now, sigma)  # [players, K]
    holds = active[jnp.array(tree.population_of_player)]
    return {
        "forgetting_kl": _masked_mean(drift, active),
        "forgetting_value": _masked_mean(earned, holds),
        "forgetting_value_worst": jnp.where(holds, earned, 0.0).min(),
    }


def _diversity_columns(tree: GameTree, tables: Array, sigma: Array, active: Array) -> Row:
    weights = jnp.stack([infoset_choices(tree, population) for population in range(tree.num_populations)])
    uniform = active / active.sum(axis=1, keepdims=True)
    return {
        "effective_policies": jax.vmap(effective_policies)(tables, sigma, weights).mean(),
        "effective_policies_uniform": jax.vmap(effective_policies)(tables, uniform, weights).mean(),
    }


def training_columns(metrics: PyTree) -> Row:
    """Selects the columns that a solver's own metrics hold."""
    fields = ((name, getattr(metrics, name, None)) for name in _COLUMNS)
    return {column: found for name, value in fields for column, found in _columns_of(name, value)}


def _columns_of(name: str, value: Any) -> Iterable[tuple[str, Array]]:
    """The columns of one field of the metrics, none if it is missing or empty."""
    if value is None or (name == "scores" and not value.shape[1]):
        return []
    return _COLUMNS[name](name, value)


def _masked_mean(values: Array, mask: Array) -> Array:
    return jnp.where(mask, values, 0.0).sum() / jnp.maximum(mask.sum(), 1)
