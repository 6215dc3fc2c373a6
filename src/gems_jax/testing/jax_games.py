"""The promises of a game that is pure functions of JAX."""

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
    row,
    same,
    same_structure,
)
from gems_jax.types import Array, Enumerable, Game, GameState, NotEnumerableError, PyTree, supports

_Init = Callable[[Array], GameState]
_Step = Callable[[GameState, Array, Array], GameState]


class _Rows(NamedTuple):
    """The game's functions over a batch of states."""

    init: _Init
    step: _Step


def check_jax_game(game: Game, key: Array, episodes: int) -> None:
    """key: consumed."""
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
    require(arrays, game, "JAX takes the game for data: decorate its class with jax.tree_util.register_static.")
    twin = copy.deepcopy(game)
    try:
        equal, hashes = game == twin, (hash(game), hash(game), hash(twin))
    except TypeError as error:
        raise GameError(
            f"{game.name}: the game cannot be hashed ({error}): it holds something mutable, or hides __hash__. Make "
            "it a frozen dataclass of numbers, strings and tuples."
        ) from error
    require(equal, game, "the hash is wrong: an exact copy of the game is not equal to it. Make it a frozen dataclass.")
    require(
        len(set(hashes)) == 1,
        game,
        "the hash is wrong: an exact copy of the game is equal to it but hashes differently. Leave __hash__ to a "
        "frozen dataclass.",
    )
    left_out = _left_out(game)
    require(
        not left_out,
        game,
        f"the hash is wrong: it leaves out {', '.join(left_out)}, so that games which differ in it pass for "
        "the same one, and a program that was compiled for one would be used for the other.",
    )
    _check_traced_once(game, twin)


def _left_out(game: Game) -> list[str]:
    """Names of the fields that do not count when games are compared."""
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
    """The first steps of one episode without vmap: jit = eager, and the same input twice gives the same output."""
    key_init, key = jax.random.split(key)
    clone = jax.random.clone
    with explain_errors(game, "init"), _untouched(game, "init"):
        state = game.init(key_init)
    check_state(game, state, "init")
    same(game, state, game.init(clone(key_init)), "init is not pure: the same key twice gave different")
    with explain_errors(game, "jit(init)"):
        compiled = jit_init(clone(key_init))
    same(game, state, compiled, "jit(init) differs from init in")
    for index in range(min(steps, game.max_steps)):
        key, key_act, key_step = jax.random.split(key, 3)
        actions = random_actions(game, state.legal, key_act)
        where = f"step {index + 1}"
        with explain_errors(game, where), _untouched(game, where, state):
            after = game.step(state, actions, key_step)
        check_state(game, after, where)
        same_structure(game, state, after, where)
        if index == 0:  # once: what runs without jit is slow
            twice = game.step(state, actions, clone(key_step))
            same(game, after, twice, f"{where} is not pure: the same input twice gave different")
            _check_traces(game, where, jit_step, (state, actions, key_step))
        with explain_errors(game, f"{where}: jit(step)"):
            compiled = jit_step(state, actions, clone(key_step))
        same(game, after, compiled, f"{where}: jit(step) differs from step in")
        state = after


def _check_play(game: Game, jit_init: _Init, jit_step: _Step, rows: _Rows, keys: Array, key: Array) -> None:
    """A batch of random episodes, played to the end and one step beyond."""
    init, step = rows
    act = jax.jit(jax.vmap(lambda legal, key: random_actions(game, legal, key)))
    with explain_errors(game, "vmap(init)"):
        state = init(keys)
    check_state(game, state, "vmap(init)", keys.shape)
    alone = jit_init(jax.random.clone(keys)[0])
    same(game, row(state, 0), alone, "vmap(init) differs from init in")
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
        same(game, after, ignored, f"{where}: the action of a seat that is not to move changed")
        alone = jit_step(row(state, 0), actions[0], jax.random.clone(key_steps)[0])
        same(game, row(after, 0), alone, f"{where}: vmap(step) differs from step in")
        _check_absorbing(game, state, after, was_over, where)
        check_turn(game, after, where)
        returns, state = returns + np.asarray(after.reward), after
        if was_over.all():
            break
    check_returns(game, returns)
    check_winners(game, returns, last)


