"""The Generative Evolutionary Meta-Solver: Algorithm 1 as one pure step."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gems_jax.config import GemsConfig
from gems_jax.gems.adaptive import plan_counts, update_shares
from gems_jax.gems.checks import check_gems_state, check_key
from gems_jax.gems.meta_game import MetaGameMetrics, update_meta_strategy
from gems_jax.gems.oracle import OracleMetrics, contains_slot, expand, remove_mass
from gems_jax.gems.response import ResponseMetrics, respond
from gems_jax.gems.reused import age_replay
from gems_jax.gems.state import GemsState, gems_networks, gems_profile, init_gems, population_of
from gems_jax.host.stages import NotStagedError, is_staging, on_host
from gems_jax.policies.population import materialize
from gems_jax.types import Array, Game, PRNGKey, nbytes

__all__ = ["GemsMetrics", "GemsState", "gems_networks", "gems_profile", "gems_step", "init_gems", "population_of"]


class GemsMetrics(ResponseMetrics, OracleMetrics, MetaGameMetrics):
    """Measurements of one iteration: metrics of the phases (see the base classes), and totals.

    Values and scores are scaled returns. They refer to the generator before ABR-TR.

    Attributes:
      num_active: anchors after the iteration, [P] int32.
      episodes: episodes played, [] int32.
      env_steps: environment steps, [] int32.
      gradient_steps: gradient steps, [] int32.
      parameter_bytes: bytes of the networks and their optimizers, [].
      payoff_bytes: bytes of stored returns, [].
      meta_bytes: bytes of the anchors, mixtures and everything else in the state, [].
      shares: fractions of the episodes per phase, [3]; None unless `adaptive`.
      errors: errors that determine the next fractions, [3]; None unless `adaptive`.
    """

    num_active: Array
    episodes: Array
    env_steps: Array
    gradient_steps: Array
    parameter_bytes: Array
    payoff_bytes: Array
    meta_bytes: Array
    shares: Array | None = None
    errors: Array | None = None


def gems_step(state: GemsState, key: PRNGKey, game: Game, config: GemsConfig) -> tuple[GemsState, GemsMetrics]:
    """Runs one iteration of GEMS (Algorithm 1).

    Estimates the meta-game by Monte Carlo, updates the meta-strategy with OMWU, adds the oracle's best candidate to the
    anchors and trains the generator towards a best response within a trust region.

    The function is pure and traces once per `(game, static config)`: use it inside `jit`, `scan`, `vmap` (over seeds or
    over real-valued settings) and `shard_map`.

    >>> from functools import partial
    >>> import jax
    >>> from gems_jax import GemsConfig, gems_step, init_gems, make_game
    >>> game = make_game("rock_paper_scissors")
    >>> config = GemsConfig(capacity=4, generator_widths=(4,), critic_hidden=(4,), jacobian="none", abr_steps=1)
    >>> state = init_gems(jax.random.key(0), game, config)
    >>> step = jax.jit(partial(gems_step, game=game, config=config))
    >>> state, metrics = step(state, jax.random.key(1))
    >>> metrics.num_active.tolist()
    [2, 2]

    Args:
      state: `GemsState` with leading axis P (populations), made by `init_gems` for the same game and static config.
      key: typed PRNG key; consumed.
      game: a `Game` implemented in JAX. Python environments need `make_solver`.
      config: settings. Integers and choices are static, floats are traced.

    Returns:
      The next state, of the same structure and byte size, and the iteration's `GemsMetrics`.

    Raises:
      NotStagedError: if `game` runs in Python.
      ValueError: if `key` is not one typed key, or `state` belongs to another game or static config.
    """
    _check_pure(game)
    check_key(key, "gems_step")
    check_gems_state(state, game, config, gems_networks(game, config))
    key_value, key_oracle, key_train = jax.random.split(key, 3)
    frozen = population_of(state, game, config)
    opponents = materialize(frozen, config.capacity)

    counts = plan_counts(state.shares, game, config, state.active)
    solution = update_meta_strategy(key_value, state, opponents, game, config, counts.estimates)  # phases 1 and 2
    expansion = expand(key_oracle, state, solution, frozen, opponents, game, config, counts.later_rounds)  # phase 3
    response = respond(
        key_train, state, expansion.anchor_set, opponents, game, config, counts.abr_steps, solution
    )  # phase 4

    shares, errors = update_shares(state.shares, (solution.regret, expansion.error, response.improvement), config)
    replaced = jax.vmap(contains_slot, in_axes=(0, None))(expansion.slots, config.capacity)
    next_state = state.replace(
        **response.params,
        opt_state=response.opt_state,
        magnet=response.magnet,
        **vars(expansion.anchor_set),
        sigma_average=remove_mass(_average_sigma(state, solution.sigma), expansion.slots),
        mixture_value=solution.mixture_value,
        step=state.step + 1,
        shares=shares,
        replay=age_replay(solution.replay, game, response.drift, replaced, config),
    )
    reused = nbytes(next_state.replay)
    learned = nbytes((next_state.generator, next_state.critic, next_state.opt_state, next_state.magnet))
    metrics = GemsMetrics(
        **vars(solution.metrics),
        **vars(expansion.metrics),
        **vars(response.metrics),
        num_active=jnp.sum(next_state.active, axis=1, dtype=jnp.int32),
        episodes=solution.episodes + expansion.episodes + response.episodes,
        env_steps=solution.env_steps + expansion.env_steps + response.env_steps,
        gradient_steps=response.gradient_steps,
        parameter_bytes=jnp.float32(learned),
        payoff_bytes=jnp.float32(reused),
        meta_bytes=jnp.float32(nbytes(next_state) - learned - reused),
        shares=state.shares,
        errors=errors,
    )
    return next_state, metrics


def _check_pure(game: Game) -> None:
    if on_host(game) and not is_staging():
        raise NotStagedError(
            f"gems_step cannot be compiled: {game.name} runs in Python, so its step is not a pure function. Use "
            'make_solver("gems", game, config), whose step loops in Python'
        )


def _average_sigma(state: GemsState, sigma: Array) -> Array:
    """[P, K], the mean of the played mixtures over the run."""
    before = state.step.astype(jnp.float32)
    return (state.sigma_average * before + sigma) / (before + 1.0)
