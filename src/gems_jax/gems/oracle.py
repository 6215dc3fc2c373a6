"""Phase 3: the oracle proposes candidates, measures them, and adds the best to the anchors."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.config import GemsConfig
from gems_jax.estimation.monte_carlo import Sampling, policy_returns
from gems_jax.gems.adaptive import selection_loss
from gems_jax.gems.candidates import CandidatePool, OracleResult, propose_candidates, run_oracle
from gems_jax.gems.meta_game import MetaSolution
from gems_jax.gems.state import AnchorSet, GemsState, jacobian_weight
from gems_jax.host.stages import on_host
from gems_jax.meta import simplex
from gems_jax.meta.bandit import Pulls, confidence_parameter, index_scores
from gems_jax.policies.generator import jacobian_norm
from gems_jax.policies.population import Anchors, StackedPolicies, choose_slot
from gems_jax.rollout.views import View, map_populations, rotate, take_population
from gems_jax.types import Array, Game, PyTree, Struct, num_populations, stack_policies, take_slot


class OracleMetrics(Struct):
    """The candidates of an oracle call and how they scored, in scaled returns."""

    pool: Array  # [P, C, D], the candidates
    parent: Array  # [P, C] int32, slot of the mutated anchor, -1 for random codes
    scores: Array  # [P, C], -inf where `pool_anchors` has an empty slot
    pool_means: Array  # [P, C], mu-hat
    chosen: Array  # [P] int32, the best candidate, -1 if the oracle added nothing
    slot: Array  # [P] int32, slot of the best candidate, -1 if the oracle added nothing


class Expansion(NamedTuple):
    """Result of phase 3, [P, ...] except for the counts."""

    anchor_set: AnchorSet
    slots: Array  # [P, anchors_per_call], slots of the new anchors, -1 if nothing was added
    error: Array  # [P], expected loss of the oracle's choice relative to the best candidate
    metrics: OracleMetrics
    episodes: Array
    env_steps: Array


def expand(
    key: Array,
    state: GemsState,
    solution: MetaSolution,
    frozen: Anchors,
    opponents: StackedPolicies,
    game: Game,
    config: GemsConfig,
    later_rounds: Array | None = None,
) -> Expansion:
    """Runs phase 3: proposes candidates, scores them by EB-UCB against sigma', and adds the best to the anchors.

        z* = argmax_{z in Lambda_t} UCB(z) (eq:ucb-jac),    Z_{t+1} = Z_t + {z*}

    Args:
      key: typed PRNG key; consumed.
      state: the state before the iteration.
      solution: the result of phases 1 and 2; its `sigma` is sigma'.
      frozen: the generated population [P] of `state`.
      opponents: the policies of all anchors, [P, K, ...].
      game: the game that is played.
      config: settings. With `pool_anchors` the anchors are candidates too, and Z_t does not change if one of them wins.
      later_rounds: number of oracle rounds beyond the first, if it is traced.

    Returns:
      The anchor set after the insertion, with the candidates' scores.
    """
    log_played = jnp.log(solution.sigma)

    def expand_one(views: tuple[View, ...], p: Array | int, own_key: Array) -> Expansion:
        key_pool, key_oracle = jax.random.split(own_key)
        pool = propose_candidates(key_pool, state.anchors[p], log_played[p], state.active[p], config)
        unchanged = _keep_anchors(state, solution, pool, p, config)
        if not len(pool.codes):  # an ablation of the paper: the oracle adds nothing
            return unchanged
        result = _score_pool(
            key_oracle,
            views,
            pool,
            take_population(rotate(frozen, p), 0),
            rotate(opponents, p),
            rotate(log_played, p),
            _OracleCall(state.step + 1, p),
            config,
            later_rounds,
        )
        grown = _insert_best(unchanged, pool, result, config)
        grown = grown._replace(error=selection_loss(result.stats, result.selected[0], solution.best[p]))
        due = state.step % config.oracle_period == 0
        return grown if config.oracle_period == 1 else _select(due, grown, unchanged)

    expansion = map_populations(game, expand_one, jax.random.split(key, num_populations(game)))
    return expansion._replace(episodes=expansion.episodes.sum(), env_steps=expansion.env_steps.sum())


def _keep_anchors(
    state: GemsState, solution: MetaSolution, pool: CandidatePool, p: Array | int, config: GemsConfig
) -> Expansion:
    """The expansion of one population if the oracle adds nothing."""
    size, none = len(pool.codes), jnp.int32(-1)
    return Expansion(
        anchor_set=AnchorSet(
            anchors=state.anchors[p],
            active=state.active[p],
            anchor_id=state.anchor_id[p],
            log_sigma=solution.log_sigma[p],
            sigma=solution.sigma[p],
            values=solution.values[p],
        ),
        slots=jnp.full(config.anchors_per_call, -1, jnp.int32),
        error=jnp.float32(0.0),
        metrics=OracleMetrics(pool.codes, pool.parent, jnp.zeros(size), jnp.zeros(size), chosen=none, slot=none),
        episodes=jnp.int32(0),
        env_steps=jnp.int32(0),
    )


def _insert_best(before: Expansion, pool: CandidatePool, result: OracleResult, config: GemsConfig) -> Expansion:
    """Adds the selected candidates of one population that are not anchors yet."""
    anchor_set, slots = before.anchor_set, before.slots
    for rank in range(config.anchors_per_call):
        best = result.selected[rank]
        added, slot = _insert_anchor(anchor_set, slots, pool.codes[best], result.stats.mean[best], config)
        grown = (added, slots.at[rank].set(slot))
        if config.pool_anchors:
            grown = _select(best < pool.num_fresh, grown, (anchor_set, slots))
        anchor_set, slots = grown
    chosen, episodes = result.selected[0], result.episodes
    if config.pool_anchors:
        chosen = jnp.where(chosen < pool.num_fresh, chosen, -1)
        episodes = jnp.sum(jnp.where(pool.valid, result.stats.count, 0))
    metrics = before.metrics.replace(scores=result.scores, pool_means=result.stats.mean, chosen=chosen, slot=slots[0])
    return Expansion(anchor_set, slots, before.error, metrics, episodes, result.env_steps)


def _select(condition: Array, changed: PyTree, unchanged: PyTree) -> PyTree:
    """Selects `changed` if the condition [] holds, else `unchanged`."""
    return jax.tree.map(lambda new, old: jnp.where(condition, new, old), changed, unchanged)


class _OracleCall(NamedTuple):
    """Iteration and population of an oracle call."""

    time: Array  # [] int32, the iteration, counted from 1
    population: Array | int


def _score_pool(
    key: Array,
    views: tuple[View, ...],
    pool: CandidatePool,
    frozen: Anchors,
    opponents: StackedPolicies,
    log_sigma: Array,
    call: _OracleCall,
    config: GemsConfig,
    later_rounds: Array | None = None,
) -> OracleResult:
    """Plays every candidate of one population against sigma' [P, K] and scores it. key: consumed.

    Opponents and log_sigma are in the order of the views. Invalid candidates score -inf, and their env steps are not
    counted.
    """
    key_play, key_jacobian = jax.random.split(key)
    candidates = stack_policies(frozen.generate, pool.codes)

    def evaluate(round_key: Array, indices: Array, num_opponents: int) -> tuple[Array, Array]:
        played = StackedPolicies(take_slot(candidates, indices), frozen.apply)
        sampling = Sampling(num_opponents, config.oracle_episodes, config.opponents, config.common_random_numbers)
        wanted = pool.valid[indices] if config.pool_anchors and on_host(views[0]) else None
        returns, lengths = policy_returns(round_key, views, played, opponents, log_sigma, sampling, wanted)
        if config.pool_anchors:
            lengths = jnp.where(pool.valid[indices][:, None], lengths, 0)
        return returns, lengths.sum()

    norms = jnp.zeros(len(pool.codes))
    if config.jacobian != "none":
        keys = jax.random.split(key_jacobian, len(pool.codes))
        norms = jax.vmap(lambda z, k: jacobian_norm(frozen.generator, frozen.theta, z, config.jacobian, k))(
            pool.codes, keys
        )

    def score(score_key: Array, stats: Pulls) -> Array:
        scores = index_scores(
            config.index,
            score_key,
            stats,
            t=jnp.sum(stats.count),
            delta=confidence_parameter(config.delta_rule, config.delta, call.time),
            jacobian=norms,
            lambda_jacobian=jacobian_weight(config, *call),
            range_term=config.range_term,
        )
        return jnp.where(pool.valid, scores, -jnp.inf) if config.pool_anchors else scores

    return run_oracle(
        key_play,
        evaluate,
        len(pool.codes),
        score=score,
        pulls_per_candidate=config.oracle_opponents,
        rounds=config.oracle_rounds,
        num_selected=config.anchors_per_call,
        later_rounds=later_rounds,
    )


def _insert_anchor(
    anchor_set: AnchorSet, new_slots: Array, code: Array, mean: Array, config: GemsConfig
) -> tuple[AnchorSet, Array]:
    """Inserts one anchor into one population: a slot, an id, mass for the next update, none in the played mixture.

    new_slots: slots [n] of new anchors of the same call, -1 for none. They have no mass yet and must not be replaced.
    """
    settled = anchor_set.active & ~contains_slot(new_slots, len(anchor_set.active))
    sigma, values = (jnp.where(settled, of, jnp.inf) for of in (anchor_set.sigma, anchor_set.values))
    slot = choose_slot(anchor_set.active, sigma, values, config.replacement)
    active = anchor_set.active.at[slot].set(True)
    mass = 1.0 / jnp.sum(active)
    others = simplex.masked_log_softmax(anchor_set.log_sigma.at[slot].set(-jnp.inf), active)
    # The first new anchor may replace the only anchor: then it gets all the mass.
    alone = jnp.all(others == -jnp.inf)
    log_sigma = jnp.where(alone, others, others + jnp.log1p(-jnp.where(alone, 0.0, mass)))
    grown = AnchorSet(
        anchors=anchor_set.anchors.at[slot].set(code),
        active=active,
        anchor_id=anchor_set.anchor_id.at[slot].set(jnp.max(anchor_set.anchor_id) + 1),
        log_sigma=log_sigma.at[slot].set(jnp.where(alone, 0.0, jnp.log(mass))),
        sigma=remove_mass(anchor_set.sigma[None], slot[None, None])[0],
        values=anchor_set.values.at[slot].set(mean if config.new_value == "oracle_mean" else 0.0),
    )
    return grown, slot.astype(jnp.int32)


def remove_mass(sigma: Array, slots: Array) -> Array:
    """Sets the mass of slots to 0 and renormalizes.

    Args:
      sigma: mixtures, [P, K].
      slots: slots to clear, [P, n] int32; negative entries are ignored.

    Returns:
      Mixtures [P, K]; rows that would have no mass left do not change.
    """
    taken = jax.vmap(contains_slot, in_axes=(0, None))(slots, sigma.shape[1])
    rest = jnp.where(taken, 0.0, sigma)
    total = jnp.sum(rest, axis=1, keepdims=True)
    return jnp.where(total > 0.0, rest / jnp.where(total > 0.0, total, 1.0), sigma)


def contains_slot(slots: Array, size: int) -> Array:
    """Computes the mask [size] of the indices that are among `slots` [n]."""
    return jnp.any(jnp.arange(size)[None, :] == slots[:, None], axis=0)
