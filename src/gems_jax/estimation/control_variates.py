"""Control variates for Monte-Carlo returns, after AIVAT (Burch et al. 2018): less variance at the same expectation.

An episode visits positions h_0, h_1, ... with actions a_t, step keys k_t and rewards r_t. For any function V of
positions (0 where the game is over) let

    q(h, a) = r(h, a, k_t) + V(step(h, a, k_t))
    Y       = sum_t r_t + sum_t [ sum_a pi(a | h_t) q(h_t, a) - q(h_t, a_t) ]  +  E_deal[V(h_0)] - V(h_0)

Every bracket has mean zero. The key k_t is fixed before a_t is drawn and independent of it given h_t, because actions
are drawn with separate noise. So given h_t and k_t the function q(h_t, .) is fixed, a_t is drawn from pi(. | h_t), and
the mean of q(h_t, a_t) is the sum before it. This also holds where chance acts inside `step`: all branches have the
same draw of chance, whose variance remains. The last two terms have mean zero because h_0 is drawn from the game's
deals. Hence E[Y] is the expected return for every V. The closer V is to the expected remaining return of the policies
that play, the lower the variance. If they agree and chance acts in the deal only, Y is constant.

All players' policies and the rules are known. Branches are calls of `game.step` on a model: no episode is played for
them. `Episode.length` does not count them; `count_branches` does.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.estimation.deals import index_deals, list_deals
from gems_jax.estimation.history_critic import ValueTargets
from gems_jax.host.stages import on_host
from gems_jax.rollout.episode import Policies, Transition, order_by_seat, stored_dtype, watch_transitions
from gems_jax.rollout.views import View, permute_seats
from gems_jax.types import Array, Episode, Game, GameState, PyTree, Struct, expect, static_field

MAX_JOINT = 256  # largest number of joint actions that are enumerated in simultaneous games
_UNROLL = 3  # episodes of at most this many steps are unrolled: branches triple the code of a step


class CorrectedPlay(Struct):
    """Plays one episode and computes corrected returns; made by `make_corrected_play`.

    It is a pytree, so that parameters of a critic can be traced and batched.
    """

    params: PyTree
    value: Callable[..., Array] = static_field()  # value(params, position, *context) -> [S]
    deals: bool = static_field(default=True)
    max_joint: int = static_field(default=MAX_JOINT)

    def __call__(self, key: Array, game: Game, policies: Policies, *context: PyTree) -> Episode:
        """Plays one episode with corrected returns [S]. key: consumed."""
        terms = _Correction(game, self, context)
        episode, correction = watch_transitions(key, game, policies, terms.start_sum, terms.add_to_sum, _UNROLL)
        return Episode(episode.returns + correction, episode.length)


class RecordedEpisode(NamedTuple):
    """A corrected episode with its plain returns and the training targets of a critic."""

    returns: Array  # [S], corrected returns
    length: Array  # [] int32, number of environment steps
    plain: Array  # [S], returns without correction
    targets: ValueTargets  # leaves [T, ...], seats in the order of the game itself


class RecordedPlay(CorrectedPlay):
    """Plays one episode as `CorrectedPlay` does and records the training targets of a critic."""

    def __call__(self, key: Array, game: Game, policies: Policies, *context: PyTree) -> RecordedEpisode:  # type: ignore[override]
        """Plays one episode with corrected returns [S] and targets. key: consumed."""
        terms = _Correction(game, self, context)
        start, add = terms.start_targets, terms.add_to_targets
        episode, (luck, rows) = watch_transitions(key, game, policies, start, add, _UNROLL)
        remaining = jnp.flip(jnp.cumsum(jnp.flip(rows.remaining, 0), axis=0), 0)
        returns = terms.to_view(remaining[0]) + luck
        return RecordedEpisode(returns, episode.length, episode.returns, rows.replace(remaining=remaining))


def make_corrected_play(
    value: Callable[..., Array], params: PyTree = None, *, deals: bool = True, max_joint: int = MAX_JOINT
) -> CorrectedPlay:
    """Makes a function that replaces `play_episode` and computes corrected returns Y.

        Y = sum_t r_t + sum_t [ sum_a pi(a | h_t) q(h_t, a) - q(h_t, a_t) ]  +  E_deal[V(h_0)] - V(h_0)

    It plays the same episode as `play_episode` with the same key. The expectation of Y does not depend on V. Corrected
    returns may exceed the game's return bounds.

    Args:
      value: V, value(params, position, *context) -> [S], any estimate of the remaining return of each seat, such as a
        `HistoryCritic`. Positions and values have the seats in the order of the game itself, even if a `View` of it is
        played. It is not called on final positions. It is static; pass traced arrays as `params` or context.
      params: parameters of `value`.
      deals: whether to correct for the deal where the game lists its deals, which takes one value per deal.
      max_joint: in simultaneous games up to this many joint actions are enumerated, and the correction is exact for the
        step. With more joint actions, each seat's actions are enumerated with the drawn actions of the others: the part
        that is additive in the seats' actions is removed, and an interaction of k seats keeps the factor (1 - k).

    Returns:
      play(key, game, policies, *context) -> `Episode` with corrected returns [S]. It raises ValueError for games with
      continuous actions and for games that run in Python.
    """
    return CorrectedPlay(params, value, deals, max_joint)


def make_recorded_play(
    value: Callable[..., Array], params: PyTree = None, *, deals: bool = True, max_joint: int = MAX_JOINT
) -> RecordedPlay:
    """Makes a function that plays as `make_corrected_play` does and records the training targets of a critic.

    The targets are corrected returns to go. They are unbiased for the remaining return, and their variance falls with
    the error of `value`.

    Args:
      value: see `make_corrected_play`.
      params: parameters of `value`.
      deals: see `make_corrected_play`.
      max_joint: see `make_corrected_play`.

    Returns:
      play(key, game, policies, *context) -> `RecordedEpisode`.
    """
    return RecordedPlay(params, value, deals, max_joint)


def count_branches(game: Game, max_joint: int = MAX_JOINT) -> int:
    """Counts the calls of `game.step` on branches per corrected step.

    Args:
      game: the game.
      max_joint: see `make_corrected_play`.

    Returns:
      A in turn-based games; A^S or S A in simultaneous ones.
    """
    if not game.simultaneous:
        return game.num_actions
    joint = game.num_actions**game.num_seats
    return joint if joint <= max_joint else game.num_seats * game.num_actions


class _Correction:
    """The terms of the correction in one game, and their sums along an episode."""

    def __init__(self, game: Game, play: CorrectedPlay, context: tuple[PyTree, ...]):
        expect(
            not game.continuous, f"control variates: expected discrete actions, got continuous actions of {game.name!r}"
        )
        expect(not on_host(game), f"control variates: expected a game in JAX, got {game.name!r}, which runs in Python.")
        self.game, self.play, self.context = game, play, context
        self.listed = list_deals(game) if play.deals else None
        self.find_deal = index_deals(game)
        self.joint = game.simultaneous and game.num_actions**game.num_seats <= play.max_joint

    def to_view(self, of_seats: Array) -> Array:
        """Permutes values [S] from the game's own order of seats to that of the view."""
        return of_seats[self.game.seats] if isinstance(self.game, View) else of_seats

    def from_view(self, state: GameState) -> GameState:
        """Permutes a position of the view to the game's own order of seats."""
        return permute_seats(state, jnp.argsort(self.game.seats)) if isinstance(self.game, View) else state

    def remaining_return(self, state: GameState) -> Array:
        """Evaluates V [S] of a position of the view; 0 at the end of the game."""
        found = self.play.value(self.play.params, self.from_view(state), *self.context)
        chex.assert_shape(found, (self.game.num_seats,))
        return jnp.where(state.done, 0.0, self.to_view(found))

    def start_sum(self, state: GameState) -> Array:
        """Computes E_deal[V(h_0)] - V(h_0), [S]."""
        if self.listed is None or len(self.listed[1]) == 1:
            return jnp.zeros(self.game.num_seats)
        states, probabilities = self.listed
        return probabilities @ jax.vmap(self.remaining_return)(states) - self.remaining_return(state)

    def add_to_sum(self, total: Array, transition: Transition) -> Array:
        """Adds the correction of one step."""
        return total + self.correct_step(transition)

    def start_targets(self, state: GameState) -> tuple[Array, ValueTargets]:
        """Makes the correction of the deal, and empty targets; `remaining` holds rewards until the episode ends."""
        position, steps = self.from_view(state), self.game.max_steps
        empty = lambda leaf, dtype: jnp.zeros((steps, *leaf.shape), dtype)  # noqa: E731
        return self.start_sum(state), ValueTargets(
            observation=empty(position.observation, stored_dtype(self.game)),
            to_move=empty(position.to_move, bool),
            remaining=jnp.zeros((steps, self.game.num_seats)),
            played=jnp.zeros(steps, bool),
            infoset=None if position.infoset is None else empty(position.infoset, position.infoset.dtype),
            deal=None if self.find_deal is None else jnp.zeros(steps, jnp.int32),
        )

    def add_to_targets(self, seen: tuple[Array, ValueTargets], transition: Transition) -> tuple[Array, ValueTargets]:
        """Records the position and the corrected rewards of one step."""
        first, rows = seen
        position, time = self.from_view(transition.state), transition.time
        earned = transition.following.reward + self.correct_step(transition)
        if isinstance(self.game, View):
            earned = earned[jnp.argsort(self.game.seats)]
        deal = None if self.find_deal is None else self.find_deal(position)
        found = ValueTargets(position.observation, position.to_move, earned, jnp.bool_(True), position.infoset, deal)
        return first, jax.tree.map(lambda room, row: room.at[time].set(row.astype(room.dtype)), rows, found)

    def correct_step(self, transition: Transition) -> Array:
        """Computes sum_a pi(a | h_t) q(h_t, a) - q(h_t, a_t), [S], of one step."""
        logits = [output.logits for output in transition.outputs]
        chances = jax.nn.softmax(jnp.stack(order_by_seat(self.game, logits)), axis=-1)  # [S, A]
        moves, actions = transition.state.to_move, transition.actions
        every = jnp.arange(self.game.num_actions)
        if self.joint:
            return self.correct_jointly(transition, chances)
        if not self.game.simultaneous:
            rows = jnp.where(moves[None, :], every[:, None], actions[None, :])
            chance = jnp.sum(jnp.where(moves[:, None], chances, 0.0), axis=0)
            played = every == jnp.sum(jnp.where(moves, actions, 0))
            legal = jnp.any(transition.state.legal, axis=0)
            return self.sum_branches(transition, rows, jnp.where(legal, chance, 0.0), played)
        total = jnp.zeros(self.game.num_seats)
        for seat in range(self.game.num_seats):
            rows = jnp.where(jnp.arange(self.game.num_seats)[None, :] == seat, every[:, None], actions[None, :])
            chance = jnp.where(transition.state.legal[seat], chances[seat], 0.0)
            found = self.sum_branches(transition, rows, chance, every == actions[seat])
            total = total + jnp.where(moves[seat], found, 0.0)
        return total

    def correct_jointly(self, transition: Transition, chances: Array) -> Array:
        """Computes `correct_step` over all joint actions; seats that are not to move have action 0 only."""
        state, seats = transition.state, self.game.num_seats
        joint = np.asarray(list(itertools.product(range(self.game.num_actions), repeat=seats)), np.int32)
        idle = jnp.arange(self.game.num_actions) == 0
        each = jnp.where(state.to_move[:, None], jnp.where(state.legal, chances, 0.0), idle[None, :])  # [S, A]
        chance = jnp.prod(jnp.stack([each[seat, joint[:, seat]] for seat in range(seats)]), axis=0)
        drawn = jnp.where(state.to_move, transition.actions, 0)
        return self.sum_branches(transition, jnp.asarray(joint), chance, jnp.all(joint == drawn[None, :], axis=1))

    def sum_branches(self, transition: Transition, rows: Array, chance: Array, played: Array) -> Array:
        """Computes sum_n (chance(n) - played(n)) q(h, n), [S], over joint actions.

        Args:
          transition: the step.
          rows: joint actions, [n, S].
          chance: their probabilities, [n].
          played: which of them was drawn, [n] bool.
        """

        def branch(actions: Array) -> Array:
            following = self.game.step(transition.state, actions, jax.random.clone(transition.key))
            return following.reward + self.remaining_return(following)

        weight = chance - played
        gains = jnp.where((weight != 0.0)[:, None], jax.vmap(branch)(rows), 0.0)
        return jnp.sum(weight[:, None] * gains, axis=0)
