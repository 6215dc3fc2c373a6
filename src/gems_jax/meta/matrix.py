"""Meta-solvers on a known payoff tensor: `solve(payoffs, active) -> sigma`.

payoffs [players, K, ..., K] holds one axis of slots per player: payoffs[p, i_0, ..., i_{n-1}] is what player p earns
when player q plays slot i_q. active [players, K] marks the slots that hold a strategy; entries of inactive slots are
never read, whatever they hold. sigma [players, K] has rows that sum to one and zeros on inactive slots.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import chex
import jax
import jax.numpy as jnp

from gems_jax.meta.omwu import omwu_update
from gems_jax.meta.simplex import masked_log_softmax, masked_normalise, masked_uniform
from gems_jax.types import Array


def slot_values(payoffs: Array, sigma: Array) -> Array:
    """Expected payoff of every slot of every player against the mixtures of the others. -> [players, K]."""
    assert_game(payoffs, sigma)
    return jnp.stack([values_of_player(payoffs[player], sigma, player) for player in range(payoffs.shape[0])])


def values_of_player(payoffs: Array, sigma: Array, player: int) -> Array:
    """The same of one player, [K], from its own payoffs [K, ..., K]."""
    values = payoffs
    for other in reversed(range(sigma.shape[0])):  # from the last axis, so that earlier axes keep their place
        if other != player:
            values = jnp.tensordot(values, sigma[other], axes=([other], [0]), precision="highest")
    return values


def duality_gap(payoffs: Array, sigma: Array, active: Array) -> Array:
    """Sum over players of what the best active slot earns beyond the mixture: 0 at a Nash equilibrium. -> []."""
    assert_game(payoffs, sigma)
    chex.assert_equal_shape([sigma, active])
    values = slot_values(mask_payoffs(payoffs, active), sigma)
    best = jnp.max(values, axis=1, initial=-jnp.inf, where=active)
    return jnp.sum(best - jnp.sum(sigma * values, axis=1))


def solve_uniform(payoffs: Array, active: Array) -> Array:
    """Equal mass on every active slot: fictitious play at the level of the population."""
    assert_game(payoffs, active)
    return jax.vmap(masked_uniform)(active)


def solve_last_k(payoffs: Array, active: Array, k: int = 3) -> Array:
    """Equal mass on the `k` newest slots: explicit populations fill their slots in order, so the highest ones."""
    assert_game(payoffs, active)
    if k < 1:
        raise ValueError(f"solve_last_k got k={k}, expected at least 1.")
    newer = jnp.cumsum(active[:, ::-1], axis=1)[:, ::-1]  # how many active slots stand here or later
    return jax.vmap(masked_uniform)(active & (newer <= k))


def solve_self_play(payoffs: Array, active: Array) -> Array:
    """All mass on the newest slot."""
    return solve_last_k(payoffs, active, k=1)


class Iterate(NamedTuple):
    """One step of `iterate_weights`: everybody's mixture, what it met, and what was made of it."""

    sigma: Array  # [players, K]
    values: Array  # [players, K], exact
    estimates: Array  # [players, K], what the update saw of the values
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
    """Every player runs `omwu_update` from uniform, all at once, for as many steps as `step_sizes` [T] has.

    collect(start, iterate) is folded over the steps. What stands before the first estimate is that estimate itself, so
    that the first step has no hint, or with `zero_start` 0, as printed, which doubles the step.
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
    """Average iterate of `omwu_update` run by every player on exact values, from uniform.

    Payoffs are scaled to [0, 1] player by player first, so `step_size` means the same in every game. The average has
    a guarantee in two-player zero-sum games, where its gap falls like 1 / num_steps (optimistic) or 1 /
    sqrt(num_steps) (plain, with a step size that falls like it). Elsewhere it is only where the dynamics spend time.
    """
    assert_game(payoffs, active)
    if num_steps < 1:
        raise ValueError(f"multiplicative_weights got num_steps={num_steps}, expected at least 1.")
    total = iterate_weights(
        _unit_interval(payoffs, active),
        active,
        jnp.full(num_steps, step_size),
        lambda total, iterate: total + iterate.sigma,
        jnp.zeros(active.shape),
        optimistic=optimistic,
    )
    return jax.vmap(masked_normalise)(total, active)


def solve_omwu(payoffs: Array, active: Array) -> Array:
    """Optimistic multiplicative weights: in zero-sum games a gap below about 1e-3 of the range of the payoffs."""
    return multiplicative_weights(payoffs, active, optimistic=True, step_size=1.0)


def solve_mwu(payoffs: Array, active: Array) -> Array:
    """Plain multiplicative weights, for comparison: in zero-sum games a gap of about 2e-2 of the range."""
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
    """Payoffs with 0 for every profile that has an inactive slot."""
    return jnp.where(_active_profiles(active)[None], payoffs, 0.0)


def largest_payoff(payoffs: Array, active: Array) -> Array:
    """max |payoff| over active profiles, []; 1 where all are 0, so that one may divide by it."""
    largest = jnp.max(jnp.abs(mask_payoffs(payoffs, active)))
    return jnp.where(largest > 0.0, largest, 1.0)


def _unit_interval(payoffs: Array, active: Array) -> Array:
    """Payoffs of each player mapped affinely onto [0, 1]; inactive profiles and constant payoffs become 0."""
    profiles = _active_profiles(active)

    def scale(payoff: Array) -> Array:
        low = jnp.min(payoff, initial=jnp.inf, where=profiles)
        high = jnp.max(payoff, initial=-jnp.inf, where=profiles)
        width = jnp.where(high > low, high - low, 1.0)
        return jnp.where(profiles, payoff - low, 0.0) / width

    return jax.vmap(scale)(payoffs)


def assert_game(payoffs: Array, per_slot: Array) -> None:
    """payoffs [players, K, ..., K] and something [players, K] belong together."""
    chex.assert_rank(per_slot, 2)
    players, slots = per_slot.shape
    chex.assert_shape(payoffs, (players,) + (slots,) * players)
