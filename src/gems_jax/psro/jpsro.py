"""Joint PSRO: populations of any number of players, and a coarse correlated equilibrium (CCE) between them.

The meta-game's solution is a joint distribution mu over profiles; everybody's newcomer is a best response to what the
others do together under mu. Where no response gains anything mu is a CCE of the whole game. A player who considers
deviating meets the others as they are distributed together, mu summed over its own choice. Of two players that is a
mixture like any other. With more, exact responses walk the tree with mu itself, and learned ones play against profiles
that are drawn from it: slot m of every population then holds its part of profile m.

    jpsro         newcomers are stored                                                        (Marris et al. 2021)
    neupl_jpsro   one network per population plays all of its policies: a newcomer is learned on its own, and then
                  distilled into the network, which is held to what it played before             (Liu et al. 2024)
                  A reconstruction from summaries: codes are fixed random vectors instead of learned ones, the payoff
                  tensor is measured instead of estimated by a network, and old policies together count as much as
                  the new one in the distillation (`psro/distil.py`). Payoffs that are measured are those of the
                  newcomers: older entries are right as far as old policies stand still, so the distillation draws many
                  of them in every round (`distil_policies`) and takes small steps (`distil_rate`)

mu is the CCE of maximum Gini impurity, which is unique, or whichever regret matching finds. The profile that the method
puts forward is mu's marginals, a mixture for everybody; mu itself is in the state, and `joint_cce_gap` says how far it
is from a CCE of the whole game, on enumerable games. With exact responses populations stop growing there.
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
from gems_jax.extensive.tree import walkable
from gems_jax.extensive.values import build_tree, population_mean, tied_by_gains
from gems_jax.learning.networks import policy_network
from gems_jax.meta.cce import cce_gap, marginals_of, regret_matching_joint
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
    """Policies per population that there is room for at first; doubled whenever that is full."""
    meta_solver: Literal["max_gini", "regret_matching"] = choice("max_gini")
    """Which coarse correlated equilibrium of the meta-game is played."""
    profiles: int = size(64)
    """Profiles drawn from it that learned responses of three or more players meet."""
    ties: Literal["robust", "random", "novel", "lowest"] = choice("robust")
    """Exact responses that tie: how one is chosen (see psro/responses.py)."""
    min_gain: float = real(1e-6, NON_NEGATIVE)
    """Exact newcomers that gain no more than this over the joint play are not added; 0 adds all."""

    def measured_payoffs(self, players: int, iterations: int) -> float:
        """Counts the payoffs between all policies of a run, one newcomer per iteration."""
        return (iterations + 1) ** players


class NeuplJpsroConfig(JpsroConfig):
    """Settings of NeuPL-JPSRO."""

    code_size: int = size(16)
    """Numbers that tell the network which policy to play."""
    generator_widths: tuple[int, ...] = widths((32,))
    """Hidden widths of the network that turns a code into a policy."""
    distil_rate: float = real(0.003, ABOVE_ZERO)
    """Step size of the distillation's Adam."""
    distil_policies: int = size(16)
    """Policies that a round of distillation draws, half of them new; `opponents` are shared out between them."""

    @property
    def least_rounds(self) -> int:
        """Rounds of learning that an iteration takes at least: one of the newcomer, one of the distillation."""
        return 2


class JpsroState(StoreState):
    """Stored policies and their joint play, whose marginals are `sigma`."""

    memory: PyTree  # what else the policies are kept in
    table: PayoffTable
    joint: Array  # [K, ..., K], mu


class JointMetrics(PsroMetrics):
    """Metrics on enumerable games."""

    joint_cce_gap: Array  # [] float32, what players gain by any deviation from mu, in the whole game


# --- responses to a joint distribution


class JointPlay(NamedTuple):
    """Stored policies and how often each profile of them is played."""

    policies: StackedPolicies  # [P, K, ...]
    active: Array  # [P, K]
    joint: Array  # [K, ..., K], mu


RespondJointly = Callable[[Array, JointPlay, int], Response]  # (key, play, rounds)


