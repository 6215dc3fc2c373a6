"""What a profile comes to, besides its distance from equilibrium: values, welfare, and choices worth watching.

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
from gems_jax.extensive.tables import mixture_to_behaviour, policy_tables
from gems_jax.extensive.tree import GameTree, build_tree
from gems_jax.extensive.values import exact_mixture_returns, player_values
from gems_jax.types import Array, Game, Profile, Watched, expect, num_players, player_names, supports

Row = dict[str, Array]
Lookup = tuple[np.ndarray, np.ndarray, np.ndarray]  # population, information set and action of each choice, [n]


def welfare(game: Game, profile: Profile) -> Array:
    """W = sum_p u_p of the profile, [], exact."""
    return player_values(game, profile).sum()


def choice_rates(game: Game, profile: Profile) -> Row:
    """The game's own `choices` under the profile, [] each, exact and reach-weighted; {} where it names none."""
    tree = build_tree(game)
    tables = policy_tables(tree, profile.population, profile.sigma.shape[1])
    return _rates(tree, tables, profile.sigma, _lookups(game, tree))


def outcome_names(game: Game) -> tuple[str, ...]:
    """The columns of `outcome_columns`."""
    values = tuple(f"value_{name}" for name in _valued(game))
    return (*values, *(("welfare",) if values else ()), *_choices(game))


def _valued(game: Game) -> tuple[str, ...]:
    """Names of the players whose values are worth a column."""
    names = player_names(game)
    if names is None and not game.zero_sum:
        names = tuple(map(str, range(num_players(game))))
    return names or ()


def _choices(game: Game) -> dict[str, tuple[Any, Any, Any]]:
    return game.choices() if supports(game, Watched) else {}


def outcome_columns(game: Game) -> Callable[[Array, Array], Row]:
    """A function of tables [P, K, I, A] and sigma [P, K] that gives value_<player>, welfare, and the game's choices.

    In a zero-sum game whose players have no names it gives the choices alone: there, values say little.
    """
    tree = build_tree(game)
    lookups = _lookups(game, tree)
    names = _valued(game)

    def columns(tables: Array, sigma: Array) -> Row:
        row: Row = {}
        if names:
            values = exact_mixture_returns(tree, tables, sigma)
            row |= {f"value_{name}": values[player] for player, name in enumerate(names)}
            row["welfare"] = values.sum()
        return row | _rates(tree, tables, sigma, lookups)

    return columns


def _lookups(game: Game, tree: GameTree) -> dict[str, Lookup]:
    """Where the game's choices stand in the tree, on the host."""
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
    mixed = jax.vmap(partial(mixture_to_behaviour, tree))(tables, sigma)  # [P, I, A]
    return {column: jnp.mean(mixed[where]) for column, where in lookups.items()}
