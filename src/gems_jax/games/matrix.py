"""Normal-form games of any number of players: all choose once, simultaneously.

A matrix game is the only game with an array leaf: its payoff tensor. A batch of games is a game whose payoffs have one
more axis, so 50 random games compile once:

    games = jax.vmap(lambda payoffs: matrix_game(payoffs, return_bounds=(-1.0, 1.0), zero_sum=True))(payoffs)
    jax.vmap(solve)(games)
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from gems_jax.types import Array, GameState, PRNGKey, Struct, expect, static_field


class MatrixGame(Struct):
    """A normal-form game: every seat observes its own index, acts once, and earns its entry of `payoffs`.

    Make one with `matrix_game`. All attributes of `Game` are available.

    Attributes:
      payoffs: payoff tensor, [S, A_0, ..., A_{S-1}] float32, a leaf: a batch of games has one more leading axis.
      action_counts: A_0, ..., A_{S-1}.
      return_bounds: smallest and largest payoff, or wider bounds.
      zero_sum: whether the payoffs of all seats sum to zero.
      shared: whether all players are drawn from one population.
      name: identifies the game in messages and files.
    """

    payoffs: Array
    action_counts: tuple[int, ...] = static_field()
    return_bounds: tuple[float, float] = static_field()
    zero_sum: bool = static_field()
    shared: bool = static_field(default=False)
    name: str = static_field(default="matrix")

    max_steps = 1
    simultaneous = True
    continuous = False

    # Compared by value, so that concrete games can be static arguments and dictionary keys.
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MatrixGame):
            return NotImplemented
        return self._statics() == other._statics() and np.array_equal(self.payoffs, other.payoffs)

    def __hash__(self) -> int:
        return hash((self._statics(), np.asarray(self.payoffs).tobytes()))

    def _statics(self) -> tuple[Any, ...]:
        return self.action_counts, self.return_bounds, self.zero_sum, self.shared, self.name

    @property
    def num_seats(self) -> int:
        return len(self.action_counts)

    @property
    def num_actions(self) -> int:
        return max(self.action_counts)

    @property
    def observation_shape(self) -> tuple[int, ...]:
        return (self.num_seats,)

    @property
    def player_of_seat(self) -> tuple[int, ...]:
        return tuple(range(self.num_seats))

    @property
    def population_of_player(self) -> tuple[int, ...]:
        return (0,) * self.num_seats if self.shared else tuple(range(self.num_seats))

    def init(self, key: PRNGKey) -> GameState:
        """Starts an episode.

        Args:
          key: typed PRNG key; unused, because there is one initial state.

        Returns:
          The first state.
        """
        del key
        return self._game_state(jnp.zeros(self.num_seats, jnp.float32), jnp.zeros((), jnp.bool_))

    def step(self, state: GameState, actions: Int[Array, " S"], key: PRNGKey) -> GameState:
        """Plays all seats' actions, which ends the episode.

        Args:
          state: the current state.
          actions: [S] int32.
          key: typed PRNG key; unused.

        Returns:
          The final state, with the payoffs as rewards [S].
        """
        del key
        played = self.payoffs[(slice(None), *(actions[seat] for seat in range(self.num_seats)))]
        return self._game_state(jnp.where(state.done, 0.0, played), jnp.ones((), jnp.bool_))

    def deals(self) -> tuple[GameState, Float[Array, " 1"]]:
        """Lists the initial states (`gems_jax.types.Enumerable`).

        Returns:
          The only initial state, leaves [1, ...], and its probability 1, [1].
        """
        start = self.init(jax.random.key(0))
        return jax.tree.map(lambda leaf: leaf[None], start), jnp.ones(1, jnp.float32)

    def infosets(self) -> tuple[np.ndarray, np.ndarray]:
        """Lists the information sets, on the host, so they are known even if the payoffs are traced.

        Returns:
          Observations [S, S] float32, and legal actions [S, A] bool.
        """
        legal = np.arange(self.num_actions)[None, :] < np.asarray(self.action_counts)[:, None]  # padded where unequal
        return np.eye(self.num_seats, dtype=np.float32), legal

    def _game_state(self, reward: Array, terminated: Array) -> GameState:
        observation, legal = self.infosets()
        return GameState(
            inner=(),
            observation=jnp.asarray(observation),
            legal=jnp.asarray(legal) & ~terminated,
            to_move=jnp.full(self.num_seats, ~terminated),
            reward=reward,
            terminated=terminated,
            truncated=jnp.zeros((), jnp.bool_),
        )


def matrix_game(
    payoffs: Any,
    *,
    shared: bool = False,
    return_bounds: tuple[float, float] | None = None,
    zero_sum: bool | None = None,
    name: str = "matrix",
) -> MatrixGame:
    """Makes a normal-form game from its payoffs.

    >>> from gems_jax import matrix_game
    >>> game = matrix_game([[0, -1, 3], [1, 0, -2], [-3, 2, 0]])
    >>> game.payoffs.shape, game.zero_sum, game.return_bounds
    ((2, 3, 3), True, (-3.0, 3.0))

    Args:
      payoffs: a matrix A (two players, zero-sum: the row player earns A, the column player -A), a pair of matrices (two
        players, general-sum), or a tensor [S, A_0, ..., A_{S-1}] whose entry s holds the payoffs of seat s.
      shared: draw all players from one population. They need equally many actions.
      return_bounds: bounds of the payoffs; by default the smallest and largest one. Required if payoffs are traced
        (inside jit or vmap).
      zero_sum: whether payoffs sum to zero; by default computed. Required if payoffs are traced.
      name: identifies the game in messages and files.

    Returns:
      A `MatrixGame` with S seats, each of them a player.

    Raises:
      ValueError: if the payoffs have no such shape, are not finite, or contradict the other arguments.
    """
    traced = any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree.leaves(payoffs))
    tensor = _tensor(payoffs, traced)
    counts = tuple(tensor.shape[1:])
    equal_counts = not shared or len(set(counts)) == 1
    expect(equal_counts, f"shared=True needs equally many actions for all players, got {counts}.")
    if not traced:
        return_bounds, zero_sum = _bounds(tensor, return_bounds), _sums_to_zero(tensor, zero_sum)
    missing = "return_bounds=(lowest, highest)" if return_bounds is None else "zero_sum=True or False"
    if return_bounds is None or zero_sum is None:
        raise ValueError(f"{missing.split('=')[0]} cannot be computed from traced payoffs: pass {missing}.")
    low, high = map(float, return_bounds)
    return MatrixGame(jnp.asarray(tensor), counts, (low, high), zero_sum, shared, name)


def _sums_to_zero(tensor: Any, declared: bool | None) -> bool:
    found = bool(np.allclose(tensor.sum(axis=0), 0.0, atol=1e-5 * np.abs(tensor).max()))
    expect(found or not declared, "zero_sum=True does not hold: expected payoffs that add up to zero.")
    return found if declared is None else declared


def _tensor(payoffs: Any, traced: bool) -> Any:
    """Returns the payoffs [S, A_0, ..., A_{S-1}] float32, on the host unless traced."""
    xp = jnp if traced else np
    try:
        tensor = xp.asarray(payoffs, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise ValueError(f"payoffs must be a matrix, a pair of equal-shaped matrices or a tensor: {error}") from error
    if tensor.ndim == 2:
        tensor = xp.stack([tensor, -tensor])
    expect(
        tensor.shape[:1] == (tensor.ndim - 1,) and tensor.size > 0,
        f"payoffs do not define a game: expected a matrix [A_0, A_1], a pair of matrices, or [S, A_0, ..., A_{{S-1}}] "
        f"with one axis of actions for each of the S seats, got shape {tensor.shape}.",
    )
    return tensor


def _bounds(tensor: np.ndarray, declared: tuple[float, float] | None) -> tuple[float, float]:
    expect(np.isfinite(tensor).all(), "payoffs must be finite, got NaN or infinity.")
    low, high = float(tensor.min()), float(tensor.max())
    if declared is None:
        return (low, high) if low < high else (low - 0.5, low + 0.5)  # estimators divide by the width
    holds = declared[0] <= low <= high <= declared[1] and declared[0] < declared[1]
    expect(holds, f"return_bounds {declared} do not contain the payoffs, which lie in [{low}, {high}].")
    return declared


def rock_paper_scissors(shared: bool = False) -> MatrixGame:
    """Makes rock, paper, scissors: value 0, Nash (1/3, 1/3, 1/3)."""
    return matrix_game(_rps(1.0, 1.0, 1.0), shared=shared, name="rock_paper_scissors")


def biased_rps(a: float = 1.0, b: float = 2.0, c: float = 3.0, shared: bool = False) -> MatrixGame:
    """Makes biased rock, paper, scissors: Nash proportional to (b, c, a).

    Args:
      a: payoff of paper against rock.
      b: payoff of scissors against paper.
      c: payoff of rock against scissors.
      shared: both players are drawn from one population.
    """
    expect(min(a, b, c) > 0, f"biased_rps needs a, b, c > 0, got {(a, b, c)}.")
    return matrix_game(_rps(a, b, c), shared=shared, name="biased_rps")


def _rps(a: float, b: float, c: float) -> np.ndarray:
    return np.array([[0.0, -a, c], [a, 0.0, -b], [-c, b, 0.0]])


def matching_pennies(shared: bool = False) -> MatrixGame:
    """Makes matching pennies, where the row player wants a match: value 0, Nash (1/2, 1/2)."""
    return matrix_game(np.array([[1.0, -1.0], [-1.0, 1.0]]), shared=shared, name="matching_pennies")


def biased_matching_pennies(shared: bool = False) -> MatrixGame:
    """Makes matching pennies where two heads pay double: value 1/5, Nash (2/5, 3/5) for both."""
    return matrix_game(np.array([[2.0, -1.0], [-1.0, 1.0]]), shared=shared, name="biased_matching_pennies")


def prisoners_dilemma(
    temptation: float = 5.0, reward: float = 3.0, punishment: float = 1.0, sucker: float = 0.0, shared: bool = False
) -> MatrixGame:
    """Makes the prisoner's dilemma: cooperate (0) or defect (1), where defecting dominates.

    Args:
      temptation: payoff of defecting against a cooperator.
      reward: payoff of mutual cooperation.
      punishment: payoff of mutual defection.
      sucker: payoff of cooperating against a defector.
      shared: both players are drawn from one population.

    Returns:
      The game.

    Raises:
      ValueError: unless temptation > reward > punishment > sucker.
    """
    order = (temptation, reward, punishment, sucker)
    falls = temptation > reward > punishment > sucker
    expect(falls, f"prisoners_dilemma needs temptation > reward > punishment > sucker, got {order}.")
    row = np.array([[reward, sucker], [temptation, punishment]])
    return matrix_game(np.stack([row, row.T]), shared=shared, name="prisoners_dilemma")
