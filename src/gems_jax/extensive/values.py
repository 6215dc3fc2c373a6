"""Exact values, best responses and NashConv of sigma-mixtures on enumerable games, as array code.

Everything works on the sequence form of `GameTree`. The *reach* of a sequence is the product of a policy's
probabilities of the moves that it is made of (its realization weight). A mixture draws one policy per episode and keeps
it, so its reach is the sigma-average of its policies' reaches: reach weighting, which averaging action probabilities
would get wrong, comes for free. With R^q the reach of player q's mixture at leaf l,

    u_p(sigma)  = sum_l chance(l) prod_q R^q(l) payoff_p(l)
    v_i^p       = the same with the reach of policy i in the place of R^p          (anchor values)
    BR_p        = max over p's policies, by one backward sweep over p's own information sets
    NashConv    = sum_p BR_p - u_p(sigma),        exploitability = NashConv / 2   (two-player zero-sum)

A *table* is a policy's action probabilities [I, A] at every information set of every seat; populations are tables
[P, K, I, A] with sigma [P, K]. Array functions take one tree and one profile: callers vmap.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import chex
import jax
import jax.numpy as jnp

from gems_jax.extensive.sequence_form import backward, by_infoset, by_sequence, leaf_gains, leaf_reach
from gems_jax.extensive.tables import (
    behaviour,
    mix,
    mixture_to_behaviour,
    policy_tables,
    reach,
    uniform_table,
)
from gems_jax.extensive.tree import GameTree, build_tree
from gems_jax.extensive.walk import ALTERNATIVES
from gems_jax.types import (
    Array,
    Game,
    NotEnumerableError,
    Profile,
    num_populations,
    require_two_player_zero_sum,
)

__all__ = [
    "GameTree",
    "all_reaches",
    "anchor_values",
    "behaviour",
    "best_response_policy",
    "best_response_values",
    "best_values",
    "build_tree",
    "exact_mixture_returns",
    "expected_returns",
    "exploitability",
    "mixture_gains",
    "mixture_to_behaviour",
    "nash_conv",
    "nash_conv_of_tables",
    "player_gains",
    "player_gains_of_mixture",
    "player_gains_of_tables",
    "player_values",
    "policy_tables",
    "population_mean",
    "reach",
    "reply_values",
    "tied_actions",
    "tied_by_gains",
    "uniform_table",
    "values_against",
]


# --- reach at the leaves


def _mixture_reach(tree: GameTree, weights: Array, sigma: Array, owners: tuple[int, ...]) -> Array:
    """R^p(l), [players, L], from reaches [P, K, Q] and sigma [P, K]; player p is drawn from population owners[p]."""
    mixed = jax.vmap(mix)(sigma, weights)  # [P, Q]
    rows = []
    for player, owner in enumerate(owners):
        if len(tree.seats_of(player)) == 1:  # averaging before looking up is K times cheaper
            rows.append(leaf_reach(tree, mixed[owner], player))
        else:
            rows.append(mix(sigma[owner], leaf_reach(tree, weights[owner], player)))
    return jnp.stack(rows)


def _action_values(tree: GameTree, gains: Array) -> Array:
    """Best-response action values q(I, a), [I, A], weighted by chance and the others' reach; -inf where illegal."""
    return jnp.where(tree.legal, by_infoset(tree, backward(tree, by_sequence(tree, gains))), -jnp.inf)


# --- values and best responses


def _check(tree: GameTree, tables: Array, sigma: Array) -> None:
    chex.assert_shape(sigma, (tree.num_populations, None))
    chex.assert_shape(tables, (*sigma.shape, *tree.legal.shape))


def all_reaches(tree: GameTree, tables: Array) -> Array:
    """Reaches [P, K, Q] of tables [P, K, I, A]."""
    return jax.vmap(jax.vmap(lambda table: reach(tree, table)))(tables)


def mixture_gains(tree: GameTree, tables: Array, sigma: Array) -> Array:
    """`leaf_gains` of the mixtures sigma [P, K] over tables [P, K, I, A]: [players, L]."""
    return leaf_gains(tree, _mixture_reach(tree, all_reaches(tree, tables), sigma, tree.population_of_player))


@jax.jit
def exact_mixture_returns(tree: GameTree, tables: Array, sigma: Array) -> Array:
    """u_p(sigma), [players]: every player draws a policy from its population's sigma [P, K]."""
    _check(tree, tables, sigma)
    return _returns(tree, _mixture_reach(tree, all_reaches(tree, tables), sigma, tree.population_of_player))


def _returns(tree: GameTree, reaches: Array) -> Array:
    weight = tree.chance * jnp.prod(reaches, axis=0)
    return jnp.einsum("l,lp->p", weight, tree.payoff, precision="highest")


