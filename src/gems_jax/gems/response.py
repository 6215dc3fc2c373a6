"""Phase 4: amortized best response with a trust region (eq:abr-tr_revised).

Algorithm 1 trains each population's generator against the frozen sigma' of the others. Two options regularize it:

    magnet          the loss adds alpha_t KL(pi || magnet) on the decisions of the batch (learning/magnets.py)
    live opponents  a fraction rho of the opponents are the newest anchors of the other populations in the current
                    round, which receive no gradient; the rest are drawn from the frozen sigma'

With rho = 1, q_new = 1 and beta_kl = 0 the newest anchors learn by regularized self-play,

    theta <- theta - lr_t grad [ -E surrogate(pi) - entropy_t H(pi) + alpha_t KL(pi || magnet) ],   pi = pi_{G_theta(z)}

This is magnetic mirror descent (Sokota et al. 2023) with a uniform or moving magnet and annealed alpha, and Nash policy
gradient (Yu et al. 2025) with a copied magnet and constant alpha: `mmd` and `nash_pg` of psro/self_play.py with a
generator instead of a network, and coefficients that are annealed by the iteration instead of the update. The magnet of
an anchor z is pi_{G_magnet(z)}, where G_magnet has earlier parameters of the generator, also of earlier iterations.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.config import GemsConfig
from gems_jax.gems.abr_task import (
    AbrTask,
    Arena,
    join_experience,
    make_arena,
    play_anchor_batch,
    protect_anchors,
    train_settings,
)
from gems_jax.gems.meta_game import MetaSolution
from gems_jax.gems.replayed_response import ReplayMetrics, train_on_replay
from gems_jax.gems.state import AnchorSet, GemsState, Magnet, Networks, init_population_optimizers
from gems_jax.learning import ppo
from gems_jax.learning.batches import Batch, Experience, masked_mean, mean_loss_parts
from gems_jax.learning.magnets import has_parameters, magnet_penalty, move_magnet
from gems_jax.learning.ppo import SURROGATES, Learned, Parts, TrainMetrics, repeat_training, train_round
from gems_jax.learning.trust_region import TrustRegion
from gems_jax.policies.generator import jacobian_norm
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.openings import add_openings
from gems_jax.rollout.views import (
    View,
    is_rotational,
    map_populations_with_carry,
    players_of,
    split_populations,
    stack_populations,
)
from gems_jax.types import Array, Game, PyTree, Struct, num_populations


class ResponseMetrics(Struct):
    """Measurements of phase 4; the parts of the loss are those of the last gradient step."""

    jacobian: Array  # [P], mean ||J G(z)||_F^2 over active anchors
    kl: Array  # [P], KL of the trained generator from the frozen one, mean over protected anchors
    forgetting: Array  # [P, K], this KL per anchor
    entropy: Array  # [P]
    objective: Array  # [P]
    value_loss: Array  # [P]
    gradient_norm: Array  # [P]


class BestResponse(NamedTuple):
    """Result of phase 4, [P, ...] except for the counts."""

    params: dict[str, PyTree]  # "generator" and "critic"
    opt_state: dict[str, PyTree]
    improvement: Array  # [P], increase of the scaled return during training
    drift: Array  # [P, K], KL of every active anchor from its policy before training
    metrics: ResponseMetrics
    episodes: Array
    env_steps: Array
    gradient_steps: Array
    magnet: Magnet | None = None


def respond(
    key: Array,
    state: GemsState,
    anchor_set: AnchorSet,
    opponents: StackedPolicies,
    game: Game,
    config: GemsConfig,
    steps: int | Array | None = None,
    solution: MetaSolution | None = None,
) -> BestResponse:
    """Runs phase 4, ABR-TR (eq:abr-tr_revised): trains each population's generator against the others' frozen sigma'.

    With `live_opponents`, or a magnet that follows the generator, all populations train in one loop, round by round.

    Args:
      key: typed PRNG key; consumed.
      state: the state before the iteration.
      anchor_set: the anchors after phase 3.
      opponents: the policies of all anchors before phase 3, [P, K, ...].
      game: the game that is played.
      config: settings.
      steps: number of ABR steps, static or traced; by default the config's.
      solution: result of phases 1 and 2, whose stored episodes the `replay_steps` use after the ABR steps.

    Returns:
      The trained networks with their measurements.
    """
    steps = config.abr_steps if steps is None else steps
    params = {"generator": state.generator, "critic": state.critic}
    opt_state = init_population_optimizers(params, config) if config.reset_optimizer else state.opt_state
    arena = make_arena(state, anchor_set, opponents, game, config)
    keys = jax.random.split(key, num_populations(game))
    if config.live_opponents or has_parameters(config):
        response = _train_jointly(keys, arena, (params, opt_state), state.magnet, steps)
    else:

        def respond_one(
            views: tuple[View, ...], p: Array | int, own_key: Array, learned: Learned
        ) -> tuple[BestResponse, tuple[()]]:
            return _train_generator(own_key, arena.task(views, p), learned, steps), ()

        every = split_populations(game, (params, opt_state))
        response = map_populations_with_carry(add_openings(game, config), respond_one, keys, every)[0]
    totals = {name: getattr(response, name).sum() for name in ("episodes", "env_steps", "gradient_steps")}
    response = response._replace(**totals)
    if not config.replay_steps or solution is None:
        return response
    learned, found = train_on_replay(
        jax.random.fold_in(key, 1), arena, (response.params, response.opt_state), solution.replay, solution.joint
    )
    return _add_replay(response, arena, learned, found)


def _add_replay(response: BestResponse, arena: Arena, learned: Learned, found: ReplayMetrics) -> BestResponse:
    """The response after further training on stored episodes, whose divergence is its drift."""
    protected = arena.anchor_set.active & (jnp.arange(arena.config.capacity)[None, :] != arena.newest[:, None])
    drift = jnp.where(protected, found.divergence, 0.0)
    return response._replace(
        params=learned[0],
        opt_state=learned[1],
        improvement=response.improvement + found.improvement,
        drift=response.drift + drift,
        gradient_steps=response.gradient_steps + arena.config.replay_steps * len(arena.newest),
        metrics=response.metrics.replace(
            entropy=found.entropy,
            forgetting=response.metrics.forgetting + drift,
            kl=response.metrics.kl + jax.vmap(masked_mean)(drift, protected),
        ),
    )


def abr_tr_loss(
    params: PyTree, batches: Sequence[Batch], key: Array, *, task: AbrTask, region: TrustRegion
) -> tuple[Array, Parts]:
    """Computes the loss of ABR-TR: minus the objective of eq:abr-tr_revised, plus the terms of an actor-critic.

        loss(theta) = -E_{z ~ q_t, j ~ sigma'} [ A-hat(z) - beta KL(z) - lambda_J ||J G_theta(z)||_F^2 ]
                      + value_weight E[(V - target)^2] - entropy_weight E[H(pi)] + alpha E[KL(pi || magnet)]

    A-hat(z) is the surrogate objective of pi_{G_theta(z)} with generalized advantages, and KL(z) is the trust region
    KL(pi_{G_theta(z)} || pi_{G_theta^-(z)}) around the frozen generator theta^-. The magnet is uniform play or an
    earlier generator's policy of the same code; the paper has none.

    Args:
      params: "generator" theta and "critic".
      batches: experience of a batch of anchors z ~ q_t, one per player of the population.
      key: typed PRNG key of the Jacobian's estimator; consumed.
      task: training task of the population, with the settings.
      region: the frozen generator, and the states of the trust region unless `kl_protects` is "batch".

    Returns:
      The loss [], and its parts; the penalty among them is beta KL + lambda_J ||J||_F^2 + alpha KL(pi || magnet).
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
    if config.magnet != "none":
        pull = magnet_penalty(config, learner, {"generator": task.magnet}, task.time - 1)
        penalty = penalty + pull(params, batches, key)
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


def _train_generator(key: Array, task: AbrTask, learned: Learned, steps: int | Array) -> BestResponse:
    """Trains the generator of one population with `abr_tr_loss`. key: consumed."""
    key_protect, key_train, key_rows, key_games = jax.random.split(key, 4)
    region, episodes, env_steps = protect_anchors(key_protect, key_rows, task, learned[0])
    trained, opt_state, metrics = ppo.train_learner(
        key_train,
        *learned,
        learner=task.source.learner,
        experience=partial(play_anchor_batch, task=task),
        loss=partial(abr_tr_loss, task=task, region=region),
        settings=train_settings(task),
        steps=steps,
        carry=task.source.start_games(key_games, task.config.abr_anchors),
    )
    metrics = metrics._replace(episodes=metrics.episodes + episodes, env_steps=metrics.env_steps + env_steps)
    return _measure_response(task, region, (trained, opt_state), metrics, steps)


def _train_jointly(
    keys: Array, arena: Arena, learned: Learned, magnet: Magnet | None, steps: int | Array
) -> BestResponse:
    """Trains the generators [P, ...] of all populations together: a round of each, then the next round.

    keys: [P]; consumed.
    """
    config = arena.config
    game, joint = add_openings(arena.game, config), _JointGames(arena) if config.joint_opponents else None
    split = jax.vmap(lambda k: jax.random.split(k, 5))(keys)
    key_protect, key_train, key_rows, key_games, key_joint = jnp.moveaxis(split, 1, 0)

    def update_arena(now: Learned) -> Arena:
        return arena.add_live_opponents(now[0]) if config.live_opponents and not config.joint_play else arena

    def protect(views: tuple[View, ...], p: Array | int, k: Array) -> tuple[tuple[Array, Array], TrustRegion]:
        own = jax.tree.map(lambda leaf: leaf[p], learned[0])
        region, episodes, env_steps = protect_anchors(k, key_rows[p], arena.task(views, p), own)
        return (jnp.int32(episodes), env_steps), region

    def start(views: tuple[View, ...], p: Array | int, k: Array) -> tuple[tuple[()], PyTree]:
        task = update_arena(learned).task(views, p)
        return (), task.source.start_games(k, config.abr_anchors) if task.source.settings.num_opponents else []

    counts, regions = map_populations_with_carry(game, protect, key_protect)
    games = map_populations_with_carry(game, start, key_games)[1], joint and joint.start(key_joint[0])

    def advance(state: tuple[Learned, Magnet | None, PyTree], key: Array) -> tuple[tuple, TrainMetrics]:
        now, magnet, (games, joint_games) = state
        current = update_arena(now)
        shared: PyTree = [[]] * num_populations(game)
        repeated: tuple[Array | int, Array | int] = (0, 0)
        keys = jax.random.split(key, num_populations(game) + 1)
        if joint:
            shared, joint_games, repeated = joint.play(keys[-1], now[0], joint_games)

        def train_one(
            views: tuple[View, ...],
            p: Array | int,
            k: Array,
            region: TrustRegion,
            own_games: PyTree,
            shared: list[Experience],
        ) -> tuple[tuple[Learned, TrainMetrics], PyTree]:
            task = current.task(views, p, None if magnet is None else magnet.params)

            def experience(k: Array, params: PyTree, games: PyTree) -> tuple[list[Experience], PyTree]:
                batches, games = play_anchor_batch(k, params, games, task=task)
                return (join_experience(batches, shared) if joint else batches), games

            (own, own_games), metrics = train_round(
                k,
                jax.tree.map(lambda leaf: leaf[p], now),
                own_games,
                learner=task.source.learner,
                experience=experience,
                loss=partial(abr_tr_loss, task=task, region=region),
                settings=train_settings(task),
            )
            return (own, metrics), own_games

        outcome = map_populations_with_carry(game, train_one, keys[:-1], regions, games, shared)
        (now, metrics), games = outcome
        metrics = _subtract_repeated(metrics, repeated)
        return (now, _update_magnet(config, magnet, now[0]["generator"]), (games, joint_games)), metrics

    begin = (learned, magnet, games)
    (learned, magnet, _), metrics = repeat_training(advance, begin, key_train[0], steps, shape=keys.shape)
    metrics = metrics._replace(episodes=metrics.episodes + counts[0], env_steps=metrics.env_steps + counts[1])

    def measure(views: tuple[View, ...], p: Array | int, _: Array, region: TrustRegion) -> tuple[BestResponse, tuple]:
        own, own_metrics = jax.tree.map(lambda leaf: leaf[p], (learned, metrics))
        return _measure_response(arena.task(views, p), region, own, own_metrics, steps), ()

    no_keys = jnp.arange(num_populations(game))  # measuring draws nothing
    response = map_populations_with_carry(game, measure, no_keys, regions)[0]
    return response._replace(magnet=magnet)


class _JointGames(NamedTuple):
    """Games between the newest anchors, from which all populations learn (`joint_play`)."""

    arena: Arena

    def start(self, key: Array) -> PyTree:
        """Starts the games. key: consumed."""
        return self.arena.joint_play().start_games(key)

    def play(self, key: Array, params: PyTree, games: PyTree) -> tuple[PyTree, PyTree, tuple[Array, Array]]:
        """Plays a round.

        Args:
          key: typed PRNG key; consumed.
          params: parameters of all populations, [P, ...].
          games: games to continue.

        Returns:
          The batches of every population's players as a carry of `map_populations_with_carry`, the games to continue,
          and the episodes and steps that all batches together count too often.
        """
        game, (anchors, newest) = self.arena.game, (self.arena.anchor_set.anchors, self.arena.newest)
        owners = game.population_of_player
        each = [jax.tree.map(lambda leaf, p=p: leaf[p], params) for p in owners]
        codes = [anchors[p, newest[p]][None] for p in owners]
        batches, games = self.arena.joint_play().play_round(key, each, codes, games)
        again = len(batches) - 1
        repeated = (again * batches[0].episodes, again * batches[0].env_steps)
        own = [[batches[player] for player in players_of(game, p)] for p in range(num_populations(game))]
        return (stack_populations(own) if is_rotational(game) and game.num_seats > 1 else own), games, repeated


def _subtract_repeated(metrics: TrainMetrics, repeated: tuple[Array | int, Array | int]) -> TrainMetrics:
    """Subtracts episodes and steps that were counted several times from the counts of the first population."""
    first = jnp.arange(len(metrics.episodes)) == 0
    return metrics._replace(
        episodes=metrics.episodes - first * repeated[0], env_steps=metrics.env_steps - first * repeated[1]
    )


def _update_magnet(config: GemsConfig, magnet: Magnet | None, generator: PyTree) -> Magnet | None:
    """The magnet after an update whose result is the generators [P, ...]."""
    if magnet is None:
        return None
    updates = magnet.updates + 1
    return Magnet(move_magnet(config, magnet.params, generator, updates), updates)


def _measure_response(
    task: AbrTask, region: TrustRegion, learned: Learned, metrics: TrainMetrics, steps: int | Array
) -> BestResponse:
    """Measures the result of training one population."""
    config, learner, (trained, opt_state) = task.config, task.source.learner, learned
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
        episodes=metrics.episodes,
        env_steps=metrics.env_steps,
        gradient_steps=jnp.int32(steps * config.abr_epochs * config.abr_minibatches),
    )
