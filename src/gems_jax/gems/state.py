"""The state that GEMS carries from iteration to iteration, and its networks."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Float

from gems_jax.accelerator.compile import program
from gems_jax.config import GemsConfig
from gems_jax.gems.adaptive import start_shares
from gems_jax.gems.checks import check_key
from gems_jax.gems.reused import Replay, start_replay
from gems_jax.learning.magnets import has_parameters
from gems_jax.learning.networks import critic_network, policy_network
from gems_jax.learning.ppo import init_optimizers
from gems_jax.meta import simplex
from gems_jax.policies.critic import Critic
from gems_jax.policies.generator import Generator, Hypernetwork
from gems_jax.policies.networks import HalfPolicy
from gems_jax.policies.population import Anchors, materialize
from gems_jax.types import Array, Game, PRNGKey, Profile, PyTree, Struct, num_populations


class Magnet(Struct):
    """Reference generators of the magnet's penalty (learning/magnets.py)."""

    params: PyTree  # theta [P, ...] of a moving or copied magnet
    updates: Array  # [] int32, number of updates in the run


class GemsState(Struct):
    """State of GEMS between two iterations. Its structure and byte size never change.

    Attributes:
      generator: theta, leaves [P, ...].
      critic: parameters, leaves [P, ...].
      opt_state: optimizer states of "generator" and "critic", leaves [P, ...].
      anchors: latent codes z, [P, K, D].
      active: slots that hold an anchor, [P, K] bool.
      anchor_id: number of the insertion that filled the slot, [P, K] int32; -1 in empty slots.
      log_sigma: log of the meta-strategy from which the next update starts, [P, K]. New anchors have mass here.
      sigma: the mixture to play, [P, K]: the average of the last iteration's meta iterates.
      sigma_average: average of sigma over the run, [P, K].
      values: v-hat of the previous step, scaled returns, [P, K].
      mixture_value: r-hat, scaled, [P].
      step: completed iterations, [] int32.
      shares: fractions of the episodes per phase, [3]; None unless `adaptive`.
      replay: stored returns; None unless the `estimator` is pairs or trajectories.
      magnet: None unless the `magnet` is moving or copied.
    """

    generator: PyTree
    critic: PyTree
    opt_state: dict[str, PyTree]
    anchors: Array
    active: Array
    anchor_id: Array
    log_sigma: Array
    sigma: Array
    sigma_average: Array
    values: Array
    mixture_value: Array
    step: Array
    shares: Array | None = None
    replay: PyTree = None
    magnet: Magnet | None = None


class AnchorSet(Struct):
    """The anchor set Z_t of every population, and the start of the next meta update. Fields as in `GemsState`."""

    anchors: Array  # [P, K, D]
    active: Array  # [P, K]
    anchor_id: Array  # [P, K] int32
    log_sigma: Array  # [P, K]
    sigma: Array  # [P, K], the mixture that is played: new anchors have no mass yet
    values: Array  # [P, K]


class Networks(NamedTuple):
    """The networks of one population."""

    generator: Generator
    critic: Critic


def gems_networks(game: Game, config: GemsConfig) -> Networks:
    """Builds the generator and the critic of a game by the config; static, equal for equal arguments."""
    policy, critic = policy_network(game, config), critic_network(game, config, config.latent_dim)
    half = config.precision == "bfloat16"
    if half and config.policy != "tabular":
        policy = HalfPolicy(policy)
    generator = Hypernetwork(policy, config.latent_dim, config.generator_widths, config.constant_norm)
    return Networks(generator, dataclasses.replace(critic, half=half))


