"""Exact values, best responses and NashConv of sigma-mixtures on enumerable games, as array code.

Everything works on the sequence form of `GameTree`. The *reach* of a sequence is the product of a policy's
probabilities of its moves (its realization weight). A mixture draws one policy per episode, so its reach is the
sigma-average of its policies' reaches. Averaging action probabilities instead would be wrong. With R^q the reach of
player q's mixture at leaf l,

    u_p(sigma)  = sum_l chance(l) prod_q R^q(l) payoff_p(l)
    v_i^p       = u_p with the reach of policy i instead of R^p                    (anchor values)
    BR_p        = max over p's policies, by one backward sweep over p's own information sets
    NashConv    = sum_p BR_p - u_p(sigma),        exploitability = NashConv / 2   (two-player zero-sum)

A *table* is a policy's action probabilities [I, A] at every information set of every seat; populations are tables
[P, K, I, A] with sigma [P, K]. Array functions take one tree and one profile: callers vmap. Functions of best responses
raise NotEnumerableError if players are teams.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import chex
import jax
import jax.numpy as jnp
from jaxtyping import Float

from gems_jax.extensive.recall import MixtureOutcome, memoryless_outcome
from gems_jax.extensive.sequence_form import (
    action_values,
    deviation_gains,
    group_by_infoset,
    leaf_gains,
    leaf_reach,
    payoffs_from_reach,
    refuse_teams,
    sum_by_sequence,
    sweep_backward,
)
from gems_jax.extensive.state_graph import build_state_graph, evaluate_pure
from gems_jax.extensive.tables import (
    behavior_table,
    mix,
    mixture_to_behavior,
    policy_tables,
    reach,
    uniform_table,
)
from gems_jax.extensive.tree import GameTree, build_tree
from gems_jax.types import (
    Array,
    Game,
    ImperfectRecallError,
    NotEnumerableError,
    Profile,
    num_populations,
    require_two_player_zero_sum,
)

__all__ = [
    "GameTree",
    "all_reaches",
    "anchor_values",
    "behavior_table",
    "best_response_policy",
    "best_response_values",
    "best_values",
    "build_tree",
    "check_profile",
    "exact_mixture_returns",
    "expected_returns",
    "exploitability",
    "mixture_gains",
    "mixture_to_behavior",
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
    "tied_actions_from_gains",
    "uniform_table",
    "values_against",
]


# --- reach at the leaves


def _mixture_reach(tree: GameTree, weights: Array, sigma: Array, owners: tuple[int, ...]) -> Array:
    """Computes R^p(l), [players, L], from reaches [P, K, Q] and sigma [P, K]; player p draws from owners[p]."""
    mixed = jax.vmap(mix)(sigma, weights)  # [P, Q]
    rows = []
    for player, owner in enumerate(owners):
        if len(tree.seats_of(player)) == 1:  # averaging before the lookup is K times cheaper
            rows.append(leaf_reach(tree, mixed[owner], player))
        else:
            rows.append(mix(sigma[owner], leaf_reach(tree, weights[owner], player)))
    return jnp.stack(rows)


# --- values and best responses


def _check(tree: GameTree, tables: Array, sigma: Array) -> None:
    chex.assert_shape(sigma, (tree.num_populations, None))
    chex.assert_shape(tables, (*sigma.shape, *tree.legal.shape))


def all_reaches(tree: GameTree, tables: Array) -> Array:
    """Computes the reaches [P, K, Q] of tables [P, K, I, A]."""
    return jax.vmap(jax.vmap(lambda table: reach(tree, table)))(tables)


def mixture_gains(tree: GameTree, tables: Array, sigma: Array) -> Array:
    """Computes the `leaf_gains` [players, L] of the mixtures sigma [P, K] over tables [P, K, I, A]."""
    return leaf_gains(tree, _mixture_reach(tree, all_reaches(tree, tables), sigma, tree.population_of_player))


@jax.jit
def exact_mixture_returns(tree: GameTree, tables: Array, sigma: Array) -> Array:
    """Computes u_p(sigma) = sum_l chance(l) prod_q R^q(l) payoff_p(l), [players].

    Every player draws a policy from its population: tables [P, K, I, A], sigma [P, K].
    """
    _check(tree, tables, sigma)
    return payoffs_from_reach(tree, _mixture_reach(tree, all_reaches(tree, tables), sigma, tree.population_of_player))


@jax.jit
def expected_returns(tree: GameTree, tables: Array) -> Array:
    """Computes u_p, [players], when player p plays the table tables[p], tables [players, I, A]."""
    chex.assert_shape(tables, (tree.num_players, *tree.legal.shape))
    return payoffs_from_reach(tree, _mixture_reach(tree, *_singleton_populations(tree, tables)))


def _singleton_populations(tree: GameTree, tables: Array) -> tuple[Array, Array, tuple[int, ...]]:
    """Returns tables [players, I, A] as populations of one policy: reaches, sigma, population of player."""
    sigma = jnp.ones((tree.num_players, 1), tables.dtype)
    return all_reaches(tree, tables[:, None]), sigma, tuple(range(tree.num_players))


@jax.jit
def values_against(tree: GameTree, candidates: Array, tables: Array, sigma: Array) -> Array:
    """Computes the values f(c) of candidates against the others' mixture.

    Args:
      tree: the game.
      candidates: policies, [P, C, I, A]; each plays every position that its population supplies.
      tables: policies of the mixture, [P, K, I, A].
      sigma: the mixture of the other players, [P, K].

    Returns:
      f, [players, C].
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
    """Computes v_i^p, [players, K], the value of every policy of a player's population against the others' mixture.

    The populations are tables [P, K, I, A] with sigma [P, K].
    """
    return values_against(tree, tables, tables, sigma)


