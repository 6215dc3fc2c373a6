"""Collection of experience with advantages: whole episodes, or segments of games that continue across rounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.estimation.monte_carlo import draw_opponents, return_scale
from gems_jax.learning.batches import (
    Experience,
    Learner,
    choose_table,
    evaluate_critic,
    evaluate_critic_on_table,
    evaluate_policies,
    select_taken,
)
from gems_jax.learning.gae import Outlook, advantages, doubly_robust_weights, expected_value
from gems_jax.learning.tabular import log_probs
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.episode import Policies, take_seats, unroll, unroll_segment
from gems_jax.rollout.groups import play_groups
from gems_jax.rollout.views import View, map_views
from gems_jax.types import (
    Array,
    Bounded,
    Game,
    GameState,
    Policy,
    PyTree,
    Struct,
    Trajectory,
    seats_of_player,
    stack_policies,
    supports,
)


class PlaySettings(NamedTuple):
    """Numbers of episodes of a round, and constants of its advantages."""

    num_opponents: int  # per code
    episodes: int  # per code and opponent
    discount: ArrayLike  # gamma
    decay: ArrayLike  # lambda of GAE
    stratified: bool = False  # whether opponents are drawn by systematic sampling
    segment: int = 0  # steps per round of games that continue across rounds; 0 plays whole episodes
    doubly_robust: bool = False  # whether returns correct action values; ignored if the critic estimates values


class OngoingGames(Struct):
    """Unfinished games, one per (code, opponent, episode), from which the next segment continues."""

    state: GameState  # [G, N, M, ...]
    indices: Array  # [G, N, players], slots of the opponents, which do not change


def start_games(key: Array, game: Game, log_sigma: Array, groups: int, settings: PlaySettings) -> OngoingGames:
    """Starts the games of G codes against opponents drawn from the others' mixtures.

    Args:
      key: typed PRNG key; consumed.
      game: the game, usually a view.
      log_sigma: logarithms of the mixtures, [P, K].
      groups: G.
      settings: numbers of opponents N and episodes M.

    Returns:
      Games [G, N, M].
    """
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
    """Plays whole episodes of each code as player 0 against opponents drawn from the others' mixtures.

    Args:
      key: typed PRNG key; consumed.
      game: the game, usually a view.
      learner: evaluates the policies and the critic.
      params: trainable parameters of the learner.
      codes: latent codes, [G, D].
      opponents: policies of the others, [P, K, ...].
      log_sigma: logarithms of their mixtures, [P, K].
      settings: numbers of episodes, and constants of the advantages.

    Returns:
      The experience of player 0.
    """
    key_draw, key_play = jax.random.split(key)
    shape = (codes.shape[0], settings.num_opponents)
    indices = draw_opponents(key_draw, game, log_sigma, shape, settings.stratified)
    return collect_against_slots(key_play, game, learner, params, codes, opponents, indices, settings)


def collect_against_slots(
    key: Array,
    game: Game,
    learner: Learner,
    params: PyTree,
    codes: Array,
    opponents: StackedPolicies,
    indices: Array,
    settings: PlaySettings,
) -> Experience:
    """Plays whole episodes of each code against given opponents.

    Args:
      key: typed PRNG key; consumed.
      game: the game, usually a view.
      learner: evaluates the policies and the critic.
      params: trainable parameters of the learner.
      codes: latent codes, [G, D].
      opponents: policies of the others, [P, K, ...].
      indices: slots of the opponents, [G, N, players].
      settings: number of episodes, and constants of the advantages.

    Returns:
      The experience of player 0.
    """
    policies = StackedPolicies(stack_policies(lambda code: learner.policy(params, code), codes), learner.apply)
    play = partial(unroll, seats=seats_of_player(game, 0))
    trajectory = play_groups(play, key, game, policies, opponents, indices, settings.episodes)
    return _make_experience(game, learner, params, codes, trajectory, indices, settings, whole=True)


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
    """Continues every game for `settings.segment` steps, with a new episode whenever one ends.

    Args:
      key: typed PRNG key; consumed.
      game: the game, usually a view.
      learner: evaluates the policies and the critic.
      params: trainable parameters of the learner.
      codes: latent codes, [G, D].
      opponents: policies of the others, [P, K, ...].
      games: games to continue, [G, N, M].
      settings: length of the segment, and constants of the advantages.

    Returns:
      The experience of player 0, and the games to continue in the next round.
    """
    policies = StackedPolicies(stack_policies(lambda code: learner.policy(params, code), codes), learner.apply)
    episodes = games.state.terminated.shape[2]

    def play(episode_key: Array, game: Game, players: Policies, state: GameState) -> tuple[GameState, Trajectory]:
        return unroll_segment(episode_key, game, players, state, settings.segment, seats_of_player(game, 0))

    state, trajectory = play_groups(play, key, game, policies, opponents, games.indices, episodes, lanes=(games.state,))
    batch = _make_experience(game, learner, params, codes, trajectory, games.indices, settings, whole=False)
    return batch, games.replace(state=state)


class SelfPlay(NamedTuple):
    """Play among current policies, one per player, in which every player learns from its own seats."""

    game: Game
    learners: tuple[Learner, ...]  # per player, as are the arguments below
    settings: PlaySettings

    def start_games(self, key: Array) -> OngoingGames | None:
        """Starts the games; None if rounds play whole episodes. key: consumed."""
        if not self.settings.segment:
            return None
        return start_games(key, self.game, jnp.zeros((len(self.learners), 1)), 1, self._one_draw)

    @property
    def _one_draw(self) -> PlaySettings:
        """The settings with all episodes against one draw, as there is one opponent."""
        return self.settings._replace(num_opponents=1, episodes=self.settings.num_opponents * self.settings.episodes)

    def play_round(
        self, key: Array, params: Sequence[PyTree], codes: Sequence[Array], games: OngoingGames | None
    ) -> tuple[list[Experience], OngoingGames | None]:
        """Plays one round.

        Args:
          key: typed PRNG key; consumed.
          params: parameters of every player's learner.
          codes: latent code [1, D] of every player.
          games: games to continue; None to play whole episodes.

        Returns:
          The experience of every player, each of which counts all episodes and steps, and the games to continue.
        """
        game, own = self.game, self._one_draw
        found: dict[int, Policy] = {}  # players of one population have one policy, which is then evaluated once
        for player, (learner, p, code) in enumerate(zip(self.learners, params, codes, strict=True)):
            found.setdefault(game.population_of_player[player], Policy(learner.policy(p, code[0]), learner.apply))
        policies = tuple(found[owner] for owner in game.population_of_player)
        keys = jax.random.split(key, own.episodes)
        seats = tuple(range(game.num_seats))
        if games is None:
            trajectory = jax.vmap(lambda k: unroll(k, game, policies))(keys)
        else:
            state = jax.tree.map(lambda leaf: leaf[0, 0], games.state)
            play = lambda k, lane: unroll_segment(k, game, policies, lane, own.segment, seats)  # noqa: E731
            state, trajectory = jax.vmap(play)(keys, state)
            games = games.replace(state=jax.tree.map(lambda leaf: leaf[None, None], state))
        trajectory = jax.tree.map(lambda leaf: leaf[None, None], trajectory)
        indices = jnp.zeros((1, 1, len(policies)), jnp.int32)
        batches = [
            _make_experience(
                game, learner, params[player], codes[player], _select_seats(trajectory, game, player), indices, own,
                whole=games is None,
            )
            for player, learner in enumerate(self.learners)
        ]  # fmt: skip
        return batches, games


def _select_seats(trajectory: Trajectory, game: Game, player: int) -> Trajectory:
    """The rows of a player's seats in a trajectory [G, N, M, ...] of all seats."""
    seats = seats_of_player(game, player)
    by_seat = ("observation", "legal", "action", "log_prob", "acted", "reward", "row")
    rows = {name: getattr(trajectory, name) for name in by_seat}
    own = {name: None if rows[name] is None else take_seats(rows[name], seats, axis=4) for name in by_seat}
    final = {
        name: take_seats(getattr(trajectory, name), seats, axis=3) for name in ("final_observation", "final_legal")
    }
    return trajectory.replace(**own, **final)


