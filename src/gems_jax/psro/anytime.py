"""Anytime and Efficient PSRO: meta-games that are restricted for one side only.

For every population q, solve the game in which q mixes its policies and the opponent is unrestricted
(`extensive/restricted.py`); q plays the resulting mixture. No payoff table is needed, and NashConv of the profile
cannot increase with more policies, up to the inner solver's gap: it is the minimum that the populations allow (the
population exploitability).

    apsro   the best response to the others' mixture joins                                      (McAleer et al. 2022)
            With inner="lp" this is the exact form, Anytime Double Oracle (ADO).
    epsro   the opponent's own (averaged) strategy in that game joins                               (Zhou et al. 2022)
            A reconstruction: the constants of the inner loop and the distinction from APSRO are this project's.

With exact responses the inner games are solved on the tree. With PPO they are learned (`psro/contest.py`): the
opponent is a network, and q's mixture follows multiplicative weights on the network's returns against each policy. That
network joins (EPSRO), or the network after more rounds against q's averaged mixture (APSRO). Network and weights
continue from iteration to iteration. The network has an entropy bonus: without one it saturates on the first cycle, the
weights respond to a policy that no longer learns, and the averaged mixture is exploitable although the population
contains an equilibrium (rock-paper-scissors: NashConv 0.8 to 1.9 of 2).

Two-player zero-sum games.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.config import ABOVE_ZERO, OPEN_FRACTION, choice, real, size
from gems_jax.extensive.infosets import tables_of
from gems_jax.extensive.restricted import (
    inner_gap,
    opponent_sums,
    plan_table,
    restricted_equilibrium,
    solve_by_no_regret,
)
from gems_jax.extensive.values import GameTree, build_tree
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.base import Cost, Iteration, Store, StoreState, family_solver, new_state, stack_slots
from gems_jax.psro.contest import (
    ContestSettings,
    Weights,
    contest,
    continue_contest,
    initial_weights,
)
from gems_jax.psro.ppo import make_oracle, training_cost
from gems_jax.psro.responses import Mixture, Oracle, policy_params
from gems_jax.types import Array, Game, PyTree, Solver


class AnytimeConfig(ContestSettings):
    """Settings of Anytime and Efficient PSRO."""

    capacity: int = size(8)
    """Initial number of slots per population; doubled whenever they are full."""
    newcomer: Literal["response", "unrestricted"] = choice("response")
    """Newcomer: the best response to the others' mixture (APSRO), or the unrestricted strategy (EPSRO)."""
    inner: Literal["lp", "mwu", "rm_plus"] = choice("lp")
    """Exact solver of a restricted game: a linear program, or a no-regret rule against best responses."""
    inner_steps: int = size(1000)
    """Steps of the no-regret rule."""
    step_size: float = real(0.1, ABOVE_ZERO)
    """Step size of the rule mwu, in units of the game's returns (exact form)."""
    response_fraction: float = real(0.25, OPEN_FRACTION)
    """Fraction of an iteration's rounds for the best response; the rest solves the restricted games."""
    ties: Literal["robust", "random", "novel", "lowest"] = choice("robust")
    """Tie-breaking rule of exact responses (see psro/responses.py)."""

    @property
    def least_rounds(self) -> int:
        """Minimum rounds per iteration: one for the restricted games, one for a response."""
        return 2 if self.newcomer == "response" else 1


APSRO = AnytimeConfig(inherit=True, entropy_weight=0.02, retained=0.93)
EPSRO = APSRO.replace(newcomer="unrestricted", inner="mwu", weight_step=8.0)


class AnytimeState(StoreState):
    """Stored policies, and the two sides of the last meta-games."""

    learner: PyTree  # [P, ...], the unrestricted strategies of the last meta-games
    weights: Weights | tuple[()]  # [P, K], of the last meta-games; () in the exact form


@partial(jax.jit, static_argnames=("population", "rule", "num_steps"))
def _approach(
    tree: GameTree, tables: Array, active: Array, step_size: Array, population: int, rule: str, num_steps: int
) -> tuple[Array, Array, Array]:
    """Solves the game restricted to `tables` [K, I, A] by a no-regret rule: sigma [K], plan [Q] and gap []."""
    sums = jax.vmap(lambda table: opponent_sums(tree, table, population))(tables)
    sigma, plan = solve_by_no_regret(tree, sums, active, rule, num_steps, step_size)
    return sigma, plan, inner_gap(tree, sums, active, sigma, plan)


