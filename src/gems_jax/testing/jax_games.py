"""Checks of games that are implemented in JAX."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from gems_jax.testing.promises import (
    GameError,
    check_declared,
    check_returns,
    check_state,
    check_turn,
    check_winners,
    explain_errors,
    is_key,
    random_actions,
    require,
    require_equal,
    require_same_structure,
    take_row,
)
from gems_jax.types import Array, Enumerable, Game, GameState, NotEnumerableError, PyTree, supports

_Init = Callable[[Array], GameState]
_Step = Callable[[GameState, Array, Array], GameState]


class _Rows(NamedTuple):
    """The game's functions, vmapped and jitted."""

    init: _Init
    step: _Step


def check_jax_game(game: Game, key: Array, episodes: int) -> None:
    """Checks a game that is implemented in JAX, see `check_game`.

    Args:
      game: the game.
      key: consumed.
      episodes: number of random episodes.

    Raises:
      GameError: at the first violation.
    """
    key_init, key_single, key_deals, key_play = jax.random.split(key, 4)
    check_declared(game)
    _check_identity(game)
    init, step = jax.jit(game.init), jax.jit(game.step)  # compiled once for all checks
    rows = _Rows(jax.jit(jax.vmap(game.init)), jax.jit(jax.vmap(game.step)))
    _check_single(game, init, step, key_single)
    _check_play(game, init, step, rows, jax.random.split(key_init, episodes), key_play)
    _check_deals(game, rows, key_deals, episodes)


def _check_identity(game: Game) -> None:
    leaves = jax.tree.leaves(game)
    arrays = all(isinstance(leaf, (jax.Array, np.ndarray)) for leaf in leaves)
    require(arrays, game, "JAX treats the game as data. Decorate its class with jax.tree_util.register_static.")
    twin = copy.deepcopy(game)
    try:
        equal, hashes = game == twin, (hash(game), hash(game), hash(twin))
    except TypeError as error:
        raise GameError(
            f"{game.name}: the game cannot be hashed ({error}): it holds a mutable value or disables __hash__. Make "
            "it a frozen dataclass of numbers, strings and tuples."
        ) from error
    require(equal, game, "the hash is wrong: an exact copy of the game is not equal to it. Make it a frozen dataclass.")
    require(
        len(set(hashes)) == 1,
        game,
        "the hash is wrong: an exact copy of the game is equal to it but hashes differently. Leave __hash__ to a "
        "frozen dataclass.",
    )
    ignored = _ignored_fields(game)
    require(
        not ignored,
        game,
        f"the hash is wrong: it leaves out {', '.join(ignored)}. Games that differ only there would share compiled "
        "programs.",
    )
    _check_traced_once(game, twin)


def _ignored_fields(game: Game) -> list[str]:
    """Returns the names of fields that do not count in comparisons or hashes."""
    fields: tuple[Any, ...] = dataclasses.fields(game) if dataclasses.is_dataclass(game) else ()
    return [field.name for field in fields if field.compare is False or field.hash is False]


def _check_traced_once(game: Game, twin: Game) -> None:
    traces = []

    @jax.jit
    def probe(game: Game, key: Array) -> GameState:
        traces.append(1)
        return game.init(key)

    for each in (game, twin):
        with explain_errors(game, "jit(init)"):
            probe.eval_shape(each, jax.random.key(0))
    require(len(traces) == 1, game, "an equal copy of the game was traced again: static fields must compare by value.")


def _check_single(game: Game, jit_init: _Init, jit_step: _Step, key: Array, steps: int = 2) -> None:
    """Checks the first steps of one episode without vmap: jit = eager, and equal inputs give equal outputs."""
    key_init, key = jax.random.split(key)
    clone = jax.random.clone
    with explain_errors(game, "init"), _require_unchanged(game, "init"):
        state = game.init(key_init)
    check_state(game, state, "init")
    require_equal(game, state, game.init(clone(key_init)), "init is not pure: the same key twice gave different")
    with explain_errors(game, "jit(init)"):
        compiled = jit_init(clone(key_init))
    require_equal(game, state, compiled, "jit(init) differs from init in")
    for index in range(min(steps, game.max_steps)):
        key, key_act, key_step = jax.random.split(key, 3)
        actions = random_actions(game, state.legal, key_act)
        where = f"step {index + 1}"
        with explain_errors(game, where), _require_unchanged(game, where, state):
            after = game.step(state, actions, key_step)
        check_state(game, after, where)
        require_same_structure(game, state, after, where)
        if index == 0:  # once: eager evaluation is slow
            twice = game.step(state, actions, clone(key_step))
            require_equal(game, after, twice, f"{where} is not pure: the same input twice gave different")
            _check_traces(game, where, jit_step, (state, actions, key_step))
        with explain_errors(game, f"{where}: jit(step)"):
            compiled = jit_step(state, actions, clone(key_step))
        require_equal(game, after, compiled, f"{where}: jit(step) differs from step in")
        state = after


