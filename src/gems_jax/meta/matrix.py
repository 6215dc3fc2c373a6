"""Meta-solvers on a known payoff tensor: `solve(payoffs, active) -> sigma`.

payoffs [players, K, ..., K] has one axis of slots per player: payoffs[p, i_0, ..., i_{n-1}] is the payoff of player p
when each player q plays slot i_q. active [players, K] marks the slots that hold a strategy; entries of inactive slots
are ignored. sigma [players, K] has rows that sum to one and zeros on inactive slots.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import chex
import jax
import jax.numpy as jnp

from gems_jax.meta.omwu import omwu_update
from gems_jax.meta.simplex import masked_log_softmax, masked_normalize, masked_uniform
from gems_jax.types import Array


def slot_values(payoffs: Array, sigma: Array) -> Array:
    """Computes the expected payoff of every slot against the mixtures of the other players.

        v_p(i) = sum_{i_-p} M_p(i, i_-p) prod_{q != p} sigma_q(i_q)        (eq:n_player_value_vec)

    Args:
      payoffs: M, [players, K, ..., K].
      sigma: mixtures, [players, K].

    Returns:
      v, [players, K].
    """
    assert_game(payoffs, sigma)
    return jnp.stack([values_of_player(payoffs[player], sigma, player) for player in range(payoffs.shape[0])])


def values_of_player(payoffs: Array, sigma: Array, player: int) -> Array:
    """Computes the row of `slot_values` of one player.

    Args:
      payoffs: the player's own payoffs, [K, ..., K].
      sigma: mixtures of all players, [players, K].
      player: index of the player.

    Returns:
      v, [K].
    """
    values = payoffs
    for other in reversed(range(sigma.shape[0])):  # from the last axis, so that the earlier axes do not move
        if other != player:
            values = jnp.tensordot(values, sigma[other], axes=([other], [0]), precision="highest")
    return values


def duality_gap(payoffs: Array, sigma: Array, active: Array) -> Array:
    """Computes the duality gap (NashConv) of mixtures: 0 at a Nash equilibrium.

        sum_p [ max_i v_p(i) - sigma_p . v_p ],    v = slot_values(payoffs, sigma)

    A term of one player is the exploitability of eq:exploit_revised.

    Args:
      payoffs: [players, K, ..., K].
      sigma: mixtures, [players, K].
      active: which slots hold a strategy, [players, K] bool.

    Returns:
      The gap [].
    """
    assert_game(payoffs, sigma)
    chex.assert_equal_shape([sigma, active])
    values = slot_values(mask_payoffs(payoffs, active), sigma)
    best = jnp.max(values, axis=1, initial=-jnp.inf, where=active)
    return jnp.sum(best - jnp.sum(sigma * values, axis=1))


def solve_uniform(payoffs: Array, active: Array) -> Array:
    """Assigns equal mass to every active slot: fictitious play at the level of the population."""
    assert_game(payoffs, active)
    return jax.vmap(masked_uniform)(active)


def solve_last_k(payoffs: Array, active: Array, k: int = 3) -> Array:
    """Assigns equal mass to the `k` newest slots.

    Explicit populations fill their slots in order, so the newest slots are the highest active ones.

    Args:
      payoffs: [players, K, ..., K].
      active: which slots hold a strategy, [players, K] bool.
      k: number of slots, at least 1.

    Returns:
      sigma, [players, K].

    Raises:
      ValueError: if `k` is below 1.
    """
    assert_game(payoffs, active)
    if k < 1:
        raise ValueError(f"solve_last_k: expected k of at least 1, got k={k}.")
    newer = jnp.cumsum(active[:, ::-1], axis=1)[:, ::-1]  # number of active slots from here on
    return jax.vmap(masked_uniform)(active & (newer <= k))


def solve_self_play(payoffs: Array, active: Array) -> Array:
    """Assigns all mass to the newest slot."""
    return solve_last_k(payoffs, active, k=1)


class Iterate(NamedTuple):
    """One step of `iterate_weights`."""

    sigma: Array  # [players, K], mixtures before the update
    values: Array  # [players, K], exact values against these mixtures
    estimates: Array  # [players, K], estimates of the values that the update uses
    step_size: Array  # []


Collected = TypeVar("Collected")
Estimate = Callable[[Array, Array, Array], Array]  # (t from 1, sigma, values) -> estimates


def iterate_weights(
    payoffs: Array,
    active: Array,
    step_sizes: Array,
    collect: Callable[[Collected, Iterate], Collected],
    start: Collected,
    *,
    optimistic: bool = True,
    estimate: Estimate = lambda t, sigma, values: values,
    zero_start: bool = False,
) -> Collected:
    """Runs `omwu_update` (eq:omwu-eta) for all players simultaneously, from uniform mixtures.

    Args:
      payoffs: [players, K, ..., K].
      active: which slots hold a strategy, [players, K] bool.
      step_sizes: eta_t of every step, [T].
      collect: folded over the steps, collect(accumulator, `Iterate`) -> accumulator.
      start: the first accumulator.
      optimistic: False runs plain multiplicative weights.
      estimate: estimate(t, sigma, values) -> [players, K], the values that the update uses; exact by default.
      zero_start: use 0 as the estimate before the first one, as the paper prints it, which doubles the first step. By
        default it equals the first estimate, so that the first step has no hint.

    Returns:
      The last accumulator.
    """
    assert_game(payoffs, active)

    def update(log_sigma: Array, values: Array, previous: Array, eta: Array, active: Array) -> Array:
        mixture_value = jnp.sum(jnp.exp(log_sigma) * values)
        return omwu_update(log_sigma, values, previous, mixture_value, eta, active, optimistic=optimistic)

    def step(carry: tuple[Array, Array, Any], inputs: tuple[Array, Array]) -> tuple[tuple[Array, Array, Any], None]:
        log_sigma, previous, collected = carry
        t, eta = inputs
        sigma = jnp.exp(log_sigma)
        values = slot_values(payoffs, sigma)
        estimates = estimate(t, sigma, values)
        previous = jnp.where((t == 1) & (not zero_start), estimates, previous)
        log_sigma = jax.vmap(update, in_axes=(0, 0, 0, None, 0))(log_sigma, estimates, previous, eta, active)
        return (log_sigma, estimates, collect(collected, Iterate(sigma, values, estimates, eta))), None

    log_sigma = jax.vmap(masked_log_softmax)(jnp.zeros(active.shape), active)
    times = jnp.arange(1, step_sizes.shape[0] + 1)
    carry, _ = jax.lax.scan(step, (log_sigma, jnp.zeros(active.shape), start), (times, step_sizes))
    return carry[2]


def multiplicative_weights(
    payoffs: Array, active: Array, *, optimistic: bool, num_steps: int = 10_000, step_size: float
) -> Array:
    """Averages the iterates of `omwu_update`, run by every player on exact values from uniform mixtures.

    Payoffs of each player are scaled to [0, 1] first, so `step_size` has the same meaning in every game. In two-player
    zero-sum games the gap of the average falls like 1 / num_steps (optimistic) or 1 / sqrt(num_steps) (plain, with a
    step size that falls like it). In other games there is no guarantee.

    Args:
      payoffs: [players, K, ..., K].
      active: which slots hold a strategy, [players, K] bool.
      optimistic: OMWU or plain MWU.
      num_steps: number of steps, static.
      step_size: eta.

    Returns:
      Mean mixtures, [players, K].

    Raises:
      ValueError: if `num_steps` is below 1.
    """
    assert_game(payoffs, active)
    if num_steps < 1:
        raise ValueError(f"multiplicative_weights: expected num_steps of at least 1, got num_steps={num_steps}.")
    total = iterate_weights(
        _scale_to_unit_interval(payoffs, active),
        active,
        jnp.full(num_steps, step_size),
        lambda total, iterate: total + iterate.sigma,
        jnp.zeros(active.shape),
        optimistic=optimistic,
    )
    return jax.vmap(masked_normalize)(total, active)


def solve_omwu(payoffs: Array, active: Array) -> Array:
    """Runs optimistic multiplicative weights: in zero-sum games to a gap of about 1e-3 of the payoffs' range."""
    return multiplicative_weights(payoffs, active, optimistic=True, step_size=1.0)


