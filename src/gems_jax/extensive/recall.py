"""Exact evaluation of games whose observations forget: the history is added behind the scenes.

Boards and Nim show the position and not how it came about, so two histories of a seat may look equal to a policy. A
policy on observations is then *memoryless*: pi(a | h) = pi(a | o(h)), a special case of a policy on histories. Exact
evaluation compares it with the best response of an opponent with perfect recall, who remembers every observation and
action of its own moves. An *information set* is here the whole sequence of those, which is a game with perfect recall.

Why histories and not states: a player draws anchor k ~ sigma once per episode, so after the history h the opponent
faces the behavior

    pibar(a | h) = sum_k w_k(h) pi_k(a | o(h)) / sum_k w_k(h),    w_k(h) = sigma_k prod_{own moves t} pi_k(a_t | o_t)

The posterior w depends on the moves that led to a position. Two histories that transpose into one state may have
different posteriors and different best replies, so backward induction over states is exact for one policy (K = 1) but
not for a mixture. Over histories everything is linear. With x^q(l) = sum_k w_k(l) the reach of player q's mixture at
leaf l,

    u_p   = sum_l chance(l) prod_q x^q(l) payoff_p(l),
    BR_p  = max over p's policies of the same sum with p's own reach in place of x^p

and BR_p is a backward sweep: the factor chance(l) payoff_p(l) prod_{q != p} x^q(l) of a leaf does not depend on p's own
policy, the leaves below an information set and action are those below its successors, and with perfect recall each set
has one sequence of own moves before it, so that choosing the best action at every set, last sets first, maximizes the
sum. (This is the sweep of `sequence_form`.)

A state is stepped once although many histories pass through it. Tables [I, A] of all K policies would not fit (288,000
sets in tic-tac-toe), so reaches are accumulated policy by policy, and networks are evaluated once per view, which is
what a policy can distinguish: 4,520 in tic-tac-toe.
"""

from __future__ import annotations

import functools

import chex
import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.extensive.sequence_form import (
    deviation_losses,
    group_by_infoset,
    leaf_reach,
    refuse_teams,
)
from gems_jax.extensive.tables import play_observations, reach
from gems_jax.extensive.tree import (
    GameKey,
    GameTree,
    build_tree,
    eager_evaluation,
    game_key,
    sequence_arrays,
    sort_infosets,
)
from gems_jax.extensive.walk import Walk
from gems_jax.types import (
    Array,
    Game,
    ImperfectRecallError,
    NotEnumerableError,
    Population,
    Profile,
    Struct,
    static_field,
)

MAX_HISTORIES = 2**20  # limit on positions; tic-tac-toe has 549,946
_MAX_SEQUENCES = 2**25  # limit on information sets times actions


class HistoryTree(Struct):
    """A game whose information sets are histories of views, and the views that policies distinguish."""

    sequences: GameTree  # its observations are empty
    observation: Array  # [V, *obs] float32
    legal: Array  # [V, A] bool
    view: Array  # [I] int32, the view at each information set
    view_ends: tuple[int, ...] = static_field()  # seat s acts on the views view_ends[s-1]:view_ends[s]

    @property
    def views_of_seat(self) -> tuple[tuple[int, int], ...]:
        """First and last view of every seat, end exclusive."""
        return tuple(zip((0, *self.view_ends[:-1]), self.view_ends, strict=True))

    @property
    def population_of_seat(self) -> tuple[int, ...]:
        tree = self.sequences
        return tuple(tree.population_of_player[player] for player in tree.player_of_seat)


class MixtureOutcome(Struct):
    """Values and gains of M mixtures."""

    values: Array  # u_p, [M, players]
    gains: Array  # BR_p - u_p, [M, players]


def build_history_tree(game: Game, max_nodes: int = MAX_HISTORIES) -> HistoryTree:
    """Enumerates a game whose observations forget; the tree is cached by the value of the game.

    Works like `build_tree`, but information sets are the seat's whole sequences of observations and actions.

    Args:
      game: the game, with any observations.
      max_nodes: largest number of positions. Nothing is stepped beyond it.

    Returns:
      The tree.

    Raises:
      NotEnumerableError: if the game is continuous, random after the deal, or too large.
      ValueError: if the game is traced.
    """
    return _cached_tree(game_key(game), max_nodes)


@functools.lru_cache(maxsize=16)
def _cached_tree(key: GameKey, max_nodes: int) -> HistoryTree:
    with eager_evaluation():
        walk = Walk(key.game, max_nodes, add_history=True)
        leaves = walk.run()
        if (entries := len(walk.seat) * key.game.num_actions) > _MAX_SEQUENCES:
            walk.refuse(f"its {len(walk.seat):,} information sets have {entries:,} actions, limit {_MAX_SEQUENCES:,}.")
        infosets, _ = sort_infosets(walk)
        seats = np.asarray(walk.view_seat)
        order = np.argsort(seats, kind="stable")
        return HistoryTree(
            sequences=sequence_arrays(walk, leaves),
            observation=jnp.asarray(np.stack(walk.observation)[order], jnp.float32),
            legal=jnp.asarray(np.stack(walk.legal)[order]),
            view=jnp.asarray(np.argsort(order)[np.asarray(walk.view)[infosets]], jnp.int32),
            view_ends=tuple(np.cumsum(np.bincount(seats, minlength=key.game.num_seats)).tolist()),
        )


