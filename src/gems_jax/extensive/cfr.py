"""Exact tabular methods, the reference of every comparison: CFR, CFR+ and extensive-form fictitious play (XFP).

Every iteration traverses the whole tree; nothing is sampled. The counterfactual value q(I, a) of an action is the
product of chance and the others' reach, summed over the histories of I and their successors:

    CFR    R(I, a) += q(I, a) - sum_b pi(I, b) q(I, b),  pi = R+ / sum R+,  players in turn, uniform average
    CFR+   like CFR, with R clipped at 0 after every update, and weight t of iteration t in the average
    XFP    everybody's best response to the others' average, averaged with weight 1 / (t + 1) from uniform play

Averages are over the reach of whole sequences, so the average policy weighs iterations by its own reach. The average is
the result of these methods: both `iterate` and `average` select it; `current` selects the last policy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from gems_jax.config import Settings, size
from gems_jax.extensive.counterfactual import behavior_from_reach, cfr_walk
from gems_jax.extensive.infosets import tabular_policies
from gems_jax.extensive.sequence_form import group_by_infoset
from gems_jax.extensive.values import GameTree, build_tree, reach, tied_actions, uniform_table
from gems_jax.types import Array, Game, NotEnumerableError, Profile, PyTree, Solver, Struct, num_players

PROFILES = ("iterate", "average", "current")


class TabularConfig(Settings):
    """Settings of the tabular methods."""

    iterations: int = size(1000)
    """Iterations that an experiment runs by default."""
    walks: int = size(1)
    """Updates of every player per iteration, each a traversal of the whole tree."""


class CfrState(Struct):
    """State of CFR. Sums are float64 values, each stored as two float32 numbers: high part and remainder."""

    policy: Array  # [I, A], the current one
    regrets: Array  # [2, I, A]
    average: Array  # [2, I, A], weighted mean of the reach of sequences
    step: Array  # [] int32


class XfpState(Struct):
    """State of extensive-form fictitious play."""

    policy: Array  # [I, A], the last best responses
    average: Array  # [I, A], mean of the reach of sequences
    step: Array  # [] int32


class TabularMetrics(Struct):
    """Costs of one iteration."""

    tree_walks: Array  # [] int32
    episodes: Array  # [] int32, none
    env_steps: Array  # [] int32, none
    gradient_steps: Array  # [] int32, none
    state_bytes: Array  # [] float32, size of the solver's state


def xfp_walk(tree: GameTree, state: XfpState) -> XfpState:
    """Runs one iteration of extensive-form fictitious play.

    Every player best-responds to the others' average, and the average takes up the responses with weight 1 / (step +
    1). Ties go to the lowest action.

    Args:
      tree: the game, with one player per seat.
      state: the state before the iteration.

    Returns:
      The next state.
    """
    step = state.step + 1
    played = behavior_from_reach(tree, state.average)
    mixture = jnp.broadcast_to(played, (tree.num_populations, 1, *tree.legal.shape))
    tied = tied_actions(tree, mixture, jnp.ones((tree.num_populations, 1)))
    policy = jax.nn.one_hot(jnp.argmax(tied, axis=1), tree.num_actions)
    average = state.average + (group_by_infoset(tree, reach(tree, policy)) - state.average) / (step + 1.0)
    return XfpState(policy, average, step)


def _split_pair(number: Array) -> Array:
    """Splits float64 numbers [...] into float32 high parts and remainders, [2, ...]."""
    high = number.astype(jnp.float32)
    return jnp.stack([high, (number - high).astype(jnp.float32)])


def _merge_pair(pair: Array) -> Array:
    """Inverts `_split_pair`."""
    return pair[0].astype(jnp.float64) + pair[1]


def cfr_solver(game: Game, config: TabularConfig, plus: bool) -> Solver:
    """Makes the solver CFR, or CFR+ with `plus`.

    Traversals are in float64, because CFR+ is chaotic: on Leduc, rounding to float32 shows in the third digit of
    NashConv from iteration 60 on, rounding to float64 from about 140 on. (Code traced in float64 inside a float32
    program may hold neither matrix products nor int64 results, such as argmax. The sums of CFR are neither.)

    Args:
      game: an enumerable game with one player per seat.
      config: settings.
      plus: clip regrets at 0 and weigh iteration t by t in the average.

    Returns:
      A jittable `Solver` with the profiles `iterate`, `average` and `current`.

    Raises:
      NotEnumerableError: if the game cannot be enumerated or has teams.
    """
    _refuse_teams(game)
    tree = _float64_tree(game)

    def init(key: Array) -> CfrState:
        del key  # nothing is drawn
        with jax.enable_x64(True):
            uniform = uniform_table(tree)
            average = _split_pair(group_by_infoset(tree, reach(tree, uniform)))
            return CfrState(uniform.astype(jnp.float32), jnp.zeros_like(average), average, jnp.int32(0))

    def walk(state: CfrState) -> CfrState:
        with jax.enable_x64(True):
            step = state.step + 1
            policy, regrets, average = cfr_walk(
                tree, _merge_pair(state.regrets), _merge_pair(state.average), step, plus
            )
            return CfrState(policy.astype(jnp.float32), _split_pair(regrets), _split_pair(average), step)

    return _solver(game, config, init, walk, lambda state: state.average[0])


def xfp_solver(game: Game, config: TabularConfig) -> Solver:
    """Makes the solver of extensive-form fictitious play.

    Args:
      game: an enumerable game with one player per seat.
      config: settings.

    Returns:
      A jittable `Solver` with the profiles `iterate`, `average` and `current`.

    Raises:
      NotEnumerableError: if the game cannot be enumerated or has teams.
    """
    _refuse_teams(game)
    tree = build_tree(game)

    def init(key: Array) -> XfpState:
        del key  # nothing is drawn
        uniform = uniform_table(tree)
        return XfpState(uniform, group_by_infoset(tree, reach(tree, uniform)), jnp.int32(0))

    return _solver(game, config, init, lambda state: xfp_walk(tree, state), lambda state: state.average)


def _float64_tree(game: Game) -> GameTree:
    """Builds the tree with probabilities and payoffs in float64."""
    single = build_tree(game)  # reports trees that are too large before float64 is enabled
    with jax.enable_x64(True):
        try:
            return build_tree(game)
        except TypeError:  # the game requires float32 and int32
            wide = {name: getattr(single, name).astype(jnp.float64) for name in ("chance", "payoff")}
            return single.replace(**wide)


def _refuse_teams(game: Game) -> None:
    if num_players(game) < game.num_seats:
        raise NotEnumerableError(
            f"tabular methods cannot solve {game.name!r}: expected one player per seat, got teams "
            f"(player_of_seat={game.player_of_seat})"
        )


def _solver(
    game: Game,
    config: TabularConfig,
    init: Callable[[Array], PyTree],
    walk: Callable[[PyTree], PyTree],
    average_reach: Callable[[PyTree], Array],
) -> Solver:
    tree = build_tree(game)

    def step(state: PyTree, key: Array) -> tuple[PyTree, TabularMetrics]:
        del key
        state = jax.lax.fori_loop(0, config.walks, lambda _, state: walk(state), state)
        none = jnp.int32(0)
        return state, TabularMetrics(
            tree_walks=jnp.int32(config.walks * tree.num_players),
            episodes=none,
            env_steps=none,
            gradient_steps=none,
            state_bytes=jnp.float32(sum(leaf.nbytes for leaf in jax.tree.leaves(state))),
        )

    def profile(state: PyTree, which: str = "iterate") -> Profile:
        if which not in PROFILES:
            raise ValueError(f"unknown profile {which!r}; known: {', '.join(map(repr, PROFILES))}")
        tables = jnp.stack([behavior_from_reach(tree, average_reach(state)), state.policy])
        sigma = jnp.array([0.0, 1.0]) if which == "current" else jnp.array([1.0, 0.0])
        return Profile(
            tabular_policies(game, jnp.broadcast_to(tables, (tree.num_populations, *tables.shape))),
            jnp.broadcast_to(sigma, (tree.num_populations, 2)),
        )

    columns = tuple(field.name for field in dataclasses.fields(TabularMetrics))
    return Solver(init, step, profile, columns=columns)
