"""Self-Play PSRO: besides a best response, an approximately optimal mixed policy joins in every iteration.

As in Anytime PSRO population q mixes its policies against an opponent who may do anything, here called beta. But among
q's policies is one that is still learning, nu, against that opponent; it moves as beta moves, and its *time average*
is a strategy that is hard to exploit. Per iteration and population

    nu    the average over the inner game of a policy that learns against beta of the other side
    beta  the opponent itself, who learns against the mixture of the other side, its nu included

join, and the mixture over the old policies and nu is what is played.                          (McAleer et al. 2022)

Exact form: regret matching+ over the policies and nu for `inner_steps` steps; beta is a best response to the mixture of
the step, nu one to that beta; the average of all nu joins, and a best response to the averaged mixture; the mixture is
then that of the linear program over what the population holds (`extensive/restricted.py`).
Learned form: beta and nu take turns in a few blocks, and the average of nu's is a network distilled from where nu
stood after each of them (the original: from a reservoir of all that it did). A share `floor` of beta's opponents is
drawn from all policies alike, nu included, as the original forces nu to be played. Learners and weights continue from
iteration to iteration, with step sizes that fall. The published output is the averaged mixture of the last inner game,
the profile `iterate`; `average` is its mean over all iterations and trails it. Two-player zero-sum games.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.config import ABOVE_ZERO, SHARE, real, size
from gems_jax.extensive.infosets import tables_of
from gems_jax.extensive.restricted import opponent_sums, plan_table, restricted_equilibrium
from gems_jax.extensive.sequence_form import backward, by_infoset, by_sequence, leaf_gains, leaf_reach
from gems_jax.extensive.values import GameTree, build_tree, reach, uniform_table
from gems_jax.meta.simplex import masked_normalise
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.budget import Pace, new_pace, rounds_of, settle
from gems_jax.psro.contest import (
    ContestSettings,
    Weights,
    anneal_learning,
    annealing,
    carry_weights,
    contest,
    initial_weights,
)
from gems_jax.psro.cost import Cost, ExplicitMetrics, explicit_metrics
from gems_jax.psro.distil import distil, distil_cost, new_pupil
from gems_jax.psro.ppo import ppo_oracle, training_cost
from gems_jax.psro.responses import Mixture, Oracle, exact, exact_oracle, policy_params
from gems_jax.psro.settings import learning_of
from gems_jax.psro.store import Store, append, chosen_mixture, new_store, pad_slots, room, running_mean, widen
from gems_jax.types import Array, Game, Profile, PyTree, Solver, Struct, nbytes, num_players, num_populations


class SpPsroConfig(ContestSettings):
    """Settings of Self-Play PSRO."""

    capacity: int = size(8)
    """Policies per population that there is room for at first; doubled whenever that is full."""
    inner_steps: int = size(300)
    """Steps of regret matching (exact form)."""
    blocks: int = size(4)
    """Turns that beta and nu take in an iteration (learned form)."""
    distil_share: float = real(0.05, SHARE)
    """Share of the rounds that the distillation takes, at least one (learned form)."""
    distil_rate: float = real(0.05, ABOVE_ZERO)
    """Step size of the distillation's Adam."""


SP_PSRO = SpPsroConfig(inherit=True, entropy_weight=0.02)


class SpPsroState(Struct):
    store: Store
    sigma: Array  # [P, K]
    sigma_average: Array  # [P, K], over the iterations so far
    learners: PyTree  # [P, ...], the last beta's and nu's
    weights: Weights | tuple[()]  # [P, K], of the last inner games; () in the exact form
    pace: Pace
    step: Array  # [] int32


