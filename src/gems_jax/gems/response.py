"""Phase 4: amortized best response with a trust region (eq:abr-tr_revised)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
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
from gems_jax.learning import ppo
from gems_jax.learning.batches import Batch, Experience, Learner, masked_mean, mean_loss_parts
from gems_jax.learning.collection import OngoingGames, PlaySettings, Source, decision_fraction
from gems_jax.learning.minibatches import sample_decisions
from gems_jax.learning.ppo import SURROGATES, Parts, TrainSettings
from gems_jax.learning.trust_region import TrustRegion, make_trust_region
from gems_jax.meta import simplex
from gems_jax.policies import distributions
from gems_jax.policies.generator import jacobian_norm
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
    drift: Array  # [P, K], KL of every active anchor to what it was before training
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
        faced = give_mass_to_newest(faced, newest, config.q_new)
        opponents = materialise(
            population_of(dataclasses.replace(state, anchors=anchor_set.anchors), game, config), config.capacity
        )

    def respond_one(views: tuple[View, ...], p: Array | int, own_key: Array) -> BestResponse:
        own_params, own_opt_state = jax.tree.map(lambda leaf: leaf[p], (params, opt_state))
        nets = gems_networks(views[0].base, config)
        log_codes = jnp.log(anchor_set.sigma[p])
        if config.q_new_applies == "opponents":
            log_codes = jnp.log(simplex.masked_uniform(anchor_set.active[p]))
        task = _Task(
            source=Source(
                views=views,
                learner=make_learner(nets, config.temperature),
                opponents=add_tremble(rotate(opponents, p), 0.0 if game.continuous else config.abr_tremble),
                log_sigma=rotate(faced, p),
                settings=_play_settings(config),
            ),
            nets=nets,
            codes=anchor_set.anchors[p],
            active=anchor_set.active[p],
            newest=newest[p],
            log_codes=log_codes,
            time=state.step + 1,
            jacobian_weight=jacobian_weight(config, state.step + 1, p),
            config=config,
        )
        return _train_generator(own_key, task, own_params, own_opt_state, steps)

    response = each_population(game, respond_one, jax.random.split(key, num_populations(game)))
    totals = {name: getattr(response, name).sum() for name in ("episodes", "env_steps", "gradient_steps")}
    return response._replace(**totals)


def faced_mixture(sigma: Array, active: Array, floor: Array | float) -> Array:
    """Computes log of the mixture [P, K] of opponents: sigma, or with probability `floor` any of its anchors.

    The newcomer has no mass and has not been measured: it is nobody's opponent yet.
    """
    uniform = jax.vmap(simplex.masked_uniform)(active & (sigma > 0.0))
    return jnp.log((1.0 - floor) * sigma + floor * uniform)


def give_mass_to_newest(log_sigma: Array, newest: Array, fraction: ArrayLike) -> Array:
    """Gives the newest anchor [P] of each population a `fraction` of the mass; logarithms of mixtures [P, K]."""
    new = jnp.arange(log_sigma.shape[1])[None, :] == newest[:, None]
    return jnp.log((1.0 - fraction) * jnp.exp(log_sigma) + fraction * new)


def add_tremble(policies: StackedPolicies, probability: ArrayLike) -> StackedPolicies:
    """Replaces each action by a uniformly drawn legal one with some probability."""
    if isinstance(probability, (int, float)) and not probability:
        return policies

    def apply(phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        return distributions.tremble(policies.apply(phi, observation, legal), legal, probability)

    return StackedPolicies(policies.params, apply)


def make_learner(nets: Networks, temperature: Array | float) -> Learner:
    """Presents phi = G_theta(z) and V(o, z) to the trainer."""

    def policy(params: PyTree, code: Array) -> PyTree:
        return nets.generator.policy.temper(nets.generator(params["generator"], code), temperature)

    def value(params: PyTree, code: Array, observation: Array) -> Array:
        return nets.critic(params["critic"], observation, code)

    return Learner(policy, value, nets.generator.policy)


def _play_settings(config: GemsConfig) -> PlaySettings:
    return PlaySettings(
        num_opponents=config.abr_opponents,
        episodes=config.abr_episodes,
        discount=config.discount,
        decay=config.gae_lambda,
        stratified=config.opponents == "stratified",
        segment=config.abr_segment if config.abr_steps else 0,
    )


class _Task(NamedTuple):
    """What one population learns from, and with which settings."""

    source: Source
    nets: Networks
    codes: Array  # [K, D]
    active: Array  # [K]
    newest: Array  # [] int32, the slot of the newest anchor
    log_codes: Array  # [K], of the distribution that a batch's anchors are drawn from
    time: Array  # [] int32, the iteration, counted from 1
    jacobian_weight: ArrayLike  # lambda_J
    config: GemsConfig


def abr_tr_loss(
    params: PyTree, batches: Sequence[Batch], key: Array, *, task: _Task, region: TrustRegion
) -> tuple[Array, Parts]:
    """Computes the loss of ABR-TR, minus the objective of eq:abr-tr_revised, beside those of an actor-critic.

        loss(theta) = -E_{z ~ q_t, j ~ sigma'} [ A-hat(z) - beta KL(z) - lambda_J ||J G_theta(z)||_F^2 ]
                      + value_weight E[(V - target)^2] - entropy_weight E[H(pi)]

    A-hat(z) is the surrogate objective of pi_{G_theta(z)} by generalized advantages, and KL(z) the trust region
    KL(pi_{G_theta(z)} || pi_{G_theta^-(z)}) to the frozen generator theta^-.

    Args:
      params: "generator" theta and "critic".
      batches: experience of a batch of anchors z ~ q_t, one per player that shares the population.
      key: typed PRNG key of the Jacobian's estimator; consumed.
      task: what the population learns from, and the settings.
      region: the frozen generator, and states on which it is protected unless `kl_protects` is "batch".

    Returns:
      The loss [], and its parts; the penalty among them is beta KL + lambda_J ||J||_F^2.
    """
    config, learner = task.config, task.source.learner
    parts = mean_loss_parts(learner, params, batches, SURROGATES[config.surrogate], config.ppo_clip)
    if config.kl_protects == "batch":
        kl = jnp.mean(region.divergence_on(learner, params, batches))
    else:
        kl = masked_mean(region.divergence(learner, params), region.protected)
    penalty = config.beta_kl * config.slowdown * kl
    if config.jacobian != "none":
        penalty = penalty + task.jacobian_weight * _mean_jacobian(task.nets, params, batches[0].code, key, config)
    entropy_weight = config.entropy_weight / (1.0 + config.entropy_decay * task.time)
    loss = -parts.objective + config.value_weight * parts.value_loss - entropy_weight * parts.entropy
    return loss + penalty, (parts, penalty)


def _mean_jacobian(nets: Networks, params: PyTree, codes: Array, key: Array, config: GemsConfig) -> Array:
    """The mean of ||J G_theta(z)||_F^2 over codes [G, D]. key: consumed."""
    keys = jax.random.split(key, len(codes))
    norms = jax.vmap(lambda z, k: jacobian_norm(nets.generator, params["generator"], z, config.jacobian, k))(
        codes, keys
    )
    return norms.mean()


def _play_anchor_batch(
    key: Array, params: PyTree, games: list[OngoingGames], task: _Task
) -> tuple[list[Experience], list[OngoingGames]]:
    """Plays a round of a batch of anchors z ~ q_t: one batch per view, and the games to continue with. key: consumed.

    The batch is the newest anchor and others that sigma draws, or uniform draws of Z_t (see `q_new_applies`).
    """
    config = task.config
    key_code, key_play = jax.random.split(key)
    drawn = simplex.sample_slots(key_code, task.log_codes, (config.abr_anchors,))
    if config.q_new_applies == "anchors":
        is_new = (jnp.arange(config.abr_anchors) + 0.5) / config.abr_anchors < config.q_new
        drawn = jnp.where(is_new, task.newest, drawn)
    return task.source.play_round(key_play, params, task.codes[drawn], games)


def _protect(key_play: Array, key_rows: Array, task: _Task, params: PyTree) -> tuple[TrustRegion, int, Array]:
    """Records what every anchor does on states of its own play, episodes and env steps. keys: consumed."""
    config = task.config
    settings = task.source.settings._replace(num_opponents=config.kl_opponents, episodes=1)
    batches = task.source.play_episodes(key_play, params, task.codes, settings)
    episodes = sum(batch.earned.size for batch in batches)
    env_steps = jnp.sum(jnp.stack([batch.env_steps for batch in batches]))
    if config.kl_states:
        keys = jax.random.split(key_rows, len(batches))
        batches = [sample_decisions(k, batch, config.kl_states) for k, batch in zip(keys, batches, strict=True)]
    protected = task.active & ((jnp.arange(len(task.codes)) != task.newest) | (config.kl_protects != "others"))
    return make_trust_region(task.source.learner, params, batches, protected), episodes, env_steps


def _train_settings(task: _Task) -> TrainSettings:
    config = task.config
    return TrainSettings(
        epochs=config.abr_epochs,
        learning_rate={
            "generator": task.nets.generator.rates(config.learning_rate / config.slowdown, config.output_rate),
            "critic": config.critic_learning_rate / config.slowdown,
        },
        gradient_clip=config.gradient_clip,
        normalize=config.normalise_advantages,
        minibatches=config.abr_minibatches,
        decision_fraction=decision_fraction(task.source.views[0]),
    )


def _train_generator(
    key: Array, task: _Task, params: dict[str, PyTree], opt_state: dict[str, PyTree], steps: int | Array
) -> BestResponse:
    """Trains the generator of one population with `abr_tr_loss`. key: consumed."""
    config, learner = task.config, task.source.learner
    key_protect, key_train, key_rows, key_games = jax.random.split(key, 4)
    region, episodes, env_steps = _protect(key_protect, key_rows, task, params)
    trained, opt_state, metrics = ppo.train_learner(
        key_train,
        params,
        opt_state,
        learner=learner,
        experience=partial(_play_anchor_batch, task=task),
        loss=partial(abr_tr_loss, task=task, region=region),
        settings=_train_settings(task),
        steps=steps,
        carry=task.source.start_games(key_games, config.abr_anchors),
    )
    divergence = region.divergence(learner, trained)
    forgetting = jnp.where(region.protected, divergence, 0.0)
    norms = jax.vmap(lambda z: jacobian_norm(task.nets.generator, trained["generator"], z, "gram"))(task.codes)
    return BestResponse(
        params=trained,
        opt_state=opt_state,
        improvement=jnp.asarray(metrics.improvement),
        drift=jnp.where(task.active, divergence, 0.0),
        metrics=ResponseMetrics(
            jacobian=masked_mean(norms, task.active),
            kl=masked_mean(forgetting, region.protected),
            forgetting=forgetting,
            entropy=metrics.entropy,
            objective=metrics.objective,
            value_loss=metrics.value_loss,
            gradient_norm=metrics.gradient_norm,
        ),
        episodes=metrics.episodes + episodes,
        env_steps=metrics.env_steps + env_steps,
        gradient_steps=jnp.int32(steps * config.abr_epochs * config.abr_minibatches),
    )
