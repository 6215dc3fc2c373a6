"""Neural population learning (NeuPL): a fixed number of policies, which are all trained concurrently.

N slots play a symmetric zero-sum game. Row i of the *interaction graph* Sigma [N, N] is the mixture that slot i trains
against, over the slots before it. The graph is solved again from the current payoffs U as the slots change:

    psro         Sigma[0] = 0,  Sigma[i, :i] = Nash(U[:i, :i])
    fictitious   Sigma[i, :i] = 1 / i
    self_play    Sigma[i] = 1 / N, with itself
    cycle        Sigma[i, i - 1] = 1 (slot 0 against the last)

A policy is conditioned on its row, not on its index: slots with equal rows are one policy, and only distinct rows are
trained. A row of zeros is the sink, the initial policy, which is never trained. The profile is the Nash mixture of all
slots. Games with two seats are made symmetric by letting the policies play both.                   (Liu et al. 2022)

Simplex-NeuPL also trains the network on arbitrary mixtures: a fraction `simplex` of the rows is drawn uniformly from
the mixtures of the slots, so that it responds to every opponent prior, not only to those of the graph.
                                                                                                    (Liu et al. 2022b)

With exact learners, for enumerable games, a slot is a table that moves by `rate` towards an exact best response in
every update, and U is exact. With PPO one network is trained on all rows, as in the original: a generator as in GEMS,
linear in Fourier features of the row. Opponents are the slots at the last solution of the graph, the sink is stored
separately, and U is measured. Slots with nothing to gain, such as responses to an equilibrium, have no gradient. The
parameters that they have in common with other slots then change them, until the population collapses to one policy.
Four settings prevent this: rows at a distance above `bandwidth` have nearly no features in common, entropy keeps such
slots mixed until rows have settled (`entropy_decay`), slots play the average of the network over rounds (`decay`), and
the network forgets old rows (`shrink`). Entries of U average earlier measurements of slots whose rows have not changed
(`retain`). An equilibrium of the slots need not be one of the game, and noise in U selects among many. A mixture is
therefore retained while no slot measurably gains against it (`tolerance`, `keep_mixtures`): a slot then has time to
learn its response, and slots with nothing to gain join no mixture. These settings, the population size, when to solve
the graph, how slots move and the use of PPO (the original has MPO) are this project's choices.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.config import CONFIDENCE, FRACTION, NON_NEGATIVE, OPEN_FRACTION, choice, real, size, widths
from gems_jax.extensive.infosets import infoset_policy
from gems_jax.extensive.values import GameTree, build_tree, uniform_table
from gems_jax.learning.magnets import anneal
from gems_jax.learning.networks import unshare_network
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.base import Cost, Iteration, PsroState, family_solver, new_state
from gems_jax.psro.conditional import Rows, RowStudent, new_row_student, row_networks, shrink_rows, train_rows
from gems_jax.psro.payoffs import PayoffTable, exact_payoffs, fill, meta_game, new_table, solve_levels
from gems_jax.psro.ppo import training_cost
from gems_jax.psro.responses import lowest_replies, move_towards, policy_params
from gems_jax.psro.settings import ExplicitSettings, learning_of
from gems_jax.types import (
    Array,
    Game,
    Profile,
    PyTree,
    Solver,
    num_players,
    num_populations,
)

_RATES = {"tabular": 0.01}  # default learning rates of the generator
_OTHER_RATE = 0.005
_EQUAL = 1e-5  # tolerance of equal rows of the graph
# Minimum probability of every action, as for a network with a softmax. Opponents then reach every information set, so
# best responses do not depend on tie-breaking at unreached sets.
_TREMBLE = 1e-6


class NeuplConfig(ExplicitSettings):
    """Settings of NeuPL."""

    slots: int = size(12)
    """Number of policies N in the population (8 in the original, too few for Kuhn poker)."""
    updates: int = size(10)
    """Updates of all slots per iteration."""
    graph_period: int = size(10)
    """Updates between two solutions of the interaction graph."""
    graph: Literal["psro", "fictitious", "self_play", "cycle"] = choice("psro")
    """Interaction graph: who trains against whom."""
    meta_solver: Literal["nash_lp", "nash"] = choice("nash_lp")
    """Solver of the meta-games of the graph and of the profile."""
    rows: int = size(4)
    """Rows of the graph per round of learning, between which `opponents` are divided."""
    generator_widths: tuple[int, ...] = widths(())
    """Hidden widths of the generator, which maps features of a row to a policy (none: linear)."""
    features: int = size(128, at_least=0)
    """Fourier features of a row that condition the network (0: the row itself)."""
    simplex: float = real(0.0, FRACTION)
    """Fraction of rows that are random mixtures of the slots instead of rows of the graph (Simplex-NeuPL: 0.5)."""
    entropy_weight: float = real(0.05, NON_NEGATIVE)
    """Initial weight of the entropy bonus, which keeps slots with nothing to gain mixed."""
    entropy_decay: float = real(0.02, NON_NEGATIVE)
    """Decay of the entropy bonus, entropy_weight / sqrt(1 + entropy_decay * rounds)."""
    bandwidth: float = real(0.2, CONFIDENCE)
    """Distance above which the features of two rows are nearly orthogonal."""
    decay: float = real(0.995, OPEN_FRACTION)
    """Decay per round of the averaged network, which the slots play."""
    shrink: float = real(0.5, FRACTION)
    """Factor of the network's conditional part whenever the graph is solved, to forget old rows."""
    retain: float = real(0.9, FRACTION)
    """Weight of earlier measurements of a payoff between slots whose rows have not changed."""
    tolerance: float = real(0.01, NON_NEGATIVE)
    """Measured gain, as a fraction of the range of returns, up to which mixtures are retained."""
    momentum: float = real(0.0, (lambda x: 0 <= x < 1, "at least 0 and below 1"))
    """Decay b1 of Adam's mean of gradients (0: no overshooting)."""
    rate: float = real(0.2, CONFIDENCE)
    """Step of an update towards the best response, in (0, 1] (exact learners)."""

    @property
    def passes(self) -> int:
        """Solutions of the interaction graph per iteration."""
        return -(-self.updates // self.graph_period)

    @property
    def least_rounds(self) -> int:
        """Minimum rounds per iteration: one per solution of the graph."""
        return self.passes

    def measured_payoffs(self, players: int, iterations: int) -> float:
        """Counts the payoffs between all slots, at the start and after every solution of the graph."""
        return self.slots**players * (1 + self.passes * iterations)

    def divide_less(self) -> Self | None:
        """Halves the solutions of the graph per iteration; None if there is only one."""
        return self.replace(graph_period=2 * self.graph_period) if self.passes > 1 else None


SIMPLEX_NEUPL = NeuplConfig(oracle="ppo", simplex=0.5)


class NeuplState(PsroState):
    """Slots, whose mixtures `sigma` and `sigma_average` are [N], their graph and their payoffs."""

    slots: PyTree  # [N, I, A], table of each slot, or the networks
    graph: Array  # [N, N], mixtures that the slots train against
    payoffs: Array  # [N, N], U: mean return of slot i against slot j over both seats
    weight: Array  # [N, N], effective number of measurements of each entry of U


class Slots(NamedTuple):
    """Functions that initialize, run, measure and train the slots."""

    first: Callable[[Array], PyTree]  # first(key) -> slots
    policies: Callable[[PyTree, Array], StackedPolicies]  # policies(slots, graph) -> [1, N, ...]
    measure: Callable[[Array, PyTree, Array], tuple[Array, Cost]]  # measure(key, slots, graph) -> U [N, N]
    train: Callable[[Array, PyTree, Array, int, int], tuple[PyTree, Cost]]  # (key, slots, graph, updates, rounds)


# --- one population


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class OnePopulation:
    """Game with one population for all players. Its policy plays every seat, which observations must identify."""

    base: Any  # a Game, hashed by value

    @property
    def population_of_player(self) -> tuple[int, ...]:
        """Population of each player: 0 for all."""
        return (0,) * num_players(self.base)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "base":
            raise AttributeError(name)
        return getattr(self.base, name)


def merge_populations(game: Game) -> Game:
    """Gives all players of a game one population; returns the game itself if it already has only one."""
    return game if num_populations(game) == 1 else OnePopulation(game)


def repeat_profile(game: Game, profile: Profile) -> Profile:
    """Repeats a profile of `merge_populations(game)`, P = 1, for every population of `game`."""
    populations = num_populations(game)
    return jax.tree.map(lambda leaf: leaf.repeat(populations, axis=0), profile)


# --- exact learners


@partial(jax.jit, static_argnames="updates")
def train_slots(tree: GameTree, slots: Array, graph: Array, rate: Array, updates: int) -> Array:
    """Moves all slots [N, I, A] `updates` times by `rate` towards best responses to the rows of the graph [N, N]."""
    same = jnp.all(jnp.abs(graph[:, None] - graph[None, :]) <= _EQUAL, axis=2)
    first = jnp.argmax(same, axis=1)  # first slot with the same row
    trained = graph.sum(axis=1) > 0.5

    def update(_: Array, slots: Array) -> Array:
        replies = jax.vmap(lambda row: lowest_replies(tree, slots[None], row[None]))(graph)
        moved = jax.vmap(lambda table, reply: move_towards(tree, table, reply, rate))(slots, replies)
        moved = jnp.where(tree.legal[None], jnp.maximum(moved, _TREMBLE), 0.0)
        moved = moved / moved.sum(axis=-1, keepdims=True)
        return jnp.where(trained[:, None, None], moved, slots)[first]

    return jax.lax.fori_loop(0, updates, update, slots)


def exact_slots(symmetric: Game, config: NeuplConfig) -> Slots:
    """Makes slots of tables, which move towards exact best responses."""
    tree, network, count = build_tree(symmetric), infoset_policy(symmetric), config.slots

    def first(key: Array) -> Array:
        del key  # uniform policies
        return jnp.broadcast_to(uniform_table(tree), (count, *tree.legal.shape))

    def policies(slots: Array, graph: Array) -> StackedPolicies:
        del graph
        params = jax.vmap(lambda table: policy_params(symmetric, table[None])[0])(slots)
        return StackedPolicies(params[None], network)

    def measure(key: Array, slots: Array, graph: Array) -> tuple[Array, Cost]:
        del key, graph
        values = exact_payoffs(tree, (slots, slots))
        return (values[0] + values[1].T) / 2, Cost(tree_walks=count * count)

    def train(key: Array, slots: Array, graph: Array, updates: int, rounds: int) -> tuple[Array, Cost]:
        del key, rounds
        return train_slots(tree, slots, graph, jnp.float32(config.rate), updates), Cost(tree_walks=count * updates)

    return Slots(first, policies, measure, train)


# --- one network


def learned_slots(symmetric: Game, config: NeuplConfig) -> Slots:
    """Makes slots of one network, which is trained by PPO."""
    learning, count = learning_of(config, symmetric), config.slots
    if not config.learning_rate:  # the default depends on the network, not on what it generates
        learning = learning.replace(learning_rate=_RATES.get(learning.policy, _OTHER_RATE))
    nets = row_networks(
        symmetric, learning, count, config.generator_widths, config.features, float(config.bandwidth),
        float(config.decay), float(config.momentum),
    )  # fmt: skip
    network = unshare_network(nets.generator.policy)

    def first(key: Array) -> RowStudent:
        key_learner, key_sink = jax.random.split(key)
        return new_row_student(key_learner, nets, learning).replace(sink=network.init(key_sink))

    def policies(slots: RowStudent, graph: Array) -> StackedPolicies:
        made = jax.vmap(lambda row: nets.policy(slots.mean, row))(graph)
        empty = graph.sum(axis=1) < 0.5

        def put(one: Array, sink: Array) -> Array:
            return jnp.where(empty.reshape(-1, *[1] * sink.ndim), sink[None], one)[None]

        return StackedPolicies(jax.tree.map(put, made, slots.sink), network)

    def measure(key: Array, slots: RowStudent, graph: Array) -> tuple[Array, Cost]:
        everyone = np.ones((1, count), bool)
        empty = new_table(symmetric, count)
        table, cost = fill(key, symmetric, config, empty, policies(slots, graph), everyone, everyone)
        return meta_game(symmetric, table, jnp.asarray(everyone))[0][0], cost

    def train(key: Array, slots: RowStudent, graph: Array, updates: int, rounds: int) -> tuple[RowStudent, Cost]:
        del updates
        different = jnp.asarray(_distinct_rows(graph))
        bonus = anneal(learning.entropy_weight, config.entropy_decay, slots.rounds)
        trained, basis = jnp.where(graph.sum(axis=1) > 0.5, different, 0.0), different if config.simplex else None
        learner, metrics = train_rows(
            key, symmetric, learning.replace(entropy_weight=bonus), jnp.int32(rounds), nets, config.rows,
            shrink_rows(slots, config.shrink), policies(slots, graph), Rows(graph, trained, basis, config.simplex),
        )  # fmt: skip
        return learner, training_cost(learning, metrics, rounds)

    return Slots(first, jax.jit(policies), measure, train)


# --- the method


def neupl_solver(game: Game, config: NeuplConfig) -> Solver:
    """Makes the solver of NeuPL, for two-player zero-sum games. Its step runs in Python."""
    symmetric, count, config = merge_populations(game), config.slots, config.for_game(game)
    if config.oracle == "exact" and config.simplex:
        raise ValueError(
            "simplex > 0 needs one network for all mixtures, but exact learners are tables: use oracle='ppo'"
        )
    make = (exact_slots if config.oracle == "exact" else learned_slots)(symmetric, config)
    tolerance = config.tolerance * (game.return_bounds[1] - game.return_bounds[0])

    def nash(payoffs: Array, graph: Array, sigma: Array) -> tuple[Array, Array]:
        """Solves the game of the first i + 1 slots for every i: mixtures [N, N] and gaps [N]."""
        table = PayoffTable(jnp.stack([payoffs, payoffs.T]), jnp.zeros(payoffs.shape, jnp.int32))
        below = jnp.tril(jnp.ones((count, count), bool))
        solved, gap = solve_levels(symmetric, config.meta_solver, table, below[:, None])
        if config.payoffs == "exact":
            return solved[:, 0], gap
        return keep_mixtures(payoffs, solved[:, 0], jnp.concatenate([graph[1:], sigma[None]]), tolerance)

    def solve_graph(payoffs: Array, graph: Array, sigma: Array) -> Array:
        if config.graph == "psro":
            return jnp.concatenate([jnp.zeros((1, count)), nash(payoffs, graph, sigma)[0][:-1]])
        if config.graph == "fictitious":
            return jnp.tril(jnp.ones((count, count)), -1) / jnp.maximum(jnp.arange(count), 1)[:, None]
        if config.graph == "self_play":
            return jnp.full((count, count), 1.0 / count)
        return jnp.roll(jnp.eye(count), -1, axis=1)

    def first(key: Array) -> NeuplState:
        sink, nothing = jnp.eye(count)[0], jnp.zeros((count, count))
        own = {"slots": make.first(key), "graph": nothing, "payoffs": nothing, "weight": nothing}
        return new_state(NeuplState, game, config, sink, **own)

    def iterate(state: NeuplState, key: Array, rounds: int) -> tuple[NeuplState, Iteration]:
        slots, graph, payoffs, cost, left = state.slots, state.graph, state.payoffs, Cost(), config.updates
        weight, retain = state.weight, config.retain if config.payoffs == "episodes" else 0.0
        passes = config.passes
        each = max(rounds // passes, 1)
        key_start, *keys = jax.random.split(key, 1 + passes)
        if int(state.step) == 0:  # the first slots have no payoffs yet
            payoffs, cost = make.measure(key_start, slots, graph)
        for pass_key in keys:
            key_train, key_measure = jax.random.split(pass_key)
            updates = min(config.graph_period, left)
            old, graph = graph, solve_graph(payoffs, graph, state.sigma)
            slots, spent = make.train(key_train, slots, graph, updates, each)
            found, measured = make.measure(key_measure, slots, graph)
            weight = discount_measurements(weight, old, graph, retain) + 1.0
            payoffs = payoffs + (found - payoffs) / weight
            cost = cost.plus(spent, measured)
            left -= updates
        sigma, gap = (rows[-1] for rows in nash(payoffs, graph, state.sigma))
        active = jnp.asarray(_distinct_rows(graph))[None]
        done = Iteration(cost, passes * each, active, slots, payoffs, (graph, sigma, sigma), gap)
        return state.replace(slots=slots, graph=graph, payoffs=payoffs, weight=weight, sigma=sigma), done

    def profile(state: NeuplState, sigma: Array) -> Profile:
        return repeat_profile(game, Profile(make.policies(state.slots, state.graph), sigma[None]))

    return family_solver(config, first, iterate, profile)


@jax.jit
def keep_mixtures(payoffs: Array, solved: Array, before: Array, tolerance: Array | float) -> tuple[Array, Array]:
    """Retains mixtures of a measured symmetric game while no slot gains more than the noise.

    Level i is the game of the first i + 1 slots. Its mixture is the first of three against which none of these slots
    earns more than `tolerance`: that of level i - 1, the earlier one of level i, the solution of level i.

    Args:
      payoffs: [N, N], return of slot i against slot j, antisymmetric.
      solved: [N, N], row i: an equilibrium of level i.
      before: [N, N], earlier mixtures of the levels; rows of zeros if there are none.
      tolerance: [], in units of payoff.

    Returns:
      Mixtures [N, N] of the levels, and their gaps [N].
    """

    def gain(mixture: Array, level: Array) -> Array:
        met = jnp.arange(len(payoffs)) <= level
        given = jnp.where(met, mixture, 0.0).sum() > 0.5
        return jnp.where(given, jnp.where(met, payoffs @ mixture, -jnp.inf).max(), jnp.inf)

    def settle_level(below: Array, level: Array) -> tuple[Array, tuple[Array, Array]]:
        earlier = jnp.where(gain(before[level], level) <= tolerance, before[level], solved[level])
        mixture = jnp.where(gain(below, level) <= tolerance, below, earlier)
        return mixture, (mixture, 2.0 * gain(mixture, level))

    return jax.lax.scan(settle_level, jnp.zeros(len(payoffs)), jnp.arange(len(payoffs)))[1]


def discount_measurements(weight: Array, old: Array, new: Array, retain: Array | float) -> Array:
    """Discounts the weights of earlier measurements by `retain` and by the changes of rows.

    The factor of a slot is the overlap of its two rows, 1 - |new - old|_1 / 2.

    Args:
      weight: weights [N, N] of the measurements.
      old: rows [N, N] of the graph before.
      new: rows [N, N] of the graph now.
      retain: factor for unchanged rows.
    """
    same = jnp.clip(1.0 - jnp.abs(new - old).sum(axis=1) / 2, 0.0, 1.0)
    return retain * same[:, None] * same[None, :] * weight


def _distinct_rows(graph: Array) -> np.ndarray:
    """Marks slots [N] whose row differs from all earlier ones."""
    rows = np.asarray(graph)
    return np.array([not any(np.abs(rows[i] - rows[j]).max() <= _EQUAL for j in range(i)) for i in range(len(rows))])
