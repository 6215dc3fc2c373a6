"""Interfaces of gems_jax: games, policies, populations and solvers.

All other modules communicate through these types. A *seat* acts in the game. A *player* is the unit that deviates: one
seat, or a team of seats that play one policy and earn the mean of their rewards. A *population* is the set of policies
that one or several players are drawn from.

Axes, used in comments and shape checks everywhere:

    P populations   S seats      K anchor slots   C candidates   N opponents   M episodes
    B joint samples T time       D latent         A actions      I information sets

Masks are named after the meaning of True: `active` (the slot holds an anchor), `legal` (the action may be played),
`to_move` (the seat acts now). Array arguments of public functions have jaxtyping annotations with these axes. They are
not checked at run time, unless you wrap a function in `jaxtyping.jaxtyped`.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol, Self, TypeGuard, TypeVar, dataclass_transform, runtime_checkable

import jax
import numpy as np
from jaxtyping import Int, Key

Array = jax.Array
PyTree = Any
PRNGKey = Key[Array, ""]  # one typed key, as `jax.random.key` makes it

C = TypeVar("C")


def static_field(**kwargs: Any) -> Any:
    """Declares a dataclass field that is part of the tree's structure: hashed, not traced."""
    return dataclasses.field(metadata={"static": True}, **kwargs)


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field, static_field))
class Struct:
    """Makes subclasses frozen dataclasses and pytrees: plain fields are leaves, `static_field`s are structure.

    A subclass needs no decorator::

        class Point(Struct):
            x: Array
            name: str = static_field(default="")
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        jax.tree_util.register_dataclass(dataclasses.dataclass(frozen=True, repr=False)(cls))

    def replace(self, **changes: Any) -> Self:
        """Returns a copy with some fields changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    def __repr__(self) -> str:
        """Shows the fields that differ from their defaults; arrays by shape, trees by size."""
        changed = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)  # type: ignore[arg-type]
            if not _is_plain_and_equal(getattr(self, field.name), field.default)
        }
        return format_fields(type(self).__name__, {name: describe_value(value) for name, value in changed.items()})


_WIDTH = 100  # characters of a line
_LONGEST = 60  # characters of a field


def _is_plain_and_equal(value: Any, default: Any) -> bool:
    """Whether a field holds its default. Arrays are not compared."""
    return type(value) is type(default) and not hasattr(value, "dtype") and bool(value == default)


def format_fields(name: str, fields: Mapping[str, str]) -> str:
    """Formats a short `repr`: `Name(a=1, b=f32[2])`, on several lines if it is wider than a screen.

    Args:
      name: name of the class.
      fields: summary of each field.

    Returns:
      The text.
    """
    parts = [f"{field}={text}" for field, text in fields.items()]
    if len(line := f"{name}({', '.join(parts)})") <= _WIDTH:
        return line
    lines = [""]
    for part in parts:
        if lines[-1] and len(lines[-1]) + len(part) > _WIDTH - 6:
            lines.append("")
        lines[-1] += f"{part}, "
    return "\n".join([f"{name}(", *(f"    {line.rstrip()}" for line in lines), ")"])


def describe_value(value: Any) -> str:
    """Describes a value in a few words: scalars by value, arrays by dtype and shape, trees by number and size.

    Args:
      value: any value, such as a field of a struct.

    Returns:
      A short text without line breaks.
    """
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        number = isinstance(value, np.ndarray | np.generic | jax.Array) and not isinstance(value, jax.core.Tracer)
        if value.shape or not number or jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended):
            return f"{value.dtype}[{','.join(map(str, value.shape))}]"
        return f"{value.item():.6g}" if isinstance(value.item(), float) else str(value.item())
    arrays = [leaf for leaf in jax.tree.leaves(value) if hasattr(leaf, "shape")]
    if not arrays:
        text = repr(value)
        return text if len(text) <= _LONGEST and "\n" not in text else f"{text.split(chr(10))[0][: _LONGEST - 4]} ..."
    if isinstance(value, Struct) and len(text := repr(value)) <= _LONGEST and "\n" not in text:
        return text
    size = sum(np.prod(leaf.shape, dtype=int) * getattr(leaf.dtype, "itemsize", 8) for leaf in arrays)
    held = f"{len(arrays)} array{'s' * (len(arrays) != 1)} ({_format_bytes(size)})"
    return f"{type(value).__name__}({held})" if isinstance(value, Struct) else held


