"""`check_game`: does a game keep the promises of the `Game` protocol? For games of this package and for your own.

from gems_jax.testing import check_game
check_game(MyGame())        # silent, or a GameError that says what is wrong and where
"""

from __future__ import annotations

import copy
import dataclasses
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.types import Array, Game, GameState, NotEnumerableError, PyTree

__all__ = ["GameError", "check_game"]

_ATTRIBUTES = tuple(name for name in vars(Game) if not name.startswith("_") and name not in ("init", "step"))


_Init = Callable[[Array], GameState]
_Step = Callable[[GameState, Array, Array], GameState]


class _Rows(NamedTuple):
    """The game's functions over a batch of states."""

    init: _Init
    step: _Step


class GameError(AssertionError):
    """A game broke a promise of the `Game` protocol."""


def check_game(game: Game, *, key: Array | None = None, episodes: int = 32) -> None:
    """Plays `episodes` random episodes and raises `GameError`, in plain words, at the first broken promise.

    Checked: declared sizes, shapes and dtypes; equal games compare and hash equal and do not retrace; jit = eager;
    vmap = loop; `step` is pure and ignores the actions of seats that are not to move; somebody can always act and only
    seats to move may; a finished game is absorbing; episodes end within `max_steps`, with returns inside
    `return_bounds` and adding up to zero where `zero_sum` says so; `deals`, if any, agrees with `init`.

    A game whose `return_bounds` are a typical interval and no limit says so by an attribute `typical_bounds = True`.
    key: seed of the check, jax.random.key(0) by default.
    """
    if episodes < 1:
        raise ValueError(f"episodes must be at least 1, got {episodes}.")
    key_init, key_single, key_deals, key_play = jax.random.split(jax.random.key(0) if key is None else key, 4)
    _check_declared(game)
    _check_identity(game)
    init, step = jax.jit(game.init), jax.jit(game.step)  # compiled once for all checks
    rows = _Rows(jax.jit(jax.vmap(game.init)), jax.jit(jax.vmap(game.step)))
    _check_single(game, init, step, key_single)
    _check_play(game, init, step, rows, jax.random.split(key_init, episodes), key_play)
    _check_deals(game, rows, key_deals, episodes)


def _require(holds: Any, game: Game, message: str) -> None:
    if not holds:
        raise GameError(f"{getattr(game, 'name', type(game).__name__)}: {message}")


def _check_declared(game: Game) -> None:
    missing = [name for name in (*_ATTRIBUTES, "init", "step") if not hasattr(game, name)]
    _require(not missing, game, f"the game lacks {', '.join(missing)}, which the Game protocol asks for.")
    for name in ("num_seats", "num_actions", "max_steps"):
        value = getattr(game, name)
        _require(isinstance(value, int) and value >= 1, game, f"{name} must be an int of at least 1, got {value!r}.")
    shape = game.observation_shape
    sizes = isinstance(shape, tuple) and all(isinstance(size, int) and size >= 1 for size in shape)
    _require(sizes, game, f"observation_shape must be a tuple of positive ints, got {shape!r}.")
    for name, length in (("player_of_seat", game.num_seats), ("population_of_player", max(game.player_of_seat) + 1)):
        owners = getattr(game, name)
        _require(
            isinstance(owners, tuple) and len(owners) == length and set(owners) == set(range(max(owners) + 1)),
            game,
            f"{name} must be a tuple of {length} numbers that leaves out none from 0 up, got {owners!r}.",
        )
    low, high = game.return_bounds
    finite = np.isfinite([low, high]).all() and low < high
    _require(finite, game, f"return_bounds must be finite with low < high, got {game.return_bounds!r}.")


