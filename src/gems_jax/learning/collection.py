"""Collecting experience: whole episodes, or segments of games that continue from round to round, with advantages."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.estimation.monte_carlo import draw_opponents, return_scale
from gems_jax.learning.batches import Experience, Learner, table_of, values_of_table, values_on
from gems_jax.learning.gae import Outlook, advantages
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.episode import Policies, unroll, unroll_segment
from gems_jax.rollout.groups import play_groups
from gems_jax.rollout.views import View, each_view
from gems_jax.types import (
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


class PlaySettings(NamedTuple):
    """How much a round plays, and how its advantages are computed."""

    num_opponents: int  # per code
    episodes: int  # per code and opponent
    discount: ArrayLike
    decay: ArrayLike  # lambda of GAE
    stratified: bool = False  # opponents are drawn systematically
    segment: int = 0  # steps per round of games that continue from round to round; 0 plays whole episodes


class OngoingGames(Struct):
    """Games in progress, one per (code, opponent, episode): where the next segment continues."""

    state: GameState  # [G, N, M, ...]
    indices: Array  # [G, N, players], the opponents, who stay


def start_games(key: Array, game: Game, log_sigma: Array, groups: int, settings: PlaySettings) -> OngoingGames:
    """Starts games of `groups` codes against draws of the others' sigma [P, K]. key: consumed."""
    key_draw, key_deal = jax.random.split(key)
    shape = (groups, settings.num_opponents)
    indices = draw_opponents(key_draw, game, log_sigma, shape, settings.stratified)
    keys = jax.random.split(key_deal, (*shape, settings.episodes))
    return OngoingGames(jax.vmap(jax.vmap(jax.vmap(game.init)))(keys), indices)


def collect_episodes(
    key: Array,
    game: Game,
    learner: Learner,
    params: PyTree,
    codes: Array,
    opponents: StackedPolicies,
    log_sigma: Array,
    settings: PlaySettings,
) -> Experience:
    """Plays whole episodes of each code as player 0 against draws of the others' sigma.

    Args:
      key: typed PRNG key; consumed.
      game: the game, usually a view.
      learner: runs the policies and the critic.
      params: of the learner.
      codes: [G, D].
      opponents: policies of the others, [P, K, ...].
      log_sigma: logarithms of their mixtures, [P, K].
      settings: numbers of episodes, and how advantages are computed.

    Returns:
      The experience of player 0.
    """
    key_draw, key_play = jax.random.split(key)
    shape = (codes.shape[0], settings.num_opponents)
    indices = draw_opponents(key_draw, game, log_sigma, shape, settings.stratified)
    return collect_against(key_play, game, learner, params, codes, opponents, indices, settings)


def collect_against(
    key: Array,
    game: Game,
    learner: Learner,
    params: PyTree,
    codes: Array,
    opponents: StackedPolicies,
    indices: Array,
    settings: PlaySettings,
) -> Experience:
    """Plays whole episodes against the opponents in slots `indices` [G, N, players]; see `collect_episodes`."""
    policies = StackedPolicies(stack_policies(lambda code: learner.policy(params, code), codes), learner.apply)
    play = partial(unroll, seats=seats_of_player(game, 0))
    trajectory = play_groups(play, key, game, policies, opponents, indices, settings.episodes)
    return _experience(game, learner, params, codes, trajectory, indices, settings, whole=True)


def collect_segment(
    key: Array,
    game: Game,
    learner: Learner,
    params: PyTree,
    codes: Array,
    opponents: StackedPolicies,
    games: OngoingGames,
    settings: PlaySettings,
) -> tuple[Experience, OngoingGames]:
    """Continues every game for `settings.segment` steps, across ends of episodes; see `collect_episodes`."""
    policies = StackedPolicies(stack_policies(lambda code: learner.policy(params, code), codes), learner.apply)
    episodes = games.state.terminated.shape[2]

    def play(lane_key: Array, game: Game, players: Policies, state: GameState) -> tuple[GameState, Trajectory]:
        return unroll_segment(lane_key, game, players, state, settings.segment, seats_of_player(game, 0))

    state, trajectory = play_groups(play, key, game, policies, opponents, games.indices, episodes, lanes=(games.state,))
    batch = _experience(game, learner, params, codes, trajectory, games.indices, settings, whole=False)
    return batch, games.replace(state=state)