def _check_play(game: Game, jit_init: _Init, jit_step: _Step, rows: _Rows, keys: Array, key: Array) -> None:
    """Plays a batch of random episodes to the end and one step beyond, and checks every step."""
    init, step = rows
    act = jax.jit(jax.vmap(lambda legal, key: random_actions(game, legal, key)))
    with explain_errors(game, "vmap(init)"):
        state = init(keys)
    check_state(game, state, "vmap(init)", keys.shape)
    alone = jit_init(jax.random.clone(keys)[0])
    require_equal(game, take_row(state, 0), alone, "vmap(init) differs from init in")
    require(not np.any(state.done), game, "init gives a finished game.")
    require(not np.any(state.reward), game, "init gives a reward; nothing was played yet.")
    check_turn(game, state, "init")
    returns, index, last = np.asarray(state.reward), 0, np.full(len(keys), -1)
    while index <= game.max_steps:
        was_over = np.asarray(state.done)
        require(
            was_over.all() or index < game.max_steps,
            game,
            f"{int((~was_over).sum())} of {len(keys)} episodes still run after max_steps = {game.max_steps} steps.",
        )
        index += 1
        key, key_act, key_step = jax.random.split(key, 3)
        key_acts, key_steps = jax.random.split(key_act, len(keys)), jax.random.split(key_step, len(keys))
        actions, where = act(state.legal, key_acts), f"step {index}"
        with explain_errors(game, f"{where}: vmap(step)"):
            after = step(state, actions, key_steps)
        last = np.where(was_over, last, np.asarray(state.to_move).argmax(axis=1))
        idle = actions + jnp.asarray(~state.to_move).reshape(*state.to_move.shape, *(1,) * (actions.ndim - 2))
        ignored = step(state, idle.astype(actions.dtype), jax.random.clone(key_steps))
        require_equal(game, after, ignored, f"{where}: the action of a seat that is not to move changed")
        alone = jit_step(take_row(state, 0), actions[0], jax.random.clone(key_steps)[0])
        require_equal(game, take_row(after, 0), alone, f"{where}: vmap(step) differs from step in")
        _check_absorbing(game, state, after, was_over, where)
        check_turn(game, after, where)
        returns, state = returns + np.asarray(after.reward), after
        if was_over.all():
            break
    check_returns(game, returns)
    check_winners(game, returns, last)


def _check_traces(game: Game, where: str, jit_step: Any, arguments: tuple) -> None:
    """Traces the step twice: a number drawn or counted in Python would differ between the traces."""
    with explain_errors(game, f"{where}: jit(step)"):
        first = jit_step.trace(*arguments).jaxpr
        second = jax.make_jaxpr(lambda *given: game.step(*given))(*arguments)  # a new function: traces are cached
    numbers = [[value.tobytes() for value in _numbers(traced)] for traced in (first, second)]
    require(
        numbers[0] == numbers[1],
        game,
        f"{where} is not pure: compiled twice, step became two different programs. It draws or counts in Python. Draw "
        "from the key, count in GameState.inner.",
    )


def _numbers(closed: Any) -> list[np.ndarray]:
    """Returns every number that a trace holds, in order."""
    found = [np.asarray(value) for value in closed.consts if not is_key(value)]
    for eqn in closed.jaxpr.eqns:
        found += [np.asarray(var.val) for var in eqn.invars if isinstance(var, core.Literal)]
        for part in filter(_is_trace, jax.tree.leaves(list(eqn.params.values()), is_leaf=_is_trace)):
            found += _numbers(part)
    return found


def _is_trace(value: Any) -> bool:
    return isinstance(value, core.ClosedJaxpr)


@contextlib.contextmanager
def _require_unchanged(game: Game, where: str, state: GameState | None = None) -> Iterator[None]:
    """Requires that the calls inside modify neither the game nor the given state."""
    own, before = copy.deepcopy(getattr(game, "__dict__", {})), _copy_arrays(state)
    yield
    changed = [name for name, value in getattr(game, "__dict__", {}).items() if not _equal(own.get(name), value)]
    require(
        not changed,
        game,
        f"{where} changed the game itself ({', '.join(changed)}): a game must not hold mutable state. Store it in "
        "GameState.inner.",
    )
    message = (
        f"{where} changed the state that it was given: states must not be mutable. Return a new state; changed was"
    )
    if state is not None:
        shapes: list[Any] = [jax.tree.structure(tree) for tree in (before, state)]
        require(shapes[0] == shapes[1], game, f"{message} the structure of its lists or dicts.")
        require_equal(game, before, state, message)


