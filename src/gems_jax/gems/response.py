"""Phase 4: amortized best response with a trust region (eq:abr-tr_revised)."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.config import GemsConfig
from gems_jax.gems.state import (
    AnchorSet,
    GemsState,
    Networks,
    fresh_optimizer,
    gems_networks,
    jacobian_weight,
    population_of,
)
from gems_jax.learning import ppo as best_response
from gems_jax.learning.batches import Experience, Lanes, Learner, Source, decision_share
from gems_jax.learning.minibatches import decisions
from gems_jax.learning.ppo import Batch
from gems_jax.learning.tabular import tally
from gems_jax.meta import simplex
from gems_jax.policies import distributions
from gems_jax.policies.networks import jacobian_norm
from gems_jax.policies.population import StackedPolicies, materialise
from gems_jax.rollout.views import View, each_population, rotate
from gems_jax.types import Array, Game, PolicyOutput, PyTree, Struct, num_populations


class ResponseMetrics(Struct):
    """Measurements of the training: the loss is that of the last gradient step."""

    jacobian: Array  # [P], mean ||J G(z)||_F^2 over active anchors
    kl: Array  # [P], KL of the trained generator to the frozen one, mean over protected anchors
    forgetting: Array  # [P, K], the same per anchor
    entropy: Array  # [P]
    objective: Array  # [P]
    value_loss: Array  # [P]
    gradient_norm: Array  # [P]


class BestResponse(NamedTuple):
    """Result of phase 4, [P, ...] but for the counts."""

    params: dict[str, PyTree]  # "generator" and "critic"
    opt_state: dict[str, PyTree]
    improvement: Array  # [P], how much the scaled return rose during training
    metrics: ResponseMetrics
    episodes: Array
    env_steps: Array
    gradient_steps: Array


def respond(
    key: Array,
    state: GemsState,
    anchor_set: AnchorSet,
    opponents: StackedPolicies,
    game: Game,
    config: GemsConfig,
    steps: int | Array | None = None,
) -> BestResponse:
    """Runs phase 4, ABR-TR: trains each population's generator against the others' frozen sigma'.

    Args:
      key: typed PRNG key; consumed.
      state: the state before the iteration.
      anchor_set: the anchors after phase 3.
      opponents: the policies of all anchors before phase 3, [P, K, ...].
      game: the game that is played.
      config: settings.
      steps: number of ABR steps, by default the config's; may be traced.

    Returns:
      The trained networks with their measurements.
    """
    steps = config.abr_steps if steps is None else steps
    params = {"generator": state.generator, "critic": state.critic}
    opt_state = fresh_optimizer(params, config) if config.reset_optimizer else state.opt_state
    faced = faced_mixture(anchor_set.sigma, anchor_set.active, config.abr_floor)
    newest = jnp.argmax(anchor_set.anchor_id, axis=1)  # [P]
    if config.q_new_applies == "opponents":
        faced = with_newest(faced, newest, config.q_new)
        opponents = materialise(
            population_of(dataclasses.replace(state, anchors=anchor_set.anchors), game, config), config.capacity
        )

    def respond_one(views: tuple[View, ...], p: Array | int, own_key: Array) -> BestResponse:
        own_params, own_opt_state = jax.tree.map(lambda leaf: leaf[p], (params, opt_state))
        nets = gems_networks(views[0].base, config)
        source = Source(
            views=views,
            learner=make_learner(nets, config.temperature),
            opponents=trembling(rotate(opponents, p), 0.0 if game.continuous else config.abr_tremble),
            log_sigma=rotate(faced, p),
            num_opponents=config.abr_opponents,
            episodes=config.abr_episodes,
            segment=config.abr_segment if config.abr_steps else 0,
            discount=config.discount,
            decay=config.gae_lambda,
            stratified=config.opponents == "stratified",
        )
        log_codes = jnp.log(anchor_set.sigma[p])
        if config.q_new_applies == "opponents":
            log_codes = jnp.log(simplex.masked_uniform(anchor_set.active[p]))
        weight = jacobian_weight(config, state.step + 1, p)
        task = _Task(source, nets, anchor_set.anchors[p], newest[p], log_codes, weight, config)
        return _respond_one(own_key, task, own_params, own_opt_state, anchor_set.active[p], state.step + 1, steps)

    response = each_population(game, respond_one, jax.random.split(key, num_populations(game)))
    totals = {name: getattr(response, name).sum() for name in ("episodes", "env_steps", "gradient_steps")}
    return response._replace(**totals)


def faced_mixture(sigma: Array, active: Array, floor: Array | float) -> Array:
    """log of the mixture [P, K] that opponents are drawn from: sigma, or with probability `floor` any of its anchors.

    The newcomer has no mass and has not been measured: it is nobody's opponent yet.
    """
    alike = jax.vmap(simplex.masked_uniform)(active & (sigma > 0.0))
    return jnp.log((1.0 - floor) * sigma + floor * alike)


def with_newest(log_sigma: Array, newest: Array, fraction: ArrayLike) -> Array:
    """log of the mixtures [P, K] that give the newest anchor [P] of each population a `fraction` of the mass."""
    new = jnp.arange(log_sigma.shape[1])[None, :] == newest[:, None]
    return jnp.log((1.0 - fraction) * jnp.exp(log_sigma) + fraction * new)


def trembling(policies: StackedPolicies, share: ArrayLike) -> StackedPolicies:
    """The same policies, each of whose actions is with probability `share` any legal one."""
    if isinstance(share, (int, float)) and not share:
        return policies

    def apply(phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        return distributions.tremble(policies.apply(phi, observation, legal), legal, share)

    return StackedPolicies(policies.params, apply)


def make_learner(nets: Networks, temperature: Array | float) -> Learner:
    """phi = G_theta(z) and V(o, z) as the trainer sees them."""

    def policy(params: PyTree, code: Array) -> PyTree:
        return nets.generator.policy.temper(nets.generator(params["generator"], code), temperature)

    def value(params: PyTree, code: Array, observation: Array) -> Array:
        return nets.critic(params["critic"], observation, code)

    return Learner(policy, value, nets.generator.policy)


class _Task(NamedTuple):
    """What one population learns from: who plays, and against whom."""

    source: Source
    nets: Networks
    codes: Array  # [K, D]
    newest: Array  # [] int32, the slot of the newest anchor
    log_codes: Array  # [K], of the distribution that a batch's anchors are drawn from
    jacobian_weight: ArrayLike  # lambda_J
    config: GemsConfig


def one_round(key: Array, params: PyTree, lanes: list[Lanes], task: _Task) -> tuple[list[Experience], list[Lanes]]:
    """Experience of a batch of anchors, and where the games stand. key: consumed.

    The batch is the newest anchor and others that sigma draws, or uniform draws of Z_t (see `q_new_applies`).
    """
    config = task.config
    key_code, key_play = jax.random.split(key)
    drawn = simplex.sample_slots(key_code, task.log_codes, (config.abr_anchors,))
    if config.q_new_applies == "anchors":
        is_new = (jnp.arange(config.abr_anchors) + 0.5) / config.abr_anchors < config.q_new
        drawn = jnp.where(is_new, task.newest, drawn)
    codes = task.codes[drawn]
    return task.source.one_round(key_play, params, codes, lanes)


class _Protection(NamedTuple):
    """Decisions of the anchors as they were, and which anchors the trust region holds."""

    batches: list[Batch]
    behaviour: list[PyTree]
    held: Array  # [K] bool
    episodes: int
    env_steps: Array


def protect(key_play: Array, key_rows: Array, task: _Task, params: PyTree, active: Array) -> _Protection:
    """What every anchor does on states its own play visits. keys: consumed."""
    config = task.config
    batches = task.source.whole(key_play, params, task.codes, config.kl_opponents, 1)
    episodes = sum(batch.earned.size for batch in batches)
    env_steps = jnp.sum(jnp.stack([batch.env_steps for batch in batches]))
    if config.kl_states:
        keys = jax.random.split(key_rows, len(batches))
        batches = [decisions(k, batch, config.kl_states) for k, batch in zip(keys, batches, strict=True)]
    learner = task.source.learner
    seen = [tally(learner, params, batch) for batch in batches]
    behaviour = [best_response.behaviour_on(learner, params, batch) for batch in seen]
    held = active & ((jnp.arange(len(task.codes)) != task.newest) | (config.kl_protects != "others"))
    return _Protection(seen, behaviour, held, episodes, env_steps)


def trust_region(
    current: PyTree,
    batches: list[Batch],
    key: Array,
    *,
    task: _Task,
    kept: _Protection,
    frozen: PyTree,
) -> Array:
    """beta KL + lambda_J ||J G(z)||_F^2 of eq:abr-tr_revised, []. key: consumed."""
    config, learner = task.config, task.source.learner
    if config.kl_protects == "batch":
        then = [best_response.behaviour_on(learner, frozen, batch) for batch in batches]
        drift = jnp.mean(anchor_kl(learner, current, batches, then))
    else:
        drift = best_response.masked_mean(anchor_kl(learner, current, kept.batches, kept.behaviour), kept.held)
    loss = config.beta_kl * config.slowdown * drift
    if config.jacobian == "none":
        return loss
    generator, theta = task.nets.generator, current["generator"]
    codes = batches[0].code
    norms = jax.vmap(lambda z, k: jacobian_norm(generator, theta, z, config.jacobian, k))(
        codes, jax.random.split(key, len(codes))
    )
    return loss + task.jacobian_weight * norms.mean()


def _respond_one(
    key: Array,
    task: _Task,
    params: dict[str, PyTree],
    opt_state: dict[str, PyTree],
    active: Array,
    time: Array,
    steps: int | Array,
) -> BestResponse:
    """ABR-TR of one population. key: consumed."""
    config, learner = task.config, task.source.learner
    key_protect, key_train, key_rows, key_lanes = jax.random.split(key, 4)
    kept = protect(key_protect, key_rows, task, params, active)
    slower = config.slowdown * (1.0 + config.learning_rate_decay * time)
    trained, opt_state, metrics = best_response.train(
        key_train,
        params,
        opt_state,
        experience=partial(one_round, task=task),
        learner=learner,
        surrogate=best_response.SURROGATES[config.surrogate],
        penalty=partial(trust_region, task=task, kept=kept, frozen=params),
        steps=steps,
        epochs=config.abr_epochs,
        learning_rate={
            "generator": task.nets.generator.rates(config.learning_rate / slower, config.output_rate),
            "critic": config.critic_learning_rate / slower,
        },
        gradient_clip=config.gradient_clip,
        clip=config.ppo_clip,
        value_weight=config.value_weight,
        entropy_weight=config.entropy_weight / (1.0 + config.entropy_decay * time),
        normalise=config.normalise_advantages,
        minibatches=config.abr_minibatches,
        kept=decision_share(task.source.views[0]),
        carry=task.source.lanes(key_lanes, config.abr_anchors),
    )
    forgetting = jnp.where(kept.held, anchor_kl(learner, trained, kept.batches, kept.behaviour), 0.0)
    norms = jax.vmap(lambda z: jacobian_norm(task.nets.generator, trained["generator"], z, "gram"))(task.codes)
    return BestResponse(
        params=trained,
        opt_state=opt_state,
        improvement=jnp.asarray(metrics.improvement),
        metrics=ResponseMetrics(
            jacobian=best_response.masked_mean(norms, active),
            kl=best_response.masked_mean(forgetting, kept.held),
            forgetting=forgetting,
            entropy=metrics.entropy,
            objective=metrics.objective,
            value_loss=metrics.value_loss,
            gradient_norm=metrics.gradient_norm,
        ),
        episodes=metrics.episodes + kept.episodes,
        env_steps=metrics.env_steps + kept.env_steps,
        gradient_steps=jnp.int32(steps * config.abr_epochs * config.abr_minibatches),
    )


def anchor_kl(learner: Learner, current: PyTree, batches: list[Batch], frozen: list[PyTree]) -> Array:
    """KL(current || frozen behaviour) per anchor [K], averaged over the players that share the population."""
    rows = [
        best_response.kl_per_code(batch, best_response.behaviour_on(learner, current, batch), then)
        for batch, then in zip(batches, frozen, strict=True)
    ]
    return jnp.mean(jnp.stack(rows), axis=0)
