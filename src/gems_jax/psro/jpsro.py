"""Joint PSRO: populations of any number of players, and a coarse correlated equilibrium (CCE) between them.

The meta-game's solution is a joint distribution mu over profiles; everybody's newcomer is a best response to what the
others do together under mu (`psro/joint.py`). Where no response gains anything mu is a CCE of the whole game.

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
is from a CCE of the whole game, on games that can be walked. With exact responses populations stop growing there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.config import ABOVE_ZERO, NON_NEGATIVE, choice, real, size, widths
from gems_jax.extensive.tree import walkable
from gems_jax.learning.networks import policy_network
from gems_jax.meta.cce import cce_gap
from gems_jax.meta.simplex import masked_uniform
from gems_jax.policies.networks import Hypernetwork
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.budget import Pace, new_pace, rounds_of, settle
from gems_jax.psro.cost import Cost, ExplicitMetrics, explicit_metrics
from gems_jax.psro.distil import distil, distil_cost, new_pupil, policy_of
from gems_jax.psro.joint import (
    JointPlay,
    exact_joint_oracle,
    joint_gains,
    learned_joint_oracle,
    opponents_of,
    own_marginals,
    solve_joint,
)
from gems_jax.psro.payoffs import PayoffTable, fill, meta_game, new_table, widen_table
from gems_jax.psro.ppo import Student, ppo_oracle
from gems_jax.psro.responses import Response, exact, exact_oracle
from gems_jax.psro.settings import ExplicitSettings, learning_of
from gems_jax.psro.store import Store, append, chosen_mixture, new_store, pad_slots, room, running_mean, widen
from gems_jax.types import Array, Game, Profile, PyTree, Solver, Struct, nbytes, num_players, num_populations


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


class JpsroState(Struct):
    store: Store
    memory: PyTree  # what else the policies are kept in
    table: PayoffTable
    joint: Array  # [K, ..., K], mu
    sigma_average: Array  # [P, K], of mu's marginals, over the iterations so far
    pace: Pace
    step: Array  # [] int32


class JointMetrics(ExplicitMetrics):
    """The same on games that can be walked."""

    joint_cce_gap: Array  # [] float32, what players gain by any deviation from mu, in the whole game


class Keeping(NamedTuple):
    """How newcomers are kept."""

    first: Callable[[Array, Store], tuple[PyTree, Store]]  # (key, store) -> what is kept besides, and the store
    add: Callable[[Array, PyTree, Store, Response, np.ndarray, JointPlay, int], tuple[PyTree, Store, np.ndarray, Cost]]
    lots: int = 1  # lots of learning per iteration, the newcomers' own included


STORED = Keeping(
    first=lambda key, store: ((), store),
    add=lambda key, memory, store, response, keep, play, rounds: (
        memory, *append(store, response.params, keep), Cost(),
    ),
)  # fmt: skip


def distilled(game: Game, config: NeuplJpsroConfig) -> Keeping:
    """All policies of a population in one network, which a code of each makes into it. config: settled for the game."""
    learning = learning_of(config, game)
    generator = Hypernetwork(policy_network(game, learning), config.code_size, config.generator_widths)

    def codes(slots: int) -> Array:
        each = jax.vmap(lambda slot: jax.random.fold_in(jax.random.key(0), slot))(jnp.arange(slots))
        return jax.vmap(lambda key: jax.random.normal(key, (config.code_size,)))(each)

    @jax.jit
    def generated(student: Student, store: Store) -> Store:
        """The store with what the networks play now."""
        per_code = jax.vmap(lambda params, code: policy_of(generator, params, code), in_axes=(None, 0))
        params = jax.vmap(per_code, in_axes=(0, None))(student.params["policy"], codes(store.capacity))
        return Store(params, store.active)

    def first(key: Array, store: Store) -> tuple[Student, Store]:
        keys = jax.random.split(key, num_populations(game))
        student = new_pupil(jax.vmap(generator.init)(keys), learning)
        return student, generated(student, store)

    def add(
        key: Array, student: Student, store: Store, response: Response, keep: np.ndarray, play: JointPlay, rounds: int
    ) -> tuple[Student, Store, np.ndarray, Cost]:
        key_draw, key_learn = jax.random.split(key)
        (teachers, fresh), apply = append(store, response.params, keep), play.policies.apply
        weights = (jax.vmap(masked_uniform)(jnp.asarray(fresh)) + jax.vmap(masked_uniform)(store.active)) / 2
        met = opponents_of(key_draw, game, play, config.profiles)
        pupil, metrics = distil(
            key_learn, game, learning, jnp.int32(rounds), StackedPolicies(teachers.params, apply), weights,
            codes(store.capacity), met.policies, met.sigma, new_pupil(student.params["policy"], learning),
            config.distil_rate, generator=generator, groups=config.distil_policies,
        )  # fmt: skip
        # all of them have moved a little; where payoffs cost nothing they are looked up anew
        moved = np.asarray(teachers.active) if config.payoffs == "exact" else fresh
        return pupil, generated(pupil, teachers), moved, distil_cost(learning, metrics, rounds)

    return Keeping(first, add, lots=2)


def jpsro_solver(game: Game, config: JpsroConfig) -> Solver:
    """Joint PSRO, or with NeuplJpsroConfig its form with one network per population. Its step runs in Python."""
    config = config.for_game(game)
    if config.oracle == "exact":  # of tables, and so are what is distilled from them
        config = config.replace(policy="tabular")
        oracle, respond = exact(game, exact_oracle(game, config.ties)), exact_joint_oracle(game, config.ties)
    else:
        oracle = ppo_oracle(game, learning_of(config, game))
        respond = learned_joint_oracle(game, oracle, config.profiles)
    keeping = distilled(game, config) if isinstance(config, NeuplJpsroConfig) else STORED
    least = config.min_gain if config.oracle == "exact" else 0.0
    players = num_players(game)
    known = walkable(game) and players == game.num_seats

    def play_of(state: JpsroState) -> JointPlay:
        return JointPlay(StackedPolicies(state.store.params, oracle.network), state.store.active, state.joint)

    def init(key: Array) -> JpsroState:
        key_first, key_keep = jax.random.split(key)
        one = jax.tree.map(lambda leaf: leaf[:, None], oracle.policy(oracle.first(key_first)))
        memory, store = keeping.first(key_keep, new_store(one, config.capacity))
        table = new_table(game, config.capacity)
        joint = jnp.zeros(table.episodes.shape).at[(0,) * players].set(1.0)
        sigma = store.active.astype(jnp.float32)
        return JpsroState(store, memory, table, joint, sigma, new_pace(game, config), jnp.int32(0))

    def step(state: JpsroState, key: Array) -> tuple[JpsroState, ExplicitMetrics]:
        key_respond, key_keep, key_fill = jax.random.split(key, 3)
        before, rounds = int(state.step), max(int(rounds_of(state.pace, config)) // keeping.lots, 1)
        response = respond(key_respond, play_of(state), rounds)
        keep = response.gain > least if least else np.ones(num_populations(game), bool)
        wide = _widened(state, room(state.store, int(keep.any())))
        memory, store, fresh, cost = keeping.add(
            key_keep, wide.memory, wide.store, response, keep, play_of(wide), rounds
        )
        if before == 0:  # the first policies have not met yet
            fresh = fresh | np.asarray(wide.store.active)
        policies, active = StackedPolicies(store.params, oracle.network), np.asarray(store.active)
        table, measured = fill(key_fill, game, config, wide.table, policies, active, fresh)
        payoffs, everyone = meta_game(game, table, store.active)
        joint = solve_joint(config.meta_solver, payoffs, everyone)
        average = running_mean(wide.sigma_average, own_marginals(game, joint), before)
        cost = cost.plus(response.cost).plus(measured)
        metrics = explicit_metrics(
            cost,
            store.active,
            parameter_bytes=nbytes((store.params, memory)),
            payoff_bytes=nbytes(table),
            meta_bytes=nbytes((joint, average, store.active)),
            restricted_gap=cce_gap(payoffs, joint, everyone),
        )
        pace = settle(state.pace, config, keeping.lots * rounds, cost.training_steps, cost.env_steps)
        after = JpsroState(store, memory, table, joint, average, pace, state.step + 1)
        if known:
            gap = np.maximum(joint_gains(game, play_of(after))[1], 0.0).sum()
            metrics = JointMetrics(**vars(metrics), joint_cce_gap=jnp.float32(gap))
        return after, metrics

    def profile(state: JpsroState, which: str = "iterate") -> Profile:
        sigma = chosen_mixture(which, own_marginals(game, state.joint), state.sigma_average)
        return Profile(StackedPolicies(state.store.params, oracle.network), sigma)

    return Solver(init, step, profile, jittable=False)


def _widened(state: JpsroState, capacity: int) -> JpsroState:
    if capacity == state.store.capacity:
        return state
    return state.replace(
        store=widen(state.store, capacity),
        table=widen_table(state.table, capacity),
        joint=pad_slots(state.joint, capacity, tuple(range(state.joint.ndim))),
        sigma_average=pad_slots(state.sigma_average, capacity, (1,)),
    )
