"""Phase 4: amortized best response with a trust region (eq:abr-tr_revised)."""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gems_jax import best_response, distributions, simplex
from gems_jax.best_response import TrainMetrics
from gems_jax.config import GemsConfig
from gems_jax.experience import Experience, Lanes, Learner, collect, collect_on, decisions, start_lanes
from gems_jax.nets import jacobian_norm
from gems_jax.phases.expansion import Expansion
from gems_jax.phases.state import GemsState, Networks, fresh_optimizer, jacobian_weight, networks
from gems_jax.population import StackedPolicies
from gems_jax.roles import View, each_population, rotate
from gems_jax.types import Array, Game, PolicyOutput, PyTree, num_populations, seats_of_player


class Response(NamedTuple):
    params: dict[str, PyTree]
    opt_state: dict[str, PyTree]
    metrics: TrainMetrics
    kl: Array
    forgetting: Array
    jacobian: Array
    episodes: Array
    env_steps: Array


def respond(
    key: Array, state: GemsState, found: Expansion, opponents: StackedPolicies, game: Game, config: GemsConfig
) -> Response:
    """Phase 4, ABR-TR: each population's generator against the others' frozen sigma'. key: consumed."""
    params = {"generator": state.generator, "critic": state.critic}
    opt_state = fresh_optimizer(params, config) if config.reset_optimizer else state.opt_state
    faced = faced_mixture(found.sigma, found.active, config.abr_floor)

    def one(views: tuple[View, ...], p: Array | int, own_key: Array) -> Response:
        own_params, own_opt_state = jax.tree.map(lambda leaf: leaf[p], (params, opt_state))
        return _respond_one(
            own_key,
            views,
            own_params,
            own_opt_state,
            found.anchors[p],
            found.active[p],
            found.anchor_id[p],
            rotate(opponents, p),
            rotate(faced, p),
            jnp.log(found.sigma[p]),
            state.step + 1,
            config,
        )

    merged = each_population(game, one, jax.random.split(key, num_populations(game)))
    return merged._replace(episodes=merged.episodes.sum(), env_steps=merged.env_steps.sum())


def faced_mixture(sigma: Array, active: Array, floor: Array | float) -> Array:
    """log of the mixture [P, K] that opponents are drawn from: sigma, or with probability `floor` any of its anchors.

    The newcomer has no mass and has not been measured: it is nobody's opponent yet.
    """
    alike = jax.vmap(simplex.masked_uniform)(active & (sigma > 0.0))
    return jnp.log((1.0 - floor) * sigma + floor * alike)


def decision_share(game: Game) -> float:
    """The share of an episode's rows in which player 0 decides: all of them, or its turns."""
    return 1.0 if game.simultaneous else len(seats_of_player(game, 0)) / game.num_seats


def make_learner(nets: Networks, temperature: Array | float) -> Learner:
    """phi = G_theta(z) and V(o, z) as the trainer sees them."""

    def policy(params: PyTree, code: Array) -> PyTree:
        return nets.generator.policy.temper(nets.generator(params["generator"], code), temperature)

    def value(params: PyTree, code: Array, observation: Array) -> Array:
        return nets.critic(params["critic"], observation, code)

    return Learner(policy, value, nets.generator.policy)


