"""Views of a game: the game with its seats permuted, so that a given player is player 0.

Estimators and learners are written for player 0. Where every player has one seat and a population of its own, the
permutation is a traced rotation, and one vmapped program serves every player. In other games (teams, shared
populations) the same function is called once per population.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from gems_jax.host.stages import on_host
from gems_jax.types import (
    Array,
    Game,
    GameState,
    PyTree,
    Struct,
    num_players,
    num_populations,
    seats_of_player,
    static_field,
)

R = TypeVar("R")


class View(Struct):
    """A game from the position of one player, whose population is population 0."""

    base: Game
    seats: Array  # [S] int32, the seat of `base` behind each seat of the view
    player_of_seat: tuple[int, ...] = static_field()
    population_of_player: tuple[int, ...] = static_field()
    wanted: Array | None = None  # [] bool, of games that run in Python: unwanted episodes start as finished

    def __getattr__(self, name: str) -> Any:  # name, num_seats, observation_shape, max_steps, ... are those of the base
        if name.startswith("__") or name in ("base", "seats", "wanted"):
            raise AttributeError(name)
        return getattr(self.base, name)

    def init(self, key: Array) -> GameState:
        if self.wanted is not None:
            return permute_seats(self.base.begin(key, self.wanted), self.seats)  # type: ignore[attr-defined]
        return permute_seats(self.base.init(key), self.seats)

    def step(self, state: GameState, actions: Array, key: Array) -> GameState:
        inner = permute_seats(state, self._inverse)
        return permute_seats(self.base.step(inner, _take(actions, self._inverse), key), self.seats)

    def renew(self, state: GameState, key: Array) -> GameState:
        """Restarts finished episodes of games that run in Python. key: consumed."""
        inner = permute_seats(state, self._inverse)
        return permute_seats(self.base.renew(inner, key), self.seats)  # type: ignore[attr-defined]

    @property
    def _inverse(self) -> Array:
        """[S], the seat of the view behind each seat of `base`."""
        return jnp.zeros_like(self.seats).at[self.seats].set(jnp.arange(len(self.seats), dtype=self.seats.dtype))


def permute_seats(state: GameState, seats: Array) -> GameState:
    """Permutes the seat axis of every array of a state: row i of the result is row `seats[i]`, seats [S] int32."""
    rows = {name: getattr(state, name) for name in ("observation", "legal", "to_move", "reward", "infoset")}
    return dataclasses.replace(state, **_permute(rows, seats))


@jax.jit
def _permute(rows: dict[str, Array | None], seats: Array) -> dict[str, Array | None]:
    """Permutes the rows of every array, traced once: all steps of an episode call the same function."""
    return _take(rows, seats)


def _take(tree: PyTree, order: Array) -> PyTree:
    """rows[order] of every array; for two rows by a select, which XLA fuses, unlike a gather."""
    if order.shape[0] == 2:
        kept = order[0] == 0
        return jax.tree.map(lambda rows: jnp.where(kept, rows, rows[::-1]), tree)
    return jax.tree.map(lambda rows: rows[order], tree)


def take_population(tree: Any, population: int) -> Any:
    """Returns one population of a tree whose arrays have a leading axis P."""
    return jax.tree.map(lambda leaf: leaf[population], tree)


def stack_populations(trees: list[PyTree]) -> PyTree:
    """Stacks equal trees, one per population, along a new leading axis P."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def players_of(game: Game, population: int) -> tuple[int, ...]:
    """Returns the players whose policies come from `population`."""
    return tuple(player for player, owner in enumerate(game.population_of_player) if owner == population)


def make_view(game: Game, player: int) -> View:
    """Makes the view of `player`; the other players follow in cyclic order."""
    players = [(player + turn) % num_players(game) for turn in range(num_players(game))]
    seats = [seat for one in players for seat in seats_of_player(game, one)]
    own, count = game.population_of_player[player], num_populations(game)
    return View(
        base=game,
        seats=jnp.asarray(seats, jnp.int32),
        player_of_seat=tuple(players.index(game.player_of_seat[seat]) for seat in seats),
        population_of_player=tuple((game.population_of_player[one] - own) % count for one in players),
    )


