"""Playing one episode. Callers vmap; `rollout.groups` plays many.

`play_episode` computes the returns only, `watch_episode` and `watch_transitions` also an accumulator of the caller, and
`unroll` and `unroll_segment` record the trajectory that a learner needs.
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
from gems_jax.rollout.views import take_population
from gems_jax.types import (
    Array,
    CompactObservations,
    Episode,
    Game,
    GameState,
    Mixture,
    Policy,
    PolicyOutput,
    PRNGKey,
    PyTree,
    Trajectory,
    is_mixture,
    num_players,
    profile_of,
    seats_of_player,
    supports,
)

Policies = tuple[Policy, ...]  # one per player
PolicyOutputs = tuple[PolicyOutput, ...]  # one per player, each [its seats, ...]
_UNROLL = 8  # episodes of at most this many steps are unrolled, which is faster than a loop


def check_policies(game: Game, policies: Policies) -> None:
    """Raises ValueError unless there is one policy per player."""
    if len(policies) != num_players(game):
        raise ValueError(
            f"play in {game.name}: expected {num_players(game)} policies, got {len(policies)}. "
            "Pass one Policy per player (a team of seats is one player)."
        )


def take_seats(rows: Array, seats: tuple[int, ...], axis: int = 0) -> Array:
    """Takes the rows of some seats along an axis; consecutive seats by a slice, which XLA fuses unlike a gather."""
    if seats == tuple(range(seats[0], seats[-1] + 1)):
        return jax.lax.slice_in_dim(rows, seats[0], seats[-1] + 1, axis=axis)
    return jnp.take(rows, jnp.asarray(seats), axis=axis)


def sample_joint_action(game: Game, policies: Policies, state: GameState, noise: Array) -> tuple[Array, PolicyOutputs]:
    """Samples the actions of all seats.

    All seats are computed, though few may be to move: indexing the mover's weights per episode would cost more than
    the second matrix product (the batch could no longer use the same weights). Indexed policies look up the mover's
    action only.

    Args:
      game: the game.
      policies: one per player.
      state: the position.
      noise: noise of every seat, [S, ...] (see `distributions.draw_noise`).

    Returns:
      Actions [S, ...], and every player's action distributions. Both are arbitrary for seats that are not to move.
    """
    if _is_one_policy(game, policies):
        return _sample_mover(policies, state, noise)
    seats = [seats_of_player(game, player) for player in range(len(policies))]
    outputs = tuple(
        jax.vmap(policy.apply, in_axes=(None, 0, 0))(
            policy.params, take_seats(_read_inputs(policy, state), own), take_seats(state.legal, own)
        )
        for policy, own in zip(policies, seats, strict=True)
    )
    if (apply := _mover_sampler(game, policies)) is not None:
        return jnp.broadcast_to(apply.sample_mover(policies, state, noise), (game.num_seats,)), outputs
    sample = jax.vmap(distributions.sample_action)
    drawn = [sample(one, take_seats(noise, own)) for one, own in zip(outputs, seats, strict=True)]
    return jnp.stack(order_by_seat(game, drawn)), outputs


def _is_one_policy(game: Game, policies: Policies) -> bool:
    """Whether one seat moves at a time, every seat is a player, and one network plays them all."""
    one = len(policies) > 1 and all(policy is policies[0] for policy in policies)
    own_seats = game.player_of_seat == tuple(range(game.num_seats))
    return one and own_seats and not game.simultaneous and not isinstance(policies[0].apply, IndexedApply)


def _sample_mover(policies: Policies, state: GameState, noise: Array) -> tuple[Array, PolicyOutputs]:
    """Samples the action of the seat to move by one evaluation of the policy that all seats play. noise: [S, ...]."""
    policy, mover = policies[0], state.to_move

    def of_mover(rows: Array) -> Array:  # [S, ...] -> [...], of seat 0 if no seat moves
        found = rows[0]
        for seat in range(1, len(policies)):  # XLA fuses a select, unlike a gather
            found = jnp.where(mover[seat], rows[seat], found)
        return found

    output = policy.apply(policy.params, of_mover(state.observation), of_mover(state.legal))
    action = distributions.sample_action(output, of_mover(noise))
    row = jax.tree.map(lambda leaf: leaf[None], output)
    return jnp.broadcast_to(action, (len(policies), *action.shape)), (row,) * len(policies)


def _read_inputs(policy: Policy, state: GameState) -> Array:
    """The inputs of a policy [S, ...]: observations, or what it reads instead of them."""
    return policy.apply.read(state) if isinstance(policy.apply, IndexedApply) else state.observation


def _mover_sampler(game: Game, policies: Policies) -> IndexedApply | None:
    """The policies' common sampler of the mover's action, where one seat moves at a time and every seat is a player."""
    apply = policies[0].apply
    if game.simultaneous or game.player_of_seat != tuple(range(game.num_seats)):
        return None
    return apply if isinstance(apply, IndexedApply) and all(policy.apply == apply for policy in policies) else None


def joint_log_prob(game: Game, outputs: PolicyOutputs, actions: Array) -> Array:
    """Computes log pi(a) of every seat [S] from the players' action distributions and the actions [S, ...]."""
    scores = [
        jax.vmap(distributions.log_prob)(output, take_seats(actions, seats_of_player(game, player)))
        for player, output in enumerate(outputs)
    ]
    return jnp.stack(order_by_seat(game, scores))


