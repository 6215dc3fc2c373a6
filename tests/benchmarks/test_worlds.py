"""Random play of games and of their originals, and the table that compares them."""

import jax
import numpy as np

from benchmarks import tables, worlds
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