@jax.jit
def expected_returns(tree: GameTree, tables: Array) -> Array:
    """u_p, [players], when player p plays the table tables[p]; tables: [players, I, A]."""
    chex.assert_shape(tables, (tree.num_players, *tree.legal.shape))
    return _returns(tree, _mixture_reach(tree, *_one_policy_each(tree, tables)))


def _one_policy_each(tree: GameTree, tables: Array) -> tuple[Array, Array, tuple[int, ...]]:
    """Tables [players, I, A] as populations of one policy each: reaches, sigma, population of player."""
    sigma = jnp.ones((tree.num_players, 1), tables.dtype)
    return all_reaches(tree, tables[:, None]), sigma, tuple(range(tree.num_players))


@jax.jit
def values_against(tree: GameTree, candidates: Array, tables: Array, sigma: Array) -> Array:
    """f(c), [players, C]: candidates [P, C, I, A] in the place of each player that their population supplies.

    The other players draw from the mixture: tables [P, K, I, A], sigma [P, K].
    """
    _check(tree, tables, sigma)
    chex.assert_shape(candidates, (tree.num_populations, None, *tree.legal.shape))
    gains, weights = mixture_gains(tree, tables, sigma), all_reaches(tree, candidates)
    rows = []
    for player, owner in enumerate(tree.population_of_player):
        own = leaf_reach(tree, weights[owner], player)
        rows.append(jnp.einsum("cl,l->c", own, gains[player], precision="highest"))
    return jnp.stack(rows)


@jax.jit
def anchor_values(tree: GameTree, tables: Array, sigma: Array) -> Array:
    """v_i^p, [players, K]: policy i of the player's population against the others' mixture."""
    return values_against(tree, tables, tables, sigma)


def population_mean(tree: GameTree, values: Array) -> Array:
    """[players, ...] to [P, ...]: the mean over the players that a population supplies."""
    chex.assert_axis_dimension(values, 0, tree.num_players)
    owned: list[list[Array]] = [[] for _ in range(tree.num_populations)]
    for player, owner in enumerate(tree.population_of_player):
        owned[owner].append(values[player])
    return jnp.stack([jnp.stack(rows).mean(axis=0) for rows in owned])


def _refuse_teams(tree: GameTree) -> None:
    if tree.num_players < tree.num_seats:
        raise NotEnumerableError(
            f"The players of this game are teams (player_of_seat={tree.player_of_seat}): the exact best response of a "
            f"team is not one backward sweep. {ALTERNATIVES}"
        )


def best_values(tree: GameTree, gains: Array) -> Array:
    """Best-response values [players] from leaf gains [players, L]."""
    _refuse_teams(tree)
    values = backward(tree, by_sequence(tree, gains))[-tree.num_seats :]
    return values[jnp.array([tree.seats_of(player)[0] for player in range(tree.num_players)])]


@jax.jit
def best_response_values(tree: GameTree, tables: Array, sigma: Array) -> Array:
    """BR_p, [players]: the most that each player alone can earn against the others' mixture."""
    _check(tree, tables, sigma)
    return best_values(tree, mixture_gains(tree, tables, sigma))


@jax.jit
def reply_values(tree: GameTree, tables: Array, sigma: Array) -> Array:
    """q(I, a), [I, A]: what the seat that moves there gets out of an action and the best replies after it.

    Weighted by chance and by how often the others' mixture lets the set happen; -inf where illegal.
    """
    _check(tree, tables, sigma)
    _refuse_teams(tree)
    return _action_values(tree, mixture_gains(tree, tables, sigma))


@jax.jit
def tied_actions(tree: GameTree, tables: Array, sigma: Array, tolerance: float | Array = 1e-6) -> Array:
    """[I, A] bool: the actions that some best response of the seat that moves there to the others' mixture takes.

    Actions whose values differ by at most `tolerance`, relative to the size of the payoffs that were added up (so that
    rounding does not decide), count as equal. At sets that the others never let happen all legal actions do.
    """
    _check(tree, tables, sigma)
    return tied_by_gains(tree, mixture_gains(tree, tables, sigma), tolerance)


@jax.jit
def tied_by_gains(tree: GameTree, gains: Array, tolerance: float | Array = 1e-6) -> Array:
    """The same from leaf gains [players, L], whatever play they come from."""
    _refuse_teams(tree)
    values, scale = _action_values(tree, gains), _action_values(tree, jnp.abs(gains))
    slack = tolerance * scale.max(axis=1, keepdims=True)
    return tree.legal & (values >= values.max(axis=1, keepdims=True) - slack)


