"""Phase 3: the oracle proposes candidates, measures them, and adds the best to the anchors."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.config import GemsConfig
from gems_jax.estimation.monte_carlo import policy_returns
from gems_jax.gems.adaptive import selection_loss
from gems_jax.gems.meta_game import MetaSolution
from gems_jax.gems.state import GemsState, jacobian_weight
from gems_jax.host.stages import on_host
from gems_jax.meta import bandit as oracle
from gems_jax.meta import simplex
from gems_jax.policies.networks import jacobian_norm
from gems_jax.policies.population import Anchors, StackedPolicies, choose_slot
from gems_jax.rollout.views import View, at, each_population, rotate
from gems_jax.types import Array, Game, num_populations, stack_policies, take_slot


class Expansion(NamedTuple):
    """The anchor set after the oracle, [P, ...] throughout."""

    anchors: Array
    active: Array
    anchor_id: Array
    log_sigma: Array
    sigma: Array  # the played mixture: newcomers have no mass yet
    values: Array
    pool: Array
    parent: Array
    scores: Array
    pool_means: Array
    chosen: Array
    slot: Array  # [P, anchors_per_call], -1 when nothing was added
    error: Array  # [P], what the oracle's choice is expected to lose against the best of the pool
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
    """Phase 3: candidates by mutation and at random, the best by EB-UCB against sigma' joins. key: consumed.

    With `pool_anchors` the pool ends with the anchors [K] themselves: Z_t u {z*} = Z_t when one of them is the best.
    later_rounds: of the oracle, where their number is traced.
    """
    log_played = jnp.log(solution.sigma)

    def one(views: tuple[View, ...], p: Array | int, own_key: Array) -> Expansion:
        key_pool, key_oracle = jax.random.split(own_key)
        pool, parent = oracle.propose(
            key_pool,
            state.anchors[p],
            log_played[p],
            state.active[p],
            num_mutations=config.mutations,
            num_random=config.randoms,
            mutation_scale=config.mutation_scale,
            top_anchors=config.top_anchors,
        )
        fresh = len(pool)  # candidates that are not anchors yet
        valid = jnp.ones(fresh, bool)
        if config.pool_anchors:
            own, held = state.anchors[p], state.active[p]
            # Empty slots repeat an anchor, so that every row of the pool is a candidate that could be played.
            pool = jnp.concatenate([pool, jnp.where(held[:, None], own, own[jnp.argmax(held)][None])])
            parent = jnp.concatenate([parent, jnp.arange(config.capacity, dtype=jnp.int32)])
            valid = jnp.concatenate([valid, held])
        base = Expansion(
            anchors=state.anchors[p],
            active=state.active[p],
            anchor_id=state.anchor_id[p],
            log_sigma=solution.log_sigma[p],
            sigma=solution.sigma[p],
            values=solution.values[p],
            pool=pool,
            parent=parent,
            scores=jnp.zeros(len(pool)),
            pool_means=jnp.zeros(len(pool)),
            chosen=jnp.int32(-1),
            slot=jnp.full(config.anchors_per_call, -1, jnp.int32),
            error=jnp.float32(0.0),
            episodes=jnp.int32(0),
            env_steps=jnp.int32(0),
        )
        if len(pool) == 0:  # an ablation of the paper: the oracle adds nothing
            return base
        verdict = judge_pool(
            key_oracle, views, pool, valid, at(rotate(frozen, p), 0), rotate(opponents, p), rotate(log_played, p),
            Moment(state.step + 1, p), config, later_rounds,
        )  # fmt: skip
        grown = base._replace(
            scores=verdict.scores,
            pool_means=verdict.stats.mean,
            chosen=verdict.selected[0],
            error=selection_loss(verdict.stats, verdict.selected[0], solution.best[p]),
            episodes=jnp.sum(jnp.where(valid, verdict.stats.count, 0)) if config.pool_anchors else verdict.episodes,
            env_steps=verdict.env_steps,
        )
        for rank in range(config.anchors_per_call):
            best = verdict.selected[rank]
            added = insert(grown, rank, pool[best], verdict.stats.mean[best], config)
            grown = keep_unless(best < fresh, added, grown) if config.pool_anchors else added
        if config.pool_anchors:
            grown = grown._replace(chosen=jnp.where(verdict.selected[0] < fresh, grown.chosen, -1))
        due = state.step % config.oracle_period == 0
        return grown if config.oracle_period == 1 else keep_unless(due, grown, base)

    merged = each_population(game, one, jax.random.split(key, num_populations(game)))
    return merged._replace(episodes=merged.episodes.sum(), env_steps=merged.env_steps.sum())


def keep_unless(condition: Array, changed: Expansion, unchanged: Expansion) -> Expansion:
    """Selects `changed` where the condition [] holds, else `unchanged`."""
    return jax.tree.map(lambda new, old: jnp.where(condition, new, old), changed, unchanged)


class Moment(NamedTuple):
    """When the oracle is called, and for whom."""

    time: Array  # [] int32, the iteration, counted from 1
    population: Array | int


def judge_pool(
    key: Array,
    views: tuple[View, ...],
    pool: Array,
    valid: Array,
    frozen: Anchors,
    opponents: StackedPolicies,
    log_sigma: Array,
    moment: Moment,
    config: GemsConfig,
    later_rounds: Array | None = None,
) -> oracle.OracleResult:
    """Play every candidate of one population against sigma' and score it (eq:ucb-jac). key: consumed.

    valid [C]: candidates that exist. The others (slots without an anchor) score -inf, and their play is not counted.
    """
    key_play, key_jacobian = jax.random.split(key)
    candidates = stack_policies(frozen.generate, pool)

    def evaluate(round_key: Array, indices: Array, num_opponents: int) -> tuple[Array, Array]:
        returns, lengths = policy_returns(
            round_key,
            views,
            take_slot(candidates, indices),
            frozen.apply,
            opponents,
            log_sigma,
            num_opponents=num_opponents,
            episodes=config.oracle_episodes,
            sampling=config.opponents,
            common=config.common_random_numbers,
            wanted=valid[indices] if config.pool_anchors and on_host(views[0]) else None,
        )
        if config.pool_anchors:
            lengths = jnp.where(valid[indices][:, None], lengths, 0)
        return returns, lengths.sum()

    if config.jacobian == "none":
        norms = jnp.zeros(len(pool))
    else:
        keys = jax.random.split(key_jacobian, len(pool))
        norms = jax.vmap(lambda z, k: jacobian_norm(frozen.generator, frozen.theta, z, config.jacobian, k))(pool, keys)

    def score(score_key: Array, stats: oracle.Pulls) -> Array:
        scores = oracle.index_scores(
            config.index,
            score_key,
            stats,
            t=jnp.sum(stats.count),
            delta=oracle.delta_at(config.delta_rule, config.delta, moment.time),
            jacobian=norms,
            lambda_jacobian=jacobian_weight(config, *moment),
            range_term=config.range_term,
        )
        return jnp.where(valid, scores, -jnp.inf) if config.pool_anchors else scores

    return oracle.run_oracle(
        key_play,
        evaluate,
        len(pool),
        score=score,
        pulls_per_candidate=config.oracle_opponents,
        rounds=config.oracle_rounds,
        num_selected=config.anchors_per_call,
        later_rounds=later_rounds if config.oracle_rounds > 1 else None,
    )


def insert(grown: Expansion, rank: int, code: Array, mean: Array, config: GemsConfig) -> Expansion:
    """One newcomer into one population: a slot, an id, mass for the next update, none in the played mixture."""
    # An earlier newcomer of the same call has no mass yet and must not give way to this one.
    settled = grown.active & ~jnp.any(jnp.arange(len(grown.active))[None, :] == grown.slot[:, None], axis=0)
    sigma, values = (jnp.where(settled, of, jnp.inf) for of in (grown.sigma, grown.values))
    slot = choose_slot(grown.active, sigma, values, config.replacement)
    active = grown.active.at[slot].set(True)
    mass = 1.0 / jnp.sum(active) if config.new_mass == "uniform" else jnp.float32(config.mass_floor)
    others = simplex.masked_log_softmax(grown.log_sigma.at[slot].set(-jnp.inf), active)
    # The very first newcomer may replace the only anchor: then it has all the mass.
    alone = jnp.all(others == -jnp.inf)
    log_sigma = jnp.where(alone, others, others + jnp.log1p(-jnp.where(alone, 0.0, mass)))
    log_sigma = log_sigma.at[slot].set(jnp.where(alone, 0.0, jnp.log(mass)))
    return grown._replace(
        anchors=grown.anchors.at[slot].set(code),
        active=active,
        anchor_id=grown.anchor_id.at[slot].set(jnp.max(grown.anchor_id) + 1),
        log_sigma=log_sigma,
        sigma=without(grown.sigma[None], slot[None, None])[0],
        values=grown.values.at[slot].set(mean if config.new_value == "oracle_mean" else 0.0),
        slot=grown.slot.at[rank].set(slot.astype(jnp.int32)),
    )


def without(sigma: Array, slots: Array) -> Array:
    """sigma [P, K] with no mass on `slots` [P, n] (those >= 0), renormalised; untouched if nothing else has mass."""
    taken = jnp.any(jnp.arange(sigma.shape[1])[None, None, :] == slots[:, :, None], axis=1)
    rest = jnp.where(taken, 0.0, sigma)
    total = jnp.sum(rest, axis=1, keepdims=True)
    return jnp.where(total > 0.0, rest / jnp.where(total > 0.0, total, 1.0), sigma)
