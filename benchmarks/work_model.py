"""Models the cost of an iteration of GEMS by its settings alone: play and learning, operations, bytes, seconds.

An iteration consists of five kinds of work, counted by `work`:

    turns       of loops: a step of all games of a batch at once. Each launches its kernels, however few games there are
    played      game steps that only a return is kept of, finished games of a batch that is not over yet included
    recorded    game steps that are kept to learn from: fixed numbers of them, played or not
    updates     gradient steps
    learned     rows of experience (a step and a seat) that gradient steps look at, once for every look

Seconds are linear in these: `seconds(work, rates)`, with rates measured on the machine (`benchmarks/cost_model.py`
measures them from small settings and compares what they predict for larger ones). `traffic` says what a unit of work
computes and moves, which is how rates are carried over to machines that are not at hand: see docs/scaling.md.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import numpy as np

from benchmarks.flops import flops
from gems_jax.config import GemsConfig
from gems_jax.gems.budget import episodes_per_phase
from gems_jax.gems.state import gems_networks, init_gems
from gems_jax.profiling.peak_memory import activation_bytes, array_bytes, row_bytes
from gems_jax.rollout.views import is_rotational
from gems_jax.types import Game, num_players, num_populations


class Work(NamedTuple):
    """Counts the work of one iteration, or of a part of it. As rates: seconds for one of each."""

    turns: float = 0.0
    played: float = 0.0
    recorded: float = 0.0
    updates: float = 0.0
    learned: float = 0.0

    def __add__(self, other: Any) -> Work:
        return Work(*(one + two for one, two in zip(self, other, strict=True)))


class Lengths(NamedTuple):
    """Lengths of episodes in steps: the mean, and the time until the last one of a batch is over."""

    mean: float
    longest: float


def seconds(amount: Work, rates: Work) -> float:
    return float(np.dot(amount, rates))


def env_steps(game: Game, config: GemsConfig, lengths: Lengths, anchors: int) -> float:
    """Useful game steps of an iteration with `anchors` per population: what `GemsMetrics.env_steps` counts."""
    episodes = episodes_per_phase(game, config, anchors)
    training = config.abr_steps * episodes.abr_step * (config.abr_segment or lengths.mean)
    return episodes.sum_without_training(config) * lengths.mean + training


def meta_work(game: Game, config: GemsConfig, lengths: Lengths) -> Work:
    """Phases 1 and 2. Empty slots play, too: shapes are fixed."""
    played = episodes_per_phase(game, config, config.capacity).meta_update
    joint = config.joint_episodes
    turns = lengths.longest * (_loops(game) * (played > joint) + (joint > 0))
    return _times(config.meta_steps, Work(turns=turns, played=played * lengths.longest))


def oracle_work(game: Game, config: GemsConfig, lengths: Lengths) -> Work:
    """Phase 3."""
    judged = episodes_per_phase(game, config, config.capacity).oracle_call
    turns = lengths.longest * _loops(game) * config.oracle_rounds * (judged > 0)
    return Work(turns=turns, played=judged * lengths.longest)


def training_work(game: Game, config: GemsConfig, steps: int | None = None) -> Work:
    """Phase 4 with `steps` ABR steps, by default the settings'."""
    players, loops = num_players(game), _loops(game)
    count = config.abr_steps if steps is None else steps
    seats = game.num_seats / players  # that learn from a lane
    episodes = episodes_per_phase(game, config, config.capacity)
    protected = episodes.protection * game.max_steps
    held = players * config.capacity * config.kl_states if config.kl_states else protected
    long = config.abr_segment or game.max_steps
    rows = episodes.abr_step * long
    shared = rows * seats * _kept(game, config)
    # every gradient step looks at its share of the rows, and at all that the trust region holds
    looked = config.abr_epochs * (shared + config.abr_minibatches * held * seats * (config.kl_protects != "batch"))
    once = Work(
        turns=long * loops, recorded=rows, updates=config.abr_epochs * config.abr_minibatches * loops, learned=looked
    )
    around = Work(turns=game.max_steps * loops, recorded=protected, learned=2.0 * held * seats)  # before and after
    return _times(count, once) + around


def work(game: Game, config: GemsConfig, lengths: Lengths) -> Work:
    """Counts the work of one iteration."""
    return meta_work(game, config, lengths) + oracle_work(game, config, lengths) + training_work(game, config)


def _times(count: float, amount: Work) -> Work:
    return Work(*(count * part for part in amount))


def _loops(game: Game) -> int:
    """Loops that play one after another: one for each population, where they are not is_rotational."""
    return 1 if is_rotational(game) and game.num_seats > 1 else num_populations(game)


def _kept(game: Game, config: GemsConfig) -> float:
    """The share of rows that a pass takes: with minibatches decisions only, and in turns one seat decides in a step."""
    return 1.0 if config.abr_minibatches == 1 or game.simultaneous else 1.0 / game.num_seats


# --- what a unit of work computes, moves and holds


class Traffic(NamedTuple):
    """Floating-point operations of the networks, and bytes read and written, of one unit each."""

    flops: Work
    bytes: Work


class Operations(NamedTuple):
    """Floating-point operations on one observation."""

    acting: float  # of a policy
    judging: float  # of a critic


def network_operations(game: Game, config: GemsConfig) -> Operations:
    """Counts by tracing: nothing is computed."""
    key = jax.random.key(0)
    nets = gems_networks(game, config)
    state = jax.eval_shape(lambda k: init_gems(k, game, config), key)
    place = jax.eval_shape(game.init, key)

    def generate(s: Any) -> Any:
        return nets.generator(jax.tree.map(lambda leaf: leaf[0], s.generator), s.anchors[0, 0])

    def judge(s: Any, seen: Any) -> Any:
        return nets.critic(jax.tree.map(lambda leaf: leaf[0], s.critic), seen, s.anchors[0, 0])

    seen, legal = (jax.ShapeDtypeStruct(leaf.shape[1:], leaf.dtype) for leaf in (place.observation, place.legal))
    return Operations(
        flops(nets.generator.policy, jax.eval_shape(generate, state), seen, legal), flops(judge, state, seen)
    )


def traffic(game: Game, config: GemsConfig) -> Traffic:
    """A position is read and written twice in a step, by the game and by the turn of its seats; a gradient takes three
    times the operations of what it is the gradient of, and passes over what it keeps three times."""
    one, work_of = array_bytes(game, config), network_operations(game, config)
    step = 4.0 * one.position
    row = row_bytes(game) + activation_bytes(game, config)
    return Traffic(
        flops=Work(
            played=game.num_seats * work_of.acting,
            recorded=game.num_seats * work_of.acting,
            learned=3.0 * (work_of.acting + work_of.judging),
        ),
        bytes=Work(played=step, recorded=step + 2.0 * row_bytes(game), updates=4.0 * one.state, learned=3.0 * row),
    )
