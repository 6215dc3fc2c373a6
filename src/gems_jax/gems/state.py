"""The state that GEMS carries from iteration to iteration, and the networks it consists of."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from gems_jax.config import GemsConfig
from gems_jax.gems.adaptive import start_shares
from gems_jax.gems.reused import Replay, start_replay
from gems_jax.learning.magnets import has_parameters
from gems_jax.learning.networks import critic_network, policy_network
from gems_jax.learning.ppo import fresh_optimizers
from gems_jax.meta import simplex
from gems_jax.policies.critic import Critic
from gems_jax.policies.generator import Generator, Hypernetwork
from gems_jax.policies.networks import HalfPolicy
from gems_jax.policies.population import Anchors, materialise
from gems_jax.types import Array, Game, Profile, PyTree, Struct, num_populations


class Magnet(Struct):
    """Generators that the loss pulls towards (learning/magnets.py)."""

    params: PyTree  # theta [P, ...] of a magnet that moves or is copied
    updates: Array  # [] int32, updates of the run so far


class GemsState(Struct):
    """Everything that is carried from iteration to iteration. Its bytes never change."""

    generator: PyTree  # theta [P, ...]
    critic: PyTree  # [P, ...]
    opt_state: dict[str, PyTree]  # [P, ...] of "generator" and "critic"
    anchors: Array  # [P, K, D], latent codes z
    active: Array  # [P, K]
    anchor_id: Array  # [P, K] int32, counts insertions; -1 in empty slots
    log_sigma: Array  # [P, K], where the next meta update starts: newcomers have mass
    sigma: Array  # [P, K], the mixture that is played: this iteration's average of the meta iterates
    sigma_average: Array  # [P, K], its average over the run
    values: Array  # [P, K], v-hat of the step before, scaled returns
    mixture_value: Array  # [P]
    step: Array  # [] int32, iterations done
    shares: Array | None = None  # [3], of the episodes for each phase, with adaptive budgets only
    replay: PyTree = None  # stored returns of estimators that reuse them (`estimator` pairs or trajectories)
    magnet: Magnet | None = None  # with a magnet that moves or is copied only


class AnchorSet(Struct):
    """The anchor set Z_t of every population, and what the next meta update starts from. Named as in `GemsState`."""

    anchors: Array  # [P, K, D]
    active: Array  # [P, K]
    anchor_id: Array  # [P, K] int32
    log_sigma: Array  # [P, K]
    sigma: Array  # [P, K], the mixture that is played: newcomers have no mass yet
    values: Array  # [P, K]


class Networks(NamedTuple):
    generator: Generator
    critic: Critic


def gems_networks(game: Game, config: GemsConfig) -> Networks:
    """Builds the networks that the config describes for a game: static, equal for equal arguments."""
    policy, critic = policy_network(game, config), critic_network(game, config, config.latent_dim)
    half = config.precision == "bfloat16"
    if half and config.policy != "tabular":
        policy = HalfPolicy(policy)
    generator = Hypernetwork(policy, config.latent_dim, config.generator_widths, config.constant_norm)
    return Networks(generator, dataclasses.replace(critic, half=half))


def init_gems(
    key: Array, game: Game, config: GemsConfig, *, anchors: Array | None = None, sigma: Array | None = None
) -> GemsState:
    """Make the state before the first iteration of Algorithm 1, and check the config.

    Args:
      key: typed PRNG key; consumed.
      game: the game to solve, with P populations.
      config: settings; `initial_anchors` is k0 and `latent_dim` is D.
      anchors: initial anchor set Z_0, [P, k0, D]. By default independent draws from N(0, I).
      sigma: initial meta-strategy sigma_0, [P, k0], each row a distribution. By default uniform.

    Returns:
      A `GemsState` with fresh networks.

    Raises:
      ValueError: if a setting is out of range, or an array does not have its shape or is not a distribution.
    """
    config.validate()
    _check_game(game)
    _check_tremble(game, config)
    nets, num = gems_networks(game, config), num_populations(game)
    _check_players(config, num)
    key_generator, key_critic, key_anchors = jax.random.split(key, 3)
    generator = jax.vmap(lambda k: nets.generator.init(k, config.generator_scale))(jax.random.split(key_generator, num))
    critic = jax.vmap(nets.critic.init)(jax.random.split(key_critic, num))
    active = jnp.broadcast_to(jnp.arange(config.capacity) < config.initial_anchors, (num, config.capacity))
    codes = jax.random.normal(key_anchors, (num, config.capacity, config.latent_dim))
    if anchors is not None:
        codes = _fill_slots(codes, _checked("anchors", anchors, (num, config.initial_anchors, config.latent_dim)))
    mixture = jax.vmap(simplex.masked_uniform)(active)
    if sigma is not None:
        mixture = _fill_slots(mixture, _check_distribution(_checked("sigma", sigma, (num, config.initial_anchors))))
    state = GemsState(
        generator=generator,
        critic=critic,
        opt_state=fresh_optimizer({"generator": generator, "critic": critic}, config),
        anchors=jnp.where(active[:, :, None], codes, 0.0),
        active=active,
        anchor_id=jnp.where(active, jnp.arange(config.capacity)[None, :], -1).astype(jnp.int32),
        log_sigma=jnp.log(mixture),
        sigma=mixture,
        sigma_average=mixture,
        values=jnp.zeros_like(mixture),
        mixture_value=jnp.zeros(num),
        step=jnp.int32(0),
        shares=start_shares(game, config, active) if config.adaptive else None,
        magnet=Magnet(generator, jnp.int32(0)) if has_parameters(config) else None,
    )
    return state.replace(replay=_start_replay(jax.random.fold_in(key, 1), state, game, config))


def _start_replay(key: Array, state: GemsState, game: Game, config: GemsConfig) -> Replay | None:
    """The empty store of returns; None where the estimator keeps none. key: consumed."""
    if not config.reuses_returns:
        return None
    return start_replay(key, game, materialise(population_of(state, game, config), config.capacity), config)


def _fill_slots(slots: Array, first: Array) -> Array:
    """[P, K, ...] with `first` [P, k0, ...] in the first slots."""
    return slots.at[:, : first.shape[1]].set(first)


def _checked(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Array:
    """The argument as a float32 array of `shape`, finite where it can be looked at."""
    array = jnp.asarray(value, jnp.float32)
    if array.shape != shape:
        what = "[P, k0, D]" if len(shape) == 3 else "[P, k0]"
        raise ValueError(
            f"init_gems: {name} must have the shape {what} = {shape} of P populations and initial_anchors=k0: "
            f"got {array.shape}. Change {name}, or the config's initial_anchors or latent_dim"
        )
    if not isinstance(array, jax.core.Tracer) and not np.isfinite(array).all():
        raise ValueError(f"init_gems: {name} must be finite: got {np.asarray(array).tolist()}")
    return array


def _check_distribution(sigma: Array) -> Array:
    """sigma [P, k0], each row normalized; ValueError for rows that are not distributions."""
    if isinstance(sigma, jax.core.Tracer):
        return sigma
    total = np.asarray(sigma).sum(axis=1)
    if (np.asarray(sigma) < 0.0).any() or (np.abs(total - 1.0) > 1e-4).any():
        raise ValueError(
            f"init_gems: every row of sigma must be at least 0 and sum to 1: got {np.asarray(sigma).tolist()}"
        )
    return sigma / total[:, None]


def population_of(state: GemsState, game: Game, config: GemsConfig) -> Anchors:
    """Returns the generated population [P] of a state."""
    temperature = jnp.broadcast_to(jnp.asarray(config.temperature, jnp.float32), (num_populations(game),))
    return Anchors(state.generator, state.anchors, temperature, gems_networks(game, config).generator)


def gems_profile(state: GemsState, game: Game, config: GemsConfig, which: str = "iterate") -> Profile:
    """Returns the mixture to play: `iterate`, of the last iteration, or `average`, over the run."""
    if which not in ("iterate", "average"):
        raise ValueError(f"unknown profile {which!r}; known: 'iterate', 'average'")
    return Profile(population_of(state, game, config), state.sigma if which == "iterate" else state.sigma_average)


def per_player(value: ArrayLike | tuple[ArrayLike, ...], population: Array | int) -> ArrayLike:
    """Picks a population's number of a setting that is a number for all, or [P]."""
    numbers = jnp.stack([jnp.asarray(one, jnp.float32) for one in value]) if isinstance(value, tuple) else value
    return numbers if jnp.ndim(numbers) == 0 else jnp.asarray(numbers)[population]


