"""Self-Play PSRO: besides a best response, an approximately optimal mixed policy joins in every iteration.

As in Anytime PSRO population q mixes its policies against an unrestricted opponent, beta. In addition, one of q's
policies, nu, learns against that opponent. It adapts as beta adapts, and its *time average* is hard to exploit. Per
iteration and population

    nu    the average over the inner game of a policy that learns against beta of the other side
    beta  the opponent itself, which learns against the mixture of the other side, including its nu

join, and the mixture over the old policies and nu is played.                                  (McAleer et al. 2022)

Exact form: regret matching+ over the policies and nu for `inner_steps` steps; beta is a best response to the mixture of
the step, nu one to that beta; the average of all nu joins, and a best response to the averaged mixture; the mixture is
then that of the linear program over what the population holds (`extensive/restricted.py`).
Learned form: beta and nu alternate in a few blocks, and the average of nu is a network distilled from nu after each of
them (in the original from a reservoir of all its decisions). A fraction `floor` of beta's opponents is drawn uniformly
from all policies, including nu, as the original forces nu to be played. Learners and weights continue from iteration to
iteration, with decreasing step sizes. The published output is the averaged mixture of the last inner game, the profile
`iterate`; `average` is its mean over all iterations and lags behind. Two-player zero-sum games.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from gems_jax.config import ABOVE_ZERO, FRACTION, real, size
from gems_jax.extensive.infosets import tables_of
from gems_jax.extensive.restricted import opponent_sums, plan_table, restricted_equilibrium
from gems_jax.extensive.sequence_form import group_by_infoset, leaf_gains, leaf_reach, sum_by_sequence, sweep_backward
from gems_jax.extensive.values import GameTree, build_tree, reach, uniform_table
from gems_jax.meta.simplex import masked_normalize
from gems_jax.psro.base import Cost, Iteration, Store, StoreState, family_solver, new_state, stack_slots
from gems_jax.psro.contest import ContestSettings, Weights, contest, continue_contest, initial_weights
from gems_jax.psro.distil import Teachers, distil, distil_cost, new_pupil
from gems_jax.psro.ppo import make_oracle, ppo_oracle, training_cost
from gems_jax.psro.responses import Mixture, Oracle, policy_params
from gems_jax.types import Array, Game, Profile, PyTree, Solver, num_populations


class SpPsroConfig(ContestSettings):
    """Settings of Self-Play PSRO."""

    capacity: int = size(8)
    """Initial number of slots per population; doubled whenever they are full."""
    inner_steps: int = size(300)
    """Steps of regret matching (exact form)."""
    blocks: int = size(4)
    """Blocks per iteration, in which beta and nu alternate (learned form)."""
    distil_share: float = real(0.05, FRACTION)
    """Fraction of the rounds for the distillation, at least one round (learned form)."""
    distil_rate: float = real(0.05, ABOVE_ZERO)
    """Step size of the distillation's Adam."""

    @property
    def least_rounds(self) -> int:
        """Minimum rounds per iteration: two per block, one for the distillation."""
        return 2 * self.blocks + 1


SP_PSRO = SpPsroConfig(inherit=True, entropy_weight=0.02)


class SpPsroState(StoreState):
    """Stored policies, and the two sides of the last inner games."""

    learners: PyTree  # [P, ...], the last learners beta and nu
    weights: Weights | tuple[()]  # [P, K], of the last inner games; () in the exact form


@partial(jax.jit, static_argnames=("population", "num_steps"))
def self_play_average(
    tree: GameTree, tables: Array, active: Array, population: int, num_steps: int
) -> tuple[Array, Array]:
    """Plays the inner game of a population on the tree.

    Args:
      tree: tree of a two-player zero-sum game.
      tables: policies [K, I, A] of the population.
      active: mask of the policies, [K].
      population: the population.
      num_steps: steps of regret matching+.

    Returns:
      The average of nu, [I, A], and the averaged mixture [K + 1], with nu last.
    """
    held = jnp.where(active[:, None], jax.vmap(lambda table: opponent_sums(tree, table, population))(tables), 0.0)
    allowed = jnp.append(active, True)

    def best(values: Array) -> Array:
        """Returns the table that plays the action of highest value [Q] everywhere."""
        return jax.nn.one_hot(
            jnp.argmax(jnp.where(tree.legal, group_by_infoset(tree, values), -jnp.inf), axis=1), tree.num_actions
        )

    def answer(table: Array) -> Array:
        """Computes every player's best response to a table, [I, A]."""
        weights = reach(tree, table)
        reaches = jnp.stack([leaf_reach(tree, weights, player) for player in range(2)])
        return best(sweep_backward(tree, sum_by_sequence(tree, leaf_gains(tree, reaches))))

    Carry = tuple[Array, Array, Array, Array]

    def step(carry: Carry, t: Array) -> tuple[Carry, None]:
        regrets, nu, mixtures, nus = carry
        sums = jnp.concatenate([held, opponent_sums(tree, nu, population)[None]])
        sigma = masked_normalize(regrets, allowed)
        beta = best(sweep_backward(tree, jnp.einsum("k,kq->q", sigma, sums, precision="highest")))
        payoffs = -jnp.einsum("kq,q->k", sums, reach(tree, beta), precision="highest")
        regrets = jnp.where(allowed, jnp.maximum(regrets + payoffs - jnp.sum(sigma * payoffs), 0.0), 0.0)
        nu, weight = answer(beta), 2.0 / (t + 1.0)
        return (regrets, nu, mixtures + (sigma - mixtures) * weight, nus + (reach(tree, nu) - nus) * weight), None

    start = (jnp.zeros(allowed.shape), uniform_table(tree), jnp.zeros(allowed.shape), reach(tree, uniform_table(tree)))
    (_, _, mixtures, nus), _ = jax.lax.scan(step, start, jnp.arange(1.0, num_steps + 1.0))
    return plan_table(tree, nus), masked_normalize(mixtures, allowed)