def solve_joint(name: str, payoffs: Array, active: Array) -> Array:
    """mu [K, ..., K] over the active slots [players, K] of payoffs [players, K, ..., K]."""
    if name == "regret_matching":
        return jax.jit(regret_matching_joint)(payoffs, active)
    slots = [np.nonzero(row)[0] for row in np.asarray(active)]
    inside = np.ix_(np.arange(len(slots)), *slots)
    joint = np.zeros(payoffs.shape[1:], np.float32)
    joint[np.ix_(*slots)] = max_gini_cce(np.asarray(payoffs, np.float64)[inside])
    return jnp.asarray(joint)


def own_marginals(game: Game, joint: Array) -> Array:
    """sigma [P, K]: what each population plays on its own, the mean over its players."""
    sigma, owners = marginals_of(joint), np.asarray(game.population_of_player)
    return jnp.stack([sigma[np.nonzero(owners == p)[0]].mean(axis=0) for p in range(num_populations(game))])


def joint_gains(game: Game, play: JointPlay) -> tuple[Array, np.ndarray]:
    """Leaf gains [players, L] against mu, and what the best deviations gain over it [players], exact."""
    tree = build_tree(game)
    seen = play_of_joint(tree, tables_of(game, play.policies), play.joint)
    return seen.gains, np.asarray(regrets(tree, seen))


def exact_joint_oracle(game: Game, ties: str) -> RespondJointly:
    """Exact best responses to mu, deterministic, as tabular policies. `gain` may be slightly negative by rounding."""
    tree = build_tree(game)

    def respond(key: Array, play: JointPlay, rounds: int) -> Response:
        del rounds
        tables = tables_of(game, play.policies)
        gains, gained = joint_gains(game, play)
        replies = choose_replies(key, game, tables, play.active, tied_by_gains(tree, gains), ties)
        gain = np.asarray(population_mean(tree, jnp.asarray(gained)))
        return Response(policy_params(game, replies), gain, Cost(tree_walks=len(gain)))

    return respond


def draw_profiles(key: Array, game: Game, play: JointPlay, count: int) -> Mixture:
    """Draws `count` profiles from mu, a slot each: sigma [count] is uniform and joint. key: consumed."""
    chosen = jax.random.categorical(key, jnp.log(play.joint.reshape(-1)), shape=(count,))
    slots = jnp.stack(jnp.unravel_index(chosen, play.joint.shape))  # [players, count]
    params = jax.tree.map(lambda leaf: jax.vmap(lambda own, at: own[at])(leaf, slots), play.policies.params)
    every = jnp.ones((num_populations(game), count), bool)
    return Mixture(StackedPolicies(params, play.policies.apply), every, jnp.full(count, 1.0 / count))


def meet_opponents(key: Array, game: Game, play: JointPlay, profiles: int) -> Mixture:
    """Gives learners the other's mixture, or with three or more players `profiles` drawn from mu. key: consumed."""
    if num_players(game) == 2:
        return Mixture(play.policies, play.active, own_marginals(game, play.joint))
    return draw_profiles(key, game, play, profiles)


def joint_responses(game: Game, config: JpsroConfig, oracle: Oracle) -> RespondJointly:
    """Exact or learned responses to mu, as the settings without `auto` say."""

    def respond(key: Array, play: JointPlay, rounds: int) -> Response:
        key_draw, key_learn = jax.random.split(key)
        return oracle.respond(key_learn, meet_opponents(key_draw, game, play, config.profiles), rounds=rounds)

    return exact_joint_oracle(game, config.ties) if config.oracle == "exact" else respond


# --- how newcomers are kept


class Keeping(NamedTuple):
    """How newcomers are kept."""

    first: Callable[[Array, Store], tuple[PyTree, Store]]  # (key, store) -> what is kept besides, and the store
    # (key, what is kept besides, the store with the newcomers, their slots [P, K], the play before, rounds) -> what is
    # kept besides, the store, the slots whose policies changed [P, K], and the cost
    add: Callable[[Array, PyTree, Store, np.ndarray, JointPlay, int], tuple[PyTree, Store, np.ndarray, Cost]]
    lots: int = 1  # lots of learning per iteration, the newcomers' own included


STORED = Keeping(
    first=lambda key, store: ((), store),
    add=lambda key, memory, store, fresh, play, rounds: (memory, store, fresh, Cost()),
)


