"""Joint PSRO: populations of any number of players, and a coarse correlated equilibrium (CCE) between them.

The meta-game's solution is a joint distribution mu over profiles. Each newcomer is a best response to the others' joint
play under mu; if no response gains, mu is a CCE of the full game. A deviating player meets the others' joint
distribution, mu summed over its own choice. With two players this is an ordinary mixture. With more, exact responses
walk the tree with mu itself, and learned responses play against profiles that are drawn from it: slot m of every
population then contains its part of profile m.

    jpsro         newcomers are stored                                                        (Marris et al. 2021)
    neupl_jpsro   one network per population plays all of its policies: a newcomer is learned separately, and then
                  distilled into the network together with the old policies                      (Liu et al. 2024)
                  A reconstruction from summaries: codes are fixed random vectors instead of learned ones, the payoff
                  tensor is measured instead of estimated by a network, and old policies together have the weight of
                  the new one in the distillation (`psro/distil.py`). Only payoffs of newcomers are measured: older
                  entries are correct only if old policies do not change, so the distillation draws many of them in
                  every round (`distil_policies`) and takes small steps (`distil_rate`)

mu is the CCE of maximum Gini impurity, which is unique, or the one that regret matching finds. The profile of the
method consists of mu's marginals; mu itself is in the state, and on enumerable games `joint_cce_gap` measures its
distance from a CCE of the full game. With exact responses populations stop growing there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.config import ABOVE_ZERO, NON_NEGATIVE, choice, real, size, widths
from gems_jax.evaluate.joint_play import play_of_joint, regrets
from gems_jax.extensive.infosets import tables_of
from gems_jax.extensive.tree import is_enumerable
from gems_jax.extensive.values import build_tree, population_mean, tied_actions_from_gains
from gems_jax.learning.networks import policy_network
from gems_jax.meta.cce import cce_gap, joint_marginals, regret_matching_joint
from gems_jax.meta.max_gini import max_gini_cce
from gems_jax.meta.simplex import masked_uniform
from gems_jax.policies.generator import Hypernetwork
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.base import (
    Cost,
    Iteration,
    PsroMetrics,
    Store,
    StoreState,
    family_solver,
    metric_columns,
    new_state,
    pad_slots,
    stack_slots,
)
from gems_jax.psro.distil import Teachers, distil, distil_cost, new_pupil, pupil_policy
from gems_jax.psro.payoffs import PayoffTable, fill, meta_game, new_table
from gems_jax.psro.ppo import Student, make_oracle
from gems_jax.psro.responses import Mixture, Oracle, Response, choose_replies, policy_params
from gems_jax.psro.settings import ExplicitSettings, learning_of
from gems_jax.types import Array, Game, Profile, PyTree, Solver, num_players, num_populations


class JpsroConfig(ExplicitSettings):
    """Settings of Joint PSRO."""

    capacity: int = size(4)
    """Initial number of slots per population; doubled whenever they are full."""
    meta_solver: Literal["max_gini", "regret_matching"] = choice("max_gini")
    """Coarse correlated equilibrium of the meta-game to play."""
    profiles: int = size(64)
    """Profiles drawn from the equilibrium as opponents of learned responses, for three or more players."""
    ties: Literal["robust", "random", "novel", "lowest"] = choice("robust")
    """Tie-breaking rule of exact responses (see psro/responses.py)."""
    min_gain: float = real(1e-6, NON_NEGATIVE)
    """Gain over the joint play that an exact newcomer must exceed to be added (0: add all)."""

    def measured_payoffs(self, players: int, iterations: int) -> float:
        """Counts the payoffs between all policies of a run, one newcomer per iteration."""
        return (iterations + 1) ** players


class NeuplJpsroConfig(JpsroConfig):
    """Settings of NeuPL-JPSRO."""

    code_size: int = size(16)
    """Size of the code that selects a policy of the network."""
    generator_widths: tuple[int, ...] = widths((32,))
    """Hidden widths of the generator, which maps a code to a policy."""
    distil_rate: float = real(0.003, ABOVE_ZERO)
    """Step size of the distillation's Adam."""
    distil_policies: int = size(16)
    """Policies per round of distillation, half of them new, between which `opponents` are divided."""

    @property
    def least_rounds(self) -> int:
        """Minimum rounds per iteration: one for the newcomer, one for the distillation."""
        return 2


class JpsroState(StoreState):
    """Stored policies and their joint play, whose marginals are `sigma`."""

    memory: PyTree  # networks of all policies; () for stored policies
    table: PayoffTable
    joint: Array  # [K, ..., K], mu


class JointMetrics(PsroMetrics):
    """Metrics on enumerable games."""

    joint_cce_gap: Array  # [] float32, sum of the players' gains by deviating from mu in the full game


# --- responses to a joint distribution


class JointPlay(NamedTuple):
    """Stored policies and the joint distribution over their profiles."""

    policies: StackedPolicies  # [P, K, ...]
    active: Array  # [P, K]
    joint: Array  # [K, ..., K], mu


RespondJointly = Callable[[Array, JointPlay, int], Response]  # (key, play, rounds)


