"""A table of returns per pair of anchors, retained over the iterations of a two-player game.

    R_ij = sum of the returns of anchor i against anchor j,   N_ij = number of episodes behind it
    U_ij = (R_ij + c0 prior_ij) / (N_ij + c0),   prior_ij = row mean + column mean - mean

Training makes the returns of an anchor stale: its sums and counts are multiplied by exp(-c KL), where KL is the
measured divergence of the policy from the policy before training. A slot that a new anchor takes is cleared. The table
always has K x K entries.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.estimation.estimated_game import PairGame, shrink_to_additive
from gems_jax.estimation.monte_carlo import player_return, to_unit
from gems_jax.meta import simplex
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.groups import play_joint
from gems_jax.types import Array, Game, PyTree, Struct, expect, num_players


class PairTable(Struct):
    """Discounted sums over the episodes of every pair: rows are slots of player 0, columns slots of player 1."""

    counts: Array  # [K, K], N
    sums: Array  # [2, K, K], R of both players, scaled returns
    squares: Array  # [2, K, K], sums of squared returns


def empty_table(game: Game, slots: int) -> PairTable:
    """Makes an empty table of K x K pairs.

    Args:
      game: a two-player game.
      slots: K.

    Returns:
      The table.

    Raises:
      ValueError: if the game does not have two players.
    """
    expect(
        num_players(game) == 2,
        f"estimator='pairs': expected a game with 2 players, got {game.name!r} with {num_players(game)}. "
        "Use estimator='trajectories'.",
    )
    return PairTable(jnp.zeros((slots, slots)), jnp.zeros((2, slots, slots)), jnp.zeros((2, slots, slots)))


def draw_pairs(key: Array, log_proposal: Array, counts: Array, num_draws: int) -> Array:
    """Draws pairs with probability proportional to q(i) q(j) / sqrt(1 + N_ij), by systematic sampling.

    Args:
      key: typed PRNG key; consumed.
      log_proposal: logarithms of the players' mixtures q, [2, K].
      counts: N, [K, K].
      num_draws: number of pairs.

    Returns:
      Slots [num_draws, 2] int32.
    """
    weights = log_proposal[0][:, None] + log_proposal[1][None, :] - 0.5 * jnp.log1p(counts)
    drawn = simplex.stratify_slots(key, jax.nn.log_softmax(weights.reshape(-1)), num_draws)
    return jnp.stack(jnp.divmod(drawn, counts.shape[1]), axis=-1)


def play_pairs(
    play: Callable[..., PyTree],
    key: Array,
    game: Game,
    policies: StackedPolicies,
    table: PairTable,
    log_proposal: Array,
    *,
    samples: int,
    episodes: int,
) -> tuple[PairTable, Array]:
    """Plays pairs drawn by `draw_pairs`, and adds their returns to the table.

    Args:
      play: plays one episode: `play_episode` or a function with a control variate.
      key: typed PRNG key; consumed.
      game: a two-player game.
      policies: the policies of all anchors, [P, K, ...].
      table: stored returns.
      log_proposal: logarithms of the mixtures that pairs are drawn from, [P, K].
      samples: number of pairs.
      episodes: episodes per pair.

    Returns:
      The table with the new returns, and the environment steps [] played.
    """
    key_draw, key_play = jax.random.split(key)
    owners = jnp.asarray(game.population_of_player)
    drawn = draw_pairs(key_draw, log_proposal[owners], table.counts, samples)
    outcome = play_joint(play, key_play, game, policies, drawn, episodes)
    returns = jnp.stack([player_return(game, player, outcome.returns) for player in range(2)])  # [2, samples, M]
    return add_returns(table, drawn, to_unit(game, returns)), outcome.length.sum()


def add_returns(table: PairTable, drawn: Array, returns: Array) -> PairTable:
    """Adds returns to the table.

    Args:
      table: stored returns.
      drawn: slots of the pairs, [samples, 2] int32.
      returns: scaled returns of both players, [2, samples, M].

    Returns:
      The table with the new returns.
    """
    slots = table.counts.shape[1]
    cell = drawn[:, 0] * slots + drawn[:, 1]
    ones = jnp.full((1, *returns.shape[1:]), 1.0)
    rows = jnp.concatenate([ones, returns, returns**2]).sum(axis=2)  # [5, samples]
    counts, *moments = jax.ops.segment_sum(rows.T, cell, slots * slots).T.reshape(5, slots, slots)
    sums, squares = jnp.stack(moments[:2]), jnp.stack(moments[2:])
    return PairTable(table.counts + counts, table.sums + sums, table.squares + squares)


def discount_table(table: PairTable, owners: tuple[int, ...], factors: Array) -> PairTable:
    """Multiplies the sums and counts of every pair by the factors of its two anchors.

    Args:
      table: stored returns.
      owners: population of each player.
      factors: factor of every anchor, [P, K]; 0 clears its returns.

    Returns:
      The discounted table.
    """
    first, second = (factors[owner] for owner in owners)
    each = first[:, None] * second[None, :]
    return PairTable(table.counts * each, table.sums * each[None], table.squares * each[None])


def staleness_factors(divergence: Array, replaced: Array, rate: ArrayLike, discount: ArrayLike) -> Array:
    """Computes the factors discount * exp(-rate KL) of anchors after training.

    Args:
      divergence: measured KL of every anchor from its policy before training, [P, K].
      replaced: slots that a new anchor took, [P, K] bool.
      rate: c.
      discount: factor of an iteration without drift.

    Returns:
      Factors [P, K], 0 for replaced slots.
    """
    factor = discount * jnp.exp(-jnp.asarray(rate) * jnp.maximum(divergence, 0.0))
    return jnp.where(replaced, 0.0, factor)


def estimate_pairs(table: PairTable, owners: tuple[int, ...], prior_count: ArrayLike) -> PairGame:
    """Estimates the payoffs of all pairs by their shrunk means over the episodes of all iterations.

        U_ij = (R_ij + c0 prior_ij) / (N_ij + c0),   v-hat_i = sum_j sigma_j U_ij

    The sum over sigma replaces the drawn opponents of eq:mc-estimators_revised. The variance of a return is pooled over
    all pairs, because an entry may have only one episode, or none.

    Args:
      table: stored returns.
      owners: population of each player.
      prior_count: c0, weight of the prior in episodes.

    Returns:
      The meta-game by pairs, with standard errors.
    """
    total = jnp.maximum(table.counts.sum(), 1.0)
    means = table.sums / jnp.where(table.counts > 0.0, table.counts, 1.0)[None]
    spread = jnp.sum(table.squares - table.counts[None] * means**2, axis=(1, 2)) / total  # [2], variance within pairs
    payoffs = jax.vmap(lambda sums: shrink_to_additive(sums, table.counts, prior_count))(table.sums)
    shrunk = table.counts / (table.counts + prior_count) ** 2
    errors = jnp.maximum(spread, 0.0)[:, None, None] * shrunk[None]
    return PairGame(payoffs, errors, owners)