class Source(NamedTuple):
    """Source of a population's experience: its views of the game, its learner and its opponents."""

    views: tuple[View, ...]
    learner: Learner
    opponents: StackedPolicies  # [P, K, ...] in the order of the views
    log_sigma: Array  # [P, K], logarithms of their mixtures, in the same order
    settings: PlaySettings

    def play_episodes(self, key: Array, params: PyTree, codes: Array, settings: PlaySettings) -> list[Experience]:
        """Plays whole episodes of the codes [G, D] and returns one batch per view. key: consumed."""

        def play(view: View, k: Array) -> Experience:
            return collect_episodes(k, view, self.learner, params, codes, self.opponents, self.log_sigma, settings)

        return self._map_views(key, play)

    def start_games(self, key: Array, groups: int) -> list[OngoingGames]:
        """Starts the games of `groups` codes in every view; no games if rounds play whole episodes. key: consumed."""
        if not self.settings.segment:
            return []
        return self._map_views(key, lambda view, k: start_games(k, view, self.log_sigma, groups, self.settings))

    def play_round(
        self, key: Array, params: PyTree, codes: Array, games: list[OngoingGames]
    ) -> tuple[list[Experience], list[OngoingGames]]:
        """Plays one round.

        Args:
          key: typed PRNG key; consumed.
          params: trainable parameters of the learner.
          codes: latent codes, [G, D].
          games: games to continue, one per view; empty if rounds play whole episodes.

        Returns:
          One batch per view, and the games to continue in the next round.
        """
        if not self.settings.segment:
            return self.play_episodes(key, params, codes, self.settings), games

        def play(view: View, k: Array, own: OngoingGames) -> tuple[Experience, OngoingGames]:
            return collect_segment(k, view, self.learner, params, codes, self.opponents, own, self.settings)

        played = self._map_views(key, play, games)
        return [batch for batch, _ in played], [own for _, own in played]

    def _map_views(self, key: Array, function: Callable[..., PyTree], *each: list[PyTree]) -> list[PyTree]:
        return map_views(self.views, function, jax.random.split(key, len(self.views)), *each)