def _check_traces(game: Game, where: str, jit_step: Any, arguments: tuple) -> None:
    """What is drawn or counted in Python is a number of the compiled program: traced twice, it would be two."""
    with explain_errors(game, f"{where}: jit(step)"):
        first = jit_step.trace(*arguments).jaxpr
        second = jax.make_jaxpr(lambda *given: game.step(*given))(*arguments)  # a new function: traces are kept
    numbers = [[value.tobytes() for value in _numbers(traced)] for traced in (first, second)]
    require(
        numbers[0] == numbers[1],
        game,
        f"{where} is not pure: compiled twice, step became two different programs. Something is drawn or counted in "
        "Python; draw from the key, count in GameState.inner.",
    )


def _numbers(closed: Any) -> list[np.ndarray]:
    """Every number that a trace holds, in order."""
    found = [np.asarray(value) for value in closed.consts if not is_key(value)]
    for eqn in closed.jaxpr.eqns:
        found += [np.asarray(var.val) for var in eqn.invars if isinstance(var, core.Literal)]
        for part in filter(_is_trace, jax.tree.leaves(list(eqn.params.values()), is_leaf=_is_trace)):
            found += _numbers(part)
    return found


def _is_trace(value: Any) -> bool:
    return isinstance(value, core.ClosedJaxpr)


@contextlib.contextmanager
def _untouched(game: Game, where: str, state: GameState | None = None) -> Iterator[None]:
    """What is called inside may neither change the game nor the state that it is given."""
    own, before = copy.deepcopy(getattr(game, "__dict__", {})), _copied(state)
    yield
    changed = [name for name, value in getattr(game, "__dict__", {}).items() if not _equal(own.get(name), value)]
    require(
        not changed,
        game,
        f"{where} changed the game itself ({', '.join(changed)}): a game is mutable state to nobody. Whatever changes "
        "belongs into GameState.inner.",
    )
    message = (
        f"{where} changed the state that it was given: states must not be mutable. Give a new one back; changed was"
    )
    if state is not None:
        shapes: list[Any] = [jax.tree.structure(tree) for tree in (before, state)]
        require(shapes[0] == shapes[1], game, f"{message} the structure of its lists or dicts.")
        same(game, before, state, message)


def _copied(tree: PyTree) -> PyTree:
    """The same values in containers and arrays of their own."""
    return jax.tree.map(lambda leaf: leaf.copy() if isinstance(leaf, np.ndarray) else leaf, tree)


def _equal(left: Any, right: Any) -> bool:
    try:
        return bool(left == right)
    except (ValueError, TypeError):  # arrays
        return repr(left) == repr(right)


def _check_absorbing(game: Game, before: GameState, after: GameState, was_over: np.ndarray, where: str) -> None:
    if not was_over.any():
        return
    rows = np.flatnonzero(was_over)
    require(
        not np.asarray(after.reward)[rows].any(), game, f"{where}: a finished game pays a reward when stepped again."
    )
    left, right = (
        row(dataclasses.replace(state, reward=state.terminated), rows) for state in (before, after)
    )  # all but rewards
    same(game, left, right, f"{where}: a finished game is not absorbing: stepping it again changed")


def _check_deals(game: Game, rows: _Rows, key: Array, episodes: int) -> None:
    """`deals` against `init`, by the observations along the line of first legal actions (hidden cards come out)."""
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
    # As many rows of either kind as were compiled for already, where one start is all there is.
    samples = max(4096, len(weights)) if len(weights) > 1 else episodes
    key_init, *keys = jax.random.split(key, 3)
    listed_states = jax.tree.map(lambda leaf: leaf[jnp.arange(samples) % len(weights)], states)
    both = (listed_states, rows.init(jax.random.split(key_init, samples)))
    played, again = ([_first_legal_line(game, rows, start, key) for start in both] for key in keys)
    # chance moves: compare the start only
    steps = slice(None) if all(map(np.array_equal, played, again)) else slice(0, 1)
    listed, seen = _rows_as_bytes(played[0][steps])[: len(weights)], _rows_as_bytes(played[1][steps])
    _check_frequencies(game, listed, weights, seen)


def _check_frequencies(
    game: Game, listed: list[bytes], weights: np.ndarray, seen: list[bytes], failure: float = 1e-6
) -> None:
    """Whether starts `seen` come up as often as the `weights` of those listed say."""
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
    # Bernstein's inequality with a union bound: a right game fails with probability below `failure`.
    log = np.log(2 * len(expected) / failure)
    for name, weight in expected.items():
        share = counts[name] / len(seen)
        slack = np.sqrt(2 * weight * (1 - weight) * log / len(seen)) + log / (3 * len(seen)) * 2
        message = f"deals: a start of probability {weight:.4f} came up in {share:.4f} of {len(seen)} games from init."
        require(abs(share - weight) <= slack, game, message)


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
