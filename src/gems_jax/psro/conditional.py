"""One network for many policies: a policy is conditioned on the mixture that it trains against, a row of a graph.

The network is a generator of the families that GEMS has, whose code is the row. A round of learning plays several rows
at a time, each against opponents drawn from it, and all of them move the one network.
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
from gems_jax.learning.collection import collect_against
from gems_jax.learning.networks import critic_network, policy_network, without_sharing
from gems_jax.learning.ppo import TrainMetrics, fresh_optimizers
from gems_jax.policies.critic import Critic
from gems_jax.policies.generator import Hypernetwork
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.ppo import Student, play_settings, train_student
from gems_jax.psro.settings import Learning
from gems_jax.rollout.views import players_of, view
from gems_jax.types import Array, Game, PyTree, Struct


class RowNets(NamedTuple):
    """Networks conditioned on a row, and how they are conditioned, averaged and trained. Static."""

    generator: Hypernetwork
    critic: Critic
    bandwidth: float = 0.0
    decay: float = 0.0
    momentum: float = 0.9

    def policy(self, theta: PyTree, row: Array) -> PyTree:
        """Parameters of the policy that answers the mixture `row` [N]."""
        code = fourier_features(row, self.generator.latent_dim, self.bandwidth) if self.bandwidth else row
        return without_sharing(self.generator(theta, code))


class RowStudent(Struct):
    """The learner of all rows, and the average over time of its generator, which is what the slots play."""

    student: Student  # "policy" is the generator
    mean: PyTree  # of the generator
    rounds: Array  # [] float32, that were averaged so far
    sink: PyTree = ()  # parameters of the one policy that answers no mixture


def fourier_features(row: Array, count: int, bandwidth: float) -> Array:
    """Maps a mixture [N] to random Fourier features [count] of norm about 1, the same ones for every call.

    The product of the features of two rows is about exp(-|row - other|^2 / (2 bandwidth^2)): rows that are further
    apart than the bandwidth have nearly orthogonal features, so a gradient step on one leaves the other alone.
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
        features: Fourier features of a row that the generator sees; 0: the row itself.
        bandwidth: of these features.
        decay: of the generator's average over rounds.
        momentum: b1 of Adam.
    """
    generator = Hypernetwork(policy_network(game, learning), features or slots, hidden)
    return RowNets(generator, critic_network(game, learning, slots), bandwidth if features else 0.0, decay, momentum)


def new_row_student(key: Array, nets: RowNets, learning: Learning, scale: float = 0.1) -> RowStudent:
    """Fresh networks whose rows differ by logits of about `scale`. key: consumed."""
    key_policy, key_critic = jax.random.split(key)
    params = {"policy": nets.generator.init(key_policy, scale), "critic": nets.critic.init(key_critic)}
    student = Student(params, fresh_optimizers(params, learning.gradient_clip))
    return RowStudent(student, params["policy"], jnp.float32(0.0))


def shrink_rows(learner: RowStudent, factor: Array | float) -> RowStudent:
    """Multiplies by `factor` what the trained generator adds to its base. The average stays as it is."""
    params = learner.student.params
    theta = {**params["policy"], "output": factor * params["policy"]["output"]}
    return learner.replace(student=learner.student.replace(params={**params, "policy": theta}))


def average_rounds(mean: PyTree, theta: PyTree, rounds: Array, decay: float) -> PyTree:
    """The plain mean of the first 1 / (1 - decay) rounds, and an exponential average with `decay` from then on."""
    rate = jnp.maximum(1.0 - decay, 1.0 / (rounds + 1.0))
    return jax.tree.map(lambda old, new: old + rate * (new - old), mean, theta)


class Rows(NamedTuple):
    """The rows that a round of learning draws from."""

    graph: Array  # [N, N]
    trained: Array  # [N], how often each row is drawn, up to a factor
    basis: Array | None = None  # [N] bool, slots of which a row may be any mixture; None: rows of the graph alone
    random: Array | float = 0.0  # probability of such a row

    def draw(self, key: Array, count: int) -> Array:
        """Draws rows [count, N]. key: consumed."""
        if self.basis is not None:
            key, key_random = jax.random.split(key)
        chosen = jax.random.choice(key, len(self.graph), (count,), p=self.trained / self.trained.sum())
        if self.basis is None:
            return self.graph[chosen]
        return randomize_rows(key_random, self.graph[chosen], self.basis, self.random)


def randomize_rows(key: Array, rows: Array, basis: Array, share: Array | float) -> Array:
    """Replaces rows [n, N], each with probability `share`, by uniform draws from the mixtures of some slots.

    basis: [N] bool, those slots. key: consumed.
    """
    key_coin, key_draw = jax.random.split(key)
    draws = jax.random.exponential(key_draw, rows.shape) * basis[None]  # a Dirichlet of ones, but for their sum
    return jnp.where(
        jax.random.uniform(key_coin, (len(rows), 1)) < share, draws / draws.sum(axis=1, keepdims=True), rows
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
    """Trains the network for `rounds` rounds, each on `count` of the rows, against opponents [1, N]. key: consumed."""
    views = tuple(view(symmetric, player) for player in players_of(symmetric, 0))
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
        for view_key, place in zip(keys, views, strict=True):
            key_draw, key_play = jax.random.split(view_key)
            mixtures = jnp.log(played)[:, None]  # [count, 1, N]
            indices = jax.vmap(lambda q, sigma: draw(q, log_sigma=sigma))(jax.random.split(key_draw, count), mixtures)
            batches.append(
                collect_against(key_play, place, networks, params, played, opponents, indices, play_settings(learning))
            )
        mean, past = carry
        return batches, (average_rounds(mean, params["policy"], past, nets.decay), past + 1.0)

    rate: PyTree = learning.learning_rate
    if learning.policy == "tabular":  # tables have no features in common: a shared part would only drag rows along
        rate = {"layers": rate, "output": rate, "base": jnp.zeros_like(rate)}
    student, metrics = train_student(
        fused_key(key), views[0], learning, learner.student, networks, experience, rounds,
        (learner.mean, learner.rounds), momentum=nets.momentum,
        learning_rate={"policy": rate, "critic": learning.critic_learning_rate},
    )  # fmt: skip
    mean, averaged = metrics.carry
    return learner.replace(student=student, mean=mean, rounds=averaged), metrics._replace(carry=())
