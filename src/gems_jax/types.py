"""The seams of gems_jax: what a game is, what a policy is, what a solver is.

Everything else in the package talks through the types of this file. A *seat* acts in the game, a *player* is the unit
that deviates (one seat, or a team of seats that play one policy and earn the mean of their rewards), and a
*population* is what one or several players are drawn from.

Axes, used in comments and shape checks everywhere:

    P populations   S seats      K anchor slots   C candidates   N opponents   M episodes
    B joint samples T time       D latent         A actions      I information sets

Masks say what True means: `active` (the slot holds an anchor), `legal` (the action may be played), `to_move` (the
seat acts now).
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol, Self, TypeGuard, TypeVar, dataclass_transform, runtime_checkable

import jax
import numpy as np

Array = jax.Array
PyTree = Any

C = TypeVar("C")


def static_field(**kwargs: Any) -> Any:
    """A dataclass field that is part of the tree's structure (hashed, not traced)."""
    return dataclasses.field(metadata={"static": True}, **kwargs)


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field, static_field))
class Struct:
    """Base class of frozen dataclasses that are pytrees: plain fields are leaves, `static_field`s are structure.

    A subclass needs no decorator::

        class Point(Struct):
            x: Array
            name: str = static_field(default="")
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        jax.tree_util.register_dataclass(dataclasses.dataclass(frozen=True)(cls))

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]


class GameState(Struct):
    """One position of one game. A finished position is absorbing: stepping it again changes nothing, reward 0."""

    inner: PyTree  # whatever the game needs to go on
    observation: Array  # [S, *observation_shape] float32, what each seat sees
    legal: Array  # [S, A] bool, all False for seats that do not move
    to_move: Array  # [S] bool, all False when the game is over
    reward: Array  # [S] float32, earned by the last step
    terminated: Array  # [] bool, the rules ended the game
    truncated: Array  # [] bool, a time limit ended it: values bootstrap here
    # [S] int32, of games that number what their seats see when they are to move: tables are looked up by it
    infoset: Array | None = None

    @property
    def done(self) -> Array:
        return self.terminated | self.truncated


@runtime_checkable
class Game(Protocol):
    """A game as pure functions. Frozen, value-hashed and without array leaves, so that equal games never retrace.

    `return_bounds` is the interval of one player's episode return; estimators scale by it. What a game may offer
    besides is declared by the capabilities below, from `Enumerable` to `Annotated`; ask for them with `supports`.
    """

    @property
    def name(self) -> str: ...
    @property
    def num_seats(self) -> int: ...
    @property
    def num_actions(self) -> int:
        """Size of the discrete action set; for continuous games the dimension of an action."""
        ...

    @property
    def observation_shape(self) -> tuple[int, ...]: ...
    @property
    def max_steps(self) -> int: ...
    @property
    def simultaneous(self) -> bool: ...
    @property
    def continuous(self) -> bool: ...
    @property
    def player_of_seat(self) -> tuple[int, ...]: ...
    @property
    def population_of_player(self) -> tuple[int, ...]: ...
    @property
    def return_bounds(self) -> tuple[float, float]: ...
    @property
    def zero_sum(self) -> bool: ...

    def init(self, key: Array) -> GameState: ...

    def step(self, state: GameState, actions: Array, key: Array) -> GameState:
        """actions: [S] int32 (or [S, num_actions] float32 when continuous), ignored for seats not to move."""
        ...


def supports(game: object, capability: type[C]) -> TypeGuard[C]:
    """Whether a game has every member of an optional capability.

    Unlike `isinstance`, this follows wrappers that look their attributes up in the game that they wrap.
    """
    names = dict.fromkeys((*vars(capability), *capability.__annotations__))
    return all(hasattr(game, name) for name in names if not name.startswith("_"))


@runtime_checkable
class Enumerable(Game, Protocol):
    """Lists its initial states. If `step` ignores its key and the tree is small, evaluation is exact."""

    def deals(self) -> tuple[GameState, Array]:
        """All initial states, leaves [N, ...], and their probabilities, [N]."""
        ...


@runtime_checkable
class Branching(Game, Protocol):
    """Enumerates its tree on the host, where chance may act after any move. Branches are (chance, state, seen)."""

    def starts(self) -> list[Any]:
        """Every position before the first move."""
        ...

    def branches(self, state: Any, actions: np.ndarray) -> list[Any]:
        """Every position that the actions [S] may lead to from a branch's state."""
        ...


@runtime_checkable
class KnownSize(Game, Protocol):
    """Knows how large its tree is. Exact evaluation walks it whole, even beyond the limit for games that do not."""

    @property
    def num_positions(self) -> int:
        """Positions of the whole tree, ends included."""
        ...


@runtime_checkable
class Evaluating(Game, Protocol):
    """Has an exact evaluation of its own, for trees that are too large to be walked here."""

    def best_response_gains(self, profile: Profile) -> np.ndarray:
        """BR_p - u_p of a profile, [players] float64, on the host: the sum is NashConv."""
        ...


