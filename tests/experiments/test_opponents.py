"""The study of the fixed opponents: who plays whom, and what its checks require."""

import json
import re
from pathlib import Path

from experiments.studies.opponents import Match, _checks, _table, matches_of
from gems_jax import make_game


def test_who_plays_whom():
    assert matches_of(make_game("go_9x9")) == [Match("tactician", "random")]
    four = matches_of(make_game("connect_four"))
    assert [(match.label, match.opponent) for match in four[:5]] == [
        ("tactician", "random"),
        ("minimax_1", "random"),
        ("minimax_1", "tactician"),
        ("minimax_2", "random"),
        ("minimax_2", "minimax_1"),
    ]
    assert len(four) == 13 and four[-3:-1] == [Match("minimax_5", "minimax_4"), Match("minimax_2", "tactician")]
    tag = matches_of(make_game("simple_tag"))
    assert tag[:3] == [Match("random", "random", 0), Match("script", "random", 0), Match("script", "script", 0)]
    assert {match.player for match in tag} == {0, 1} and len(tag) == 6


def row(game, label, opponent, mean, player=None):
    both = {"game": game, "label": label, "opponent": opponent, "player": player, "mean": mean, "interval": 0.1}
    return both | {"win": 0.5, "draw": 0.0, "episodes": 100}


def test_checks_and_table():
    rows = [
        row("chess", "greedy", "random", 0.2),
        row("chess", "exchange", "greedy", 0.05),
        row("connect_four", "minimax_1", "tactician", -0.7),
        row("simple_tag", "random", "random", 1.0, 0),
        row("simple_tag", "script", "random", 1.1, 0),
        row("simple_tag", "script", "script", 9.0, 0),
    ]
    assert [holds for _, holds in _checks(rows)] == [True, False, False]
    text = _table([*rows, {"game": "solved positions", "label": "minimax_5", "mean": 0.8, "interval": 0.01}]).markdown()
    assert "|   greedy | random | 0.200 ± 0.100 | 0.500 | 0.000 | 100 |" in text
    assert (
        "|   script, pursuers | random | 1.000 ± 0.100" not in text and "|   script, pursuers | random | 1.100" in text
    )
    assert "|   minimax_5 | moves that keep the value | 0.800 ± 0.010 |" in text


def test_the_page_repeats_the_published_numbers():
    """docs/opponents.md shows a few means of docs/results/opponents.json."""
    docs = Path(__file__).parents[2] / "docs"
    table = (docs / "opponents.md").read_text().split("| game | measured |")[1].split("\n\n")[0]
    published = json.loads((docs / "results" / "opponents.json").read_text())["numbers"]
    known = {f"{row['mean']:.3f} ± {row['interval']:.3f}" for row in published}
    shown = re.findall(r"[\d.]+ ± [\d.]+", table)
    assert len(shown) == 7 and set(shown) <= known