def is_rotational(game: Game) -> bool:
    """Returns whether every player has one seat and its own population, so that views differ by a rotation."""
    own = tuple(range(game.num_seats))
    return game.player_of_seat == own and game.population_of_player == own


def rotate(tree: PyTree, population: Array | int) -> PyTree:
    """Rotates the leading axis P of a tree so that `population`, static or traced, comes first."""

    kept = jnp.asarray(population) == 0

    def shift(leaf: Array) -> Array:
        if leaf.shape[0] == 2:  # XLA fuses a select, unlike a gather
            return jnp.where(kept, leaf, leaf[::-1])
        return leaf[(jnp.arange(leaf.shape[0]) + population) % leaf.shape[0]]

    return jax.tree.map(shift, tree)


def map_views(views: tuple[View, ...], function: Callable[..., R], keys: Array, *each: list[PyTree]) -> list[R]:
    """Calls a function for every view.

    Views that differ in their seats only, such as those of players of one population, run as one vmapped program: half
    of the code to compile, and half of the kernels to start. Games that run in Python are called one by one.

    Args:
      views: V views.
      function: function(view, key, *own) -> result.
      keys: typed PRNG keys [V]; consumed.
      each: further arguments of the function, lists of V trees.

    Returns:
      The V results.
    """
    first = views[0]
    if on_host(first) or not _differ_in_seats_alone(views):
        return [function(one, *own) for one, *own in zip(views, keys, *each, strict=True)]
    seats = jnp.stack([one.seats for one in views])
    permuted = lambda seats, *own: function(dataclasses.replace(first, seats=seats), *own)  # noqa: E731
    results = jax.vmap(permuted)(seats, keys, *map(stack_populations, each))
    return [take_population(results, number) for number in range(len(views))]


def _differ_in_seats_alone(views: tuple[View, ...]) -> bool:
    return len(views) > 1 and len({(one.player_of_seat, one.population_of_player) for one in views}) == 1


def split_populations(game: Game, tree: PyTree) -> PyTree:
    """Converts a tree with a leading axis P to a carry of `map_populations_with_carry`: the tree, or a list of P."""
    if _maps_by_rotation(game):
        return tree
    return [take_population(tree, p) for p in range(num_populations(game))]


def _maps_by_rotation(game: Game) -> bool:
    return is_rotational(game) and game.num_seats > 1


def map_populations(game: Game, function: Callable[[tuple[View, ...], Array | int, Array], R], keys: Array) -> R:
    """Calls a function for every population and stacks the results.

    Args:
      game: the game.
      function: function(views of p's players, p, key) -> result, with p static or traced.
      keys: typed PRNG keys [P]; consumed.

    Returns:
      The results, stacked along a leading axis P.
    """
    return map_populations_with_carry(game, lambda views, p, key: (function(views, p, key), ()), keys)[0]


def map_populations_with_carry(
    game: Game, function: Callable[..., tuple[R, PyTree]], keys: Array, *carry: PyTree
) -> tuple[R, PyTree]:
    """Calls a function for every population, with a carry whose structure may differ between populations.

    Args:
      game: the game.
      function: function(views of p's players, p, key, *own) -> (result, own carry of p), where `own` is the part of
        population p of every argument of `carry`.
      keys: typed PRNG keys [P]; consumed. Any array [P] for a function that draws nothing.
      carry: carries that earlier calls returned. Populations with different numbers of players may have different
        trees.

    Returns:
      The results, stacked along a leading axis P, and the carry for a further call.
    """
    if _maps_by_rotation(game):
        template = make_view(game, 0)

        def one(population: Array, key: Array, *own: PyTree) -> tuple[R, PyTree]:
            seats = (jnp.arange(game.num_seats, dtype=jnp.int32) + population) % game.num_seats
            return function((dataclasses.replace(template, seats=seats),), population, key, *own)

        return jax.vmap(one)(jnp.arange(game.num_seats, dtype=jnp.int32), keys, *carry)
    views_of_population = [
        tuple(make_view(game, player) for player in players_of(game, p)) for p in range(num_populations(game))
    ]
    called = [function(views, p, keys[p], *(one[p] for one in carry)) for p, views in enumerate(views_of_population)]
    return stack_populations([result for result, _ in called]), [own for _, own in called]
