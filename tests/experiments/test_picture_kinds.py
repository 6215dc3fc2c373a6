"""Each kind of picture: what it shows of runs that are there, and the numbers beside it."""

import csv
import dataclasses
import io
from types import SimpleNamespace

import chex
import jax
import numpy as np
import pytest
from PIL import Image

import cli
from cli import untrained_run
from experiments.harness.spec import Arm, Experiment, make_plan
from experiments.pictures import PICTURES
from experiments.pictures.board_drawing import draw_board
from experiments.pictures.boards import frames_of
from experiments.pictures.drawn import trained, untrained
from experiments.pictures.embeddings import Cloud, Embedded, embed, quantities
from experiments.pictures.ghosts import watched
from gems_jax.viz.board_words import FILES
from gems_jax.viz.particles import Track
from gems_jax.viz.plotting import make_panels

SMALL = cli.SMALL.replace(policy="mlp", policy_hidden=(8,))


def finished(folder, game, arms, seeds, **options):
    """The plan and the folder of an experiment whose arms are as they began."""
    for label in arms:
        untrained_run(folder / label, game, SMALL, seeds=seeds, **options)
    kinds = (*(Arm(label, config=SMALL) for label in arms), Arm("random", method="random", iterations=1))
    return make_plan(Experiment("x", "X", game, kinds, 1, seeds, exact=False, options=options)), folder


@pytest.fixture(scope="module")
def tag(tmp_path_factory):
    return finished(tmp_path_factory.mktemp("tag"), "simple_tag", ("GEMS", "PSRO"), (0, 1), max_steps=2)


@pytest.fixture(scope="module")
def four(tmp_path_factory):
    return finished(tmp_path_factory.mktemp("four"), "connect_four", ("GEMS",), (5,), shared=True)


def test_ghosts(tag):
    """Arms above each other, seeds beside each other, and an arm's first seed moving: the start and two steps."""
    drawn = PICTURES["ghosts"](*tag)
    assert set(drawn.files) == {"ghosts.png", "ghosts-GEMS.gif", "ghosts-PSRO.gif"}
    assert Image.open(io.BytesIO(drawn.files["ghosts-GEMS.gif"])).n_frames == 3
    panels = [axis for axis in drawn.files["ghosts.png"].axes if axis.has_data()]
    assert len(panels) == 4 and [panels[0].get_ylabel(), panels[2].get_ylabel()] == ["GEMS", "PSRO"]
    starts = [np.concatenate([line.get_xydata()[:1] for line in axis.lines]) for axis in panels]
    np.testing.assert_array_equal(starts[0], starts[2])  # a column begins alike
    assert not np.array_equal(starts[0], starts[1])
    assert set(drawn.numbers["PSRO"]["seed 1"]) == {"captures", "encirclement", "pursuer_spread"}


def test_what_an_episode_was_watched_for(tag):
    """Pursuers at the corners of a triangle of side 0.6 around the evader; one of them comes near in the last step."""
    game = tag[0].games["GEMS"]
    angles = np.deg2rad([90, 210, 330])
    far = 0.6 / np.sqrt(3) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    still = np.concatenate([far, np.zeros((1, 2)), np.full((2, 2), 3.0)])
    near = still.copy()
    near[0] /= 4
    found = watched(game, Track(np.stack([still, still, near]), np.zeros((2, 4))))
    assert found["captures"] == 1.0 and found["encirclement"] == pytest.approx(120.0, rel=1e-4)


def test_clouds_in_numbers():
    random = np.random.default_rng(0)
    far = np.concatenate([random.normal(size=(20, 5)), 30 + random.normal(size=(20, 5))])
    owner = np.repeat([0, 1], 20)
    found = quantities(Embedded(Cloud(far, owner, np.ones(40)), Cloud(far[:20], owner[:20], np.ones(20)), ("a", "b")))
    assert found["actions_players"] > 0.9 and found["actions_two"] > 0.9 > found["actions_one"]
    assert found["actions_dimension"] < 1.1 and found["actions_dimension_within"] > 3  # the gap is one direction
    assert found["actions_distance_within"] == pytest.approx(np.sqrt(10), rel=0.2)
    assert found["actions_distance"] > 30
    assert found["actions_two_are_players"] == 1.0 and found["entropy"] == 1.0 and found["anchors"] == 40
    assert found["codes_players"] is None and found["codes_dimension"] > 3 and 0 < found["codes_variance"] < 1
    without = quantities(Embedded(Cloud(far, owner, np.ones(40)), None, ("a", "b")))
    assert without["codes_distance"] is None and without["actions_distance"] == found["actions_distance"]


def test_embeddings_of_a_shared_population(four):
    """The three anchors of one population in both seats: six points of what they do, three of their codes."""
    drawn = PICTURES["embeddings"](*four)
    assert list(drawn.files) == ["embeddings-GEMS.png"]
    numbers = drawn.numbers["GEMS"]["seed 5"]
    assert numbers["anchors"] == 6 and numbers["codes_players"] is None and numbers["codes_distance"] > 0
    assert 0 < numbers["entropy"] <= np.log(7)
    before = drawn.numbers["GEMS"]["before seed 5"]
    assert set(drawn.numbers["GEMS"]) == {"seed 5", "before seed 5"}
    for what in ("anchors", "actions_distance", "actions_players", "codes_distance"):  # the run was not trained
        assert before[what] == pytest.approx(numbers[what], rel=1e-4), what
    actions, codes, *_ = drawn.files["embeddings-GEMS.png"].axes
    assert [len(axis.collections) for axis in (actions, codes)] == [2, 1]
    assert sum(len(points.get_offsets()) for points in codes.collections) == 3


