"""Policy-space response oracles, and the methods that are settings of it.

An iteration gives every population a best response to the others' mixture, fills in the new row and column of the
payoff table, and solves the meta-game again:

    psro            Nash (regret matching+) or PRD, ordinary responses                         (Lanctot et al. 2017)
    double_oracle   Nash by linear program, exact responses and payoffs, stops growing at equilibrium
    alpha_psro      alpha-Rank; ordinary responses, as most implementations do. The preference-based response of
                    Muller et al. 2020 is not implemented                                       (Muller et al. 2020)
    a_psro          responses by advantage (`psro/advantage.py`), a reconstruction               (Hu et al. 2023)
    fusion_psro     learned responses start from the mixture's average network                     (Lian et al. 2024)

Where learned responses start, and whether they meet the mixture or one opponent, are settings of all of them
(`psro/warm_start.py`); exact responses start nowhere.

Responses are exact, or learned (`psro/ppo.py`), which the same settings then mean: a double oracle that learns is
PSRO with a linear program, and adds all that it learned.

The profile is the meta-solver's mixture after the newcomers came in. alpha-Rank's marginals are not an equilibrium.
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.config import NON_NEGATIVE, choice, real, size
from gems_jax.meta import NASH_TOLERANCE
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.advantage import AdvantageSettings, lookahead_oracle
from gems_jax.psro.budget import Pace, new_pace, rounds_of, settle
from gems_jax.psro.cost import ExplicitMetrics, explicit_metrics
from gems_jax.psro.payoffs import PayoffTable, fill, new_table, solve_meta_game, widen_table
from gems_jax.psro.ppo import ppo_oracle
from gems_jax.psro.responses import Mixture, Respond, exact, exact_oracle
from gems_jax.psro.settings import learning_of
from gems_jax.psro.store import Store, append, chosen_mixture, new_store, pad_slots, room, running_mean, widen
from gems_jax.psro.warm_start import single_opponent, warm_oracle
from gems_jax.types import Array, Game, Profile, Solver, Struct, nbytes, num_populations


class PsroConfig(AdvantageSettings):
    """Settings of PSRO and of the methods that are settings of it."""

    capacity: int = size(8)
    """Policies per population that there is room for at first; doubled whenever that is full."""
    meta_solver: Literal[
        "nash", "nash_lp", "prd", "uniform", "last_k", "self_play", "alpha_rank", "cce", "omwu", "mwu"
    ] = choice("nash")
    """How the meta-game is solved: see gems_jax.META_SOLVERS."""
    meta_tolerance: float = real(NASH_TOLERANCE, NON_NEGATIVE)
    """Gap at which the meta-solver "nash" stops, as a fraction of the largest payoff (the others do not stop early)."""
    ties: Literal["robust", "random", "novel", "lowest"] = choice("robust")
    """Exact responses that tie: how one is chosen (see psro/responses.py)."""
    start: Literal["fresh", "newest", "fusion", "transfer"] = choice("fresh")
    """Where a learned response starts (see psro/warm_start.py)."""
    target: Literal["mixture", "newest"] = choice("mixture")
    """Whom responses answer: the others' mixture, or their newest policies (single-opponent best response)."""
    min_gain: float = real(0.0, NON_NEGATIVE)
    """Exact newcomers that gain no more than this over the mixture are not added; 0 adds all."""


DOUBLE_ORACLE = PsroConfig(meta_solver="nash_lp", min_gain=1e-6)
ALPHA_PSRO = PsroConfig(meta_solver="alpha_rank")
A_PSRO = PsroConfig(meta_solver="nash_lp", ordinary=0.5)
FUSION_PSRO = PsroConfig(start="fusion")


class PsroState(Struct):
    store: Store
    table: PayoffTable
    sigma: Array  # [P, K]
    sigma_average: Array  # [P, K], over the iterations so far
    pace: Pace
    step: Array  # [] int32


def psro_solver(game: Game, config: PsroConfig, respond: Respond | None = None) -> Solver:
    """PSRO with any responses of tabular policies; without such, those of the config. Its step runs in Python."""
    config = config.for_game(game)
    if respond is not None or config.oracle == "exact":
        oracle = exact(game, respond or exact_oracle(game, config.ties))
    else:
        oracle = ppo_oracle(game, learning_of(config, game))
        oracle = oracle if config.start == "fresh" else warm_oracle(oracle, config.start)
    if config.target == "newest":
        oracle = single_opponent(oracle)
    if config.ordinary < 1:
        oracle = lookahead_oracle(game, config, oracle)
    least = config.min_gain if config.oracle == "exact" else 0.0

    def policies(store: Store) -> StackedPolicies:
        return StackedPolicies(store.params, oracle.network)

    def init(key: Array) -> PsroState:
        one = oracle.policy(oracle.first(key))
        store = new_store(jax.tree.map(lambda leaf: leaf[:, None], one), config.capacity)
        sigma, table = store.active.astype(jnp.float32), new_table(game, config.capacity)
        return PsroState(store, table, sigma, sigma, new_pace(game, config), jnp.int32(0))

    def step(state: PsroState, key: Array) -> tuple[PsroState, ExplicitMetrics]:
        key_respond, key_fill = jax.random.split(key)
        before, rounds = int(state.step), int(rounds_of(state.pace, config))
        mixture = Mixture(policies(state.store), state.store.active, state.sigma, state.table)
        response = oracle.respond(key_respond, mixture, rounds=rounds)
        keep = response.gain > least if least else np.ones(num_populations(game), bool)
        wide = _widened(state, room(state.store, int(keep.any())))
        store, fresh = append(wide.store, response.params, keep)
        if before == 0:  # the first policies have not met yet
            fresh = fresh | np.asarray(wide.store.active)
        table, cost = fill(key_fill, game, config, wide.table, policies(store), np.asarray(store.active), fresh)
        sigma, gap = solve_meta_game(
            game, config.meta_solver, table, store.active, config.meta_tolerance, start=wide.sigma
        )
        average, cost = running_mean(wide.sigma_average, sigma, before), cost.plus(response.cost)
        metrics = explicit_metrics(
            cost,
            store.active,
            parameter_bytes=nbytes(store.params),
            payoff_bytes=nbytes(table),
            meta_bytes=nbytes((sigma, average, store.active)),
            restricted_gap=gap,
        )
        pace = settle(state.pace, config, rounds, cost.training_steps, cost.env_steps)
        return PsroState(store, table, sigma, average, pace, state.step + 1), metrics

    def profile(state: PsroState, which: str = "iterate") -> Profile:
        return Profile(policies(state.store), chosen_mixture(which, state.sigma, state.sigma_average))

    return Solver(init, step, profile, jittable=False)


def _widened(state: PsroState, capacity: int) -> PsroState:
    if capacity == state.store.capacity:
        return state
    sigma, average = (pad_slots(mixture, capacity, (1,)) for mixture in (state.sigma, state.sigma_average))
    return state.replace(
        store=widen(state.store, capacity),
        table=widen_table(state.table, capacity),
        sigma=sigma,
        sigma_average=average,
    )
