"""A ring buffer of joint episodes, from which the values of all anchors against any mixtures are estimated.

All policies are known, so an episode is evidence about every anchor, whoever played it: its return is weighted by the
likelihood of the player's decisions under an anchor, divided by that under the mixture that was drawn from. The weights
are those of eq:iw_estimator_main with the drawn index summed out, over the episodes of several iterations:

    ratio_p(b, k) = prod_{t: player p moves} pi_k(a_t | o_t) / sum_i q_p(i) prod_t pi_i(a_t | o_t)

where q are the mixtures that episode b was drawn from and pi_i their policies at that time. The denominator is the
balance heuristic over the anchors of an iteration: no anchor with q(k) > 0 has a ratio above 1 / q(k) while its policy
does not change. Anchors that are trained further, or added, need no new episodes: their ratios change. Stored episodes
never become stale.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.estimation.estimated_game import JointGame
from gems_jax.estimation.monte_carlo import draw_opponents, player_return, return_scale, to_unit
from gems_jax.policies import distributions
from gems_jax.policies.population import StackedPolicies
from gems_jax.policies.tabular import TabularPolicy
from gems_jax.rollout.episode import unroll
from gems_jax.rollout.groups import play_joint
from gems_jax.rollout.views import take_population
from gems_jax.types import (
    Apply,
    Array,
    Game,
    PolicyOutput,
    PyTree,
    Struct,
    Trajectory,
    is_two_player_zero_sum,
    num_players,
    num_populations,
    num_slots,
    slot_axes,
)

_BLOCK = 4096  # episodes whose likelihoods are computed together
_LARGEST = 30.0  # bound of the logarithm of a ratio: float32 can represent the squared ratio


class TrajectoryBuffer(Struct):
    """The last B joint episodes: decisions, returns, and likelihoods under the mixtures that played.

    Axis Q counts the decisions of an episode: steps in turn-based games, steps times seats in simultaneous ones.
    """

    decision: PyTree  # [B, Q, ...], "action", and "row" of a table or "observation" and "legal"
    player: Array  # [B, Q] int8, player that decided, -1 on padding
    log_drawn: Array  # [B, players], log of the denominator
    returns: Array  # [B, players], scaled
    born: Array  # [B] int32, iteration of the episode, -1 for an empty slot
    cursor: Array  # [] int32, next slot to overwrite


class JointEpisodes(NamedTuple):
    """Joint episodes of one iteration, as `TrajectoryBuffer` stores them, and their cost."""

    decision: PyTree  # [n, Q, ...]
    player: Array  # [n, Q]
    log_drawn: Array  # [n, players]
    returns: Array  # [n, players]
    episodes: Array
    env_steps: Array


def empty_buffer(game: Game, policies: StackedPolicies, size: int) -> TrajectoryBuffer:
    """Makes an empty buffer for the episodes of `play_and_record`.

    Args:
      game: the game.
      policies: the policies of all anchors, [P, K, ...].
      size: B, number of episodes.

    Returns:
      The buffer.
    """
    shape = (num_populations(game), num_slots(take_population(policies, 0).params))

    def record(key: Array, policies: StackedPolicies) -> JointEpisodes:
        log_proposal = jnp.zeros(shape)
        return play_and_record(key, game, policies, log_proposal, samples=1, episodes=1, stratified=False)

    shapes = jax.eval_shape(record, jax.random.key(0), policies)
    fill = lambda leaf: jnp.zeros((size, *leaf.shape[1:]), leaf.dtype)  # noqa: E731
    return TrajectoryBuffer(
        decision=jax.tree.map(fill, shapes.decision),
        player=jnp.full((size, *shapes.player.shape[1:]), -1, shapes.player.dtype),
        log_drawn=fill(shapes.log_drawn),
        returns=fill(shapes.returns),
        born=jnp.full(size, -1, jnp.int32),
        cursor=jnp.int32(0),
    )


def play_and_record(
    key: Array,
    game: Game,
    policies: StackedPolicies,
    log_proposal: Array,
    *,
    samples: int,
    episodes: int,
    stratified: bool,
) -> JointEpisodes:
    """Plays joint episodes of profiles drawn from the proposal, and records them for the buffer.

    Args:
      key: typed PRNG key; consumed.
      game: the game that is played.
      policies: the policies of all anchors, [P, K, ...].
      log_proposal: logarithms of the mixtures q that profiles are drawn from, [P, K].
      samples: number of profiles.
      episodes: episodes per profile.
      stratified: draw profiles by systematic sampling.

    Returns:
      n = samples * episodes recorded episodes.
    """
    key_draw, key_play = jax.random.split(key)
    drawn = draw_opponents(key_draw, game, log_proposal, (samples,), stratified)
    trajectory = play_joint(unroll, key_play, game, policies, drawn, episodes)
    flat = jax.tree.map(lambda leaf: leaf.reshape(samples * episodes, *leaf.shape[2:]), trajectory)
    decision, player = _extract_decisions(game, flat)
    likelihood = log_likelihoods(game, policies, decision, player)  # [players, n, K]
    owners = jnp.asarray(game.population_of_player)
    log_drawn = jax.nn.logsumexp(likelihood + log_proposal[owners][:, None, :], axis=2)
    returns = [player_return(game, one, flat.reward.sum(axis=1)) for one in range(num_players(game))]
    return JointEpisodes(
        decision=decision,
        player=player,
        log_drawn=log_drawn.T,
        returns=to_unit(game, jnp.stack(returns, axis=1)),
        episodes=jnp.int32(samples * episodes),
        env_steps=flat.length.sum(),
    )


def insert_episodes(buffer: TrajectoryBuffer, play: JointEpisodes, iteration: Array) -> TrajectoryBuffer:
    """Overwrites the oldest episodes of the buffer.

    Args:
      buffer: B stored episodes.
      play: n new episodes, at most B.
      iteration: [] int32, when they were played.

    Returns:
      The buffer with the new episodes.
    """
    size, count = buffer.born.shape[0], play.returns.shape[0]
    where = (buffer.cursor + jnp.arange(count)) % size
    put = lambda held, new: held.at[where].set(new.astype(held.dtype))  # noqa: E731
    return TrajectoryBuffer(
        decision=jax.tree.map(put, buffer.decision, play.decision),
        player=put(buffer.player, play.player),
        log_drawn=put(buffer.log_drawn, play.log_drawn),
        returns=put(buffer.returns, play.returns),
        born=put(buffer.born, jnp.broadcast_to(iteration, (count,))),
        cursor=(buffer.cursor + count) % size,
    )


def estimate_game(
    buffer: TrajectoryBuffer, game: Game, policies: StackedPolicies, iteration: Array, discount: Array | float
) -> JointGame:
    """Weights the stored episodes by their likelihoods under the current policies.

        ratio_p(b, k) = prod_{t: player p moves} pi_k(a_t | o_t) / sum_i q_p(i) prod_t pi_i(a_t | o_t)

    The denominator was recorded when episode b was played. `JointGame` computes values from the ratios.

    Args:
      buffer: stored episodes.
      game: the game of the episodes.
      policies: the current policies of all anchors, [P, K, ...].
      iteration: [] int32, current iteration.
      discount: weight of an episode relative to one of the next iteration.

    Returns:
      The estimated meta-game.
    """
    likelihood = log_likelihoods(game, policies, buffer.decision, buffer.player)  # [players, B, K]
    ratios = jnp.exp(jnp.clip(likelihood - buffer.log_drawn.T[:, :, None], -_LARGEST, _LARGEST))
    age = (iteration - buffer.born).astype(jnp.float32)
    weights = jnp.where(buffer.born >= 0, jnp.asarray(discount, jnp.float32) ** age, 0.0)
    constant_sum = None
    if is_two_player_zero_sum(game):
        low, width = return_scale(game)
        constant_sum = -2.0 * low / width
    return JointGame(ratios, buffer.returns.T, weights, game.population_of_player, constant_sum)


def log_likelihoods(game: Game, policies: StackedPolicies, decision: PyTree, player: Array) -> Array:
    """Computes log prod_t pi_k(a_t | o_t) over the decisions of each player under each of its anchors.

    Args:
      game: the game.
      policies: the policies of all anchors, [P, K, ...].
      decision: decisions of n episodes, [n, Q, ...].
      player: player that decided, [n, Q], -1 on padding.

    Returns:
      Log-likelihoods, [players, n, K].
    """
    if "row" in decision:
        apply = policies.apply
        assert isinstance(apply, TabularPolicy)  # only tabular policies record rows

        def likelihood(decider: int, owner: int) -> Array:
            population = jnp.where(player == decider, owner, -1)
            return apply.log_likelihoods_of_rows(policies.params, population, decision["row"], decision["action"])

        return jnp.stack([likelihood(*pair) for pair in enumerate(game.population_of_player)])
    if len(player) > _BLOCK and len(player) % _BLOCK == 0:  # in blocks, because [n, Q, K] would be large
        blocks = jax.tree.map(lambda leaf: leaf.reshape(-1, _BLOCK, *leaf.shape[1:]), (decision, player))
        found = jax.lax.map(lambda block: log_likelihoods(game, policies, *block), blocks)  # [blocks, players, n, K]
        return jnp.moveaxis(found, 0, 1).reshape(found.shape[1], -1, found.shape[3])
    scores = _log_probs(game, policies, decision, player)  # [n, Q, K] of the deciding player's anchors
    each = [jnp.sum(jnp.where((player == one)[..., None], scores, 0.0), axis=1) for one in range(num_players(game))]
    return jnp.stack(each)


def evaluate_decisions(apply: Apply, params: PyTree, decision: PyTree) -> PolicyOutput:
    """Evaluates the action distributions [n, Q, ...] of one policy on stored decisions [n, Q, ...]."""
    if "row" in decision:
        assert isinstance(apply, TabularPolicy)  # only tabular policies record rows
        return apply.read_rows(params, decision["row"])
    each = jax.vmap(jax.vmap(apply, in_axes=(None, 0, 0)), in_axes=(None, 0, 0))
    return each(params, decision["observation"], decision["legal"])


def _log_probs(game: Game, policies: StackedPolicies, decision: PyTree, player: Array) -> Array:
    """log pi_k(a) [n, Q, K] of stored decisions under the K policies of the deciding player's population."""
    owner = jnp.asarray(game.population_of_player)[jnp.maximum(player, 0)]  # [n, Q]

    def one(params: PyTree) -> Array:
        outputs = evaluate_decisions(policies.apply, params, decision)
        return jax.vmap(jax.vmap(distributions.log_prob))(outputs, decision["action"])

    found = jnp.zeros(())
    for population in range(num_populations(game)):
        own = take_population(policies, population).params
        scores = jax.vmap(one, in_axes=(slot_axes(own),), out_axes=2)(own)
        found = jnp.where((owner == population)[..., None], scores, found)
    return found


