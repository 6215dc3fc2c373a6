"""PettingZoo environments as games: `pz:<id>` as upstream spells it, and a user's own AEC or parallel class.

Properties that PettingZoo does not declare (episode length, returns, sides) come from a row of `_RULES`, from an
attribute of a user's class with the name that `Game` uses, or from an option. The other options go to the environment:
make_game("pz:go_v5", board_size=9).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

import jax

from gems_jax.games.adapters.hosted import PythonGame
from gems_jax.games.sides import Sided, check_sides
from gems_jax.host import pettingzoo
from gems_jax.host.base import Facts, Recipe, make_environment

USUAL_STEPS = 25  # episode length of particle worlds for which typical returns are declared


@dataclasses.dataclass(frozen=True)
class _Rules:
    max_steps: int = 0
    return_bounds: tuple[float, float] | None = (-1.0, 1.0)
    zero_sum: bool = True
    sides: tuple[int, ...] = ()
    side_names: tuple[tuple[str, str], ...] = ()
    note: str = ""


_TAG = _Rules(0, (-100.0, 100.0), False, (0, 0, 0, 1), (("pursuer", "pursuers"), ("evader", "evader")))
_SPREAD = _Rules(0, (-60.0, 0.0), False, (0, 0, 0), (("agent", "team"),))
_RULES: dict[str, _Rules] = {
    "connect_four_v3": _Rules(42),
    "tictactoe_v3": _Rules(9),
    "chess_v6": _Rules(512),
    "go_v5": _Rules(0),
    "hanabi_v5": _Rules(89, (0.0, 25.0), False, (0, 0), (("agent", "team"),), "truncated upstream: at 75 of 89 moves"),
    "simple_tag_v3": _TAG,
    "simple_spread_v3": _SPREAD,
}
LISTED = tuple(_RULES)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class PettingZooGame(PythonGame, Sided):
    """An environment of PettingZoo or mpe2, or package.module:MyClass; made by `environment_game`.

    Args:
      id: name of the environment.
      options: keyword arguments of the environment.
      teams: see `Sided`; without sides every seat is on its own.
      shared: see `Sided`.
      cut: length at which episodes are truncated; 0 for the environment's own limit.
      bounds: lowest and highest return of a player; None for the table's.
      sums_to_zero: whether the game is zero-sum; None for the table's.
    """

    id: str
    options: tuple[tuple[str, Any], ...] = ()
    teams: bool = True
    shared: bool = False
    cut: int = 0
    bounds: tuple[float, float] | None = None
    sums_to_zero: bool | None = None

    def __post_init__(self) -> None:
        check_sides(self.name, self.teams and len(set(self.sides)) < len(self.sides), self.shared)
        if self.max_steps < 1:
            raise ValueError(
                f"{self.name} has no known length: expected max_steps > 0, got {self.max_steps}. Pass it, for example "
                f"make_game({self.name!r}, max_steps=500)."
            )
        if self._declared_bounds is None:
            raise ValueError(
                f"{self.name} has no known returns. Pass return_bounds=(low, high), the extreme returns of a player."
            )

    @property
    def name(self) -> str:
        return self.id if ":" in self.id else f"pz:{self.id}"

    @property
    def recipe(self) -> Recipe:
        return {"kind": "pettingzoo", "id": self.id, "options": dict(self.options)}

    @property
    def facts(self) -> Facts:
        return _facts(self.id, self.options)

    @property
    def _rules(self) -> _Rules:
        return _RULES.get(self.id, _Rules(0, self.facts.return_bounds, bool(self.facts.zero_sum)))

    @property
    def note(self) -> str:
        """A remark for users about the environment."""
        return self._rules.note

    @property
    def max_steps(self) -> int:
        options = dict(self.options)
        if self.cut:
            return self.cut
        if self._is_particles:
            return int(options.get("max_cycles", USUAL_STEPS))
        if self.id == "go_v5":
            return 2 * int(options.get("board_size", 19)) ** 2
        return self._rules.max_steps or self.facts.max_steps

    @property
    def _is_particles(self) -> bool:
        return self._rules in (_TAG, _SPREAD)

    @property
    def _declared_bounds(self) -> tuple[float, float] | None:
        return self.bounds or self._rules.return_bounds

    @property
    def return_bounds(self) -> tuple[float, float]:
        assert self._declared_bounds is not None
        low, high = self._declared_bounds
        scale = self.max_steps / USUAL_STEPS if self._is_particles and self.bounds is None else 1.0
        return low * scale, high * scale

    @property
    def typical_bounds(self) -> bool:
        return self._is_particles

    @property
    def zero_sum(self) -> bool:
        return self._rules.zero_sum if self.sums_to_zero is None else self.sums_to_zero

    @property
    def sides(self) -> tuple[int, ...]:
        known = self._rules.sides
        if self.id == "hanabi_v5" or self._rules is _SPREAD:
            return (0,) * self.facts.num_seats
        return known if len(known) == self.facts.num_seats else tuple(range(self.facts.num_seats))

    @property
    def side_names(self) -> tuple[tuple[str, str], ...]:
        return self._rules.side_names or tuple((name, name) for name in self.facts.seat_names)

    @property
    def names_players(self) -> bool:
        """Whether players have names; False for games that are won, drawn or lost."""
        return bool(self._rules.side_names)


@functools.lru_cache(maxsize=64)
def _facts(name: str, options: tuple[tuple[str, Any], ...]) -> Facts:
    return make_environment({"kind": "pettingzoo", "id": name, "options": dict(options)}).facts


def pettingzoo_game(id: str, **options: Any) -> PettingZooGame:
    """Makes `pz:<id>`, an environment of PettingZoo or mpe2.

    Args:
      id: name of the environment, as upstream spells it.
      options: see `environment_game`.

    Returns:
      The game.

    Raises:
      ImportError: if a library is not installed.
      ValueError: if there is no such environment, or if a required option is missing.
    """
    pettingzoo.find_module(id)
    return environment_game(id, **options)


def environment_game(
    id: str,
    *,
    teams: bool = True,
    shared: bool = False,
    max_steps: int = 0,
    return_bounds: tuple[float, float] | None = None,
    zero_sum: bool | None = None,
    time_limit: float = 60.0,
    **options: Any,
) -> PettingZooGame:
    """Makes the game of a PettingZoo environment.

    Args:
      id: name of the environment, or `package.module:MyClass`.
      teams: see `Sided`; without sides every seat is on its own.
      shared: see `Sided`.
      max_steps: length at which episodes are truncated; 0 for the environment's own limit.
      return_bounds: lowest and highest return of a player; None if known.
      zero_sum: whether returns sum to zero; None if known.
      time_limit: seconds that one step may take.
      options: keyword arguments of the environment.

    Returns:
      The game.

    Raises:
      ValueError: if the length or the returns are unknown and not given.
    """
    bounds = None if return_bounds is None else (float(return_bounds[0]), float(return_bounds[1]))
    return PettingZooGame(
        id, _freeze(options), teams, shared, max_steps, bounds, zero_sum, time_limit=time_limit
    )  # fmt: skip


def _freeze(options: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted((name, tuple(v) if isinstance(v, list) else v) for name, v in options.items()))
