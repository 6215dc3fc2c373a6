"""Monte-Carlo estimates of the meta-game, without the matrix (eq:mc-estimators_revised).

Every anchor is played against draws of the others; `estimation/importance.py` weighs joint play instead. Returns are
scaled to [0, 1] by the game's bounds here and nowhere else. Every average is over whole episodes.
"""

from __future__ import annotations

from functools import partial

import chex
import jax.numpy as jnp
from jax import random

from gems_jax.host.stages import on_host
from gems_jax.meta import simplex
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.episode import play_episode, take_seats
from gems_jax.rollout.groups import play_groups, play_joint
from gems_jax.rollout.views import View, each_population, each_view, players_of, rotate, take_population
from gems_jax.types import (
    Apply,
    Array,
    Game,
    PyTree,
    Struct,
    num_players,
    num_populations,
    num_slots,
    seats_of_player,
)

OPPONENTS = ("per_anchor", "shared", "stratified")


class Estimate(Struct):
    """values, variances: of scaled returns; `count` samples stand behind each entry, so that the error of a value is
    sqrt(variance / count). What was weighed is no return: its samples go up to one over the mass of their anchor."""

    values: Array  # [P, K]
    variances: Array  # [P, K], unbiased
    mixture_value: Array  # [P]
    mixture_variance: Array  # [P]
    count: Array  # [] int32
    episodes: Array  # [] int32, of active anchors and joint samples
    env_steps: Array  # [] int32


def empty_estimate(populations: int, slots: int) -> Estimate:
    """Makes an estimate of P populations of K slots without samples: zeros."""
    each, joint, none = jnp.zeros((populations, slots)), jnp.zeros(populations), jnp.int32(0)
    return Estimate(each, each, joint, joint, count=none, episodes=none, env_steps=none)


def return_scale(game: Game) -> tuple[float, float]:
    """(low, width) of the game's return bounds."""
    low, high = game.return_bounds
    return low, high - low


def to_unit(game: Game, returns: Array) -> Array:
    """Raw returns to the [0, 1] of the paper: affine, not clipped (bounds may be a declared typical interval)."""
    low, width = return_scale(game)
    return (returns - low) / width


def from_unit(game: Game, values: Array) -> Array:
    """Scaled values back to raw returns."""
    low, width = return_scale(game)
    return values * width + low


def player_return(game: Game, player: int, returns: Array) -> Array:
    """A player's return: the mean of its seats' [..., S] -> [...]."""
    return jnp.mean(take_seats(returns, seats_of_player(game, player), axis=-1), axis=-1)


