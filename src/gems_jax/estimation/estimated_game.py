"""Estimates of the whole meta-game from reused returns: values of every anchor against *any* mixtures.

Other estimators give v-hat at one mixture. Reused returns give the values as a function of sigma, so that a
meta-strategy can be updated many times without a further episode. Values are scaled returns, averaged over the players
of a population.
"""

from __future__ import annotations

from typing import Protocol

import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.types import Array, Struct, static_field


class EstimatedGame(Protocol):
    """Values of anchors as functions of the mixtures."""

    def values(self, sigma: Array) -> Array:
        """Estimates the values v-hat [P, K] of every anchor against the others' mixtures sigma [P, K]."""
        ...

    def squared_errors(self, sigma: Array) -> Array:
        """Estimates the squared standard errors [P, K] of `values`."""
        ...


class PairGame(Struct):
    """A two-player meta-game given by estimated payoffs: rows are slots of player 0, columns slots of player 1.

    v-hat_i = sum_j sigma_j U_ij
    """

    payoffs: Array  # U [2, K, K], scaled returns of both players
    squares: Array  # [2, K, K], squared standard errors of the payoffs
    owners: tuple[int, ...] = static_field()  # population of each player

    def values(self, sigma: Array) -> Array:
        return self._by_population(self.payoffs, sigma)

    def squared_errors(self, sigma: Array) -> Array:
        errors = self._by_population(self.squares, sigma**2)
        return errors / self.owners.count(0) if max(self.owners) == 0 else errors

    def _by_population(self, entries: Array, weights: Array) -> Array:
        """[P, K], entries of every slot summed over the other player's slots with weights [P, K]."""
        first, second = (weights[owner] for owner in self.owners)
        each = (entries[0] @ second, first @ entries[1])
        return average_players(jnp.stack(each), self.owners)


