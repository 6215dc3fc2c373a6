"""What the populations train on in phase 4: their anchors, who they meet, and the states of the trust region."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.config import GemsConfig
from gems_jax.gems.state import AnchorSet, GemsState, Networks, gems_networks, jacobian_weight, population_of
from gems_jax.learning.batches import Experience, Learner
from gems_jax.learning.collection import OngoingGames, PlaySettings, Source, decision_fraction
from gems_jax.learning.magnets import anneal
from gems_jax.learning.minibatches import sample_decisions
from gems_jax.learning.ppo import TrainSettings
from gems_jax.learning.trust_region import TrustRegion, make_trust_region
from gems_jax.meta import simplex
from gems_jax.policies import distributions
from gems_jax.policies.population import StackedPolicies, append_policy, materialise
from gems_jax.rollout.views import View, rotate
from gems_jax.types import Array, Game, PolicyOutput, PyTree


class AbrTask(NamedTuple):
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
    magnet: PyTree = None  # theta of the magnet, where it has parameters


class Arena(NamedTuple):
    """What all populations train with: the anchors Z_t of each, and the mixtures of them that the others face."""

    anchor_set: AnchorSet
    opponents: StackedPolicies  # [P, K, ...]
    faced: Array  # [P, K], log of the mixtures of opponents
    newest: Array  # [P] int32, slots of the newest anchors
    time: Array  # [] int32, the iteration, counted from 1
    game: Game
    config: GemsConfig

    def task(self, views: tuple[View, ...], p: Array | int, magnet: PyTree = None) -> AbrTask:
        """Makes the task of population p with its views; the magnet has theta [P, ...] or is None."""
        config, anchor_set = self.config, self.anchor_set
        nets = gems_networks(views[0].base, config)
        log_codes = jnp.log(anchor_set.sigma[p])
        if config.q_new_applies == "opponents":
            log_codes = jnp.log(simplex.masked_uniform(anchor_set.active[p]))
        return AbrTask(
            source=Source(
                views=views,
                learner=make_learner(nets, config.temperature),
                opponents=add_tremble(rotate(self.opponents, p), 0.0 if self.game.continuous else config.abr_tremble),
                log_sigma=rotate(self.faced, p),
                settings=_play_settings(config),
            ),
            nets=nets,
            codes=anchor_set.anchors[p],
            active=anchor_set.active[p],
            newest=self.newest[p],
            log_codes=log_codes,
            time=self.time,
            jacobian_weight=jacobian_weight(config, self.time, p),
            config=config,
            magnet=jax.tree.map(lambda leaf: leaf[p], magnet),
        )

    def with_live(self, params: dict[str, PyTree]) -> Arena:
        """Adds the newest anchors under the generators of `params` [P, ...] as opponents of mass rho, in slot K."""
        learner = make_learner(gems_networks(self.game, self.config), self.config.temperature)
        codes = jax.vmap(lambda held, slot: held[slot])(self.anchor_set.anchors, self.newest)
        live = jax.vmap(learner.policy)(params, codes)
        rho = jnp.asarray(self.config.self_play_fraction, jnp.float32)
        mass = jnp.broadcast_to(jnp.log(rho), (len(codes), 1))
        return self._replace(
            opponents=append_policy(self.opponents, live),
            faced=jnp.concatenate([self.faced + jnp.log(1.0 - rho), mass], axis=1),
        )


def make_arena(
    state: GemsState, anchor_set: AnchorSet, opponents: StackedPolicies, game: Game, config: GemsConfig
) -> Arena:
    """Says who trains against whom in phase 4.

    Args:
      state: the state before the iteration.
      anchor_set: the anchors after phase 3.
      opponents: the policies of all anchors before phase 3, [P, K, ...].
      game: the game that is played.
      config: settings.

    Returns:
      The arena of frozen opponents.
    """
    faced = faced_mixture(anchor_set.sigma, anchor_set.active, config.abr_floor)
    newest = jnp.argmax(anchor_set.anchor_id, axis=1)  # [P]
    if config.q_new_applies == "opponents":
        faced = give_mass_to_newest(faced, newest, config.q_new)
        opponents = materialise(
            population_of(dataclasses.replace(state, anchors=anchor_set.anchors), game, config), config.capacity
        )
    return Arena(anchor_set, opponents, faced, newest, state.step + 1, game, config)


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


def play_anchor_batch(
    key: Array, params: PyTree, games: list[OngoingGames], task: AbrTask
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


def protect_anchors(key_play: Array, key_rows: Array, task: AbrTask, params: PyTree) -> tuple[TrustRegion, int, Array]:
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


def train_settings(task: AbrTask) -> TrainSettings:
    """Translates the settings for `learning.ppo`; step sizes are annealed by the iterations done."""
    config = task.config
    actor, critic = (
        anneal(rate / config.slowdown, config.learning_rate_decay, task.time - 1)
        for rate in (config.learning_rate, config.critic_learning_rate)
    )
    return TrainSettings(
        epochs=config.abr_epochs,
        learning_rate={
            "generator": task.nets.generator.rates(jnp.asarray(actor), config.output_rate),
            "critic": critic,
        },
        gradient_clip=config.gradient_clip,
        normalize=config.normalise_advantages,
        minibatches=config.abr_minibatches,
        decision_fraction=decision_fraction(task.source.views[0]),
        momentum=config.momentum,
    )


def _play_settings(config: GemsConfig) -> PlaySettings:
    return PlaySettings(
        num_opponents=config.abr_opponents,
        episodes=config.abr_episodes,
        discount=config.discount,
        decay=config.gae_lambda,
        stratified=config.opponents == "stratified",
        segment=config.abr_segment if config.abr_steps else 0,
    )
