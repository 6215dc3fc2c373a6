"""One network for many policies: a policy is conditioned on the mixture that it trains against, a row of a graph.

The network is a generator of the families that GEMS has, whose code is the row. A round of learning plays several rows
at a time, each against opponents drawn from it, and all of them move the one network.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gems_jax import best_response
from gems_jax.best_response import TrainMetrics
from gems_jax.estimate import draw_opponents
from gems_jax.experience import Experience, Learner, collect_against
from gems_jax.explicit.ppo import Student, train_options
from gems_jax.explicit.settings import Learning
from gems_jax.nets import Critic, Hypernetwork
from gems_jax.policies import critic_network, policy_network, without_sharing
from gems_jax.population import StackedPolicies
from gems_jax.roles import players_of, view
from gems_jax.stages import compiled
from gems_jax.streams import stream
from gems_jax.types import Array, Game, PyTree


class RowNets(NamedTuple):
    generator: Hypernetwork
    critic: Critic

    def policy(self, theta: PyTree, row: Array) -> PyTree:
        return without_sharing(self.generator(theta, row))


def row_networks(game: Game, learning: Learning, slots: int, hidden: tuple[int, ...]) -> RowNets:
    """The generator, whose code is a row of the graph, and the critic."""
    return RowNets(Hypernetwork(policy_network(game, learning), slots, hidden), critic_network(game, learning, slots))


def random_rows(key: Array, rows: Array, basis: Array, share: Array | float) -> Array:
    """The rows [n, N], each with probability `share` replaced by a uniform draw from the mixtures of the slots of
    `basis` [N] bool. key: consumed."""
    key_coin, key_draw = jax.random.split(key)
    draws = jax.random.exponential(key_draw, rows.shape) * basis[None]  # a Dirichlet of ones, but for their sum
    return jnp.where(
        jax.random.uniform(key_coin, (len(rows), 1)) < share, draws / draws.sum(axis=1, keepdims=True), rows
    )


@compiled(static_argnames=("symmetric", "nets", "rows"))
def train_rows(
    key: Array,
    symmetric: Game,
    learning: Learning,
    rounds: Array,
    nets: RowNets,
    rows: int,
    student: Student,
    opponents: StackedPolicies,
    graph: Array,
    trained: Array,
    anything: Array | float = 0.0,
    basis: Array | None = None,
) -> tuple[Student, TrainMetrics]:
    """`rounds` rounds on `rows` rows of the graph [N, N] at a time, of those that are `trained` [N]. key: consumed.

    With a `basis` [N] a share `anything` of the rows are any mixtures of its slots instead (`random_rows`).
    """
    views = tuple(view(symmetric, player) for player in players_of(symmetric, 0))
    learner = Learner(
        policy=lambda params, row: nets.policy(params["policy"], row),
        value=lambda params, row, seen: nets.critic(params["critic"], seen, row),
        apply=opponents.apply,
    )
    each = max(learning.opponents // rows, 1)
    draw = partial(draw_opponents, game=views[0], shape=(each,), stratified=True)

    def experience(k: Array, params: PyTree, carry: PyTree) -> tuple[list[Experience], PyTree]:
        key_rows, *keys = jax.random.split(k, 1 + len(views))
        if basis is not None:
            key_rows, key_any = jax.random.split(key_rows)
        played = graph[jax.random.choice(key_rows, len(graph), (rows,), p=trained / trained.sum())]
        if basis is not None:
            played = random_rows(key_any, played, basis, anything)
        batches = []
        for view_key, place in zip(keys, views, strict=True):
            key_draw, key_play = jax.random.split(view_key)
            mixtures = jnp.log(played)[:, None]  # [rows, 1, N]
            indices = jax.vmap(lambda q, sigma: draw(q, log_sigma=sigma))(jax.random.split(key_draw, rows), mixtures)
            batches.append(
                collect_against(
                    key_play, place, learner, params, played, opponents, indices, episodes=learning.episodes,
                    discount=learning.discount, decay=learning.gae_lambda,
                )
            )  # fmt: skip
        return batches, carry

    params, opt_state, metrics = best_response.train(
        stream(key),
        student.params,
        student.opt_state,
        experience=experience,
        learner=learner,
        steps=rounds,
        **train_options(views[0], learning),
    )
    return Student(params, opt_state), metrics