def _check_identity(game: Game) -> None:
    leaves = jax.tree.leaves(game)
    arrays = all(isinstance(leaf, (jax.Array, np.ndarray)) for leaf in leaves)
    _require(arrays, game, "JAX takes the game for data: decorate its class with jax.tree_util.register_static.")
    twin = copy.deepcopy(game)
    try:
        same = game == twin and hash(game) == hash(twin)
    except TypeError as error:
        raise GameError(f"{game.name}: the game cannot be hashed ({error}): make it a frozen dataclass.") from error
    _require(
        same, game, "an exact copy of the game is not equal to it, or hashes differently: make it a frozen dataclass."
    )
    traces = []

    @jax.jit
    def probe(game: Game, key: Array) -> GameState:
        traces.append(1)
        return game.init(key)

    for each in (game, twin):
        probe.eval_shape(each, jax.random.key(0))
    _require(len(traces) == 1, game, "an equal copy of the game was traced again: static fields must compare by value.")


def _check_state(game: Game, state: GameState, where: str, batch: tuple[int, ...] = ()) -> None:
    """Declared shapes and dtypes."""
    _require(isinstance(state, GameState), game, f"{where} must give a GameState, got {type(state).__name__}.")
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
        _require(
            got == declared,
            game,
            f"{where} gives {name} as {got[1].name}{list(got[0])}, declared is {declared[1].name}{list(declared[0])}.",
        )


def _actions(game: Game, legal: Array, key: Array) -> Array:
    """Random actions of one state: legal where there are any, and something for the seats that do not move."""
    if game.continuous:
        return jax.random.uniform(key, legal.shape, minval=-1.0, maxval=1.0)
    return jax.random.categorical(key, jnp.where(legal, 0.0, -1e9)).astype(jnp.int32)


def _check_single(game: Game, jit_init: _Init, jit_step: _Step, key: Array, steps: int = 2) -> None:
    """The first steps of one episode without vmap: jit = eager, and the same input twice gives the same output."""
    key_init, key = jax.random.split(key)
    clone = jax.random.clone
    state = game.init(key_init)
    _check_state(game, state, "init")
    _same(game, state, game.init(clone(key_init)), "init is not pure: the same key twice gave different")
    _same(game, state, jit_init(clone(key_init)), "jit(init) differs from init in")
    for index in range(min(steps, game.max_steps)):
        key, key_act, key_step = jax.random.split(key, 3)
        actions = _actions(game, state.legal, key_act)
        where = f"step {index + 1}"
        after = game.step(state, actions, key_step)
        _check_state(game, after, where)
        _same_structure(game, state, after, where)
        if index == 0:  # once: what runs without jit is slow
            twice = game.step(state, actions, clone(key_step))
            _same(game, after, twice, f"{where} is not pure: the same input twice gave different")
        _same(game, after, jit_step(state, actions, clone(key_step)), f"{where}: jit(step) differs from step in")
        state = after


def _check_play(game: Game, jit_init: _Init, jit_step: _Step, rows: _Rows, keys: Array, key: Array) -> None:
    """A batch of random episodes, played to the end and one step beyond."""
    init, step = rows
    act = jax.jit(jax.vmap(lambda legal, key: _actions(game, legal, key)))
    state = init(keys)
    _check_state(game, state, "vmap(init)", keys.shape)
    alone = jit_init(jax.random.clone(keys)[0])
    _same(game, _row(state, 0), alone, "vmap(init) differs from init in")
    _require(not np.any(state.done), game, "init gives a finished game.")
    _require(not np.any(state.reward), game, "init gives a reward; nothing was played yet.")
    _check_turn(game, state, "init")
    returns, index = np.asarray(state.reward), 0
    while index <= game.max_steps:
        was_over = np.asarray(state.done)
        _require(
            was_over.all() or index < game.max_steps,
            game,
            f"{int((~was_over).sum())} of {len(keys)} episodes still run after max_steps = {game.max_steps} steps.",
        )
        index += 1
        key, key_act, key_step = jax.random.split(key, 3)
        key_acts, key_steps = jax.random.split(key_act, len(keys)), jax.random.split(key_step, len(keys))
        actions = act(state.legal, key_acts)
        after = step(state, actions, key_steps)
        where = f"step {index}"
        idle = actions + jnp.asarray(~state.to_move).reshape(*state.to_move.shape, *(1,) * (actions.ndim - 2))
        ignored = step(state, idle.astype(actions.dtype), jax.random.clone(key_steps))
        _same(game, after, ignored, f"{where}: the action of a seat that is not to move changed")
        alone = jit_step(_row(state, 0), actions[0], jax.random.clone(key_steps)[0])
        _same(game, _row(after, 0), alone, f"{where}: vmap(step) differs from step in")
        _check_absorbing(game, state, after, was_over, where)
        _check_turn(game, after, where)
        returns, state = returns + np.asarray(after.reward), after
        if was_over.all():
            break
    _check_returns(game, returns)


