"""The walk itself: positions, layers and information sets of small games counted by hand, and what it refuses."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game
from gems_jax.extensive.walk import Positions, Walk, as_bytes, is_pytree
from gems_jax.types import NotEnumerableError


def finished(game, max_nodes=10_000):
    walk = Walk(game, max_nodes)
    return walk, walk.run()


def test_a_matrix_game_is_one_joint_move():
    walk, leaves = finished(make_game("prisoners_dilemma"))
    assert walk.nodes == 1 + 4 and [len(part.chance) for part in leaves] == [0, 4]
    ends = Positions.join(leaves)
    np.testing.assert_allclose(ends.chance, 1.0)
    np.testing.assert_allclose(ends.returns, [[3, 3], [0, 5], [5, 0], [1, 1]])
    (layer,) = walk.layers
    np.testing.assert_array_equal(layer.actions, [[0, 0], [0, 1], [1, 0], [1, 1]])
    np.testing.assert_array_equal(layer.parent, 0)
    np.testing.assert_array_equal(layer.infosets, [[0, 1]])
    assert walk.seat == [0, 1] and walk.parent == [-1, -1] and walk.number == []


def test_kuhn_poker_by_depth():
    """6 deals; pass and bet; then 6 x 2 decisions of seat 1; then 6 positions after pass-bet."""
    walk, leaves = finished(make_game("kuhn_poker"))
    assert [len(done) for done in walk.done] == [6, 12, 24, 12]
    assert [int(done.sum()) for done in walk.done] == [0, 0, 18, 12] == [len(part.chance) for part in leaves]
    assert walk.nodes == 54 and len(walk.seat) == 12 == len(walk.index)
    np.testing.assert_allclose(walk.deal_chance, 1 / 6)
    assert [layer.infosets.shape for layer in walk.layers] == [(6, 2), (12, 2), (6, 2)]
    assert sorted(walk.number) == list(range(12))
    ends = Positions.join(leaves)
    np.testing.assert_allclose(ends.chance.sum(), 30 / 6, rtol=1e-6)
    np.testing.assert_allclose(ends.returns.sum(axis=1), 0.0)
    assert set(np.abs(ends.returns[:, 0])) == {1.0, 2.0}


def test_sequences_point_to_the_last_own_move():
    """Seat 0 of Kuhn acts again only after its own pass (action 1): its second sets hang on that sequence."""
    walk, _ = finished(make_game("kuhn_poker"))
    second = [infoset for infoset, parent in enumerate(walk.parent) if parent >= 0]
    assert len(second) == 3 and {walk.seat[infoset] for infoset in second} == {0}
    assert all(walk.parent[infoset] % 2 == 1 and walk.seat[walk.parent[infoset] // 2] == 0 for infoset in second)


def test_rewards_are_expected_ones_where_the_game_knows_them():
    game = make_game("deceptive_messages", arms=2, means=(0.75, 0.25), target=1)
    _, leaves = finished(game)
    ends = Positions.join(leaves)
    assert sorted(set(ends.returns[:, 1].tolist())) == [0.25, 0.75]  # what the arms pay on average


def test_too_many_positions_are_refused_before_they_are_made():
    with pytest.raises(NotEnumerableError, match=r"42 positions .* over the limit of 20 \(max_nodes\)"):
        Walk(make_game("kuhn_poker"), 20).run()


@pytest.mark.parametrize(
    ("name", "options", "why"),
    [
        ("simple_spread", {"continuous": True}, "its actions are continuous"),
        ("simple_spread", {}, "no `deals`"),
        ("hanabi", {}, "no `deals`"),
    ],
)
def test_what_cannot_be_walked_says_why(name, options, why):
    with pytest.raises(NotEnumerableError, match=why):
        Walk(make_game(name, **options), 100).run()


@pytest.mark.parametrize("masses", [[0.5, 0.6], [1.5, -0.5], [[1.0]]])
def test_probabilities_of_deals_are_checked(masses):
    @jax.tree_util.register_static
    @dataclasses.dataclass(frozen=True)
    class Broken(type(make_game("kuhn_poker"))):
        def deals(self):
            states, _ = super().deals()
            return jax.tree.map(lambda leaf: leaf[:2], states), jnp.asarray(masses)

    with pytest.raises(ValueError, match="probabilities"):
        Walk(Broken(), 1000).run()


def test_games_are_arguments_of_a_program_when_they_are_pytrees():
    class Plain:
        pass

    assert is_pytree(make_game("kuhn_poker")) and is_pytree(make_game("biased_rps")) and not is_pytree(Plain())


def test_rows_as_bytes_tell_numbers_apart():
    rows = as_bytes(np.asarray([[1.0, 2.0], [1.0, 2.5], [1.0, 2.0]], np.float32))
    assert rows.shape == (3, 8) and (rows[0] == rows[2]).all() and (rows[0] != rows[1]).any()
