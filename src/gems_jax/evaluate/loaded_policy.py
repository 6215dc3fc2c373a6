"""A trained mixture that acts: what `gems_jax.load` returns."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Bool, Float

from gems_jax.extensive.tables import mixture_to_behavior, policy_tables
from gems_jax.extensive.tree import GameTree, build_tree
from gems_jax.policies import distributions
from gems_jax.rollout.views import take_population
from gems_jax.types import Array, Game, GameState, NotEnumerableError, PolicyOutput, Population, PRNGKey, Profile

Observation = Float[ArrayLike, "*obs"] | GameState
Legal = Bool[ArrayLike, " A"]


@dataclasses.dataclass(frozen=True, repr=False)
class LoadedPolicy:
    """A trained mixture that acts.

    >>> import jax
    >>> from gems_jax import load
    >>> policy = load("kuhn")
    >>> state = policy.game.init(jax.random.key(0))
    >>> action = policy.act(state, key=jax.random.key(1))  # of the seat to move
    >>> policy.probabilities(state.observation, state.legal, seat=0).shape  # of all seats: seat 0 is selected
    (2,)
    >>> policy.observation
    "float32[13], one seat's row of observation in a GameState of kuhn_poker"

    A mixture draws one of its policies at the start of an episode and plays it until the end. On enumerable games `act`
    plays the equivalent (reach-weighted) behavior policy, so it needs no memory. On larger games it plays the policies
    in `slots`, initially the heaviest of each population: begin every episode with `policy = policy.episode(key)`.

    Attributes:
      game: the game that the run solves.
      config: settings of the method.
      profile: the mixture, for evaluation and rollouts.
      method: name of the method.
      seed: seed of the run.
      iteration: iteration of the checkpoint.
      source: path of the run or file.
      slots: policy that plays for each population, P integers; unused on enumerable games.
      last_row: logged metrics of the iteration, if available.
    """

    game: Game
    config: Any
    profile: Profile
    method: str
    seed: int
    iteration: int
    source: str
    slots: tuple[int, ...]
    last_row: Mapping[str, float] = dataclasses.field(default_factory=dict, repr=False)

    def act(
        self, observation: Observation, legal: Legal | None = None, key: PRNGKey | None = None, seat: int | None = None
    ) -> Array:
        """Samples an action of one seat. May be jitted and vmapped.

        Args:
          observation: what the seat sees, [*observation_shape]; numbers of any type, and flat arrays, are converted. Or
            the observations of all seats, [S, *observation_shape], with `seat`. Or a `GameState`, whose seat to move
            acts by default.
          legal: legal actions, [A] bool, or [S, A] with `seat`; by default those of the `GameState`.
          key: typed PRNG key; consumed.
          seat: the seat that acts. Optional if observations identify the seat (poker, matrix games) or if all players
            are drawn from one population.

        Returns:
          The action, [] int32, or [A] float32 in continuous games.

        Raises:
          ValueError: if an argument has another shape, or one that is required is missing.
        """
        if key is None:
            raise ValueError(f"{self.game.name}: act needs a key: act(state, key=jax.random.key(0)).")
        noise = distributions.draw_noise(key, (), self.game.num_actions, self.game.continuous)
        return distributions.sample_action(self.output(observation, legal, seat), noise)

    def probabilities(
        self, observation: Observation, legal: Legal | None = None, seat: int | None = None
    ) -> Float[Array, " A"]:
        """Computes the action probabilities that `act` samples from.

        Args:
          observation: as in `act`.
          legal: as in `act`.
          seat: as in `act`.

        Returns:
          Probabilities [A].

        Raises:
          ValueError: if the game has continuous actions, or as in `act`.
        """
        output = self.output(observation, legal, seat)
        if output.logits is None:
            raise ValueError(f"{self.game.name} has continuous actions: use `output`, the Gaussian before squashing")
        return jax.nn.softmax(output.logits)

    def output(self, observation: Observation, legal: Legal | None = None, seat: int | None = None) -> PolicyOutput:
        """Computes the parameters of the action distribution.

        Args:
          observation: as in `act`.
          legal: as in `act`.
          seat: as in `act`.

        Returns:
          Logits, or mean and log_std in continuous games, each [A].
        """
        observed, allowed, seat = self._convert(observation, legal, seat)
        if self._behaviour is not None:
            tree, table = self._behaviour
            logits = _look_up(tree, table, observed, allowed, jnp.int32(-1 if seat is None else seat))
            return PolicyOutput(logits=logits)
        owner = self._population_of(seat)
        return _apply_slot(
            take_population(self.profile.population, owner), jnp.int32(self.slots[owner]), observed, allowed
        )

    @property
    def observation(self) -> str:
        """The observation that the policy expects, in words."""
        shape = ",".join(map(str, self.game.observation_shape))
        return f"float32[{shape}], one seat's row of observation in a GameState of {self.game.name}"

    def episode(self, key: PRNGKey) -> LoadedPolicy:
        """Draws new `slots` from the mixture, for one episode.

        Args:
          key: typed PRNG key; consumed.

        Returns:
          A policy that differs in `slots` only.
        """
        drawn = jax.random.categorical(key, jnp.log(self.profile.sigma), axis=1)
        return dataclasses.replace(self, slots=tuple(int(slot) for slot in drawn))

    @property
    def enumerable(self) -> bool:
        """Whether the game is enumerable, so that `act` plays the exact behavior policy."""
        return self._behaviour is not None

    @functools.cached_property
    def _behaviour(self) -> tuple[GameTree, Array] | None:
        """Tree and behavior table [I, A], where each seat's rows come from its population; None if not enumerable."""
        try:
            tree = build_tree(self.game)
            with jax.ensure_compile_time_eval():  # the first call may be inside a trace, and the table is cached
                return tree, _behaviour_table(tree, self.profile)
        except NotEnumerableError:
            return None

    def _population_of(self, seat: int | None) -> int:
        owners = self.game.population_of_player
        if seat is None and len(set(owners)) > 1:
            raise ValueError(f"{self.game.name}: seat is required, pass seat=0..{self.game.num_seats - 1}")
        return owners[self.game.player_of_seat[seat or 0]]

    def _convert(self, observation: Any, legal: Any, seat: int | None) -> tuple[Array, Array, int | None]:
        """Converts the arguments of `act` to an observation [*observation_shape], legal actions [A] and a seat."""
        if isinstance(seat, int) and not 0 <= seat < self.game.num_seats:
            raise ValueError(f"{self.game.name}: seat must be 0..{self.game.num_seats - 1}, got {seat}")
        if isinstance(observation, GameState):
            seat = self._seat_to_move(observation) if seat is None else seat
            legal = observation.legal if legal is None else legal
            observation = observation.observation
        if legal is None:
            raise ValueError(f"{self.game.name}: legal is required, pass the legal actions [A] or a GameState")
        return (
            self._select_seat("observation", jnp.asarray(observation, jnp.float32), self.game.observation_shape, seat),
            self._select_seat("legal", jnp.asarray(legal, bool), (self.game.num_actions,), seat),
            seat,
        )

    def _select_seat(self, name: str, array: Array, expected: tuple[int, ...], seat: int | None) -> Array:
        """Takes the row of a seat from an array of all seats, and gives a flat one its shape."""
        got, expected = array.shape, tuple(expected)
        if got != expected and seat is not None and got == (self.game.num_seats, *expected):
            return array[seat]
        if got != expected and array.size == math.prod(expected) and 1 in (array.ndim, len(expected)):
            return array.reshape(expected)
        if got != expected:
            raise ValueError(
                f"{self.game.name}: {name} must have shape {expected} (of one seat), got {got}. Expected is "
                f"{self.observation}; pass seat= with the rows of all seats, and vmap over batches."
            )
        return array

    def _seat_to_move(self, state: GameState) -> int:
        moving = np.flatnonzero(state.to_move)
        if len(moving) != 1:
            raise ValueError(f"{self.game.name}: seat is required where {len(moving)} seats are to move, pass seat=")
        return int(moving[0])

    def __repr__(self) -> str:
        """Summarizes the policy: where it is from, and what it expects."""
        populations, slots = self.profile.sigma.shape
        return (
            f"LoadedPolicy({self.game.name}, {self.method}, seed {self.seed}, iteration {self.iteration}, "
            f"{populations} populations of {slots} slots)\n"
            f"  from {self.source}\n  observation: {self.observation}\n  actions: {self.game.num_actions}"
        )


