"""Payoff table of a meta-game over stored policies: exact on the tree, or measured by episodes.

values [players, K, ..., K]: return of each player if player q plays slot i_q of its population. Only profiles with a
new slot are filled in: 2k + 1 of them if both of two populations of k policies get one more.
"""

from __future__ import annotations

import functools
import string

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.estimation.monte_carlo import player_return
from gems_jax.extensive.infosets import tables_of
from gems_jax.extensive.sequence_form import leaf_reach
from gems_jax.extensive.values import GameTree, build_tree, reach
from gems_jax.host.stages import compile_play
from gems_jax.meta import META_SOLVERS, NASH_TOLERANCE, duality_gap, regret_matching_plus
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.base import Cost, pad_slots
from gems_jax.psro.settings import ExplicitSettings
from gems_jax.rollout.episode import play_episode
from gems_jax.rollout.groups import play_joint
from gems_jax.types import Array, Game, Struct, num_players, num_populations

_BATCH = 16  # profiles per compiled call: one compilation per capacity, whatever their number


class PayoffTable(Struct):
    """Payoffs of all profiles of slots."""

    values: Array  # [players, K, ..., K]
    episodes: Array  # [K, ..., K] int32, episodes of each entry; 0 if it is exact or empty


def new_table(game: Game, capacity: int) -> PayoffTable:
    """Makes an empty table. Raises ValueError unless each player has a population, or two players share one."""
    players = num_players(game)
    if not (num_populations(game) == players or (players == 2 and num_populations(game) == 1)):
        raise ValueError(
            "explicit populations need one population per player, or two players that share one, "
            f"got population_of_player={game.population_of_player}"
        )
    shape = (capacity,) * players
    return PayoffTable(jnp.zeros((players, *shape)), jnp.zeros(shape, jnp.int32))


def widen_table(table: PayoffTable, capacity: int) -> PayoffTable:
    """Appends empty entries until every population has `capacity` slots."""
    slots = tuple(range(table.episodes.ndim))
    return PayoffTable(
        pad_slots(table.values, capacity, tuple(axis + 1 for axis in slots)),
        pad_slots(table.episodes, capacity, slots),
    )


def crop_table(table: PayoffTable, capacity: int) -> PayoffTable:
    """Crops the table to the first `capacity` slots."""
    slots = (slice(capacity),) * table.episodes.ndim
    return PayoffTable(table.values[(slice(None), *slots)], table.episodes[slots])


def new_profiles(game: Game, active: np.ndarray, fresh: np.ndarray) -> np.ndarray:
    """Lists the profiles [B, players] of active slots with at least one fresh slot. active, fresh: [P, K] bool."""
    everyone, none = (
        functools.reduce(np.logical_and.outer, [mask[population] for population in game.population_of_player])
        for mask in (active, ~fresh)
    )
    return np.argwhere(everyone & ~none)


@jax.jit
def exact_payoffs(tree: GameTree, tables: tuple[Array, ...]) -> Array:
    """Computes exact returns [players, k_0, ..., k_{n-1}] of all profiles of tables[q], [k_q, I, A]."""
    axes = string.ascii_lowercase[: len(tables)]
    reaches = [
        leaf_reach(tree, jax.vmap(lambda table: reach(tree, table))(own), player) for player, own in enumerate(tables)
    ]
    # sum over leaves y of payoff z
    recipe = ",".join(["yz", *(f"{axis}y" for axis in axes)]) + "->z" + axes
    return jnp.einsum(recipe, tree.chance[:, None] * tree.payoff, *reaches, precision="highest")


@functools.partial(jax.jit, static_argnames="player")
def _fill_slots(tree: GameTree, values: Array, tables: Array, player: int, slots: Array) -> Array:
    """Fills in all profiles in which `player` plays one of the `slots` [n]. tables: [P, K, I, A]."""
    everyone = [tables[population] for population in tree.population_of_player]
    everyone[player] = everyone[player][slots]
    return values.at[(slice(None),) * (player + 1) + (slots,)].set(exact_payoffs(tree, tuple(everyone)))


def fill_exact(
    game: Game, table: PayoffTable, policies: StackedPolicies, active: np.ndarray, fresh: np.ndarray
) -> tuple[PayoffTable, Cost]:
    """Fills in exact entries of every profile with a fresh slot. Arguments as in `fill`."""
    tree, tables, values = build_tree(game), tables_of(game, policies), table.values
    for player, population in enumerate(game.population_of_player):
        slots = np.nonzero(fresh[population])[0]
        if slots.size:
            values = _fill_slots(tree, values, tables, player, jnp.asarray(slots))
    return PayoffTable(values, table.episodes), Cost(tree_walks=len(new_profiles(game, active, fresh)))


