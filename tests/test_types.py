"""The types that all parts share: structs, capabilities, messages."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from gems_jax import GemsConfig, load, make_game, make_solver, preset
from gems_jax.rollout.views import make_view
from gems_jax.types import (
    Bounded,
    Branching,
    Enumerable,
    Named,
    Struct,
    did_you_mean,
    is_two_player_zero_sum,
    require_two_player_zero_sum,
    static_field,
    supports,
)


class Point(Struct):
    x: jax.Array
    name: str = static_field(default="p")


class Labeled(Point):
    y: float = 0.0


def test_structs_are_frozen_pytrees_whose_static_fields_are_structure():
    point = Labeled(jnp.ones(2), y=3.0)
    assert len(jax.tree.leaves(point)) == 2
    assert jax.tree.structure(point) != jax.tree.structure(point.replace(name="q"))
    doubled = jax.jit(lambda p: jax.tree.map(lambda leaf: 2 * leaf, p))(point)
    assert isinstance(doubled, Labeled) and doubled.y == 6.0 and doubled.name == "p"
    with pytest.raises(dataclasses.FrozenInstanceError):
        point.y = 1.0  # type: ignore[misc]
    with pytest.raises(TypeError, match="z"):
        point.replace(z=1)


def test_structs_are_shown_in_a_few_words():
    assert repr(Labeled(jnp.ones(2), y=3.0)) == "Labeled(x=float32[2], y=3.0)"
    assert repr(Point(jnp.float32(0.25), name="q")) == "Point(x=0.25, name='q')"
    assert repr(Point(jax.random.key(0))) == "Point(x=key<fry>[])"
    assert repr(Point({"a": jnp.ones(2), "b": [jnp.ones(3)]})) == "Point(x=2 arrays (20 bytes))"
    assert repr(Point(Point(jnp.zeros((2, 3), bool)))) == "Point(x=Point(x=bool[2,3]))"
    assert repr(Point("x" * 200)) == f"Point(x='{'x' * 55} ...)"
    shown: list[str] = []
    jax.jit(lambda x: shown.append(repr(Point(x))))(1.0)
    assert shown == ["Point(x=float32[])"]


def test_what_a_user_prints_fits_a_screen(kuhn_gems):
    solver = make_solver("gems", kuhn_gems.game, kuhn_gems.config)
    metrics = jax.eval_shape(kuhn_gems.step, kuhn_gems.start, jax.random.key(0), kuhn_gems.config)[1]
    big = preset("connect_four", "tuned")
    values = (
        kuhn_gems.start,
        metrics,
        solver,
        solver.profile(kuhn_gems.start),
        big,
        kuhn_gems.game.init(jax.random.key(0)),
    )
    for value in (*values, load("kuhn")):
        lines = repr(value).splitlines()
        assert len(lines) <= 24 and max(map(len, lines)) <= 120 and "Array(" not in repr(value), repr(value)
    assert repr(GemsConfig()) == "GemsConfig()"
    assert repr(GemsConfig(eta=0.1, capacity=8)) == "GemsConfig(capacity=8, eta=0.1)"


def test_capabilities_are_seen_through_wrappers():
    kuhn, pennies = make_game("kuhn_poker"), make_game("matching_pennies")
    assert supports(kuhn, Enumerable) and supports(make_view(kuhn, 1), Enumerable)
    assert supports(kuhn, Bounded) and not kuhn.truncates
    assert not supports(kuhn, Branching) and not supports(pennies, Named) and not supports(3, Enumerable)
    assert supports(make_game("deceptive_messages"), Named)


def test_suggestions_and_the_zero_sum_check():
    assert did_you_mean("khun", ("kuhn", "leduc")) == "did you mean 'kuhn'? "
    assert did_you_mean("simple", ("simple_a", "simple_b"), 2) == "did you mean 'simple_b' or 'simple_a'? "
    assert did_you_mean("xyz", ("kuhn",)) == ""
    game = make_game("prisoners_dilemma")
    assert is_two_player_zero_sum(make_game("kuhn_poker")) and not is_two_player_zero_sum(game)
    with pytest.raises(ValueError, match="neupl is for two-player zero-sum games: 'prisoners_dilemma'.*use psro"):
        require_two_player_zero_sum(game, "neupl")
