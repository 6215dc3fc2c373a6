"""Phase 4 on stored episodes: ABR-TR by off-policy gradients, without new episodes.

The episodes that estimate the meta-game (`estimation/trajectories.py`) also estimate the return of the newest anchor,
as a function of theta:

    J(theta) = sum_b w_b R_b / sum_b w_b,
    w_b = c_b prod_{t: own} pi_{G_theta(z)}(a_t | o_t) / drawn_own(b) * prod_{others q} faced_q(b)

where faced_q(b) is the likelihood ratio of the opponent of population q: the frozen mixture sigma', or with weight rho
the newest anchor at this step. The gradient is the policy gradient of all stored episodes together, with the estimate
itself as baseline. Ratios are capped: beyond the cap an episode has no gradient, so that no step relies on decisions
that were rarely played. The trust region constrains the other anchors on stored decisions.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.config import GemsConfig
from gems_jax.estimation.estimated_game import JointGame
from gems_jax.estimation.trajectories import TrajectoryBuffer, evaluate_decisions
from gems_jax.gems.abr_task import Arena, make_learner
from gems_jax.gems.state import gems_networks
from gems_jax.learning.batches import Learner, masked_mean
from gems_jax.learning.magnets import anneal
from gems_jax.learning.ppo import Learned, apply_gradients, make_optimizer
from gems_jax.policies import distributions
from gems_jax.policies.tabular import TabularPolicy
from gems_jax.rollout.views import View, is_rotational, map_populations, players_of
from gems_jax.types import Array, PyTree, slot_axes, stack_policies

_LOWEST = -30.0  # least logarithm of a ratio
_KL_EPISODES = 32  # stored episodes in the trust region of networks; tables are constrained in every row


class ReplayMetrics(NamedTuple):
    """Measurements of training on stored episodes, [P, ...]."""

    improvement: Array  # [P], increase of the estimated return of the newest anchor
    entropy: Array  # [P], at the last step
    divergence: Array  # [P, K], KL of every anchor from its policy before training, on stored decisions


class _Stored(NamedTuple):
    """Stored episodes, common to all populations."""

    buffer: TrajectoryBuffer
    faced: Array  # [players, B], likelihood ratios of the frozen mixtures
    weights: Array  # [B], c
    filled: Array  # [] int32, number of stored episodes


def train_on_replay(
    key: Array, arena: Arena, learned: Learned, buffer: TrajectoryBuffer, joint: JointGame
) -> tuple[Learned, ReplayMetrics]:
    """Trains the newest anchors of all populations by `replay_steps` gradient steps on stored episodes.

        max_theta J(theta) - beta KL(theta || theta^-) + entropy_t H(pi),   J(theta) = sum_b w_b R_b / sum_b w_b

    This is eq:abr-tr_revised with the off-policy estimate J(theta) of the return of pi_{G_theta(z)}; the module's
    docstring defines the weights w_b.

    Args:
      key: typed PRNG key; consumed.
      arena: the anchors of all populations and their opponent mixtures.
      learned: parameters and optimizer states [P, ...] by part; those of the critic do not change.
      buffer: stored episodes, including those of this iteration.
      joint: the same episodes with the likelihood ratios of the frozen anchors.

    Returns:
      The generators after the last step, and measurements.
    """
    config, game = arena.config, arena.game
    owners = jnp.asarray(game.population_of_player)
    faced = jnp.einsum("pbk,pk->pb", joint.ratios, jnp.exp(arena.faced)[owners])
    stored = _Stored(buffer, faced, joint.weights, jnp.sum(buffer.born >= 0, dtype=jnp.int32))
    learner = make_learner(gems_networks(game, config), config.temperature)
    key_region, key = jax.random.split(key)
    region = _make_region(key_region, arena, learner, learned[0], stored)
    start = jnp.zeros(len(arena.newest))

    def step(carry: tuple[Learned, ReplayMetrics], inputs: tuple[Array, Array]) -> tuple[tuple, None]:
        (now, before), (k, number) = carry, inputs
        key_draw, key_each = jax.random.split(k)
        chosen = _draw_episodes(key_draw, stored, config.replay_batch)
        faced = stored.faced[:, chosen]
        if config.live_opponents:
            live = _live_ratios(now[0], learner, arena, buffer, chosen)
            faced = (1.0 - config.self_play_fraction) * faced + config.self_play_fraction * live

        def one(views: tuple[View, ...], p: Array | int, own_key: Array) -> tuple[Learned, Array, Array, Array]:
            del views, own_key
            own = jax.tree.map(lambda leaf: leaf[p], now)
            return _train_one(own, region, _Trainee(arena, learner, p), stored, _Batch(chosen, faced))

        each = map_populations(game, one, jax.random.split(key_each, len(arena.newest)))
        after, earned, entropy, divergence = each
        sign = jnp.where(number == 0, -1.0, 0.0) + jnp.where(number == config.replay_steps - 1, 1.0, 0.0)
        return (after, ReplayMetrics(before.improvement + sign * earned, entropy, divergence)), None

    steps = (jax.random.split(key, config.replay_steps), jnp.arange(config.replay_steps))
    metrics = ReplayMetrics(start, start, jnp.zeros(arena.anchor_set.active.shape))
    (learned, metrics), _ = jax.lax.scan(step, (learned, metrics), steps)
    return learned, metrics


class _Trainee(NamedTuple):
    """The population in training."""

    arena: Arena
    learner: Learner
    p: Array | int


class _Batch(NamedTuple):
    """Stored episodes of one gradient step."""

    chosen: Array  # [b]
    faced: Array  # [players, b]


class _Region(NamedTuple):
    """Stored decisions of the trust region, the same for all gradient steps."""

    decision: PyTree  # [m, Q, ...]
    weights: Array  # [P, m, Q], with sum 1 over decisions
    frozen: PyTree  # action distributions [P, K, m, Q, ...] before training


def _draw_episodes(key: Array, stored: _Stored, number: int) -> Array:
    """Uniformly drawn indices [number] of stored episodes. key: consumed."""
    return jax.random.randint(key, (number,), 0, jnp.maximum(stored.filled, 1))


def _train_one(
    learned: Learned, region: _Region, trainee: _Trainee, stored: _Stored, batch: _Batch
) -> tuple[Learned, Array, Array, Array]:
    """One gradient step of one population; also its estimated return [], entropy [] and divergence [K] before it."""
    arena, config, (params, opt_state) = trainee.arena, trainee.arena.config, learned

    def loss(generator: PyTree) -> tuple[Array, tuple[Array, Array, Array]]:
        now = {**params, "generator": generator}
        earned, entropy = _estimate_return(now, trainee, stored, batch)
        divergence = _divergence(now, region, trainee)
        kl = masked_mean(divergence, _protected_anchors(arena, trainee.p))
        weight = config.entropy_weight / (1.0 + config.entropy_decay * arena.time)
        return config.beta_kl * config.slowdown * kl - earned - weight * entropy, (earned, entropy, divergence)

    gradient, seen = jax.grad(loss, has_aux=True)(params["generator"])
    rate = anneal(config.learning_rate / config.slowdown, config.learning_rate_decay, arena.time - 1)
    rates = {"generator": gems_networks(arena.game, config).generator.rates(jnp.asarray(rate), config.output_rate)}
    moved, state = apply_gradients(
        make_optimizer(config.gradient_clip, config.momentum),
        {"generator": params["generator"]},
        {"generator": opt_state["generator"]},
        {"generator": gradient},
        rates,
    )
    return ({**params, **moved}, {**opt_state, **state}), *seen


def _protected_anchors(arena: Arena, p: Array | int) -> Array:
    """[K] bool, anchors of population p that the trust region constrains."""
    active = arena.anchor_set.active[p]
    return active & (jnp.arange(len(active)) != arena.newest[p])


def _estimate_return(params: PyTree, trainee: _Trainee, stored: _Stored, batch: _Batch) -> tuple[Array, Array]:
    """J(theta) [] of the newest anchor, and its entropy [] on the weighted episodes."""
    arena, learner, p = trainee.arena, trainee.learner, trainee.p
    phi = learner.policy(params, arena.anchor_set.anchors[p][arena.newest[p]])
    decision = jax.tree.map(lambda leaf: leaf[batch.chosen], stored.buffer.decision)
    outputs = evaluate_decisions(learner.apply, phi, decision)  # [b, Q, ...]
    log_prob = jax.vmap(jax.vmap(distributions.log_prob))(outputs, decision["action"])
    spread = jax.vmap(jax.vmap(distributions.action_entropy))(outputs)
    players = (p,) if is_rotational(arena.game) else players_of(arena.game, int(p))
    found = [_weigh_episodes(arena.config, stored, batch, player, log_prob, spread) for player in players]
    earned, entropy = (jnp.mean(jnp.stack(part)) for part in zip(*found, strict=True))
    return earned, entropy


def _weigh_episodes(
    config: GemsConfig, stored: _Stored, batch: _Batch, player: Array | int, log_prob: Array, spread: Array
) -> tuple[Array, Array]:
    """The weighted return [] and entropy [] of one player. log_prob and spread: [b, Q]."""
    buffer, chosen = stored.buffer, batch.chosen
    own = buffer.player[chosen] == player  # [b, Q]
    drawn = jnp.take(buffer.log_drawn[chosen], player, axis=1)
    ratio = _cap_ratio(config, jnp.sum(jnp.where(own, log_prob, 0.0), axis=1) - drawn)
    is_own = jnp.arange(len(batch.faced))[:, None] == player
    weight = stored.weights[chosen] * jnp.prod(jnp.where(is_own, 1.0, batch.faced), axis=0) * ratio
    earned = jnp.sum(weight * jnp.take(buffer.returns[chosen], player, axis=1)) / jnp.maximum(jnp.sum(weight), 1e-6)
    reached = jnp.where(own, jax.lax.stop_gradient(weight)[:, None], 0.0)
    return earned, jnp.sum(reached * spread) / jnp.maximum(jnp.sum(reached), 1e-6)


def _cap_ratio(config: GemsConfig, log_ratio: Array) -> Array:
    return jnp.exp(jnp.clip(log_ratio, _LOWEST, jnp.log(config.replay_cap)))


def _live_ratios(
    params: dict[str, PyTree], learner: Learner, arena: Arena, buffer: TrajectoryBuffer, chosen: Array
) -> Array:
    """Likelihood ratios [players, b] of the newest anchors under the generators [P, ...]; no gradient."""
    decision = jax.tree.map(lambda leaf: leaf[chosen], buffer.decision)
    ratios = []
    for player, owner in enumerate(arena.game.population_of_player):
        own = jax.tree.map(lambda leaf, owner=owner: leaf[owner], params)
        phi = learner.policy(own, arena.anchor_set.anchors[owner][arena.newest[owner]])
        log_prob = jax.vmap(jax.vmap(distributions.log_prob))(
            evaluate_decisions(learner.apply, phi, decision), decision["action"]
        )
        mine = jnp.sum(jnp.where(buffer.player[chosen] == player, log_prob, 0.0), axis=1)
        ratios.append(_cap_ratio(arena.config, mine - buffer.log_drawn[chosen, player]))
    return jax.lax.stop_gradient(jnp.stack(ratios))


def _make_region(key: Array, arena: Arena, learner: Learner, params: dict[str, PyTree], stored: _Stored) -> _Region:
    """Evaluates the anchors [P, K] of the generators [P, ...] on stored decisions. key: consumed."""
    buffer, populations = stored.buffer, len(arena.newest)
    owners = jnp.asarray((*arena.game.population_of_player, -1))  # padding, player -1, has population -1
    if isinstance(learner.apply, TabularPolicy) and "row" in buffer.decision:
        rows = learner.apply.legal.shape[0]
        decision = {"row": jnp.arange(rows)[None, :]}
        owner = jnp.where(buffer.born[:, None] >= 0, owners[buffer.player.astype(jnp.int32)], -1)
        cell = jnp.where(owner >= 0, owner * rows + buffer.decision["row"], populations * rows)
        counts = jnp.zeros(populations * rows + 1).at[cell.reshape(-1)].add(1.0)[:-1]
        weights = counts.reshape(populations, 1, rows)
    else:
        some = _draw_episodes(key, stored, _KL_EPISODES)
        decision = jax.tree.map(lambda leaf: leaf[some], buffer.decision)
        owner = owners[buffer.player[some].astype(jnp.int32)]
        weights = (owner[None] == jnp.arange(populations)[:, None, None]).astype(jnp.float32)
    weights = weights / jnp.maximum(weights.sum(axis=(1, 2), keepdims=True), 1.0)
    frozen = jax.vmap(lambda own, codes: _evaluate_anchors(learner, own, codes, decision))(
        params, arena.anchor_set.anchors
    )
    return _Region(decision, weights, frozen)


def _evaluate_anchors(learner: Learner, params: PyTree, codes: Array, decision: PyTree) -> PyTree:
    """Action distributions [K, m, Q, ...] of the anchors `codes` [K, D] on decisions [m, Q, ...]."""
    stack = stack_policies(lambda code: learner.policy(params, code), codes)
    each = jax.vmap(lambda phi: evaluate_decisions(learner.apply, phi, decision), in_axes=(slot_axes(stack),))
    return each(stack)


def _divergence(params: PyTree, region: _Region, trainee: _Trainee) -> Array:
    """KL(params || frozen) [K] of every anchor of the population."""
    now = _evaluate_anchors(trainee.learner, params, trainee.arena.anchor_set.anchors[trainee.p], region.decision)
    frozen = jax.tree.map(lambda leaf: leaf[trainee.p], region.frozen)
    kl = jax.vmap(jax.vmap(jax.vmap(distributions.action_kl)))(now, frozen)  # [K, m, Q]
    return jnp.sum(kl * region.weights[trainee.p][None], axis=(1, 2))