def draw_opponents(key: Array, game: Game, log_sigma: Array, shape: tuple[int, ...], stratified: bool) -> Array:
    """Slots [*shape, players], each player's drawn from its population's sigma [P, K]. key: consumed.

    A joint distribution over profiles, log_sigma [K], gives everybody the same slot: populations that hold a profile's
    policies in one slot (psro/jpsro.py) then play profiles.

    Stratified draws are systematic along the last axis of `shape`: every slot comes up as often as its mass says, to
    within one, each draw keeps the marginal sigma, and a random order keeps the players' draws independent.
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


def policy_returns(
    key: Array,
    views: tuple[View, ...],
    params: PyTree,
    apply: Apply,
    opponents: StackedPolicies,
    log_sigma: Array,
    *,
    num_opponents: int,
    episodes: int,
    sampling: str = "per_anchor",
    common: bool = False,
    wanted: Array | None = None,
) -> tuple[Array, Array]:
    """Scaled returns and lengths [C, n] of C policies (params [C, ...]) against the others' sigma.

    Each policy is measured in every place it fills, `views`, so n is their number times num_opponents times episodes.
    opponents and log_sigma count populations as the views do. `sampling` "shared" gives all policies the same
    opponents; `common` also the same deals and noise; `wanted` [C]: see `play_groups`. key: consumed.
    """
    if sampling not in OPPONENTS:
        raise ValueError(f"unknown opponent sampling {sampling!r}; known: {', '.join(OPPONENTS)}")
    count = num_slots(params)
    together = common or sampling == "shared"
    shape = (num_opponents,) if together else (count, num_opponents)

    def measured(view: View, view_key: Array) -> tuple[Array, Array]:
        key_draw, key_play = random.split(view_key)
        indices = draw_opponents(key_draw, view, log_sigma, shape, sampling == "stratified")
        if together and not common:
            indices = jnp.broadcast_to(indices, (count, *indices.shape))
        own = StackedPolicies(params, apply)
        outcome = play_groups(play_episode, key_play, view, own, opponents, indices, episodes, common, wanted=wanted)
        returns = to_unit(view, player_return(view, 0, outcome.returns))
        return returns.reshape(count, -1), outcome.length.reshape(count, -1)

    rows = each_view(views, measured, random.split(key, len(views)))
    returns, lengths = (jnp.concatenate(part, axis=1) for part in zip(*rows, strict=True))
    return returns, lengths


def mixture_returns(
    key: Array, game: Game, opponents: StackedPolicies, log_sigma: Array, *, samples: int, episodes: int
) -> tuple[Array, Array]:
    """Scaled returns [B * m, players] and lengths [B * m] of joint play from sigma x ... x sigma. key: consumed."""
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
    *,
    num_opponents: int,
    episodes: int,
    mixture_samples: int,
    sampling: str = "per_anchor",
    common: bool = False,
    mixture: str = "joint",
) -> Estimate:
    """Estimate v-hat of every anchor against the others' sigma, and the mixture's value (eq:mc-estimators_revised).

    Args:
      key: consumed.
      game: the game that is played.
      opponents: the policies of all anchors, [P, K, ...].
      log_sigma: logarithms of the mixtures, [P, K].
      active: which slots hold an anchor, [P, K].
      num_opponents: n, opponents per anchor.
      episodes: m, episodes per match-up.
      mixture_samples: B. 0 plays no joint episode and takes sigma . v-hat as the mixture's value, which is unbiased
        too (its only use in eq:omwu-eta is a shift that normalization cancels).
      sampling, common: how opponents are drawn, see `policy_returns`.
      mixture: what B counts, "joint" profiles or "bootstrap" resamples (see `bootstrap_mixture`).

    Returns:
      An `Estimate` that is 0 on inactive slots.
    """
    chex.assert_rank([log_sigma, active], 2)
    key_values, key_mixture = random.split(key)
    resampled = bool(mixture_samples) and mixture == "bootstrap"

    def measure(views: tuple[View, ...], p: Array | int, own_key: Array) -> tuple[Array, ...]:
        others = rotate(opponents, p)
        returns, lengths = policy_returns(
            own_key,
            views,
            take_population(others, 0).params,
            opponents.apply,
            others,
            rotate(log_sigma, p),
            num_opponents=num_opponents,
            episodes=episodes,
            sampling=sampling,
            common=common,
            wanted=active[p] if on_host(game) else None,
        )
        found = returns.mean(axis=1), sample_variance(returns), lengths.sum(axis=1)
        if not resampled:
            return found
        sigma = jnp.where(active[p], jnp.exp(log_sigma[p]), 0.0)
        return *found, *bootstrap_mixture(random.fold_in(key_mixture, p), returns, sigma, mixture_samples)

    values, variances, lengths, *resamples = each_population(
        game, measure, random.split(key_values, num_populations(game))
    )
    values, variances = jnp.where(active, values, 0.0), jnp.where(active, variances, 0.0)
    places = jnp.asarray([len(players_of(game, p)) for p in range(num_populations(game))])
    played = jnp.sum(active.sum(axis=1) * places, dtype=jnp.int32) * num_opponents * episodes
    steps = jnp.sum(jnp.where(active, lengths, 0))
    if resampled:
        mixture_value, mixture_spread = resamples
    elif mixture_samples:
        joint, lengths = mixture_returns(
            key_mixture, game, opponents, log_sigma, samples=mixture_samples, episodes=episodes
        )
        mixture_value, mixture_spread = (
            _by_population(game, joint.mean(axis=0)),
            _by_population(game, sample_variance(joint.T)),
        )
        played, steps = played + joint.shape[0], steps + lengths.sum()
    else:
        sigma = jnp.where(active, jnp.exp(log_sigma), 0.0)
        mixture_value, mixture_spread = jnp.sum(sigma * values, axis=1), jnp.sum(sigma**2 * variances, axis=1)
    count = jnp.int32(num_opponents * episodes)
    return Estimate(values, variances, mixture_value, mixture_spread, count, played, steps)


def bootstrap_mixture(key: Array, returns: Array, sigma: Array, resamples: int) -> tuple[Array, Array]:
    """Estimate the mixture's value by bootstrap from the anchors' own returns.

    Every resample draws as many returns of each anchor as there are, with replacement:
    r-hat = 1/B sum_b sum_i sigma(i) mean(returns*_{b,i}), which tends to sigma . v-hat.

    Args:
      key: consumed.
      returns: scaled returns of one population's anchors, [K, n].
      sigma: its mixture, [K], 0 on inactive slots.
      resamples: B.

    Returns:
      r-hat [], and n times the variance of the resamples [], so that variance / n is the error of sigma . v-hat.
    """
    slots, count = returns.shape
    picked = random.randint(key, (resamples, slots, count), 0, count)
    means = jnp.take_along_axis(returns[None], picked, axis=2).mean(axis=2)  # [B, K]
    values = means @ sigma
    return values.mean(), count * sample_variance(values)


def sample_variance(returns: Array) -> Array:
    """Unbiased variance along the last axis (0 for a single sample)."""
    count = returns.shape[-1]
    return jnp.var(returns, axis=-1) * (count / max(count - 1, 1))


def _by_population(game: Game, per_player: Array) -> Array:
    """[players] -> [P]: the mean over the players that share a population."""
    return jnp.stack([jnp.mean(per_player[jnp.asarray(players_of(game, p))]) for p in range(num_populations(game))])
