"""Plain self-play: one network per population, trained by PPO against the others as they are now.

With two players that share a population this is self-play proper, with a population each independent PPO. Every place
learns from episodes of its own, as it does in all methods here. Nothing is stored but a sample of the policies of past
iterations, whose uniform mixture is the profile `average`: every past iteration is equally likely to be in it
(reservoir sampling), and the size of the state never changes.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gems_jax import best_response
from gems_jax.best_response import TrainMetrics
from gems_jax.config import size
from gems_jax.experience import Experience, Lanes, Learner, Source
from gems_jax.explicit.budget import Pace, new_pace, rounds_of, settle
from gems_jax.explicit.cost import Cost, ExplicitMetrics, explicit_metrics
from gems_jax.explicit.ppo import Nets, Student, networks, new_student, source_of, train_options
from gems_jax.explicit.settings import Budgeted, Learning, learning_of
from gems_jax.explicit.store import chosen_mixture
from gems_jax.population import StackedPolicies
from gems_jax.roles import players_of, rotate, view
from gems_jax.stages import on_host, staged
from gems_jax.streams import stream
from gems_jax.types import Array, Game, Profile, PyTree, Solver, nbytes, num_populations, struct


@struct
class SelfPlayConfig(Budgeted):
    """Settings of self-play."""

    snapshots: int = size(16)
    """Policies of past iterations that are kept, for the average."""


@struct
class SelfPlayState:
    student: Student  # [P, ...]; its optimizers are those of all populations together
    past: PyTree  # [P, S, ...], policies of past iterations
    pace: Pace
    step: Array  # [] int32


def joint_learner(nets: Nets) -> Learner:
    """All populations' networks as one: the code says whose."""

    def own(params: PyTree, code: Array, part: str) -> PyTree:
        return jax.tree.map(lambda leaf: leaf[code[0]], params[part])

    return Learner(
        policy=lambda params, code: own(params, code, "policy"),
        value=lambda params, code, seen: nets.critic(own(params, code, "critic"), seen, jnp.zeros(0)),
        apply=nets.policy,
    )


def practise(
    key: Array, game: Game, learning: Learning, rounds: Array, student: Student
) -> tuple[Student, TrainMetrics]:
    """`rounds` rounds in which everybody learns against everybody. key: consumed."""
    nets, populations = networks(game, learning), range(num_populations(game))
    learner = joint_learner(nets)
    codes = [jnp.full((1, 1), population, jnp.int32) for population in populations]
    places = [tuple(view(game, player) for player in players_of(game, population)) for population in populations]

    def source(params: PyTree, p: int) -> Source:
        now = StackedPolicies(jax.tree.map(lambda leaf: leaf[:, None], params["policy"]), nets.policy)
        return source_of(places[p], learner, learning, rotate(now, p), jnp.zeros((len(populations), 1)))

    def experience(k: Array, params: PyTree, lanes: list[list[Lanes]]) -> tuple[list[Experience], list[list[Lanes]]]:
        keys = jax.random.split(k, len(populations))
        played = [source(params, p).one_round(keys[p], params, codes[p], lanes[p]) for p in populations]
        return [batch for batches, _ in played for batch in batches], [lane for _, lane in played]

    key_train, key_lanes = jax.random.split(stream(key))
    lane_keys = jax.random.split(key_lanes, len(populations))
    params, opt_state, metrics = best_response.train(
        key_train,
        student.params,
        student.opt_state,
        experience=experience,
        learner=learner,
        steps=rounds,
        carry=[source(student.params, p).lanes(lane_keys[p], 1) for p in populations],
        **train_options(places[0][0], learning),
    )
    return Student(params, opt_state), metrics


def remembered(key: Array, past: PyTree, policy: PyTree, step: Array, slots: int) -> PyTree:
    """A uniform sample [P, S, ...] of the policies up to iteration step + 1, whose own is `policy`. key: consumed."""
    drawn = jax.random.randint(key, (), 0, step + 1)
    slot = jnp.where(step < slots, step, drawn)  # beyond the slots: not kept
    return jax.tree.map(lambda held, new: held.at[:, slot].set(new, mode="drop"), past, policy)


def self_play_solver(game: Game, config: SelfPlayConfig) -> Solver:
    """Self-play, or independent PPO."""
    learning, slots = learning_of(config, game), config.snapshots
    network = networks(game, learning).policy

    def init(key: Array) -> SelfPlayState:
        student = new_student(key, game, learning)
        joint = best_response.fresh_optimizers(student.params, learning.gradient_clip)
        past = jax.tree.map(lambda leaf: jnp.repeat(leaf[:, None], slots, axis=1), student.params["policy"])
        return SelfPlayState(Student(student.params, joint), past, new_pace(game, config), jnp.int32(0))

    def step(state: SelfPlayState, key: Array) -> tuple[SelfPlayState, ExplicitMetrics]:
        key_train, key_keep = jax.random.split(key)
        rounds = rounds_of(state.pace, config)
        student, trained = practise(key_train, game, learning, rounds, state.student)
        past = remembered(key_keep, state.past, student.params["policy"], state.step, slots)
        pace = settle(state.pace, config, rounds, trained.env_steps, trained.env_steps)
        metrics = explicit_metrics(
            Cost(trained.episodes, trained.env_steps, rounds * learning.epochs * learning.minibatches),
            jnp.ones((num_populations(game), 1), bool),
            parameter_bytes=nbytes((student, past)),
        )
        return SelfPlayState(student, past, pace, state.step + 1), metrics

    def profile(state: SelfPlayState, which: str = "iterate") -> Profile:
        """Slot 0 plays now, the others are the past."""
        params = jax.tree.map(
            lambda now, past: jnp.concatenate([now[:, None], past], axis=1), state.student.params["policy"], state.past
        )
        newest = jnp.arange(slots + 1) == 0
        kept = ~newest & (jnp.arange(slots + 1) <= jnp.maximum(state.step, 1))
        masses = [mask / mask.sum() for mask in (newest, kept)]
        sigma = chosen_mixture(which, *(jnp.tile(mass[None], (num_populations(game), 1)) for mass in masses))
        return Profile(StackedPolicies(params, network), sigma)

    if on_host(game):
        return Solver(init, staged(step), profile, jittable=False)
    return Solver(init, step, profile, jittable=True)