def population_mean(tree: GameTree, values: Array) -> Array:
    """Averages values [players, ...] over the players that each population supplies, [P, ...]."""
    chex.assert_axis_dimension(values, 0, tree.num_players)
    owned: list[list[Array]] = [[] for _ in range(tree.num_populations)]
    for player, owner in enumerate(tree.population_of_player):
        owned[owner].append(values[player])
    return jnp.stack([jnp.stack(rows).mean(axis=0) for rows in owned])


def best_values(tree: GameTree, gains: Array) -> Array:
    """Computes best-response values [players] from leaf gains [players, L]."""
    refuse_teams(tree)
    values = sweep_backward(tree, sum_by_sequence(tree, gains))[-tree.num_seats :]
    return values[jnp.array([tree.seats_of(player)[0] for player in range(tree.num_players)])]


@jax.jit
def best_response_values(tree: GameTree, tables: Array, sigma: Array) -> Array:
    """Computes BR_p, [players], the most that each player alone can earn against the others' mixture.

    The mixture is over tables [P, K, I, A] with sigma [P, K].
    """
    _check(tree, tables, sigma)
    return best_values(tree, mixture_gains(tree, tables, sigma))


@jax.jit
def reply_values(tree: GameTree, tables: Array, sigma: Array) -> Array:
    """Computes q(I, a), [I, A], the value of an action followed by best replies, for the seat to move.

    Weighted by the reach of chance and of the others' mixture over tables [P, K, I, A] with sigma [P, K]; -inf if
    illegal.
    """
    _check(tree, tables, sigma)
    refuse_teams(tree)
    return action_values(tree, mixture_gains(tree, tables, sigma))


@jax.jit
def tied_actions(tree: GameTree, tables: Array, sigma: Array, tolerance: float | Array = 1e-6) -> Array:
    """Finds the actions that some best response to the others' mixture takes.

    At sets that the others never reach all legal actions count.

    Args:
      tree: the game.
      tables: policies of the populations, [P, K, I, A].
      sigma: the mixtures, [P, K].
      tolerance: largest difference of values that count as equal, relative to the sum of absolute payoffs.

    Returns:
      Mask [I, A] bool, for the seat to move at each set.
    """
    _check(tree, tables, sigma)
    return tied_actions_from_gains(tree, mixture_gains(tree, tables, sigma), tolerance)


