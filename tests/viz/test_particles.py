"""Pictures and words of the particle worlds: they show what happened, and replays are files one opens."""

import io
from pathlib import Path

import jax
import numpy as np
import pytest
from PIL import Image

from cli import SMALL, call, untrained_run
from gems_jax.games import make_game
from gems_jax.runner.load import load
from gems_jax.viz import particles
from gems_jax.viz.particles import Track, describe_track, encode_gif, encode_still, find_touches
from gems_jax.viz.transcripts import write_replays
from gems_jax.viz.words import words_of

TAG, SPREAD = make_game("simple_tag", max_steps=12), make_game("simple_spread", max_steps=12)


def resting(game, **moved):
    """Everybody far apart and still for 12 steps; `moved` puts bodies elsewhere in the last step."""
    places = np.stack([np.linspace(-0.9, 0.9, len(game.bodies)), np.linspace(0.9, -0.9, len(game.bodies))], axis=1)
    position = np.tile(places, (game.max_steps + 1, 1, 1))
    for body, place in moved.items():
        position[-1, int(body.strip("_"))] = place
    reward = np.stack([np.asarray(game._rewards(jax.numpy.asarray(row))) for row in position[1:]])
    return Track(position, reward)


def test_touches_are_those_that_are_paid():
    still = resting(TAG)
    assert find_touches(TAG, still.position[0]) == []
    caught = resting(TAG, _3=still.position[0, 1])
    assert find_touches(TAG, caught.position[-1]) == [(1, 3)] and caught.reward[-1, 0] == 10
    friends = resting(TAG, _0=still.position[0, 1])  # two pursuers: nothing to pay
    assert find_touches(TAG, friends.position[-1]) == [] and not friends.reward.any()
    assert find_touches(SPREAD, resting(SPREAD, _0=resting(SPREAD).position[0, 1]).position[-1]) == [(0, 1)]


def test_words():
    tag, spread = words_of(TAG), words_of(SPREAD)
    assert "no touches" in describe_track(TAG, tag, resting(TAG), 1)
    text = describe_track(TAG, tag, resting(TAG, _3=resting(TAG).position[0, 0]), 2)
    assert text.startswith("game 2, 12 steps\n  touches at steps 12\n")
    assert text.endswith("result: pursuer 1 +10, pursuer 2 +10, pursuer 3 +10, evader -10")
    marks = resting(SPREAD).position[0, 3:]
    text = describe_track(SPREAD, spread, resting(SPREAD, _0=marks[0], _1=marks[1], _2=marks[2]), 1)
    assert "0.00, 0.00, 0.00 at the end" in text and "agent 3 " in text


def pixels(data, frame=0):
    image = Image.open(io.BytesIO(data))
    image.seek(frame)
    return np.asarray(image.convert("RGB")).astype(int)


def near(image, color, slack=40):
    """How many pixels have about this colour."""
    wanted = [int(color[place : place + 2], 16) for place in (1, 3, 5)]
    return int((np.abs(image - wanted).max(axis=-1) < slack).sum())


@pytest.mark.parametrize("game", [TAG, SPREAD], ids=["tag", "spread"])
def test_pictures(game):
    """A frame per moment, the last one longest; what differs by kind differs in lightness too."""
    track = resting(game, _0=(0.5, 0.8))
    gif = Image.open(io.BytesIO(encode_gif(game, track)))
    assert gif.n_frames >= 2 and gif.format == "GIF"  # equal frames in a row are one
    gif.seek(gif.n_frames - 1)
    assert gif.info["duration"] >= particles.LAST_MILLISECONDS
    first, last = pixels(encode_gif(game, track)), pixels(encode_gif(game, track), gif.n_frames - 1)
    assert (first != last).any()
    still = pixels(encode_still(game, track))
    for look in particles.agent_looks(game):
        assert near(first, look.color) > 20 and near(still, look.color) > 20
    lightness = [float(np.dot([0.3, 0.59, 0.11], _rgb(look.color))) for look in {*particles.agent_looks(game)}]
    sides = [look.sides for look in {*particles.agent_looks(game)}]
    assert len(set(sides)) == len(sides) and max(lightness) - min(lightness) > 50


