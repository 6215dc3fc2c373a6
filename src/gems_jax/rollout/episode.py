"""Playing one episode. Callers vmap; `rollout.groups` plays many.

`play_episode` returns the returns only, `watch_episode` and `watch_transitions` also what a given function accumulates,
`unroll` and `unroll_segment` the trajectory that a learner needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.accelerator.cpu import compute_once
from gems_jax.accelerator.prng import split_keys
from gems_jax.host.stages import on_host
from gems_jax.policies import distributions
from gems_jax.policies.networks import IndexedApply
from gems_jax.types import (
    Array,
    CompactObservations,
    Episode,
    Game,
    GameState,
    Policy,
    PolicyOutput,
    PyTree,
    Trajectory,
    num_players,
    seats_of_player,
    supports,
)

Policies = tuple[Policy, ...]  # one per player
PolicyOutputs = tuple[PolicyOutput, ...]  # one per player, each [its seats, ...]
_UNROLL = 8  # episodes of at most this many steps are unrolled: a loop costs more than it saves


def check_policies(game: Game, policies: Policies) -> None:
    """Raises ValueError unless there is one policy per player."""
    if len(policies) != num_players(game):
        raise ValueError(
            f"{game.name} has {num_players(game)} players: got {len(policies)} policies; "
            "pass one Policy per player (a team of seats is one player)"
        )


def take_seats(rows: Array, seats: tuple[int, ...], axis: int = 0) -> Array:
    """Returns the rows of some seats; of neighboring ones by a slice, which fuses where a gather does not."""
    if seats == tuple(range(seats[0], seats[-1] + 1)):
        return jax.lax.slice_in_dim(rows, seats[0], seats[-1] + 1, axis=axis)
    return jnp.take(rows, jnp.asarray(seats), axis=axis)


def joint_action(game: Game, policies: Policies, state: GameState, noise: Array) -> tuple[Array, PolicyOutputs]:
    """Samples every seat's action [S, ...]; also returns each player's outputs. Both are arbitrary for idle seats.

    All seats are computed, though few may be to move: indexing the mover's weights per episode would cost more than
    the second matrix product (the batch could no longer share weights). Indexed policies look up the mover's alone.
    """
    seats = [seats_of_player(game, player) for player in range(len(policies))]
    outputs = tuple(
        jax.vmap(policy.apply, in_axes=(None, 0, 0))(
            policy.params, take_seats(_read(policy, state), own), take_seats(state.legal, own)
        )
        for policy, own in zip(policies, seats, strict=True)
    )
    if (apply := _mover_sampler(game, policies)) is not None:
        return jnp.broadcast_to(apply.sample_mover(policies, state, noise), (game.num_seats,)), outputs
    sample = jax.vmap(distributions.sample_action)
    drawn = [sample(one, take_seats(noise, own)) for one, own in zip(outputs, seats, strict=True)]
    return jnp.stack(order_by_seat(game, drawn)), outputs


def _read(policy: Policy, state: GameState) -> Array:
    """The inputs of a policy [S, ...]: observations, or what it reads in their place."""
    return policy.apply.read(state) if isinstance(policy.apply, IndexedApply) else state.observation


def _mover_sampler(game: Game, policies: Policies) -> IndexedApply | None:
    """The policies' own way to sample the mover's action, where one seat moves at a time and is a player by itself."""
    apply = policies[0].apply
    if game.simultaneous or game.player_of_seat != tuple(range(game.num_seats)):
        return None
    return apply if isinstance(apply, IndexedApply) and all(policy.apply == apply for policy in policies) else None


def joint_log_prob(game: Game, outputs: PolicyOutputs, actions: Array) -> Array:
    """Returns log pi(a) of every seat [S]."""
    scores = [
        jax.vmap(distributions.log_prob)(output, take_seats(actions, seats_of_player(game, player)))
        for player, output in enumerate(outputs)
    ]
    return jnp.stack(order_by_seat(game, scores))


def order_by_seat(game: Game, of_players: Sequence[Any]) -> list[Any]:
    """Returns the players' rows [its seats, ...] in the order of the seats; None where a player has none."""
    found: list[Any] = [None] * game.num_seats
    for player, rows in enumerate(of_players):
        for row, seat in enumerate(seats_of_player(game, player)):
            found[seat] = None if rows is None else rows[row]
    return found