@runtime_checkable
class Averaging(Game, Protocol):
    """Has random rewards whose expectation is known, so that exact evaluation can step the game without a key."""

    def expected_step(self, state: GameState, actions: Array) -> GameState: ...


@runtime_checkable
class InfosetTable(Game, Protocol):
    """Lists its information sets without a walk through its tree."""

    def infosets(self) -> tuple[np.ndarray, np.ndarray]:
        """Observations [I, *observation_shape] and legal actions [I, A]."""
        ...


@runtime_checkable
class Hosted(Game, Protocol):
    """Runs in Python when `on_host` is True; programs that play it are cut into stages (`gems_jax.host.stages`)."""

    @property
    def on_host(self) -> bool: ...

    def begin(self, key: Array, wanted: Array) -> GameState:
        """Starts an episode where `wanted` [] is True, and returns a finished one elsewhere."""
        ...

    def renew(self, state: GameState, key: Array) -> GameState:
        """Starts a new episode where `state` is finished, and returns `state` elsewhere."""
        ...


@runtime_checkable
class Bounded(Game, Protocol):
    """Declares whether a time limit can end an episode; if not, learners never bootstrap from a last position."""

    @property
    def truncates(self) -> bool: ...


@runtime_checkable
class CompactObservations(Game, Protocol):
    """Has observations that a smaller dtype than float32 holds without loss; trajectories are stored in it."""

    @property
    def observation_dtype(self) -> Any: ...


@runtime_checkable
class BoardOriented(Game, Protocol):
    """Numbers actions by the squares of a board, which is `board_turns` quarter turns from the observation's."""

    @property
    def board_turns(self) -> int: ...


@runtime_checkable
class Named(Game, Protocol):
    """Names its players for columns (value_sender rather than value_0), or says None."""

    @property
    def player_names(self) -> tuple[str, ...] | None: ...


@runtime_checkable
class Cooperative(Protocol):
    """Declares whether all seats are on one side."""

    @property
    def cooperative(self) -> bool: ...


@runtime_checkable
class Watched(Protocol):
    """Names choices whose probability is worth a column, such as a cooperation rate."""

    def choices(self) -> dict[str, tuple[Any, Any, Any]]:
        """Maps a column to seats [n], observations [n, *obs] and actions [n]; the column is their mean probability."""
        ...


@runtime_checkable
class Accumulated(Protocol):
    """Names columns whose area under the curve is logged too (trapezoids of unit spacing, the start included)."""

    @property
    def areas(self) -> tuple[str, ...]: ...


@runtime_checkable
class LooselyBounded(Protocol):
    """Declares that `return_bounds` is a typical interval rather than a limit."""

    @property
    def typical_bounds(self) -> bool: ...


@runtime_checkable
class AnyWinner(Protocol):
    """Declares that the seat which moves last may lose as often as win, against what checks of rewards expect."""

    @property
    def any_winner(self) -> bool: ...


@runtime_checkable
class Annotated(Protocol):
    """Has a remark that `gems games --check` prints, empty for none."""

    @property
    def note(self) -> str: ...


def player_names(game: Game) -> tuple[str, ...] | None:
    """The names that a game gives its players, None where it gives none."""
    return game.player_names if supports(game, Named) else None


def num_players(game: Game) -> int:
    return max(game.player_of_seat) + 1


def num_populations(game: Game) -> int:
    return max(game.population_of_player) + 1


def seats_of_player(game: Game, player: int) -> tuple[int, ...]:
    return tuple(seat for seat, owner in enumerate(game.player_of_seat) if owner == player)


def is_two_player_zero_sum(game: Game) -> bool:
    """Whether the game has exactly two players (not seats) whose returns always sum to zero."""
    return num_players(game) == 2 and game.zero_sum


def require_two_player_zero_sum(game: Game, what: str, instead: str = "psro") -> None:
    """Raises ValueError unless `game` has two players and is zero-sum.

    Args:
      game: the game to check.
      what: a singular noun for the method or quantity, the subject of the message.
      instead: what the message recommends for other games.
    """
    expect(
        is_two_player_zero_sum(game),
        f"{what} is for two-player zero-sum games: {game.name!r} has {num_players(game)} players and "
        f"zero_sum={game.zero_sum}; use {instead}",
    )


def expect(holds: object, message: str) -> None:
    """Raises ValueError with the message unless `holds`."""
    if not holds:
        raise ValueError(message)


def did_you_mean(name: object, known: Iterable[str], count: int = 1, cutoff: float = 0.6) -> str:
    """Formats the known names that are closest to an unknown one, for the middle of an error message.

    Args:
      name: the name that was not found.
      known: the names that exist.
      count: how many suggestions to make at most.
      cutoff: least similarity of a suggestion, in [0, 1].

    Returns:
      `"did you mean 'x'? "` or `"did you mean 'x' or 'y'? "`, with a trailing space; `""` if nothing is close.
    """
    close = difflib.get_close_matches(str(name), list(known), count, cutoff)
    return f"did you mean {' or '.join(map(repr, close))}? " if close else ""


