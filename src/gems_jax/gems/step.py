"""The Generative Evolutionary Meta-Solver: Algorithm 1 as one pure step.

`gems_step(state, key, game, config)` estimates the meta-game, updates the meta-strategy, adds the oracle's anchor and
trains the generator. It nests in jit, scan, vmap over seeds and vmap over real-valued settings.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gems_jax.accelerator.prng import stream
from gems_jax.config import GemsConfig
from gems_jax.gems.adaptive import allot, fixed_counts, next_shares
from gems_jax.gems.meta_game import solve_meta_game
from gems_jax.gems.oracle import expand, without
from gems_jax.gems.response import respond
from gems_jax.gems.state import GemsMetrics, GemsState, gems_profile, init_gems, networks, population_of
from gems_jax.host.stages import NotStagedError, on_host, staging
from gems_jax.meta import bandit as oracle
from gems_jax.policies.population import materialise
from gems_jax.types import Array, Game, nbytes

__all__ = ["GemsMetrics", "GemsState", "gems_profile", "gems_step", "init_gems", "networks", "population_of"]


def gems_step(state: GemsState, key: Array, game: Game, config: GemsConfig) -> tuple[GemsState, GemsMetrics]:
    """One iteration of Algorithm 1. key: consumed."""
    if on_host(game) and not staging():
        raise NotStagedError(
            f"{game.name} is played in Python: gems_step on it is no pure function that could be compiled. Use "
            'make_solver("gems", game, config), whose step loops in Python'
        )
    key_value, key_oracle, key_train = jax.random.split(stream(key), 3)
    frozen = population_of(state, game, config)
    opponents = materialise(frozen, config.capacity)

    counts = fixed_counts(config) if state.shares is None else allot(state.shares, game, config, state.active)
    solution = solve_meta_game(key_value, state, opponents, game, config, counts.meta_steps)  # phases 1 and 2
    found = expand(key_oracle, state, solution, frozen, opponents, game, config, counts.later_rounds)  # phase 3
    response = respond(key_train, state, found, opponents, game, config, counts.abr_steps)  # phase 4

    estimate, trained = solution.estimate, response.metrics
    before = state.step.astype(jnp.float32)
    average = (state.sigma_average * before + solution.sigma) / (before + 1.0)
    errors = jnp.stack([jnp.mean(part) for part in (solution.regret, found.error, trained.improvement)])
    next_state = GemsState(
        generator=response.params["generator"],
        critic=response.params["critic"],
        opt_state=response.opt_state,
        anchors=found.anchors,
        active=found.active,
        anchor_id=found.anchor_id,
        log_sigma=found.log_sigma,
        sigma=found.sigma,
        sigma_average=without(average, found.slot),
        values=found.values,
        mixture_value=solution.mixture_value,
        step=state.step + 1,
        shares=None if state.shares is None else next_shares(state.shares, errors, config),
    )
    learned = nbytes((next_state.generator, next_state.critic, next_state.opt_state))
    metrics = GemsMetrics(
        values=estimate.values,
        variances=estimate.variances,
        widths=oracle.empirical_bernstein_width(estimate.variances, estimate.count, config.delta),
        mixture_value=estimate.mixture_value,
        measured_sigma=solution.measured_sigma,
        sigma=solution.sigma,
        pool=found.pool,
        parent=found.parent,
        scores=found.scores,
        pool_means=found.pool_means,
        chosen=found.chosen,
        slot=found.slot[:, 0],
        jacobian=response.jacobian,
        kl=response.kl,
        forgetting=response.forgetting,
        entropy=trained.entropy,
        objective=trained.objective,
        value_loss=trained.value_loss,
        gradient_norm=trained.gradient_norm,
        num_active=jnp.sum(found.active, axis=1, dtype=jnp.int32),
        episodes=solution.episodes + found.episodes + response.episodes,
        env_steps=solution.env_steps + found.env_steps + response.env_steps,
        gradient_steps=jnp.int32(counts.abr_steps * config.abr_epochs * config.abr_minibatches * len(trained.entropy)),
        parameter_bytes=jnp.float32(learned),
        payoff_bytes=jnp.float32(0.0),
        meta_bytes=jnp.float32(nbytes(next_state) - learned),
        shares=state.shares,
        errors=None if state.shares is None else errors,
    )
    return next_state, metrics
