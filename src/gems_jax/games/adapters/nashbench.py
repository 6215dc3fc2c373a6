"""Games of nashbench: `nashbench:<id>`, two players, zero-sum, exact exploitability.

nashbench draws at random which player takes which seat; here a seat is a seat of its rules. Chance acts at the start
only. Small games are enumerated like any other. For large ones, up to billions of histories, `best_response_gains` uses
nashbench's own exact evaluation.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.games.turns import allow_rank_promotion
from gems_jax.types import Array, GameState, Profile, PyTree, did_you_mean

NEEDS = 'needs the extra "nashbench" and Python 3.12 or newer: pip install "gems_jax[nashbench]"'


class Extent(NamedTuple):
    """Sizes that nashbench does not declare."""

    max_steps: int  # length of the longest episode
    most: float = 1.0  # largest win or loss of a seat


# By id, as a function of the game's parameters.
EXTENTS: dict[str, Callable[[Any], Extent]] = {
    "kuhn_poker": lambda game: Extent(3, 2.0),
    "leduc_poker": lambda game: Extent(8, 13.0),
    **dict.fromkeys(
        ("phantom_ttt", "phantom_ttt_abrupt", "dark_hex3", "dark_hex3_abrupt"),
        lambda game: Extent(2 * game.num_actions),  # a seat tries a cell at most once
    ),
    "goofspiel": lambda game: Extent(2 * (game.num_cards - 1)),
    "liars_dice": lambda game: Extent(game.num_actions),
    "oshi_zumo": lambda game: Extent(2 * game.coins),
    "battleship": lambda game: Extent(2 + 2 * game.num_shots),
    "blotto": lambda game: Extent(2),
    "universal_poker": lambda game: Extent(
        game.num_rounds * (game.max_raises + 2), 1.0 + game.max_raises * sum(game.raise_sizes)
    ),
}


def load_nashbench(id: str) -> Any:
    """Imports nashbench.

    Args:
      id: the game that needs it, for the message.

    Returns:
      The module.

    Raises:
      ImportError: if it is not installed; the message names alternatives for Python older than 3.12.
    """
    try:
        # Importing it makes arrays, which would become leaked tracers inside a trace.
        with jax.ensure_compile_time_eval():
            import nashbench
    except (ImportError, SyntaxError) as error:
        here = f"{sys.version_info.major}.{sys.version_info.minor}"
        raise ImportError(
            f"nashbench:{id} {NEEDS}. This is Python {here}; openspiel:liars_dice, openspiel:goofspiel and other games "
            "of OpenSpiel have the same rules and need Python 3.11 only."
        ) from error
    return nashbench


@functools.lru_cache(maxsize=32)
def _rules(id: str, options: tuple[tuple[str, Any], ...]) -> Any:
    """Returns the game of nashbench."""
    library = load_nashbench(id)
    if id not in EXTENTS or id not in library.REGISTRY:
        known = [name for name in library.REGISTRY if name in EXTENTS]
        raise ValueError(f"nashbench has no game {id!r}; {did_you_mean(id, known, 3)}known: {', '.join(known)}.")
    try:
        return library.make(id, **dict(options))
    except TypeError as error:
        raise ValueError(f"nashbench:{id} cannot be made with {dict(options)}: {error}") from error


@functools.lru_cache(maxsize=32)
def _starts(id: str, options: tuple[tuple[str, Any], ...]) -> tuple[PyTree, np.ndarray]:
    """Returns all initial states [N] and their probabilities [N] float64, on the host."""
    with jax.ensure_compile_time_eval(), allow_rank_promotion():
        states, chance = _rules(id, options).initial_states()
        return jax.tree.map(np.asarray, states), np.asarray(chance, np.float64)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class NashbenchGame:
    """A game of nashbench, made by `nashbench_game`. Positions are states of its rules."""

    id: str
    options: tuple[tuple[str, Any], ...] = ()
    shared: bool = False

    num_seats = 2
    simultaneous = False
    continuous = False
    zero_sum = True
    truncates = False
    player_of_seat = (0, 1)

    @property
    def rules(self) -> Any:
        """The game of nashbench."""
        return _rules(self.id, self.options)

    @property
    def name(self) -> str:
        return f"nashbench:{self.id}"

    @property
    def num_actions(self) -> int:
        return self.rules.num_actions

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return tuple(self.rules.observation_shape)

    @property
    def max_steps(self) -> int:
        return EXTENTS[self.id](self.rules).max_steps

    @property
    def return_bounds(self) -> tuple[float, float]:
        most = float(EXTENTS[self.id](self.rules).most)
        return -most, most

    @property
    def population_of_player(self) -> tuple[int, ...]:
        return (0, 0) if self.shared else (0, 1)

    def init(self, key: Array) -> GameState:
        """Draws an initial state. key: consumed."""
        states, chance = _starts(self.id, self.options)
        ends = jnp.asarray(np.cumsum(chance)[:-1], jnp.float32)
        drawn = jnp.searchsorted(ends, jax.random.uniform(key), side="right")
        return self._game_state(jax.tree.map(lambda leaf: jnp.asarray(leaf)[drawn], states), jnp.zeros(2))

    def deals(self) -> tuple[GameState, Array]:
        """Returns all initial states, [N], and their probabilities, [N]."""
        states, chance = _starts(self.id, self.options)
        start = jax.vmap(lambda one: self._game_state(one, jnp.zeros(2)))
        return start(jax.tree.map(jnp.asarray, states)), jnp.asarray(chance, jnp.float32)

    def step(self, state: GameState, actions: Array, key: Array) -> GameState:
        """Plays the move of the seat to move, one of actions [2] int32. key: unused, chance acts in `init`."""
        del key
        before = state.inner
        action = jnp.where(before.current_seat == 0, actions[0], actions[1])
        with allow_rank_promotion():
            moved = self.rules.apply_action(before, action)
            after = jax.tree.map(lambda old, new: jnp.where(before.done, old, new.astype(old.dtype)), before, moved)
            reward = self.rules.returns(after) - self.rules.returns(before)
        return self._game_state(after, reward)

    def _game_state(self, inner: PyTree, reward: Array) -> GameState:
        seat = inner.current_seat
        to_move = (jnp.arange(2) == seat) & ~inner.done
        with allow_rank_promotion():
            seen = self.rules.observe(inner, seat).astype(jnp.float32)
            legal = self.rules.legal_action_mask(inner, seat)
        moves = to_move.reshape(2, *(1,) * seen.ndim)
        return GameState(
            inner=inner,
            observation=jnp.where(moves, seen[None], 0.0),
            legal=to_move[:, None] & legal[None],
            to_move=to_move,
            reward=reward.astype(jnp.float32),
            terminated=inner.done,
            truncated=jnp.zeros((), jnp.bool_),
        )

    def best_response_gains(self, profile: Profile) -> np.ndarray:
        """Computes what each player gains by a best response to the profile, exactly, with nashbench's sequence form.

        Runs on the host, not inside a trace.

        Args:
          profile: mixtures sigma [P, K] over populations with a leading axis P.

        Returns:
          BR_p - u_p, [2] float64: the sum is NashConv, half of it exploitability.
        """
        library = load_nashbench(self.id)
        mixtures = [_mixture(library, profile, population) for population in range(profile.sigma.shape[0])]
        both = tuple(mixtures[population] for population in self.population_of_player)
        with allow_rank_promotion():
            return np.asarray(library.evaluate(self.rules, both).gains)


def _mixture(library: Any, profile: Profile, population: int) -> Any:
    """Makes the nashbench mixture of one population of a profile."""
    own: Any = jax.tree.map(lambda leaf: leaf[population], profile.population)
    weights = np.asarray(profile.sigma[population], np.float64)
    played = np.flatnonzero(weights > 0)
    return library.Mixture([_policy(own, int(slot)) for slot in played], weights[played])


def _policy(population: Any, slot: int) -> Callable[[Array, Array], Array]:
    """Makes the nashbench policy of a slot: from an observation and the legal actions to probabilities [A]."""
    params = population.select(jnp.int32(slot))

    def act(observation: Array, legal: Array) -> Array:
        logits = population.apply(params, observation, legal).logits
        return jnp.where(legal, jax.nn.softmax(jnp.where(legal, logits, -jnp.inf)), 0.0)

    return act


def nashbench_game(id: str, *, shared: bool = False, **options: Any) -> NashbenchGame:
    """Makes `nashbench:<id>`.

    Args:
      id: a name of `nashbench.REGISTRY`.
      shared: both players are drawn from one population.
      options: parameters of the game, such as `num_cards` of goofspiel.

    Returns:
      The game.

    Raises:
      ImportError: if nashbench is not installed.
      ValueError: if there is no such game, or if it has no such parameter.
    """
    hashable = ((name, tuple(value) if isinstance(value, list) else value) for name, value in sorted(options.items()))
    game = NashbenchGame(id, tuple(hashable), shared)
    _ = game.rules
    return game
