"""`gems eval` by held-out episodes: a trained exploiter's lower bound, and the error budget with its intervals.

The pool of the oracle is gone once a run has ended, so the budget is of what the next iteration would meet: candidates
proposed as the run's settings say, and the newcomer that has no mass yet as the oracle's choice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.cli.why import NOISE, TERMS
from gems_jax.config import GemsConfig
from gems_jax.estimation.monte_carlo import from_unit
from gems_jax.evaluate.certificates import Bounds, Certificate, interval, lower_bound
from gems_jax.evaluate.sampled_budget import Candidates, MeasuredValues, SampledBudget, sampled_budget
from gems_jax.gems.candidates import propose
from gems_jax.gems.meta_game import estimate_values
from gems_jax.gems.reused import estimate_meta_game, start_replay
from gems_jax.host.stages import compile_play
from gems_jax.policies.population import Anchors, StackedPolicies, materialise
from gems_jax.psro.exploiter import Exploiter, gain_bounds, train_exploiter
from gems_jax.types import Array, Game, Profile, is_two_player_zero_sum, stack_policies

# where the terms of the budget stand in a `SampledBudget`
_FIELDS = ("best_response_gap", "oracle_gap", "newcomer_gain", "meta_regret", "monte_carlo_error")
FIELDS = dict(zip((term.column for term in (*TERMS, NOISE)), _FIELDS, strict=True))


class Held(NamedTuple):
    """What held-out episodes say of a mixture."""

    gap: Certificate  # exploitability, or NashConv where there is no such thing
    budget: dict[str, Certificate]  # by the columns of TERMS and NOISE; empty for other methods than GEMS
    estimates: dict[str, np.ndarray]  # the same as numbers, for `why.explain`


def certify(
    key: Array, game: Game, profile: Profile, config: Any, *, rounds: int, episodes: int, confidence: float = 0.95
) -> Held:
    """Trains an exploiter for `rounds` rounds and measures, each mean by `episodes` episodes. key: consumed."""
    key_train, key_gap, key_budget = jax.random.split(key, 3)
    exploiter = train_exploiter(key_train, game, profile, rounds)
    gains = gain_bounds(key_gap, game, profile, exploiter, episodes, confidence)
    # every place that a population fills is one player's gain
    total = sum(gains[owner].low for owner in game.population_of_player)
    gap = lower_bound(total / (2 if is_two_player_zero_sum(game) else 1), confidence, gains[0].how)
    if not isinstance(config, GemsConfig) or not isinstance(profile.population, Anchors):
        return Held(gap, {}, {})
    budget = _budget(key_budget, game, profile, config, exploiter, episodes, confidence)
    terms = {column: getattr(budget, field) for column, field in FIELDS.items()}
    how = f"{int(budget.episodes):,} episodes"
    certificates = {column: _certificate(column, bounds, confidence, how) for column, bounds in terms.items()}
    return Held(gap, certificates, {column: np.asarray([_mean(b.estimate)]) for column, b in terms.items()})


def describe_budget(held: Held) -> list[str]:
    """Formats the budget as a table: term, estimate, certificate; nothing where there is none."""
    rows = [
        f"  {column.replace('_', ' '):<22}{float(held.estimates[column][0]):>9.4f}   {certificate}"
        for column, certificate in held.budget.items()
    ]
    return ["  error budget of the next iteration: estimate, and what is certain of it", *rows] if rows else []


def _certificate(column: str, bounds: Bounds, confidence: float, how: str) -> Certificate:
    """Means over populations. Of the best response only what the exploiter found is known."""
    if column == TERMS[0].column:
        return lower_bound(_mean(bounds.low), confidence, how)
    return interval(_mean(bounds.low), _mean(bounds.high), confidence, how)


def _mean(per_population: Array) -> float:
    return float(jnp.mean(per_population))


def _budget(
    key: Array, game: Game, profile: Profile, config: GemsConfig, exploiter: Exploiter, episodes: int, confidence: float
) -> SampledBudget:
    key_pool, key_values, key_measure = jax.random.split(key, 3)
    sigma, frozen = profile.sigma, profile.population
    assert isinstance(frozen, Anchors)
    mixture = materialise(frozen, sigma.shape[1])
    pool, chosen, active = _pool(key_pool, frozen, sigma, config)
    candidates = StackedPolicies(
        jax.vmap(lambda own, codes: stack_policies(own.generate, codes))(frozen, pool), frozen.apply
    )
    # v-hat as the run measures it, on episodes of its own
    measure = compile_play(static_argnames=("game",))(_reused_values if config.reuses_returns else _values)
    values = measure(key_values, game, mixture, frozen.codes, jnp.log(sigma), active, config)
    return sampled_budget(
        key_measure, game, anchors=mixture, active=active, sigma=sigma, pool=Candidates(candidates, chosen),
        exploiters=exploiter.policies, estimate=MeasuredValues(from_unit(game, values)), episodes=episodes,
        confidence=confidence,
    )  # fmt: skip


def _values(
    key: Array, game: Game, policies: StackedPolicies, codes: Array, log_sigma: Array, active: Array, config: GemsConfig
) -> Array:
    """v-hat [P, K] of one round, scaled returns. key: consumed."""
    del codes
    return estimate_values(key, game, policies, log_sigma, active, config).values


def _reused_values(
    key: Array, game: Game, policies: StackedPolicies, codes: Array, log_sigma: Array, active: Array, config: GemsConfig
) -> Array:
    """v-hat [P, K] by reused returns, scaled. key: consumed.

    A profile comes without the returns that the run stored. They are replaced by as many of today's policies: a round
    for every iteration of the run, or as many as fill the buffer.
    """
    key_start, key_play = jax.random.split(key)
    replay = start_replay(key_start, game, policies, config)
    assert replay is not None  # the caller has asked
    rounds = min(config.iterations, max(config.buffer_episodes // config.joint_episodes, 1))
    found = estimate_meta_game(key_play, replay, game, policies, codes, log_sigma, active, jnp.int32(0), config, rounds)
    return jnp.where(active, found.game.values(jnp.exp(log_sigma)), 0.0)


def _pool(key: Array, frozen: Anchors, sigma: Array, config: GemsConfig) -> tuple[Array, Array, Array]:
    """Candidates [P, C + 1, D] as the oracle proposes them, then the newcomer; its index [P], or -1; anchors [P, K].

    Codes of empty slots are zero. The newcomer has a code and no mass. Regret matching leaves other anchors without
    mass, too: the last such slot is taken for it, as slots are filled in order, and the others count as anchors.
    """
    waiting = (sigma <= 0.0) & jnp.any(frozen.codes != 0.0, axis=-1)
    slots = jnp.arange(sigma.shape[1])[None, :]
    newest = jnp.argmax(jnp.where(waiting, slots, -1), axis=1)
    active = sigma > 0.0
    if config.meta_rule == "rm_plus":
        active = active | (waiting & (slots != newest[:, None]))

    def one(own_key: Array, codes: Array, mass: Array, slot: Array) -> Array:
        pool, _ = propose(
            own_key, codes, jnp.log(mass), mass > 0.0, num_mutations=config.mutations, num_random=config.randoms,
            mutation_scale=config.mutation_scale, top_anchors=config.top_anchors,
        )  # fmt: skip
        return jnp.concatenate([pool, codes[slot][None]])

    # without a newcomer the slot is slot 0, an anchor, which changes nothing
    newest = jnp.where(waiting.any(axis=1), newest, jnp.argmax(sigma, axis=1))
    pool = jax.vmap(one)(jax.random.split(key, len(sigma)), frozen.codes, sigma, newest)
    return pool, jnp.where(waiting.any(axis=1), pool.shape[1] - 1, -1), active
