"""The table of pairs (`estimation/replay.py`) with returns that a control variate corrects.

A history critic predicts the value of a position from the codes of the two anchors. The corrected return has the same
expectation and less variance (`estimation/control_variates.py`). The critic is trained on the episodes after they were
counted, so that no return is corrected by a critic that was trained on it.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gems_jax.estimation.control_variates import make_recorded_play
from gems_jax.estimation.history_critic import CriticState, HistoryCritic, make_history_critic
from gems_jax.estimation.monte_carlo import player_return, to_unit
from gems_jax.estimation.replay import PairTable, add_returns, draw_pairs, empty_table
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.groups import play_joint
from gems_jax.types import Array, Game, Struct, num_players

_STEPS, _BATCH = 64, 512  # gradient steps of the critic per round of play, and positions per step


class ControlledTable(Struct):
    """A table of corrected returns and the critic that corrects them."""

    table: PairTable
    critic: CriticState


def pair_critic(game: Game, latent_dim: int) -> HistoryCritic:
    """Builds the critic of positions and the codes [players, D] of all players; static, equal for equal arguments."""
    return make_history_critic(game, num_players(game) * latent_dim)


def empty_controlled_table(key: Array, game: Game, slots: int, latent_dim: int) -> ControlledTable:
    """Makes an empty table and an untrained critic.

    Args:
      key: typed PRNG key; consumed.
      game: a two-player game.
      slots: K, anchors per population.
      latent_dim: D, size of a latent code.

    Returns:
      The table and the critic.

    Raises:
      ValueError: if the game does not have two players.
    """
    return ControlledTable(empty_table(game, slots), pair_critic(game, latent_dim).init(key))


def play_controlled_pairs(
    key: Array,
    game: Game,
    policies: StackedPolicies,
    codes: Array,
    held: ControlledTable,
    log_proposal: Array,
    *,
    samples: int,
    episodes: int,
) -> tuple[ControlledTable, Array]:
    """Plays pairs drawn by `draw_pairs`, adds their corrected returns to the table, and trains the critic.

    Args:
      key: typed PRNG key; consumed.
      game: a two-player game in JAX with discrete actions.
      policies: the policies of all anchors, [P, K, ...].
      codes: their latent codes, [P, K, D].
      held: stored returns, and the critic.
      log_proposal: logarithms of the mixtures that pairs are drawn from, [P, K].
      samples: number of pairs.
      episodes: episodes per pair.

    Returns:
      The table with the new returns and the trained critic, and the environment steps [] played.
    """
    key_draw, key_play, key_train = jax.random.split(key, 3)
    owners = jnp.asarray(game.population_of_player)
    critic = pair_critic(game, codes.shape[2])
    drawn = draw_pairs(key_draw, log_proposal[owners], held.table.counts, samples)
    context = codes[owners[None, :], drawn]  # [samples, 2, D]
    contexts = jnp.broadcast_to(context[:, None], (samples, episodes, *context.shape[1:]))
    play = make_recorded_play(critic, held.critic.params)
    outcome = play_joint(play, key_play, game, policies, drawn, episodes, (contexts,))
    returns = jnp.stack([player_return(game, player, outcome.returns) for player in range(2)])
    targets = jax.tree.map(lambda leaf: leaf.reshape(samples * episodes, *leaf.shape[2:]), outcome.targets)
    flat = contexts.reshape(samples * episodes, -1)
    trained, _ = critic.train(held.critic, key_train, targets, flat, steps=_STEPS, batch=_BATCH)
    table = add_returns(held.table, drawn, to_unit(game, returns))
    return ControlledTable(table, trained), outcome.length.sum()