@jax.jit
def tied_actions_from_gains(tree: GameTree, gains: Array, tolerance: float | Array = 1e-6) -> Array:
    """Finds the `tied_actions` [I, A] bool from leaf gains [players, L] of any play."""
    refuse_teams(tree)
    values, scale = action_values(tree, gains), action_values(tree, jnp.abs(gains))
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
    """Computes a deterministic best response of one player to the mixture.

    At the information sets of other seats the table is uniform, except at twins of the player's own sets, which it
    copies.

    Args:
      tree: the game.
      tables: policies of the populations, [P, K, I, A].
      sigma: the mixtures, [P, K].
      player: who responds (static).
      preference: among `tied_actions` the highest wins, then the lowest index, [I, A]; None for the lowest index.
      tolerance: see `tied_actions`.

    Returns:
      The table [I, A].
    """
    tied = tied_actions(tree, tables, sigma, tolerance)
    wish = jnp.zeros(tree.legal.shape) if preference is None else preference
    action = jnp.argmax(jnp.where(tied, wish, -jnp.inf), axis=1)
    own = tree.seat == tree.seats_of(player)[0]
    # A policy cannot distinguish twins of an own set and must play the same there.
    of_twin = jnp.full(tree.num_infosets, -1).at[tree.twin].max(jnp.where(own, action, -1))[tree.twin]
    chosen = jax.nn.one_hot(of_twin, tree.num_actions)
    return jnp.where(of_twin[:, None] >= 0, chosen, uniform_table(tree))


# --- distance from equilibrium


def _player_gains(tree: GameTree, weights: Array, sigma: Array, owners: tuple[int, ...]) -> Array:
    """Computes the `deviation_gains` [players] of mixtures sigma [P, K] over reaches [P, K, Q]."""
    refuse_teams(tree)
    mixed = group_by_infoset(tree, jax.vmap(mix)(sigma, weights))  # [P, I, A]
    return deviation_gains(tree, _mixture_reach(tree, weights, sigma, owners), mixed[jnp.array(owners)])


@jax.jit
def player_gains_of_tables(tree: GameTree, tables: Array) -> Array:
    """Computes BR_p - u_p, [players], of the behavior profile tables [players, I, A]."""
    chex.assert_shape(tables, (tree.num_players, *tree.legal.shape))
    return _player_gains(tree, *_singleton_populations(tree, tables))


@jax.jit
def nash_conv_of_tables(tree: GameTree, tables: Array) -> Array:
    """Computes NashConv, [], of the behavior profile tables [players, I, A]."""
    return player_gains_of_tables(tree, tables).sum()


@jax.jit
def player_gains_of_mixture(tree: GameTree, tables: Array, sigma: Array) -> Array:
    """Computes BR_p - u_p(sigma), [players], of mixtures over tables [P, K, I, A]; the sum is NashConv."""
    _check(tree, tables, sigma)
    return _player_gains(tree, all_reaches(tree, tables), sigma, tree.population_of_player)


@partial(jax.jit, static_argnums=0)
def _measure_profile(measure: Callable[[GameTree, Array, Array], Array], tree: GameTree, profile: Profile) -> Array:
    return measure(tree, policy_tables(tree, profile.population, profile.sigma.shape[1]), profile.sigma)


def check_profile(game: Game, profile: Profile) -> None:
    """Raises ValueError unless the profile's sigma has one row per population of the game.

    Args:
      game: the game to evaluate.
      profile: the mixture to evaluate.
    """
    num, sigma = num_populations(game), getattr(profile, "sigma", None)
    try:
        chex.assert_equal(sigma is not None, True)
        chex.assert_shape(sigma, (num, None))
    except AssertionError:
        got = type(profile).__name__ if sigma is None else jnp.shape(sigma)
        raise ValueError(
            f"{game.name!r} needs a sigma of shape ({num}, K), got {got}. Pass a Profile of this game, such as "
            "solver.profile(state), whose sigma has one row per population"
        ) from None