def solve_mwu(payoffs: Array, active: Array) -> Array:
    """Runs plain multiplicative weights: in zero-sum games to a gap of about 2e-2 of the payoffs' range."""
    return multiplicative_weights(payoffs, active, optimistic=False, step_size=0.05)


def _active_profiles(active: Array) -> Array:
    """[players, K] -> [K, ..., K], True where every player's slot is active."""
    players, slots = active.shape
    profiles = jnp.ones((slots,) * players, dtype=bool)
    for player in range(players):
        shape = [1] * players
        shape[player] = slots
        profiles = profiles & active[player].reshape(shape)
    return profiles


def mask_payoffs(payoffs: Array, active: Array) -> Array:
    """Sets the payoffs of every profile with an inactive slot to 0."""
    return jnp.where(_active_profiles(active)[None], payoffs, 0.0)


def largest_payoff(payoffs: Array, active: Array) -> Array:
    """Computes max |payoff| [] over active profiles; 1 where all are 0, so that it can be a divisor."""
    largest = jnp.max(jnp.abs(mask_payoffs(payoffs, active)))
    return jnp.where(largest > 0.0, largest, 1.0)


def _scale_to_unit_interval(payoffs: Array, active: Array) -> Array:
    """Payoffs of each player mapped affinely onto [0, 1]; inactive profiles and constant payoffs become 0."""
    profiles = _active_profiles(active)

    def scale(payoff: Array) -> Array:
        low = jnp.min(payoff, initial=jnp.inf, where=profiles)
        high = jnp.max(payoff, initial=-jnp.inf, where=profiles)
        width = jnp.where(high > low, high - low, 1.0)
        return jnp.where(profiles, payoff - low, 0.0) / width

    return jax.vmap(scale)(payoffs)


def assert_game(payoffs: Array, per_slot: Array) -> None:
    """Asserts that `per_slot` is [players, K] and `payoffs` is [players, K, ..., K]."""
    chex.assert_rank(per_slot, 2)
    players, slots = per_slot.shape
    chex.assert_shape(payoffs, (players,) + (slots,) * players)
