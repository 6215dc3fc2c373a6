"""`gems arena`: end to end, and every mistake in one line."""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from cli import SMALL, assert_one_line, call, untrained_run
from gems_jax import __version__
from gems_jax.runner.directory import RunDirectory


def test_two_runs_of_a_board(board_run: RunDirectory, tmp_path: Path) -> None:
    """Two runs, one of them a batch of two seeds, and random play: what is printed, and what is written."""
    config = SMALL.replace(policy="mlp", policy_hidden=(8,))
    batch = untrained_run(tmp_path / "batch", "pgx:tic_tac_toe", config, seeds=(1, 2))
    out = tmp_path / "out"
    done = call("arena", board_run.shared, batch.shared, "--episodes", 64, "--seed", 5, "-o", out)
    assert done.code == 0 and done.err == "", done
    names = ["gems board", "gems batch s1", "gems batch s2", "random"]
    assert f"tic_tac_toe: {', '.join(names)}; 64 games of every ordered pair" in done.out
    assert "ranking by Elo" in done.out and "alpha-Rank" in done.out and f"written: {out / 'arena.png'}" in done.out
    record = json.loads((out / "arena.json").read_text())
    assert record["version"] == __version__ and record["seed"] == 5 and record["episodes"] == 64
    assert [policy["seed"] for policy in record["policies"]] == [0, 1, 2] and record["entrants"] == names
    scores = np.asarray(record["scores"]["mean"], float)
    np.testing.assert_allclose((scores + scores.T)[~np.eye(4, dtype=bool)], 1.0)
    assert all(0.2 < score < 0.8 for score in scores[~np.eye(4, dtype=bool)])  # nobody has learned anything
    assert len(record["matches"]) == 12 and {match["games"] for match in record["matches"]} == {64}
    rows = list(csv.DictReader((out / "ranking.csv").open()))
    ratings = [float(row["elo"]) for row in rows]
    assert ratings == sorted(ratings, reverse=True) and abs(sum(ratings)) < 1e-6
    assert all(re.search(rf"{row['entrant']} +{float(row['elo']):.0f} \[", done.out) for row in rows)


def test_a_pooled_run_of_poker_plays_greedily(kuhn_run: RunDirectory, tmp_path: Path) -> None:
    """One entrant of two seeds against the shipped policy; poker has stakes, so returns rank."""
    line = ("arena", kuhn_run.shared, "kuhn", "--pool", "--greedy", "--no-opponents", "--episodes", 64)
    done = call(*line, "-o", tmp_path / "one")
    assert done.code == 0, done
    assert "kuhn_poker: gems, kuhn;" in done.out and "ranking by mean return" in done.out
    record = json.loads((tmp_path / "one" / "arena.json").read_text())
    assert record["pool"] and record["greedy"] and not record["opponents"] and record["entrants"] == ["gems", "kuhn"]
    assert record["ranked_by"] == "return" and {"returns", "scores"} <= record.keys()


def test_a_matrix_game_and_one_seed_of_a_batch(matrix_run: RunDirectory, tmp_path: Path) -> None:
    batch = untrained_run(tmp_path / "batch", "biased_rps", SMALL, seeds=(7, 8), a=2.0)
    done = call("arena", batch.shared, "--seeds", 8, "--episodes", 16, "-o", tmp_path / "out")
    assert done.code == 0 and "biased_rps: gems, random; 16 games" in done.out, done
    record = json.loads((tmp_path / "out" / "arena.json").read_text())
    assert [policy["seed"] for policy in record["policies"]] == [8]
    again = call("arena", batch.shared, "--seeds", 8, "--episodes", 16, "-o", tmp_path / "second")
    assert again.out.replace("/second/", "/out/") == done.out  # the same seed plays the same games
    plain = untrained_run(tmp_path / "plain", "biased_rps", SMALL)
    refused = call("arena", batch.shared, plain.shared)
    assert_one_line(refused, 2, "policies of one game", "with other options", "Name runs of the same game")
    assert_one_line(call("arena", matrix_run.shared, "--seeds", 3), 1, "has the seeds 0, got seed 3")
    assert_one_line(call("arena", matrix_run.shared, "--no-opponents"), 2, "at least two entrants, got 1: gems")


def test_two_games_are_refused_before_anything_heavy_is_imported(board_run: RunDirectory, tmp_path: Path) -> None:
    """Folders, files and shipped names are recognized by their records alone."""
    assert call("export", board_run.shared, "--output", tmp_path / "board.safetensors").code == 0
    heavy = ("jax", "tyro", "flax", "scipy", "matplotlib")
    for line in (["kuhn", "leduc"], ["kuhn", str(board_run.shared)], ["kuhn", str(tmp_path / "board.safetensors")]):
        script = (
            "import sys; from gems_jax.cli.main import invoke\n"
            f"print(invoke({['arena', *line]}), [name for name in {heavy} if name in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.stdout == "2 []\n" and done.stderr.count("\n") == 1, done
        assert done.stderr.startswith("gems arena: expected policies of one game, got kuhn_poker (kuhn) and "), done


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("arena", ["no runs given"]),
        ("arena nowhere", ["no run at nowhere", "shipped policies: connect_four, "]),
        ("arena kuhn --episodes 1", ["--episodes must be at least 2, got 1"]),
        ("arena kuhn --seed -1", ["--seed must be an integer from 0"]),
        ("arena kuhn --gredy", ["unknown flag --gredy", "did you mean --greedy?"]),
    ],
)
def test_mistakes(line: str, parts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert_one_line(call(*line.split()), 2, *parts)
    assert not list(tmp_path.iterdir())