def decision_fraction(game: Game) -> float:
    """Returns the fraction of rows (a step and a seat of player 0) that are decisions: 1 / S in turn-based games."""
    return 1.0 if game.simultaneous else 1.0 / game.num_seats


def _make_experience(
    game: Game,
    learner: Learner,
    params: PyTree,
    codes: Array,
    trajectory: Trajectory,
    indices: Array,
    settings: PlaySettings,
    whole: bool,
) -> Experience:
    """Adds advantages to trajectories [G, N, M, ...] of player 0's seats: whole episodes, or segments."""
    faced = jnp.repeat(indices, trajectory.length.shape[2], axis=1)
    own = jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0], -1, *leaf.shape[3:]), trajectory)  # [G, E, ...]
    _, width = return_scale(game)
    team = jnp.mean(own.reward, axis=3) / width  # [G, E, T], in units of the scaled return
    found, log_pi = _evaluate_decisions(learner, params, codes, own)
    value = _mean_over_actions(found, log_pi)  # [G, E, T, Q]
    # The last position before a time limit is recorded for whole episodes only.
    final, cut = jnp.zeros_like(value[:, :, 0]), jnp.zeros_like(own.truncated) if whole else own.truncated
    if whole and not (supports(game, Bounded) and not game.truncates):
        legal = own.final_legal | ~own.final_legal.any(axis=-1, keepdims=True)  # games may list none at a time limit
        final = _mean_over_actions(*_evaluate_rows(learner, params, codes, own.final_observation, legal))  # [G, E, Q]
        final = jnp.where(own.truncated.any(axis=2)[..., None], final, 0.0)

    def episode(
        team: Array, value: Array, acted: Array, terminated: Array, cut: Array, final: Array
    ) -> tuple[Array, Array]:
        def seat(seat_value: Array, acted: Array, final_value: Array) -> tuple[Array, Array]:
            outlook = Outlook(final_value, jnp.bool_(whole))
            return advantages(team, seat_value, acted, terminated, cut, outlook, settings.discount, settings.decay)

        return jax.vmap(seat, in_axes=(1, 1, 0), out_axes=1)(value, acted, final)

    advantage, learnt = jax.vmap(jax.vmap(episode))(team, value, own.acted, own.terminated, cut, final)
    target, log_prob = advantage + value, own.log_prob
    if log_pi is not None and settings.doubly_robust:
        advantage = doubly_robust_weights(found, jnp.exp(log_pi), own.action, target)
        log_prob = jnp.where(own.legal, log_pi, 0.0)
    elif log_pi is not None:
        advantage = jnp.where(own.acted, select_taken(found, own.action, value.ndim) - value, 0.0)
    rows = {
        "observation": own.observation, "legal": own.legal, "action": own.action, "log_prob": log_prob,
        "acted": learnt, "advantage": advantage, "target": target, "row": own.row,
    }  # fmt: skip
    return Experience(
        code=codes,
        **jax.tree.map(lambda leaf: leaf.reshape(len(codes), -1, *leaf.shape[4:]), rows),
        episodes=jnp.sum(own.terminated | own.truncated, dtype=jnp.int32),
        env_steps=jnp.sum(own.length, dtype=jnp.int32),
        earned=team.sum(axis=2),
        faced=faced,
    )


