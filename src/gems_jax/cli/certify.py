"""Evaluation by held-out episodes for `gems eval`: a trained exploiter's lower bound and the error budget.

A run does not store the oracle's candidate pool, so the budget is that of the next iteration: candidates are proposed
with the run's settings, and the newcomer, which has no mass yet, stands for the oracle's choice.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.cli.why import NOISE, TERMS
from gems_jax.config import GemsConfig
from gems_jax.estimation.monte_carlo import from_unit
from gems_jax.evaluate.certificates import Bounds, Certificate, certify_interval, certify_lower_bound
from gems_jax.evaluate.sampled_budget import Candidates, MeasuredValues, SampledBudget, sampled_budget
from gems_jax.gems.candidates import propose_codes
from gems_jax.gems.meta_game import estimate_values
from gems_jax.gems.reused import estimate_meta_game, start_replay
from gems_jax.host.stages import compile_play
from gems_jax.policies.population import Anchors, StackedPolicies, materialize
from gems_jax.psro.exploiter import Exploiter, gain_bounds, train_exploiter
from gems_jax.types import Array, Game, Profile, is_two_player_zero_sum, stack_policies

# fields of `SampledBudget` in the order of TERMS and NOISE
_FIELDS = ("best_response_gap", "oracle_gap", "newcomer_gain", "meta_regret", "monte_carlo_error")
FIELDS = dict(zip((term.column for term in (*TERMS, NOISE)), _FIELDS, strict=True))


class HeldOutResult(NamedTuple):
    """Results of held-out episodes for one mixture."""

    gap: Certificate  # exploitability; NashConv unless the game is two-player zero-sum
    budget: dict[str, Certificate]  # by the columns of TERMS and NOISE; empty unless the method is GEMS
    estimates: dict[str, np.ndarray]  # point estimates [1] by the same columns, for `why.explain`


def certify(
    key: Array, game: Game, profile: Profile, config: Any, *, rounds: int, episodes: int, confidence: float = 0.95
) -> HeldOutResult:
    """Trains an exploiter against a mixture and certifies its gap and its error budget by held-out episodes.

    Args:
      key: typed PRNG key; consumed.
      game: the game.
      profile: the mixture; the error budget needs anchors of GEMS.
      config: settings of the run; the error budget needs a `GemsConfig`.
      rounds: training rounds of the exploiter.
      episodes: episodes per mean.
      confidence: level at which each bound and interval holds.

    Returns:
      The certified gap, and the error budget where the method is GEMS.
    """
    key_train, key_gap, key_budget = jax.random.split(key, 3)
    exploiter = train_exploiter(key_train, game, profile, rounds)
    gains = gain_bounds(key_gap, game, profile, exploiter, episodes, confidence)
    # one gain per player: a population that fills several player positions counts several times
    total = sum(gains[owner].low for owner in game.population_of_player)
    gap = certify_lower_bound(total / (2 if is_two_player_zero_sum(game) else 1), confidence, gains[0].how)
    if not isinstance(config, GemsConfig) or not isinstance(profile.population, Anchors):
        return HeldOutResult(gap, {}, {})
    budget = _budget(key_budget, game, profile, config, exploiter, episodes, confidence)
    terms = {column: getattr(budget, field) for column, field in FIELDS.items()}
    how = f"{int(budget.episodes):,} episodes"
    certificates = {column: _certificate(column, bounds, confidence, how) for column, bounds in terms.items()}
    return HeldOutResult(gap, certificates, {column: np.asarray([_mean(b.estimate)]) for column, b in terms.items()})


def describe_budget(held: HeldOutResult) -> list[str]:
    """Formats the error budget as lines of term, estimate and certificate; [] if there is no budget."""
    rows = [
        f"  {column.replace('_', ' '):<22}{float(held.estimates[column][0]):>9.4f}   {certificate}"
        for column, certificate in held.budget.items()
    ]
    return ["  error budget of the next iteration: estimate and certified bounds", *rows] if rows else []


def _certificate(column: str, bounds: Bounds, confidence: float, how: str) -> Certificate:
    """Averages over populations. The best response has only a lower bound: the exploiter's gain."""
    if column == TERMS[0].column:
        return certify_lower_bound(_mean(bounds.low), confidence, how)
    return certify_interval(_mean(bounds.low), _mean(bounds.high), confidence, how)


