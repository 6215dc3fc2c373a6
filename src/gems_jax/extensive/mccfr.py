"""Monte-Carlo CFR on tables: `os_mccfr` (outcome sampling) and `es_mccfr` (external sampling).

In a round every player in turn traverses the game once, adds the sampled counterfactual regrets to its table and
updates its policy by regret matching (`extensive/traversals.py` has the estimators):

    R(I, a) += r(I, a),   pi = R+ / sum R+,   average += weight * reach of pi

The average is over the reach of a player's own sequences, so the average policy weighs rounds by the player's own
reach. Computing it takes no environment steps. It is exact, whereas published versions estimate it from the visited
sets. `average` is the result of MCCFR. `iterate` is the last policy, which need not converge.

With baseline="learned" (VR-MCCFR) the control variate is a table of one value per history, action and player, a running
average of sampled values: b(h, a) += rate (u(ha) - b(h, a)) on the traversed edges. Regrets stay unbiased.

Environment steps are calls of the game's `step`. A traversal of outcome sampling is one episode. A traversal of
external sampling branches at every decision of its player. It counts one step per edge, as a simulator that can return
to a position would take, and one episode per end. A simulator that can only restart would take more steps.

Deals and moves are drawn from the game's tree. In two-player zero-sum games the average converges to an equilibrium; in
other enumerable games every player has no regret.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import jax
import jax.numpy as jnp

from gems_jax.accelerator.prng import fused_key
from gems_jax.config import FRACTION, OPEN_FRACTION, Settings, choice, real, size
from gems_jax.extensive.counterfactual import behavior_from_reach, regret_matching
from gems_jax.extensive.histories import Histories, build_histories
from gems_jax.extensive.infosets import tabular_policies
from gems_jax.extensive.sequence_form import group_by_infoset
from gems_jax.extensive.traversals import draw_deal, sample_traversal
from gems_jax.extensive.values import GameTree, build_tree, reach
from gems_jax.types import Array, Game, NotEnumerableError, Profile, PyTree, Solver, Struct, nbytes, num_players

PROFILES = ("iterate", "average")


class McCfrConfig(Settings):
    """Settings of external sampling; outcome sampling adds its exploration."""

    iterations: int = size(40)
    """Iterations that an experiment runs by default."""
    traversals: int = size(5000)
    """Traversals of every player per iteration."""
    env_steps: int = size(0, at_least=0)
    """Environment steps of an iteration, met over the run to within one round. 0: `traversals` of every player."""
    baseline: Literal["none", "learned"] = choice("none")
    """Control variate of the sampled values: none, or a learned value per history and action (VR-MCCFR)."""
    plus: bool = choice(False)
    """Clip the regrets at 0 after every update (regret matching+)."""
    linear: bool = choice(False)
    """Weigh round t by t in the average; by 1 otherwise."""
    baseline_rate: float = real(0.5, FRACTION)
    """Step size of the learned baseline towards a sampled value."""


class OutcomeSamplingConfig(McCfrConfig):
    """Settings of outcome sampling."""

    exploration: float = real(0.6, OPEN_FRACTION)
    """epsilon: probability of a uniform action at the traversing player's own decisions."""


class McCfrState(Struct):
    """Tables carried over iterations; `average` is a compensated sum, a float32 number and its rounding error."""

    regrets: Array  # [I, A]
    average: Array  # [2, I, A], weighted sum of the reach of sequences
    baseline: Array  # [D, M, K, players]; empty without one
    rounds: Array  # [] int32, total so far
    balance: Array  # [] int32, unused env steps of the budget so far


class McCfrMetrics(Struct):
    """Costs of one iteration."""

    episodes: Array  # [] int32
    env_steps: Array  # [] int32
    gradient_steps: Array  # [] int32, none
    rounds: Array  # [] int32, traversals of every player
    state_bytes: Array  # [] float32, size of the solver's state


class _Progress(Struct):
    """State of the loop over rounds."""

    regrets: Array
    average: Array
    baseline: Array
    key: Array
    rounds: Array  # [] int32, of this iteration
    episodes: Array  # [] int32
    env_steps: Array  # [] int32


def add_compensated(total: Array, term: Array) -> Array:
    """Adds a term to a compensated sum (Kahan).

    Args:
      total: the sum and its rounding error, [2, ...].
      term: [...].

    Returns:
      The new sum and rounding error, [2, ...].
    """
    corrected = term - total[1]
    high = total[0] + corrected
    return jnp.stack([high, (high - total[0]) - corrected])