def has_exact_evaluation(game: Game) -> bool:
    """Returns whether `exploitability` and `nash_conv` can evaluate every mixture exactly, with or without history."""
    try:
        evaluation_tree(game)
    except NotEnumerableError:
        return False
    return True


def evaluation_tree(game: Game) -> GameTree | HistoryTree:
    """Builds the tree for exact evaluation: `build_tree`, or with the history added where observations forget.

    Args:
      game: the game.

    Returns:
      A `GameTree` for games with perfect recall, a `HistoryTree` for others.

    Raises:
      NotEnumerableError: if the game is continuous, random after the deal, or too large.
    """
    try:
        return build_tree(game)
    except ImperfectRecallError:
        return build_history_tree(game)


@jax.jit
def evaluate_memoryless(tree: HistoryTree, population: Population, sigma: Array) -> MixtureOutcome:
    """Computes values and best-response gains of mixtures over memoryless policies.

    Implements u_p and BR_p - u_p of the module docstring. The cost is one pass over the sequences for every slot that
    has mass in any of the mixtures, whatever their number.

    Args:
      tree: the game.
      population: policies with a leading axis P.
      sigma: mixtures over the same policies, [M, P, K].

    Returns:
      Values and gains, [M, players] each.

    Raises:
      NotEnumerableError: if players are teams.
    """
    refuse_teams(tree.sequences)
    mixed = mixed_reaches(tree, population, sigma)  # [M, Q]
    return jax.lax.map(lambda weights: _outcome(tree.sequences, weights), mixed)


def _outcome(tree: GameTree, mixed: Array) -> MixtureOutcome:
    """Computes values and gains from the mixtures' reaches of all sequences, [Q]; each belongs to one player."""
    reaches = jnp.stack([leaf_reach(tree, mixed, player) for player in range(tree.num_players)])
    losses = deviation_losses(tree, reaches, group_by_infoset(tree, mixed)[None])
    earned = (tree.chance * jnp.prod(reaches, axis=0))[None] * tree.payoff.T
    return MixtureOutcome(sum_pairwise(earned), sum_pairwise(losses))


def sum_pairwise(values: Array) -> Array:
    """Sums values [..., n] over the last axis in log2(n) halvings.

    A running float32 sum of the 255,168 leaves of tic-tac-toe, many of them equal, is wrong in the fourth digit.
    """
    while (size := values.shape[-1]) > 1:
        half = size // 2
        head = values[..., :half] + values[..., half : 2 * half]
        values = jnp.concatenate([head, values[..., 2 * half :]], axis=-1)
    return values[..., 0]


def mixed_reaches(tree: HistoryTree, population: Population, sigma: Array) -> Array:
    """Computes x = sum_k sigma_k prod_t pi_k(a_t | o_t) of every sequence by its own player's mixture.

    Args:
      tree: the game.
      population: policies with a leading axis P.
      sigma: mixtures, [M, P, K].

    Returns:
      Reaches [M, Q].
    """
    sequences, owners = tree.sequences, jnp.array(tree.population_of_seat)
    chex.assert_shape(sigma, (None, sequences.num_populations, None))
    mass = sigma[:, owners]  # [M, S, K]
    used = jnp.any(mass > 0, axis=(0, 1))
    slots = jnp.argsort(~used, stable=True)  # slots with mass come first

    def add(place: Array, mixed: Array) -> Array:
        slot = slots[place]
        weights = group_by_infoset(sequences, reach(sequences, _table(tree, population, slot)))
        return mixed + mass[:, sequences.seat, slot, None] * weights[None]

    mixed = jax.lax.fori_loop(0, used.sum(), add, jnp.zeros((sigma.shape[0], *sequences.legal.shape), sigma.dtype))
    return jnp.concatenate([mixed.reshape(sigma.shape[0], -1), mass.sum(axis=2)], axis=1)


def _table(tree: HistoryTree, population: Population, slot: Array) -> Array:
    """Computes the table [I, A] of the policies in one slot, each at the information sets of its own seats."""
    parts = []
    for owner, (start, stop) in zip(tree.population_of_seat, tree.views_of_seat, strict=True):
        one = jax.tree.map(lambda leaf, owner=owner: leaf[owner], population)
        views = tree.observation[start:stop], tree.legal[start:stop]
        parts.append(play_observations(*views, population.apply, one.select(slot)))
    return jnp.concatenate(parts)[tree.view]


def memoryless_outcome(game: Game, profile: Profile) -> MixtureOutcome:
    """Computes values and gains of one profile of a game whose observations forget.

    Args:
      game: the game.
      profile: mixtures sigma [P, K] over populations with a leading axis P.

    Returns:
      Values and gains, [players] each.

    Raises:
      NotEnumerableError: if the game cannot be enumerated or players are teams.
    """
    outcome = evaluate_memoryless(build_history_tree(game), profile.population, profile.sigma[None])
    return jax.tree.map(lambda leaf: leaf[0], outcome)