def _check_turn(game: Game, state: GameState, where: str) -> None:
    over, to_move, legal = np.asarray(state.done), np.asarray(state.to_move), np.asarray(state.legal)
    finite = np.isfinite(state.observation).all() and np.isfinite(state.reward).all()
    _require(finite, game, f"{where} gives an observation or a reward that is not finite.")
    both = np.asarray(state.terminated) & np.asarray(state.truncated)
    _require(not both.any(), game, f"{where} gives a state both terminated and truncated: the rules come first.")
    _require(not to_move[over].any(), game, f"{where}: a seat is to move in a finished game.")
    _require(to_move[~over].any(axis=1).all(), game, f"{where}: nobody is to move in a game that is not finished.")
    if not game.simultaneous:
        _require((to_move.sum(axis=1) <= 1).all(), game, f"{where}: two seats move at once, but simultaneous is False.")
    _require(not legal[~to_move].any(), game, f"{where}: a seat has legal actions but is not to move.")
    _require(legal[to_move].any(axis=1).all(), game, f"{where}: a seat is to move but has no legal action.")


def _check_absorbing(game: Game, before: GameState, after: GameState, was_over: np.ndarray, where: str) -> None:
    if not was_over.any():
        return
    rows = np.flatnonzero(was_over)
    _require(
        not np.asarray(after.reward)[rows].any(), game, f"{where}: a finished game pays a reward when stepped again."
    )
    left, right = (
        _row(dataclasses.replace(state, reward=state.terminated), rows) for state in (before, after)
    )  # all but rewards
    _same(game, left, right, f"{where}: a finished game is not absorbing: stepping it again changed")


def _check_returns(game: Game, returns: np.ndarray) -> None:
    owners = np.asarray(game.player_of_seat)
    players = np.stack([returns[:, owners == player].mean(axis=1) for player in range(owners.max() + 1)], axis=1)
    (low, high), slack = game.return_bounds, 1e-4 * max(1.0, float(np.abs(players).max()))
    if not getattr(game, "typical_bounds", False):
        worst = players.flat[np.argmax(np.maximum(players - high, low - players))]
        inside = low - slack <= worst <= high + slack
        _require(
            inside, game, f"a player's episode return of {worst:g} lies outside return_bounds = ({low:g}, {high:g})."
        )
    if game.zero_sum:
        total = players.sum(axis=1)
        worst = total[np.argmax(np.abs(total))]
        _require(abs(worst) <= slack, game, f"zero_sum is claimed, but the players' returns add up to {worst:g}.")


