"""Games of OpenSpiel: `openspiel:<id>`, with parameters as OpenSpiel writes them, "go(board_size=9)".

Small games can be evaluated exactly: pyspiel's states can be copied, so that the tree is enumerated on the host
(`starts`, `branches`).
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NamedTuple

import jax
import numpy as np

from gems_jax.games.adapters.hosted import PythonGame
from gems_jax.games.sides import Sided, check_sides
from gems_jax.host.base import EnvironmentState, Facts, Recipe
from gems_jax.host.openspiel import OpenSpiel, observe_state


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class OpenSpielGame(PythonGame, Sided):
    """A game of OpenSpiel, made by `openspiel_game`.

    Args:
      id: name of the game, with parameters.
      teams: see `Sided`; players with identical utilities form one side.
      shared: all players are drawn from one population.
      cut: length at which episodes are truncated; 0 for the game's own.
    """

    id: str
    teams: bool = True
    shared: bool = False
    cut: int = 0

    def __post_init__(self) -> None:
        check_sides(self.name, self.teams and len(set(self.sides)) < len(self.sides), self.shared)

    @property
    def name(self) -> str:
        return f"openspiel:{self.id}"

    @property
    def recipe(self) -> Recipe:
        return {"kind": "openspiel", "id": self.id, "options": {}}

    @property
    def facts(self) -> Facts:
        return _environment(self.id).facts

    @property
    def max_steps(self) -> int:
        return self.cut or self.facts.max_steps

    @property
    def return_bounds(self) -> tuple[float, float]:
        assert self.facts.return_bounds is not None
        return self.facts.return_bounds

    @property
    def zero_sum(self) -> bool:
        return bool(self.facts.zero_sum)

    @property
    def sides(self) -> tuple[int, ...]:
        seats = self.facts.num_seats
        kind = _environment(self.id).game.get_type()
        return (0,) * seats if kind.utility == type(kind.utility).IDENTICAL else tuple(range(seats))

    @property
    def population_of_player(self) -> tuple[int, ...]:
        players = max(self.player_of_seat) + 1
        return (0,) * players if self.shared else tuple(range(players))

    @property
    def names_players(self) -> bool:
        return self.cooperative

    def starts(self) -> list[Branch]:
        """Returns all positions before the first move."""
        environment = _environment(self.id)
        return _decisions(environment, environment.game.new_initial_state(), 1.0, np.zeros(self.num_seats))

    def branches(self, state: Any, actions: np.ndarray) -> list[Branch]:
        """Returns all positions that actions [S] may lead to from a pyspiel state."""
        after = state.clone()
        if after.is_simultaneous_node():
            after.apply_actions([int(a) if after.legal_actions(seat) else 0 for seat, a in enumerate(actions)])
        else:
            after.apply_action(int(actions[after.current_player()]))
        return _decisions(_environment(self.id), after, 1.0, np.asarray(state.returns()))


class Branch(NamedTuple):
    """A position that chance may lead to."""

    chance: float
    state: Any  # pyspiel's state
    seen: EnvironmentState


@functools.lru_cache(maxsize=64)
def _environment(name: str) -> OpenSpiel:
    return OpenSpiel(name)


def _decisions(environment: OpenSpiel, state: Any, chance: float, earned: np.ndarray) -> list[Branch]:
    """Returns the positions after all immediate chance nodes, with the rewards of the move."""
    if not state.is_chance_node():
        reward = (np.asarray(state.returns()) - earned).astype(np.float32)
        return [Branch(chance, state, observe_state(environment, state, reward))]
    found = []
    for outcome, mass in state.chance_outcomes():
        found += _decisions(environment, state.child(outcome), chance * mass, earned)
    return found


def openspiel_game(
    id: str, *, teams: bool = True, shared: bool = False, max_steps: int = 0, time_limit: float = 60.0
) -> OpenSpielGame:
    """Makes `openspiel:<id>`.

    Args:
      id: name of the game in OpenSpiel, with parameters.
      teams: see `Sided`; players with identical utilities form one side.
      shared: all players are drawn from one population.
      max_steps: length at which episodes are truncated; 0 for the game's own.
      time_limit: seconds that one step may take.

    Returns:
      The game.

    Raises:
      ImportError: if OpenSpiel is not installed.
      ValueError: if there is no such game.
    """
    _environment(id)
    return OpenSpielGame(id, teams, shared, max_steps, time_limit=time_limit)
