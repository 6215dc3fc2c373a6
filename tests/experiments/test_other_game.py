"""Experiments on the original environments of pgx and JaxMARL: `--game NAME`."""

import json
from pathlib import Path

import jax
import pytest

from experiments.harness.other_game import on_game
from experiments.run import load, main
from gems_jax import make_game
from gems_jax.types import player_names


@pytest.mark.parametrize(
    ("name", "game", "preset", "options"),
    [
        ("connect4", "pgx:connect_four", "tuned@connect_four", {"shared": True}),
        ("go", "pgx:go_9x9", "tuned@go_9x9", {"shared": True}),
        ("chess", "pgx:chess", "tuned@chess", {"shared": True}),
        ("tag", "jaxmarl:MPE_simple_tag_v3", "tuned@simple_tag", {"teams": True, "shared": False}),
        ("spread", "jaxmarl:MPE_simple_spread_v3", "tuned@simple_spread", {"teams": True, "shared": False}),
    ],
)
def test_an_experiment_moves_to_the_original_of_its_game(name: str, game: str, preset: str, options: dict) -> None:
    own = load(name)
    moved = on_game(own, game)
    assert (moved.game, dict(moved.options)) == (game, options) and moved.title.endswith(game)
    assert moved.name.startswith(f"{name}_") and ":" not in moved.name
    assert [arm.preset for arm in moved.arms] == [preset if arm.preset else None for arm in own.arms]
    for part in ("quick", "full"):
        arms = [arm.preset for arm in getattr(moved, part).get("arms", ())]
        assert set(arms) <= {preset, None}
    assert moved.checks == own.checks and moved.metrics == own.metrics and not moved.pictures
    there = make_game(game, **options)
    assert player_names(there) == player_names(make_game(own.game, **own.options))  # of the columns


def test_a_game_of_other_players_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["connect4", "--game", "jaxmarl:MPE_simple_tag_v3"]) == 2
    assert "expected 2 seats as in connect_four, got 4" in capsys.readouterr().err
    assert main(["connect4", "--game", "pgx:conect_four"]) == 2
    assert main(["regret", "--game", "pgx:connect_four"]) == 2


def test_random_play_of_the_original_is_measured(tmp_path: Path) -> None:
    line = ["spread", "--game", "jaxmarl:MPE_simple_spread_v3", "--arms", "random", "--seeds", "0"]
    with jax.numpy_rank_promotion("allow"):  # JaxMARL's own code needs it
        assert main([*line, "--run-dir", str(tmp_path / "run")]) == 0
    found = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert found["game"] == "jaxmarl:MPE_simple_spread_v3" and "--game" in found["command"]
    (row,) = [row for row in found["numbers"] if row["column"] == "return_team"]
    assert row["arm"] == "random" and -40.0 < row["mean"] < -10.0