def init_gems(
    key: PRNGKey,
    game: Game,
    config: GemsConfig,
    *,
    anchors: Float[ArrayLike, "P k0 D"] | None = None,
    sigma: Float[ArrayLike, "P k0"] | None = None,
) -> GemsState:
    """Makes the state before the first iteration of Algorithm 1, and validates the config.

    >>> import jax
    >>> from gems_jax import GemsConfig, init_gems, make_game
    >>> config = GemsConfig(capacity=4, latent_dim=2, generator_widths=(4,), critic_hidden=(4,))
    >>> state = init_gems(jax.random.key(0), make_game("rock_paper_scissors"), config)
    >>> state.anchors.shape, state.sigma.tolist()
    ((2, 4, 2), [[1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])

    Args:
      key: typed PRNG key; consumed.
      game: the game to solve, with P populations.
      config: settings; `initial_anchors` is k0 and `latent_dim` is D.
      anchors: initial anchor set Z_0, [P, k0, D]. By default independent draws from N(0, I).
      sigma: initial meta-strategy sigma_0, [P, k0], each row a distribution. By default uniform.

    Returns:
      A `GemsState` with fresh networks.

    Raises:
      ValueError: if a setting is out of range, `key` is not one typed key, or an array has another shape or is not a
        distribution.
    """
    check_key(key, "init_gems")
    config.validate()
    _check_game(game)
    _check_tremble(game, config)
    num = num_populations(game)
    _check_players(config, num)
    if anchors is not None:
        anchors = _check_array("anchors", anchors, (num, config.initial_anchors, config.latent_dim))
    if sigma is not None:
        sigma = _check_distribution(_check_array("sigma", sigma, (num, config.initial_anchors)))
    arguments = (key, game, config, anchors, sigma)
    if any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(arguments)):
        return _init_state(*arguments)  # part of the surrounding trace
    return _compile_init(game, config)(key, anchors, sigma)


def _compile_init(game: Game, config: GemsConfig) -> Callable[..., GemsState]:
    """Compiles the start of a game as one program: run one by one, its operations take ten times as long."""
    try:
        return _cached_init(game, config)  # type: ignore[arg-type]
    except TypeError:  # a game or config that is not hashable
        return _cached_init.__wrapped__(game, config)


@functools.lru_cache(maxsize=32)
def _cached_init(game: Game, config: GemsConfig) -> Callable[..., GemsState]:
    return program(lambda key, anchors, sigma: _init_state(key, game, config, anchors, sigma))