def _start(key: Array, game: Game) -> tuple[GameState, Array, Array]:
    """The first state, the noise [T, S, ...] of all actions, and a key for the steps. key: consumed."""
    key_deal, key_act, key_step = split_keys(key, 3)
    shape = (game.max_steps, game.num_seats)
    noise = distributions.draw_noise(key_act, shape, game.num_actions, game.continuous)
    return game.init(key_deal), noise, key_step


def _unrolls(game: Game) -> bool:
    return game.max_steps <= _UNROLL and not on_host(game)


def play_episode(key: Array, game: Game, policies: Policies) -> Episode:
    """Plays one whole episode between `policies`, one per player. key: consumed."""
    return watch_episode(key, game, policies, lambda state: (), lambda seen, state: ())[0]


def watch_episode(
    key: Array,
    game: Game,
    policies: Policies,
    start: Callable[[GameState], PyTree],
    add: Callable[[PyTree, GameState], PyTree],
) -> tuple[Episode, PyTree]:
    """Plays one whole episode and accumulates something on the way. key: consumed.

    Args:
      key: typed PRNG key; consumed.
      game: the game.
      policies: one per player.
      start: start(first state), the initial accumulator.
      add: add(accumulator, state) after every step.

    Returns:
      The episode, and the accumulator after its last step.
    """
    return watch_transitions(key, game, policies, start, lambda seen, transition: add(seen, transition.following))


class Transition(NamedTuple):
    """One step of play: a position, what was done in it, and what came of it."""

    time: Array  # [] int32, steps before this one
    state: GameState
    actions: Array  # [S, ...], arbitrary for idle seats
    outputs: PolicyOutputs
    key: Array  # of the step, which has consumed it: clone it to take the step again
    following: GameState


def watch_transitions(
    key: Array,
    game: Game,
    policies: Policies,
    start: Callable[[GameState], PyTree],
    add: Callable[[PyTree, Transition], PyTree],
    longest_unrolled: int | None = None,
) -> tuple[Episode, PyTree]:
    """Plays one whole episode, that of `play_episode`, and accumulates something of its transitions.

    Args:
      key: typed PRNG key; consumed.
      game: the game.
      policies: one per player.
      start: start(first state), the initial accumulator.
      add: add(accumulator, transition) after every step; called, but without effect, when the game is over.
      longest_unrolled: games of more steps are a loop, which compiles faster; None for the limit of all play.

    Returns:
      The episode, and the accumulator after its last step.
    """
    check_policies(game, policies)
    state, noise, key_step = _start(key, game)

    def advance(carry: tuple[Array, GameState, Array, Array, PyTree]) -> tuple[Array, GameState, Array, Array, PyTree]:
        step, state, returns, length, seen = carry
        actions, outputs = joint_action(game, policies, state, noise[step])
        key_now = jax.random.fold_in(key_step, step)
        following = game.step(state, actions, key_now)
        added = add(seen, Transition(step, state, actions, outputs, key_now, following))
        more = jax.tree.map(lambda new, old: jnp.where(state.done, old, new), added, seen)
        return step + 1, following, returns + following.reward, length + ~state.done, more

    carry = (jnp.int32(0), state, jnp.zeros(game.num_seats), jnp.int32(0), start(state))
    if _unrolls(game) and (longest_unrolled is None or game.max_steps <= longest_unrolled):
        for _ in range(game.max_steps):
            carry = advance(carry)
    else:
        carry = jax.lax.while_loop(lambda c: ~c[1].done & (c[0] < game.max_steps), advance, carry)
    return Episode(returns=carry[2], length=carry[3]), carry[4]


