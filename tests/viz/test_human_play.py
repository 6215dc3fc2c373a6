"""play: a person against the mixture, scripted, and through a real terminal."""

import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

from cli import SCRIPT, SMALL, assert_one_line, call, untrained_run
from gems_jax.games import make_game
from gems_jax.runner.directory import RunDirectory
from gems_jax.runner.errors import RunError
from gems_jax.runner.load import load
from gems_jax.viz.human_play import check_playable, play
from gems_jax.viz.observation_words import describe_observation
from gems_jax.viz.transcripts import GameTable, write_replays
from gems_jax.viz.words import legal_actions, words_of


def scripted(answers: Iterator[str], told: list[str]):
    def ask(prompt: str) -> str:
        told.append(prompt)
        try:
            told.append(next(answers))
        except StopIteration:
            raise EOFError from None
        return told[-1]

    return ask


def test_kuhn_against_a_script(kuhn_run: RunDirectory) -> None:
    """The person always checks and folds: what is lost is the ante, unless both check."""
    policy, told = load(kuhn_run.shared), []

    def ask(prompt: str) -> str:
        told.append(prompt)
        return "check" if "check" in prompt else "fold"

    earned = play(policy, ask, told.append, games=12, seed=1)
    assert len(earned) == 12 and set(earned) == {-1.0, 1.0}
    text = "\n".join(told)
    assert text.count("you sit in seat 0 and begin") == 6 and text.count("you sit in seat 1") == 6  # seats change
    assert f"12 games, {sum(earned) / 12:+.3f} chips per game" in text
    # the opponent's card is never shown before the game is over
    for game in text.split("\ngame ")[1:]:
        before = game.split("you earned")[0].rsplit("seat 0 holds", 1)[0]
        assert "holds" not in before


def test_typing_errors_do_no_harm(kuhn_run: RunDirectory) -> None:
    policy, told = load(kuhn_run.shared), []
    words = iter(["", "zzz", "7", "\x00", "fold", "be", "q"])
    earned = play(policy, scripted(words, told), told.append, seat=0, seed=2)
    text = "\n".join(told)
    assert text.count("is not possible here") == 5  # "fold" too: there is no bet to fold to
    assert len(earned) <= 1 and "Good-bye." in text


def test_end_of_input_leaves(matrix_run: RunDirectory) -> None:
    policy, told = load(matrix_run.shared), []
    earned = play(policy, scripted(iter(["0", "2", "9", "1"]), told), told.append, seed=0)
    assert len(earned) == 3 and "'9' is not possible here" in "\n".join(told)
    assert told[-1].startswith("3 games")


def test_the_same_seed_gives_the_same_games(board_run: RunDirectory) -> None:
    def first_free(prompt: str) -> str:
        return re.findall(r"field (\d)", prompt)[0]

    policy = load(board_run.shared)
    logs: list[list[str]] = [[], [], []]
    runs = zip(logs, (5, 5, 6), strict=True)
    results = [play(policy, first_free, log.append, games=2, seed=seed) for log, seed in runs]
    assert logs[0] == logs[1] and results[0] == results[1] and logs[0] != logs[2]
    assert set(results[0]) <= {-1.0, 0.0, 1.0}