def test_the_untrained_generator_plays_the_codes_of_the_end(tmp_path):
    """Whatever training made of theta and of the codes: theta is that of the start again, and the codes stay."""
    (member,) = trained(*finished(tmp_path, "biased_rps", ("GEMS",), (0,)))["GEMS"]
    begun = member.policy.profile.population
    learned = dataclasses.replace(begun, theta=jax.tree.map(lambda x: x + 1, begun.theta), codes=begun.codes + 2)
    profile = dataclasses.replace(member.policy.profile, population=learned)
    ended = member._replace(policy=dataclasses.replace(member.policy, profile=profile))
    found = untrained(tmp_path / "GEMS", ended).policy.profile.population
    chex.assert_trees_all_close(found.theta, begun.theta, rtol=1e-5)
    chex.assert_trees_all_equal(found.codes, learned.codes)


def test_populations_of_their_own_are_asked_about_the_same_positions(tmp_path):
    """Three anchors of each player. In rock-paper-scissors there is one position for each, asked about many times."""
    numbers = quantities(embed(trained(*finished(tmp_path, "biased_rps", ("GEMS",), (0,)))["GEMS"][0]))
    assert numbers["anchors"] == 6 and numbers["codes_players"] is not None and numbers["actions_players"] is not None
    assert numbers["actions_dimension"] <= 4.01  # of twice three probabilities that sum to one


def test_boards(four):
    drawn = PICTURES["boards"](*four)
    assert set(drawn.files) == {"boards-GEMS.png", "boards-GEMS.svg"} and drawn.files["boards-GEMS.svg"].startswith(
        b"<svg"
    )
    moves = drawn.numbers["GEMS"]["moves"]
    shown = [axis for axis in drawn.files["boards-GEMS.png"].axes if axis.get_title()]
    assert 7 <= moves <= 42 and len(shown) == len(frames_of(moves)) <= 15
    assert shown[0].get_title().startswith("1. black: column") and shown[-1].get_title().startswith(f"{moves}. ")


def test_fifteen_positions():
    assert frames_of(113) == list(range(1, 114, 8))  # those that the paper shows of Go
    assert frames_of(9) == list(range(1, 10)) and frames_of(512)[-1] == 512 and len(frames_of(512)) == 15


def test_a_chess_board():
    from pgx._src.games.chess import INIT_BOARD

    def position(board, color):
        return SimpleNamespace(
            inner=SimpleNamespace(state=SimpleNamespace(env_id="chess", _x=SimpleNamespace(board=board, color=color)))
        )

    _, ((whites, blacks),) = make_panels(1, 2, 4.0, 2.0)
    draw_board(whites, position(INIT_BOARD, 0), [(4, 6), (4, 4)])
    draw_board(blacks, position(-np.asarray(INIT_BOARD).reshape(8, 8)[:, ::-1].ravel(), 1))  # the same, black to move
    for axis in (whites, blacks):
        men = {(round(text.get_position()[0]), round(text.get_position()[1])): text for text in axis.texts}
        assert len(men) == 32
        king = men[FILES.index("e"), 7]
        assert king.get_text() == "♚" and king.get_color() == "#FFFFFF" and men[3, 0].get_text() == "♛"
    assert len(whites.patches) == 2 and not blacks.patches


def test_outcomes_of_sides(tmp_path, four):
    """Rows of four iterations, of which the first and the third were measured: the others are empty."""
    plan, folder = four
    rows = {"first_wins": (0.5, 0.75), "self_draws": (0.3, 0.05), "second_wins": (0.2, 0.2), "decisive": (0.7, 0.95)}
    with open(folder / "GEMS" / "metrics.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["iteration", "first_wins_interval", *rows])
        for i in (1, 2, 3, 4):
            measured = ((0.1, 0.2)[i > 2], *(pair[i > 2] for pair in rows.values()))
            writer.writerow([i, *(measured if i % 2 else [""] * len(measured))])
    drawn = PICTURES["outcomes_of_sides"](plan, folder)
    assert drawn.numbers["GEMS"] == {
        "iteration 1": {name: pair[0] for name, pair in rows.items()},
        "iteration 3": {name: pair[1] for name, pair in rows.items()},
    }
    stack, decisive = drawn.files["outcomes_of_sides.png"].axes
    heights = [[bar.get_height() for bar in bars] for bars in stack.containers]
    np.testing.assert_allclose(heights, [[50, 75], [30, 5], [20, 20]])
    assert decisive.get_ylabel() == "decisive fraction of self-play"


def test_nothing_to_draw(tag, tmp_path):
    with pytest.raises(ValueError, match="boards are drawn of"):
        PICTURES["boards"](*tag)
    plan = make_plan(Experiment("x", "X", "simple_tag", (Arm("r", method="random"),), 1, (0,), exact=False))
    with pytest.raises(ValueError, match="nothing to draw"):
        trained(plan, tmp_path)