def mccfr_solver(game: Game, config: McCfrConfig, external: bool) -> Solver:
    """Makes the solver `os_mccfr`, or `es_mccfr` with `external`.

    Args:
      game: an enumerable game with one player per seat.
      config: settings; outcome sampling takes an `OutcomeSamplingConfig`.
      external: sample the others' moves only.

    Returns:
      A jittable `Solver` with the profiles `iterate` and `average`.

    Raises:
      NotEnumerableError: if the game cannot be enumerated or has teams.
    """
    if num_players(game) < game.num_seats:
        raise NotEnumerableError(
            f"tabular methods cannot solve {game.name!r}: expected one player per seat, got teams "
            f"(player_of_seat={game.player_of_seat})"
        )
    tree = build_tree(game)
    histories, deals = build_histories(game)
    exploration = None if external else config.exploration  # type: ignore[attr-defined]

    def init(key: Array) -> McCfrState:
        del key  # nothing is drawn
        shape = (*histories.open.shape, tree.num_players) if config.baseline == "learned" else (0,)
        zeros = jnp.zeros(tree.legal.shape)
        return McCfrState(zeros, jnp.stack([zeros, zeros]), jnp.zeros(shape), jnp.int32(0), jnp.int32(0))

    def step(state: McCfrState, key: Array) -> tuple[McCfrState, McCfrMetrics]:
        none = jnp.int32(0)
        allowed = state.balance + config.env_steps
        start = _Progress(state.regrets, state.average, state.baseline, fused_key(key), none, none, none)

        def unfinished(now: _Progress) -> Array:
            return now.env_steps < allowed if config.env_steps else now.rounds < config.traversals

        def one_round(now: _Progress) -> _Progress:
            weight = (state.rounds + now.rounds + 1).astype(jnp.float32) if config.linear else jnp.float32(1.0)
            return _round(now, weight, tree, histories, deals, config, exploration)

        end = jax.lax.while_loop(unfinished, one_round, start)
        balance = allowed - end.env_steps if config.env_steps else state.balance
        after = McCfrState(end.regrets, end.average, end.baseline, state.rounds + end.rounds, balance)
        bytes_kept = jnp.float32(nbytes(after))
        return after, McCfrMetrics(end.episodes, end.env_steps, none, end.rounds, bytes_kept)

    def profile(state: McCfrState, which: str = "iterate") -> Profile:
        return _profile(game, tree, state, which)

    columns = tuple(field.name for field in dataclasses.fields(McCfrMetrics))
    return Solver(init, step, profile, columns=columns)


def _round(
    now: _Progress,
    weight: Array,
    tree: GameTree,
    histories: Histories,
    deals: Array,
    config: McCfrConfig,
    exploration: float | Array | None,
) -> _Progress:
    """Runs one traversal of every player in turn."""
    regrets, baseline = now.regrets, now.baseline
    key, *keys = jax.random.split(now.key, 1 + 2 * tree.num_players)
    policy = regret_matching(tree, regrets)
    average = add_compensated(now.average, weight * group_by_infoset(tree, reach(tree, policy)))
    episodes, env_steps = now.episodes, now.env_steps
    for player in range(tree.num_players):
        number = draw_deal(keys[2 * player], deals)
        deal = histories.take(number)
        control = baseline[number] if config.baseline == "learned" else None
        found = sample_traversal(keys[2 * player + 1], deal, policy, player, exploration, control)
        regrets = regrets + found.regrets
        if config.plus:
            regrets = jnp.maximum(regrets, 0.0)
        if control is not None:
            moved = control + config.baseline_rate * (found.values - control)
            baseline = baseline.at[number].set(jnp.where(found.walked[..., None], moved, control))
        policy = regret_matching(tree, regrets)
        episodes, env_steps = episodes + found.episodes, env_steps + found.env_steps
    return _Progress(regrets, average, baseline, key, now.rounds + 1, episodes, env_steps)


def _profile(game: Game, tree: GameTree, state: PyTree, which: str) -> Profile:
    if which not in PROFILES:
        raise ValueError(f"unknown profile {which!r}; known: {', '.join(map(repr, PROFILES))}")
    tables = jnp.stack([regret_matching(tree, state.regrets), behavior_from_reach(tree, state.average[0])])
    sigma = jnp.array([1.0, 0.0]) if which == "iterate" else jnp.array([0.0, 1.0])
    return Profile(
        tabular_policies(game, jnp.broadcast_to(tables, (tree.num_populations, *tables.shape))),
        jnp.broadcast_to(sigma, (tree.num_populations, 2)),
    )
