"""Training tasks of phase 4: the anchors of each population, its opponents, and the states of the trust region."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.config import GemsConfig
from gems_jax.gems.state import AnchorSet, GemsState, Networks, gems_networks, jacobian_weight, population_of
from gems_jax.learning.batches import Experience, Learner
from gems_jax.learning.collection import OngoingGames, PlaySettings, SelfPlay, Source, decision_fraction
from gems_jax.learning.magnets import anneal
from gems_jax.learning.minibatches import sample_decisions
from gems_jax.learning.ppo import TrainSettings
from gems_jax.learning.trust_region import TrustRegion, make_trust_region
from gems_jax.meta import simplex
from gems_jax.policies import distributions
from gems_jax.policies.population import StackedPolicies, append_policy, materialize
from gems_jax.rollout.openings import add_openings
from gems_jax.rollout.views import View, rotate
from gems_jax.types import Array, Game, PolicyOutput, PyTree, num_players


class AbrTask(NamedTuple):
    """Training task of one population: its experience, its anchors and the settings."""

    source: Source
    nets: Networks
    codes: Array  # [K, D]
    active: Array  # [K]
    newest: Array  # [] int32, slot of the newest anchor
    log_codes: Array  # [K], log of the distribution of a batch's anchors
    time: Array  # [] int32, iteration t, counted from 1
    jacobian_weight: ArrayLike  # lambda_J
    config: GemsConfig
    magnet: PyTree = None  # theta of the magnet, if it has parameters


class Arena(NamedTuple):
    """Training tasks of all populations: the anchors Z_t, and the opponent mixtures."""

    anchor_set: AnchorSet
    opponents: StackedPolicies  # [P, K, ...]
    faced: Array  # [P, K], log of the mixtures of opponents
    newest: Array  # [P] int32, slots of the newest anchors
    time: Array  # [] int32, iteration t, counted from 1
    game: Game
    config: GemsConfig

    def task(self, views: tuple[View, ...], p: Array | int, magnet: PyTree = None) -> AbrTask:
        """Makes the task of one population.

        Args:
          views: the game from every player position of the population.
          p: the population, static or traced.
          magnet: theta of the magnets, [P, ...], or None.

        Returns:
          The task of population p.
        """
        config, anchor_set = self.config, self.anchor_set
        nets = gems_networks(self.game, config)
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

    def joint_play(self) -> SelfPlay:
        """Makes the games between the newest anchors of all players."""
        learner = make_learner(gems_networks(self.game, self.config), self.config.temperature)
        settings = _play_settings(self.config)._replace(num_opponents=self.config.joint_opponents)
        return SelfPlay(add_openings(self.game, self.config), (learner,) * num_players(self.game), settings)

    def add_live_opponents(self, params: dict[str, PyTree]) -> Arena:
        """Adds the newest anchors of the current generators as opponents in slot K.

        With rho = `self_play_fraction`, the mixtures become (1 - rho) sigma', and rho on the added slot.

        Args:
          params: current parameters, [P, ...].

        Returns:
          The arena with K + 1 opponents per population.
        """
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
    """Makes the training tasks of phase 4 with frozen opponents.

    Args:
      state: the state before the iteration.
      anchor_set: the anchors after phase 3.
      opponents: the policies of all anchors before phase 3, [P, K, ...].
      game: the game that is played.
      config: settings.

    Returns:
      The arena, whose opponents are drawn from sigma' of `anchor_set`.
    """
    faced = faced_mixture(anchor_set.sigma, anchor_set.active, config.abr_floor)
    newest = jnp.argmax(anchor_set.anchor_id, axis=1)  # [P]
    if config.q_new_applies == "opponents":
        faced = give_mass_to_newest(faced, newest, config.q_new)
        opponents = materialize(
            population_of(dataclasses.replace(state, anchors=anchor_set.anchors), game, config), config.capacity
        )
    return Arena(anchor_set, opponents, faced, newest, state.step + 1, game, config)


def faced_mixture(sigma: Array, active: Array, floor: Array | float) -> Array:
    """Computes the opponent mixture log((1 - floor) sigma + floor * uniform), uniform over anchors with mass.

    A new anchor has no mass yet and is therefore not among the opponents.

    Args:
      sigma: mixtures, [P, K].
      active: which slots hold an anchor, [P, K] bool.
      floor: probability of a uniformly drawn anchor, [].

    Returns:
      Logarithms of the mixtures, [P, K].
    """
    uniform = jax.vmap(simplex.masked_uniform)(active & (sigma > 0.0))
    return jnp.log((1.0 - floor) * sigma + floor * uniform)


def give_mass_to_newest(log_sigma: Array, newest: Array, fraction: ArrayLike) -> Array:
    """Moves a fraction of the mass of every mixture to the newest anchor (q_new of tab:gems_default_params).

    Args:
      log_sigma: logarithms of the mixtures, [P, K].
      newest: slots of the newest anchors, [P] int32.
      fraction: q_new, [].

    Returns:
      Logarithms of the mixtures, [P, K].
    """
    new = jnp.arange(log_sigma.shape[1])[None, :] == newest[:, None]
    return jnp.log((1.0 - fraction) * jnp.exp(log_sigma) + fraction * new)


def add_tremble(policies: StackedPolicies, probability: ArrayLike) -> StackedPolicies:
    """Wraps policies so that each action is a uniformly drawn legal one with the given probability."""
    if isinstance(probability, (int, float)) and not probability:
        return policies

    def apply(phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        return distributions.tremble(policies.apply(phi, observation, legal), legal, probability)

    return StackedPolicies(policies.params, apply)


def make_learner(nets: Networks, temperature: Array | float) -> Learner:
    """Makes the learner of a generator phi = G_theta(z), with logits divided by a temperature, and a critic V(o, z)."""

    def policy(params: PyTree, code: Array) -> PyTree:
        return nets.generator.policy.temper(nets.generator(params["generator"], code), temperature)

    def value(params: PyTree, code: Array, observation: Array) -> Array:
        return nets.critic(params["critic"], observation, code)

    return Learner(policy, value, nets.generator.policy)


def play_anchor_batch(
    key: Array, params: PyTree, games: list[OngoingGames], task: AbrTask
) -> tuple[list[Experience], list[OngoingGames]]:
    """Plays one round of a batch of anchors z ~ q_t (eq:abr-tr_revised).

    A fraction q_new of the batch is the newest anchor and the rest is drawn from sigma', or all anchors are uniform
    draws of Z_t (see `q_new_applies`).

    Args:
      key: typed PRNG key; consumed.
      params: "generator" and "critic".
      games: games to continue, one per view; empty if rounds play whole episodes.
      task: training task of the population.

    Returns:
      One batch per view, and the games to continue in the next round.
    """
    config = task.config
    key_code, key_play = jax.random.split(key)
    drawn = simplex.sample_slots(key_code, task.log_codes, (config.abr_anchors,))
    if not task.source.settings.num_opponents:
        return [], games
    if config.q_new_applies == "anchors":
        is_new = (jnp.arange(config.abr_anchors) + 0.5) / config.abr_anchors < config.q_new
        drawn = jnp.where(is_new, task.newest, drawn)
    return task.source.play_round(key_play, params, task.codes[drawn], games)


def join_experience(own: Sequence[Experience], joint: Sequence[Experience]) -> list[Experience]:
    """Joins the experience of the games of a population with that of joint games, player by player.

    Args:
      own: one batch [1, R, ...] per player of the population; none if all games are joint.
      joint: one batch per player.

    Returns:
      One batch per player, with the rows and the counts of both.
    """

    def join(mine: Experience, shared: Experience) -> Experience:
        counts = {name: getattr(mine, name) + getattr(shared, name) for name in ("episodes", "env_steps")}
        rows = jax.tree.map(lambda *leaves: jnp.concatenate(leaves, axis=1), *(
            one.replace(code=(), episodes=(), env_steps=()) for one in (mine, shared)
        ))  # fmt: skip
        return rows.replace(code=mine.code, **counts)

    return [join(mine, shared) for mine, shared in zip(own, joint, strict=True)] if own else list(joint)


def protect_anchors(key_play: Array, key_rows: Array, task: AbrTask, params: PyTree) -> tuple[TrustRegion, int, Array]:
    """Plays every anchor and makes the trust region around its current policy.

    Args:
      key_play: typed PRNG key of the episodes; consumed.
      key_rows: typed PRNG key of the choice of states; consumed.
      task: training task of the population.
      params: "generator" theta^- and "critic".

    Returns:
      The trust region, and the episodes and environment steps played.
    """
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
    """Makes the settings of `learning.ppo` for a task, with learning rates annealed by the iteration."""
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
        num_opponents=config.abr_opponents - config.joint_opponents,
        episodes=config.abr_episodes,
        discount=config.discount,
        decay=config.gae_lambda,
        stratified=config.opponents == "stratified",
        segment=config.abr_segment if config.abr_steps else 0,
        doubly_robust=config.advantage == "doubly_robust",
    )
