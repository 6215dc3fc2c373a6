"""A wrapper that adds a seat's own history to its observation, for methods that need perfect recall."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp

from gems_jax.types import Array, Averaging, Enumerable, Game, GameState, Hosted, Struct, expect, supports


class Remembered(Struct):
    """A state of the wrapped game, and what every seat observed and did at its own moves."""

    state: GameState
    memory: Array  # [S, max_steps, observation + actions] float32, one row per move, later rows zero
    moves: Array  # [S] int32, own moves so far


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class WithHistory:
    """A game whose observations contain the seat's past observations and moves; make it by `with_history`.

    An observation is flat: the game's own, then for each earlier move of the seat the observation that it had and the
    one-hot of its action, zeros for moves to come. Its size is bounded by the horizon: max_steps moves.
    """

    game: Any

    def __post_init__(self) -> None:
        name = getattr(self.game, "name", self.game)
        expect(isinstance(self.game, Game), f"with_history needs a Game, got {name!r}.")
        expect(not supports(self.game, Hosted), f"with_history needs a game written in JAX, got {name!r}, in Python.")
        expect(not self.game.continuous, f"with_history needs discrete actions, got {name!r}.")

    def __getattr__(self, attribute: str) -> Any:
        """Forwards the capabilities that do not depend on observations."""
        if attribute in _FORWARDED:
            return getattr(self.game, attribute)
        raise AttributeError(f"{type(self).__name__!r} has no attribute {attribute!r}")

    @property
    def name(self) -> str:
        return f"history:{self.game.name}"

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return (self._seen + self.game.max_steps * (self._seen + self.game.num_actions),)

    @property
    def _seen(self) -> int:
        return math.prod(self.game.observation_shape)

    def init(self, key: Array) -> GameState:
        """Starts an episode. key: consumed."""
        return self._start(self.game.init(key))

    def _start(self, state: GameState) -> GameState:
        seats = self.game.num_seats
        memory = jnp.zeros((seats, self.game.max_steps, self._seen + self.game.num_actions))
        return self._game_state(Remembered(state, memory, jnp.zeros(seats, jnp.int32)))

    def step(self, state: GameState, actions: Array, key: Array) -> GameState:
        """Plays actions [S] int32. key: consumed."""
        return self._remember(state, actions, self.game.step(state.inner.state, actions, key))

    def _remember(self, state: GameState, actions: Array, after: GameState) -> GameState:
        inner: Remembered = state.inner
        played = jax.nn.one_hot(actions, self.game.num_actions)
        seen = inner.state.observation.reshape(self.game.num_seats, -1)
        moved = inner.state.to_move & ~inner.state.done
        row = (jnp.arange(self.game.max_steps)[None, :] == inner.moves[:, None]) & moved[:, None]  # [S, T]
        memory = jnp.where(row[..., None], jnp.concatenate([seen, played], axis=1)[:, None], inner.memory)
        return self._game_state(Remembered(after, memory, inner.moves + moved))

    def _game_state(self, inner: Remembered) -> GameState:
        seats, state = self.game.num_seats, inner.state
        parts = (state.observation.reshape(seats, -1), inner.memory.reshape(seats, -1))
        inner = inner.replace(state=state.replace(reward=jnp.zeros_like(state.reward)))
        return state.replace(inner=inner, observation=jnp.concatenate(parts, axis=1), infoset=None)

    @property
    def deals(self) -> Any:
        """Lists the initial states and their probabilities, if the game does."""
        if not supports(self.game, Enumerable):
            raise AttributeError("deals")

        def deals() -> tuple[GameState, Array]:
            states, chance = self.game.deals()
            return jax.vmap(self._start)(states), chance

        return deals

    @property
    def expected_step(self) -> Any:
        """Steps with mean rewards, if the game does."""
        if not supports(self.game, Averaging):
            raise AttributeError("expected_step")
        return lambda state, actions: self._remember(
            state, actions, self.game.expected_step(state.inner.state, actions)
        )


_FORWARDED = frozenset(
    ("num_seats", "num_actions", "max_steps", "simultaneous", "continuous", "player_of_seat", "population_of_player")
    + ("return_bounds", "zero_sum", "num_positions", "truncates", "player_names", "cooperative", "typical_bounds")
    + ("any_winner", "note")
)


def with_history(game: Game) -> WithHistory:
    """Adds every seat's own past observations and moves to its observations, which gives perfect recall.

    Tables, exact responses and CFR then work on games whose observations forget, such as Nim. `exploitability` does not
    need it: it adds the history behind the scenes.

    >>> from gems_jax.games import make_game, with_history
    >>> game = with_history(make_game("nim", heaps=(1, 2)))
    >>> game.name, game.observation_shape
    ('history:nim', (38,))

    Args:
      game: a game written in JAX with discrete actions.

    Returns:
      The game with flat observations [(max_steps + 1) * observation + max_steps * actions].

    Raises:
      ValueError: if the game runs in Python or has continuous actions.
    """
    return WithHistory(game)
