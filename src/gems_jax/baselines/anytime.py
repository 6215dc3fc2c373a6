"""Anytime and Efficient PSRO: meta-games that are restricted for one side only.

For every population q the game in which q mixes its policies and the opponent may do anything is solved
(`evaluate/restricted.py`); the mixture is what q plays. No payoff table is needed, and what is reported can only get
better with more policies, up to the inner solver's gap: NashConv of the profile is the least that the populations
allow (the population exploitability).

    apsro   the best response to the others' mixture joins                                      (McAleer et al. 2022)
            With inner="lp" this is the exact form, Anytime Double Oracle (ADO).
    epsro   the opponent's own (averaged) strategy in that game joins                               (Zhou et al. 2022)
            A reconstruction: the constants of the inner loop are this project's, and so is the line between the two.

Two-player zero-sum games.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.config import ABOVE_ZERO, Settings, choice, real, size
from gems_jax.evaluate.infosets import infoset_policy, tables_of, tabular_policies
from gems_jax.evaluate.restricted import inner_gap, no_regret, opponent_sums, plan_table, solve_restricted
from gems_jax.evaluate.tabular import GameTree, build_tree, uniform_table
from gems_jax.explicit.cost import Cost, ExplicitMetrics, explicit_metrics
from gems_jax.explicit.responses import exact_replies, policy_params
from gems_jax.explicit.store import (
    Store,
    append,
    chosen_mixture,
    nbytes,
    new_store,
    pad_slots,
    room,
    running_mean,
    widen,
)
from gems_jax.population import StackedPolicies
from gems_jax.types import Array, Game, Profile, Solver, num_players, struct


@struct
class AnytimeConfig(Settings):
    """Settings of Anytime and Efficient PSRO."""

    iterations: int = size(40)
    """Iterations that an experiment runs by default."""
    capacity: int = size(8)
    """Policies per population that there is room for at first; doubled whenever that is full."""
    newcomer: Literal["response", "unrestricted"] = choice("response")
    """Who joins: the best response to the others' mixture (APSRO), or the unrestricted strategy itself (EPSRO)."""
    inner: Literal["lp", "mwu", "rm_plus"] = choice("lp")
    """How a restricted game is solved: a linear program, or a no-regret rule against best responses."""
    inner_steps: int = size(1000)
    """Steps of the no-regret rule."""
    step_size: float = real(0.1, ABOVE_ZERO)
    """Of multiplicative weights, in units of the game's returns."""
    ties: Literal["robust", "random", "novel", "lowest"] = choice("robust")
    """Exact responses that tie: how one is chosen (see explicit/responses.py)."""


APSRO = AnytimeConfig()
EPSRO = AnytimeConfig(newcomer="unrestricted", inner="mwu")


@struct
class AnytimeState:
    store: Store
    sigma: Array  # [P, K]
    sigma_average: Array  # [P, K], over the iterations so far
    learner: Array  # [P, I, A], the unrestricted strategies of the last meta-games
    step: Array  # [] int32


@partial(jax.jit, static_argnames=("population", "rule", "num_steps"))
def _approach(
    tree: GameTree, tables: Array, active: Array, step_size: Array, population: int, rule: str, num_steps: int
) -> tuple[Array, Array, Array]:
    """sigma [K], plan [Q] and the gap [] of the game restricted to `tables` [K, I, A], by a no-regret rule."""
    sums = jax.vmap(lambda table: opponent_sums(tree, table, population))(tables)
    sigma, plan = no_regret(tree, sums, active, rule, num_steps, step_size)
    return sigma, plan, inner_gap(tree, sums, active, sigma, plan)


@partial(jax.jit, static_argnames="population")
def _sums(tree: GameTree, tables: Array, population: int) -> Array:
    return jax.vmap(lambda table: opponent_sums(tree, table, population))(tables)


