"""Experience: what a learner sees of play. Whole episodes or games under way, with advantages attached."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.estimation.monte_carlo import draw_opponents, return_scale
from gems_jax.policies.population import StackedPolicies
from gems_jax.policies.tabular import TabularPolicy
from gems_jax.rollout.episode import Policies, go_on, play_groups, unroll
from gems_jax.rollout.views import View, each_view
from gems_jax.types import (
    Apply,
    Array,
    Bounded,
    Game,
    GameState,
    PyTree,
    Struct,
    Trajectory,
    seats_of_player,
    stack_policies,
    supports,
)


class Outlook(NamedTuple):
    """What follows the last row of play: its value, and whether that is known."""

    value: Array  # []
    known: Array  # [] bool


def advantages(
    reward: Array,
    value: Array,
    acted: Array,
    terminated: Array,
    truncated: Array,
    outlook: Outlook,
    discount: ArrayLike,
    decay: ArrayLike,
) -> tuple[Array, Array]:
    """Generalised advantages [T] of one seat, and which decisions [T] they are known for.

    A decision's successor is the seat's next decision: rewards in between are summed into it, other seats' moves
    leave no trace, and the recursion A_t = delta_t + discount * decay * A_{t+1} runs over decisions only. Nothing
    follows a terminated episode. Where play was cut, by a time limit or by the end of the rows, the last decision has
    no advantage, and its own value stands in for what followed it. Zero where the seat did not act.
    """
    chex.assert_rank([reward, value, acted, terminated, truncated], 1)
    Carry = tuple[Array, Array, Array, Array]

    def backward(carry: Carry, row: tuple[Array, ...]) -> tuple[Carry, tuple[Array, Array]]:
        step_reward, step_value, step_acted, ended, cut = row
        zero = jnp.zeros_like(step_value)
        over = (zero, zero, zero, ended)
        next_value, next_advantage, pending, known = _where(ended | cut, over, carry)
        pending = pending + step_reward
        delta = pending + discount * next_value - step_value
        advantage = jnp.where(known, delta + discount * decay * next_advantage, 0.0)
        decided = (step_value, advantage, zero, jnp.ones_like(known))
        waiting = (next_value, next_advantage, pending, known)
        return _where(step_acted, decided, waiting), (advantage, step_acted & known)

    zero = jnp.zeros_like(outlook.value)
    start = (outlook.value, zero, zero, outlook.known)
    rows = (reward, value, acted, terminated, truncated)
    _, (found, known) = jax.lax.scan(backward, start, rows, reverse=True, unroll=len(reward) <= 8)
    return jnp.where(acted, found, 0.0), known


def gae(reward: Array, value: Array, acted: Array, final_value: Array, discount: ArrayLike, decay: ArrayLike) -> Array:
    """`advantages` [T] of one seat in one episode, after which stands `final_value`: 0 unless it was truncated."""
    chex.assert_rank(final_value, 0)
    never = jnp.zeros_like(acted)
    outlook = Outlook(final_value, jnp.bool_(True))
    return advantages(reward, value, acted, never, never, outlook, discount, decay)[0]


def _where(condition: Array, left: PyTree, right: PyTree) -> PyTree:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), left, right)


class Learner(NamedTuple):
    """policy(params, code) -> policy_params; value(params, code, observation) -> []; apply runs the policy."""

    policy: Callable[[PyTree, Array], PyTree]
    value: Callable[[PyTree, Array, Array], Array]
    apply: Apply


class Experience(Struct):
    """What one player saw and did: G codes, E episodes each, R rows of these, one per step and seat of the player.

    Rows are one axis: XLA's CPU kernels take several times as long for the same numbers in seven axes.
    """

    code: Array  # [G, D]
    observation: Array  # [G, R, *obs]
    legal: Array  # [G, R, A]
    action: Array  # [G, R, ...]
    log_prob: Array  # [G, R]
    acted: Array  # [G, R], decisions to learn from
    advantage: Array  # [G, R]
    target: Array  # [G, R], of the critic
    episodes: Array  # [] int32
    env_steps: Array  # [] int32
    earned: Array  # [G, E], what the player's rewards come to, in units of the scaled return
    faced: Array  # [G, E, players], the slots of the others
    row: Array | None = None  # [G, R] int32, of the table that a tabular policy looked up


class Lanes(Struct):
    """Games under way, one per (code, opponent, episode): where the next round of experience goes on."""

    state: GameState  # [G, N, M, ...]
    indices: Array  # [G, N, players], the opponents, who stay


def start_lanes(
    key: Array, game: Game, log_sigma: Array, groups: int, num_opponents: int, episodes: int, stratified: bool = False
) -> Lanes:
    """New games against draws of the others' sigma. key: consumed."""
    key_draw, key_deal = jax.random.split(key)
    indices = draw_opponents(key_draw, game, log_sigma, (groups, num_opponents), stratified)
    keys = jax.random.split(key_deal, (groups, num_opponents, episodes))
    return Lanes(jax.vmap(jax.vmap(jax.vmap(game.init)))(keys), indices)