class Inner(NamedTuple):
    """Solutions of the restricted games of all populations."""

    sigma: Array  # [P, K], of the restricted sides
    learner: PyTree  # [P, ...], of the unrestricted sides
    gap: Array | float  # [], remaining gain of both sides; 0 if unknown
    cost: Cost
    weights: Weights | tuple[()] = ()  # [P, K], of the restricted sides; () in the exact form


# (key, policies, active, previous state, rounds)
Solve = Callable[[Array, StackedPolicies, Array, "AnytimeState", int], Inner]


def solve_exactly(game: Game, config: AnytimeConfig) -> Solve:
    """Makes a solver of the restricted games on the tree; learners are tabular policies."""
    tree = build_tree(game)
    populations, iterated = tree.num_populations, config.inner != "lp"

    def solve(key: Array, policies: StackedPolicies, active: Array, state: AnytimeState, rounds: int) -> Inner:
        del key, state, rounds
        tables, sigmas, strategies, gaps = tables_of(game, policies), [], [], []
        for population in range(populations):
            inner = (tables[population], active[population])
            if iterated:
                step_size = jnp.float32(config.step_size)
                sigma, plan, gap = _approach(tree, *inner, step_size, population, config.inner, config.inner_steps)
            else:
                sigma, plan, gap = restricted_equilibrium(tree, *inner, population)
            sigmas.append(sigma)
            gaps.append(gap)
            strategies.append(plan_table(tree, plan))
        # the opponent of population 0 plays the seat of the last population
        walks = int(active.sum()) + populations * (config.inner_steps if iterated else 0)
        learners = policy_params(game, jnp.stack(strategies[::-1]))
        return Inner(jnp.stack(sigmas), learners, jnp.stack(gaps).sum(), Cost(tree_walks=walks))

    return solve


def solve_by_learning(game: Game, config: AnytimeConfig, oracle: Oracle) -> Solve:
    """Makes a solver of the restricted games by episodes, with fresh or inherited learners (`inherit`)."""

    def solve(key: Array, policies: StackedPolicies, active: Array, state: AnytimeState, rounds: int) -> Inner:
        key_first, key_play = jax.random.split(key)
        start = state.learner if config.inherit else oracle.first(key_first)
        learning, step_size, weights = continue_contest(game, config, state.weights, active, int(state.step))
        student, weights, metrics = contest(
            key_play, game, learning, jnp.int32(rounds), policies, active, start, step_size, config.floor, weights
        )
        return Inner(weights.average, student, 0.0, training_cost(learning, metrics, rounds), weights)

    return solve


def anytime_solver(game: Game, config: AnytimeConfig) -> Solver:
    """Makes the solver of APSRO or EPSRO, by `config.newcomer`. Its step runs in Python."""
    config = config.for_game(game)
    oracle = make_oracle(game, config, ties=config.ties)
    solve = solve_exactly(game, config) if config.oracle == "exact" else solve_by_learning(game, config, oracle)

    def first(key: Array) -> AnytimeState:
        learner = oracle.first(key)
        store = Store.create(stack_slots(oracle.policy(learner)), config.capacity)
        weights = () if config.oracle == "exact" else initial_weights(store.active)
        sigma = store.active.astype(jnp.float32)
        return new_state(AnytimeState, game, config, sigma, store=store, learner=learner, weights=weights)

    def iterate(state: AnytimeState, key: Array, rounds: int) -> tuple[AnytimeState, Iteration]:
        key_respond, key_solve = jax.random.split(key)
        if config.newcomer == "response" or int(state.step) == 0:
            spent = max(round(rounds * float(config.response_fraction)), 1)
            mixture = Mixture(oracle.population(state.store.params), state.store.active, state.sigma)
            response = oracle.respond(key_respond, mixture, state.learner, rounds=spent)
            newcomers, cost = response.params, response.cost
        else:
            newcomers, cost, spent = oracle.policy(state.learner), Cost(), 0
        left = max(rounds - spent, 1)
        store, _ = state.store.widen().append(newcomers)
        inner = solve(key_solve, oracle.population(store.params), store.active, state, left)
        after = state.replace(store=store, sigma=inner.sigma, learner=inner.learner, weights=inner.weights)
        return after, after.finish(cost.plus(inner.cost), spent + left, inner.learner, inner.weights, gap=inner.gap)

    return family_solver(config, first, iterate, oracle.profile)