def _mean(per_population: Array) -> float:
    return float(jnp.mean(per_population))


def _budget(
    key: Array, game: Game, profile: Profile, config: GemsConfig, exploiter: Exploiter, episodes: int, confidence: float
) -> SampledBudget:
    key_pool, key_values, key_measure = jax.random.split(key, 3)
    sigma, frozen = profile.sigma, profile.population
    assert isinstance(frozen, Anchors)
    mixture = materialize(frozen, sigma.shape[1])
    pool, chosen, active = _pool(key_pool, frozen, sigma, config)
    candidates = StackedPolicies(
        jax.vmap(lambda own, codes: stack_policies(own.generate, codes))(frozen, pool), frozen.apply
    )
    # v-hat by the run's estimator, on fresh episodes
    measure = compile_play(static_argnames=("game",))(
        _estimate_reused_values if config.reuses_returns else _estimate_values
    )
    values = measure(key_values, game, mixture, frozen.codes, jnp.log(sigma), active, config)
    return sampled_budget(
        key_measure, game, anchors=mixture, active=active, sigma=sigma, pool=Candidates(candidates, chosen),
        exploiters=exploiter.policies, estimate=MeasuredValues(from_unit(game, values)), episodes=episodes,
        confidence=confidence,
    )  # fmt: skip


def _estimate_values(
    key: Array, game: Game, policies: StackedPolicies, codes: Array, log_sigma: Array, active: Array, config: GemsConfig
) -> Array:
    """Estimates v-hat [P, K] in scaled returns by one round of episodes. key: consumed."""
    del codes
    return estimate_values(key, game, policies, log_sigma, active, config).values


def _estimate_reused_values(
    key: Array, game: Game, policies: StackedPolicies, codes: Array, log_sigma: Array, active: Array, config: GemsConfig
) -> Array:
    """Estimates v-hat [P, K] in scaled returns from a refilled replay buffer. key: consumed.

    A profile does not contain the returns that the run stored. The current policies play replacements: one round for
    every iteration of the run, or as many as fill the buffer.
    """
    key_start, key_play = jax.random.split(key)
    replay = start_replay(key_start, game, policies, config)
    assert replay is not None  # the caller checked `reuses_returns`
    rounds = min(config.iterations, max(config.buffer_episodes // config.joint_episodes, 1))
    found = estimate_meta_game(key_play, replay, game, policies, codes, log_sigma, active, jnp.int32(0), config, rounds)
    return jnp.where(active, found.game.values(jnp.exp(log_sigma)), 0.0)


def _pool(key: Array, frozen: Anchors, sigma: Array, config: GemsConfig) -> tuple[Array, Array, Array]:
    """Proposes the candidate pool, with the newcomer as its last candidate.

    Codes of empty slots are zero. The newcomer has a code and no mass. Regret matching can leave older anchors without
    mass, too. Slots are filled in order, so the last such slot is the newcomer and the others count as anchors.

    Returns:
      Candidate codes [P, C + 1, D]; the newcomer's index [P], int32, -1 without one; the mask of anchors [P, K].
    """
    waiting = (sigma <= 0.0) & jnp.any(frozen.codes != 0.0, axis=-1)
    slots = jnp.arange(sigma.shape[1])[None, :]
    newest = jnp.argmax(jnp.where(waiting, slots, -1), axis=1)
    active = sigma > 0.0
    if config.meta_rule == "rm_plus":
        active = active | (waiting & (slots != newest[:, None]))

    def one(own_key: Array, codes: Array, mass: Array, slot: Array) -> Array:
        pool, _ = propose_codes(
            own_key, codes, jnp.log(mass), mass > 0.0, num_mutations=config.mutations, num_random=config.randoms,
            mutation_scale=config.mutation_scale, top_anchors=config.top_anchors,
        )  # fmt: skip
        return jnp.concatenate([pool, codes[slot][None]])

    # Without a newcomer the heaviest anchor fills the last candidate, which changes nothing.
    newest = jnp.where(waiting.any(axis=1), newest, jnp.argmax(sigma, axis=1))
    pool = jax.vmap(one)(jax.random.split(key, len(sigma)), frozen.codes, sigma, newest)
    return pool, jnp.where(waiting.any(axis=1), pool.shape[1] - 1, -1), active
