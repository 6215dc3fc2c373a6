"""A game seen from one player: the same game with its seats turned round, so that this player comes first.

Estimators and learners are written for player 0. Where all players are alike in shape (one seat each, a population
each), the turn is a traced number and one vmapped program serves every player; elsewhere (teams, shared populations)
the same function is called once per population.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp

from gems_jax.host.stages import on_host
from gems_jax.types import Array, Game, GameState, PyTree, Struct, num_players, num_populations, static_field

R = TypeVar("R")


class View(Struct):
    """`base` from the place of one player. Populations are counted from that player's: its own is population 0."""

    base: Game
    seats: Array  # [S] int32, the seat of `base` behind each seat of the view
    player_of_seat: tuple[int, ...] = static_field()
    population_of_player: tuple[int, ...] = static_field()
    wanted: Array | None = None  # [] bool, of games that the host plays: episodes that are not are over when they begin

    def __getattr__(self, name: str) -> Any:  # name, num_seats, observation_shape, max_steps, ... are those of the base
        if name.startswith("__") or name in ("base", "seats", "wanted"):
            raise AttributeError(name)
        return getattr(self.base, name)

    def init(self, key: Array) -> GameState:
        if self.wanted is not None:
            return self._turned(self.base.begin(key, self.wanted))  # type: ignore[attr-defined]
        return self._turned(self.base.init(key))

    def step(self, state: GameState, actions: Array, key: Array) -> GameState:
        return self._turned(self.base.step(_turned(state, self._back), _take(actions, self._back), key))

    def renew(self, state: GameState, key: Array) -> GameState:
        """Of games that have it (see `rollout.go_on`)."""
        return self._turned(self.base.renew(_turned(state, self._back), key))  # type: ignore[attr-defined]

    @property
    def _back(self) -> Array:
        """[S], the seat of the view behind each seat of `base`."""
        return jnp.zeros_like(self.seats).at[self.seats].set(jnp.arange(len(self.seats), dtype=self.seats.dtype))

    def _turned(self, state: GameState) -> GameState:
        return _turned(state, self.seats)


def _turned(state: GameState, seats: Array) -> GameState:
    """The same position with its seats in another order; turned back, what is not looked at is not computed."""
    return dataclasses.replace(
        state,
        observation=_take(state.observation, seats),
        legal=_take(state.legal, seats),
        to_move=_take(state.to_move, seats),
        reward=_take(state.reward, seats),
        infoset=None if state.infoset is None else _take(state.infoset, seats),
    )


def _take(rows: Array, order: Array) -> Array:
    """rows[order]; of two rows by a select, which XLA fuses where it would not fuse a gather."""
    if rows.shape[0] == 2:
        return jnp.where(order[0] == 0, rows, rows[::-1])
    return rows[order]


def at(tree: Any, population: int) -> Any:
    """One population of a tree whose arrays have a leading axis P."""
    return jax.tree.map(lambda leaf: leaf[population], tree)


def stack(trees: list[PyTree]) -> PyTree:
    """The inverse of `at`: equal trees, one per population, stacked along a new leading axis P."""
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def players_of(game: Game, population: int) -> tuple[int, ...]:
    """The players that are drawn from `population`."""
    return tuple(player for player, owner in enumerate(game.population_of_player) if owner == population)


def view(game: Game, player: int) -> View:
    """The game from the place of `player`; the others follow in turn."""
    players = [(player + turn) % num_players(game) for turn in range(num_players(game))]
    seats = [seat for one in players for seat, owner in enumerate(game.player_of_seat) if owner == one]
    own, count = game.population_of_player[player], num_populations(game)
    return View(
        base=game,
        seats=jnp.asarray(seats, jnp.int32),
        player_of_seat=tuple(players.index(game.player_of_seat[seat]) for seat in seats),
        population_of_player=tuple((game.population_of_player[one] - own) % count for one in players),
    )


def alike(game: Game) -> bool:
    """Whether every player has one seat and a population of its own, so that turning the seats is all there is."""
    own = tuple(range(game.num_seats))
    return game.player_of_seat == own and game.population_of_player == own


def rotate(tree: PyTree, population: Array | int) -> PyTree:
    """A tree with axis P in the order that a view of `population` counts in: its own population first."""

    def turn(leaf: Array) -> Array:
        if leaf.shape[0] == 2:
            return jnp.where(jnp.asarray(population) == 0, leaf, leaf[::-1])
        return leaf[(jnp.arange(leaf.shape[0]) + population) % leaf.shape[0]]

    return jax.tree.map(turn, tree)


def each_view(views: tuple[View, ...], function: Callable[..., R], keys: Array, *each: list[PyTree]) -> list[R]:
    """[function(view, key, what belongs to it)] for every view. keys: [V].

    Where views differ in their seats alone, as those of players that share a population do, they are one vmapped
    program: half of the code to compile, and half of the kernels to start. Games that Python plays go one by one.
    """
    first = views[0]
    kinds = {(one.player_of_seat, one.population_of_player) for one in views}
    if len(views) == 1 or len(kinds) > 1 or on_host(first):
        return [function(one, *own) for one, *own in zip(views, keys, *each, strict=True)]
    seats = jnp.stack([one.seats for one in views])
    turned = lambda seats, *own: function(dataclasses.replace(first, seats=seats), *own)  # noqa: E731
    results = jax.vmap(turned)(seats, keys, *map(stack, each))
    return [at(results, number) for number in range(len(views))]


def each_population(game: Game, function: Callable[[tuple[View, ...], Array | int, Array], R], keys: Array) -> R:
    """function(views of the players of p, p, key) for every population p, results stacked along axis P. keys: [P]."""
    if alike(game) and game.num_seats > 1:
        template = view(game, 0)

        def one(population: Array, key: Array) -> R:
            seats = (jnp.arange(game.num_seats, dtype=jnp.int32) + population) % game.num_seats
            return function((dataclasses.replace(template, seats=seats),), population, key)

        return jax.vmap(one)(jnp.arange(game.num_seats, dtype=jnp.int32), keys)
    return stack(
        [
            function(tuple(view(game, player) for player in players_of(game, population)), population, keys[population])
            for population in range(num_populations(game))
        ]
    )