@jax.jit
def _behaviour_table(tree: GameTree, profile: Profile) -> Array:
    tables = policy_tables(tree, profile.population, profile.sigma.shape[1])  # [P, K, I, A]
    mixed = jax.vmap(lambda table, sigma: mixture_to_behavior(tree, table, sigma))(tables, profile.sigma)
    owner = jnp.asarray(tree.population_of_player)[jnp.asarray(tree.player_of_seat)[tree.seat]]  # [I]
    return jnp.take_along_axis(mixed, owner[None, :, None], axis=0)[0]


@jax.jit
def _look_up(tree: GameTree, table: Array, observation: Array, legal: Array, seat: Array) -> Array:
    """Looks up logits [A] by observation, legal actions and seat (-1: any); uniform if there is no such row."""
    rest = tuple(range(1, tree.observation.ndim))
    same = (tree.observation == observation[None]).all(axis=rest) & (tree.legal == legal[None]).all(axis=1)
    same = same & ((seat < 0) | (tree.seat == seat))
    probs = jnp.where(same.any(), table[jnp.argmax(same)], legal / jnp.maximum(legal.sum(), 1))
    positive = probs > 0
    logits = jnp.where(positive, jnp.log(jnp.where(positive, probs, 1.0)), distributions.ILLEGAL)
    return distributions.mask_logits(logits, legal)


@jax.jit
def _apply_slot(population: Population, slot: Array, observation: Array, legal: Array) -> PolicyOutput:
    """Applies the policy of a slot. The slot is traced, so that another slot does not recompile."""
    return population.apply(population.select(slot), observation, legal)
