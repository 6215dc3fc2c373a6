"""The meta-game as reused returns estimate it: values of every anchor against *any* mixtures, at no further episode.

Estimators of one mixture give v-hat at that mixture. Reused returns give more, the values as a function of sigma, so a
meta-strategy can be updated as often as it takes. Values are scaled returns; players that share a population count by
their mean.
"""

from __future__ import annotations

from typing import Protocol

import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.types import Array, Struct, static_field


class EstimatedGame(Protocol):
    """Values of anchors as functions of the mixtures."""

    def values(self, sigma: Array) -> Array:
        """Estimates v [P, K] of every anchor against the others' mixtures sigma [P, K]."""
        ...

    def squared_errors(self, sigma: Array) -> Array:
        """Estimates the variance [P, K] of the error of `values`: its root is a standard error."""
        ...


class PairGame(Struct):
    """A two-player meta-game by its estimated payoffs: rows are slots of player 0, columns slots of player 1."""

    payoffs: Array  # [2, K, K], scaled returns of both players
    squares: Array  # [2, K, K], squared standard errors of the payoffs
    owners: tuple[int, ...] = static_field()  # population of each player

    def values(self, sigma: Array) -> Array:
        return self._by_population(self.payoffs, sigma)

    def squared_errors(self, sigma: Array) -> Array:
        errors = self._by_population(self.squares, sigma**2)
        return errors / self.owners.count(0) if max(self.owners) == 0 else errors

    def _by_population(self, entries: Array, weights: Array) -> Array:
        """[P, K]: entries of every slot summed over the other player's with weights [P, K]."""
        first, second = (weights[owner] for owner in self.owners)
        each = (entries[0] @ second, first @ entries[1])
        return average_players(jnp.stack(each), self.owners)


class JointGame(Struct):
    """An n-player meta-game by weighted joint episodes.

        v_k(sigma) = sum_b w_b(k) R_b / sum_b w_b(k),   w_b(k) = c_b ratio_p(b, k) prod_{q != p} ratio_q(b, .) . sigma_q

    ratio_p(b, k) is how much more likely the decisions of player p in episode b are under anchor k than under the
    mixture that was drawn from, and c_b the weight of the episode. The sum of the weights in the denominator makes the
    estimator self-normalized: consistent, with a bias of the order of one over the number of episodes.
    """

    ratios: Array  # [players, B, K]
    returns: Array  # [players, B], scaled
    weights: Array  # [B]
    owners: tuple[int, ...] = static_field()

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
            total = others @ ratio  # [K]
            known = total > 0.0
            safe = jnp.where(known, total, 1.0)
            mean = jnp.where(known, (others * returns) @ ratio / safe, jnp.mean(returns))
            # sum w^2 (R - mean)^2, expanded: one product for each power of the mean
            first, second = (others * returns) ** 2, others**2
            squares = ratio**2
            spread = first @ squares - 2.0 * mean * ((second * returns) @ squares) + mean**2 * (second @ squares)
            found.append((mean, jnp.where(known, jnp.maximum(spread, 0.0) / safe**2, jnp.inf)))
        return found

    def to_pairs(self, prior_count: ArrayLike) -> PairGame:
        """Computes the payoffs of all pairs of a two-player game, each from all episodes.

            U_ij = sum_b w_b(ij) R_b / sum_b w_b(ij),   w_b(ij) = c_b ratio_0(b, i) ratio_1(b, j)

        An entry counts for (sum w)^2 / sum w^2 episodes, its effective sample size, when it is shrunk.

        Args:
          prior_count: c0, the number of episodes that the additive prior counts for.

        Returns:
          The meta-game by pairs, with the delta method's standard errors.
        """
        first, second = self.ratios
        total = _product(first, self.weights, second)
        squares = _product(first**2, self.weights**2, second**2)
        size = jnp.where(squares > 0.0, total**2 / jnp.where(squares > 0.0, squares, 1.0), 0.0)
        safe = jnp.where(total > 0.0, total, 1.0)

        def estimate(returns: Array) -> tuple[Array, Array]:
            mean = _product(first, self.weights * returns, second) / safe
            weighted, both = self.weights**2 * returns, self.weights**2 * returns**2
            spread = _product(first**2, both, second**2) - 2.0 * mean * _product(first**2, weighted, second**2)
            error = jnp.maximum(spread + mean**2 * squares, 0.0) / safe**2
            shrunk = (size / (size + prior_count)) ** 2
            return shrink_to_additive(size * mean, size, prior_count), shrunk * error

        found = [estimate(returns) for returns in self.returns]
        payoffs, errors = (jnp.stack(part) for part in zip(*found, strict=True))
        return PairGame(payoffs, errors, self.owners)


def _product(first: Array, weights: Array, second: Array) -> Array:
    """sum_b first[b, i] weights[b] second[b, j], [K, K]."""
    return (first * weights[:, None]).T @ second


def shrink_to_additive(sums: Array, counts: Array, prior_count: ArrayLike) -> Array:
    """Shrinks means towards an additive prior: (sums + c0 prior) / (counts + c0).

    The prior of a pair is row mean + column mean - mean, each over the episodes there are, shrunk itself towards the
    mean of all with the weight of c0 episodes.

    Args:
      sums: [K, K], sums of returns.
      counts: [K, K], their numbers, not necessarily integers.
      prior_count: c0 > 0.

    Returns:
      Payoffs [K, K].
    """
    mean = sums.sum() / jnp.maximum(counts.sum(), 1e-6)
    row, column = (
        (sums.sum(axis=axis) + prior_count * mean) / (counts.sum(axis=axis) + prior_count) for axis in (1, 0)
    )
    prior = row[:, None] + column[None, :] - mean
    return (sums + prior_count * prior) / (counts + prior_count)


def average_players(each: Array, owners: tuple[int, ...]) -> Array:
    """Averages over the players that share a population: [players, K] -> [P, K]."""
    rows = [[each[player] for player, owner in enumerate(owners) if owner == p] for p in range(max(owners) + 1)]
    return jnp.stack([jnp.mean(jnp.stack(row), axis=0) for row in rows])
