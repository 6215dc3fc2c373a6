"""The Generative Evolutionary Meta-Solver: Algorithm 1 as one pure step."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gems_jax.config import GemsConfig
from gems_jax.gems.adaptive import plan_counts, update_shares
from gems_jax.gems.meta_game import MetaGameMetrics, update_meta_strategy
from gems_jax.gems.oracle import OracleMetrics, contains_slot, expand, remove_mass
from gems_jax.gems.response import ResponseMetrics, respond
from gems_jax.gems.reused import age_replay
from gems_jax.gems.state import GemsState, gems_networks, gems_profile, init_gems, population_of
from gems_jax.host.stages import NotStagedError, on_host, staging
from gems_jax.policies.population import materialise
from gems_jax.types import Array, Game, nbytes

__all__ = ["GemsMetrics", "GemsState", "gems_networks", "gems_profile", "gems_step", "init_gems", "population_of"]


class GemsMetrics(ResponseMetrics, OracleMetrics, MetaGameMetrics):
    """Measurements of one iteration: those of the phases, and totals.

    Values and scores are scaled returns. They refer to the generator before ABR-TR.
    """

    num_active: Array  # [P] int32
    episodes: Array  # [] int32, of this iteration
    env_steps: Array  # [] int32
    gradient_steps: Array  # [] int32
    parameter_bytes: Array  # [] float32, of the networks and their optimizers
    payoff_bytes: Array  # [] float32, of reused returns, 0 where none are
    meta_bytes: Array  # [] float32, of anchors, mixtures and everything else that is carried along
    shares: Array | None = None  # [3], fractions of the episodes per phase, if adaptive
    errors: Array | None = None  # [3], errors that move these fractions


def gems_step(state: GemsState, key: Array, game: Game, config: GemsConfig) -> tuple[GemsState, GemsMetrics]:
    """Runs one iteration of GEMS (Algorithm 1).

    Estimates the meta-game by Monte Carlo, updates the meta-strategy with OMWU, adds the oracle's best candidate to the
    anchors and trains the generator towards a best response within a trust region.

    The function is pure and traces once per `(game, static config)`: use it inside `jit`, `scan`, `vmap` (over seeds or
    over real-valued settings) and `shard_map`.

    Args:
      state: `GemsState` with leading axis P (populations).
      key: typed PRNG key; consumed.
      game: a `Game` implemented in JAX. Python environments need `make_solver`.
      config: settings. Integers and choices are static, floats are traced.

    Returns:
      The next state, of the same structure and byte size, and the iteration's `GemsMetrics`.

    Raises:
      NotStagedError: if `game` runs in Python.
    """
    _check_pure(game)
    key_value, key_oracle, key_train = jax.random.split(key, 3)
    frozen = population_of(state, game, config)
    opponents = materialise(frozen, config.capacity)

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
    if on_host(game) and not staging():
        raise NotStagedError(
            f"gems_step cannot be compiled: {game.name} runs in Python, so its step is not a pure function. Use "
            'make_solver("gems", game, config), whose step loops in Python'
        )


def _average_sigma(state: GemsState, sigma: Array) -> Array:
    """[P, K], the mean of the played mixtures over the run."""
    before = state.step.astype(jnp.float32)
    return (state.sigma_average * before + sigma) / (before + 1.0)