def test_games_that_cannot_be_shown(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot be played in a terminal.*kuhn_poker"):
        check_playable(make_game("pgx:hex"))
    for name in ("hanabi", "simple_tag"):
        with pytest.raises(RunError, match="cannot be played in a terminal"):
            check_playable(make_game(name))


def test_a_game_of_ones_own_by_its_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nim of docs/add_a_game.md: its actions have names, which are typed whole or in part, and so do its positions."""
    page = (Path(__file__).parents[2] / "docs" / "add_a_game.md").read_text()
    (tmp_path / "played_nim.py").write_text(re.findall(r"```python\n(.*?)```", page, re.DOTALL)[0])
    monkeypatch.syspath_prepend(tmp_path)
    config = SMALL.replace(policy="mlp", policy_hidden=(8,))
    policy = load(untrained_run(tmp_path / "run", "played_nim:Nim", config, stones=5).shared, trust=True)
    told: list[str] = []
    play(policy, scripted(iter(["?", "4", "3", "q"]), told), told.append, seat=0, seed=0)
    text = "\n".join(told)
    assert "5 stones are left\ntake 1, take 2, take 3 > \n?\ntake 1, take 2, take 3\n" in text
    assert "'4' is not possible here: only take 1, take 2, take 3" in text
    assert re.search(r"take 3 > \n3\nopponent: take [12]\n[01] stones are left", text)
    transcript = write_replays(policy, tmp_path / "replays", episodes=1)[0].read_text()
    assert re.search(r"game 1\n  5 stones are left\n  seat 0: take \d +\(take", transcript)


def test_actions_by_number_and_positions_by_observations() -> None:
    words = words_of(make_game("pgx:othello"))
    state = GameTable(make_game("pgx:othello")).init(jax.random.key(0))
    drawing = words.seen(state, 0).splitlines()
    assert len(drawing) == 9 and drawing[3] == ". . . o x . . ." and drawing[-1] == "x is plane 0, o is plane 1"
    legal = legal_actions(state, 0)
    assert [words.of_text(state, str(action)) for action in legal] == legal and words.action(state, 19) == "action 19"
    assert words.of_text(state, "0") is None and words.playable
    assert describe_observation(jnp.eye(5)[3]) == "you observe 5 numbers; entries that are 1: 3"
    assert describe_observation(jnp.array([0.0, 2.5])) == "you observe 2 numbers; entries that are not 0: [1] = 2.5"


def test_command_checks_its_arguments(kuhn_run: RunDirectory) -> None:
    assert_one_line(call("play", kuhn_run.shared, "--seat", 2), 2, "--seat must be 0 to 1, got 2")
    assert_one_line(call("play", kuhn_run.shared, "--games", -1), 2, "--games must be at least 0")
    assert_one_line(call("play", "nowhere"), 2, "no run at nowhere")


def test_through_a_terminal(matrix_run: RunDirectory) -> None:
    """The real console script on a pseudo-terminal: prompts, a typing error, a whole game, and leaving by Ctrl-D."""
    line = [str(SCRIPT)] if SCRIPT.exists() else [sys.executable, "-m", "gems_jax"]
    line += ["play", str(matrix_run.shared), "--seat", "0", "--games-seed", "3"]
    terminal, end = pty.openpty()
    process = subprocess.Popen(line, stdin=end, stdout=end, stderr=end, start_new_session=True)
    os.close(end)
    try:
        assert "game 1: you sit in seat 0" in _until(terminal, r"rock, paper, scissors > $")
        os.write(terminal, b"dance\n")
        assert "'dance' is not possible here" in _until(terminal, r"rock, paper, scissors > $")
        os.write(terminal, b"rock\n")
        shown = _until(terminal, r"game 2: .*scissors > $")
        assert re.search("opponent: (rock|paper|scissors)", shown) and re.search(r"you earned [+-]?\d points", shown)
        os.write(terminal, b"\x04")
        assert "1 game, " in _until(terminal, r"Good-bye\.")
        assert process.wait(600) == 0
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def _until(terminal: int, pattern: str, seconds: float = 600.0) -> str:
    """What the terminal shows until it matches."""
    shown, end = "", time.monotonic() + seconds
    while not re.search(pattern, shown.replace("\r", ""), re.DOTALL):
        ready, _, _ = select.select([terminal], [], [], 1.0)
        assert time.monotonic() < end, shown
        if ready:
            try:
                data = os.read(terminal, 4096)
            except OSError:  # Linux: the other end was closed
                data = b""
            assert data, f"ended after: {shown}"
            shown += data.decode(errors="replace")
    return shown.replace("\r", "")


@pytest.mark.slow
@pytest.mark.parametrize("game", ["leduc_holdem", "connect_four"])
def test_the_larger_games(game: str, tmp_path: Path) -> None:
    config = SMALL.replace(policy="mlp", policy_hidden=(8,))
    policy = load(untrained_run(tmp_path / "run", game, config).shared)
    told: list[str] = []

    def ask(prompt: str) -> str:
        return re.findall(r"column (\d)", prompt)[0] if "column" in prompt else prompt.split(",")[0]

    assert len(play(policy, ask, told.append, games=3, seed=0)) == 3
