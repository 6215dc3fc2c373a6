"""check_game: a right game passes, each kind of broken game is told what is wrong with it. All games: see
test_conformance."""

import dataclasses
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.testing import GameError, check_game
from gems_jax.types import GameState


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Guess:
    """Seat 0 sees a coin and names it, seat 1 does after it; the second to be right pays the first. Two steps."""

    name: str = "guess"
    num_seats: int = 2
    num_actions: int = 2
    observation_shape: tuple[int, ...] = (2,)
    max_steps: int = 2
    simultaneous: bool = False
    continuous: bool = False
    player_of_seat: tuple[int, ...] = (0, 1)
    population_of_player: tuple[int, ...] = (0, 1)
    return_bounds: tuple[float, float] = (-1.0, 1.0)
    zero_sum: bool = True

    def init(self, key):
        return self.state(jax.random.bernoulli(key).astype(jnp.int32), jnp.int32(0), jnp.zeros(2, jnp.float32))

    def step(self, state, actions, key):
        coin, turn = state.inner
        action = jnp.where(turn == 0, actions[0], actions[1])
        pay = jnp.where(action == coin, 1.0, -1.0) * jnp.where(turn == 1, 1.0, 0.0)
        return self.state(coin, jnp.minimum(turn + 1, 2), pay * jnp.array([-1.0, 1.0]))

    def deals(self):
        coins = jnp.arange(2, dtype=jnp.int32)
        state = jax.vmap(lambda coin: self.state(coin, jnp.int32(0), jnp.zeros(2, jnp.float32)))
        return state(coins), jnp.array([0.5, 0.5])

    def state(self, coin, turn, reward):
        to_move = jnp.arange(2) == turn
        return GameState(
            inner=(coin, turn),
            observation=jnp.stack([jnp.float32(coin) * jnp.ones(2), jnp.float32(turn) * jnp.ones(2)]),
            legal=to_move[:, None] & jnp.ones((2, 2), jnp.bool_),
            to_move=to_move,
            reward=reward,
            terminated=turn == 2,
            truncated=jnp.zeros((), jnp.bool_),
        )


def variant(**methods):
    """Guess with some methods replaced, as a static pytree."""
    return jax.tree_util.register_static(dataclasses.dataclass(frozen=True)(type("Variant", (Guess,), methods)))


def after_step(change):
    """A game whose step is Guess's followed by `change(game, before, actions, after)`."""
    return variant(step=lambda self, s, a, k: change(self, s, a, Guess.step(self, s, a, k)))()


def with_state(**changes):
    """A game whose states have fields replaced: name=function of the state."""

    def state(self, coin, turn, reward):
        made = Guess.state(self, coin, turn, reward)
        return dataclasses.replace(made, **{name: change(made) for name, change in changes.items()})

    return variant(state=state)()


class Counting:
    calls = 0


def impure(self, before, actions, after):
    Counting.calls += 1
    return dataclasses.replace(after, observation=after.observation + Counting.calls)


def knows_jit(self, before, actions, after):
    traced = isinstance(after.reward, jax.core.Tracer)
    return dataclasses.replace(after, observation=after.observation + traced)


@jax.custom_batching.custom_vmap
def one_alone_two_together(x):
    return x + 1.0


@one_alone_two_together.def_vmap
def _(axis_size, in_batched, x):
    return x + 2.0, in_batched[0]


class NotRegistered(Guess):
    pass


@jax.tree_util.register_static
class ByIdentity(Guess):
    __eq__ = object.__eq__
    __hash__ = object.__hash__


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Unhashable(Guess):
    settings: tuple = ([],)


class Label:
    """Compares by identity."""


@partial(
    jax.tree_util.register_dataclass,
    data_fields=[],
    meta_fields=[field.name for field in dataclasses.fields(Guess)] + ["label"],
)
@dataclasses.dataclass(frozen=True)
class Relabelled(Guess):
    """Equal to its copies by its own word, but not for jit, which compares the static fields."""

    label: Label = dataclasses.field(default_factory=Label)

    def __eq__(self, other):
        return True

    def __hash__(self):
        return 0


class Incomplete:
    name = "incomplete"
    num_seats = 2


