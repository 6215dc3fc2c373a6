"""`gems eval` against fixed opponents: which columns it prints, greedy play, and unknown names."""

from pathlib import Path

import pytest

from cli import SMALL, assert_one_line, call, untrained_run
from gems_jax.opponents.solved import solved_positions


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "board"
    untrained_run(folder, "connect_four", SMALL.replace(policy="mlp", policy_hidden=(4,)))
    return folder


def test_opponents_by_name(board: Path) -> None:
    done = call("eval", board, "--episodes", 4, "--opponents", "minimax_2")
    assert done.code == 0, done
    head = next(line for line in done.out.splitlines() if "greedy" in line)
    assert head.split() == ["seed", "0", "greedy", "random"]
    assert "score against minimax 2" in done.out and "against random" not in done.out, done.out
    (solved,) = (line for line in done.out.splitlines() if line.startswith("moves that keep the value"))
    rates = [float(word) for word in solved.split() if word[0] == "0"]
    positions = solved_positions()
    share = (positions.keeps.sum(axis=1) / positions.legal.sum(axis=1)).mean()
    assert len(rates) == 6 and rates[4] == pytest.approx(share, abs=6e-4)


def test_an_unknown_opponent(board: Path) -> None:
    done = call("eval", board, "--opponents", "minimax_9")
    assert_one_line(done, 2, "connect_four has no opponent minimax_9", "Did you mean 'minimax_", "tactician, minimax_1")