def solve_joint(name: str, payoffs: Array, active: Array) -> Array:
    """Solves payoffs [players, K, ..., K] for mu [K, ..., K] over the active slots [players, K]."""
    if name == "regret_matching":
        return jax.jit(regret_matching_joint)(payoffs, active)
    slots = [np.nonzero(row)[0] for row in np.asarray(active)]
    inside = np.ix_(np.arange(len(slots)), *slots)
    joint = np.zeros(payoffs.shape[1:], np.float32)
    joint[np.ix_(*slots)] = max_gini_cce(np.asarray(payoffs, np.float64)[inside])
    return jnp.asarray(joint)


def own_marginals(game: Game, joint: Array) -> Array:
    """Computes the marginals sigma [P, K] of mu, averaged over the players of each population."""
    sigma, owners = joint_marginals(joint), np.asarray(game.population_of_player)
    return jnp.stack([sigma[np.nonzero(owners == p)[0]].mean(axis=0) for p in range(num_populations(game))])


def joint_gains(game: Game, play: JointPlay) -> tuple[Array, np.ndarray]:
    """Computes exact leaf gains [players, L] against mu, and the gains of the best deviations [players]."""
    tree = build_tree(game)
    seen = play_of_joint(tree, tables_of(game, play.policies), play.joint)
    return seen.gains, np.asarray(regrets(tree, seen))


def exact_joint_oracle(game: Game, ties: str) -> RespondJointly:
    """Makes exact deterministic best responses to mu, tabular. `gain` may be slightly negative by rounding."""
    tree = build_tree(game)

    def respond(key: Array, play: JointPlay, rounds: int) -> Response:
        del rounds
        tables = tables_of(game, play.policies)
        gains, gained = joint_gains(game, play)
        replies = choose_replies(key, game, tables, play.active, tied_actions_from_gains(tree, gains), ties)
        gain = np.asarray(population_mean(tree, jnp.asarray(gained)))
        return Response(policy_params(game, replies), gain, Cost(tree_walks=len(gain)))

    return respond


def draw_profiles(key: Array, game: Game, play: JointPlay, count: int) -> Mixture:
    """Draws `count` profiles from mu, one per slot; sigma [count] is uniform and joint. key: consumed."""
    chosen = jax.random.categorical(key, jnp.log(play.joint.reshape(-1)), shape=(count,))
    slots = jnp.stack(jnp.unravel_index(chosen, play.joint.shape))  # [players, count]
    params = jax.tree.map(lambda leaf: jax.vmap(lambda own, at: own[at])(leaf, slots), play.policies.params)
    every = jnp.ones((num_populations(game), count), bool)
    return Mixture(StackedPolicies(params, play.policies.apply), every, jnp.full(count, 1.0 / count))


def meet_opponents(key: Array, game: Game, play: JointPlay, profiles: int) -> Mixture:
    """Returns the other's mixture, or with three or more players `profiles` drawn from mu. key: consumed."""
    if num_players(game) == 2:
        return Mixture(play.policies, play.active, own_marginals(game, play.joint))
    return draw_profiles(key, game, play, profiles)


def joint_responses(game: Game, config: JpsroConfig, oracle: Oracle) -> RespondJointly:
    """Makes exact or learned responses to mu. config: settings without `auto`."""

    def respond(key: Array, play: JointPlay, rounds: int) -> Response:
        key_draw, key_learn = jax.random.split(key)
        return oracle.respond(key_learn, meet_opponents(key_draw, game, play, config.profiles), rounds=rounds)

    return exact_joint_oracle(game, config.ties) if config.oracle == "exact" else respond


# --- storage of newcomers


class Storage(NamedTuple):
    """Storage of newcomers: in the store alone, or in networks as well (`memory`)."""

    first: Callable[[Array, Store], tuple[PyTree, Store]]  # (key, store) -> memory, store
    # (key, memory, the store with the newcomers, their slots [P, K], the previous play, rounds) -> memory, store, the
    # slots whose policies changed [P, K], and the cost
    add: Callable[[Array, PyTree, Store, np.ndarray, JointPlay, int], tuple[PyTree, Store, np.ndarray, Cost]]
    learners: int = 1  # learners that divide the rounds of an iteration, including the newcomers


PLAIN_STORAGE = Storage(
    first=lambda key, store: ((), store),
    add=lambda key, memory, store, fresh, play, rounds: (memory, store, fresh, Cost()),
)


