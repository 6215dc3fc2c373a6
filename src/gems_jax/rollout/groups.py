"""Batches of episodes: policies against drawn opponents, and joint draws of all players.

Episodes have the axes (policy, opponent, episode), so that one matrix product applies the weights of a policy to all
its episodes. A *lane* is one episode of such a batch; `lanes` are arguments of `play` with one entry per episode.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import chex
import jax
import jax.numpy as jnp

from gems_jax.accelerator.sharding import is_sharded, spread
from gems_jax.host.stages import on_host
from gems_jax.policies.networks import IndexedNetwork
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.episode import Policies
from gems_jax.rollout.tabular import play_indexed
from gems_jax.rollout.views import take_population
from gems_jax.types import Array, Game, Policy, PyTree, num_slots, slot_axes


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
      play: play(key, game, policies, *lane), which plays one episode or a part of one.
      key: typed PRNG key; consumed.
      game: the game, from the position of player 0.
      policies: the policies of player 0, [C, ...] as `stack_policies` makes them.
      opponents: materialized populations, [P, K, ...].
      indices: slots of the opponents, [C, N, players], whose column 0 is ignored; with `common` [N, players].
      episodes: M.
      common: whether all C policies face the same opponents with the same deals and the same sampling noise (common
        random numbers).
      lanes: further arguments of `play`, one per episode, leaves [C, N, M, ...].
      wanted: [C] bool, False for policies whose episodes are not needed; games that run in Python then skip them.

    Returns:
      The results of `play`, leaves [C, N, M, ...].
    """
    chex.assert_rank(indices, 2 if common else 3)
    keys = jax.random.split(key, (*indices.shape[:-1], episodes))
    groups = num_slots(policies.params)
    if _can_index(game, opponents) and policies.apply == opponents.apply:
        keys, indices = (jnp.broadcast_to(one, (groups, *one.shape[-2:])) if common else one for one in (keys, indices))
        return play_indexed(play, keys, game, opponents, indices, policies.params, lanes)

    def against(own: PyTree, indices: Array, keys: Array, lanes: tuple[PyTree, ...], wanted: PyTree) -> PyTree:
        seen = game if wanted is None else dataclasses.replace(game, wanted=wanted)  # type: ignore[type-var]

        def one_draw(index: Array, keys: Array, lanes: tuple[PyTree, ...]) -> PyTree:
            players = (Policy(own, policies.apply), *_select(seen, opponents, index, 1))
            return jax.vmap(lambda k, lane: play(k, seen, players, *lane))(keys, lanes)

        return jax.vmap(one_draw)(indices, keys, lanes)

    keys = _lay_out_keys(keys, groups, game)
    in_axes = (slot_axes(policies.params), None if common else 0, 0 if keys.ndim == 3 else None, 0, 0)
    wanted = wanted if on_host(game) else None
    played = jax.vmap(against, in_axes=in_axes)(policies.params, indices, keys, spread(lanes, 3), wanted)
    return spread(played, 3) if common else played


def _can_index(game: Game, policies: StackedPolicies) -> bool:
    """Whether episodes may call these policies by index: on one device, and for games in JAX."""
    return isinstance(policies.apply, IndexedNetwork) and not on_host(game) and not is_sharded()


def _lay_out_keys(keys: Array, groups: int, game: Game) -> Array:
    """Keys [C, N, M], or [N, M] where all policies use the same keys."""
    if keys.ndim == 3:
        return spread(keys, 3)
    return jnp.broadcast_to(keys, (groups, *keys.shape)) if on_host(game) else keys  # one environment per episode


def _select(game: Game, populations: StackedPolicies, index: Array, first: int = 0) -> Policies:
    """The policies in the slots `index` [players], one per player from player `first` on."""
    owners = game.population_of_player
    return tuple(
        Policy(take_population(populations, owners[player]).select(index[player]), populations.apply)
        for player in range(first, len(owners))
    )


def play_joint(
    play: Callable[..., PyTree],
    key: Array,
    game: Game,
    opponents: StackedPolicies,
    indices: Array,
    episodes: int,
    lanes: tuple[PyTree, ...] = (),
) -> PyTree:
    """Plays joint draws of all players' policies, M times each.

    Args:
      play: play(key, game, policies, *lane), which plays one episode.
      key: typed PRNG key; consumed.
      game: the game.
      opponents: materialized populations, [P, K, ...].
      indices: slots, [B, players].
      episodes: M.
      lanes: further arguments of `play`, one per episode, leaves [B, M, ...].

    Returns:
      The results of `play`, leaves [B, M, ...].
    """
    keys = jax.random.split(key, (indices.shape[0], episodes))
    if _can_index(game, opponents):
        return play_indexed(play, keys, game, opponents, indices, lanes=lanes)

    def together(index: Array, keys: Array, lanes: tuple[PyTree, ...]) -> PyTree:
        players = _select(game, opponents, index)
        return jax.vmap(lambda k, lane: play(k, game, players, *lane))(keys, lanes)

    return jax.vmap(together)(indices, spread(keys, 2), spread(lanes, 2))