def _evaluate_decisions(learner: Learner, params: PyTree, codes: Array, own: Trajectory) -> tuple[Array, Array | None]:
    """Evaluates decisions as `_evaluate_rows` does; arbitrary where no seat acted. Rows of small tables only once."""
    table = choose_table(learner, math.prod(own.acted.shape[1:]))
    if table is None or own.row is None:
        return _evaluate_rows(learner, params, codes, own.observation, own.legal)
    row = own.row.reshape(len(codes), -1)

    def look_up(known: Array) -> Array:  # [G, I] or [G, I, A]
        of_rows = jnp.take_along_axis(known, row.reshape(*row.shape, *(1,) * (known.ndim - 2)), axis=1)
        return of_rows.reshape(*own.acted.shape, *known.shape[2:])

    known = evaluate_critic_on_table(learner, params, codes, table)
    if known.ndim == 2:
        return look_up(known), None
    log_pi = log_probs(learner, params, codes).reshape(-1, *known.shape[:2])  # [A, G, I]
    return look_up(known), look_up(jnp.moveaxis(log_pi, 0, 2))


def _evaluate_rows(
    learner: Learner, params: PyTree, codes: Array, observation: Array, legal: Array
) -> tuple[Array, Array | None]:
    """Values V of rows [G, ...] and None, or action values Q and log pi of all actions, [G, ..., A] each.

    observation: [G, ..., *obs]; legal: [G, ..., A].
    """
    rank = legal.ndim - 1
    found = evaluate_critic(learner, params, codes, observation, rank)
    if found.ndim == rank:
        return found, None
    rows = observation.reshape(len(codes), -1, *observation.shape[rank:])
    output = evaluate_policies(learner, params, codes, rows, legal.reshape(*rows.shape[:2], -1))
    assert output.logits is not None  # `critic_network` rejects continuous actions
    return found, jax.nn.log_softmax(output.logits).reshape(legal.shape)


def _mean_over_actions(found: Array, log_pi: Array | None) -> Array:
    """Computes V [G, ...] from the results of `_evaluate_rows`."""
    return found if log_pi is None else expected_value(found, jnp.exp(log_pi))
