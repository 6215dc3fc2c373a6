"""Playing: one episode at a time. Callers vmap.

`play_episode` keeps the returns only, `watch_episode` also adds up what it is told to, `unroll` keeps what a learner
needs, and `play_groups` lays many episodes out as (policy, opponent, episode) so that the weights of each policy meet
all its episodes in one matrix product.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import chex
import jax
import jax.numpy as jnp

from gems_jax.accelerator.compile import once
from gems_jax.accelerator.prng import apart
from gems_jax.accelerator.sharding import laid_out, spread
from gems_jax.host.stages import on_host
from gems_jax.policies import distributions
from gems_jax.policies.population import StackedPolicies
from gems_jax.policies.tabular import TabularPolicy, ready
from gems_jax.rollout.tabular import in_turns, mover_action, play_numbered
from gems_jax.rollout.views import at
from gems_jax.types import (
    Apply,
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
    num_populations,
    num_slots,
    seats_of_player,
    slot_axes,
    supports,
)

Policies = tuple[Policy, ...]  # one per player
PolicyOutputs = tuple[PolicyOutput, ...]  # one per player, each [its seats, ...]
_UNROLL = 8  # episodes of at most this many steps are laid out straight: a loop costs more than it saves


def check_policies(game: Game, policies: Policies) -> None:
    if len(policies) != num_players(game):
        raise ValueError(
            f"{game.name} has {num_players(game)} players: got {len(policies)} policies; "
            "pass one Policy per player (a team of seats is one player)"
        )


def of_seats(rows: Array, seats: tuple[int, ...], axis: int = 0) -> Array:
    """The rows of some seats; of neighbouring ones by a slice, which XLA fuses where it would not fuse a gather."""
    if seats == tuple(range(seats[0], seats[-1] + 1)):
        return jax.lax.slice_in_dim(rows, seats[0], seats[-1] + 1, axis=axis)
    return jnp.take(rows, jnp.asarray(seats), axis=axis)


def joint_action(game: Game, policies: Policies, state: GameState, noise: Array) -> tuple[Array, PolicyOutputs]:
    """Everybody's action [S, ...], and each player's outputs; both mean nothing for seats that are not to move.

    All seats are computed, though few may be to move: indexing the mover's weights per episode would cost more than
    the second matrix product (the batch could no longer share weights). Of tables only the mover's is looked up.
    """
    seats = [seats_of_player(game, player) for player in range(len(policies))]
    outputs = tuple(
        jax.vmap(policy.apply, in_axes=(None, 0, 0))(
            policy.params, of_seats(_seen(policy, state), own), of_seats(state.legal, own)
        )
        for policy, own in zip(policies, seats, strict=True)
    )
    if in_turns(game, policies):
        action = mover_action(policies, _seen(policies[0], state), state.to_move, noise)
        return jnp.broadcast_to(action, (game.num_seats,)), outputs
    drawn = [jax.vmap(distributions.sample)(one, of_seats(noise, own)) for one, own in zip(outputs, seats, strict=True)]
    return jnp.stack(_by_seat(game, drawn)), outputs


def _seen(policy: Policy, state: GameState) -> Array:
    """What a policy is asked by [S, ...]: observations, or the numbers that the game gives them."""
    if getattr(policy.apply, "by_infoset", False):
        assert state.infoset is not None  # the policy's table has these numbers from the game
        return state.infoset
    return state.observation


def joint_log_prob(game: Game, outputs: PolicyOutputs, actions: Array) -> Array:
    """log pi(a) of every seat [S]."""
    scores = [
        jax.vmap(distributions.log_prob)(output, of_seats(actions, seats_of_player(game, player)))
        for player, output in enumerate(outputs)
    ]
    return jnp.stack(_by_seat(game, scores))


def _by_seat(game: Game, of_players: Sequence[Any]) -> list[Any]:
    """What every player has for its seats [its seats, ...], in the order of the seats."""
    found: list[Any] = [None] * game.num_seats
    for player, rows in enumerate(of_players):
        for row, seat in enumerate(seats_of_player(game, player)):
            found[seat] = None if rows is None else rows[row]
    return found


def _start(key: Array, game: Game) -> tuple[GameState, Array, Array]:
    key_deal, key_act, key_step = apart(key, 3)
    shape = (game.max_steps, game.num_seats)
    noise = distributions.draw_noise(key_act, shape, game.num_actions, game.continuous)
    return game.init(key_deal), noise, key_step


def _straight(game: Game) -> bool:
    return game.max_steps <= _UNROLL and not on_host(game)


def play_episode(key: Array, game: Game, policies: Policies) -> Episode:
    """Returns [S] and length of one whole episode between `policies`, one per player. key: consumed."""
    return watch_episode(key, game, policies, lambda state: (), lambda seen, state: ())[0]


def watch_episode(
    key: Array,
    game: Game,
    policies: Policies,
    start: Callable[[GameState], PyTree],
    add: Callable[[PyTree, GameState], PyTree],
) -> tuple[Episode, PyTree]:
    """`play_episode`, and what was seen on the way: start(first state), then add(seen, state) after every step."""
    check_policies(game, policies)
    state, noise, key_step = _start(key, game)

    def advance(carry: tuple[Array, GameState, Array, Array, PyTree]) -> tuple[Array, GameState, Array, Array, PyTree]:
        step, state, returns, length, seen = carry
        actions, _ = joint_action(game, policies, state, noise[step])
        following = game.step(state, actions, jax.random.fold_in(key_step, step))
        more = jax.tree.map(lambda new, old: jnp.where(state.done, old, new), add(seen, following), seen)
        return step + 1, following, returns + following.reward, length + ~state.done, more

    carry = (jnp.int32(0), state, jnp.zeros(game.num_seats), jnp.int32(0), start(state))
    if _straight(game):
        for _ in range(game.max_steps):
            carry = advance(carry)
    else:
        carry = jax.lax.while_loop(lambda c: ~c[1].done & (c[0] < game.max_steps), advance, carry)
    return Episode(returns=carry[2], length=carry[3]), carry[4]


def unroll(key: Array, game: Game, policies: Policies, seats: tuple[int, ...] | None = None) -> Trajectory:
    """One whole episode with everything a learner needs, padded to `max_steps`. key: consumed.

    seats: whose observations and actions to keep; all of them by default.
    """
    check_policies(game, policies)
    start, noise, key_step = _start(key, game)
    kept = tuple(range(game.num_seats)) if seats is None else seats

    def advance(state: GameState, xs: tuple[Array, Array]) -> tuple[GameState, dict[str, Any]]:
        step, step_noise = xs
        return _recorded(game, policies, kept, state, step_noise, jax.random.fold_in(key_step, step))

    steps = (jnp.arange(game.max_steps), noise)
    final, rows = jax.lax.scan(advance, start, steps, unroll=_straight(game))
    return _trajectory(rows, final, kept)


def go_on(
    key: Array, game: Game, policies: Policies, state: GameState, steps: int, seats: tuple[int, ...]
) -> tuple[GameState, Trajectory]:
    """`steps` steps from `state` on, a new episode wherever one ends; returns the state to go on from. key: consumed.

    No step is spent on a finished game, which is what long episodes of unequal length are learned from best. Averages
    of such episodes would favour short ones: payoffs are measured by `play_episode`.
    """
    check_policies(game, policies)
    key_act, key_step, key_deal = jax.random.split(key, 3)
    noise = distributions.draw_noise(key_act, (steps, game.num_seats), game.num_actions, game.continuous)

    def advance(state: GameState, xs: tuple[Array, Array]) -> tuple[GameState, dict[str, Any]]:
        step, step_noise = xs
        following, row = _recorded(game, policies, seats, state, step_noise, jax.random.fold_in(key_step, step))
        return _renewed(game, following, jax.random.fold_in(key_deal, step)), row

    final, rows = jax.lax.scan(advance, state, (jnp.arange(steps), noise))
    return final, _trajectory(rows, final, seats)


def _renewed(game: Game, state: GameState, key: Array) -> GameState:
    """The state itself, or the start of a new episode where it is finished. key: consumed."""
    if on_host(game):  # a start costs a reset: only where it is wanted
        return game.renew(state, key)  # type: ignore[attr-defined]
    done = once(state.done)
    return jax.tree.map(lambda new, old: jnp.where(done, new, old), game.init(key), state)


def _recorded(
    game: Game, policies: Policies, seats: tuple[int, ...], state: GameState, noise: Array, key: Array
) -> tuple[GameState, dict[str, Any]]:
    """One step, and what `seats` saw and did in it. key: consumed."""
    actions, outputs = joint_action(game, policies, state, noise)
    following = game.step(state, actions, key)
    log_prob = joint_log_prob(game, outputs, actions)
    places = [_by_seat(game, [output.row for output in outputs])[seat] for seat in seats]
    return following, {
        "row": None if any(place is None for place in places) else jnp.stack(places),
        "observation": of_seats(state.observation, seats).astype(_stored_dtype(game)),
        "legal": of_seats(state.legal, seats),
        "action": of_seats(actions, seats),
        "log_prob": of_seats(log_prob, seats),
        "acted": of_seats(state.to_move, seats) & ~state.done,
        "reward": of_seats(following.reward, seats),
        "terminated": following.terminated & ~state.done,
        "truncated": following.truncated & ~state.done,
        "running": ~state.done,
    }


def _stored_dtype(game: Game) -> Any:
    return game.observation_dtype if supports(game, CompactObservations) else jnp.float32


def _trajectory(rows: dict[str, Any], final: GameState, seats: tuple[int, ...]) -> Trajectory:
    length = jnp.sum(rows.pop("running"), dtype=jnp.int32)
    return Trajectory(length=length, final_observation=of_seats(final.observation, seats), **rows)


def play_groups(
    play: Callable[..., PyTree],
    key: Array,
    game: Game,
    params: PyTree,
    apply: Apply,
    opponents: StackedPolicies,
    indices: Array,
    episodes: int,
    common: bool = False,
    lanes: tuple[PyTree, ...] = (),
    wanted: Array | None = None,
) -> PyTree:
    """`play` for C policies of player 0, each against N draws of the others, `episodes` times: leaves [C, N, M, ...].

    params: [C, ...] as `stack_policies` makes them. opponents: materialised populations [P, K, ...]. indices: [C, N,
    players], whose column 0 is ignored; with `common` [N, players]: all C policies then face the same opponents with
    the same deals and the same sampling noise (common random numbers). lanes: what every episode gets besides, leaves
    [C, N, M, ...]: `play` is play(key, game, policies, *lanes). wanted: [C] bool, False where nobody will look at
    the episodes: where Python plays, they are not played and come to nothing. key: consumed.
    """
    chex.assert_rank(indices, 2 if common else 3)
    if isinstance(apply, TabularPolicy) and opponents.apply == apply and not on_host(game) and not laid_out():
        groups = len(params)
        if common:
            keys = jnp.broadcast_to(jax.random.split(key, (len(indices), episodes)), (groups, len(indices), episodes))
            indices = jnp.broadcast_to(indices, (groups, *indices.shape))
        else:
            keys = jax.random.split(key, (*indices.shape[:2], episodes))
        return play_numbered(play, keys, game, params, opponents, indices, lanes)
    params, apply = ready(params, apply)
    opponents = StackedPolicies(*ready(opponents.params, opponents.apply))
    axes = slot_axes(params)
    populations = [at(opponents, p) for p in range(num_populations(game))]

    def against(game: Game, own: PyTree, index: Array, keys: Array, lanes: tuple[PyTree, ...]) -> PyTree:
        policies = tuple(
            Policy(own, apply)
            if other == 0
            else Policy(populations[game.population_of_player[other]].select(index[other]), opponents.apply)
            for other in range(num_players(game))
        )
        return jax.vmap(lambda k, lane: play(k, game, policies, *lane))(keys, lanes)

    def over_episodes(own: PyTree, index: Array, keys: Array, lanes: tuple[PyTree, ...], *wanted: Array) -> PyTree:
        seen = dataclasses.replace(game, wanted=wanted[0]) if wanted else game  # type: ignore[type-var]
        return jax.vmap(lambda i, k, lane: against(seen, own, i, k, lane))(index, keys, lanes)

    spared = (wanted,) if wanted is not None and on_host(game) else ()
    each = (0,) * (1 + len(spared))  # lanes, and who is wanted

    lanes = spread(lanes, 3)
    if common:
        keys = jax.random.split(key, (len(indices), episodes))
        if on_host(game):  # equal episodes, but an environment for each
            keys = jnp.broadcast_to(keys, (num_slots(params), *keys.shape))
            return jax.vmap(over_episodes, in_axes=(axes, None, 0, *each))(params, indices, keys, lanes, *spared)
        return spread(jax.vmap(over_episodes, in_axes=(axes, None, None, 0))(params, indices, keys, lanes), 3)
    keys = spread(jax.random.split(key, (*indices.shape[:2], episodes)), 3)
    return jax.vmap(over_episodes, in_axes=(axes, 0, 0, *each))(params, indices, keys, lanes, *spared)


def play_joint(
    play: Callable[[Array, Game, Policies], PyTree],
    key: Array,
    game: Game,
    opponents: StackedPolicies,
    indices: Array,
    episodes: int,
) -> PyTree:
    """`play` for joint draws of all players: indices [B, players] -> leaves [B, M, ...]. key: consumed."""
    opponents = StackedPolicies(*ready(opponents.params, opponents.apply))
    populations = [at(opponents, p) for p in range(num_populations(game))]

    def together(index: Array, keys: Array) -> PyTree:
        policies = tuple(
            Policy(populations[p].select(index[player]), opponents.apply)
            for player, p in enumerate(game.population_of_player)
        )
        return jax.vmap(lambda k: play(k, game, policies))(keys)

    return jax.vmap(together)(indices, spread(jax.random.split(key, (indices.shape[0], episodes)), 2))
