"""Requirements on every game, however it is implemented, and their error messages."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.types import AnyWinner, Array, Game, GameState, LooselyBounded, PyTree, supports

_ATTRIBUTES = tuple(name for name in vars(Game) if not name.startswith("_") and name not in ("init", "step"))
_SURE = 14  # decided games that all go one way by accident with probability 2^-14 only


class GameError(AssertionError):
    """Raised if a game violates the `Game` protocol."""


def require(holds: Any, game: Game, message: str) -> None:
    """Raises GameError with the game's name and a message unless the condition holds."""
    if not holds:
        raise GameError(f"{_name(game)}: {message}")


_MISTAKES: dict[tuple[type[Exception], ...], tuple[str, str]] = {  # the mistake, and why it fails
    (jax.errors.TracerBoolConversionError, jax.errors.TracerIntegerConversionError): (
        "branches in Python on a traced value",
        ": under jit its value is not known. Use jnp.where, jax.lax.cond or jax.lax.while_loop.",
    ),
    (jax.errors.TracerArrayConversionError, jax.errors.ConcretizationTypeError): (
        "takes a traced value out of JAX",
        " (NumPy, float(), a shape that depends on it): under jit its value is not known. Use jax.numpy.",
    ),
    (jax.errors.UnexpectedTracerError,): (
        "uses a value of an earlier trace",
        ": the game or a variable outside of it is mutable. Store all state in GameState.inner.",
    ),
}


@contextmanager
def explain_errors(game: Game, where: str) -> Iterator[None]:
    """Turns exceptions of the game into a GameError with the line and the usual remedy."""
    try:
        yield
    except GameError:
        raise
    except Exception as error:
        known = (words for kinds, words in _MISTAKES.items() if isinstance(error, kinds))
        what, why = next(known, (f"raised {type(error).__name__}", f": {error}"))
        raise GameError(f"{_name(game)}: {where} {what}{_line(error)}{why}") from error


def _name(game: Any) -> str:
    return getattr(game, "name", type(game).__name__)


def _line(error: BaseException) -> str:
    """Formats the innermost line that belongs neither to this package nor to an installed library."""
    frames, foreign = traceback.extract_tb(error.__traceback__), {"site-packages", "gems_jax"}
    ours = [frame for frame in frames if not foreign.intersection(Path(frame.filename).parts)]
    return f", at {Path(ours[-1].filename).name}:{ours[-1].lineno}: {ours[-1].line}" if ours else ""


def check_declared(game: Game) -> None:
    """Checks the attributes that a game declares."""
    missing = [name for name in (*_ATTRIBUTES, "init", "step") if not hasattr(game, name)]
    require(not missing, game, f"the game lacks {', '.join(missing)}, which the Game protocol requires.")
    for name in ("num_seats", "num_actions", "max_steps"):
        value = getattr(game, name)
        require(_is_size(value), game, f"{name} must be an int of at least 1, got {value!r}.")
    shape = game.observation_shape
    sizes = isinstance(shape, tuple) and all(map(_is_size, shape))
    require(sizes, game, f"observation_shape must be a tuple of positive ints, got {shape!r}.")
    _check_owners(game, "player_of_seat", game.num_seats)
    _check_owners(game, "population_of_player", max(game.player_of_seat) + 1)
    low, high = game.return_bounds
    finite = -np.inf < low < high < np.inf
    require(finite, game, f"return_bounds must be finite with low < high, got {game.return_bounds!r}.")


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and value >= 1


def _check_owners(game: Game, name: str, length: int) -> None:
    owners = getattr(game, name)
    require(
        isinstance(owners, tuple) and len(owners) == length and set(owners) == set(range(max(owners) + 1)),
        game,
        f"{name} must be a tuple of {length} integers that covers 0 to its maximum, got {owners!r}.",
    )


def check_state(game: Game, state: GameState, where: str, batch: tuple[int, ...] = ()) -> None:
    """Checks shapes and dtypes of a state with leading axes `batch`."""
    require(isinstance(state, GameState), game, f"{where} must give a GameState, got {type(state).__name__}.")
    seats, actions = game.num_seats, game.num_actions
    expected: dict[str, tuple[tuple[int, ...], Any]] = {
        "observation": ((seats, *game.observation_shape), jnp.float32),
        "legal": ((seats, actions), jnp.bool_),
        "to_move": ((seats,), jnp.bool_),
        "reward": ((seats,), jnp.float32),
        "terminated": ((), jnp.bool_),
        "truncated": ((), jnp.bool_),
    }
    for name, (shape, dtype) in expected.items():
        array = getattr(state, name)
        got = (jnp.shape(array), jnp.result_type(array))
        declared = ((*batch, *shape), jnp.dtype(dtype))
        require(
            got == declared,
            game,
            f"{where} gives {name} as {got[1].name}{list(got[0])}, declared is {declared[1].name}{list(declared[0])}.",
        )


def random_actions(game: Game, legal: Array, key: Array) -> Array:
    """Draws random legal actions for one state.

    Args:
      game: the game.
      legal: [S, A] bool.
      key: consumed.

    Returns:
      [S] int32, or [S, A] in (-1, 1) for continuous actions; arbitrary for seats that are not to move.
    """
    if game.continuous:
        return jax.random.uniform(key, legal.shape, minval=-1.0, maxval=1.0)
    return jax.random.categorical(key, jnp.where(legal, 0.0, -1e9)).astype(jnp.int32)


