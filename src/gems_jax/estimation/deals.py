"""Deals (initial states) of games that list them: episodes from a given deal, and stratified deals of a batch.

    play = start_from_deal(play_episode)
    deals = stratify_deals(key_deals, game, (policies,), (opponents, episodes))
    play_groups(play, key, game, ..., lanes=(deals,))

Among the episodes of each policy, the count of every deal then differs from its expectation by less than one. A single
episode still has the game's distribution of deals, so averages over episodes stay unbiased.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.extensive.tree import eager_evaluation
from gems_jax.meta.simplex import stratify_slots
from gems_jax.rollout.episode import Policies
from gems_jax.rollout.views import View, permute_seats
from gems_jax.types import Array, Enumerable, Game, GameState, NotEnumerableError, PyTree, Struct, supports


def list_deals(game: Game) -> tuple[GameState, Array] | None:
    """Lists the initial states of a game.

    Args:
      game: any game, or a view of it.

    Returns:
      The states, leaves [N, ...] with the seats of the view, and their probabilities [N]; None if the game does not
      list them.
    """
    if not supports(game, Enumerable):
        return None
    try:
        states, probabilities = game.deals()
    except NotEnumerableError:
        return None
    if isinstance(game, View):
        states = jax.vmap(permute_seats, in_axes=(0, None))(states, game.seats)
    return states, probabilities


class DealIndex:
    """Finds the deal of a position among those of its game, including hidden cards. Static and hashed by value.

    It compares the leaves of `GameState.inner` that differ between deals. If play has changed them, no deal is found.
    """

    def __init__(self, states: GameState):
        """Makes the index of all initial states, which are concrete, leaves [N, ...]."""
        leaves = [np.asarray(leaf) for leaf in map(_as_numbers, jax.tree.leaves(states.inner))]
        self.varying = tuple(index for index, leaf in enumerate(leaves) if (leaf != leaf[:1]).any())
        count = len(np.asarray(states.terminated))
        self.rows = np.concatenate([np.zeros((count, 0)), *(leaves[index] for index in self.varying)], axis=1)
        self._key = self.varying, self.rows.shape, self.rows.tobytes()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DealIndex) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def count(self) -> int:
        """Number of deals."""
        return len(self.rows)

    def __call__(self, state: GameState) -> Array:
        """Finds the index [] int32 of the position's deal; `count` if there is none."""
        leaves = jax.tree.leaves(state.inner)
        seen = jnp.concatenate([_as_numbers(leaves[index][None])[0] for index in self.varying])
        same = jnp.all(jnp.asarray(self.rows, seen.dtype) == seen[None], axis=1)
        return jnp.where(jnp.any(same), jnp.argmax(same), self.count).astype(jnp.int32)


def _as_numbers(leaf: Array) -> Array:
    """[N, ...] of any dtype -> [N, n] float32; PRNG keys give n = 0."""
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jnp.zeros((len(leaf), 0))
    return leaf.reshape(len(leaf), -1).astype(jnp.float32)


def index_deals(game: Game) -> DealIndex | None:
    """Makes the index of a game's deals, also inside a trace.

    Args:
      game: any game; the base of a view or a dealt game is used.

    Returns:
      The index; None if the game does not list its deals or they do not differ.
    """
    while isinstance(game, View | DealtGame):
        game = game.base
    with eager_evaluation():
        listed = list_deals(game)
        if listed is None or len(listed[1]) == 1:
            return None
        found = DealIndex(listed[0])
    return found if found.varying else None


class DealtGame(Struct):
    """A game with a fixed deal: `init` returns that initial state, everything else is delegated to `base`."""

    base: Game
    deal: Array  # [] int32, index in `deals`

    def __getattr__(self, name: str) -> Any:  # name, num_seats, step, deals, ... are those of the base
        if name.startswith("__") or name in ("base", "deal"):
            raise AttributeError(name)
        return getattr(self.base, name)

    def init(self, key: Array) -> GameState:
        """Returns the fixed initial state. key: unused."""
        del key
        states, _ = self.base.deals()  # type: ignore[attr-defined]
        return jax.tree.map(lambda leaf: leaf[self.deal], states)

    def step(self, state: GameState, actions: Array, key: Array) -> GameState:
        return self.base.step(state, actions, key)


def fix_deal(game: Game, deal: Array) -> Game:
    """Fixes the deal of a game.

    Args:
      game: a game with `deals`, or a view of one.
      deal: index of the deal, [] int32.

    Returns:
      A game, or a view of the same player, whose `init` returns that deal and ignores its key.
    """
    if isinstance(game, View):
        return dataclasses.replace(game, base=DealtGame(game.base, deal))
    return DealtGame(game, deal)  # type: ignore[return-value]


class DealtPlay(Struct):
    """Plays one episode from a given deal; made by `start_from_deal`."""

    play: PyTree  # a function, or a pytree that can be called

    def __call__(self, key: Array, game: Game, policies: Policies, deal: Array, *arguments: PyTree) -> PyTree:
        """Plays one episode from the deal []. key: consumed."""
        return self.play(key, fix_deal(game, deal), policies, *arguments)


def start_from_deal(play: Callable[..., PyTree]) -> DealtPlay:
    """Adds an argument to `play`: the deal of its episode, one of the `lanes` of `play_groups` and `play_joint`.

    Args:
      play: play(key, game, policies, *arguments), such as `play_episode` or the result of `make_corrected_play`.

    Returns:
      A function of (key, game, policies, deal [], *arguments) that plays from that deal.
    """
    return DealtPlay(play)


def stratify_deals(key: Array, game: Game, groups: tuple[int, ...], within: tuple[int, ...]) -> Array:
    """Draws the deals of a batch of episodes, stratified within each group.

    Among the n = prod(within) episodes of a group, deal d of probability p_d is drawn floor(n p_d) or ceil(n p_d)
    times, in random order. Every single episode has deal d with probability p_d, so means over a group are unbiased.
    The episodes of a group depend on each other, so their sample variance overstates the error of their mean.

    Args:
      key: typed PRNG key; consumed.
      game: a game with `deals`, or a view of one.
      groups: shape of the axes along which draws are independent.
      within: shape of the axes that form one stratified group.

    Returns:
      Indices of deals, [*groups, *within] int32.

    Raises:
      ValueError: if the game does not list its deals.
    """
    listed = list_deals(game)
    if listed is None:
        raise ValueError(f"stratify_deals: expected a game that lists its deals (`deals`), got {game.name!r}.")
    log_mass = jnp.log(listed[1])
    count = math.prod(groups)
    draws = jax.vmap(lambda own: stratify_slots(own, log_mass, math.prod(within)))(jax.random.split(key, count))
    return draws.reshape(*groups, *within)
