"""Many episodes at once: policies against drawn opponents, and joint draws of all players.

Episodes are laid out as (policy, opponent, episode), so that the weights of each policy meet all its episodes in one
matrix product.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

from gems_jax.accelerator.sharding import laid_out, spread
from gems_jax.host.stages import on_host
from gems_jax.policies.networks import IndexedNetwork
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.episode import Policies
from gems_jax.rollout.tabular import play_indexed
from gems_jax.rollout.views import take_population
from gems_jax.types import Array, Game, Policy, PyTree, num_players, num_populations, num_slots, slot_axes


def play_groups(
    play: Callable[..., PyTree],
    key: Array,
    game: Game,
    policies: StackedPolicies,
    opponents: StackedPolicies,
    indices: Array,
    episodes: int,
    common: bool = False,
    lanes: tuple[PyTree, ...] = (),
    wanted: Array | None = None,
) -> PyTree:
    """Plays C policies of player 0, each against N draws of the other players, M times.

    Args:
      play: play(key, game, policies, *lanes), which plays one episode or a part of one.
      key: typed PRNG key; consumed.
      game: the game, from the position of player 0.
      policies: the policies of player 0, [C, ...] as `stack_policies` makes them.
      opponents: materialized populations, [P, K, ...].
      indices: slots of the opponents, [C, N, players], whose column 0 is ignored; with `common` [N, players].
      episodes: M.
      common: whether all C policies face the same opponents with the same deals and the same sampling noise (common
        random numbers).
      lanes: further arguments of `play`, leaves [C, N, M, ...].
      wanted: [C] bool, False where nobody reads the episodes: games that Python plays do not play them.

    Returns:
      What `play` returns, leaves [C, N, M, ...].
    """
    chex.assert_rank(indices, 2 if common else 3)
    keys = jax.random.split(key, (*indices.shape[:-1], episodes))
    apply = policies.apply
    if isinstance(apply, IndexedNetwork) and opponents.apply == apply and not on_host(game) and not laid_out():
        shape = (num_slots(policies.params), *indices.shape[-2:-1], episodes)
        indices = jnp.broadcast_to(indices, (*shape[:2], indices.shape[-1]))
        return play_indexed(play, jnp.broadcast_to(keys, shape), game, policies, opponents, indices, lanes)
    populations = [take_population(opponents, p) for p in range(num_populations(game))]

    def against(game: Game, own: PyTree, index: Array, keys: Array, lanes: tuple[PyTree, ...]) -> PyTree:
        others = [
            Policy(populations[game.population_of_player[player]].select(index[player]), opponents.apply)
            for player in range(1, num_players(game))
        ]
        return jax.vmap(lambda k, lane: play(k, game, (Policy(own, apply), *others), *lane))(keys, lanes)

    def over_opponents(own: PyTree, index: Array, keys: Array, lanes: tuple[PyTree, ...], wanted: PyTree) -> PyTree:
        seen = game if wanted is None else dataclasses.replace(game, wanted=wanted)  # type: ignore[type-var]
        return jax.vmap(lambda i, k, lane: against(seen, own, i, k, lane))(index, keys, lanes)

    if not common:
        keys = spread(keys, 3)
    elif on_host(game):  # equal episodes, but an environment for each
        keys = jnp.broadcast_to(keys, (num_slots(policies.params), *keys.shape))
    in_axes = (slot_axes(policies.params), None if common else 0, 0 if keys.ndim == 3 else None, 0, 0)
    wanted = wanted if on_host(game) else None
    played = jax.vmap(over_opponents, in_axes=in_axes)(policies.params, indices, keys, spread(lanes, 3), wanted)
    return spread(played, 3) if common else played


def play_joint(
    play: Callable[[Array, Game, Policies], PyTree],
    key: Array,
    game: Game,
    opponents: StackedPolicies,
    indices: Array,
    episodes: int,
) -> PyTree:
    """Plays joint draws of all players' policies, M times each.

    Args:
      play: play(key, game, policies), which plays one episode.
      key: typed PRNG key; consumed.
      game: the game.
      opponents: materialized populations, [P, K, ...].
      indices: slots, [B, players].
      episodes: M.

    Returns:
      What `play` returns, leaves [B, M, ...].
    """
    populations = [take_population(opponents, p) for p in range(num_populations(game))]

    def together(index: Array, keys: Array) -> PyTree:
        policies = tuple(
            Policy(populations[p].select(index[player]), opponents.apply)
            for player, p in enumerate(game.population_of_player)
        )
        return jax.vmap(lambda k: play(k, game, policies))(keys)

    return jax.vmap(together)(indices, spread(jax.random.split(key, (indices.shape[0], episodes)), 2))
