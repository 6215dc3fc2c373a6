"""OpenSpiel games through pyspiel: information-state tensors for imperfect information, else observation tensors.

Chance acts inside `reset` and `step`, drawn from the episode's seed. (Adapters through shimmy count chance as moves and
truncate games.) Rewards are the differences of `returns()` between decisions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gems_jax.host.base import EnvironmentState, Facts, stack_observations, stacked_shape

NEEDS = 'needs the extra "openspiel": pip install "gems_jax[openspiel]"'


def load_pyspiel(name: str) -> Any:
    """Loads a pyspiel game.

    Args:
      name: its name, with parameters as OpenSpiel writes them: "go(board_size=9)".

    Returns:
      The pyspiel game.

    Raises:
      ImportError: if OpenSpiel is not installed.
      ValueError: if there is no such game, or if its parameters are wrong.
    """
    try:
        import pyspiel
    except ImportError as error:
        raise ImportError(f"openspiel:{name} {NEEDS}") from error
    short, known = name.partition("(")[0], pyspiel.registered_names()
    if short not in known:
        from gems_jax.types import did_you_mean  # imported late: workers start without JAX

        hint = did_you_mean(f"openspiel:{short}", [f"openspiel:{each}" for each in known], 3)
        raise ValueError(f"OpenSpiel has no game {short!r}; {hint}pyspiel.registered_names() lists them")
    try:
        return pyspiel.load_game(name)
    except pyspiel.SpielError as error:
        raise ValueError(f"OpenSpiel cannot load {name!r}: {str(error).splitlines()[0][:300]}") from error


def make_openspiel(name: str) -> OpenSpiel:
    """Makes the environment of a pyspiel game."""
    return OpenSpiel(name)


def tensor_shape(game: Any) -> tuple[tuple[int, ...], bool]:
    """Returns the shape of a player's tensor, planes first, and whether it is the information state.

    Raises:
      ValueError: if the game has no tensors.
    """
    kind = game.get_type()
    perfect = kind.information == type(kind.information).PERFECT_INFORMATION
    observed, state = kind.provides_observation_tensor, kind.provides_information_state_tensor
    if not (observed or state):
        raise ValueError(f"OpenSpiel game {kind.short_name} does not fit: expected an observation tensor, got none")
    state = state and not (perfect and observed)
    return tuple(game.information_state_tensor_shape() if state else game.observation_tensor_shape()), state


class OpenSpiel:
    """One state of a pyspiel game and its random generator."""

    def __init__(self, name: str):
        self.game = load_pyspiel(name)
        kind, self.players = self.game.get_type(), self.game.num_players()
        if kind.dynamics not in (type(kind.dynamics).SEQUENTIAL, type(kind.dynamics).SIMULTANEOUS):
            raise ValueError(
                f"OpenSpiel game {name} does not fit: expected sequential or simultaneous moves, got a mean-field game"
            )
        self.shape, self.information_state = tensor_shape(self.game)
        self.board = len(self.shape) == 3 and not self.information_state
        planes_last = (*self.shape[1:], self.shape[0]) if self.board else self.shape
        self.facts = Facts(
            num_seats=self.players,
            num_actions=self.game.num_distinct_actions(),
            observation_shape=stacked_shape([planes_last] * self.players),
            simultaneous=kind.dynamics == type(kind.dynamics).SIMULTANEOUS,
            continuous=False,
            max_steps=self.game.max_game_length(),
            return_bounds=(self.game.min_utility(), self.game.max_utility()),
            zero_sum=kind.utility == type(kind.utility).ZERO_SUM,
        )

    def reset(self, seed: int) -> EnvironmentState:
        self.dice = np.random.default_rng(seed)
        self.state, self.earned = self.game.new_initial_state(), np.zeros(self.players)
        return self._position()

    def step(self, actions: np.ndarray) -> EnvironmentState:
        if self.state.is_simultaneous_node():
            joint = [int(a) if self.state.legal_actions(seat) else 0 for seat, a in enumerate(actions)]
            self.state.apply_actions(joint)
        else:
            self.state.apply_action(int(actions[self.state.current_player()]))
        return self._position()

    def _position(self) -> EnvironmentState:
        while self.state.is_chance_node():
            outcomes, masses = zip(*self.state.chance_outcomes(), strict=True)
            ends = np.cumsum(masses)
            self.state.apply_action(
                outcomes[min(int(np.searchsorted(ends, self.dice.random(), "right")), len(ends) - 1)]
            )
        total = np.asarray(self.state.returns())
        reward, self.earned = (total - self.earned).astype(np.float32), total
        return observe_state(self, self.state, reward)


def observe_state(environment: OpenSpiel, state: Any, reward: np.ndarray) -> EnvironmentState:
    """Returns the position of a pyspiel state as arrays."""
    facts = environment.facts
    legal, to_move = np.zeros((facts.num_seats, facts.num_actions), bool), np.zeros(facts.num_seats, bool)
    blank = (*environment.shape[1:], environment.shape[0]) if environment.board else (1,)
    parts = [np.zeros(blank, np.float32)] * facts.num_seats
    for seat in _movers(state, facts.num_seats):
        actions = state.legal_actions(seat)
        legal[seat, actions], to_move[seat] = True, bool(actions)
        if actions:
            parts[seat] = _tensor(environment, state, seat)
    over = bool(state.is_terminal())
    return EnvironmentState(stack_observations(parts, facts.observation_shape), legal, to_move, reward, over, False)


def _movers(state: Any, seats: int) -> list[int]:
    if state.is_terminal():
        return []
    return list(range(seats)) if state.is_simultaneous_node() else [state.current_player()]


def _tensor(environment: OpenSpiel, state: Any, seat: int) -> np.ndarray:
    """Returns the tensor of a seat, planes last."""
    read = state.information_state_tensor if environment.information_state else state.observation_tensor
    seen = np.asarray(read(seat), np.float32).reshape(environment.shape)
    return np.moveaxis(seen, 0, -1) if environment.board else seen
