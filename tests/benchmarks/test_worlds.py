"""Random play of games and of their originals, and the table that compares them."""

import json

import jax
import numpy as np

from benchmarks import originals, tables, worlds
from experiments.run import load
from gems_jax import make_game
from gems_jax.games import KINDS


def test_random_play_of_a_known_game() -> None:
    game = make_game("biased_matching_pennies")
    total, length = jax.jit(worlds.random_returns, static_argnums=(0, 2))(game, jax.random.key(0), 4000)
    payoffs = np.asarray(game.payoffs)[0]  # of the first seat
    assert abs(float(total.mean()) - payoffs.mean()) < 4 * float(total.std()) / 4000**0.5
    assert set(np.unique(total)) <= set(np.unique(payoffs)) and (np.asarray(length) == 1).all()


def test_every_world_names_its_original() -> None:
    names = {name: worlds.original_name(name) for name in worlds.WORLDS}
    assert names["simple_tag"] == "jaxmarl:MPE_simple_tag_v3" and names["go_9x9"] == "pgx:go_9x9"
    assert {f"{name.split(':')[0]}:<id>" for name in names.values()} <= set(KINDS)


def test_the_table_beside_the_originals() -> None:
    assert "python -m benchmarks.worlds" in tables.originals({})
    values = {"the original": 10.0, "ours": 40.0, "ours, share of the original": 4.0, "random return, ours": -1.5}
    rows = [{"name": f"nim: {name}", "value": value, "unit": ""} for name, value in values.items()]
    entry = {"benchmark": "worlds, nim", "figures": rows, "command": "x", "commit": "c", "date": "2026-01-01T00"}
    text = tables.originals({"worlds, nim": entry, "other": {}})
    assert "| nim | 10 | 40 | 4 |  | -1.5 |  |  |" in text and "`x`, commit c, 2026-01-01" in text


def test_short_trainings_name_the_originals_of_their_experiments() -> None:
    own = {name: load(name) for name in originals.PAIRS}
    there = {spec.game: worlds.original_name(spec.game) for spec in own.values()}
    assert there == {spec.game: originals.PAIRS[name].original for name, spec in own.items()}
    assert all(set(pair.columns) <= set(own[name].metrics) for name, pair in originals.PAIRS.items())
    words = originals.command_of("tag", "original", 3)
    assert " ".join(words).startswith("tag --game jaxmarl:MPE_simple_tag_v3 --iterations 3 --seeds 0 1 2 --arms gems")


def test_steps_per_second_of_training_by_hand(tmp_path, monkeypatch) -> None:
    """Two seeds of 100 steps per iteration; the last interval, in which play is measured, does not count."""
    for seed in (0, 1):
        (tmp_path / "gems" / f"s{seed}").mkdir(parents=True)
        rows = "".join(f"{100 * i},{seconds},{i}\n" for i, seconds in ((1, 5.0), (2, 5.5), (3, 6.5), (4, 99.0)))
        (tmp_path / "gems" / f"s{seed}" / "metrics.csv").write_text(f"total_env_steps,seconds,win_random\n{rows}")
    (tmp_path / "summary.json").write_text(json.dumps({"commit": "c", "finished": "2026"}))
    assert originals.pace_of(tmp_path)["steps_per_second"] == [400.0, 200.0]
    assert originals.last_values(tmp_path, "gems", "win_random") == [4.0, 4.0]
    assert originals.pace_of(tmp_path / "nowhere") is None


def test_the_page_of_originals_shows_what_is_stored() -> None:
    record, page = json.loads(originals.STORE.read_text()), originals.PAGE.read_text()
    assert originals.render(page, record) == page
    for entry in record["pairs"].values():
        assert {"ours", "original"} <= set(entry)
        ours, there = (entry[side] for side in originals.SIDES)
        assert ours["game"] != there["game"] == entry["original_game"]
        for column, arms in ours["results"].items():
            assert len(arms["gems"]) == len(there["results"][column]["gems"]) == len(entry["seeds"])
