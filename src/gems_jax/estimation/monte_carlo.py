"""Monte-Carlo estimates of the meta-game without the payoff matrix (sec:meta_game_est).

Every anchor plays against opponents drawn from the others' mixtures; `estimation/importance.py` weights joint play
instead. Only this module scales returns to [0, 1] by the game's bounds. Every average is over whole episodes.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import chex
import jax.numpy as jnp
from jax import random

from gems_jax.host.stages import on_host
from gems_jax.meta import simplex
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.episode import play_episode, take_seats
from gems_jax.rollout.groups import play_groups, play_joint
from gems_jax.rollout.views import View, map_populations, map_views, players_of, rotate, take_population
from gems_jax.types import (
    Array,
    Game,
    Struct,
    num_players,
    num_populations,
    num_slots,
    seats_of_player,
)

OPPONENTS = ("per_anchor", "shared", "stratified")


class Estimate(Struct):
    """Values of anchors and mixtures in scaled returns.

    Each entry is a mean of `count` samples: the standard error of a value is sqrt(variance / count).
    Importance-weighted samples are not in [0, 1]: they can reach 1 / sigma(i).
    """

    values: Array  # [P, K]
    variances: Array  # [P, K], unbiased
    mixture_value: Array  # [P]
    mixture_variance: Array  # [P]
    count: Array  # [] int32
    episodes: Array  # [] int32, of active anchors and joint samples
    env_steps: Array  # [] int32


def empty_estimate(populations: int, slots: int) -> Estimate:
    """Makes an estimate of P populations of K slots from no samples: zeros."""
    each, joint, none = jnp.zeros((populations, slots)), jnp.zeros(populations), jnp.int32(0)
    return Estimate(each, each, joint, joint, count=none, episodes=none, env_steps=none)


def return_scale(game: Game) -> tuple[float, float]:
    """Returns (low, width) of the game's return bounds."""
    low, high = game.return_bounds
    return low, high - low


def to_unit(game: Game, returns: Array) -> Array:
    """Scales raw returns of any shape to the paper's [0, 1]: affine, not clipped (bounds may be a typical interval)."""
    low, width = return_scale(game)
    return (returns - low) / width


def from_unit(game: Game, values: Array) -> Array:
    """Scales values in [0, 1] back to raw returns."""
    low, width = return_scale(game)
    return values * width + low


def player_return(game: Game, player: int, returns: Array) -> Array:
    """Averages a player's return over its seats: [..., S] -> [...]."""
    return jnp.mean(take_seats(returns, seats_of_player(game, player), axis=-1), axis=-1)


def draw_opponents(key: Array, game: Game, log_sigma: Array, shape: tuple[int, ...], stratified: bool) -> Array:
    """Draws one slot per player from its population's mixture.

    Stratified draws are systematic along the last axis of `shape`: the count of every slot differs from its expectation
    by less than one, each single draw follows sigma, and a random order makes the players' draws independent.

    Args:
      key: typed PRNG key; consumed.
      game: the game.
      log_sigma: logarithms of the mixtures, [P, K]. Or [K], a joint distribution over profiles whose policies have the
        same slot in every population (psro/jpsro.py): all players then get the same slot.
      shape: shape of the draws.
      stratified: draw by systematic sampling.

    Returns:
      Slots, [*shape, players] int32.
    """
    if log_sigma.ndim == 1:
        return jnp.repeat(simplex.sample_slots(key, log_sigma, shape)[..., None], num_players(game), axis=-1)
    columns = []
    for player_key, population in zip(random.split(key, num_players(game)), game.population_of_player, strict=True):
        if stratified:
            draw = partial(simplex.stratify_slots, log_sigma=log_sigma[population], num_draws=shape[-1])
            columns.append(jnp.vectorize(draw, signature="()->(n)")(random.split(player_key, shape[:-1])))
        else:
            columns.append(simplex.sample_slots(player_key, log_sigma[population], shape))
    return jnp.stack(columns, axis=-1)


class Sampling(NamedTuple):
    """Settings of the Monte-Carlo evaluation of policies against drawn opponents."""

    num_opponents: int  # n, opponents per policy
    episodes: int  # m, episodes per pair
    opponents: str = "per_anchor"  # one of OPPONENTS; "shared" gives all policies the same draws
    common: bool = False  # common random numbers: all policies also have the same deals and noise


