"""Double oracles in extensive form: best responses are mixed at every information set, not once at the beginning.

A restricted game holds, at every information set, the actions that some best response so far has taken there. An
iteration adds the best responses to the restricted game's solution, and solves the game again:

    xdo   exactly, by a linear program; or as published by regret matching on the tree, until nobody inside the
          restricted game gains more than a threshold, which is halved whenever the whole game is that well
          solved (solve="threshold")                                                           (McAleer et al. 2021)
    pdo   a fixed number of walks of regret matching, whose regrets are kept (Periodic Double Oracle) (Tang et al. 2023)
    edo   *EDO-like*: thresholds, regrets that are kept, and new actions only where the response gets when it meets
          the average. A reconstruction, as no text of Huang et al. 2022 was at hand

Regret matching is that of CFR+ on a tree with fewer legal actions. Of PDO and EDO ours are: the
average starts anew when actions came in, and continues where none did.

Responses are exact, or learned by PPO: then the most likely action of a network joins at every set. The restricted game
is solved on the tree all the same, which costs no episodes; learning that too (NXDO) is not implemented. Two-player
zero-sum enumerable games.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.config import ABOVE_ZERO, choice, real, size
from gems_jax.extensive.counterfactual import behaviour_of_reach, cfr_walk
from gems_jax.extensive.equilibrium import solve_sequence_form
from gems_jax.extensive.infosets import tables_of, tabular_policies
from gems_jax.extensive.sequence_form import backward, by_infoset, by_sequence
from gems_jax.extensive.values import GameTree, build_tree, nash_conv_of_tables, reach, uniform_table
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.base import Cost, Iteration, PsroState, family_solver, new_state, stack_slots
from gems_jax.psro.ppo import make_oracle
from gems_jax.psro.responses import Mixture, infosets_of
from gems_jax.psro.settings import ExplicitSettings
from gems_jax.types import Array, Game, Profile, Solver, num_populations, require_two_player_zero_sum


class XdoConfig(ExplicitSettings):
    """Settings of the double oracles in extensive form."""

    solve: Literal["lp", "threshold", "period"] = choice("lp")
    """The restricted game: a linear program, regret matching until a threshold, or a fixed number of walks of it."""
    walks: int = size(50)
    """Walks of every player between two looks at the threshold, or between two best responses."""
    max_walks: int = size(5000)
    """Walks after which an iteration gives up on its threshold."""
    keep_regrets: bool = choice(False)
    """Regret matching continues from the last restricted game instead of starting anew."""
    reached_only: bool = choice(False)
    """Actions join only at the sets that their response gets to when it meets the average."""
    threshold: float = real(16.0, ABOVE_ZERO)
    """NashConv inside the first restricted games that is good enough, in game returns."""
    ties: Literal["robust", "random", "novel", "lowest"] = choice("robust")
    """Exact responses that tie: how one is chosen (see psro/responses.py)."""


XDO = XdoConfig()
PDO = XdoConfig(solve="period", keep_regrets=True)
EDO = XdoConfig(solve="threshold", keep_regrets=True, reached_only=True)


class XdoState(PsroState):
    """The restricted game; `sigma` plays the one policy that there is."""

    allowed: Array  # [I, A] bool, the actions of the restricted game; none before the first responses
    regrets: Array  # [I, A]
    average: Array  # [I, A], mean of the reach of sequences: what is played
    threshold: Array  # [] float32
    walked: Array  # [] int32, walks behind the average


def restrict_actions(tree: GameTree, allowed: Array) -> GameTree:
    """The game in which only allowed [I, A] actions are legal."""
    return tree.replace(legal=allowed)


@jax.jit
def _gap(tree: GameTree, average: Array) -> Array:
    """NashConv [] of the average, in the game that the tree is."""
    table = behaviour_of_reach(tree, average)
    return nash_conv_of_tables(tree, jnp.broadcast_to(table, (tree.num_players, *table.shape)))


@partial(jax.jit, static_argnames="walks")
def _walk(tree: GameTree, regrets: Array, average: Array, before: Array, walks: int) -> tuple[Array, Array]:
    """Regrets and average after so many walks of CFR+ more."""

    def walk(n: Array, sums: tuple[Array, Array]) -> tuple[Array, Array]:
        _, new_regrets, new_average = cfr_walk(tree, *sums, before + n + 1.0, plus=True)
        return new_regrets, new_average

    return jax.lax.fori_loop(0, walks, walk, (regrets, average))


@jax.jit
def reached_sets(tree: GameTree, replies: Array, table: Array) -> Array:
    """[I] bool: sets of a player that come up when it plays replies [I, A] and the others play the table [I, A]."""
    own, others = reach(tree, replies), reach(tree, table)
    rows = []
    for player in range(tree.num_players):
        (seat,) = tree.seats_of(player)
        weight = tree.chance * own[tree.leaf_sequence[:, seat]]
        for other in range(tree.num_seats):
            weight = weight if other == seat else weight * others[tree.leaf_sequence[:, other]]
        rows.append(weight)
    mass = backward(tree, by_sequence(tree, jnp.stack(rows)), jnp.ones(tree.legal.shape))
    return by_infoset(tree, mass).sum(axis=1) > 0


def xdo_solver(game: Game, config: XdoConfig) -> Solver:
    """XDO, PDO or the EDO-like method. Its step runs in Python."""
    require_two_player_zero_sum(game, "a double oracle in extensive form")
    if game.num_seats != 2:
        raise ValueError(f"a double oracle in extensive form needs two seats: {game.name!r} has {game.num_seats}")
    config, tree, populations = config.for_game(game), build_tree(game), num_populations(game)
    oracle = make_oracle(game, config, ties=config.ties)
    alone = jnp.ones((populations, 1))
    owned = jnp.asarray(np.stack([infosets_of(game, population) for population in range(populations)]))

    def population(state: XdoState) -> StackedPolicies:
        table = behaviour_of_reach(tree, state.average)
        return tabular_policies(game, jnp.broadcast_to(table, (populations, 1, *table.shape)))

    def first(key: Array) -> XdoState:
        del key  # uniform play
        start, none = by_infoset(tree, reach(tree, uniform_table(tree))), jnp.zeros(tree.legal.shape)
        own = {"allowed": none > 0, "regrets": none, "average": start, "walked": jnp.int32(0)}
        return new_state(XdoState, game, config, alone, threshold=jnp.float32(config.threshold), **own)

    def add_actions(state: XdoState, replies: Array) -> Array:
        """The actions [I, A] with those of the replies [P, I, A]."""
        own = jnp.where(owned[:, :, None], replies, 0.0).sum(axis=0)
        chosen = tree.legal & (jax.nn.one_hot(jnp.argmax(own, axis=1), tree.num_actions) > 0)
        if config.reached_only and int(state.step):
            chosen &= reached_sets(tree, chosen.astype(jnp.float32), behaviour_of_reach(tree, state.average))[:, None]
        return state.allowed | chosen

    def solve(state: XdoState, allowed: Array) -> tuple[Array, Array, Array, int]:
        """Regrets, average and the walks behind it of the restricted game, and how many of them are new."""
        inside = restrict_actions(tree, allowed)
        if config.solve == "lp":
            plan = jnp.asarray(solve_sequence_form(inside), jnp.float32)
            return state.regrets, by_infoset(tree, plan), state.walked, 0
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
