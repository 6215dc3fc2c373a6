"""One network for many policies: a policy is conditioned on the mixture that it trains against, a row of a graph.

The network is a generator as in GEMS, whose code is the row. A round of learning plays several rows, each against
opponents drawn from it, and all of them train the one network.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.accelerator.prng import fused_key
from gems_jax.estimation.monte_carlo import draw_opponents
from gems_jax.host.stages import compile_play
from gems_jax.learning.batches import Experience, Learner
from gems_jax.learning.collection import collect_against_slots
from gems_jax.learning.networks import critic_network, policy_network, unshare_params
from gems_jax.learning.ppo import TrainMetrics, init_optimizers
from gems_jax.policies.critic import Critic
from gems_jax.policies.generator import Hypernetwork
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.ppo import Student, play_settings, train_student
from gems_jax.psro.settings import Learning
from gems_jax.rollout.openings import add_openings
from gems_jax.rollout.views import make_view, players_of
from gems_jax.types import Array, Game, PyTree, Struct


class RowNets(NamedTuple):
    """Networks conditioned on a row, and settings of their conditioning, averaging and training. Static."""

    generator: Hypernetwork
    critic: Critic
    bandwidth: float = 0.0
    decay: float = 0.0
    momentum: float = 0.9

    def policy(self, theta: PyTree, row: Array) -> PyTree:
        """Generates the parameters of the policy that responds to the mixture `row` [N]."""
        code = fourier_features(row, self.generator.latent_dim, self.bandwidth) if self.bandwidth else row
        return unshare_params(self.generator(theta, code))


class RowStudent(Struct):
    """Learner of all rows, and the average over rounds of its generator, which the slots play."""

    student: Student  # "policy" is the generator
    mean: PyTree  # of the generator
    rounds: Array  # [] float32, rounds averaged so far
    sink: PyTree = ()  # parameters of the initial policy, which is never trained


def fourier_features(row: Array, count: int, bandwidth: float) -> Array:
    """Maps a mixture [N] to fixed random Fourier features [count] of norm about 1.

    The product of the features of two rows is about exp(-|row - other|^2 / (2 bandwidth^2)). Rows at a distance above
    the bandwidth have nearly orthogonal features, so a gradient step on one hardly changes the other.
    """
    key_waves, key_phases = jax.random.split(jax.random.key(0))
    waves = jax.random.normal(key_waves, (count, row.shape[-1])) / bandwidth
    phases = jax.random.uniform(key_phases, (count,), maxval=2 * jnp.pi)
    return jnp.sqrt(2.0 / count) * jnp.cos(waves @ row + phases)


def row_networks(
    game: Game,
    learning: Learning,
    slots: int,
    hidden: tuple[int, ...],
    features: int = 0,
    bandwidth: float = 0.0,
    decay: float = 0.0,
    momentum: float = 0.9,
) -> RowNets:
    """Builds the generator and the critic of rows over `slots` slots.

    Args:
        game: the symmetric game.
        learning: settings without `auto`.
        slots: N, the length of a row.
        hidden: hidden widths of the generator.
        features: number of Fourier features of a row; 0: the row itself.
        bandwidth: bandwidth of these features.
        decay: decay of the generator's average over rounds.
        momentum: b1 of Adam.
    """
    generator = Hypernetwork(policy_network(game, learning), features or slots, hidden)
    return RowNets(generator, critic_network(game, learning, slots), bandwidth if features else 0.0, decay, momentum)


def new_row_student(key: Array, nets: RowNets, learning: Learning, scale: float = 0.1) -> RowStudent:
    """Initializes networks whose rows differ by logits of about `scale`. key: consumed."""
    key_policy, key_critic = jax.random.split(key)
    params = {"policy": nets.generator.init(key_policy, scale), "critic": nets.critic.init(key_critic)}
    student = Student(params, init_optimizers(params, learning.gradient_clip))
    return RowStudent(student, params["policy"], jnp.float32(0.0))


def shrink_rows(learner: RowStudent, factor: Array | float) -> RowStudent:
    """Multiplies the conditional part of the trained generator by `factor`. The average is unchanged."""
    params = learner.student.params
    theta = {**params["policy"], "output": factor * params["policy"]["output"]}
    return learner.replace(student=learner.student.replace(params={**params, "policy": theta}))


def average_rounds(mean: PyTree, theta: PyTree, rounds: Array, decay: float) -> PyTree:
    """Updates the average: the mean of the first 1 / (1 - decay) rounds, then exponential with `decay`."""
    rate = jnp.maximum(1.0 - decay, 1.0 / (rounds + 1.0))
    return jax.tree.map(lambda old, new: old + rate * (new - old), mean, theta)


class Rows(NamedTuple):
    """Distribution of the rows that a round of learning plays."""

    graph: Array  # [N, N]
    trained: Array  # [N], unnormalized probability of each row
    basis: Array | None = None  # [N] bool, slots that random rows mix; None: only rows of the graph
    random: Array | float = 0.0  # probability of a random row

    def draw(self, key: Array, count: int) -> Array:
        """Draws rows [count, N]. key: consumed."""
        if self.basis is not None:
            key, key_random = jax.random.split(key)
        chosen = jax.random.choice(key, len(self.graph), (count,), p=self.trained / self.trained.sum())
        if self.basis is None:
            return self.graph[chosen]
        return randomize_rows(key_random, self.graph[chosen], self.basis, self.random)


def randomize_rows(key: Array, rows: Array, basis: Array, probability: Array | float) -> Array:
    """Replaces rows by uniformly random mixtures of some slots.

    Args:
      key: typed PRNG key; consumed.
      rows: rows [n, N].
      basis: slots to mix, [N] bool.
      probability: probability of replacing each row.

    Returns:
      Rows [n, N].
    """
    key_coin, key_draw = jax.random.split(key)
    draws = jax.random.exponential(key_draw, rows.shape) * basis[None]  # an unnormalized Dirichlet of ones
    return jnp.where(
        jax.random.uniform(key_coin, (len(rows), 1)) < probability, draws / draws.sum(axis=1, keepdims=True), rows
    )


@compile_play(static_argnames=("symmetric", "nets", "count"))
def train_rows(
    key: Array,
    symmetric: Game,
    learning: Learning,
    rounds: Array,
    nets: RowNets,
    count: int,
    learner: RowStudent,
    opponents: StackedPolicies,
    rows: Rows,
) -> tuple[RowStudent, TrainMetrics]:
    """Trains the network on rows of the graph by PPO.

    Args:
      key: typed PRNG key; consumed.
      symmetric: game with one population.
      learning: settings without `auto`.
      rounds: rounds of learning, [] int32.
      nets: the networks.
      count: rows per round.
      learner: parameters and optimizers to continue from.
      opponents: policies [1, N, ...] of the slots.
      rows: distribution of the rows.

    Returns:
      The learner and the metrics of the training.
    """
    played_game = add_openings(symmetric, learning)
    views = tuple(make_view(played_game, player) for player in players_of(symmetric, 0))
    networks = Learner(
        policy=lambda params, row: nets.policy(params["policy"], row),
        value=lambda params, row, seen: nets.critic(params["critic"], seen, row),
        apply=opponents.apply,
    )
    each = max(learning.opponents // count, 1)
    draw = partial(draw_opponents, game=views[0], shape=(each,), stratified=True)

    def experience(k: Array, params: PyTree, carry: PyTree) -> tuple[list[Experience], PyTree]:
        key_rows, *keys = jax.random.split(k, 1 + len(views))
        played = rows.draw(key_rows, count)
        batches = []
        for view_key, seen in zip(keys, views, strict=True):
            key_draw, key_play = jax.random.split(view_key)
            mixtures = jnp.log(played)[:, None]  # [count, 1, N]
            indices = jax.vmap(lambda q, sigma: draw(q, log_sigma=sigma))(jax.random.split(key_draw, count), mixtures)
            batches.append(
                collect_against_slots(
                    key_play, seen, networks, params, played, opponents, indices, play_settings(learning)
                )
            )
        mean, past = carry
        return batches, (average_rounds(mean, params["policy"], past, nets.decay), past + 1.0)

    rate: PyTree = learning.learning_rate
    if learning.policy == "tabular":  # a common base would only couple the rows of tables
        rate = {"layers": rate, "output": rate, "base": jnp.zeros_like(rate)}
    student, metrics = train_student(
        fused_key(key), views[0], learning, learner.student, networks, experience, rounds,
        (learner.mean, learner.rounds), momentum=nets.momentum,
        learning_rate={"policy": rate, "critic": learning.critic_learning_rate},
    )  # fmt: skip
    mean, averaged = metrics.carry
    return learner.replace(student=student, mean=mean, rounds=averaged), metrics._replace(carry=())