def check_turn(game: Game, state: GameState, where: str) -> None:
    """Checks that states are finite and that legal actions, seats to move and the end agree."""
    over, to_move, legal = np.asarray(state.done), np.asarray(state.to_move), np.asarray(state.legal)
    finite = np.isfinite(state.observation).all() and np.isfinite(state.reward).all()
    require(finite, game, f"{where} gives an observation or a reward that is not finite.")
    both = np.asarray(state.terminated) & np.asarray(state.truncated)
    require(not both.any(), game, f"{where} gives a state both terminated and truncated: the rules come first.")
    require(not to_move[over].any(), game, f"{where}: a seat is to move in a finished game.")
    require(to_move[~over].any(axis=1).all(), game, f"{where}: nobody is to move in a game that is not finished.")
    if not game.simultaneous:
        require((to_move.sum(axis=1) <= 1).all(), game, f"{where}: two seats move at once, but simultaneous is False.")
    require(not legal[~to_move].any(), game, f"{where}: a seat has legal actions but is not to move.")
    require(legal[to_move].any(axis=1).all(), game, f"{where}: a seat is to move but has no legal action.")


def check_returns(game: Game, returns: np.ndarray) -> None:
    """Checks episode returns [E, S] against `return_bounds` and `zero_sum`."""
    owners = np.asarray(game.player_of_seat)
    players = np.stack([returns[:, owners == player].mean(axis=1) for player in range(owners.max() + 1)], axis=1)
    (low, high), slack = game.return_bounds, 1e-4 * max(1.0, float(np.abs(players).max()))
    if not (supports(game, LooselyBounded) and game.typical_bounds):
        worst = players.flat[np.argmax(np.maximum(players - high, low - players))]
        inside = low - slack <= worst <= high + slack
        require(
            inside, game, f"a player's episode return of {worst:g} lies outside return_bounds = ({low:g}, {high:g})."
        )
    if game.zero_sum:
        total = players.sum(axis=1)
        worst = total[np.argmax(np.abs(total))]
        require(abs(worst) <= slack, game, f"zero_sum is claimed, but the players' returns add up to {worst:g}.")


def check_winners(game: Game, returns: np.ndarray, last: np.ndarray) -> None:
    """Checks that the right seat is paid, as far as that is visible from outside.

    In turn-based games that are won and lost, it is suspicious if the last mover always loses, or if one seat always
    wins although either seat makes last moves. Games with such rules declare `any_winner = True`.

    Args:
      game: the game.
      returns: episode returns, [E, S].
      last: seat of the last move, [E].
    """
    duel = game.num_seats == 2 and game.zero_sum and not game.simultaneous
    if not duel or (supports(game, AnyWinner) and game.any_winner):
        return
    decided = returns[:, 0] != 0
    ended, paid = last[decided], returns[decided]
    if len(ended) < _SURE:
        return
    own = paid[np.arange(len(ended)), ended]
    way_out = "If these are the rules, declare an attribute any_winner = True."
    require(
        (own > 0).any(),
        game,
        f"the reward looks as if it went to the wrong seat: in all {len(ended)} games that were decided, the seat "
        f"which made the last move lost. {way_out}",
    )
    both = min((ended == 0).sum(), (ended == 1).sum()) >= _SURE // 2
    winner = int(np.argmax((paid > 0).sum(axis=0)))
    require(
        not (both and (paid[:, winner] > 0).all()),
        game,
        f"the reward looks as if it went to the wrong seat: seat {winner} won all {len(ended)} games that were "
        f"decided, though either seat made the last move in some. {way_out}",
    )


def take_row(tree: PyTree, index: Any) -> PyTree:
    # NumPy where possible: indexing device arrays compiles one program per shape.
    """Returns row `index` of every leaf."""
    return jax.tree.map(lambda leaf: leaf[index] if is_key(leaf) else np.asarray(leaf)[index], tree)


def is_key(leaf: Any) -> bool:
    """Returns whether a leaf is an array of typed PRNG keys."""
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def host_value(leaf: Any) -> np.ndarray:
    """Returns a leaf as a NumPy array, a PRNG key by its data."""
    return np.asarray(jax.random.key_data(leaf) if is_key(leaf) else leaf)


def require_equal(game: Game, left: PyTree, right: PyTree, message: str) -> None:
    """Requires that two trees are equal, floats to 1e-5."""
    require_same_structure(game, left, right, message.rsplit(":", 1)[0])
    for (path, a), (_, b) in zip(*map(jax.tree.leaves_with_path, (left, right)), strict=True):
        a, b = host_value(a), host_value(b)
        floats = np.issubdtype(a.dtype, np.floating)
        equal = np.allclose(a, b, rtol=1e-5, atol=1e-5, equal_nan=True) if floats else np.array_equal(a, b)
        require(equal, game, f"{message} {jax.tree_util.keystr(path).lstrip('.')}.")


def require_same_structure(game: Game, left: PyTree, right: PyTree, where: str) -> None:
    """Requires that two trees have the same structure, shapes and dtypes."""
    a: Any = jax.tree.structure(left)
    b: Any = jax.tree.structure(right)
    require(a == b, game, f"{where}: the structure of the state changed from {a} to {b}; a loop cannot carry it.")
    kind: Callable[[Any], Any] = lambda leaf: (jnp.shape(leaf), jnp.result_type(leaf))  # noqa: E731
    for (path, x), (_, y) in zip(*map(jax.tree.leaves_with_path, (left, right)), strict=True):
        name = jax.tree_util.keystr(path).lstrip(".")
        change = f"{where}: {name} changed from {kind(x)} to {kind(y)}; a loop cannot carry it."
        require(kind(x) == kind(y), game, change)