def keep_in_network(game: Game, config: NeuplJpsroConfig) -> Keeping:
    """All policies of a population in one network, which a code of each makes into it. config: settled for the game."""
    learning = learning_of(config, game)
    generator = Hypernetwork(policy_network(game, learning), config.code_size, config.generator_widths)

    def codes(slots: int) -> Array:
        each = jax.vmap(lambda slot: jax.random.fold_in(jax.random.key(0), slot))(jnp.arange(slots))
        return jax.vmap(lambda key: jax.random.normal(key, (config.code_size,)))(each)

    @jax.jit
    def generate(student: Student, store: Store) -> Store:
        """The store with what the networks play now."""
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
        # all of them have moved a little; where payoffs cost nothing they are looked up anew
        moved = np.asarray(store.active) if config.payoffs == "exact" else fresh
        return pupil, generate(pupil, store), moved, distil_cost(learning, metrics, rounds)

    return Keeping(first, add, lots=2)


# --- the method


def jpsro_solver(game: Game, config: JpsroConfig) -> Solver:
    """Joint PSRO, or with NeuplJpsroConfig its form with one network per population. Its step runs in Python."""
    config = config.for_game(game)
    exact = config.oracle == "exact"
    if exact:  # of tables, and so are what is distilled from them
        config = config.replace(policy="tabular")
    oracle, least = make_oracle(game, config, ties=config.ties), config.min_gain if exact else 0.0
    respond = joint_responses(game, config, oracle)
    keeping = keep_in_network(game, config) if isinstance(config, NeuplJpsroConfig) else STORED
    players = num_players(game)

    def play_of(store: Store, joint: Array) -> JointPlay:
        slots = tuple(range(players))
        return JointPlay(oracle.population(store.params), store.active, pad_slots(joint, store.capacity, slots))

    def first(key: Array) -> JpsroState:
        key_first, key_keep = jax.random.split(key)
        store = Store.create(stack_slots(oracle.policy(oracle.first(key_first))), config.capacity)
        memory, store = keeping.first(key_keep, store)
        table, sigma = new_table(game, config.capacity), store.active.astype(jnp.float32)
        joint = jnp.zeros(table.episodes.shape).at[(0,) * players].set(1.0)
        return new_state(JpsroState, game, config, sigma, store=store, memory=memory, table=table, joint=joint)

    def iterate(state: JpsroState, key: Array, rounds: int) -> tuple[JpsroState, Iteration]:
        key_respond, key_keep, key_fill = jax.random.split(key, 3)
        each = max(rounds // keeping.lots, 1)
        response = respond(key_respond, play_of(state.store, state.joint), each)
        keep = response.gain > least if least else np.ones(num_populations(game), bool)
        wide = state.store.widen(int(keep.any()))
        memory, store, fresh, spent = keeping.add(
            key_keep, state.memory, *wide.append(response.params, keep), play_of(wide, state.joint), each
        )
        active, policies = np.asarray(store.active), oracle.population(store.params)
        if int(state.step) == 0:  # the first policies have not met yet
            fresh = active
        table, measured = fill(key_fill, game, config, state.table, policies, active, fresh)
        payoffs, everyone = meta_game(game, table, store.active)
        joint = solve_joint(config.meta_solver, payoffs, everyone)
        sigma = own_marginals(game, joint)
        return state.replace(store=store, memory=memory, table=table, joint=joint, sigma=sigma), Iteration(
            response.cost.plus(spent, measured),
            keeping.lots * each,
            store.active,
            parameters=(store.params, memory),
            payoffs=table,
            meta=(joint, sigma, store.active),
            gap=cce_gap(payoffs, joint, everyone),
        )

    solver = family_solver(config, first, iterate, oracle.profile)
    known = walkable(game) and players == game.num_seats
    return add_joint_gap(solver, game, oracle) if known else solver


def add_joint_gap(solver: Solver, game: Game, oracle: Oracle) -> Solver:
    """Adds how far mu is from a CCE of the whole game to the metrics of Joint PSRO. For enumerable games."""

    def step(state: JpsroState, key: Array) -> tuple[JpsroState, JointMetrics]:
        after, metrics = solver.step(state, key)
        play = JointPlay(oracle.population(after.store.params), after.store.active, after.joint)
        gap = np.maximum(joint_gains(game, play)[1], 0.0).sum()
        return after, JointMetrics(**vars(metrics), joint_cce_gap=jnp.float32(gap))

    return solver._replace(step=step, columns=metric_columns(JointMetrics))
