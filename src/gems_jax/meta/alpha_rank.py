"""alpha-Rank: the stationary distribution of an evolutionary chain over pure profiles, on the host in float64.

In the *multi-population* chain (Omidshafiei et al. 2019, Muller et al. 2020) the states are the pure profiles. From a
profile s one player p at a time may switch to another strategy, which gives r. With Delta = u_p(r) - u_p(s),

    C[s, r] = eta rho(Delta),   eta = 1 / sum_p (k_p - 1),   C[s, s] = 1 - sum_r C[s, r]

    finite alpha:     rho = (1 - e^{-alpha Delta}) / (1 - e^{-m alpha Delta}),  1 / m at Delta = 0
    infinite alpha:   rho = 1 - eps, 1/2, eps for Delta above, at, below 0

The *eps-sweep* halves eps until the distribution no longer changes: the limit of a high ranking intensity. The
*single-population* chain of a symmetric game has the strategies as states and Delta = u(r, s) - u(s, r).

Every eps takes the solution of a linear system of prod_p k_p unknowns: 1,681 at 41 strategies for each of two players,
which limits this solver. The single-population chain has 41 unknowns.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import chex
import numpy as np

from gems_jax.meta.host import solve_on_host
from gems_jax.types import expect

Transition = Callable[[np.ndarray], np.ndarray]  # Delta -> rho, entry by entry
_TIE = 1e-6  # Delta below this fraction of the largest payoff is a tie: payoffs come in float32
_MIN_STEPS, _MAX_STEPS, _LEAST_EPS = 10, 100, 1e-14  # of the sweep


def fixation_probability(alpha: float, population_size: int = 50) -> Transition:
    """Makes rho of a finite ranking intensity: the probability that one mutant takes over a population.

        rho(Delta) = (1 - e^{-alpha Delta}) / (1 - e^{-m alpha Delta}),   1 / m at Delta = 0

    Args:
      alpha: ranking intensity.
      population_size: m.

    Returns:
      rho, a function of Delta of any shape.
    """

    def rho(delta: np.ndarray) -> np.ndarray:
        z = alpha * delta
        size = np.where(np.abs(z) < 1e-14, 1.0, np.abs(z))  # exponents never positive: nothing overflows
        up = np.expm1(-size) / np.expm1(-population_size * size)
        down = np.exp(-(population_size - 1) * size) * up
        return np.where(np.abs(z) < 1e-14, 1.0 / population_size, np.where(z > 0, up, down))

    return rho


def perturbed_transition(epsilon: float, tie: float = 0.0) -> Transition:
    """Makes rho of an infinite ranking intensity, with probability epsilon of a switch to a worse strategy.

    Args:
      epsilon: probability of a worse strategy; a better one has 1 - epsilon, an equal one 1/2.
      tie: largest |Delta| of two equal strategies.

    Returns:
      rho, a function of Delta of any shape.
    """
    return lambda delta: np.where(delta > tie, 1.0 - epsilon, np.where(delta < -tie, epsilon, 0.5))


def stationary_distribution(chain: np.ndarray) -> np.ndarray:
    """Computes the stationary distribution pi = pi C of a chain.

    Args:
      chain: transition matrix C, [S, S] float64.

    Returns:
      pi, [S] float64.

    Raises:
      LinAlgError: if pi is not unique up to rounding.
    """
    system = chain.T - np.eye(len(chain))
    system[0] = 1.0
    pi = np.linalg.solve(system, np.eye(len(chain))[0])
    if not np.isfinite(pi).all() or pi.min() < -1e-6:
        raise np.linalg.LinAlgError(
            "stationary_distribution: expected one recurrent class, got several up to rounding."
        )
    return np.maximum(pi, 0.0) / np.maximum(pi, 0.0).sum()


def multi_population_chain(payoffs: np.ndarray, rho: Transition) -> np.ndarray:
    """Builds the transition matrix over pure profiles: one player at a time switches its strategy.

    Args:
      payoffs: [players, k_0, ..., k_{n-1}].
      rho: probability of a switch with gain Delta.

    Returns:
      C [S, S] with S = prod_p k_p, profiles in the order of `ravel`.
    """
    counts = payoffs.shape[1:]
    profiles = np.arange(np.prod(counts)).reshape(counts)
    chain = np.zeros((profiles.size, profiles.size))
    for player in range(len(counts)):
        value, index = (np.moveaxis(each, player, -1) for each in (payoffs[player], profiles))
        chain[index[..., :, None], index[..., None, :]] = rho(value[..., None, :] - value[..., :, None])
    return _complete_chain(chain, sum(count - 1 for count in counts))


def single_population_chain(payoff: np.ndarray, rho: Transition) -> np.ndarray:
    """Builds the transition matrix over the strategies of a symmetric game.

    Args:
      payoff: [k, k]; strategy i earns payoff[i, j] against j.
      rho: probability of a switch with gain Delta.

    Returns:
      C [k, k].
    """
    return _complete_chain(rho(payoff.T - payoff), len(payoff) - 1)


def _complete_chain(chain: np.ndarray, num_neighbors: int) -> np.ndarray:
    chain = chain / max(num_neighbors, 1)
    np.fill_diagonal(chain, 0.0)
    np.fill_diagonal(chain, 1.0 - chain.sum(axis=1))
    return chain


def _rank_states(
    payoffs: np.ndarray,
    make_chain: Callable[[np.ndarray, Transition], np.ndarray],
    alpha: float | None,
    epsilon: float | None,
    population_size: int,
    tie: float | None,
) -> np.ndarray:
    either = alpha is None or epsilon is None
    expect(either, f"alpha_rank: expected alpha or epsilon or neither (the eps-sweep), got {alpha} and {epsilon}.")
    if alpha is not None:
        return stationary_distribution(make_chain(payoffs, fixation_probability(alpha, population_size)))
    level = _TIE * np.abs(payoffs).max() if tie is None else tie
    if epsilon is not None:
        return stationary_distribution(make_chain(payoffs, perturbed_transition(epsilon, level)))
    return _sweep_epsilon(lambda eps: stationary_distribution(make_chain(payoffs, perturbed_transition(eps, level))))


def _sweep_epsilon(solve: Callable[[float], np.ndarray]) -> np.ndarray:
    """The limit of `solve(epsilon)` for epsilon 1/2, 1/4, ..., down to the precision of float64."""
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
        raise np.linalg.LinAlgError("alpha_rank: the chain has no unique stationary distribution even at epsilon 1/2.")
    return previous


def alpha_rank(
    payoffs: np.ndarray,
    *,
    alpha: float | None = None,
    epsilon: float | None = None,
    population_size: int = 50,
    tie: float | None = None,
) -> np.ndarray:
    """Computes the multi-population alpha-Rank of every pure profile.

    Args:
      payoffs: [players, k_0, ..., k_{n-1}].
      alpha: finite ranking intensity. By default the intensity is infinite.
      epsilon: fixed perturbation of the infinite intensity. By default the eps-sweep.
      population_size: m of the finite intensity.
      tie: payoffs that differ by at most this are equal; by default 1e-6 of the largest payoff.

    Returns:
      Masses of the profiles, [k_0, ..., k_{n-1}] float64.

    Raises:
      ValueError: if both alpha and epsilon are given.
    """
    payoffs = np.asarray(payoffs, np.float64)
    chex.assert_rank(payoffs, payoffs.shape[0] + 1)
    return _rank_states(payoffs, multi_population_chain, alpha, epsilon, population_size, tie).reshape(
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
    """Computes the single-population alpha-Rank of every strategy of a symmetric game.

    Args:
      payoff: [k, k]; strategy i earns payoff[i, j] against j.
      alpha: see `alpha_rank`.
      epsilon: see `alpha_rank`.
      population_size: see `alpha_rank`.
      tie: see `alpha_rank`.

    Returns:
      Masses of the strategies, [k] float64.
    """
    payoff = np.asarray(payoff, np.float64)
    chex.assert_rank(payoff, 2)
    return _rank_states(payoff, single_population_chain, alpha, epsilon, population_size, tie)


def profile_marginals(profiles: np.ndarray) -> list[np.ndarray]:
    """Sums masses of profiles [k_0, ..., k_{n-1}] to the masses [k_p] of every player's strategies."""
    axes = range(profiles.ndim)
    return [profiles.sum(axis=tuple(other for other in axes if other != player)) for player in axes]


@solve_on_host
def solve_alpha_rank(payoffs: np.ndarray) -> list[np.ndarray]:
    """Computes the marginals of the multi-population alpha-Rank by the eps-sweep; they need not be an equilibrium."""
    return profile_marginals(alpha_rank(payoffs))


@solve_on_host
def solve_alpha_rank_single(payoffs: np.ndarray) -> list[np.ndarray]:
    """Computes the single-population alpha-Rank of a symmetric two-player game: one mixture for both players."""
    if payoffs.shape[0] != 2 or payoffs.shape[1] != payoffs.shape[2]:
        raise ValueError(
            f"alpha_rank_single: expected a symmetric two-player game, got payoffs of shape {payoffs.shape}. "
            "Use alpha_rank."
        )
    if not np.allclose(payoffs[1], payoffs[0].T, atol=_TIE * np.abs(payoffs).max()):
        raise ValueError(
            "alpha_rank_single: expected a symmetric game (payoffs[1] = payoffs[0] transposed), got an asymmetric one. "
            "Use alpha_rank."
        )
    return [alpha_rank_single(payoffs[0])] * 2