def _extract_decisions(game: Game, trajectory: Trajectory) -> tuple[PyTree, Array]:
    """Decisions [n, Q, ...] of trajectories [n, T, S, ...], and the players that made them [n, Q]."""
    stored = {"action": trajectory.action, "row": trajectory.row}
    if trajectory.row is None:
        stored = {"action": trajectory.action, "observation": trajectory.observation, "legal": trajectory.legal}
    owner = jnp.asarray(game.player_of_seat, jnp.int8)
    acted = trajectory.acted  # [n, T, S]
    if game.simultaneous:
        player = jnp.where(acted, owner[None, None, :], jnp.int8(-1))
        return jax.tree.map(_merge_seats, stored), _merge_seats(player)
    mover = jnp.argmax(acted, axis=2)  # [n, T]
    player = jnp.where(acted.any(axis=2), owner[mover], jnp.int8(-1))
    return jax.tree.map(lambda leaf: _take_mover(leaf, mover), stored), player


def _merge_seats(leaf: Array) -> Array:
    """[n, T, S, ...] -> [n, T S, ...]."""
    return leaf.reshape(leaf.shape[0], leaf.shape[1] * leaf.shape[2], *leaf.shape[3:])


def _take_mover(leaf: Array, mover: Array) -> Array:
    """[n, T, S, ...] -> [n, T, ...], the seat `mover` [n, T]."""
    index = mover.reshape(*mover.shape, *(1,) * (leaf.ndim - 2))
    return jnp.take_along_axis(leaf, index, axis=2)[:, :, 0]
