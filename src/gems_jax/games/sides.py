"""Players and populations of games whose seats form sides (pursuers and an evader, a team)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache

import jax

from gems_jax.types import Array, GameState


@cache
def _observation_shape(game: Sided) -> tuple[int, ...]:
    return jax.eval_shape(game.init, jax.random.key(0)).observation.shape[1:]


def check_sides(name: str, teams: bool, shared: bool) -> None:
    """Raises ValueError if both `teams` and `shared` are set. name: of the game, for the message."""
    if teams and shared:
        raise ValueError(
            f"{name}: teams=True makes a side one player, shared=True draws the players of a side from one population: "
            "expected at most one of them, got both"
        )


class Sided(ABC):
    """Derives the two ownership tuples of the `Game` protocol from the side of every seat and two options.

    Attributes:
      teams: a side is one player: its seats play one policy and earn the mean of their rewards. Otherwise every seat is
        a
        player.
      shared: without teams, the players of a side share one population instead of having one each.
    """

    teams: bool
    shared: bool

    @property
    @abstractmethod
    def sides(self) -> tuple[int, ...]:
        """Side of every seat, [S], from 0."""

    @property
    def side_names(self) -> tuple[tuple[str, str], ...]:
        """Names of one seat and of all seats, for every side."""
        if self.cooperative:
            return (("agent", "team"),)
        return tuple((f"side_{side}", f"side_{side}") for side in range(max(self.sides) + 1))

    @abstractmethod
    def init(self, key: Array) -> GameState: ...

    @property
    def cooperative(self) -> bool:
        """Whether all seats are on one side."""
        return max(self.sides) == 0

    @property
    def names_players(self) -> bool:
        """Whether players have names beyond their seats."""
        return True

    @property
    def player_names(self) -> tuple[str, ...] | None:
        """Names of the players, [players], for columns: return_pursuers, or return_pursuer_0."""
        if not self.names_players:
            return None
        if self.teams:
            return tuple(together for _, together in self.side_names)
        names = []
        for seat, side in enumerate(self.sides):
            alone = self.sides.count(side) == 1
            names.append(self.side_names[side][0] + ("" if alone else f"_{seat - self.sides.index(side)}"))
        return tuple(names)

    @property
    def num_seats(self) -> int:
        return len(self.sides)

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return _observation_shape(self)

    @property
    def player_of_seat(self) -> tuple[int, ...]:
        return self.sides if self.teams else tuple(range(len(self.sides)))

    @property
    def population_of_player(self) -> tuple[int, ...]:
        if self.teams:
            return tuple(range(max(self.sides) + 1))
        return self.sides if self.shared else tuple(range(len(self.sides)))