def jacobian_weight(config: GemsConfig, time: Array, population: Array | int) -> ArrayLike:
    """Computes lambda_J of a population, annealed."""
    return per_player(config.lambda_jacobian, population) / (1.0 + config.lambda_decay * time)


def fresh_optimizer(params: dict[str, PyTree], config: GemsConfig) -> dict[str, PyTree]:
    return jax.vmap(lambda own: fresh_optimizers(own, config.gradient_clip))(params)


def _check_players(config: GemsConfig, num: int) -> None:
    """ValueError for settings per player that do not have a number for each of `num` populations."""
    for name in ("eta", "lambda_jacobian"):
        value = getattr(config, name)
        shape = (len(value),) if isinstance(value, tuple) else jnp.shape(value)
        if shape not in ((), (num,)):
            raise ValueError(f"{name} must be a number or have one for each of {num} populations: got {value!r}")


def _check_tremble(game: Game, config: GemsConfig) -> None:
    if game.continuous and isinstance(config.abr_tremble, (int, float)) and config.abr_tremble:
        raise ValueError(
            f"abr_tremble must be 0 in {game.name}, whose actions are continuous: got {config.abr_tremble!r}"
        )


def _check_game(game: Game) -> None:
    if not hasattr(game, "init") or not hasattr(game, "step"):
        raise ValueError(f"expected a Game with init and step: got {game!r}; see gems_jax.make_game")
    if len(game.player_of_seat) != game.num_seats:
        raise ValueError(
            f"{game.name}: player_of_seat has {len(game.player_of_seat)} entries for {game.num_seats} seats"
        )