def store_in_network(game: Game, config: NeuplJpsroConfig) -> Storage:
    """Stores all policies of a population in one network, selected by codes. config: settings without `auto`."""
    learning = learning_of(config, game)
    generator = Hypernetwork(policy_network(game, learning), config.code_size, config.generator_widths)

    def codes(slots: int) -> Array:
        each = jax.vmap(lambda slot: jax.random.fold_in(jax.random.key(0), slot))(jnp.arange(slots))
        return jax.vmap(lambda key: jax.random.normal(key, (config.code_size,)))(each)

    @jax.jit
    def generate(student: Student, store: Store) -> Store:
        """Regenerates the policies of the store from the networks."""
        per_code = jax.vmap(lambda params, code: pupil_policy(generator, params, code), in_axes=(None, 0))
        params = jax.vmap(per_code, in_axes=(0, None))(student.params["policy"], codes(store.capacity))
        return Store(params, store.active)

    def first(key: Array, store: Store) -> tuple[Student, Store]:
        keys = jax.random.split(key, num_populations(game))
        student = new_pupil(jax.vmap(generator.init)(keys), learning)
        return student, generate(student, store)

    def add(
        key: Array, student: Student, store: Store, fresh: np.ndarray, play: JointPlay, rounds: int
    ) -> tuple[Student, Store, np.ndarray, Cost]:
        key_draw, key_learn = jax.random.split(key)
        weights = (jax.vmap(masked_uniform)(jnp.asarray(fresh)) + jax.vmap(masked_uniform)(play.active)) / 2
        teachers = Teachers(StackedPolicies(store.params, play.policies.apply), weights, codes(store.capacity))
        met = meet_opponents(key_draw, game, play, config.profiles)
        pupil, metrics = distil(
            key_learn, game, learning, jnp.int32(rounds), teachers, Profile(met.policies, met.sigma),
            new_pupil(student.params["policy"], learning), config.distil_rate, generator, config.distil_policies,
        )  # fmt: skip
        # All policies have changed slightly; exact payoffs are free, so all are computed again.
        moved = np.asarray(store.active) if config.payoffs == "exact" else fresh
        return pupil, generate(pupil, store), moved, distil_cost(learning, metrics, rounds)

    return Storage(first, add, learners=2)


# --- the method


def jpsro_solver(game: Game, config: JpsroConfig) -> Solver:
    """Makes the solver of Joint PSRO, or of NeuPL-JPSRO with NeuplJpsroConfig. Its step runs in Python."""
    config = config.for_game(game)
    exact = config.oracle == "exact"
    if exact:  # responses are tables, and so are the policies distilled from them
        config = config.replace(policy="tabular")
    oracle, least = make_oracle(game, config, ties=config.ties), config.min_gain if exact else 0.0
    respond = joint_responses(game, config, oracle)
    storage = store_in_network(game, config) if isinstance(config, NeuplJpsroConfig) else PLAIN_STORAGE
    players = num_players(game)

    def play_of(store: Store, joint: Array) -> JointPlay:
        slots = tuple(range(players))
        return JointPlay(oracle.population(store.params), store.active, pad_slots(joint, store.capacity, slots))

    def first(key: Array) -> JpsroState:
        key_first, key_keep = jax.random.split(key)
        store = Store.create(stack_slots(oracle.policy(oracle.first(key_first))), config.capacity)
        memory, store = storage.first(key_keep, store)
        table, sigma = new_table(game, config.capacity), store.active.astype(jnp.float32)
        joint = jnp.zeros(table.episodes.shape).at[(0,) * players].set(1.0)
        return new_state(JpsroState, game, config, sigma, store=store, memory=memory, table=table, joint=joint)

    def iterate(state: JpsroState, key: Array, rounds: int) -> tuple[JpsroState, Iteration]:
        key_respond, key_keep, key_fill = jax.random.split(key, 3)
        each = max(rounds // storage.learners, 1)
        response = respond(key_respond, play_of(state.store, state.joint), each)
        keep = response.gain > least if least else np.ones(num_populations(game), bool)
        wide = state.store.widen(int(keep.any()))
        memory, store, fresh, spent = storage.add(
            key_keep, state.memory, *wide.append(response.params, keep), play_of(wide, state.joint), each
        )
        active, policies = np.asarray(store.active), oracle.population(store.params)
        if int(state.step) == 0:  # the first policies have no payoffs yet
            fresh = active
        table, measured = fill(key_fill, game, config, state.table, policies, active, fresh)
        payoffs, everyone = meta_game(game, table, store.active)
        joint = solve_joint(config.meta_solver, payoffs, everyone)
        sigma = own_marginals(game, joint)
        return state.replace(store=store, memory=memory, table=table, joint=joint, sigma=sigma), Iteration(
            response.cost.plus(spent, measured),
            storage.learners * each,
            store.active,
            parameters=(store.params, memory),
            payoffs=table,
            meta=(joint, sigma, store.active),
            gap=cce_gap(payoffs, joint, everyone),
        )

    solver = family_solver(config, first, iterate, oracle.profile)
    known = is_enumerable(game) and players == game.num_seats
    return add_joint_gap(solver, game, oracle) if known else solver


def add_joint_gap(solver: Solver, game: Game, oracle: Oracle) -> Solver:
    """Adds mu's gap to a CCE of the full game to the metrics of Joint PSRO. For enumerable games."""

    def step(state: JpsroState, key: Array) -> tuple[JpsroState, JointMetrics]:
        after, metrics = solver.step(state, key)
        play = JointPlay(oracle.population(after.store.params), after.store.active, after.joint)
        gap = np.maximum(joint_gains(game, play)[1], 0.0).sum()
        return after, JointMetrics(**vars(metrics), joint_cce_gap=jnp.float32(gap))

    return solver._replace(step=step, columns=metric_columns(JointMetrics))