def _copy_arrays(tree: PyTree) -> PyTree:
    """Copies containers and NumPy arrays."""
    return jax.tree.map(lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf, tree)


def _equal(left: Any, right: Any) -> bool:
    try:
        return bool(left == right)
    except (ValueError, TypeError):  # arrays, which the repr of a struct does not show
        return [repr(leaf) for leaf in jax.tree.leaves(left)] == [repr(leaf) for leaf in jax.tree.leaves(right)]


def _check_absorbing(game: Game, before: GameState, after: GameState, was_over: np.ndarray, where: str) -> None:
    if not was_over.any():
        return
    rows = np.flatnonzero(was_over)
    require(
        not np.asarray(after.reward)[rows].any(), game, f"{where}: a finished game pays a reward when stepped again."
    )
    left, right = (
        take_row(dataclasses.replace(state, reward=state.terminated), rows) for state in (before, after)
    )  # all but rewards
    require_equal(game, left, right, f"{where}: a finished game is not absorbing: stepping it again changed")


def _check_deals(game: Game, rows: _Rows, key: Array, episodes: int) -> None:
    """Compares `deals` with `init` by the observations along first legal actions, which reveal hidden cards."""
    try:
        found = game.deals() if supports(game, Enumerable) else None
    except (NotEnumerableError, NotImplementedError):
        found = None
    if found is None:
        return
    states, weights = found[0], np.asarray(found[1], np.float64)
    require(
        weights.ndim == 1 and np.all(weights >= 0) and abs(weights.sum() - 1) < 1e-5,
        game,
        f"deals: probabilities must be [N], >= 0 and sum to 1, got shape {weights.shape}, sum {weights.sum():g}.",
    )
    check_state(game, states, "deals", weights.shape)
    # With a single start, use the batch size that is already compiled.
    samples = max(4096, len(weights)) if len(weights) > 1 else episodes
    key_init, *keys = jax.random.split(key, 3)
    listed_states = jax.tree.map(lambda leaf: leaf[jnp.arange(samples) % len(weights)], states)
    both = (listed_states, rows.init(jax.random.split(key_init, samples)))
    played, again = ([_first_legal_line(game, rows, start, key) for start in both] for key in keys)
    # chance acts after the start: compare the start only
    steps = slice(None) if all(map(np.array_equal, played, again)) else slice(0, 1)
    listed, seen = _rows_as_bytes(played[0][steps])[: len(weights)], _rows_as_bytes(played[1][steps])
    _check_frequencies(game, listed, weights, seen)


def _check_frequencies(
    game: Game, listed: list[bytes], weights: np.ndarray, seen: list[bytes], failure: float = 1e-6
) -> None:
    """Checks that starts `seen` occur as often as the `weights` of those listed."""
    expected: Counter[bytes] = Counter()
    for name, weight in zip(listed, weights, strict=True):
        expected[name] += weight
    counts = Counter(seen)
    strange = sum(count for name, count in counts.items() if expected[name] == 0)
    require(
        strange == 0,
        game,
        f"deals: {strange} of {len(seen)} games from init start in a state that deals does not list.",
    )
    # Bernstein's inequality with a union bound: a correct game fails with probability below `failure`.
    log = np.log(2 * len(expected) / failure)
    for name, weight in expected.items():
        frequency = counts[name] / len(seen)
        slack = np.sqrt(2 * weight * (1 - weight) * log / len(seen)) + log / (3 * len(seen)) * 2
        message = (
            f"deals: a start of probability {weight:.4f} came up in {frequency:.4f} of {len(seen)} games from init."
        )
        require(abs(frequency - weight) <= slack, game, message)


def _first_legal_line(game: Game, rows: _Rows, states: GameState, key: Array, steps: int = 16) -> np.ndarray:
    """Returns the observations [T, N, S, *obs] while every seat plays its first legal action."""
    seen = []
    for subkey in jax.random.split(jax.random.clone(key), min(steps, game.max_steps)):
        seen.append(np.asarray(states.observation))
        legal = np.asarray(states.legal)
        actions = np.zeros(legal.shape, np.float32) if game.continuous else legal.argmax(axis=-1).astype(np.int32)
        states = rows.step(states, jnp.asarray(actions), jax.random.split(subkey, len(legal)))
    return np.stack(seen)


def _rows_as_bytes(line: np.ndarray) -> list[bytes]:
    return [line[:, row].tobytes() for row in range(line.shape[1])]
