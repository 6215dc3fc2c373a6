"""Methods without a population: self-play by policy gradient, plain, towards a magnet (MMD) or a reference (NashPG).

Every population has one network, which PPO trains against the others' current networks. This is self-play if two
players share a population, and independent PPO if each has its own. One loss serves three methods:

    loss = PPO's loss - entropy_t H(pi) + alpha_t KL(pi || magnet),   means over the decisions of a round

    self_play   no magnet
    mmd         magnetic mirror descent (Sokota et al. 2023): alpha is annealed, the magnet is uniform play or moves
                towards the policy by magnet <- magnet + rate (policy - magnet). For tables of logits that is the
                geometric mean magnet^(1 - rate) policy^rate; for networks, the average of their parameters.
    nash_pg     Nash policy gradient (Yu et al. 2025): alpha is constant, and the magnet is copied from the policy
                every `magnet_period` updates.

An update is one round of episodes and its gradient steps. Returns are scaled to [0, 1], so with a uniform magnet and a
constant alpha a one-shot game has the fixed point pi = softmax(Q / (w alpha)), where w is the width of the returns: the
logit quantal response equilibrium of temperature w alpha. Coefficients follow x_t = x / sqrt(1 + decay t) after t
updates of the run; t is part of the state.

PPO's surrogate replaces MMD's proximal step (mirror descent's KL to the last policy): with one gradient step per round
both follow the same gradient.

Besides the current policy the state contains a sample of the policies of past updates, whose uniform mixture is the
profile `average`. Every past update is equally likely to be in it (reservoir sampling), and the state has a fixed size.
A mixture is sampled once per episode, so it is the reach-weighted average of its policies.

`random` plays uniformly random legal actions and does not learn: the reference for all other methods.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.accelerator.prng import fused_key
from gems_jax.config import BELOW_ONE, NON_NEGATIVE, RegularizationConfig, Settings, real, size
from gems_jax.evaluate.sampled import random_profile
from gems_jax.host.stages import on_host, stage
from gems_jax.learning.batches import Experience, Learner
from gems_jax.learning.collection import OngoingGames, SelfPlay, Source
from gems_jax.learning.magnets import anneal, init_magnet, magnet_penalty, move_magnet
from gems_jax.learning.ppo import TrainMetrics, init_optimizers, repeat_training
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.base import (
    Cost,
    Iteration,
    Pace,
    PsroMetrics,
    allowed_rounds,
    choose_mixture,
    measure_iteration,
    metric_columns,
    new_pace,
    settle_pace,
    stack_slots,
)
from gems_jax.psro.ppo import (
    Nets,
    Student,
    make_loss,
    mixture_source,
    new_student,
    play_settings,
    student_networks,
    train_student,
)
from gems_jax.psro.settings import Budgeted, Learning, learning_of
from gems_jax.rollout.openings import add_openings
from gems_jax.rollout.views import make_view, players_of, rotate
from gems_jax.types import Array, Game, Profile, PyTree, Solver, Struct, num_players, num_populations


class SelfPlayConfig(Budgeted, RegularizationConfig):
    """Settings of self-play, MMD and NashPG."""

    snapshots: int = size(0, at_least=0)
    """Stored policies of past updates for the average (0: 128 tables of logits, or 16 networks)."""
    momentum: float = real(0.0, BELOW_ONE)
    """Decay b1 of Adam; momentum widens the cycles of self-play."""
    entropy_decay: float = real(0.0, NON_NEGATIVE)
    """Decay of the entropy bonus, entropy_weight / sqrt(1 + entropy_decay * t) after t updates."""


# Chosen on Kuhn poker with tables of logits; rates of 0 are the defaults of tables and of networks (see `Learning`).
SELF_PLAY = SelfPlayConfig(entropy_weight=0.01, learning_rate_decay=0.1)
MMD = SelfPlayConfig(
    magnet="moving", magnet_weight=0.05, magnet_decay=0.0005, magnet_rate=0.003, learning_rate_decay=0.05
)
NASH_PG = SelfPlayConfig(magnet="copied", magnet_weight=0.05, magnet_period=400, learning_rate_decay=0.05)


# Boards: many games that continue across rounds, half of the games with a random opening, and steps that do not shrink.
# Both players learn from every game. The entropy bonus falls as that of GEMS does, from .15 to .036 in 976 updates.
# Chosen on seed 1000; docs/methods.md has the trials.
CONNECT_FOUR_SELF_PLAY = SelfPlayConfig(
    iterations=16,
    policy="film",
    policy_hidden=(256, 256),
    critic_hidden=(128, 128),
    opponents=1,
    episodes=512,
    segment=32,
    rounds=61,
    epochs=2,
    minibatches=8,
    joint_play=True,
    normalise_advantages=True,
    learning_rate=7e-4,
    critic_learning_rate=7e-4,
    gradient_clip=0.5,
    momentum=0.9,
    entropy_weight=0.15,
    entropy_decay=0.017,
    opening_plies=6,
    snapshots=4,
)
SPREAD_SELF_PLAY = CONNECT_FOUR_SELF_PLAY.replace(
    iterations=10,
    policy_hidden=(128, 128),
    episodes=64,
    segment=0,
    rounds=288,
    epochs=4,
    learning_rate=2e-3,
    critic_learning_rate=2e-3,
    learning_rate_decay=0.005,
    entropy_weight=0.01,
    entropy_decay=0.0,
    discount=0.95,
    opening_plies=0,
)
# Default settings of `self_play` for some games.
SELF_PLAY_OF = {
    "connect_four": CONNECT_FOUR_SELF_PLAY,
    "simple_spread": SPREAD_SELF_PLAY,
    "simple_tag": SPREAD_SELF_PLAY.replace(iterations=16, learning_rate_decay=0.0035),
}


class Trainee(Struct):
    """State of learning: learners, magnet and past policies."""

    student: Student  # [P, ...]; one optimizer for all populations
    magnet: PyTree  # [P, ...], parameters of the magnet; () without one
    past: PyTree  # [P, S, ...], policies of past updates
    updates: Array  # [] int32, updates of the run so far


class SelfPlayState(Struct):
    """State of self-play, MMD and NashPG."""

    trainee: Trainee
    pace: Pace
    step: Array  # [] int32


def joint_learner(nets: Nets) -> Learner:
    """Combines the networks of all populations into one learner, whose code is the population."""

    def own(params: PyTree, code: Array, part: str) -> PyTree:
        return jax.tree.map(lambda leaf: leaf[code[0]], params[part])

    return Learner(
        policy=lambda params, code: own(params, code, "policy"),
        value=lambda params, code, seen: nets.critic(own(params, code, "critic"), seen, jnp.zeros(0)),
        apply=nets.policy,
    )


def anneal_rates(config: SelfPlayConfig, learning: Learning, updates: Array) -> Learning:
    """Anneals the entropy weight and both step sizes of `learning` after `updates` updates."""
    rates = {
        name: anneal(getattr(learning, name), config.learning_rate_decay, updates)
        for name in ("learning_rate", "critic_learning_rate")
    }
    return learning.replace(entropy_weight=anneal(learning.entropy_weight, config.entropy_decay, updates), **rates)


def run_updates(
    key: Array, game: Game, config: SelfPlayConfig, rounds: Array, trainee: Trainee
) -> tuple[Trainee, TrainMetrics]:
    """Runs `rounds` updates, in which every population learns against the others' current policies.

    Args:
      key: typed PRNG key; consumed.
      game: the game.
      config: settings; floats may be traced.
      rounds: [] int32, may be traced.
      trainee: state to continue from.

    Returns:
      The next state, and metrics of the last update with the counts of all updates.
    """
    learning = learning_of(config, game)
    nets = student_networks(game, learning)
    learner = joint_learner(nets)
    rounds_of = _joint_rounds if config.joint_play else _separate_rounds
    start, experience, players = rounds_of(game, learning, nets, learner)

    def update(carry: tuple[Trainee, PyTree], k: Array) -> tuple[tuple[Trainee, PyTree], TrainMetrics]:
        now, games = carry
        key_train, key_keep = jax.random.split(k)
        own = anneal_rates(config, learning, now.updates)
        loss = make_loss(learner, own, magnet_penalty(config, learner, {"policy": now.magnet}, now.updates))
        student, metrics = train_student(
            key_train, game, own, now.student, learner, experience, 1, games, loss, momentum=config.momentum
        )
        counts = {name: getattr(metrics, name) // players for name in ("episodes", "env_steps")}
        policy = student.params["policy"]
        magnet = move_magnet(config, now.magnet, policy, now.updates + 1)
        past = sample_past(key_keep, now.past, policy, now.updates)
        after = Trainee(student, magnet, past, now.updates + 1)
        return (after, metrics.carry), metrics._replace(carry=(), **counts)

    key_train, key_games = jax.random.split(fused_key(key))
    games = start(key_games, trainee.student.params)
    (trainee, _), metrics = repeat_training(update, (trainee, games), key_train, rounds)
    return trainee, metrics


class Rounds(NamedTuple):
    """How current policies play each other."""

    start: Callable[[Array, PyTree], PyTree]  # (key, params) -> games of the first round
    play: Callable[
        [Array, PyTree, PyTree], tuple[list[Experience], PyTree]
    ]  # (key, params, games) -> experience, games
    players: int  # number of batches in which an episode is counted


def _separate_rounds(game: Game, learning: Learning, nets: Nets, learner: Learner) -> Rounds:
    """Every player has games of its own, in which only it learns."""
    populations = range(num_populations(game))
    played_game = add_openings(game, learning)
    codes = [jnp.full((1, 1), population, jnp.int32) for population in populations]
    views = [tuple(make_view(played_game, player) for player in players_of(game, p)) for p in populations]

    def source(params: PyTree, p: int) -> Source:
        now = StackedPolicies(stack_slots(params["policy"]), nets.policy)
        return mixture_source(views[p], learner, learning, rotate(now, p), jnp.zeros((len(populations), 1)))

    Games = list[list[OngoingGames]]  # per population and view

    def start(key: Array, params: PyTree) -> Games:
        keys = jax.random.split(key, len(populations))
        return [source(params, p).start_games(keys[p], 1) for p in populations]

    def experience(k: Array, params: PyTree, games: Games) -> tuple[list[Experience], Games]:
        keys = jax.random.split(k, len(populations))
        played = [source(params, p).play_round(keys[p], params, codes[p], games[p]) for p in populations]
        return [batch for batches, _ in played for batch in batches], [own for _, own in played]

    return Rounds(start, experience, 1)


def _joint_rounds(game: Game, learning: Learning, nets: Nets, learner: Learner) -> Rounds:
    """All players learn from the same games."""
    del nets
    players = range(num_players(game))
    codes = [jnp.full((1, 1), game.population_of_player[player], jnp.int32) for player in players]
    source = SelfPlay(add_openings(game, learning), (learner,) * len(players), play_settings(learning))

    def experience(k: Array, params: PyTree, games: PyTree) -> tuple[list[Experience], PyTree]:
        return source.play_round(k, [params] * len(players), codes, games)

    return Rounds(lambda key, params: source.start_games(key), experience, len(players))


def sample_past(key: Array, past: PyTree, policy: PyTree, updates: Array) -> PyTree:
    """Updates a uniform sample [P, S, ...] of past policies by reservoir sampling. key: consumed."""
    slots = jax.tree.leaves(past)[0].shape[1]
    drawn = jax.random.randint(key, (), 0, updates + 1)
    slot = jnp.where(updates < slots, updates, drawn)  # an index beyond the slots drops the policy
    return jax.tree.map(lambda held, new: held.at[:, slot].set(new, mode="drop"), past, policy)


def self_play_solver(game: Game, config: SelfPlayConfig) -> Solver:
    """Makes the solver of self-play (or independent PPO), MMD or NashPG, by `config.magnet`."""
    learning = learning_of(config, game)
    network = student_networks(game, learning).policy
    slots = config.snapshots or (128 if learning.policy == "tabular" else 16)

    def init(key: Array) -> SelfPlayState:
        student = new_student(key, game, learning)
        joint = init_optimizers(student.params, learning.gradient_clip)
        policy = student.params["policy"]
        past = jax.tree.map(lambda leaf: jnp.repeat(leaf[:, None], slots, axis=1), policy)
        trainee = Trainee(Student(student.params, joint), init_magnet(config, policy), past, jnp.int32(0))
        return SelfPlayState(trainee, new_pace(game, config), jnp.int32(0))

    def step(state: SelfPlayState, key: Array) -> tuple[SelfPlayState, PsroMetrics]:
        rounds = allowed_rounds(state.pace, config)
        trainee, trained = run_updates(key, game, config, rounds, state.trainee)
        updates = rounds * learning.epochs * learning.minibatches
        cost = Cost(trained.episodes, trained.env_steps, updates, training_steps=trained.env_steps)
        pace = settle_pace(state.pace, config, rounds, cost)
        done = Iteration(cost, rounds, jnp.ones((num_populations(game), 1), bool), trainee)
        return SelfPlayState(trainee, pace, state.step + 1), measure_iteration(done)

    def profile(state: SelfPlayState, which: str = "iterate") -> Profile:
        """Slot 0 is the current policy, the others are past ones."""
        trainee = state.trainee
        params = jax.tree.map(
            lambda now, past: jnp.concatenate([now[:, None], past], axis=1),
            trainee.student.params["policy"],
            trainee.past,
        )
        newest = jnp.arange(slots + 1) == 0
        stored = ~newest & (jnp.arange(slots + 1) <= jnp.maximum(trainee.updates, 1))
        masses = [mask / mask.sum() for mask in (newest, stored)]
        sigma = choose_mixture(which, *(jnp.tile(mass[None], (num_populations(game), 1)) for mass in masses))
        return Profile(StackedPolicies(params, network), sigma)

    hosted, columns = on_host(game), metric_columns(PsroMetrics)
    return Solver(init, stage(step) if hosted else step, profile, jittable=not hosted, columns=columns)


# --- random play


class RandomConfig(Settings):
    """Settings of random play."""

    iterations: int = size(1)
    """Iterations of a run, which are all identical."""


class RandomMetrics(NamedTuple):
    """Costs of an iteration, which are 0."""

    episodes: Array
    env_steps: Array


def random_solver(game: Game, config: RandomConfig) -> Solver:
    """Makes the solver of uniformly random play, which does not learn. The state counts iterations."""
    del config

    def step(state: PyTree, key: Array) -> tuple[PyTree, RandomMetrics]:
        del key
        return {"step": state["step"] + 1}, RandomMetrics(jnp.int32(0), jnp.int32(0))

    return Solver(
        init=lambda key: {"step": jnp.int32(0)},
        step=step,
        profile=lambda state, which="iterate": random_profile(game),
        jittable=not on_host(game),
        columns=RandomMetrics._fields,
    )