def _respond_one(
    key: Array,
    views: tuple[View, ...],
    params: dict[str, PyTree],
    opt_state: dict[str, PyTree],
    codes: Array,
    active: Array,
    anchor_id: Array,
    opponents: StackedPolicies,
    log_sigma: Array,
    own_log_sigma: Array,
    time: Array,
    config: GemsConfig,
) -> Response:
    """ABR-TR of one population: codes [K, D]; opponents and log_sigma in the order of the views. key: consumed."""
    key_protect, key_train, key_rows, key_lanes = jax.random.split(key, 4)
    nets = networks(views[0].base, config)
    learner = make_learner(nets, config.temperature)
    newest = jnp.argmax(anchor_id)
    stratified = config.opponents == "stratified"
    gae_settings = {"discount": config.discount, "decay": config.gae_lambda}

    def gather(gather_key: Array, current: PyTree, batch_codes: Array, count: int, episodes: int) -> list[Experience]:
        keys = jax.random.split(gather_key, len(views))
        return [
            collect(
                k, view, learner, current, batch_codes, opponents, log_sigma,
                num_opponents=count, episodes=episodes, stratified=stratified, **gae_settings,
            )
            for k, view in zip(keys, views, strict=True)
        ]  # fmt: skip

    def experience(step_key: Array, current: PyTree, lanes: list[Lanes]) -> tuple[list[Experience], list[Lanes]]:
        key_code, key_play = jax.random.split(step_key)
        drawn = simplex.sample(key_code, own_log_sigma, (config.abr_anchors,))
        is_new = (jnp.arange(config.abr_anchors) + 0.5) / config.abr_anchors < config.q_new
        chosen = codes[jnp.where(is_new, newest, drawn)]
        if not config.abr_segment:
            return gather(key_play, current, chosen, config.abr_opponents, config.abr_episodes), lanes
        keys = jax.random.split(key_play, len(views))
        played = [
            collect_on(
                k, view, learner, current, chosen, opponents, lane, steps=config.abr_segment, **gae_settings
            )
            for k, view, lane in zip(keys, views, lanes, strict=True)
        ]  # fmt: skip
        return [batch for batch, _ in played], [lane for _, lane in played]

    lanes = []
    if config.abr_segment and config.abr_steps:
        sizes = (config.abr_anchors, config.abr_opponents, config.abr_episodes)
        keys = jax.random.split(key_lanes, len(views))
        lanes = [start_lanes(k, v, log_sigma, *sizes, stratified) for k, v in zip(keys, views, strict=True)]

    protected = gather(key_protect, params, codes, config.kl_opponents, 1)
    seen = sum(batch.acted.shape[0] * batch.acted.shape[1] for batch in protected)
    if config.kl_states:
        keys = jax.random.split(key_rows, len(views))
        protected = [decisions(k, batch, config.kl_states) for k, batch in zip(keys, protected, strict=True)]
    as_before = [best_response.outputs_on(learner, params, batch) for batch in protected]
    held = active & ((jnp.arange(len(codes)) != newest) | (config.kl_protects != "others"))

    def penalty(current: PyTree, batches: list[Experience], penalty_key: Array) -> Array:
        if config.kl_protects == "batch":
            then = [best_response.outputs_on(learner, params, batch) for batch in batches]
            drift = jnp.mean(anchor_kl(learner, current, batches, then))
        else:
            drift = best_response.masked_mean(anchor_kl(learner, current, protected, as_before), held)
        loss = config.beta_kl * config.slowdown * drift
        if config.jacobian != "none":
            z = batches[0].code
            keys = jax.random.split(penalty_key, len(z))
            norms = jax.vmap(lambda c, k: jacobian_norm(nets.generator, current["generator"], c, config.jacobian, k))(
                z, keys
            )
            loss = loss + jacobian_weight(config, time) * norms.mean()
        return loss

    trained, opt_state, metrics = best_response.train(
        key_train,
        params,
        opt_state,
        experience=experience,
        learner=learner,
        surrogate=best_response.SURROGATES[config.surrogate],
        penalty=penalty,
        steps=config.abr_steps,
        epochs=config.abr_epochs,
        learning_rate={
            "generator": config.learning_rate / config.slowdown,
            "critic": config.critic_learning_rate / config.slowdown,
        },
        gradient_clip=config.gradient_clip,
        clip=config.ppo_clip,
        value_weight=config.value_weight,
        entropy_weight=config.entropy_weight,
        normalise=config.normalise_advantages,
        minibatches=config.abr_minibatches,
        kept=decision_share(views[0]),
        carry=lanes,
    )
    forgetting = jnp.where(held, anchor_kl(learner, trained, protected, as_before), 0.0)
    norms = jax.vmap(lambda z: jacobian_norm(nets.generator, trained["generator"], z, "gram"))(codes)
    protected_steps = jnp.sum(jnp.stack([batch.env_steps for batch in protected]))
    return Response(
        trained,
        opt_state,
        metrics,
        kl=best_response.masked_mean(forgetting, held),
        forgetting=forgetting,
        jacobian=best_response.masked_mean(norms, active),
        episodes=metrics.episodes + seen,
        env_steps=metrics.env_steps + protected_steps,
    )


def _kl_per_code(learner: Learner, current: PyTree, batch: Experience, frozen: PolicyOutput) -> Array:
    """KL(current || frozen outputs) [G], the mean over the decisions of each code's episodes."""
    now = best_response.outputs_on(learner, current, batch)
    kl = jax.vmap(jax.vmap(jax.vmap(jax.vmap(distributions.kl))))(now, frozen)
    return jax.vmap(best_response.masked_mean)(kl, batch.acted)


def anchor_kl(learner: Learner, current: PyTree, batches: list[Experience], frozen: list[PolicyOutput]) -> Array:
    """KL per anchor [K], averaged over the players that share the population."""
    rows = [_kl_per_code(learner, current, b, f) for b, f in zip(batches, frozen, strict=True)]
    return jnp.mean(jnp.stack(rows), axis=0)