def _format_bytes(count: int) -> str:
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count} bytes"


class GameState(Struct):
    """One state of one game. A finished state is absorbing: stepping it changes nothing and earns reward 0.

    Attributes:
      inner: the game's own state, any pytree.
      observation: what each seat sees, [S, *observation_shape] float32.
      legal: legal actions, [S, A] bool, all False for seats that do not move.
      to_move: seats that act now, [S] bool, all False when the game is over.
      reward: rewards of the last step, [S] float32.
      terminated: whether the rules ended the game, [] bool.
      truncated: whether a time limit ended the game, [] bool. Values bootstrap here.
      infoset: index of the information set of each seat that is to move, [S] int32, for policies that are tables. None
        in games that do not index their information sets.
    """

    inner: PyTree
    observation: Array
    legal: Array
    to_move: Array
    reward: Array
    terminated: Array
    truncated: Array
    infoset: Array | None = None

    @property
    def done(self) -> Array:
        """Whether the game is over, [] bool."""
        return self.terminated | self.truncated


@runtime_checkable
class Game(Protocol):
    """Interface of a game: pure functions on a frozen, value-hashed object without array leaves.

    Equal games compile once. Optional capabilities of a game have protocols of their own below, from `Enumerable` to
    `Annotated`; query them with `supports`.

    Attributes:
      name: identifies the game in messages and files.
      num_seats: S.
      num_actions: A, the number of discrete actions; in continuous games the dimension of an action.
      observation_shape: shape of one seat's observation.
      max_steps: upper bound on the steps of an episode.
      simultaneous: whether several seats may be to move at once.
      continuous: whether actions are real vectors.
      player_of_seat: player of each seat, S integers.
      population_of_player: population of each player.
      return_bounds: lowest and highest episode return of one player. Estimators scale by this interval.
      zero_sum: whether the returns of all players always sum to zero.
    """

    @property
    def name(self) -> str: ...
    @property
    def num_seats(self) -> int: ...
    @property
    def num_actions(self) -> int: ...
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

    def init(self, key: PRNGKey) -> GameState:
        """Starts an episode.

        Args:
          key: typed PRNG key; consumed.

        Returns:
          The first state.
        """
        ...

    def step(self, state: GameState, actions: Array, key: PRNGKey) -> GameState:
        """Advances the game by one step.

        Args:
          state: the current state.
          actions: actions of all seats, [S] int32, or [S, num_actions] float32 in continuous games. Entries of seats
            that are not to move are ignored.
          key: typed PRNG key; consumed.

        Returns:
          The next state; `state` with reward 0 if it is finished.
        """
        ...


def supports(game: object, capability: type[C]) -> TypeGuard[C]:
    """Checks whether a game has every member of an optional capability.

    Unlike `isinstance`, this sees through wrappers that forward attribute access to the wrapped game.

    Args:
      game: any object.
      capability: one of the protocols of this module, such as `Enumerable`.

    Returns:
      True if the game has all members of the protocol.
    """
    names = dict.fromkeys((*vars(capability), *capability.__annotations__))
    return all(hasattr(game, name) for name in names if not name.startswith("_"))


@runtime_checkable
class Enumerable(Game, Protocol):
    """Lists its initial states. If `step` ignores its key and the tree is small, evaluation is exact."""

    def deals(self) -> tuple[GameState, Array]:
        """Returns all initial states, leaves [N, ...], and their probabilities, [N]."""
        ...


@runtime_checkable
class Branching(Game, Protocol):
    """Enumerates its tree on the host, where chance may act after any move. Branches are (chance, state, seen)."""

    def starts(self) -> list[Any]:
        """Returns the branches before the first move."""
        ...

    def branches(self, state: Any, actions: np.ndarray) -> list[Any]:
        """Returns the branches that the actions [S] may lead to from a branch's state."""
        ...


@runtime_checkable
class KnownSize(Game, Protocol):
    """Declares the size of its tree. Exact evaluation then enumerates it beyond the default size limit."""

    @property
    def num_positions(self) -> int:
        """Number of nodes of the game tree, including terminal ones."""
        ...


@runtime_checkable
class RoughlySized(Protocol):
    """Declares the order of magnitude of its number of positions, so that a tree that is too large is never begun."""

    @property
    def approximate_positions(self) -> float:
        """Order of magnitude of the number of positions; 0 if unknown."""
        ...