def collect(
    key: Array,
    game: Game,
    learner: Learner,
    params: PyTree,
    codes: Array,
    opponents: StackedPolicies,
    log_sigma: Array,
    *,
    num_opponents: int,
    episodes: int,
    discount: ArrayLike,
    decay: ArrayLike,
    stratified: bool = False,
) -> Experience:
    """Whole episodes of each code [G, D] as player 0 against draws of the others' sigma, with their advantages.

    key: consumed.
    """
    key_draw, key_play = jax.random.split(key)
    indices = draw_opponents(key_draw, game, log_sigma, (codes.shape[0], num_opponents), stratified)
    return collect_against(
        key_play, game, learner, params, codes, opponents, indices, episodes=episodes, discount=discount, decay=decay
    )


def collect_against(
    key: Array,
    game: Game,
    learner: Learner,
    params: PyTree,
    codes: Array,
    opponents: StackedPolicies,
    indices: Array,
    *,
    episodes: int,
    discount: ArrayLike,
    decay: ArrayLike,
) -> Experience:
    """The same against the opponents in slots [G, N, players] that were drawn already. key: consumed."""
    policies = stack_policies(lambda code: learner.policy(params, code), codes)
    play = partial(unroll, seats=seats_of_player(game, 0))
    trajectory = play_groups(play, key, game, policies, learner.apply, opponents, indices, episodes)
    return _experience(game, learner, params, codes, trajectory, indices, discount, decay, whole=True)


def collect_on(
    key: Array,
    game: Game,
    learner: Learner,
    params: PyTree,
    codes: Array,
    opponents: StackedPolicies,
    lanes: Lanes,
    *,
    steps: int,
    discount: ArrayLike,
    decay: ArrayLike,
) -> tuple[Experience, Lanes]:
    """`steps` steps of every lane, whatever episode it is in. key: consumed."""
    policies = stack_policies(lambda code: learner.policy(params, code), codes)
    episodes = lanes.state.terminated.shape[2]

    def play(lane_key: Array, game: Game, players: Policies, state: GameState) -> tuple[GameState, Trajectory]:
        return go_on(lane_key, game, players, state, steps, seats_of_player(game, 0))

    state, trajectory = play_groups(
        play, key, game, policies, learner.apply, opponents, lanes.indices, episodes, lanes=(lanes.state,)
    )
    batch = _experience(game, learner, params, codes, trajectory, lanes.indices, discount, decay, whole=False)
    return batch, dataclasses.replace(lanes, state=state)


class Source(NamedTuple):
    """Where a population's experience comes from: its places, who sits in the others, how much a round plays."""

    views: tuple[View, ...]
    learner: Learner
    opponents: StackedPolicies  # [P, K, ...] in the order of the views, as is the next
    log_sigma: Array  # [P, K]
    num_opponents: int  # per code and round
    episodes: int  # per code and opponent
    segment: int  # steps per round of games that go on from round to round; 0 plays whole episodes
    discount: ArrayLike
    decay: ArrayLike
    stratified: bool = False

    def _each(self, key: Array, function: Callable[..., PyTree], *each: list[PyTree]) -> list[PyTree]:
        return each_view(self.views, function, jax.random.split(key, len(self.views)), *each)

    def whole(self, key: Array, params: PyTree, codes: Array, num_opponents: int, episodes: int) -> list[Experience]:
        """Whole episodes, one batch per view. key: consumed."""

        def play(view: View, k: Array) -> Experience:
            return collect(
                k, view, self.learner, params, codes, self.opponents, self.log_sigma, num_opponents=num_opponents,
                episodes=episodes, discount=self.discount, decay=self.decay, stratified=self.stratified,
            )  # fmt: skip

        return self._each(key, play)

    def lanes(self, key: Array, groups: int) -> list[Lanes]:
        """Games of `groups` codes to begin with, per view; none where rounds play whole episodes. key: consumed."""
        if not self.segment:
            return []
        sizes = (groups, self.num_opponents, self.episodes)
        return self._each(key, lambda view, k: start_lanes(k, view, self.log_sigma, *sizes, self.stratified))

    def one_round(
        self, key: Array, params: PyTree, codes: Array, lanes: list[Lanes]
    ) -> tuple[list[Experience], list[Lanes]]:
        """One batch per view, and where the games stand. key: consumed."""
        if not self.segment:
            return self.whole(key, params, codes, self.num_opponents, self.episodes), lanes

        def play(view: View, k: Array, lane: Lanes) -> tuple[Experience, Lanes]:
            return collect_on(
                k, view, self.learner, params, codes, self.opponents, lane, steps=self.segment,
                discount=self.discount, decay=self.decay,
            )  # fmt: skip

        played = self._each(key, play, lanes)
        return [batch for batch, _ in played], [lane for _, lane in played]