def order_by_seat(game: Game, of_players: Sequence[Any]) -> list[Any]:
    """Reorders rows by player, [its seats, ...] each or None, to a list with one row per seat."""
    found: list[Any] = [None] * game.num_seats
    for player, rows in enumerate(of_players):
        for row, seat in enumerate(seats_of_player(game, player)):
            found[seat] = None if rows is None else rows[row]
    return found


def _start_episode(key: Array, game: Game) -> tuple[GameState, Array, Array]:
    """The first state, the noise [T, S, ...] of all actions, and a key for the steps. key: consumed."""
    key_deal, key_act, key_step = split_keys(key, 3)
    shape = (game.max_steps, game.num_seats)
    noise = distributions.draw_noise(key_act, shape, game.num_actions, game.continuous)
    return game.init(key_deal), noise, key_step


def _should_unroll(game: Game) -> bool:
    return game.max_steps <= _UNROLL and not on_host(game)


def play_episode(key: PRNGKey, game: Game, policies: Policies | Mixture | Sequence[Policy | Mixture]) -> Episode:
    """Plays one episode. Use it inside `jit` and `vmap`.

    A mixture (a `Profile`, or what `gems_jax.load` returns) draws one of its policies at the start of the episode.

    >>> import jax
    >>> import jax.numpy as jnp
    >>> from gems_jax import Policy, PolicyOutput, make_game, play_episode
    >>> def apply(params, observation, legal):
    ...     return PolicyOutput(logits=jnp.where(legal, params, -1e9))
    >>> rock, paper = Policy(jnp.array([99.0, 0.0, 0.0]), apply), Policy(jnp.array([0.0, 99.0, 0.0]), apply)
    >>> episode = play_episode(jax.random.key(0), make_game("rock_paper_scissors"), (rock, paper))
    >>> episode.returns.tolist(), int(episode.length)
    ([-1.0, 1.0], 1)
    >>> from gems_jax import load
    >>> policy = load("kuhn")
    >>> play = jax.jit(jax.vmap(lambda key: play_episode(key, policy.game, policy)))
    >>> play(jax.random.split(jax.random.key(0), 4)).returns.shape
    (4, 2)

    Args:
      key: typed PRNG key; consumed.
      game: the game, implemented in JAX.
      policies: one `Policy` or mixture per player, where the seats of a team share theirs, or one mixture that all
        players are drawn from.

    Returns:
      An `Episode` with returns [S].

    Raises:
      ValueError: if the number of policies is not the number of players, or a mixture is of another game.
    """
    key, drawn = _draw_policies(key, game, policies)
    return watch_episode(key, game, drawn, lambda state: (), lambda seen, state: ())[0]


