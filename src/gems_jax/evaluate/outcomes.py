"""Outcomes of a profile besides its distance from equilibrium: values, welfare and probabilities of declared choices.

Games name players, choices and columns through the capabilities `Named`, `Watched` and `Accumulated` of `types`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.extensive.infosets import find_infoset
from gems_jax.extensive.tables import mixture_to_behavior, policy_tables
from gems_jax.extensive.tree import GameTree, build_tree
from gems_jax.extensive.values import exact_mixture_returns, player_values
from gems_jax.types import Array, Game, Profile, Watched, expect, num_players, player_names, supports

Row = dict[str, Array]
Lookup = tuple[np.ndarray, np.ndarray, np.ndarray]  # population, information set and action of each choice, [n]


def welfare(game: Game, profile: Profile) -> Array:
    """Computes the welfare W = sum_p u_p of the profile exactly.

    Args:
      game: an enumerable game.
      profile: mixtures sigma [P, K] over populations with a leading axis P.

    Returns:
      W, [].
    """
    return player_values(game, profile).sum()


def choice_rates(game: Game, profile: Profile) -> Row:
    """Computes the probabilities of the game's declared `choices` under the profile, exact and reach-weighted.

    Args:
      game: an enumerable game.
      profile: mixtures sigma [P, K] over populations with a leading axis P.

    Returns:
      `{column: probability []}`; empty if the game declares no choices.
    """
    tree = build_tree(game)
    tables = policy_tables(tree, profile.population, profile.sigma.shape[1])
    return _rates(tree, tables, profile.sigma, _lookups(game, tree))


def outcome_names(game: Game) -> tuple[str, ...]:
    """Returns the names of the columns that `outcome_columns` computes."""
    values = tuple(f"value_{name}" for name in valued_players(game))
    return (*values, *(("welfare",) if values else ()), *_choices(game))


def valued_players(game: Game) -> tuple[str, ...]:
    """Returns the names of the players whose values become columns; none in zero-sum games with unnamed players."""
    names = player_names(game)
    if names is None and not game.zero_sum:
        names = tuple(map(str, range(num_players(game))))
    return names or ()


def _choices(game: Game) -> dict[str, tuple[Any, Any, Any]]:
    return game.choices() if supports(game, Watched) else {}


def outcome_columns(game: Game) -> Callable[[Array, Array], Row]:
    """Makes the function that computes value_<player>, welfare and the game's choices.

    In a zero-sum game with unnamed players it returns the choices alone.

    Args:
      game: an enumerable game.

    Returns:
      A function of tables [P, K, I, A] and sigma [P, K] that returns `{column: []}`.
    """
    tree = build_tree(game)
    lookups = _lookups(game, tree)
    names = valued_players(game)

    def columns(tables: Array, sigma: Array) -> Row:
        row: Row = {}
        if names:
            values = exact_mixture_returns(tree, tables, sigma)
            row |= {f"value_{name}": values[player] for player, name in enumerate(names)}
            row["welfare"] = values.sum()
        return row | _rates(tree, tables, sigma, lookups)

    return columns


def _lookups(game: Game, tree: GameTree) -> dict[str, Lookup]:
    """Finds the game's choices in the tree, on the host."""
    found = {}
    for column, (seats, observations, actions) in _choices(game).items():
        infosets = [_infoset(game, tree, *what) for what in zip(seats, observations, strict=True)]
        owners = [tree.population_of_player[tree.player_of_seat[seat]] for seat in seats]
        found[column] = (np.asarray(owners), np.asarray(infosets), np.asarray(actions))
    return found


def _infoset(game: Game, tree: GameTree, seat: int, observation: np.ndarray) -> int:
    found = find_infoset(tree, seat, observation)
    expect(found >= 0, f"choices() of {game.name!r} names an observation that seat {seat} never acts on.")
    return found


def _rates(tree: GameTree, tables: Array, sigma: Array, lookups: dict[str, Lookup]) -> Row:
    if not lookups:
        return {}
    mixed = jax.vmap(partial(mixture_to_behavior, tree))(tables, sigma)  # [P, I, A]
    return {column: jnp.mean(mixed[where]) for column, where in lookups.items()}
