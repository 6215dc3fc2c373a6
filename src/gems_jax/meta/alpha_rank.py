"""alpha-Rank: the stationary distribution of an evolutionary chain over pure profiles, on the host in float64.

In the *multi-population* chain (Omidshafiei et al. 2019, Muller et al. 2020) the states are the pure profiles, and
from a profile s one player p at a time may turn to another strategy, which gives r. With Delta = u_p(r) - u_p(s),

    C[s, r] = eta rho(Delta),   eta = 1 / sum_p (k_p - 1),   C[s, s] = 1 - sum_r C[s, r]

    finite alpha:     rho = (1 - e^{-alpha Delta}) / (1 - e^{-m alpha Delta}),  1 / m at Delta = 0
    infinite alpha:   rho = 1 - eps, 1/2, eps for Delta above, at, below 0

and the *eps-sweep* halves eps until the distribution no longer changes: the limit of a high ranking intensity. The
*single-population* chain of a symmetric game has the strategies as states and Delta = u(r, s) - u(s, r).

A linear system of prod_p k_p unknowns is solved for every eps: 1,681 of them at 41 strategies for each of two
players. That is the wall of this solver; the single-population chain has 41.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import chex
import numpy as np

from gems_jax.meta.host import solve_on_host
from gems_jax.types import expect

Transition = Callable[[np.ndarray], np.ndarray]  # Delta -> rho, entry by entry
_TIE = 1e-6  # Delta below this share of the largest payoff is a tie: payoffs come in float32
_MIN_STEPS, _MAX_STEPS, _LEAST_EPS = 10, 100, 1e-14  # of the sweep


def fixation(alpha: float, population_size: int = 50) -> Transition:
    """rho at a finite ranking intensity: one mutant takes over a population of m = population_size."""

    def rho(delta: np.ndarray) -> np.ndarray:
        z = alpha * delta
        size = np.where(np.abs(z) < 1e-14, 1.0, np.abs(z))  # exponents never positive: nothing overflows
        up = np.expm1(-size) / np.expm1(-population_size * size)
        down = np.exp(-(population_size - 1) * size) * up
        return np.where(np.abs(z) < 1e-14, 1.0 / population_size, np.where(z > 0, up, down))

    return rho


def perturbed(epsilon: float, tie: float = 0.0) -> Transition:
    """rho at an infinite ranking intensity, with a chance epsilon of a worse strategy."""
    return lambda delta: np.where(delta > tie, 1.0 - epsilon, np.where(delta < -tie, epsilon, 0.5))


def stationary(chain: np.ndarray) -> np.ndarray:
    """The distribution pi with pi C = pi, [S]. Raises LinAlgError where it cannot be told apart from others."""
    system = chain.T - np.eye(len(chain))
    system[0] = 1.0
    pi = np.linalg.solve(system, np.eye(len(chain))[0])
    if not np.isfinite(pi).all() or pi.min() < -1e-6:
        raise np.linalg.LinAlgError("the chain is too close to one with several recurrent classes")
    return np.maximum(pi, 0.0) / np.maximum(pi, 0.0).sum()


def multi_population_chain(payoffs: np.ndarray, rho: Transition) -> np.ndarray:
    """Transition matrix [S, S] over the profiles of payoffs [players, k_0, ..., k_{n-1}], in the order of `ravel`."""
    counts = payoffs.shape[1:]
    profiles = np.arange(np.prod(counts)).reshape(counts)
    chain = np.zeros((profiles.size, profiles.size))
    for player in range(len(counts)):
        value, index = (np.moveaxis(each, player, -1) for each in (payoffs[player], profiles))
        chain[index[..., :, None], index[..., None, :]] = rho(value[..., None, :] - value[..., :, None])
    return _complete(chain, sum(count - 1 for count in counts))


def single_population_chain(payoff: np.ndarray, rho: Transition) -> np.ndarray:
    """Transition matrix [k, k] over the strategies of the symmetric game in which i earns payoff[i, j] against j."""
    return _complete(rho(payoff.T - payoff), len(payoff) - 1)


def _complete(chain: np.ndarray, neighbours: int) -> np.ndarray:
    chain = chain / max(neighbours, 1)
    np.fill_diagonal(chain, 0.0)
    np.fill_diagonal(chain, 1.0 - chain.sum(axis=1))
    return chain


def _distribution(
    payoffs: np.ndarray,
    make_chain: Callable[[np.ndarray, Transition], np.ndarray],
    alpha: float | None,
    epsilon: float | None,
    population_size: int,
    tie: float | None,
) -> np.ndarray:
    either = alpha is None or epsilon is None
    expect(either, f"alpha-rank takes alpha or epsilon, or neither for the sweep: got {alpha} and {epsilon}")
    if alpha is not None:
        return stationary(make_chain(payoffs, fixation(alpha, population_size)))
    level = _TIE * np.abs(payoffs).max() if tie is None else tie
    if epsilon is not None:
        return stationary(make_chain(payoffs, perturbed(epsilon, level)))
    return _sweep(lambda eps: stationary(make_chain(payoffs, perturbed(eps, level))))


def _sweep(solve: Callable[[float], np.ndarray]) -> np.ndarray:
    """The limit of `solve(epsilon)` for epsilon 1/2, 1/4, ..., as far as the arithmetic goes."""
    previous: np.ndarray | None = None
    with contextlib.suppress(np.linalg.LinAlgError):
        for step in range(1, _MAX_STEPS + 1):
            if 0.5**step < _LEAST_EPS:
                break
            pi = solve(0.5**step)
            if step > _MIN_STEPS and previous is not None and np.allclose(pi, previous, rtol=1e-5, atol=1e-8):
                return pi
            previous = pi
    if previous is None:
        raise np.linalg.LinAlgError("alpha-rank found no stationary distribution even at epsilon 1/2")
    return previous


def alpha_rank(
    payoffs: np.ndarray,
    *,
    alpha: float | None = None,
    epsilon: float | None = None,
    population_size: int = 50,
    tie: float | None = None,
) -> np.ndarray:
    """Mass [k_0, ..., k_{n-1}] of every pure profile of payoffs [players, k_0, ..., k_{n-1}]: multi-population.

    alpha: a finite ranking intensity; epsilon: the infinite one at a fixed perturbation; neither: the eps-sweep.
    tie: differences up to this are none; by default 1e-6 of the largest payoff.
    """
    payoffs = np.asarray(payoffs, np.float64)
    chex.assert_rank(payoffs, payoffs.shape[0] + 1)
    return _distribution(payoffs, multi_population_chain, alpha, epsilon, population_size, tie).reshape(
        payoffs.shape[1:]
    )


def alpha_rank_single(
    payoff: np.ndarray,
    *,
    alpha: float | None = None,
    epsilon: float | None = None,
    population_size: int = 50,
    tie: float | None = None,
) -> np.ndarray:
    """Mass [k] of every strategy of the symmetric game `payoff` [k, k]: single-population. Arguments as above."""
    payoff = np.asarray(payoff, np.float64)
    chex.assert_rank(payoff, 2)
    return _distribution(payoff, single_population_chain, alpha, epsilon, population_size, tie)


def marginals(profiles: np.ndarray) -> list[np.ndarray]:
    """The masses [k_p] of every player's strategies, from those of the profiles [k_0, ..., k_{n-1}]."""
    axes = range(profiles.ndim)
    return [profiles.sum(axis=tuple(other for other in axes if other != player)) for player in axes]


@solve_on_host
def solve_alpha_rank(payoffs: np.ndarray) -> list[np.ndarray]:
    """Marginals of the multi-population alpha-Rank by the eps-sweep. They are not an equilibrium, and need not be."""
    return marginals(alpha_rank(payoffs))


@solve_on_host
def solve_alpha_rank_single(payoffs: np.ndarray) -> list[np.ndarray]:
    """Single-population alpha-Rank of a symmetric two-player game, the same mixture for both players."""
    if payoffs.shape[0] != 2 or payoffs.shape[1] != payoffs.shape[2]:
        raise ValueError(f"alpha_rank_single takes a symmetric two-player game: got payoffs of shape {payoffs.shape}")
    if not np.allclose(payoffs[1], payoffs[0].T, atol=_TIE * np.abs(payoffs).max()):
        raise ValueError(
            "alpha_rank_single takes a symmetric game, payoffs[1] = payoffs[0] transposed: got another; use alpha_rank"
        )
    return [alpha_rank_single(payoffs[0])] * 2
