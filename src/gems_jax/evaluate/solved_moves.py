"""How often play keeps the value of solved positions of Connect Four: a yardstick that needs no opponent."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.evaluate.greedy import GreedyPlay
from gems_jax.evaluate.head_to_head import half_interval
from gems_jax.opponents.profiles import fixed_profile
from gems_jax.opponents.solved import solved_positions
from gems_jax.policies.population import materialize
from gems_jax.rollout.views import take_population
from gems_jax.types import Apply, Array, Game, Mixture, Policy, Profile, PyTree, expect, profile_of


class SolvedMoves(NamedTuple):
    """Fractions of moves that keep the value of a position, [] each."""

    sampled: Array  # mean probability of such a move
    sampled_interval: Array  # half of the 95 % interval of the mean over positions
    greedy: Array  # of the most probable move, ties uniformly
    greedy_interval: Array


def solved_move_rate(game: Game, policy: Policy | Mixture) -> SolvedMoves:
    """Measures how often a policy or mixture keeps the value of a solved position.

    A move keeps the value if it wins where the player can win, and does not lose where the player can draw. The
    positions are those of `opponents.solved`; in every one of them some move fails. A mixture plays each position with
    every policy, weighted by sigma, whatever policy would have reached it.

    >>> from gems_jax import make_game
    >>> from gems_jax.evaluate.solved_moves import solved_move_rate
    >>> from gems_jax.opponents.uniform import random_policy
    >>> game = make_game("connect_four")
    >>> found = solved_move_rate(game, random_policy(game))
    >>> bool(found.sampled == found.greedy)
    True

    Args:
      game: Connect Four on 6 rows of 7.
      policy: a policy without parameters, a `Profile`, or what `gems_jax.load` returns.

    Returns:
      Fractions for sampled and for greedy play.

    Raises:
      ValueError: for another game.
    """
    expect(has_solved_positions(game), f"solved_move_rate: expected connect_four on 6 rows of 7, got {game.name}.")
    profile = fixed_profile(game, policy) if isinstance(policy, Policy) else profile_of(game, policy)
    positions = tuple(_positions_of(seat) for seat in range(2))
    sampled, greedy = _keep_values(game, profile, positions)
    return SolvedMoves(sampled.mean(), half_interval(sampled), greedy.mean(), half_interval(greedy))


def has_solved_positions(game: Game) -> bool:
    """Returns whether there are solved positions of a game."""
    return game.name == "connect_four"


def _positions_of(seat: int) -> PyTree:
    """Returns observations, legal moves and moves that keep the value, [n, ...], of the positions of one seat."""
    solved = solved_positions()
    here = solved.seat == seat
    return solved.observation[here], solved.legal[here], solved.keeps[here]


@jax.jit(static_argnames="game")
def _keep_values(game: Game, profile: Profile, positions: PyTree) -> tuple[Array, Array]:
    """Computes the probabilities of keeping the value, [N] of all positions, for sampled and greedy play."""
    slots = profile.sigma.shape[1]
    stacked, totals = materialize(profile.population, slots), []
    for seat, data in enumerate(positions):  # arguments: XLA would fold constants for seconds
        own = take_population(stacked, game.population_of_player[seat])
        sigma = profile.sigma[game.population_of_player[seat]]

        def add(slot: Array, total: Array, own: PyTree = own, sigma: Array = sigma, data: PyTree = data) -> Array:
            return total + sigma[slot] * _keep(own.apply, own.select(slot), *data)

        totals.append(jax.lax.fori_loop(0, slots, add, jnp.zeros((2, len(data[0])))))
    sampled, greedy = jnp.concatenate(totals, axis=1)
    return sampled, greedy


def _keep(apply: Apply, params: PyTree, observation: Array, legal: Array, keeps: Array) -> Array:
    """Computes the probability that one policy keeps the value, [2, n], sampled and greedy."""

    def chance(play: Apply, seen: Array, allowed: Array, kept: Array) -> Array:
        logits = play(params, seen, allowed).logits
        assert logits is not None
        return jnp.sum(jnp.where(kept, jax.nn.softmax(logits), 0.0))

    plays = (apply, GreedyPlay(apply))
    return jnp.stack([jax.vmap(partial(chance, play))(observation, legal, keeps) for play in plays])