def _forgetful_outcome(game: Game, profile: Profile) -> MixtureOutcome:
    """Evaluates a profile where observations forget: over histories, or single policies over states."""
    try:
        return memoryless_outcome(game, profile)
    except NotEnumerableError as error:
        if profile.sigma.shape[1] > 1:
            raise
        too_large = error
    try:
        return evaluate_pure(build_state_graph(game), profile.population)
    except NotEnumerableError:
        raise too_large from None


def player_values(game: Game, profile: Profile) -> Array:
    """Computes the expected returns u_p of the profile exactly.

    Args:
      game: an enumerable game.
      profile: mixtures sigma [P, K] over populations with a leading axis P.

    Returns:
      u, [players].

    Raises:
      NotEnumerableError: if the game cannot be enumerated.
    """
    check_profile(game, profile)
    try:
        return _measure_profile(exact_mixture_returns, build_tree(game), profile)
    except ImperfectRecallError:
        return _forgetful_outcome(game, profile).values


def player_gains(game: Game, profile: Profile) -> Array:
    """Computes what each player can gain by deviating alone from the profile, exactly.

    Where observations forget the history, the deviating player remembers everything that it observed and did
    (`extensive.recall`); the policies of the profile remain functions of the observation. If there are too many
    histories, profiles of one policy per population (K = 1) are evaluated over states (`extensive.state_graph`).

    Args:
      game: an enumerable game.
      profile: mixtures sigma [P, K] over populations with a leading axis P.

    Returns:
      BR_p - u_p, [players].

    Raises:
      NotEnumerableError: if the game cannot be enumerated (see `evaluation_tree`) or players are teams.
    """
    check_profile(game, profile)
    try:
        return _measure_profile(player_gains_of_mixture, build_tree(game), profile)
    except ImperfectRecallError:
        return _forgetful_outcome(game, profile).gains


def nash_conv(game: Game, profile: Profile) -> Float[Array, ""]:
    """Computes the exact NashConv of a profile, the sum of what each player can gain by deviating alone.

        NashConv = sum_p BR_p - u_p(sigma)

    Mixtures are reach-weighted. The result is 0 exactly at Nash equilibria. If observations forget the history, as on
    boards, BR_p is the best response of a player with perfect recall of its observations and actions.

    >>> import jax
    >>> from gems_jax import make_game, make_solver, nash_conv
    >>> game = make_game("prisoners_dilemma")
    >>> solver = make_solver("random", game)
    >>> float(nash_conv(game, solver.profile(solver.init(jax.random.key(0)))))
    1.5

    Args:
      game: an enumerable game whose players are single seats.
      profile: the mixture to evaluate, with sigma [P, K].

    Returns:
      NashConv, [].

    Raises:
      NotEnumerableError: if the game is too large or not enumerable, or a player is a team.
      ValueError: if sigma does not have one row per population.
    """
    return player_gains(game, profile).sum()


def exploitability(game: Game, profile: Profile) -> Float[Array, ""]:
    """Computes the exact exploitability of a profile, NashConv / 2, of a two-player zero-sum game.

    Policies may be functions of observations that forget the history, as on boards. The best responses still have
    perfect recall of what they observed and did, so the result is the exploitability in the game itself.

    >>> import jax
    >>> from gems_jax import exploitability, make_game, make_solver
    >>> game = make_game("biased_matching_pennies")
    >>> solver = make_solver("random", game)  # uniform play
    >>> float(exploitability(game, solver.profile(solver.init(jax.random.key(0)))))
    0.25

    Args:
      game: an enumerable two-player zero-sum game.
      profile: the mixture to evaluate, with sigma [P, K].

    Returns:
      NashConv / 2, [], in units of the game's returns.

    Raises:
      NotEnumerableError: if the game is too large or not enumerable, or a player is a team.
      ValueError: if the game is not two-player zero-sum, or sigma does not have one row per population.
    """
    require_two_player_zero_sum(game, "exploitability", "nash_conv, the sum of what the players can win by deviating")
    return nash_conv(game, profile) / 2