def _solve_exactly(tree: GameTree, tables: Array, active: Array, population: int) -> tuple[Array, Array, Array]:
    """The same by the linear program."""
    sums, slots = _sums(tree, tables, population), np.nonzero(np.asarray(active))[0]
    masses, reaches = solve_restricted(tree, np.asarray(sums)[slots])
    sigma = jnp.zeros(active.shape).at[slots].set(jnp.asarray(masses, jnp.float32))
    plan = jnp.asarray(reaches, jnp.float32)
    return sigma, plan, inner_gap(tree, sums, active, sigma, plan)


def anytime_solver(game: Game, config: AnytimeConfig) -> Solver:
    """APSRO or EPSRO with exact inner games. Its step runs in Python."""
    if num_players(game) != 2 or not game.zero_sum:
        raise ValueError(f"anytime methods are for two-player zero-sum games: {game.name!r} is not one; use psro")
    tree, network = build_tree(game), infoset_policy(game)
    populations = tree.num_populations

    def policies(store: Store) -> StackedPolicies:
        return StackedPolicies(store.params, network)

    def solve(tables: Array, active: Array) -> tuple[Array, Array, Array]:
        """sigma [P, K], the opponents' strategies [P, I, A] and the gaps [P]. tables [P, K, I, A]."""
        sigmas, learners, gaps = [], [], []
        for population in range(populations):
            inner = (tables[population], active[population])
            if config.inner == "lp":
                sigma, plan, gap = _solve_exactly(tree, *inner, population)
            else:
                step_size = jnp.float32(config.step_size)
                sigma, plan, gap = _approach(tree, *inner, step_size, population, config.inner, config.inner_steps)
            sigmas.append(sigma)
            gaps.append(gap)
            learners.append(plan_table(tree, plan))
        # who faces population 0 plays the seat of the last one
        return jnp.stack(sigmas), jnp.stack(learners[::-1]), jnp.stack(gaps)

    def init(key: Array) -> AnytimeState:
        del key  # one uniform policy each
        uniform = jnp.broadcast_to(uniform_table(tree), (populations, 1, *tree.legal.shape))
        store = new_store(tabular_policies(game, uniform).params, config.capacity)
        sigma = store.active.astype(jnp.float32)
        return AnytimeState(store, sigma, sigma, uniform[:, 0], jnp.int32(0))

    def step(state: AnytimeState, key: Array) -> tuple[AnytimeState, ExplicitMetrics]:
        before, cost = int(state.step), Cost()
        if config.newcomer == "response" or before == 0:
            tables = tables_of(game, policies(state.store))
            newcomers = exact_replies(key, game, tables, state.store.active, state.sigma, config.ties)
            cost = cost.plus(Cost(tree_walks=populations))
        else:
            newcomers = state.learner
        wide = _widened(state, room(state.store))
        params = policy_params(game, newcomers)
        store, _ = append(wide.store, params, np.ones(populations, bool))
        sigma, learner, gaps = solve(tables_of(game, policies(store)), store.active)
        average = running_mean(wide.sigma_average, sigma, before)
        inner = 0 if config.inner == "lp" else config.inner_steps
        metrics = explicit_metrics(
            cost.plus(Cost(tree_walks=int(store.active.sum()) + populations * inner)),
            store.active,
            parameter_bytes=nbytes(store.params),
            meta_bytes=nbytes((sigma, average, store.active, learner)),
            restricted_gap=gaps.sum(),
        )
        return AnytimeState(store, sigma, average, learner, state.step + 1), metrics

    def profile(state: AnytimeState, which: str = "iterate") -> Profile:
        return Profile(policies(state.store), chosen_mixture(which, state.sigma, state.sigma_average))

    return Solver(init, step, profile, jittable=False)


def _widened(state: AnytimeState, capacity: int) -> AnytimeState:
    sigma, average = (pad_slots(mixture, capacity, (1,)) for mixture in (state.sigma, state.sigma_average))
    return AnytimeState(widen(state.store, capacity), sigma, average, state.learner, state.step)