@partial(jax.jit, static_argnames=("population", "num_steps"))
def self_play_average(
    tree: GameTree, tables: Array, active: Array, population: int, num_steps: int
) -> tuple[Array, Array]:
    """The average nu [I, A] of a population that holds tables [K, I, A], and the averaged mixture [K + 1], nu last."""
    held = jnp.where(active[:, None], jax.vmap(lambda table: opponent_sums(tree, table, population))(tables), 0.0)
    allowed = jnp.append(active, True)

    def best(values: Array) -> Array:
        """The table that takes the best of values [Q] everywhere."""
        return jax.nn.one_hot(
            jnp.argmax(jnp.where(tree.legal, by_infoset(tree, values), -jnp.inf), axis=1), tree.num_actions
        )

    def answer(table: Array) -> Array:
        """Everybody's best response to a table, [I, A]."""
        weights = reach(tree, table)
        reaches = jnp.stack([leaf_reach(tree, weights, player) for player in range(2)])
        return best(backward(tree, by_sequence(tree, leaf_gains(tree, reaches))))

    Carry = tuple[Array, Array, Array, Array]

    def step(carry: Carry, t: Array) -> tuple[Carry, None]:
        regrets, nu, mixtures, nus = carry
        sums = jnp.concatenate([held, opponent_sums(tree, nu, population)[None]])
        sigma = masked_normalise(regrets, allowed)
        beta = best(backward(tree, jnp.einsum("k,kq->q", sigma, sums, precision="highest")))
        payoffs = -jnp.einsum("kq,q->k", sums, reach(tree, beta), precision="highest")
        regrets = jnp.where(allowed, jnp.maximum(regrets + payoffs - jnp.sum(sigma * payoffs), 0.0), 0.0)
        nu, weight = answer(beta), 2.0 / (t + 1.0)
        return (regrets, nu, mixtures + (sigma - mixtures) * weight, nus + (reach(tree, nu) - nus) * weight), None

    start = (jnp.zeros(allowed.shape), uniform_table(tree), jnp.zeros(allowed.shape), reach(tree, uniform_table(tree)))
    (_, _, mixtures, nus), _ = jax.lax.scan(step, start, jnp.arange(1.0, num_steps + 1.0))
    return plan_table(tree, nus), masked_normalise(mixtures, allowed)


class Joined(NamedTuple):
    """What an iteration leads to: everybody has got its nu, then its beta."""

    store: Store
    sigma: Array  # [P, K]
    cost: Cost
    learners: PyTree  # beta's and nu's
    weights: Weights | tuple[()] = ()  # [P, K], of the inner games; () in the exact form
    rounds: int = 1  # of learning, one population's


def play_exactly(game: Game, config: SpPsroConfig, oracle: Oracle, key: Array, store: Store) -> Joined:
    """An iteration on the tree; the store has room for two. key: consumed."""
    tree, populations = build_tree(game), range(len(store.active))
    tables = tables_of(game, StackedPolicies(store.params, oracle.network))
    found = [self_play_average(tree, tables[p], store.active[p], p, config.inner_steps) for p in populations]
    store, fresh = append(store, policy_params(game, jnp.stack([nu for nu, _ in found])), np.ones(len(found), bool))
    sigma = jnp.stack([jnp.where(new, mix[-1], mix[:-1]) for (_, mix), new in zip(found, fresh, strict=True)])
    beta = oracle.respond(key, Mixture(StackedPolicies(store.params, oracle.network), store.active, sigma))
    store, _ = append(store, beta.params, np.ones(len(found), bool))
    tables = tables_of(game, StackedPolicies(store.params, oracle.network))
    sigma = jnp.stack([restricted_equilibrium(tree, tables[p], store.active[p], p)[0] for p in populations])
    return Joined(store, sigma, beta.cost.plus(Cost(tree_walks=2 * config.inner_steps * len(found))), ())


