"""The types that all parts share: structs, capabilities, messages."""

import dataclasses

import jax
import jax.numpy as jnp
import pytest

from gems_jax import make_game
from gems_jax.rollout.views import view
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


def test_capabilities_are_seen_through_wrappers():
    kuhn, pennies = make_game("kuhn_poker"), make_game("matching_pennies")
    assert supports(kuhn, Enumerable) and supports(view(kuhn, 1), Enumerable)
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