def _rgb(color):
    return [int(color[place : place + 2], 16) for place in (1, 3, 5)]


def test_the_still_fades():
    """Moments 0 and 10 and the last: the same body is drawn three times, ever darker."""
    game = TAG
    position = resting(game).position.copy()
    position[:, 3] = [(-0.6 + 0.1 * time, 0.6) for time in range(13)]
    reach = 1.15
    image = pixels(encode_still(game, Track(position, resting(game).reward)))
    height, width = image.shape[:2]
    darkness = []
    for time in (0, 10, 12):
        across, up = position[time, 3]
        column = int(width * (0.02 + 0.96 * (across + reach) / (2 * reach)))
        row = int(height * (1 - (0.065 + 0.865 * (up + reach) / (2 * reach))))
        darkness.append(255 - image[row - 6 : row - 3, column - 1 : column + 2, 0].mean())
    assert 20 < darkness[0] < darkness[1] < darkness[2]


def test_the_view_holds_the_square_and_the_whole_track():
    """Somebody who walks far to the right moves the middle; inside the square the view is the square's own."""
    position = resting(TAG).position.copy()
    low, high = particles._window(Track(position, resting(TAG).reward))
    np.testing.assert_allclose([low, high], [[-1.15, -1.15], [1.15, 1.15]])
    position[-1, 0] = (5.0, 0.0)
    low, high = particles._window(Track(position, resting(TAG).reward))
    np.testing.assert_allclose(high - low, 1.15 * 6)
    np.testing.assert_allclose((low + high) / 2, (2.0, 0.0))


def test_agents_that_look_alike_share_a_line_of_the_legend():
    five = make_game("simple_spread", agents=5)
    assert particles._name_agents(particles.AGENTS[0], ["1", "4"]) == "agents 1, 4"
    assert particles._name_agents(particles.AGENTS[2], ["3"]) == "agent 3"
    assert particles._name_agents(particles.PURSUER, ["1", "2", "3"]) == "pursuer"
    assert len(particles.agent_looks(five)) == 5 and particles.agent_looks(five)[0] == particles.agent_looks(five)[3]


def test_moments_of_the_still():
    """Of 50 steps: 0, 10, ..., 50, each drawn."""
    game = make_game("simple_tag", max_steps=50)
    assert particles.still_times(50) == [0, 10, 20, 30, 40, 50] and particles.still_times(25) == [0, 10, 20, 25]
    position = resting(game).position.copy()
    for time in range(51):  # the evader goes from left to right, the only dark blue in the upper half
        position[time, 3] = (-0.8 + 0.032 * time, 0.6)
    image = pixels(encode_still(game, Track(position, resting(game).reward)))
    row = int(image.shape[0] * (1 - (0.065 + 0.865 * (0.6 + 1.15) / 2.3))) - 4
    blue = image[row, :, 2] - image[row, :, 0] > 25
    assert np.diff(np.concatenate([[0], blue.astype(int)])).clip(0).sum() == 6  # six stretches of blue


@pytest.mark.slow
def test_replays_of_a_run(tmp_path: Path):
    """The command writes words, a GIF and a still per game, of continuous actions too; the seed decides."""
    config = SMALL.replace(policy="mlp", policy_hidden=(8,))
    run = untrained_run(tmp_path / "run", "simple_tag", config, continuous=True, max_steps=11)
    done = call("replay", run.shared, "--episodes", 2, "--output", tmp_path / "out")
    assert done.code == 0 and done.err == "" and "simple_tag: gems, seed 0" in done.out
    assert sorted(path.suffix for path in (tmp_path / "out").iterdir()) == [".gif", ".gif", ".png", ".png", ".txt"]
    again = write_replays(load(run.shared), tmp_path / "again", episodes=2)
    assert again[0].read_text() == (tmp_path / "out" / again[0].name).read_text()
    assert again[0].read_text().count("result:") == 2
