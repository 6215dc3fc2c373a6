"""Policy-space response oracles, and the methods that are settings of it.

An iteration gives every population a best response to the others' mixture, fills in the new row and column of the
payoff table, and solves the meta-game again:

    psro            Nash (regret matching+) or PRD, ordinary responses                         (Lanctot et al. 2017)
    double_oracle   Nash by linear program, exact responses and payoffs, stops growing at equilibrium
    alpha_psro      alpha-Rank; ordinary responses, as most implementations do. The preference-based response of
                    Muller et al. 2020 is not implemented                                       (Muller et al. 2020)
    a_psro          responses by advantage (`lookahead_oracle`), a reconstruction from public notes  (Hu et al. 2023)

The profile is the meta-solver's mixture after the newcomers came in. alpha-Rank's marginals are not an equilibrium.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.config import NON_NEGATIVE, SHARE, Settings, choice, real, size
from gems_jax.evaluate.infosets import infoset_policy, tables_of, tabular_policies
from gems_jax.evaluate.tabular import (
    GameTree,
    best_response_values,
    build_tree,
    mixture_to_behaviour,
    tied_actions,
    uniform_table,
)
from gems_jax.explicit.cost import Cost, ExplicitMetrics, explicit_metrics
from gems_jax.explicit.payoffs import (
    PayoffTable,
    fill_exact,
    fill_sampled,
    new_table,
    solve_meta_game,
    widen_table,
)
from gems_jax.explicit.responses import Mixture, Oracle, Response, exact_oracle, policy_params
from gems_jax.explicit.store import (
    Store,
    append,
    chosen_mixture,
    nbytes,
    new_store,
    pad_slots,
    room,
    running_mean,
    widen,
)
from gems_jax.population import StackedPolicies
from gems_jax.types import Array, Game, Profile, PyTree, Solver, num_players, num_populations, struct


@struct
class PsroConfig(Settings):
    """Settings of PSRO and of the methods that are settings of it."""

    iterations: int = size(40)
    """Iterations that an experiment runs by default."""
    capacity: int = size(8)
    """Policies per population that there is room for at first; doubled whenever that is full."""
    meta_solver: Literal[
        "nash", "nash_lp", "prd", "uniform", "last_k", "self_play", "alpha_rank", "cce", "omwu", "mwu"
    ] = choice("nash")
    """How the meta-game is solved: see gems_jax.META_SOLVERS."""
    oracle: Literal["exact"] = choice("exact")
    """Who answers the mixture: exact best responses, for enumerable games."""
    ties: Literal["robust", "random", "novel", "lowest"] = choice("robust")
    """Exact responses that tie: how one is chosen (see explicit/responses.py)."""
    payoffs: Literal["exact", "episodes"] = choice("exact")
    """Entries of the payoff table: from the tree, or measured."""
    entry_episodes: int = size(1000)
    """Episodes per measured entry."""
    min_gain: float = real(0.0, NON_NEGATIVE)
    """Newcomers that gain no more than this over the mixture are not added; 0 adds all."""

    # --- advantage (A-PSRO)
    ordinary: float = real(1.0, SHARE)
    """How often the response is an ordinary one instead of the one with the best advantage ahead."""
    candidates: int = size(64)
    """Directions that are looked at: best responses to random mixtures of the opponents."""
    lookahead_steps: int = size(10)
    """Steps that are tried towards each of them, up to `lookahead_rate`."""
    lookahead_rate: float = real(0.5, SHARE)
    """The longest step, as a share of the new direction in the mixture."""
    acceptance: float = real(0.01, NON_NEGATIVE)
    """Gain in advantage below which the ordinary response is taken after all."""


DOUBLE_ORACLE = PsroConfig(meta_solver="nash_lp", min_gain=1e-6)
ALPHA_PSRO = PsroConfig(meta_solver="alpha_rank")
A_PSRO = PsroConfig(meta_solver="nash_lp", ordinary=0.5)


@struct
class PsroState:
    store: Store
    table: PayoffTable
    sigma: Array  # [P, K]
    sigma_average: Array  # [P, K], over the iterations so far
    step: Array  # [] int32


def psro_solver(game: Game, config: PsroConfig, oracle: Oracle | None = None) -> Solver:
    """PSRO with any response oracle; without one, that of the config. Its step runs in Python."""
    network = infoset_policy(game)
    respond = oracle or exact_oracle(game, config.ties)
    if config.ordinary < 1:
        respond = lookahead_oracle(game, config, respond)

    def policies(store: Store) -> StackedPolicies:
        return StackedPolicies(store.params, network)

    def init(key: Array) -> PsroState:
        del key  # one uniform policy each
        tree = build_tree(game)
        uniform = jnp.broadcast_to(uniform_table(tree), (tree.num_populations, 1, *tree.legal.shape))
        store = new_store(tabular_policies(game, uniform).params, config.capacity)
        sigma = store.active.astype(jnp.float32)
        return PsroState(store, new_table(game, config.capacity), sigma, sigma, jnp.int32(0))

    def fill(key: Array, table: PayoffTable, store: Store, fresh: np.ndarray) -> tuple[PayoffTable, Cost]:
        active = np.asarray(store.active)
        if config.payoffs == "exact":
            return fill_exact(game, table, policies(store), active, fresh)
        return fill_sampled(key, game, table, policies(store), active, fresh, config.entry_episodes)

    def step(state: PsroState, key: Array) -> tuple[PsroState, ExplicitMetrics]:
        key_respond, key_fill = jax.random.split(key)
        before = int(state.step)
        response = respond(key_respond, Mixture(policies(state.store), state.store.active, state.sigma))
        keep = response.gain > config.min_gain if config.min_gain else np.ones(num_populations(game), bool)
        wide = _widened(state, room(state.store, int(keep.any())))
        store, fresh = append(wide.store, response.params, keep)
        if before == 0:  # the first policies have not met yet
            fresh = fresh | np.asarray(wide.store.active)
        table, cost = fill(key_fill, wide.table, store, fresh)
        sigma, gap = solve_meta_game(game, config.meta_solver, table, store.active)
        average = running_mean(wide.sigma_average, sigma, before)
        metrics = explicit_metrics(
            cost.plus(response.cost),
            store.active,
            parameter_bytes=nbytes(store.params),
            payoff_bytes=nbytes(table),
            meta_bytes=nbytes((sigma, average, store.active)),
            restricted_gap=gap,
        )
        return PsroState(store, table, sigma, average, state.step + 1), metrics

    def profile(state: PsroState, which: str = "iterate") -> Profile:
        return Profile(policies(state.store), chosen_mixture(which, state.sigma, state.sigma_average))

    return Solver(init, step, profile, jittable=False)


def _widened(state: PsroState, capacity: int) -> PsroState:
    if capacity == state.store.capacity:
        return state
    sigma, average = (pad_slots(mixture, capacity, (1,)) for mixture in (state.sigma, state.sigma_average))
    return PsroState(widen(state.store, capacity), widen_table(state.table, capacity), sigma, average, state.step)


def advantage(tree: GameTree, theta: Array, direction: Array, share: Array) -> Array:
    """V_p(pi) = min over the opponent's replies of u_p(pi, reply), [P], of a two-player zero-sum game.

    pi plays theta [P, I, A], or with probability `share` its direction [P, I, A], drawn once per game.
    """
    weights = jnp.broadcast_to(jnp.stack([1.0 - share, share]), (tree.num_populations, 2))
    replies = best_response_values(tree, jnp.stack([theta, direction], axis=1), weights)  # to the other player
    return -replies[::-1] if tree.num_populations == 2 else -replies.mean(keepdims=True)


def lookahead_oracle(game: Game, config: PsroConfig, ordinary: Oracle) -> Oracle:
    """Responses by advantage V (A-PSRO).

    From the mixture theta the direction Delta and the step l with the highest V((1 - l) theta + l Delta) are looked
    for, and Delta joins the population, which then holds that mixture among others; where V rises by less than
    `acceptance`, and with probability `ordinary`, it is the ordinary response. The original is for normal-form games
    and scans all pure strategies; here the directions are best responses to random mixtures of the opponents, and V is
    exact. Without a population to fall back on such steps stall, as V is piecewise linear.
    """
    if num_players(game) != 2 or not game.zero_sum:
        raise ValueError(f"look-ahead by advantage is for two-player zero-sum games: {game.name!r} is not one")
    tree = build_tree(game)

    def replies(tables: Array, sigma: Array) -> Array:
        """Best responses [I, A] of all seats to the mixture: the lowest action of those that tie."""
        return jax.nn.one_hot(jnp.argmax(tied_actions(tree, tables, sigma), axis=1), tree.num_actions)

    @jax.jit
    def look_ahead(key: Array, tables: Array, active: Array, sigma: Array) -> tuple[Array, Array]:
        """The best direction of every population [P, I, A], and by how much the advantage rises towards it [P]."""
        draws = jax.random.gamma(key, 0.5, (config.candidates, *sigma.shape)) * active[None]
        mixtures = draws / jnp.maximum(draws.sum(axis=2, keepdims=True), 1e-30)
        found = jax.vmap(replies, in_axes=(None, 0))(tables, mixtures)  # [C, I, A]
        theta = jax.vmap(mixture_to_behaviour, in_axes=(None, 0, 0))(tree, tables, sigma)
        shares = config.lookahead_rate * jnp.arange(1, config.lookahead_steps + 1) / config.lookahead_steps
        each = jnp.broadcast_to(found[:, None], (config.candidates, *theta.shape))
        over_shares = jax.vmap(partial(advantage, tree), in_axes=(None, None, 0))
        best = jax.vmap(over_shares, in_axes=(None, 0, None))(theta, each, shares).max(axis=1)  # [C, P]
        return found[best.argmax(axis=0)], best.max(axis=0) - advantage(tree, theta, theta, jnp.float32(0.0))

    def respond(key: Array, mixture: Mixture, start: PyTree = None) -> Response:
        key_ordinary, key_coin, key_look = jax.random.split(key, 3)
        response = ordinary(key_ordinary, mixture, start)
        tables = tables_of(game, mixture.policies)
        directions, rise = look_ahead(key_look, tables, mixture.active, mixture.sigma)
        ahead = (jax.random.uniform(key_coin, rise.shape) >= config.ordinary) & (rise >= config.acceptance)
        params = policy_params(game, directions)
        chosen = jnp.where(ahead[:, None, None], params, response.params)
        walks = config.candidates * (1 + config.lookahead_steps)
        return response._replace(params=chosen, cost=response.cost.plus(Cost(tree_walks=walks * tree.num_players)))

    return respond