FIRST = np.array([True, False])
BROKEN = {
    "lacks an attribute": (lambda: Incomplete(), "lacks .*num_actions"),
    "no steps": (lambda: Guess(max_steps=0), "max_steps must be an int of at least 1, got 0"),
    "observation_shape": (lambda: Guess(observation_shape=2), "observation_shape must be a tuple"),
    "players": (lambda: Guess(player_of_seat=(0, 2)), "player_of_seat must be a tuple of 2 integers"),
    "populations": (lambda: Guess(population_of_player=(0,)), "population_of_player must be a tuple of 2"),
    "bounds order": (lambda: Guess(return_bounds=(1.0, -1.0)), "low < high"),
    "not static": (lambda: NotRegistered(), "register_static"),
    "identity": (lambda: ByIdentity(), "an exact copy of the game is not equal"),
    "unhashable": (lambda: Unhashable(), "cannot be hashed"),
    "retraces": (lambda: Relabelled(), "was traced again"),
    "no GameState": (lambda: variant(init=lambda self, key: 3)(), "init must give a GameState, got int"),
    "shape": (lambda: Guess(observation_shape=(3,)), r"observation as float32\[2, 2\], declared is float32\[2, 3\]"),
    "dtype": (
        lambda: with_state(legal=lambda s: s.legal.astype(jnp.int32)),
        r"legal as int32\[2, 2\], declared is bool",
    ),
    "carry": (
        lambda: after_step(lambda g, s, a, t: dataclasses.replace(t, inner=(t.inner[0], t.inner[1] * 1.0))),
        "step 1: inner.* changed from .*int32.* to .*float32.* a loop cannot carry it",
    ),
    "impure": (lambda: after_step(impure), "step 1 is not pure: .* different observation"),
    "jit": (lambda: after_step(knows_jit), r"step 1: jit\(step\) differs from step in observation"),
    "vmap": (
        lambda: after_step(
            lambda g, s, a, t: dataclasses.replace(t, observation=one_alone_two_together(t.observation))
        ),
        r"vmap\(step\) differs from step in observation",
    ),
    "starts over": (lambda: with_state(terminated=lambda s: s.inner[1] >= 0), "init gives a finished game"),
    "starts paid": (lambda: with_state(reward=lambda s: s.reward + 1.0), "init gives a reward"),
    "nan": (lambda: with_state(observation=lambda s: s.observation * jnp.nan), "not finite"),
    "both ends": (lambda: with_state(truncated=lambda s: s.terminated), "both terminated and truncated"),
    "moves after the end": (
        lambda: with_state(to_move=lambda s: s.to_move | (FIRST & s.done)),
        "step 2: a seat is to move in a finished game",
    ),
    "nobody moves": (lambda: with_state(to_move=lambda s: s.to_move & FIRST), "step 1: nobody is to move"),
    "both move": (lambda: with_state(to_move=lambda s: s.to_move | ~s.done), "two seats move at once"),
    "legal out of turn": (
        lambda: with_state(legal=lambda s: ~s.legal | s.legal),
        "has legal actions but is not to move",
    ),
    "nothing legal": (lambda: with_state(legal=lambda s: s.legal & FIRST[:, None]), "step 1: .* has no legal action"),
    "idle action": (
        lambda: after_step(
            lambda g, s, a, t: dataclasses.replace(t, observation=t.observation + jnp.float32(a)[:, None])
        ),
        "the action of a seat that is not to move changed observation",
    ),
    "pays again": (
        lambda: after_step(
            lambda g, s, a, t: dataclasses.replace(t, reward=t.reward + s.done * jnp.array([1.0, -1.0]))
        ),
        "step 3: a finished game pays a reward",
    ),
    "not absorbing": (
        lambda: after_step(lambda g, s, a, t: dataclasses.replace(t, observation=t.observation + s.done)),
        "step 3: a finished game is not absorbing: .* changed observation",
    ),
    "too long": (lambda: Guess(max_steps=1), "32 of 32 episodes still run after max_steps = 1"),
    "out of bounds": (lambda: Guess(return_bounds=(-0.5, 0.5)), r"outside return_bounds = \(-0.5, 0.5\)"),
    "not zero-sum": (
        lambda: after_step(lambda g, s, a, t: dataclasses.replace(t, reward=jnp.abs(t.reward))),
        "zero_sum is claimed, but the players' returns add up to 2",
    ),
    "deals sum": (
        lambda: variant(deals=lambda self: (Guess.deals(self)[0], jnp.array([0.5, 0.6])))(),
        "deals: probabilities must .* sum 1.1",
    ),
    "deals shape": (
        lambda: variant(deals=lambda self: (Guess.deals(self)[0], jnp.ones(1)))(),
        r"deals gives observation as float32\[2, 2, 2\], declared is float32\[1, 2, 2\]",
    ),
    "deals odds": (
        lambda: variant(deals=lambda self: (Guess.deals(self)[0], jnp.array([0.3, 0.7])))(),
        "deals: a start of probability 0.[37]000 came up in 0.[45]",
    ),
    "deals incomplete": (
        lambda: variant(deals=lambda self: (jax.tree.map(lambda x: x[:1], Guess.deals(self)[0]), jnp.ones(1)))(),
        "start in a state that deals does not list",
    ),
}


def test_a_right_game_passes():
    check_game(Guess())


@pytest.mark.parametrize("defect", BROKEN)
def test_broken_games_are_caught(defect):
    make, message = BROKEN[defect]
    with pytest.raises(GameError, match=message):
        check_game(make())


def test_typical_bounds_are_not_limits():
    check_game(variant(typical_bounds=True)(return_bounds=(-0.5, 0.5)))


def test_episodes_must_be_positive():
    with pytest.raises(ValueError, match="at least 1, got 0"):
        check_game(Guess(), episodes=0)
