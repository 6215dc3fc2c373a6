"""Small games of OpenSpiel as arrays: the same game as through Python, played compiled and evaluated exactly."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.extensive.infosets import infoset_policy
from gems_jax.extensive.tree import build_tree
from gems_jax.extensive.values import player_gains_of_tables, uniform_table
from gems_jax.games import make_game, tabulated
from gems_jax.host.stages import on_host
from gems_jax.types import Branching, NotEnumerableError, supports

pyspiel = pytest.importorskip("pyspiel")


def uniform_gains(game):
    tree = build_tree(game)
    return tree, np.asarray(player_gains_of_tables(tree, jnp.stack([uniform_table(tree)] * tree.num_players)))


@pytest.mark.parametrize(
    ("id", "infosets", "chance"),
    [
        ("kuhn_poker(players=3)", 48, False),
        ("goofspiel(num_cards=3,imp_info=True)", 90, True),
        pytest.param("matrix_rps", 2, False, marks=pytest.mark.slow),
    ],
)
def test_the_tree_is_that_of_the_game_in_python(id, infosets, chance):
    """Goofspiel of three cards: a seat knows 3 prizes first, then 3 x 2 prizes and 7 pairs of a bid and its success."""
    game, source = make_game(f"tabulated:openspiel:{id}"), make_game(f"openspiel:{id}")
    assert not on_host(game) and supports(game, Branching) == chance and game == make_game(game.name)
    (ours, gains), (theirs, expected) = map(uniform_gains, (game, source))
    assert ours.num_infosets == theirs.num_infosets == infosets and ours.num_leaves == theirs.num_leaves
    np.testing.assert_array_equal(ours.observation, theirs.observation)
    np.testing.assert_allclose(gains, expected, atol=1e-6)


def test_chance_after_a_move_comes_up_as_often_as_it_should():
    """Goofspiel of three cards: each of the two prizes that are left follows the first bids in half of the games."""
    game = make_game("goofspiel", num_cards=3)
    start = jax.jit(game.init)(jax.random.key(0))
    after = jax.jit(jax.vmap(lambda key: game.step(start, jnp.zeros(2, jnp.int32), key)))
    reached, counts = np.unique(after(jax.random.split(jax.random.key(1), 4000)).inner, return_counts=True)
    assert len(reached) == 2 and abs(counts[0] - 2000) < 5 * np.sqrt(1000)
    outcomes = game.branches(int(start.inner), np.zeros(2, int))
    assert [outcome.state for outcome in outcomes] == reached.tolist()
    np.testing.assert_allclose([outcome.chance for outcome in outcomes], 0.5, atol=1e-6)


def test_tabular_policies_are_indexed_by_the_game_s_numbers():
    game = make_game("goofspiel", num_cards=3)
    table = infoset_policy(game)
    assert table.row_of_infoset is not None
    number = int(game.init(jax.random.key(0)).infoset[1])
    observation = game.init(jax.random.key(0)).observation[1]
    np.testing.assert_array_equal(table.observations[table.row_of_infoset[number]], observation)


def test_what_cannot_be_tabulated_is_refused(monkeypatch):
    with pytest.raises(ValueError, match="expected tabulated:openspiel:<id>"):
        make_game("tabulated:kuhn_poker")
    with pytest.raises(ValueError, match="num_cards must be an integer of at least 2, got 1"):
        make_game("goofspiel", num_cards=1)
    with pytest.raises(ValueError, match="points_order must be one of"):
        make_game("goofspiel", points_order="sideways")
    monkeypatch.setattr(tabulated, "MAX_POSITIONS", 30)
    with pytest.raises(NotEnumerableError, match="more than 30 positions. Play it in Python as openspiel:tiny_hanabi"):
        make_game("tabulated:openspiel:tiny_hanabi")


@pytest.mark.parametrize(
    ("id", "infosets", "nash_conv"),
    [("liars_dice(dice_sides=3)", 192, 1.1111111), ("goofspiel(num_cards=3,imp_info=True)", 90, None)],
)
def test_openspiel_serves_where_nashbench_does_not(id, infosets, nash_conv):
    """What stands in for nashbench where Python is older: played in Python, evaluated exactly."""
    game = make_game(f"openspiel:{id}")
    tree, gains = uniform_gains(game)
    theirs = pyspiel.load_game(id)
    if nash_conv is None:
        theirs = pyspiel.convert_to_turn_based(theirs)
        nash_conv = pyspiel.nash_conv(theirs, pyspiel.UniformRandomPolicy(theirs))
    assert on_host(game) and tree.num_infosets == infosets
    np.testing.assert_allclose(gains.sum(), nash_conv, atol=1e-6)