@partial(jax.jit, static_argnames="player")
def best_response_policy(
    tree: GameTree,
    tables: Array,
    sigma: Array,
    player: int,
    preference: Array | None = None,
    tolerance: float | Array = 1e-6,
) -> Array:
    """A deterministic best response, as a table [I, A], of `player` (static) to the mixture.

    Among `tied_actions` the highest `preference` [I, A] wins, then the lowest index; without one the lowest index.
    At the information sets of other seats the table is uniform, except at twins of own ones, where it copies them.
    """
    tied = tied_actions(tree, tables, sigma, tolerance)
    wish = jnp.zeros(tree.legal.shape) if preference is None else preference
    action = jnp.argmax(jnp.where(tied, wish, -jnp.inf), axis=1)
    own = tree.seat == tree.seats_of(player)[0]
    # Where an own set has twins, the policy sees one and the same thing and must play the same there.
    of_twin = jnp.full(tree.num_infosets, -1).at[tree.twin].max(jnp.where(own, action, -1))[tree.twin]
    chosen = jax.nn.one_hot(of_twin, tree.num_actions)
    return jnp.where(of_twin[:, None] >= 0, chosen, uniform_table(tree))


# --- distance from equilibrium


def _player_gains(tree: GameTree, weights: Array, sigma: Array, owners: tuple[int, ...]) -> Array:
    """BR_p - u_p, [players], as a sum of losses that are all non-negative.

    With q(I, a) the best-response action values, V(I) their maximum and x the reach of p's mixture,
    BR_p - u_p = sum_{I, a} x(I, a) (V(I) - q(I, a)): no difference of large numbers, exactly 0 for a best response.
    """
    _refuse_teams(tree)
    gains = leaf_gains(tree, _mixture_reach(tree, weights, sigma, owners))
    values = _action_values(tree, gains)
    losses = jnp.where(tree.legal, values.max(axis=1, keepdims=True) - values, 0.0)
    mixed = by_infoset(tree, jax.vmap(mix)(sigma, weights))  # [P, I, A]
    own = jnp.stack([tree.seat == tree.seats_of(player)[0] for player in range(tree.num_players)])
    per_infoset = (mixed[jnp.array(owners)] * losses[None]).sum(axis=2)
    return jnp.where(own, per_infoset, 0.0).sum(axis=1)


@jax.jit
def player_gains_of_tables(tree: GameTree, tables: Array) -> Array:
    """BR_p - u_p, [players], of the behaviour profile tables [players, I, A]."""
    chex.assert_shape(tables, (tree.num_players, *tree.legal.shape))
    return _player_gains(tree, *_one_policy_each(tree, tables))


@jax.jit
def nash_conv_of_tables(tree: GameTree, tables: Array) -> Array:
    """NashConv, [], of the behaviour profile tables [players, I, A]."""
    return player_gains_of_tables(tree, tables).sum()


@jax.jit
def player_gains_of_mixture(tree: GameTree, tables: Array, sigma: Array) -> Array:
    """BR_p - u_p(sigma), [players], of mixtures over tables [P, K, I, A]."""
    _check(tree, tables, sigma)
    return _player_gains(tree, all_reaches(tree, tables), sigma, tree.population_of_player)


@partial(jax.jit, static_argnums=0)
def _of_profile(measure: Callable[[GameTree, Array, Array], Array], tree: GameTree, profile: Profile) -> Array:
    return measure(tree, policy_tables(tree, profile.population, profile.sigma.shape[1]), profile.sigma)


def _checked_tree(game: Game, profile: Profile) -> GameTree:
    shape = profile.sigma.shape
    if len(shape) != 2 or shape[0] != num_populations(game):
        raise ValueError(f"{game.name!r} needs a sigma of shape ({num_populations(game)}, K), got {shape}.")
    return build_tree(game)


def player_values(game: Game, profile: Profile) -> Array:
    """u_p of the profile, [players], exact. Raises NotEnumerableError for games that are too large."""
    return _of_profile(exact_mixture_returns, _checked_tree(game, profile), profile)


def player_gains(game: Game, profile: Profile) -> Array:
    """What each player can win by deviating alone from the profile, [players], exact.

    Raises NotEnumerableError for games that are too large (see `build_tree`) and for players that are teams.
    """
    return _of_profile(player_gains_of_mixture, _checked_tree(game, profile), profile)


def nash_conv(game: Game, profile: Profile) -> Array:
    """NashConv = sum_p BR_p - u_p of the profile, [], exact and reach-weighted; 0 exactly at Nash equilibria."""
    return player_gains(game, profile).sum()


def exploitability(game: Game, profile: Profile) -> Array:
    """NashConv / 2, [], exact, of a two-player zero-sum game."""
    require_two_player_zero_sum(game, "exploitability", "nash_conv, the sum of what the players can win by deviating")
    return nash_conv(game, profile) / 2