@runtime_checkable
class ActionNaming(Protocol):
    """Names actions for transcripts and for play in the terminal."""

    def action_name(self, state: GameState, action: int) -> str:
        """Names an action in a position, such as `take 2`. Both are concrete, not traced."""
        ...


@runtime_checkable
class Described(Protocol):
    """Describes positions for transcripts and for play in the terminal."""

    def describe(self, state: GameState, seat: int | None) -> str:
        """Describes a position as a seat sees it; None: as a spectator sees it who knows everything."""
        ...


@runtime_checkable
class Evaluating(Game, Protocol):
    """Has an exact evaluation of its own, for trees that are too large to enumerate here."""

    def best_response_gains(self, profile: Profile) -> np.ndarray:
        """Computes BR_p - u_p of a profile, [players] float64, on the host. The sum is NashConv."""
        ...


@runtime_checkable
class Averaging(Game, Protocol):
    """Has random rewards whose expectation is known, so that exact evaluation can step the game without a key."""

    def expected_step(self, state: GameState, actions: Array) -> GameState: ...


@runtime_checkable
class InfosetTable(Game, Protocol):
    """Lists its information sets without enumerating its tree."""

    def infosets(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns observations [I, *observation_shape] and legal actions [I, A]."""
        ...


@runtime_checkable
class Hosted(Game, Protocol):
    """Runs in Python when `on_host` is True. Programs that play it are split into stages (`gems_jax.host.stages`)."""

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
    """Declares whether a time limit can end an episode. If not, learners never bootstrap from a final state."""

    @property
    def truncates(self) -> bool: ...


@runtime_checkable
class CompactObservations(Game, Protocol):
    """Declares a dtype smaller than float32 that holds its observations without loss. Trajectories store it."""

    @property
    def observation_dtype(self) -> Any: ...


@runtime_checkable
class BoardOriented(Game, Protocol):
    """Indexes actions by the squares of a board, rotated by `board_turns` quarter turns from the observation's."""

    @property
    def board_turns(self) -> int: ...


@runtime_checkable
class Named(Game, Protocol):
    """Names its players for columns (value_sender rather than value_0), or returns None."""

    @property
    def player_names(self) -> tuple[str, ...] | None: ...


@runtime_checkable
class Cooperative(Protocol):
    """Declares whether all seats share one objective."""

    @property
    def cooperative(self) -> bool: ...


@runtime_checkable
class Watched(Protocol):
    """Names choices whose probability is logged, such as a cooperation rate."""

    def choices(self) -> dict[str, tuple[Any, Any, Any]]:
        """Maps a column to seats [n], observations [n, *obs] and actions [n]; the column is their mean probability."""
        ...


@runtime_checkable
class Accumulated(Protocol):
    """Names columns whose area under the curve is also logged (trapezoidal rule, unit spacing, from the start)."""

    @property
    def areas(self) -> tuple[str, ...]: ...


@runtime_checkable
class LooselyBounded(Protocol):
    """Declares that `return_bounds` is a typical interval that returns may leave."""

    @property
    def typical_bounds(self) -> bool: ...


@runtime_checkable
class AnyWinner(Protocol):
    """Declares that the seat which moves last may lose as often as win. Reward checks then allow both."""

    @property
    def any_winner(self) -> bool: ...


@runtime_checkable
class Annotated(Protocol):
    """Has a remark that `gems games --check` prints, empty for none."""

    @property
    def note(self) -> str: ...


def player_names(game: Game) -> tuple[str, ...] | None:
    """Returns the names of a game's players, or None if the game does not name them."""
    return game.player_names if supports(game, Named) else None


def num_players(game: Game) -> int:
    """Counts the players: seats, or teams of seats."""
    return max(game.player_of_seat) + 1


def num_populations(game: Game) -> int:
    """Counts the populations that players are drawn from."""
    return max(game.population_of_player) + 1


def seats_of_player(game: Game, player: int) -> tuple[int, ...]:
    """Returns the seats of a player, in ascending order."""
    return tuple(seat for seat, owner in enumerate(game.player_of_seat) if owner == player)


def is_two_player_zero_sum(game: Game) -> bool:
    """Checks whether the game has exactly two players (not seats) whose returns always sum to zero."""
    return num_players(game) == 2 and game.zero_sum


def require_two_player_zero_sum(game: Game, what: str, instead: str = "psro") -> None:
    """Raises ValueError unless `game` has two players and is zero-sum.

    Args:
      game: the game to check.
      what: a singular noun for the method or quantity, the subject of the message.
      instead: what the message recommends for other games.

    Raises:
      ValueError: for any other game.
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

    Names that contain the unknown one follow those that are spelled similarly: kuhn_poker for kuhn.

    Args:
      name: the name that was not found.
      known: the names that exist.
      count: how many suggestions to make at most.
      cutoff: minimum similarity of a suggestion, in [0, 1].

    Returns:
      `"did you mean 'x'? "` or `"did you mean 'x' or 'y'? "`, with a trailing space; `""` if nothing is close.
    """
    known, word = list(known), str(name).lower()
    close = difflib.get_close_matches(str(name), known, count, cutoff)
    longer = [each for each in known if len(word) > 2 and word in each.lower() and each not in close]
    close += sorted(longer, key=len)[: count - len(close)]
    return f"did you mean {' or '.join(map(repr, close))}? " if close else ""


class PolicyOutput(Struct):
    """Parameters of one action distribution: masked logits, or the base Gaussian of a squashed one.

    Attributes:
      logits: [A], a large negative number for illegal actions. None if actions are continuous.
      mean: [A], of the base Gaussian.
      log_std: [A], of the base Gaussian.
      cdf: [A - 1], cumulative probabilities of the logits without the last entry, 1, if already computed.
      row: [] int32, row of the policy's table, if the policy is a table and play records it.
    """

    logits: Array | None = None
    mean: Array | None = None
    log_std: Array | None = None
    cdf: Array | None = None
    row: Array | None = None


# apply(policy_params, observation[*obs], legal[A]) -> PolicyOutput. A static, value-hashed callable.
Apply = Callable[[PyTree, Array, Array], PolicyOutput]


class Shared(Struct):
    """Marks policy parameters that all policies of a population have in common, so they are not stacked by slot.

    A stack of policies holds them once, and a batch of episodes applies them in one matrix product.
    """

    value: PyTree


def slot_axes(params: PyTree) -> PyTree:
    """Returns in_axes or out_axes of a vmap over policies: 0 for stacked parameters, None for `Shared` ones."""
    return jax.tree.map(lambda node: None if isinstance(node, Shared) else 0, params, is_leaf=_is_shared)


def take_slot(params: PyTree, index: Array | int) -> PyTree:
    """Selects policies from stacked parameters.

    Args:
      params: stacked policy parameters [K, ...]; `Shared` parts have no axis K.
      index: slot or slots, int32 of any shape.

    Returns:
      Parameters with the axes of `index` in place of K; `Shared` parts are unchanged.
    """
    return jax.tree.map(lambda node: node if isinstance(node, Shared) else node[index], params, is_leaf=_is_shared)


def stack_policies(make: Callable[[Array], PyTree], of: Array) -> PyTree:
    """Stacks the policies make(of[0]), make(of[1]), ... along a leading axis.

    Args:
      make: maps one entry of `of` to policy parameters.
      of: [K, ...], such as slots or latent codes.

    Returns:
      Parameters [K, ...]; `Shared` parts are stored once.
    """
    return jax.vmap(make, out_axes=slot_axes(jax.eval_shape(make, of[0])))(of)


def num_slots(params: PyTree) -> int:
    """Counts the policies in stacked parameters."""
    nodes = jax.tree.leaves(params, is_leaf=_is_shared)
    return next(node for node in nodes if not isinstance(node, Shared)).shape[0]


def nbytes(tree: PyTree) -> float:
    """Sums the bytes of all arrays of a tree."""
    return float(sum(leaf.nbytes for leaf in jax.tree.leaves(tree)))


def _is_shared(node: object) -> bool:
    return isinstance(node, Shared)


class Policy(Struct):
    """A policy: parameters, and the function that applies them.

    Attributes:
      params: policy parameters, any pytree.
      apply: apply(params, observation [*obs], legal [A]) -> `PolicyOutput`; static.
    """

    params: PyTree
    apply: Apply = static_field()


@runtime_checkable
class Population(Protocol):
    """Interface of a set of policies that are indexed by slot.

    Arrays have a leading axis P in solver states and profiles.

    Attributes:
      apply: the function that applies the parameters of every policy, as in `Policy`.
    """

    @property
    def apply(self) -> Apply: ...

    def select(self, index: Int[Array, ""]) -> PyTree:
        """Returns the parameters of one policy of ONE population: callers index P and vmap.

        Args:
          index: slot, [] int32.

        Returns:
          Policy parameters for `apply`.
        """
        ...


class Profile(Struct):
    """A mixture of policies for every population, to play or to evaluate.

    A player draws one slot from its population's sigma at the start of an episode and plays it until the end.

    Attributes:
      population: the policies, with leading axis P.
      sigma: meta-strategy, [P, K], rows sum to one.
    """

    population: Population
    sigma: Array


@runtime_checkable
class HasProfile(Protocol):
    """Has a mixture to play, such as a policy that `gems_jax.load` returns.

    Attributes:
      game: the game that the mixture plays.
      profile: the mixture.
    """

    @property
    def game(self) -> Game: ...
    @property
    def profile(self) -> Profile: ...


Mixture = Profile | HasProfile


def is_mixture(value: object) -> TypeGuard[Mixture]:
    """Checks whether a value is a mixture of policies: a `Profile`, or an object that has one."""
    return isinstance(value, Profile) or (hasattr(value, "profile") and hasattr(value, "game"))


def profile_of(game: Game, mixture: Mixture) -> Profile:
    """Returns the profile of a mixture.

    Args:
      game: the game to play.
      mixture: a `Profile`, or an object that has one, such as a policy that `gems_jax.load` returns.

    Returns:
      The profile.

    Raises:
      ValueError: if the mixture was trained on another game.
    """
    if isinstance(mixture, Profile):
        return mixture
    if mixture.game != game:
        raise ValueError(
            f"play in {game.name}: expected a policy of this game, got one of {mixture.game.name}. Play its own game, "
            "`policy.game`, which has the same options as in training."
        )
    return mixture.profile


class Episode(NamedTuple):
    """Result of one finished episode.

    Attributes:
      returns: sum of each seat's rewards, [S].
      length: environment steps, [] int32.
    """

    returns: Array
    length: Array


class Trajectory(Struct):
    """Observations and actions of some seats in T steps of play: one episode padded to max_steps, or several in a row.

    Attributes:
      observation: [T, S, *obs] float32, or the game's `observation_dtype` if it declares one.
      legal: [T, S, A] bool.
      action: [T, S] int32, or [T, S, A] float32 if continuous.
      log_prob: log-probability of the action, [T, S].
      acted: [T, S] bool, False on padding and for seats that were not to move.
      reward: [T, S].
      terminated: [T] bool, whether the rules ended an episode in this step.
      truncated: [T] bool, whether a time limit did.
      final_observation: [S, *obs], after the last step.
      final_legal: [S, A] bool, after the last step.
      length: environment steps, [] int32.
      row: rows of a tabular policy's table, [T, S] int32, if play records them.
    """

    observation: Array
    legal: Array
    action: Array
    log_prob: Array
    acted: Array
    reward: Array
    terminated: Array
    truncated: Array
    final_observation: Array
    final_legal: Array
    length: Array
    row: Array | None = None


class Solver(NamedTuple):
    """A method as a bundle of pure functions, like an optax optimizer.

    Attributes:
      init: init(key) -> state.
      step: step(state, key) -> (state, metrics), one iteration. `metrics` is a NamedTuple or struct of arrays of fixed
        shape that always has `episodes` and `env_steps`.
      profile: profile(state, which="iterate" | "average") -> `Profile`, of the last iteration or averaged over the run.
      jittable: whether `step` may be compiled and scanned; False if it runs Python code.
      columns: names of the scalar metrics.
    """

    init: Callable[[Array], PyTree]
    step: Callable[[PyTree, Array], tuple[PyTree, PyTree]]
    profile: Callable[..., Profile]
    jittable: bool = True
    columns: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Shows the options, and the functions by name only."""
        return f"Solver(init, step, profile, jittable={self.jittable}, columns={len(self.columns)})"


class NotEnumerableError(ValueError):
    """Exact evaluation is not possible: the game is too large, or it does not list its initial states (`deals`)."""


class ImperfectRecallError(NotEnumerableError):
    """A seat observes the same after two different sequences of its own moves, and the method needs perfect recall."""