def unroll(key: Array, game: Game, policies: Policies, seats: tuple[int, ...] | None = None) -> Trajectory:
    """Plays one whole episode and records the trajectory, padded to `max_steps`. key: consumed.

    seats: whose observations and actions to keep; all of them by default.
    """
    check_policies(game, policies)
    start, noise, key_step = _start(key, game)
    seats = tuple(range(game.num_seats)) if seats is None else seats

    def advance(state: GameState, xs: tuple[Array, Array]) -> tuple[GameState, dict[str, Any]]:
        step, step_noise = xs
        return _record_step(game, policies, seats, state, step_noise, jax.random.fold_in(key_step, step))

    steps = (jnp.arange(game.max_steps), noise)
    final, rows = jax.lax.scan(advance, start, steps, unroll=_unrolls(game))
    return _trajectory(rows, final, seats)


def unroll_segment(
    key: Array, game: Game, policies: Policies, state: GameState, steps: int, seats: tuple[int, ...]
) -> tuple[GameState, Trajectory]:
    """Records `steps` steps from `state`, with a new episode wherever one ends. key: consumed.

    No step is spent on a finished game, which suits learning from long episodes of unequal length. Averages of such
    episodes would favor short ones: payoffs are measured by `play_episode`.

    Returns:
      The state to resume from, and the trajectory.
    """
    check_policies(game, policies)
    key_act, key_step, key_deal = jax.random.split(key, 3)
    noise = distributions.draw_noise(key_act, (steps, game.num_seats), game.num_actions, game.continuous)

    def advance(state: GameState, xs: tuple[Array, Array]) -> tuple[GameState, dict[str, Any]]:
        step, step_noise = xs
        following, row = _record_step(game, policies, seats, state, step_noise, jax.random.fold_in(key_step, step))
        return _restart_finished(game, following, jax.random.fold_in(key_deal, step)), row

    final, rows = jax.lax.scan(advance, state, (jnp.arange(steps), noise))
    return final, _trajectory(rows, final, seats)


def _restart_finished(game: Game, state: GameState, key: Array) -> GameState:
    """The state itself, or the start of a new episode where it is finished. key: consumed."""
    if on_host(game):  # a start costs a reset
        return game.renew(state, key)  # type: ignore[attr-defined]
    done = compute_once(state.done)
    return jax.tree.map(lambda new, old: jnp.where(done, new, old), game.init(key), state)


def _record_step(
    game: Game, policies: Policies, seats: tuple[int, ...], state: GameState, noise: Array, key: Array
) -> tuple[GameState, dict[str, Any]]:
    """One step, and what `seats` saw and did in it. key: consumed."""
    actions, outputs = joint_action(game, policies, state, noise)
    following = game.step(state, actions, key)
    log_prob = joint_log_prob(game, outputs, actions)
    found = order_by_seat(game, [output.row for output in outputs])
    places = [found[seat] for seat in seats]
    return following, {
        "row": None if any(place is None for place in places) else jnp.stack(places),
        "observation": take_seats(state.observation, seats).astype(stored_dtype(game)),
        "legal": take_seats(state.legal, seats),
        "action": take_seats(actions, seats),
        "log_prob": take_seats(log_prob, seats),
        "acted": take_seats(state.to_move, seats) & ~state.done,
        "reward": take_seats(following.reward, seats),
        "terminated": following.terminated & ~state.done,
        "truncated": following.truncated & ~state.done,
        "running": ~state.done,
    }


def stored_dtype(game: Game) -> Any:
    """Returns the dtype in which a game's observations are recorded: its own where it declares one, else float32."""
    return game.observation_dtype if supports(game, CompactObservations) else jnp.float32


def _trajectory(rows: dict[str, Any], final: GameState, seats: tuple[int, ...]) -> Trajectory:
    length = jnp.sum(rows.pop("running"), dtype=jnp.int32)
    return Trajectory(length=length, final_observation=take_seats(final.observation, seats), **rows)
