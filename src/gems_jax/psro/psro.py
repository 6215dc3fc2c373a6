"""Policy-space response oracles (PSRO), and the methods that are special cases of it.

An iteration adds to every population a best response to the others' mixture, fills in the new row and column of the
payoff table, and solves the meta-game again:

    psro            Nash (regret matching+) or PRD, ordinary responses                         (Lanctot et al. 2017)
    double_oracle   Nash by linear program, exact responses and payoffs, stops growing at equilibrium
    alpha_psro      alpha-Rank; ordinary responses, as most implementations do. The preference-based response of
                    Muller et al. 2020 is not implemented                                       (Muller et al. 2020)
    a_psro          responses by advantage (`psro/oracle_variants.py`), a reconstruction               (Hu et al. 2023)
    fusion_psro     learned responses start from the mixture's average network                     (Lian et al. 2024)

The start of learned responses, and whether they meet the mixture or one opponent, are settings of all of them
(`psro/oracle_variants.py`); exact responses have no start.

Responses are exact or learned (`psro/ppo.py`). A double oracle with learned responses is PSRO with a linear program,
and adds all responses.

The profile is the meta-solver's mixture that includes the newcomers. alpha-Rank's marginals are not an equilibrium.
"""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.config import NON_NEGATIVE, choice, real, size
from gems_jax.meta import NASH_TOLERANCE
from gems_jax.psro.base import Iteration, Store, StoreState, family_solver, new_state, pad_slots, stack_slots
from gems_jax.psro.oracle_variants import AdvantageSettings, lookahead_oracle, single_opponent_oracle, warm_oracle
from gems_jax.psro.payoffs import PayoffTable, fill, new_table, solve_payoffs
from gems_jax.psro.ppo import make_oracle
from gems_jax.psro.responses import Mixture, Oracle, Respond
from gems_jax.types import Array, Game, Solver, num_populations


class PsroConfig(AdvantageSettings):
    """Settings of PSRO and of its special cases."""

    capacity: int = size(8)
    """Initial number of slots per population; doubled whenever they are full."""
    meta_solver: Literal[
        "nash", "nash_lp", "prd", "uniform", "last_k", "self_play", "alpha_rank", "cce", "omwu", "mwu"
    ] = choice("nash")
    """Solver of the meta-game (see gems_jax.META_SOLVERS)."""
    meta_tolerance: float = real(NASH_TOLERANCE, NON_NEGATIVE)
    """Gap at which the meta-solver nash stops, as a fraction of the largest payoff."""
    ties: Literal["robust", "random", "novel", "lowest"] = choice("robust")
    """Tie-breaking rule of exact responses (see psro/responses.py)."""
    start: Literal["fresh", "newest", "fusion", "transfer"] = choice("fresh")
    """Initial parameters of a learned response (see psro/oracle_variants.py)."""
    target: Literal["mixture", "newest"] = choice("mixture")
    """Opponents of a response: the others' mixture, or their newest policies."""
    min_gain: float = real(0.0, NON_NEGATIVE)
    """Gain over the mixture that an exact newcomer must exceed to be added (0: add all)."""


DOUBLE_ORACLE = PsroConfig(meta_solver="nash_lp", min_gain=1e-6)
ALPHA_PSRO = PsroConfig(meta_solver="alpha_rank")
A_PSRO = PsroConfig(meta_solver="nash_lp", ordinary=0.5)
FUSION_PSRO = PsroConfig(start="fusion")


class PopulationState(StoreState):
    """Stored policies and their payoffs."""

    table: PayoffTable


def _response_oracle(game: Game, config: PsroConfig, respond: Respond | None) -> Oracle:
    oracle = make_oracle(game, config, respond, config.ties)
    if config.oracle == "ppo" and respond is None:
        oracle = warm_oracle(oracle, config.start)
    if config.target == "newest":
        oracle = single_opponent_oracle(oracle)
    return oracle if config.ordinary >= 1 else lookahead_oracle(game, config, oracle)


def psro_solver(game: Game, config: PsroConfig, respond: Respond | None = None) -> Solver:
    """Makes the solver of PSRO. Its step runs in Python.

    Args:
      game: the game.
      config: settings.
      respond: responses of tabular policies; None for those of the config.
    """
    config = config.for_game(game)
    oracle = _response_oracle(game, config, respond)
    least = config.min_gain if config.oracle == "exact" else 0.0

    def first(key: Array) -> PopulationState:
        store = Store.create(stack_slots(oracle.policy(oracle.first(key))), config.capacity)
        table, sigma = new_table(game, config.capacity), store.active.astype(jnp.float32)
        return new_state(PopulationState, game, config, sigma, store=store, table=table)

    def iterate(state: PopulationState, key: Array, rounds: int) -> tuple[PopulationState, Iteration]:
        key_respond, key_fill = jax.random.split(key)
        mixture = Mixture(oracle.population(state.store.params), state.store.active, state.sigma, state.table)
        response = oracle.respond(key_respond, mixture, rounds=rounds)
        keep = response.gain > least if least else np.ones(num_populations(game), bool)
        store, fresh = state.store.widen(int(keep.any())).append(response.params, keep)
        if int(state.step) == 0:  # the first policies have no payoffs yet
            fresh = np.asarray(store.active)
        table, cost = fill(
            key_fill, game, config, state.table, oracle.population(store.params), np.asarray(store.active), fresh
        )
        start = pad_slots(state.sigma, store.capacity, (1,))
        sigma, gap = solve_payoffs(game, config.meta_solver, table, store.active, config.meta_tolerance, start)
        after = state.replace(store=store, table=table, sigma=sigma)
        return after, after.finish(cost.plus(response.cost), rounds, payoffs=table, gap=gap)

    return family_solver(config, first, iterate, oracle.profile)