def decision_share(game: Game) -> float:
    """The share of rows (a step and a seat of player 0's) that are decisions: in turns, one seat decides in a step."""
    return 1.0 if game.simultaneous else 1.0 / game.num_seats


def _experience(
    game: Game,
    learner: Learner,
    params: PyTree,
    codes: Array,
    trajectory: Trajectory,
    indices: Array,
    discount: ArrayLike,
    decay: ArrayLike,
    whole: bool,
) -> Experience:
    """Advantages for the own seats' trajectories [G, N, M, ...] of player 0: whole episodes, or pieces of them."""
    faced = jnp.repeat(indices, trajectory.length.shape[2], axis=1)
    own = jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0], -1, *leaf.shape[3:]), trajectory)  # [G, E, ...]
    _, width = return_scale(game)
    team = jnp.mean(own.reward, axis=3) / width  # [G, E, T], in units of the scaled return
    value = _values_of_decisions(learner, params, codes, own)  # [G, E, T, Q]
    if whole and supports(game, Bounded) and not game.truncates:
        final, cut = jnp.zeros_like(value[:, :, 0]), jnp.zeros_like(own.truncated)
    elif whole:  # a time limit bootstraps from the position that it left behind
        final = values_on(learner, params, codes, own.final_observation, 3)  # [G, E, Q]
        final = jnp.where(own.truncated.any(axis=2)[..., None], final, 0.0)
        cut = jnp.zeros_like(own.truncated)
    else:  # that position is gone
        final, cut = jnp.zeros_like(value[:, :, 0]), own.truncated

    def lane(
        team: Array, value: Array, acted: Array, terminated: Array, cut: Array, final: Array
    ) -> tuple[Array, Array]:
        def seat(seat_value: Array, acted: Array, final_value: Array) -> tuple[Array, Array]:
            outlook = Outlook(final_value, jnp.bool_(whole))
            return advantages(team, seat_value, acted, terminated, cut, outlook, discount, decay)

        return jax.vmap(seat, in_axes=(1, 1, 0), out_axes=1)(value, acted, final)

    advantage, learnt = jax.vmap(jax.vmap(lane))(team, value, own.acted, own.terminated, cut, final)
    rows = {
        "observation": own.observation, "legal": own.legal, "action": own.action, "log_prob": own.log_prob,
        "acted": learnt, "advantage": advantage, "target": advantage + value, "row": own.row,
    }  # fmt: skip
    return Experience(
        code=codes,
        **jax.tree.map(lambda leaf: leaf.reshape(len(codes), -1, *leaf.shape[4:]), rows),
        episodes=jnp.sum(own.terminated | own.truncated, dtype=jnp.int32),
        env_steps=jnp.sum(own.length, dtype=jnp.int32),
        earned=team.sum(axis=2),
        faced=faced,
    )


def values_on(learner: Learner, params: PyTree, codes: Array, observation: Array, rank: int = 2) -> Array:
    """What the critic says of observations whose first `rank` axes are rows, the first of them the codes' [G]."""
    shape = observation.shape[:rank]
    rows = observation.reshape(len(codes), -1, *observation.shape[rank:])
    of_code = jax.vmap(learner.value, in_axes=(None, None, 0))
    return jax.vmap(of_code, in_axes=(None, 0, 0))(params, codes, rows).reshape(shape)


def values_everywhere(learner: Learner, params: PyTree, codes: Array, table: TabularPolicy) -> Array:
    """What the critic says [G, I] of all rows of a table, for every code."""
    of_code = jax.vmap(learner.value, in_axes=(None, None, 0))
    return jax.vmap(of_code, in_axes=(None, 0, None))(params, codes, jnp.asarray(table.observations))


def _values_of_decisions(learner: Learner, params: PyTree, codes: Array, own: Trajectory) -> Array:
    """The same [G, E, T, Q] where a seat acted, anything elsewhere. Of many rows from one table, each is asked once."""
    table = table_of(learner, math.prod(own.acted.shape[1:]))
    if table is None or own.row is None:
        return values_on(learner, params, codes, own.observation, own.acted.ndim)
    known = values_everywhere(learner, params, codes, table)
    return jnp.take_along_axis(known, own.row.reshape(len(codes), -1), axis=1).reshape(own.acted.shape)


def table_of(learner: Learner, rows: int) -> TabularPolicy | None:
    """The table of a tabular learner, where `rows` rows of experience per code are more than it has."""
    table = learner.apply
    return table if isinstance(table, TabularPolicy) and table.distinct and len(table.legal) < rows else None