class PolicyOutput(Struct):
    """Parameters of one action distribution: masked logits, or the base Gaussian of a squashed one."""

    logits: Array | None = None  # [A], illegal actions at a large negative number
    mean: Array | None = None  # [A]
    log_std: Array | None = None  # [A]
    cdf: Array | None = None  # [A - 1], of the logits without its last entry, 1, where it is known already
    row: Array | None = None  # [] int32, of the table that they are from, where play is to remember it


# apply(policy_params, observation[*obs], legal[A]) -> PolicyOutput. A static, value-hashed callable.
Apply = Callable[[PyTree, Array, Array], PolicyOutput]


class Shared(Struct):
    """A part of policy parameters that all policies of a population have in common: it is never stacked by slot.

    A stack of such policies holds it once, and a batch of their episodes meets it in one matrix product.
    """

    value: PyTree


def slot_axes(params: PyTree) -> PyTree:
    """in_axes or out_axes of a vmap over policies: 0 everywhere, None for what is `Shared`."""
    return jax.tree.map(lambda node: None if isinstance(node, Shared) else 0, params, is_leaf=_is_shared)


def take_slot(params: PyTree, index: Array | int) -> PyTree:
    """Row `index` (a number or an array of them) of stacked policy parameters; what is `Shared` stays as it is."""
    return jax.tree.map(lambda node: node if isinstance(node, Shared) else node[index], params, is_leaf=_is_shared)


def stack_policies(make: Callable[[Array], PyTree], of: Array) -> PyTree:
    """make(of[i]) for every i, stacked along a leading axis, with what is `Shared` kept once."""
    return jax.vmap(make, out_axes=slot_axes(jax.eval_shape(make, of[0])))(of)


def num_slots(params: PyTree) -> int:
    """How many policies stacked parameters hold."""
    nodes = jax.tree.leaves(params, is_leaf=_is_shared)
    return next(node for node in nodes if not isinstance(node, Shared)).shape[0]


def nbytes(tree: PyTree) -> float:
    """Bytes of all arrays of a tree."""
    return float(sum(leaf.nbytes for leaf in jax.tree.leaves(tree)))


def _is_shared(node: object) -> bool:
    return isinstance(node, Shared)


class Policy(Struct):
    """Somebody who plays: parameters, and the function that runs them."""

    params: PyTree
    apply: Apply = static_field()


@runtime_checkable
class Population(Protocol):
    """Policies indexed by slot. Every array has a leading axis P in solver states and profiles."""

    @property
    def apply(self) -> Apply: ...

    def select(self, index: Array) -> PyTree:
        """policy_params of slot `index` of ONE population (no P axis): callers index P and vmap."""
        ...


class Profile(Struct):
    """A mixture to play or to evaluate: draw a slot from sigma[p] at the start of an episode, keep it throughout."""

    population: Population  # leading axis P
    sigma: Array  # [P, K], rows sum to one


class Episode(NamedTuple):
    """What one finished episode leaves behind."""

    returns: Array  # [S]
    length: Array  # [] int32, number of environment steps


class Trajectory(Struct):
    """What some seats saw and did in T steps of play: one episode padded to max_steps, or several in a row.

    `acted` is False on padding and for seats that were not to move.
    """

    observation: Array  # [T, S, *obs] float32, or the game's `observation_dtype` where it has one
    legal: Array  # [T, S, A]
    action: Array  # [T, S] or [T, S, A]
    log_prob: Array  # [T, S]
    acted: Array  # [T, S]
    reward: Array  # [T, S]
    terminated: Array  # [T] bool, the rules ended an episode in this step
    truncated: Array  # [T] bool, a time limit did
    final_observation: Array  # [S, *obs], after the last step
    length: Array  # [] int32, environment steps taken
    row: Array | None = None  # [T, S] int32, rows of a tabular policy's table, where play remembers them


class Solver(NamedTuple):
    """A method as pure functions, as in optax. `step` may be scanned when `jittable`.

    init(key) -> state; step(state, key) -> (state, metrics); profile(state, which="iterate" | "average") -> Profile.
    `metrics` is a NamedTuple or struct of arrays of fixed shape; it always has `episodes` and `env_steps`.
    """

    init: Callable[[Array], PyTree]
    step: Callable[[PyTree, Array], tuple[PyTree, PyTree]]
    profile: Callable[..., Profile]
    jittable: bool = True
    columns: tuple[str, ...] = ()  # names of the scalar metrics


class NotEnumerableError(ValueError):
    """The game is too large, or lacks `deals`, for exact evaluation."""