def policy_returns(
    key: Array,
    views: tuple[View, ...],
    policies: StackedPolicies,
    opponents: StackedPolicies,
    log_sigma: Array,
    sampling: Sampling,
    wanted: Array | None = None,
) -> tuple[Array, Array]:
    """Plays C policies against opponents drawn from the others' mixtures: the returns Y of eq:mc-estimators_revised.

    Args:
      key: typed PRNG key; consumed.
      views: the game from every player position of the policies; each policy plays in all of them.
      policies: [C, ...].
      opponents: policies of the others, [P, K, ...] in the order of the views.
      log_sigma: logarithms of their mixtures, [P, K] in the order of the views.
      sampling: numbers of opponents and episodes.
      wanted: [C] bool, see `play_groups`.

    Returns:
      Scaled returns and lengths, [C, n] with n = views * num_opponents * episodes.

    Raises:
      ValueError: if `sampling.opponents` is unknown.
    """
    if sampling.opponents not in OPPONENTS:
        raise ValueError(
            f"policy_returns: unknown opponent sampling, expected one of {', '.join(OPPONENTS)}, got "
            f"{sampling.opponents!r}."
        )
    count = num_slots(policies.params)
    together = sampling.common or sampling.opponents == "shared"
    shape = (sampling.num_opponents,) if together else (count, sampling.num_opponents)

    def measure(view: View, view_key: Array) -> tuple[Array, Array]:
        key_draw, key_play = random.split(view_key)
        indices = draw_opponents(key_draw, view, log_sigma, shape, sampling.opponents == "stratified")
        if together and not sampling.common:
            indices = jnp.broadcast_to(indices, (count, *indices.shape))
        outcome = play_groups(
            play_episode,
            key_play,
            view,
            policies,
            opponents,
            indices,
            sampling.episodes,
            sampling.common,
            wanted=wanted,
        )
        returns = to_unit(view, player_return(view, 0, outcome.returns))
        return returns.reshape(count, -1), outcome.length.reshape(count, -1)

    rows = map_views(views, measure, random.split(key, len(views)))
    returns, lengths = (jnp.concatenate(part, axis=1) for part in zip(*rows, strict=True))
    return returns, lengths


def joint_returns(
    key: Array, game: Game, opponents: StackedPolicies, log_sigma: Array, *, samples: int, episodes: int
) -> tuple[Array, Array]:
    """Plays B profiles drawn from sigma x ... x sigma: the joint returns of eq:mc-estimators_revised.

    Args:
      key: typed PRNG key; consumed.
      game: the game.
      opponents: the policies of all anchors, [P, K, ...].
      log_sigma: logarithms of the mixtures, [P, K].
      samples: B, number of profiles.
      episodes: m, episodes per profile.

    Returns:
      Scaled returns [B * m, players] and lengths [B * m].
    """
    key_draw, key_play = random.split(key)
    indices = draw_opponents(key_draw, game, log_sigma, (samples,), stratified=False)
    outcome = play_joint(play_episode, key_play, game, opponents, indices, episodes)
    returns = [player_return(game, player, outcome.returns).reshape(-1) for player in range(num_players(game))]
    return to_unit(game, jnp.stack(returns, axis=-1)), outcome.length.reshape(-1)


