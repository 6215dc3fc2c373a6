"""Nash equilibria of known payoffs: regret matching+ in JAX with a certified gap, and a linear program on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.meta.host import solve_on_host
from gems_jax.meta.matrix import assert_game, duality_gap, largest_payoff, mask_payoffs, values_of_player
from gems_jax.meta.simplex import masked_normalize, masked_uniform
from gems_jax.types import Array

NASH_TOLERANCE = 1e-5  # of regret matching+, as a fraction of the largest payoff
_ZERO_SUM = 1e-5  # payoffs are zero-sum if they add up to less than this fraction of the largest one (float32)


class Equilibrium(NamedTuple):
    """Mixtures of an iterative solver, and their distance from an equilibrium."""

    sigma: Array  # [players, K]
    gap: Array  # [], `duality_gap` of sigma: 0 at a Nash equilibrium
    steps: Array  # [] int32, number of steps


class _Matching(NamedTuple):
    """The carry of regret matching+."""

    regrets: Array  # [players, K]
    current: Array  # [players, K], the last mixtures
    average: Array  # [players, K], weighted by the square of time
    steps: Array  # [] int32


def regret_matching_plus(
    payoffs: Array,
    active: Array,
    num_steps: int = 20_000,
    *,
    tolerance: float | Array = NASH_TOLERANCE,
    start: Array | None = None,
    check_every: int = 50,
) -> Equilibrium:
    """Solves a known game by predictive regret matching+, up to a certified gap.

        r = u - sigma.u,  R <- max(R + r, 0),  sigma = max(R + r, 0) / sum max(R + r, 0)

    Players update alternately, and the mixtures are averaged with weight t^2. In a two-player zero-sum game the gap
    falls at least like 1 / sqrt(steps), and in practice faster than 1 / steps, from any R >= 0. In other games a gap of
    0 still means an equilibrium, but nothing guarantees it. The gap is computed from sigma itself, so it is a
    certificate.

    Args:
      payoffs: [players, K, ..., K].
      active: [players, K] bool, slots that hold a strategy.
      num_steps: maximum number of steps, rounded up to a multiple of `check_every`.
      tolerance: stop when the gap is at most this fraction of the largest payoff; 0 makes all steps.
      start: [players, K] mixtures to warm-start from, for example the solution before a strategy of mass 0 was added.
        They are returned if their gap is small enough; otherwise the first regrets are their mean with uniform mixtures
        (payoffs are scaled to [-1, 1], so one step adds about as much). None starts from uniform mixtures and no
        regrets.
      check_every: steps between two computations of the gap; the gap of `start` is computed first.

    Returns:
      `Equilibrium`: mixtures [players, K], their gap [] and the number of steps [].

    Raises:
      ValueError: if `num_steps` or `check_every` is below 1.
    """
    assert_game(payoffs, active)
    if num_steps < 1 or check_every < 1:
        raise ValueError(
            "regret_matching_plus: expected num_steps and check_every of at least 1, got "
            f"num_steps={num_steps} and check_every={check_every}."
        )
    largest = largest_payoff(payoffs, active)
    scaled = mask_payoffs(payoffs, active) / largest

    def step(_: int, carry: _Matching) -> _Matching:
        values = lambda sigma, player: values_of_player(scaled[player], sigma, player)  # noqa: E731
        return _match_regrets(values, active, carry)

    def advance(carry: tuple[_Matching, Array]) -> tuple[_Matching, Array]:
        matching = jax.lax.fori_loop(0, min(check_every, num_steps), step, carry[0])
        return matching, duality_gap(payoffs, jax.vmap(masked_normalize)(matching.average, active), active)

    def unfinished(carry: tuple[_Matching, Array]) -> Array:
        return (carry[1] > tolerance * largest) & (carry[0].steps < num_steps)

    uniform = jax.vmap(masked_uniform)(active)
    last = uniform if start is None else jax.vmap(masked_normalize)(start, active)
    regrets = jnp.zeros(active.shape) if start is None else (last + uniform) / 2
    sigma = jax.vmap(masked_normalize)(regrets, active)
    carry = (_Matching(regrets, sigma, last, jnp.int32(0)), duality_gap(payoffs, last, active))
    matching, gap = jax.lax.while_loop(unfinished, advance, carry)
    return Equilibrium(jax.vmap(masked_normalize)(matching.average, active), gap, matching.steps)


def _match_regrets(values: Callable[[Array, int], Array], active: Array, carry: _Matching) -> _Matching:
    """One step of every player, in order. values(sigma [players, K], player) -> [K]."""
    regrets, sigma, average, steps = carry
    for player, slots in enumerate(active):
        offered = values(sigma, player)
        regret = jnp.where(slots, offered - jnp.sum(sigma[player] * offered), 0.0)
        regrets = regrets.at[player].set(jnp.maximum(regrets[player] + regret, 0.0))
        predicted = jnp.maximum(regrets[player] + regret, 0.0)  # predicts that the next regret equals the last one
        sigma = sigma.at[player].set(masked_normalize(predicted, slots))
    average = average + (sigma - average) * (3.0 / (steps + 3.0))
    return _Matching(regrets, sigma, average, steps + 1)


def match_values(values: Callable[[Array], Array], active: Array, start: Array, num_steps: int) -> Array:
    """Runs predictive regret matching+ on a game that is given by a function of strategy values.

    Rows update alternately, and their mixtures are averaged with weight t^2, as in `regret_matching_plus`.

    Args:
      values: values(sigma [P, K]) -> [P, K], payoffs of all strategies against sigma, of the order of [0, 1].
      active: [P, K] bool, slots that hold a strategy.
      start: [P, K] mixtures; the first regrets are their mean with uniform ones.
      num_steps: static number of steps.

    Returns:
      Averaged mixtures [P, K].
    """
    uniform = jax.vmap(masked_uniform)(active)
    regrets = (jax.vmap(masked_normalize)(start, active) + uniform) / 2
    carry = _Matching(regrets, jax.vmap(masked_normalize)(regrets, active), uniform, jnp.int32(0))

    def step(_: int, carry: _Matching) -> _Matching:
        return _match_regrets(lambda sigma, row: values(sigma)[row], active, carry)

    return jax.vmap(masked_normalize)(jax.lax.fori_loop(0, num_steps, step, carry).average, active)


def solve_nash(payoffs: Array, active: Array) -> Array:
    """Solves a two-player zero-sum game by regret matching+, to a gap of `NASH_TOLERANCE` of the largest payoff."""
    return regret_matching_plus(payoffs, active).sigma


def zero_sum_equilibrium(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
    """Solves a two-player zero-sum matrix game by a linear program.

        max v  subject to  x matrix >= v,  x in the simplex

    The column player's mixture is the dual solution. Where equilibria are not unique, the result is one vertex.

    Args:
      matrix: payoffs of the row player, [rows, columns] float64.

    Returns:
      The row mixture [rows], the column mixture [columns] and the value of the game.

    Raises:
      RuntimeError: if the linear program fails.
    """
    from scipy.optimize import linprog  # takes a moment to import

    chex.assert_rank(matrix, 2)
    rows, columns = matrix.shape
    solved = linprog(
        np.append(np.zeros(rows), -1.0),
        A_ub=np.hstack([-matrix.T, np.ones((columns, 1))]),
        b_ub=np.zeros(columns),
        A_eq=np.append(np.ones(rows), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * rows + [(None, None)],
        method="highs",
    )
    if not solved.success:
        raise RuntimeError(
            f"zero_sum_equilibrium: the linear program of a {rows} x {columns} game failed: {solved.message}"
        )
    return _normalize_masses(solved.x[:rows]), _normalize_masses(-solved.ineqlin.marginals), float(-solved.fun)


def _normalize_masses(masses: np.ndarray) -> np.ndarray:
    masses = np.maximum(masses, 0.0)
    return masses / masses.sum()


@solve_on_host
def solve_nash_lp(payoffs: np.ndarray) -> list[np.ndarray]:
    """Solves a two-player zero-sum game exactly up to rounding, by a linear program on the host."""
    if payoffs.shape[0] != 2 or np.abs(payoffs.sum(axis=0)).max() > _ZERO_SUM * max(np.abs(payoffs).max(), 1e-30):
        raise ValueError(
            f"nash_lp: expected a two-player zero-sum game, got {payoffs.shape[0]} players whose payoffs add up to as "
            f"much as {np.abs(payoffs.sum(axis=0)).max():.3g}. Use nash, omwu or cce."
        )
    row, column, _ = zero_sum_equilibrium((payoffs[0] - payoffs[1]) / 2)
    return [row, column]
