"""Double oracles in extensive form: best responses are mixed at every information set, not once at the beginning.

A restricted game contains, at every information set, the actions that some best response so far has taken there. An
iteration adds the best responses to the restricted game's solution, and solves the game again:

    xdo   exactly, by a linear program; or as published by regret matching on the tree, until the gap inside the
          restricted game is below a threshold, which is halved whenever the gap of the full game is below it
          (solve="threshold")                                                                  (McAleer et al. 2021)
    pdo   a fixed number of tree traversals of regret matching, whose regrets are retained (Periodic Double Oracle)
                                                                                                  (Tang et al. 2023)
    edo   *EDO-like*: thresholds, retained regrets, and new actions only at sets that the response reaches against
          the average. A reconstruction without access to the text of Huang et al. 2022

Regret matching is that of CFR+ on a tree with fewer legal actions. This project's choice for PDO and EDO: the average
restarts when actions were added, and continues otherwise.

Responses are exact, or learned by PPO: then the most likely action of a network joins at every set. The restricted game
is always solved on the tree, without episodes; learning it as well (NXDO) is not implemented. Two-player zero-sum
enumerable games.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.config import ABOVE_ZERO, choice, real, size
from gems_jax.extensive.counterfactual import behavior_from_reach, cfr_walk
from gems_jax.extensive.equilibrium import solve_sequence_form
from gems_jax.extensive.infosets import tables_of, tabular_policies
from gems_jax.extensive.sequence_form import group_by_infoset, sum_by_sequence, sweep_backward
from gems_jax.extensive.values import GameTree, build_tree, nash_conv_of_tables, reach, uniform_table
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.base import Cost, Iteration, PsroState, family_solver, new_state, stack_slots
from gems_jax.psro.ppo import make_oracle
from gems_jax.psro.responses import Mixture, infosets_of
from gems_jax.psro.settings import ExplicitSettings
from gems_jax.types import Array, Game, Profile, Solver, num_populations


class XdoConfig(ExplicitSettings):
    """Settings of the double oracles in extensive form."""

    solve: Literal["lp", "threshold", "period"] = choice("lp")
    """Solver of the restricted game: linear program, or regret matching to a threshold or for a fixed period."""
    walks: int = size(50)
    """Tree traversals per player between two checks of the threshold, or between two best responses."""
    max_walks: int = size(5000)
    """Maximum tree traversals of an iteration that does not reach its threshold."""
    keep_regrets: bool = choice(False)
    """Continue regret matching from the last restricted game instead of restarting."""
    reached_only: bool = choice(False)
    """Add actions only at information sets that the response reaches against the average."""
    threshold: float = real(16.0, ABOVE_ZERO)
    """Initial threshold of NashConv inside the restricted game, in game returns."""
    ties: Literal["robust", "random", "novel", "lowest"] = choice("robust")
    """Tie-breaking rule of exact responses (see psro/responses.py)."""


XDO = XdoConfig()
PDO = XdoConfig(solve="period", keep_regrets=True)
EDO = XdoConfig(solve="threshold", keep_regrets=True, reached_only=True)


class XdoState(PsroState):
    """Restricted game and its solution; `sigma` plays the only policy."""

    allowed: Array  # [I, A] bool, the actions of the restricted game; none before the first responses
    regrets: Array  # [I, A]
    average: Array  # [I, A], mean reach of sequences, which is played
    threshold: Array  # [] float32
    walked: Array  # [] int32, tree traversals of the average


def restrict_actions(tree: GameTree, allowed: Array) -> GameTree:
    """Restricts the legal actions of a game to `allowed` [I, A]."""
    return tree.replace(legal=allowed)


@jax.jit
def _gap(tree: GameTree, average: Array) -> Array:
    """Computes NashConv [] of the average in the game of the tree."""
    table = behavior_from_reach(tree, average)
    return nash_conv_of_tables(tree, jnp.broadcast_to(table, (tree.num_players, *table.shape)))


@partial(jax.jit, static_argnames="walks")
def _walk(tree: GameTree, regrets: Array, average: Array, before: Array, walks: int) -> tuple[Array, Array]:
    """Runs `walks` more traversals of CFR+: regrets and average."""

    def walk(n: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
        _, new_regrets, new_average = cfr_walk(tree, *sums, before + n + 1.0, plus=True)
        return new_regrets, new_average

    return jax.lax.fori_loop(0, walks, walk, (regrets, average))


@jax.jit
def reached_sets(tree: GameTree, replies: Array, table: Array) -> Array:
    """Marks sets [I] that a player reaches if it plays replies [I, A] and the others play the table [I, A]."""
    own, others = reach(tree, replies), reach(tree, table)
    rows = []
    for player in range(tree.num_players):
        (seat,) = tree.seats_of(player)
        weight = tree.chance * own[tree.leaf_sequence[:, seat]]
        for other in range(tree.num_seats):
            weight = weight if other == seat else weight * others[tree.leaf_sequence[:, other]]
        rows.append(weight)
    mass = sweep_backward(tree, sum_by_sequence(tree, jnp.stack(rows)), jnp.ones(tree.legal.shape))
    return group_by_infoset(tree, mass).sum(axis=1) > 0


def xdo_solver(game: Game, config: XdoConfig) -> Solver:
    """Makes the solver of XDO, PDO or the EDO-like method. Its step runs in Python."""
    config, tree, populations = config.for_game(game), build_tree(game), num_populations(game)
    oracle = make_oracle(game, config, ties=config.ties)
    alone = jnp.ones((populations, 1))
    owned = jnp.asarray(np.stack([infosets_of(game, population) for population in range(populations)]))

    def population(state: XdoState) -> StackedPolicies:
        table = behavior_from_reach(tree, state.average)
        return tabular_policies(game, jnp.broadcast_to(table, (populations, 1, *table.shape)))

    def first(key: Array) -> XdoState:
        del key  # uniform play
        start, none = group_by_infoset(tree, reach(tree, uniform_table(tree))), jnp.zeros(tree.legal.shape)
        own = {"allowed": none > 0, "regrets": none, "average": start, "walked": jnp.int32(0)}
        return new_state(XdoState, game, config, alone, threshold=jnp.float32(config.threshold), **own)

    def add_actions(state: XdoState, replies: Array) -> Array:
        """Adds the actions of the replies [P, I, A] to those of the restricted game, [I, A]."""
        own = jnp.where(owned[:, :, None], replies, 0.0).sum(axis=0)
        chosen = tree.legal & (jax.nn.one_hot(jnp.argmax(own, axis=1), tree.num_actions) > 0)
        if config.reached_only and int(state.step):
            chosen &= reached_sets(tree, chosen.astype(jnp.float32), behavior_from_reach(tree, state.average))[:, None]
        return state.allowed | chosen

    def solve(state: XdoState, allowed: Array) -> tuple[Array, Array, Array, int]:
        """Solves the restricted game: regrets, average, its traversals, and the number of new ones."""
        inside = restrict_actions(tree, allowed)
        if config.solve == "lp":
            plan = jnp.asarray(solve_sequence_form(inside), jnp.float32)
            return state.regrets, group_by_infoset(tree, plan), state.walked, 0
        same = bool((allowed == state.allowed).all())
        regrets = state.regrets if config.keep_regrets or same else jnp.zeros_like(state.regrets)
        average, before, taken = state.average, state.walked if same else jnp.int32(0), 0
        while taken < (config.max_walks if config.solve == "threshold" else config.walks):
            regrets, average = _walk(inside, regrets, average, before + taken, config.walks)
            taken += config.walks
            if float(_gap(inside, average)) < float(state.threshold):
                break
        return regrets, average, before + taken, taken

    def iterate(state: XdoState, key: Array, rounds: int) -> tuple[XdoState, Iteration]:
        response = oracle.respond(key, Mixture(population(state), alone > 0, alone), rounds=rounds)
        newcomers = oracle.population(stack_slots(response.params))
        allowed = add_actions(state, tables_of(game, newcomers)[:, 0])
        regrets, average, walked, taken = solve(state, allowed)
        threshold = jnp.where(_gap(tree, average) < state.threshold, state.threshold / 2, state.threshold)
        cost = response.cost.plus(Cost(tree_walks=tree.num_players * taken + 1))
        gap = _gap(restrict_actions(tree, allowed), average)
        after = state.replace(allowed=allowed, regrets=regrets, average=average, threshold=threshold, walked=walked)
        return after, Iteration(cost, rounds, alone > 0, average, meta=(allowed, regrets), gap=gap)

    return family_solver(config, first, iterate, lambda state, sigma: Profile(population(state), sigma))