def _draw_policies(key: Array, game: Game, policies: Any) -> tuple[Array, Policies]:
    """Draws a policy from every mixture. Without mixtures, the key is returned as it is. key: consumed."""
    one_for_all = is_mixture(policies)
    each = (policies,) * num_players(game) if one_for_all else tuple(policies)
    check_policies(game, each)
    if not any(map(is_mixture, each)):
        return key, each
    key, key_draw = jax.random.split(key)
    keys = jax.random.split(key_draw, len(each))
    chosen = [draw_policy(keys[p], game, one, p) if is_mixture(one) else one for p, one in enumerate(each)]
    return key, tuple(chosen)


def draw_policy(key: Array, game: Game, mixture: Mixture, player: int) -> Policy:
    """Draws the policy of a player from a mixture.

    Args:
      key: typed PRNG key; consumed.
      game: the game.
      mixture: a `Profile`, or an object that has one.
      player: the player, whose population is drawn from.

    Returns:
      The policy.

    Raises:
      ValueError: if the mixture is of another game.
    """
    profile, population = profile_of(game, mixture), game.population_of_player[player]
    policies = take_population(profile.population, population)
    slot = jax.random.categorical(key, jnp.log(profile.sigma[population]))
    return Policy(policies.select(slot), policies.apply)


def watch_episode(
    key: Array,
    game: Game,
    policies: Policies,
    start: Callable[[GameState], PyTree],
    add: Callable[[PyTree, GameState], PyTree],
) -> tuple[Episode, PyTree]:
    """Plays one whole episode and folds a function over its states.

    Args:
      key: typed PRNG key; consumed.
      game: the game.
      policies: one per player.
      start: start(first state) -> the initial accumulator.
      add: add(accumulator, state) -> accumulator, called after every step.

    Returns:
      The episode, and the accumulator after its last step.
    """
    return watch_transitions(key, game, policies, start, lambda seen, transition: add(seen, transition.following))


class Transition(NamedTuple):
    """One step of play."""

    time: Array  # [] int32, steps before this one
    state: GameState  # before the step
    actions: Array  # [S, ...], arbitrary for seats that are not to move
    outputs: PolicyOutputs
    key: Array  # consumed by the step: clone it to repeat the step
    following: GameState  # after the step


def watch_transitions(
    key: Array,
    game: Game,
    policies: Policies,
    start: Callable[[GameState], PyTree],
    add: Callable[[PyTree, Transition], PyTree],
    longest_unrolled: int | None = None,
) -> tuple[Episode, PyTree]:
    """Plays the episode of `play_episode` and folds a function over its transitions.

    Args:
      key: typed PRNG key; consumed.
      game: the game.
      policies: one per player.
      start: start(first state) -> the initial accumulator.
      add: add(accumulator, transition) -> accumulator, called after every step; its result is dropped when the game is
        over.
      longest_unrolled: longer games run in a loop, which compiles faster; None for the default limit.

    Returns:
      The episode, and the accumulator after its last step.
    """
    check_policies(game, policies)
    state, noise, key_step = _start_episode(key, game)

    def advance(carry: tuple[Array, GameState, Array, Array, PyTree]) -> tuple[Array, GameState, Array, Array, PyTree]:
        step, state, returns, length, seen = carry
        actions, outputs = sample_joint_action(game, policies, state, noise[step])
        key_now = jax.random.fold_in(key_step, step)
        following = game.step(state, actions, key_now)
        added = add(seen, Transition(step, state, actions, outputs, key_now, following))
        more = jax.tree.map(lambda new, old: jnp.where(state.done, old, new), added, seen)
        return step + 1, following, returns + following.reward, length + ~state.done, more

    carry = (jnp.int32(0), state, jnp.zeros(game.num_seats), jnp.int32(0), start(state))
    if _should_unroll(game) and (longest_unrolled is None or game.max_steps <= longest_unrolled):
        once = jax.jit(advance)  # a program has one function of a step, which it calls; XLA inlines the calls
        carry = jax.lax.scan(lambda c, _: (once(c), None), carry, None, length=game.max_steps, unroll=True)[0]
    else:
        carry = jax.lax.while_loop(lambda c: ~c[1].done & (c[0] < game.max_steps), advance, carry)
    return Episode(returns=carry[2], length=carry[3]), carry[4]


