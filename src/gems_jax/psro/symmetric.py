"""A game whose players are all drawn from one population."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax

from gems_jax.types import Game, Profile, num_players, num_populations


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class OnePopulation:
    """`base` with one population for everybody: a policy plays every seat, which its observation must show."""

    base: Any  # a Game, hashed by value

    @property
    def population_of_player(self) -> tuple[int, ...]:
        return (0,) * num_players(self.base)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "base":
            raise AttributeError(name)
        return getattr(self.base, name)


def one_population(game: Game) -> Game:
    """The game itself where its players share a population already."""
    return game if num_populations(game) == 1 else OnePopulation(game)


def for_everyone(game: Game, profile: Profile) -> Profile:
    """A profile of `one_population(game)`, P = 1, as one of `game`: the same policies and mixture for everybody."""
    populations = num_populations(game)
    return jax.tree.map(lambda leaf: leaf.repeat(populations, axis=0), profile)
