"""Neural population learning (NeuPL): a fixed number of policies, all of them best responses in training at once.

N slots play a symmetric zero-sum game. Row i of the *interaction graph* Sigma [N, N] is the mixture that slot i trains
against, over the slots before it, and the graph is solved again from current payoffs U as the slots move:

    psro         Sigma[0] = 0,  Sigma[i, :i] = Nash(U[:i, :i])
    fictitious   Sigma[i, :i] = 1 / i
    self_play    Sigma[i] = 1 / N, with itself
    cycle        Sigma[i, i - 1] = 1 (slot 0 against the last)

A policy is conditioned on its row, not on its number: slots with equal rows are one policy, and only different rows
are trained. A row of zeros is the sink, the initial policy, never trained. The profile is the Nash mixture of all
slots. Games with two seats are made symmetric by letting the policies play either.                 (Liu et al. 2022)

Here with exact learners, for enumerable games: a slot is a table that moves a share `rate` towards an exact best
response in every update, and U is exact. The original trains one network on all rows by reinforcement learning; the
population size, when to solve the graph and how slots move are this project's choices.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.config import CONFIDENCE, Settings, choice, real, size
from gems_jax.evaluate.infosets import infoset_policy
from gems_jax.evaluate.tabular import GameTree, build_tree, tied_actions, uniform_table
from gems_jax.explicit.cost import Cost, ExplicitMetrics, explicit_metrics
from gems_jax.explicit.payoffs import PayoffTable, exact_payoffs, solve_levels
from gems_jax.explicit.responses import policy_params, towards
from gems_jax.explicit.store import chosen_mixture, nbytes, running_mean
from gems_jax.explicit.symmetric import for_everyone, one_population
from gems_jax.population import StackedPolicies
from gems_jax.types import Array, Game, Profile, Solver, num_players, struct

_EQUAL = 1e-5  # rows of the graph that differ by no more are the same
# No slot ever stops doing something altogether, as no network with a softmax does. So a best response is one to
# opponents that may get anywhere, and does not hang on how ties go where nobody ever gets.
_TREMBLE = 1e-6


@struct
class NeuplConfig(Settings):
    """Settings of NeuPL."""

    iterations: int = size(40)
    """Iterations that an experiment runs by default."""
    slots: int = size(12)
    """N, policies in the population (the original has 8, too few for Kuhn poker)."""
    updates: int = size(10)
    """Updates of all slots per iteration."""
    graph_period: int = size(10)
    """Updates between two solutions of the interaction graph."""
    graph: Literal["psro", "fictitious", "self_play", "cycle"] = choice("psro")
    """Who trains against whom."""
    meta_solver: Literal["nash_lp", "nash"] = choice("nash_lp")
    """How the meta-games of the graph and of the profile are solved."""
    rate: float = real(0.2, CONFIDENCE)
    """How far an update moves a slot towards its best response (exact learners)."""


@struct
class NeuplState:
    slots: Array  # [N, I, A], what each slot plays
    graph: Array  # [N, N], who it trains against
    payoffs: Array  # [N, N], U: what slot i earns from slot j, either seat
    sigma: Array  # [N]
    sigma_average: Array  # [N], over the iterations so far
    step: Array  # [] int32


@partial(jax.jit, static_argnames="updates")
def train_slots(tree: GameTree, slots: Array, graph: Array, rate: Array, updates: int) -> Array:
    """All slots [N, I, A] `updates` moves further along a fixed graph [N, N]; equal rows end as equal policies."""
    same = jnp.all(jnp.abs(graph[:, None] - graph[None, :]) <= _EQUAL, axis=2)
    first = jnp.argmax(same, axis=1)  # the slot that a row stands for
    trained = graph.sum(axis=1) > 0.5

    def best(row: Array, slots: Array) -> Array:
        tied = tied_actions(tree, slots[None], row[None])
        return jax.nn.one_hot(jnp.argmax(tied, axis=1), tree.num_actions)

    def update(_: Array, slots: Array) -> Array:
        replies = jax.vmap(best, in_axes=(0, None))(graph, slots)
        moved = jax.vmap(lambda table, reply: towards(tree, table, reply, rate))(slots, replies)
        moved = jnp.where(tree.legal[None], jnp.maximum(moved, _TREMBLE), 0.0)
        moved = moved / moved.sum(axis=-1, keepdims=True)
        return jnp.where(trained[:, None, None], moved, slots)[first]

    return jax.lax.fori_loop(0, updates, update, slots)


def neupl_solver(game: Game, config: NeuplConfig) -> Solver:
    """NeuPL with exact learners. Two-player zero-sum games. Its step runs in Python."""
    if num_players(game) != 2 or not game.zero_sum:
        raise ValueError(f"neupl is for two-player zero-sum games: {game.name!r} is not one; use psro")
    symmetric, count = one_population(game), config.slots
    tree, network = build_tree(symmetric), infoset_policy(game)

    def symmetric_payoffs(slots: Array) -> Array:
        values = exact_payoffs(tree, (slots, slots))
        return (values[0] + values[1].T) / 2

    def nash(payoffs: Array) -> tuple[Array, Array]:
        """Row i: the mixture [N] of the first i + 1 slots, and its gap; [N, N] and [N]."""
        table = PayoffTable(jnp.stack([payoffs, payoffs.T]), jnp.zeros(payoffs.shape, jnp.int32))
        below = jnp.tril(jnp.ones((count, count), bool))
        sigma, gap = solve_levels(symmetric, config.meta_solver, table, below[:, None])
        return sigma[:, 0], gap

    def solve_graph(payoffs: Array) -> Array:
        if config.graph == "psro":
            return jnp.concatenate([jnp.zeros((1, count)), nash(payoffs)[0][:-1]])
        if config.graph == "fictitious":
            return jnp.tril(jnp.ones((count, count)), -1) / jnp.maximum(jnp.arange(count), 1)[:, None]
        if config.graph == "self_play":
            return jnp.full((count, count), 1.0 / count)
        return jnp.roll(jnp.eye(count), -1, axis=1)

    def init(key: Array) -> NeuplState:
        del key  # uniform policies
        slots = jnp.broadcast_to(uniform_table(tree), (count, *tree.legal.shape))
        sink, nothing = jnp.eye(count)[0], jnp.zeros((count, count))
        return NeuplState(slots, nothing, nothing, sink, sink, jnp.int32(0))

    def step(state: NeuplState, key: Array) -> tuple[NeuplState, ExplicitMetrics]:
        del key
        slots, graph, cost, left = state.slots, state.graph, Cost(), config.updates
        while left:
            updates = min(config.graph_period, left)
            graph = solve_graph(symmetric_payoffs(slots))
            slots = train_slots(tree, slots, graph, jnp.float32(config.rate), updates)
            cost = cost.plus(Cost(tree_walks=count * count + count * updates))
            left -= updates
        payoffs = symmetric_payoffs(slots)
        sigma, gap = (rows[-1] for rows in nash(payoffs))
        before = int(state.step)
        average = running_mean(state.sigma_average, sigma, before)
        metrics = explicit_metrics(
            cost.plus(Cost(tree_walks=count * count)),
            jnp.asarray(_different(graph))[None],
            parameter_bytes=nbytes(slots),
            payoff_bytes=nbytes(payoffs),
            meta_bytes=nbytes((graph, sigma, average)),
            restricted_gap=gap,
        )
        return NeuplState(slots, graph, payoffs, sigma, average, state.step + 1), metrics

    def profile(state: NeuplState, which: str = "iterate") -> Profile:
        params = jax.vmap(lambda table: policy_params(symmetric, table[None])[0])(state.slots)
        sigma = chosen_mixture(which, state.sigma, state.sigma_average)
        return for_everyone(game, Profile(StackedPolicies(params[None], network), sigma[None]))

    return Solver(init, step, profile, jittable=False)


def _different(graph: Array) -> np.ndarray:
    """[N] bool: slots whose row is not an earlier one's, the sizes of the population that is really there."""
    rows = np.asarray(graph)
    return np.array([not any(np.abs(rows[i] - rows[j]).max() <= _EQUAL for j in range(i)) for i in range(len(rows))])