def play_by_learning(
    game: Game, config: SpPsroConfig, key: Array, store: Store, state: SpPsroState, rounds: int
) -> Joined:
    """Run an iteration of about `rounds` rounds: beta's, as many of nu's, and those of the distillation.

    Args:
        game: a two-player zero-sum game.
        config: settings without `auto`.
        key: consumed.
        store: the policies of `state`, with room for two more.
        state: learners, weights and iteration to continue from.
        rounds: of one population's learning.

    Returns:
        The population with the average of nu and beta, the averaged mixture, and what the next iteration needs.
    """
    factor, everyone = annealing(config, int(state.step)), np.ones(num_populations(game), bool)
    learning = anneal_learning(learning_of(config, game), factor)
    oracle = ppo_oracle(game, learning)
    last = max(round(rounds * float(config.distil_share)), 1)
    each = max((rounds - last) // (2 * config.blocks), 1)
    key_beta, key_nu, key_distil, *keys = jax.random.split(key, 3 + config.blocks)
    beta, nu = state.learners if config.inherit else (oracle.first(key_beta), oracle.first(key_nu))
    alone, cost, stood = jnp.ones((num_populations(game), 1)), Cost(), []
    assert isinstance(state.weights, Weights)
    active = append(store, oracle.policy(nu), everyone)[0].active
    weights = carry_weights(state.weights, active, config.warm_start, config.retained)
    for block_key in keys:
        key_contest, key_study = jax.random.split(block_key)
        held, _ = append(store, oracle.policy(nu), everyone)
        beta, weights, metrics = contest(
            key_contest, game, learning, jnp.int32(each), StackedPolicies(held.params, oracle.network), held.active,
            beta, config.weight_step * factor, config.floor, weights,
        )  # fmt: skip
        against = StackedPolicies(jax.tree.map(lambda leaf: leaf[:, None], oracle.policy(beta)), oracle.network)
        response = oracle.respond(key_study, Mixture(against, alone > 0, alone), nu, rounds=each)
        nu, cost = response.learner, cost.plus(training_cost(learning, metrics, each)).plus(response.cost)
        stood.append(oracle.policy(nu))
    teachers = StackedPolicies(jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=1), *stood), oracle.network)
    alike = jnp.ones((num_populations(game), config.blocks))
    average, metrics = distil(
        key_distil, game, learning, jnp.int32(last), teachers, alike, jnp.zeros((config.blocks, 0)), against, alone,
        new_pupil(stood[-1], learning), config.distil_rate,
    )  # fmt: skip
    for newcomer in (average.params["policy"], oracle.policy(beta)):
        store, _ = append(store, newcomer, everyone)
    cost = cost.plus(distil_cost(learning, metrics, last))
    return Joined(store, weights.average, cost, (beta, nu), weights, 2 * each * config.blocks + last)


def sp_psro_solver(game: Game, config: SpPsroConfig) -> Solver:
    """Self-Play PSRO. Its step runs in Python."""
    if num_players(game) != 2 or not game.zero_sum:
        raise ValueError(f"sp_psro is for two-player zero-sum games: {game.name!r} is not one; use psro")
    config = config.for_game(game)
    if config.oracle == "exact":
        oracle = exact(game, exact_oracle(game))
    else:
        oracle = ppo_oracle(game, learning_of(config, game))

    def init(key: Array) -> SpPsroState:
        key_first, key_beta, key_nu = jax.random.split(key, 3)
        one = jax.tree.map(lambda leaf: leaf[:, None], oracle.policy(oracle.first(key_first)))
        store = new_store(one, max(config.capacity, 4))
        sigma = store.active.astype(jnp.float32)
        learners = () if config.oracle == "exact" else (oracle.first(key_beta), oracle.first(key_nu))
        weights = () if config.oracle == "exact" else initial_weights(store.active)
        return SpPsroState(store, sigma, sigma, learners, weights, new_pace(game, config), jnp.int32(0))

    def step(state: SpPsroState, key: Array) -> tuple[SpPsroState, ExplicitMetrics]:
        before, rounds = int(state.step), int(rounds_of(state.pace, config))
        store = widen(state.store, room(state.store, 2))
        if config.oracle == "exact":
            after = play_exactly(game, config, oracle, key, store)
        else:
            after = play_by_learning(game, config, key, store, state, rounds)
        past = pad_slots(state.sigma_average, store.capacity, (1,))
        average, cost = running_mean(past, after.sigma, before), after.cost
        metrics = explicit_metrics(
            cost,
            after.store.active,
            parameter_bytes=nbytes((after.store.params, after.learners)),
            meta_bytes=nbytes((after.sigma, average, after.store.active, after.weights)),
        )
        pace = settle(state.pace, config, after.rounds, cost.training_steps, cost.env_steps)
        return SpPsroState(
            after.store, after.sigma, average, after.learners, after.weights, pace, state.step + 1
        ), metrics

    def profile(state: SpPsroState, which: str = "iterate") -> Profile:
        policies = StackedPolicies(state.store.params, oracle.network)
        return Profile(policies, chosen_mixture(which, state.sigma, state.sigma_average))

    return Solver(init, step, profile, jittable=False)