class JointGame(Struct):
    """An n-player meta-game given by weighted joint episodes.

        v_k(sigma) = sum_b w_b(k) R_b / sum_b w_b(k),   w_b(k) = c_b ratio_p(b, k) prod_{q != p} ratio_q(b, .) . sigma_q

    ratio_p(b, k) is the likelihood of the decisions of player p in episode b under anchor k, divided by that under the
    mixture that was drawn from; c_b is the weight of the episode. The sum of the weights in the denominator makes the
    estimator self-normalized: consistent, with a bias of the order of one over the number of episodes.
    """

    ratios: Array  # [players, B, K]
    returns: Array  # [players, B], scaled
    weights: Array  # [B], c
    owners: tuple[int, ...] = static_field()  # population of each player
    constant_sum: float | None = static_field(default=None)  # sum of the two players' scaled returns, if it is constant

    def values(self, sigma: Array) -> Array:
        return average_players(jnp.stack([mean for mean, _ in self._moments(sigma)]), self.owners)

    def squared_errors(self, sigma: Array) -> Array:
        found = average_players(jnp.stack([square for _, square in self._moments(sigma)]), self.owners)
        return found / jnp.asarray([self.owners.count(p) for p in range(max(self.owners) + 1)])[:, None]

    def _moments(self, sigma: Array) -> list[tuple[Array, Array]]:
        """Mean and squared standard error [K] of every player's weighted returns."""
        drawn = [ratio @ sigma[owner] for ratio, owner in zip(self.ratios, self.owners, strict=True)]  # [B] each
        found = []
        for player, (ratio, returns) in enumerate(zip(self.ratios, self.returns, strict=True)):
            others = self.weights
            for other, one in enumerate(drawn):
                others = others * one if other != player else others
            total, weighted = jnp.stack([others, others * returns]) @ ratio  # [K] each
            known = total > 0.0
            safe = jnp.where(known, total, 1.0)
            mean = jnp.where(known, weighted / safe, jnp.mean(returns))
            # sum_b w_b^2 (R_b - mean)^2, expanded to one product for each power of the mean
            powers = others[None] ** 2 * jnp.stack([returns**2, returns, jnp.ones_like(returns)])
            both, one, none = powers @ ratio**2
            spread = both - 2.0 * mean * one + mean**2 * none
            found.append((mean, jnp.where(known, jnp.maximum(spread, 0.0) / safe**2, jnp.inf)))
        return found

    def to_pairs(self, prior_count: ArrayLike) -> PairGame:
        """Estimates the payoffs of all pairs of a two-player game, each from all episodes.

            U_ij = sum_b w_b(ij) R_b / sum_b w_b(ij),   w_b(ij) = c_b ratio_0(b, i) ratio_1(b, j)

        Each entry is shrunk to the additive prior with its effective sample size, (sum_b w_b)^2 / sum_b w_b^2.

        Args:
          prior_count: c0, weight of the additive prior in episodes.

        Returns:
          The meta-game by pairs, with the delta method's standard errors.
        """
        known = self.returns[:1] if self.constant_sum is not None else self.returns  # [1 or 2, B]
        weighted = self.weights[None] * jnp.concatenate([jnp.ones_like(known[:1]), known])
        total, *sums = _products(self.ratios, weighted)
        powers = self.weights[None] ** 2 * jnp.concatenate([jnp.ones_like(known[:1]), known, known**2])
        squares, *moments = _products(self.ratios**2, powers)
        size = jnp.where(squares > 0.0, total**2 / jnp.where(squares > 0.0, squares, 1.0), 0.0)
        safe = jnp.where(total > 0.0, total, 1.0)

        def estimate(weighted: Array, one: Array, both: Array) -> tuple[Array, Array]:
            mean = weighted / safe
            spread = both - 2.0 * mean * one + mean**2 * squares
            shrunk = (size / (size + prior_count)) ** 2
            return shrink_to_additive(size * mean, size, prior_count), shrunk * jnp.maximum(spread, 0.0) / safe**2

        found = [estimate(*each) for each in zip(sums, moments[: len(sums)], moments[len(sums) :], strict=True)]
        payoffs, errors = (jnp.stack(part) for part in zip(*found, strict=True))
        if self.constant_sum is not None:
            payoffs = jnp.concatenate([payoffs, self.constant_sum - payoffs])
            errors = jnp.concatenate([errors, errors])
        return PairGame(payoffs, errors, self.owners)


def _products(ratios: Array, weights: Array) -> Array:
    """sum_b ratios[0, b, i] weights[n, b] ratios[1, b, j], [n, K, K], by one matrix product."""
    first, second = ratios
    scaled = jnp.concatenate([first * one[:, None] for one in weights], axis=1)  # [B, n K]
    return (scaled.T @ second).reshape(len(weights), first.shape[1], second.shape[1])


def shrink_to_additive(sums: Array, counts: Array, prior_count: ArrayLike) -> Array:
    """Shrinks the means of a table towards an additive prior.

        U_ij = (R_ij + c0 prior_ij) / (N_ij + c0),   prior_ij = row mean_i + column mean_j - mean

    The row and column means are themselves shrunk towards the mean of all episodes with the weight of c0 episodes.

    Args:
      sums: R, sums of returns, [K, K].
      counts: N, numbers of returns, not necessarily integers, [K, K].
      prior_count: c0 > 0.

    Returns:
      Payoffs U, [K, K].
    """
    mean = sums.sum() / jnp.maximum(counts.sum(), 1e-6)
    row, column = (
        (sums.sum(axis=axis) + prior_count * mean) / (counts.sum(axis=axis) + prior_count) for axis in (1, 0)
    )
    prior = row[:, None] + column[None, :] - mean
    return (sums + prior_count * prior) / (counts + prior_count)


def average_players(each: Array, owners: tuple[int, ...]) -> Array:
    """Averages rows [players, K] over the players of each population to [P, K]; owners: population of each player."""
    rows = [[each[player] for player, owner in enumerate(owners) if owner == p] for p in range(max(owners) + 1)]
    return jnp.stack([jnp.mean(jnp.stack(row), axis=0) for row in rows])