def _check_deals(game: Game, rows: _Rows, key: Array, episodes: int, failure: float = 1e-6) -> None:
    """`deals` against `init`, by the observations along the line of first legal actions (hidden cards come out)."""
    if not hasattr(game, "deals"):
        return
    try:
        states, probabilities = game.deals()
    except (NotEnumerableError, NotImplementedError):
        return
    weights = np.asarray(probabilities, np.float64)
    good = weights.ndim == 1 and np.all(weights >= 0) and abs(weights.sum() - 1) < 1e-5
    _require(
        good,
        game,
        f"deals: probabilities must be [N], >= 0 and sum to 1, got shape {weights.shape}, sum {weights.sum():g}.",
    )
    _check_state(game, states, "deals", weights.shape)
    # As many rows of either kind as were compiled for already, where one start is all there is.
    samples = max(4096, len(weights)) if len(weights) > 1 else episodes
    key_init, *keys = jax.random.split(key, 3)
    listed_states = jax.tree.map(lambda leaf: leaf[jnp.arange(samples) % len(weights)], states)
    both = (listed_states, rows.init(jax.random.split(key_init, samples)))
    played, again = ([_first_legal_line(game, rows, start, key) for start in both] for key in keys)
    # chance moves: compare the start only
    steps = slice(None) if all(map(np.array_equal, played, again)) else slice(0, 1)
    listed, seen = _rows_as_bytes(played[0][steps])[: len(weights)], _rows_as_bytes(played[1][steps])
    expected: dict[bytes, float] = {}
    for name, weight in zip(listed, weights, strict=True):
        expected[name] = expected.get(name, 0.0) + weight
    counts = Counter(seen)
    strange = sum(count for name, count in counts.items() if expected.get(name, 0.0) == 0)
    _require(
        strange == 0,
        game,
        f"deals: {strange} of {len(seen)} games from init start in a state that deals does not list.",
    )
    # Bernstein's inequality with a union bound: a right game fails with probability below `failure`.
    log = np.log(2 * len(expected) / failure)
    for name, weight in expected.items():
        share = counts[name] / len(seen)
        slack = np.sqrt(2 * weight * (1 - weight) * log / len(seen)) + log / (3 * len(seen)) * 2
        message = f"deals: a start of probability {weight:.4f} came up in {share:.4f} of {len(seen)} games from init."
        _require(abs(share - weight) <= slack, game, message)


def _first_legal_line(game: Game, rows: _Rows, states: GameState, key: Array, steps: int = 16) -> np.ndarray:
    """[T, N, S, *obs] observations while every seat plays its first legal action."""
    seen = []
    for subkey in jax.random.split(jax.random.clone(key), min(steps, game.max_steps)):
        seen.append(np.asarray(states.observation))
        legal = np.asarray(states.legal)
        actions = np.zeros(legal.shape, np.float32) if game.continuous else legal.argmax(axis=-1).astype(np.int32)
        states = rows.step(states, jnp.asarray(actions), jax.random.split(subkey, len(legal)))
    return np.stack(seen)


def _rows_as_bytes(line: np.ndarray) -> list[bytes]:
    return [line[:, row].tobytes() for row in range(line.shape[1])]


def _row(tree: PyTree, index: Any) -> PyTree:
    # NumPy where possible: indexing device arrays compiles one program per shape.
    return jax.tree.map(lambda leaf: leaf[index] if _is_key(leaf) else np.asarray(leaf)[index], tree)


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)


def _host(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _same(game: Game, left: PyTree, right: PyTree, message: str) -> None:
    """Equal trees; floats to 1e-5."""
    _same_structure(game, left, right, message.rsplit(":", 1)[0])
    for (path, a), (_, b) in zip(*map(jax.tree.leaves_with_path, (left, right)), strict=True):
        a, b = _host(a), _host(b)
        floats = np.issubdtype(a.dtype, np.floating)
        equal = np.allclose(a, b, rtol=1e-5, atol=1e-5, equal_nan=True) if floats else np.array_equal(a, b)
        _require(equal, game, f"{message} {jax.tree_util.keystr(path).lstrip('.')}.")


def _same_structure(game: Game, left: PyTree, right: PyTree, where: str) -> None:
    a: Any = jax.tree.structure(left)
    b: Any = jax.tree.structure(right)
    _require(a == b, game, f"{where}: the structure of the state changed from {a} to {b}; a loop cannot carry it.")
    kind: Callable[[Any], Any] = lambda leaf: (jnp.shape(leaf), jnp.result_type(leaf))  # noqa: E731
    for (path, x), (_, y) in zip(*map(jax.tree.leaves_with_path, (left, right)), strict=True):
        name = jax.tree_util.keystr(path).lstrip(".")
        change = f"{where}: {name} changed from {kind(x)} to {kind(y)}; a loop cannot carry it."
        _require(kind(x) == kind(y), game, change)