@compile_play(static_argnames=("game", "episodes"))
def _play(key: Array, game: Game, policies: StackedPolicies, profiles: Array, episodes: int) -> tuple[Array, Array]:
    """Plays profiles [B, players]: mean returns [B, players] and env steps [B]."""
    outcome = play_joint(play_episode, key, game, policies, profiles, episodes)
    returns = [player_return(game, player, outcome.returns).mean(axis=1) for player in range(num_players(game))]
    return jnp.stack(returns, axis=1), outcome.length.sum(axis=1)


def fill_sampled(
    key: Array,
    game: Game,
    table: PayoffTable,
    policies: StackedPolicies,
    active: np.ndarray,
    fresh: np.ndarray,
    episodes: int,
) -> tuple[PayoffTable, Cost]:
    """Fills in the mean of `episodes` episodes of every profile with a fresh slot. Arguments as in `fill`.

    A zero-sum game stays zero-sum: the entries of all players come from the same episodes.
    """
    profiles = new_profiles(game, active, fresh)
    values, counts, steps = np.array(table.values), np.array(table.episodes), 0
    starts = range(0, len(profiles), _BATCH)
    for start, batch_key in zip(starts, jax.random.split(key, len(starts)), strict=True):
        batch = profiles[start : start + _BATCH]
        filled = np.concatenate([batch, np.repeat(batch[:1], _BATCH - len(batch), axis=0)])
        returns, lengths = _play(batch_key, game, policies, jnp.asarray(filled), episodes)
        where = tuple(batch.T)
        values[(slice(None), *where)] = np.asarray(returns)[: len(batch)].T
        counts[where] = episodes
        steps += int(np.asarray(lengths)[: len(batch)].sum())
    cost = Cost(episodes=len(profiles) * episodes, env_steps=steps)
    return PayoffTable(jnp.asarray(values), jnp.asarray(counts)), cost


def fill(
    key: Array,
    game: Game,
    config: ExplicitSettings,
    table: PayoffTable,
    policies: StackedPolicies,
    active: np.ndarray,
    fresh: np.ndarray,
) -> tuple[PayoffTable, Cost]:
    """Fills in every profile of active slots with at least one fresh slot.

    Args:
      key: typed PRNG key; consumed.
      game: the game.
      config: settings without `auto`: exact payoffs, or `entry_episodes` episodes each.
      table: table of at most K slots; it is widened to K.
      policies: policies [P, K, ...].
      active: mask of the policies, [P, K].
      fresh: mask of the new policies, [P, K].

    Returns:
      The table of K slots, and the cost.
    """
    table = widen_table(table, active.shape[1])
    if config.payoffs == "exact":
        return fill_exact(game, table, policies, active, fresh)
    return fill_sampled(key, game, table, policies, active, fresh, config.entry_episodes)


# --- the meta-game


def meta_game(game: Game, table: PayoffTable, active: Array) -> tuple[Array, Array]:
    """Returns payoffs [players, K, ..., K] and active slots [players, K] of the game between the populations.

    The game of two players that share a population is made symmetric: both seats are equally likely.
    """
    values, owners = table.values, jnp.asarray(game.population_of_player)
    if num_populations(game) < num_players(game):
        mine = (values[0] + values[1].T) / 2
        values = jnp.stack([mine, mine.T])
    return values, active[owners]


@functools.partial(jax.jit, static_argnames=("game", "name"))
def solve_payoffs(
    game: Game,
    name: str,
    table: PayoffTable,
    active: Array,
    tolerance: float | Array = NASH_TOLERANCE,
    start: Array | None = None,
) -> tuple[Array, Array]:
    """Solves the meta-game of the active slots.

    Args:
      game: the game.
      name: a meta-solver of `META_SOLVERS`.
      table: payoffs of all slots.
      active: [P, K] bool.
      tolerance: gap at which "nash" stops, as a fraction of the largest payoff; the other solvers do not stop early.
      start: [P, K], initial mixtures of "nash"; None for uniform ones.

    Returns:
      Mixtures sigma [P, K], and their gap [] inside the meta-game.
    """
    shared = num_populations(game) < num_players(game)
    owners = jnp.asarray(game.population_of_player)
    payoffs, everyone = meta_game(game, table, active)
    if name == "nash":
        begin = None if start is None else start[owners]
        sigma = regret_matching_plus(payoffs, everyone, tolerance=tolerance, start=begin).sigma
    else:
        own_name = {"alpha_rank": "alpha_rank_single"}.get(name, name) if shared else name
        sigma = META_SOLVERS[own_name](payoffs, everyone)
    if shared:
        sigma = sigma.mean(axis=0, keepdims=True)
    return sigma, duality_gap(payoffs, sigma[owners], everyone)


@functools.partial(jax.jit, static_argnames=("game", "name"))
def solve_levels(game: Game, name: str, table: PayoffTable, active: Array) -> tuple[Array, Array]:
    """Solves the meta-games of M sets of active slots [M, P, K]: mixtures [M, P, K], and their gaps [M].

    Solvers on the host are called back for one set at a time.
    """
    return jax.vmap(lambda mask: solve_payoffs(game, name, table, mask))(active)
