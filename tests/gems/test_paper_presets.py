"""The presets called `paper` against the printed tables: field by field, and no departure that is not listed."""

import tomllib
from pathlib import Path

import pytest

from experiments.harness.spec import Arm, Experiment, make_plan
from gems_jax import make_game
from gems_jax.config import GemsConfig
from gems_jax.gems.paper_presets import DEPARTURES, PAPER, PAPER_GAMES, paper_game_options
from gems_jax.presets import PRESETS
from gems_jax.types import num_players

TABLES = tomllib.loads((Path(__file__).parents[1] / "data" / "paper_tables.toml").read_text())
SUITE = {name: row for name, row in TABLES["suite"].items() if name != "label"}


def values_of(*tables):
    return {field: entry["value"] for table in tables for field, entry in table.items()}


def printed_settings(name):
    """What the paper prints for a game: its own row, else the text, else the Kuhn table. {field: value}."""
    game = make_game(name, **PAPER_GAMES.get(name, {}))
    by_players = TABLES["players"]["two" if num_players(game) <= 2 else "more"]
    if name == "kuhn_poker":
        return values_of(TABLES["text"], by_players, TABLES["kuhn"])
    settings = values_of(TABLES["kuhn"], TABLES["text"], by_players)
    if name in SUITE:
        row, players = SUITE[name], TABLES["games"].get(name, {"players": 2})["players"]
        settings |= {
            "iterations": row["iterations"],
            "latent_dim": row["latent_dim"],
            "capacity": row["policies"] // players,
            "initial_anchors": (row["policies"] - players * row["iterations"]) // players,
        }
    return settings


def printed_game(name):
    """What the suite says of the game itself and of the anchors at the end."""
    row, players = SUITE[name], TABLES["games"].get(name, {"players": 2})["players"]
    found = {"policies": row["policies"], "players": players, "continuous": row.get("continuous", False)}
    if row["actions"]:
        found["actions"] = row["actions"]
    return found | ({"zero_sum": row["zero_sum"]} if "zero_sum" in row else {})


def found_game(name):
    game, config = make_game(name, **PAPER_GAMES.get(name, {})), PAPER[name]
    grown = config.initial_anchors + config.iterations * config.anchors_per_call
    return {
        "policies": num_players(game) * min(grown, config.capacity),
        "players": num_players(game),
        "continuous": game.continuous,
        "actions": game.num_actions,
        "zero_sum": game.zero_sum,
    }


@pytest.mark.parametrize("name", PAPER)
def test_presets_are_the_printed_tables_but_for_listed_departures(name):
    printed = printed_settings(name)
    config = PAPER[name]
    departing = {
        field
        for field, value in printed.items()
        if (getattr(config, field) not in value if isinstance(value, list) else getattr(config, field) != value)
    }
    if name in SUITE:
        found = found_game(name)
        departing |= {field for field, value in printed_game(name).items() if found[field] != value}
    assert departing == set(DEPARTURES.get(name, {}))
    assert all(len(reason) > 15 for reason in DEPARTURES.get(name, {}).values())


def test_the_file_prints_known_fields_with_labels_and_known_games():
    for table in (TABLES["text"], *TABLES["players"].values(), TABLES["kuhn"]):
        for field, entry in table.items():
            assert hasattr(GemsConfig(), field) and entry["label"].startswith(("tab:", "eq:", "alg:", "app:")), field
            assert entry["symbol"]
            GemsConfig(**{field: entry["value"]}).validate()
    assert TABLES["suite"]["label"] == "tab:gems_master_suite"
    assert len(TABLES["kuhn"]) == 25 and len(SUITE) == 9 and set(SUITE) < set(PAPER)
    for name, row in SUITE.items():  # "calculated as |Z_0| + N_players x T", with as many anchors for each player
        players = TABLES["games"].get(name, {"players": 2})["players"]
        assert (row["policies"] - players * row["iterations"]) % players == 0, name


def test_presets_are_all_there():
    assert {name for name, settings in PRESETS.items() if "paper" in settings} == set(PAPER)
    assert all(PRESETS[name]["paper"] is config for name, config in PAPER.items())
    assert set(DEPARTURES) <= set(PAPER) and set(PAPER_GAMES) <= set(PAPER)


def test_arms_of_the_preset_play_the_papers_game():
    arms = (
        Arm("paper", preset="paper"),
        Arm("paper, discrete", preset="paper", options={"continuous": False}),
        Arm("tuned", preset="tuned"),
        Arm("elsewhere", preset="paper", game="connect_four"),
    )
    plan = make_plan(Experiment("worlds", "worlds", "simple_tag", arms, iterations=1, seeds=(0,)))
    assert {label: game.continuous for label, game in plan.games.items()} == {
        "paper": True, "paper, discrete": False, "tuned": False, "elsewhere": False
    }  # fmt: skip
    assert paper_game_options("simple_tag", None) == paper_game_options("kuhn_poker", "paper") == {}