def unroll(key: Array, game: Game, policies: Policies, seats: tuple[int, ...] | None = None) -> Trajectory:
    """Plays one whole episode and records its trajectory.

    Args:
      key: typed PRNG key; consumed.
      game: the game.
      policies: one per player.
      seats: seats whose observations, actions and rewards are recorded, Q of them; all by default.

    Returns:
      The trajectory, leaves [T, Q, ...], padded to T = `max_steps`.
    """
    check_policies(game, policies)
    start, noise, key_step = _start_episode(key, game)
    seats = tuple(range(game.num_seats)) if seats is None else seats

    def advance(state: GameState, xs: tuple[Array, Array]) -> tuple[GameState, dict[str, Any]]:
        step, step_noise = xs
        return _record_step(game, policies, seats, state, step_noise, jax.random.fold_in(key_step, step))

    steps = (jnp.arange(game.max_steps), noise)
    unrolled = _should_unroll(game)
    final, rows = jax.lax.scan(jax.jit(advance) if unrolled else advance, start, steps, unroll=unrolled)
    return _make_trajectory(rows, final, seats)


def unroll_segment(
    key: Array, game: Game, policies: Policies, state: GameState, steps: int, seats: tuple[int, ...]
) -> tuple[GameState, Trajectory]:
    """Records a fixed number of steps from a state, and starts a new episode whenever one ends.

    No step is spent on a finished game, which suits learning from long episodes of unequal length. Averages over such
    episodes would favor short ones, so payoffs are measured by `play_episode`.

    Args:
      key: typed PRNG key; consumed.
      game: the game.
      policies: one per player.
      state: where to continue.
      steps: T, number of steps, static.
      seats: seats whose observations, actions and rewards are recorded, Q of them.

    Returns:
      The state to resume from, and the trajectory, leaves [T, Q, ...].
    """
    check_policies(game, policies)
    key_act, key_step, key_deal = jax.random.split(key, 3)
    noise = distributions.draw_noise(key_act, (steps, game.num_seats), game.num_actions, game.continuous)

    def advance(state: GameState, xs: tuple[Array, Array]) -> tuple[GameState, dict[str, Any]]:
        step, step_noise = xs
        following, row = _record_step(game, policies, seats, state, step_noise, jax.random.fold_in(key_step, step))
        return _restart_finished(game, following, jax.random.fold_in(key_deal, step)), row

    final, rows = jax.lax.scan(advance, state, (jnp.arange(steps), noise))
    return final, _make_trajectory(rows, final, seats)


def _restart_finished(game: Game, state: GameState, key: Array) -> GameState:
    """The state itself, or the first state of a new episode if it is finished. key: consumed."""
    if on_host(game):  # an unneeded start would reset an environment
        return game.renew(state, key)  # type: ignore[attr-defined]
    done = compute_once(state.done)
    return jax.tree.map(lambda new, old: jnp.where(done, new, old), game.init(key), state)


def _record_step(
    game: Game, policies: Policies, seats: tuple[int, ...], state: GameState, noise: Array, key: Array
) -> tuple[GameState, dict[str, Any]]:
    """One step, and the observations, actions and rewards of `seats`. key: consumed."""
    actions, outputs = sample_joint_action(game, policies, state, noise)
    following = game.step(state, actions, key)
    log_prob = joint_log_prob(game, outputs, actions)
    found = order_by_seat(game, [output.row for output in outputs])
    rows = [found[seat] for seat in seats]
    return following, {
        "row": None if any(row is None for row in rows) else jnp.stack(rows),
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
    """Returns the dtype of recorded observations: the game's own if it declares one, else float32."""
    return game.observation_dtype if supports(game, CompactObservations) else jnp.float32


def _make_trajectory(rows: dict[str, Any], final: GameState, seats: tuple[int, ...]) -> Trajectory:
    length = jnp.sum(rows.pop("running"), dtype=jnp.int32)
    observation, legal = take_seats(final.observation, seats), take_seats(final.legal, seats)
    return Trajectory(length=length, final_observation=observation, final_legal=legal, **rows)