def population_values(
    key: Array,
    game: Game,
    opponents: StackedPolicies,
    log_sigma: Array,
    active: Array,
    sampling: Sampling,
    mixture_samples: int,
    mixture: str = "joint",
) -> Estimate:
    """Estimates v-hat of every anchor against the others' sigma, and the mixture's value (eq:mc-estimators_revised).

        v-hat_i = 1/(n m) sum_s sum_l Y_{i,s,l}          over opponents j_s ~ sigma and episodes l
        r-hat   = 1/(B m) sum_b sum_l Y_{i_b,j_b,l}      over profiles (i_b, j_b) ~ sigma x sigma

    Args:
      key: typed PRNG key; consumed.
      game: the game that is played.
      opponents: the policies of all anchors, [P, K, ...].
      log_sigma: logarithms of the mixtures, [P, K].
      active: which slots hold an anchor, [P, K].
      sampling: n and m, and how opponents are drawn.
      mixture_samples: B. 0 plays no joint episode and uses r-hat = sigma . v-hat, which is unbiased too (in the meta
        update r-hat is only a shift that normalization cancels).
      mixture: whether B counts "joint" profiles or "bootstrap" resamples (see `bootstrap_mixture`).

    Returns:
      An `Estimate` that is 0 on inactive slots.
    """
    chex.assert_rank([log_sigma, active], 2)
    key_values, key_mixture = random.split(key)
    sigma = jnp.where(active, jnp.exp(log_sigma), 0.0)
    bootstrap = bool(mixture_samples) and mixture == "bootstrap"

    def measure(views: tuple[View, ...], p: Array | int, own_key: Array) -> tuple[Array, ...]:
        others = rotate(opponents, p)
        wanted = active[p] if on_host(game) else None
        own = take_population(others, 0)
        returns, lengths = policy_returns(own_key, views, own, others, rotate(log_sigma, p), sampling, wanted)
        found = returns.mean(axis=1), sample_variance(returns), lengths.sum(axis=1)
        if not bootstrap:
            return found
        return *found, *bootstrap_mixture(random.fold_in(key_mixture, p), returns, sigma[p], mixture_samples)

    keys = random.split(key_values, num_populations(game))
    values, variances, lengths, *resampled = map_populations(game, measure, keys)
    values, variances = jnp.where(active, values, 0.0), jnp.where(active, variances, 0.0)
    count = sampling.num_opponents * sampling.episodes
    positions = jnp.asarray([len(players_of(game, p)) for p in range(num_populations(game))])
    episodes = jnp.sum(active.sum(axis=1) * positions, dtype=jnp.int32) * count
    env_steps = jnp.sum(jnp.where(active, lengths, 0))
    if bootstrap:
        mixture_value, mixture_variance = resampled
    elif mixture_samples:
        joint, joint_lengths = joint_returns(
            key_mixture, game, opponents, log_sigma, samples=mixture_samples, episodes=sampling.episodes
        )
        mixture_value = _by_population(game, joint.mean(axis=0))
        mixture_variance = _by_population(game, sample_variance(joint.T))
        episodes, env_steps = episodes + joint.shape[0], env_steps + joint_lengths.sum()
    else:
        mixture_value, mixture_variance = jnp.sum(sigma * values, axis=1), jnp.sum(sigma**2 * variances, axis=1)
    return Estimate(values, variances, mixture_value, mixture_variance, jnp.int32(count), episodes, env_steps)


def bootstrap_mixture(key: Array, returns: Array, sigma: Array, resamples: int) -> tuple[Array, Array]:
    """Estimates the mixture's value by bootstrap from the anchors' own returns.

        r-hat = 1/B sum_b sum_i sigma(i) mean(returns*_{b,i}),    which tends to sigma . v-hat

    Every resample returns*_{b,i} draws n of the n returns of anchor i with replacement.

    Args:
      key: typed PRNG key; consumed.
      returns: scaled returns of one population's anchors, [K, n].
      sigma: mixture of the population, [K], 0 on inactive slots.
      resamples: B, number of resamples.

    Returns:
      r-hat [], and n times the variance of the resamples []: variance / n is the squared error of sigma . v-hat.
    """
    slots, count = returns.shape
    picked = random.randint(key, (resamples, slots, count), 0, count)
    means = jnp.take_along_axis(returns[None], picked, axis=2).mean(axis=2)  # [B, K]
    values = means @ sigma
    return values.mean(), count * sample_variance(values)


def sample_variance(returns: Array) -> Array:
    """Computes the unbiased variance along the last axis (0 for a single sample)."""
    count = returns.shape[-1]
    return jnp.var(returns, axis=-1) * (count / max(count - 1, 1))


def _by_population(game: Game, per_player: Array) -> Array:
    """[players] -> [P], the mean over the players of each population."""
    if game.population_of_player == tuple(range(len(per_player))):
        return per_player
    return jnp.stack([jnp.mean(per_player[jnp.asarray(players_of(game, p))]) for p in range(num_populations(game))])