class Source(NamedTuple):
    """Where a population's experience comes from: its views of the game, and who fills the other positions."""

    views: tuple[View, ...]
    learner: Learner
    opponents: StackedPolicies  # [P, K, ...] in the order of the views, as is the next
    log_sigma: Array  # [P, K]
    settings: PlaySettings

    def play_episodes(self, key: Array, params: PyTree, codes: Array, settings: PlaySettings) -> list[Experience]:
        """Plays whole episodes, one batch per view. key: consumed."""

        def play(view: View, k: Array) -> Experience:
            return collect_episodes(k, view, self.learner, params, codes, self.opponents, self.log_sigma, settings)

        return self._each_view(key, play)

    def start_games(self, key: Array, groups: int) -> list[OngoingGames]:
        """Starts games of `groups` codes, per view; none where rounds play whole episodes. key: consumed."""
        if not self.settings.segment:
            return []
        return self._each_view(key, lambda view, k: start_games(k, view, self.log_sigma, groups, self.settings))

    def play_round(
        self, key: Array, params: PyTree, codes: Array, games: list[OngoingGames]
    ) -> tuple[list[Experience], list[OngoingGames]]:
        """Plays one round: one batch per view, and the games to continue with. key: consumed."""
        if not self.settings.segment:
            return self.play_episodes(key, params, codes, self.settings), games

        def play(view: View, k: Array, own: OngoingGames) -> tuple[Experience, OngoingGames]:
            return collect_segment(k, view, self.learner, params, codes, self.opponents, own, self.settings)

        played = self._each_view(key, play, games)
        return [batch for batch, _ in played], [own for _, own in played]

    def _each_view(self, key: Array, function: Callable[..., PyTree], *each: list[PyTree]) -> list[PyTree]:
        return each_view(self.views, function, jax.random.split(key, len(self.views)), *each)


def decision_fraction(game: Game) -> float:
    """Fraction of the rows (a step and a seat of player 0) that are decisions: in turns, one seat decides in a step."""
    return 1.0 if game.simultaneous else 1.0 / game.num_seats


def _experience(
    game: Game,
    learner: Learner,
    params: PyTree,
    codes: Array,
    trajectory: Trajectory,
    indices: Array,
    settings: PlaySettings,
    whole: bool,
) -> Experience:
    """Attaches advantages to trajectories [G, N, M, ...] of player 0's seats: whole episodes, or segments."""
    faced = jnp.repeat(indices, trajectory.length.shape[2], axis=1)
    own = jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0], -1, *leaf.shape[3:]), trajectory)  # [G, E, ...]
    _, width = return_scale(game)
    team = jnp.mean(own.reward, axis=3) / width  # [G, E, T], in units of the scaled return
    value = _values_of_decisions(learner, params, codes, own)  # [G, E, T, Q]
    # The position that a time limit leaves behind is known at the end of an episode only.
    final, cut = jnp.zeros_like(value[:, :, 0]), jnp.zeros_like(own.truncated) if whole else own.truncated
    if whole and not (supports(game, Bounded) and not game.truncates):
        final = values_on(learner, params, codes, own.final_observation, 3)  # [G, E, Q]
        final = jnp.where(own.truncated.any(axis=2)[..., None], final, 0.0)

    def episode(
        team: Array, value: Array, acted: Array, terminated: Array, cut: Array, final: Array
    ) -> tuple[Array, Array]:
        def seat(seat_value: Array, acted: Array, final_value: Array) -> tuple[Array, Array]:
            outlook = Outlook(final_value, jnp.bool_(whole))
            return advantages(team, seat_value, acted, terminated, cut, outlook, settings.discount, settings.decay)

        return jax.vmap(seat, in_axes=(1, 1, 0), out_axes=1)(value, acted, final)

    advantage, learnt = jax.vmap(jax.vmap(episode))(team, value, own.acted, own.terminated, cut, final)
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


def _values_of_decisions(learner: Learner, params: PyTree, codes: Array, own: Trajectory) -> Array:
    """Values [G, E, T, Q] where a seat acted, anything elsewhere. Of many rows from one table, each is asked once."""
    table = table_of(learner, math.prod(own.acted.shape[1:]))
    if table is None or own.row is None:
        return values_on(learner, params, codes, own.observation, own.acted.ndim)
    known = values_of_table(learner, params, codes, table)
    return jnp.take_along_axis(known, own.row.reshape(len(codes), -1), axis=1).reshape(own.acted.shape)