def play_exactly(
    game: Game, config: SpPsroConfig, oracle: Oracle, state: SpPsroState, key: Array
) -> tuple[SpPsroState, Cost]:
    """Runs an iteration on the tree. key: consumed."""
    tree, store = build_tree(game), state.store.widen(2)
    populations = range(len(store.active))
    tables = tables_of(game, oracle.population(store.params))
    found = [self_play_average(tree, tables[p], store.active[p], p, config.inner_steps) for p in populations]
    store, fresh = store.append(policy_params(game, jnp.stack([nu for nu, _ in found])))
    sigma = jnp.stack([jnp.where(new, mix[-1], mix[:-1]) for (_, mix), new in zip(found, fresh, strict=True)])
    beta = oracle.respond(key, Mixture(oracle.population(store.params), store.active, sigma))
    store, _ = store.append(beta.params)
    tables = tables_of(game, oracle.population(store.params))
    sigma = jnp.stack([restricted_equilibrium(tree, tables[p], store.active[p], p)[0] for p in populations])
    cost = beta.cost.plus(Cost(tree_walks=2 * config.inner_steps * len(found)))
    return state.replace(store=store, sigma=sigma), cost


def play_by_learning(
    game: Game, config: SpPsroConfig, oracle: Oracle, state: SpPsroState, key: Array, rounds: int
) -> tuple[SpPsroState, Cost, int]:
    """Runs an iteration of about `rounds` rounds: beta's, as many of nu's, and those of the distillation.

    Args:
      game: a two-player zero-sum game.
      config: settings without `auto`.
      oracle: oracle of learned policies.
      state: state to continue from.
      key: typed PRNG key; consumed.
      rounds: rounds of learning of one population.

    Returns:
      The state with the average of nu and beta in the store and the averaged mixture, the cost, and the rounds taken.
    """
    last = max(round(rounds * float(config.distil_share)), 1)
    each = max((rounds - last) // (2 * config.blocks), 1)
    key_beta, key_nu, key_distil, *keys = jax.random.split(key, 3 + config.blocks)
    beta, nu = state.learners if config.inherit else (oracle.first(key_beta), oracle.first(key_nu))
    store = state.store.widen(2)
    active = store.append(oracle.policy(nu))[0].active
    learning, step_size, weights = continue_contest(game, config, state.weights, active, int(state.step))
    annealed = ppo_oracle(game, learning)
    alone, cost, past = jnp.ones((num_populations(game), 1)), Cost(), []
    for block_key in keys:
        key_contest, key_study = jax.random.split(block_key)
        held = oracle.population(store.append(oracle.policy(nu))[0].params)
        beta, weights, metrics = contest(
            key_contest, game, learning, jnp.int32(each), held, active, beta, step_size, config.floor, weights
        )
        against = oracle.population(stack_slots(oracle.policy(beta)))
        response = annealed.respond(key_study, Mixture(against, alone > 0, alone), nu, rounds=each)
        nu, cost = response.learner, cost.plus(training_cost(learning, metrics, each), response.cost)
        past.append(oracle.policy(nu))
    teachers = Teachers(
        oracle.population(stack_slots(*past)),
        jnp.ones((num_populations(game), config.blocks)),
        jnp.zeros((config.blocks, 0)),
    )
    average, metrics = distil(
        key_distil, game, learning, jnp.int32(last), teachers, Profile(against, alone),
        new_pupil(past[-1], learning), config.distil_rate,
    )  # fmt: skip
    for newcomer in (average.params["policy"], oracle.policy(beta)):
        store, _ = store.append(newcomer)
    cost = cost.plus(distil_cost(learning, metrics, last))
    after = state.replace(store=store, sigma=weights.average, learners=(beta, nu), weights=weights)
    return after, cost, 2 * each * config.blocks + last


def sp_psro_solver(game: Game, config: SpPsroConfig) -> Solver:
    """Makes the solver of Self-Play PSRO. Its step runs in Python."""
    config = config.for_game(game)
    oracle, learned = make_oracle(game, config), config.oracle == "ppo"

    def first(key: Array) -> SpPsroState:
        key_first, key_beta, key_nu = jax.random.split(key, 3)
        store = Store.create(stack_slots(oracle.policy(oracle.first(key_first))), max(config.capacity, 4))
        learners = (oracle.first(key_beta), oracle.first(key_nu)) if learned else ()
        weights = initial_weights(store.active) if learned else ()
        sigma = store.active.astype(jnp.float32)
        return new_state(SpPsroState, game, config, sigma, store=store, learners=learners, weights=weights)

    def iterate(state: SpPsroState, key: Array, rounds: int) -> tuple[SpPsroState, Iteration]:
        if learned:
            after, cost, spent = play_by_learning(game, config, oracle, state, key, rounds)
        else:
            (after, cost), spent = play_exactly(game, config, oracle, state, key), 1
        return after, after.finish(cost, spent, after.learners, after.weights)

    return family_solver(config, first, iterate, oracle.profile)