def _init_state(key: PRNGKey, game: Game, config: GemsConfig, anchors: Array | None, sigma: Array | None) -> GemsState:
    """Makes the state of `init_gems` from checked arguments. key: consumed."""
    nets, num = gems_networks(game, config), num_populations(game)
    key_generator, key_critic, key_anchors = jax.random.split(key, 3)
    generator = jax.vmap(lambda k: nets.generator.init(k, config.generator_scale))(jax.random.split(key_generator, num))
    critic = jax.vmap(nets.critic.init)(jax.random.split(key_critic, num))
    active = jnp.broadcast_to(jnp.arange(config.capacity) < config.initial_anchors, (num, config.capacity))
    codes = jax.random.normal(key_anchors, (num, config.capacity, config.latent_dim))
    if anchors is not None:
        codes = _fill_slots(codes, anchors)
    mixture = jax.vmap(simplex.masked_uniform)(active)
    if sigma is not None:
        mixture = _fill_slots(mixture, sigma)
    state = GemsState(
        generator=generator,
        critic=critic,
        opt_state=init_population_optimizers({"generator": generator, "critic": critic}, config),
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
    """The empty store of returns; None if the estimator stores none. key: consumed."""
    if not config.reuses_returns:
        return None
    return start_replay(key, game, materialize(population_of(state, game, config), config.capacity), config)


def _fill_slots(slots: Array, first: Array) -> Array:
    """[P, K, ...] with `first` [P, k0, ...] in the first slots."""
    return slots.at[:, : first.shape[1]].set(first)


def _check_array(name: str, value: ArrayLike, shape: tuple[int, ...]) -> Array:
    """Converts to a float32 array; ValueError unless it has `shape` and, if concrete, finite entries."""
    array = jnp.asarray(value, jnp.float32)
    if array.shape != shape:
        what = "[P, k0, D]" if len(shape) == 3 else "[P, k0]"
        raise ValueError(
            f"init_gems: {name} must have the shape {what} = {shape} of P populations and initial_anchors=k0, "
            f"got {array.shape}. Change {name}, or the config's initial_anchors or latent_dim."
        )
    if not isinstance(array, jax.core.Tracer) and not np.isfinite(array).all():
        raise ValueError(f"init_gems: {name} must be finite, got {np.asarray(array).tolist()}.")
    return array


def _check_distribution(sigma: Array) -> Array:
    """Normalizes each row of sigma [P, k0]; ValueError for rows that are not distributions."""
    if isinstance(sigma, jax.core.Tracer):
        return sigma
    total = np.asarray(sigma).sum(axis=1)
    if (np.asarray(sigma) < 0.0).any() or (np.abs(total - 1.0) > 1e-4).any():
        raise ValueError(
            f"init_gems: every row of sigma must be at least 0 and sum to 1, got {np.asarray(sigma).tolist()}."
        )
    return sigma / total[:, None]


def population_of(state: GemsState, game: Game, config: GemsConfig) -> Anchors:
    """Makes the generated population [P] of a state: its anchors and generators, as they play outside training."""
    temperature = jnp.asarray(config.temperature * config.play_temperature, jnp.float32)
    temperature = jnp.broadcast_to(temperature, (num_populations(game),))
    return Anchors(state.generator, state.anchors, temperature, gems_networks(game, config).generator)


def gems_profile(state: GemsState, game: Game, config: GemsConfig, which: str = "iterate") -> Profile:
    """Returns the mixture to play.

    Args:
      state: `GemsState` of the game and config.
      game: its game.
      config: its settings.
      which: "iterate" for the mixture of the last iteration, "average" for the average over the run.

    Returns:
      A `Profile` with sigma [P, K].

    Raises:
      ValueError: if `which` is anything else.
    """
    if which not in ("iterate", "average"):
        raise ValueError(f"unknown profile {which!r}; known: 'iterate', 'average'")
    return Profile(population_of(state, game, config), state.sigma if which == "iterate" else state.sigma_average)


def per_player(value: ArrayLike | tuple[ArrayLike, ...], population: Array | int) -> ArrayLike:
    """Picks the value of a population from a setting that is a scalar for all populations, or [P]."""
    numbers = jnp.stack([jnp.asarray(one, jnp.float32) for one in value]) if isinstance(value, tuple) else value
    return numbers if jnp.ndim(numbers) == 0 else jnp.asarray(numbers)[population]


def jacobian_weight(config: GemsConfig, time: Array, population: Array | int) -> ArrayLike:
    """Computes the annealed Jacobian weight lambda_J / (1 + lambda_decay t) of a population.

    Args:
      config: settings.
      time: t, iteration counted from 1, [] int32.
      population: static or traced.

    Returns:
      The weight [].
    """
    return per_player(config.lambda_jacobian, population) / (1.0 + config.lambda_decay * time)


def init_population_optimizers(params: dict[str, PyTree], config: GemsConfig) -> dict[str, PyTree]:
    """Initializes the optimizer states [P, ...] of "generator" and "critic"."""
    return jax.vmap(lambda own: init_optimizers(own, config.gradient_clip))(params)


def _check_players(config: GemsConfig, num: int) -> None:
    """Raises ValueError for settings per population that do not have `num` entries."""
    for name in ("eta", "lambda_jacobian"):
        value = getattr(config, name)
        shape = (len(value),) if isinstance(value, tuple) else jnp.shape(value)
        if shape not in ((), (num,)):
            raise ValueError(f"{name} must be a number or have one for each of {num} populations, got {value!r}.")


def _check_tremble(game: Game, config: GemsConfig) -> None:
    if game.continuous and isinstance(config.abr_tremble, (int, float)) and config.abr_tremble:
        raise ValueError(
            f"abr_tremble must be 0 in {game.name}, whose actions are continuous, got {config.abr_tremble!r}."
        )


def _check_game(game: Game) -> None:
    if not hasattr(game, "init") or not hasattr(game, "step"):
        raise ValueError(f"init_gems: expected a Game with init and step, got {game!r}. See gems_jax.make_game.")
    if len(game.player_of_seat) != game.num_seats:
        raise ValueError(
            f"{game.name}: player_of_seat must have one entry per seat, got {len(game.player_of_seat)} for "
            f"{game.num_seats} seats."
        )
