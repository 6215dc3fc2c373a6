"""The pages in headless Chromium: inference on 1,000 positions, games that are played, the parts of a run's page."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from browser import CHROMIUM, Browser, open_browser
from gems_jax import load, make_game
from gems_jax.policies.film import BoardPolicy, ConvPolicy, FilmPolicy
from gems_jax.policies.mlp import MlpPolicy
from gems_jax.runner.load import shipped_policies
from gems_jax.types import Game
from gems_jax.web import PLAYABLE, write_play_page, write_run_page
from stored_run import FOLDER
from web_records import (
    CLOSE,
    cached_playouts,
    check_script,
    inference_record,
    mixed_record,
    random_policy,
    rules_record,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: apt-get install chromium"),
]
GAMES = {"kuhn_poker": 500, "leduc_holdem": 300, "tic_tac_toe": 160, "connect_four": 60, "go_9x9": 16}
PRESS = "(document.querySelector('#stage [data-legal]') || document.querySelector('#actions button:not(:disabled)'))"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as one:
        yield one


def networks(game: Game) -> list:
    """Every kind of network that fits the game."""
    size = int(make_size(game.observation_shape))
    flat = [MlpPolicy(size, game.num_actions, (16,)), FilmPolicy(size, game.num_actions, (16, 16))]
    if len(game.observation_shape) < 3:
        return flat
    conv = ConvPolicy(game.observation_shape, game.num_actions, (16,), 8)
    whole = [BoardPolicy(game.observation_shape, game.num_actions, 8, turns=3)] * (game.name != "connect_four")
    return [*flat, conv, *whole]


def make_size(shape: tuple[int, ...]) -> int:
    size = 1
    for side in shape:
        size *= side
    return size


@pytest.mark.parametrize("name", PLAYABLE)
def test_inference_and_rules_on_a_thousand_positions(name: str, browser: Browser, tmp_path: Path) -> None:
    """Every shipped policy of the game, and a random one of every kind of network; all games of random play."""
    game, playouts = make_game(name), cached_playouts(name, GAMES[name])
    shipped = [one for one in map(load, shipped_policies()) if one.game.name == name]
    policies = [*shipped, *(random_policy(game, network) for network in networks(game))]
    records = [inference_record(policy, playouts, 1000) for policy in policies]
    for policy, record in zip(policies, records, strict=True):
        if policy.enumerable and playouts.cards is not None:
            record["mixed"] = mixed_record(policy, playouts, 10)
    data = json.dumps({"rules": [rules_record(game, playouts)], "inference": records})
    page = tmp_path / "check.html"
    page.write_text(f"<!DOCTYPE html><meta charset=utf-8><script>{check_script()}\nconst records = {data};</script>")
    browser.open(page)
    found = json.loads(browser.evaluate("JSON.stringify(gems.check(records))"))
    count = int(playouts.lengths.sum())
    assert found["rules"] == [{"positions": count, "mover": 0, "legal": 0, "observation": 0, "returns": 0}]
    for one in found["inference"]:
        assert one["positions"] == min(1000, count) >= 1000 and one["anchors"] < CLOSE and one["mixed"] < CLOSE


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of every game with two policies of different networks."""
    folder, made = tmp_path_factory.mktemp("pages"), {}
    for name in PLAYABLE:
        first, second = (random_policy(make_game(name), network) for network in networks(make_game(name))[:2])
        made[name] = write_play_page(first, folder / f"{name}.html", second, names=("first", "second"))
    return made


def status(browser: Browser) -> str:
    return browser.evaluate("document.getElementById('status').textContent")


def play_to_the_end(browser: Browser) -> int:
    """Clicks the first legal move until the game is over; returns the number of clicks."""
    for clicks in range(200):
        browser.wait_for(f"!!{PRESS} || document.getElementById('status').textContent.startsWith('Game over')")
        if status(browser).startswith("Game over"):
            return clicks
        browser.evaluate(f"{PRESS}.click()")
    raise AssertionError("the game does not end")


@pytest.mark.parametrize("name", PLAYABLE)
@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_a_person_plays_a_game(name: str, width: int, dark: bool, browser: Browser, pages, tmp_path: Path) -> None:
    """A whole game by clicks, steps back and forth, advice, another move from an earlier position, other seats."""
    browser.open(pages[name], width=width, dark=dark, fragment="#seed=11")
    assert status(browser).startswith("Your move")
    assert play_to_the_end(browser) >= 1
    assert "in 1 game" in browser.evaluate("document.getElementById('tally').textContent")
    moves = browser.evaluate("document.querySelectorAll('#moves button').length")
    browser.evaluate("document.getElementById('first').click()")
    assert status(browser).endswith(f"position 0 of {moves}")
    browser.press(".")
    assert f"position 1 of {moves}" in status(browser)
    browser.press(",")
    browser.evaluate("document.getElementById('advice').click()")
    shown = browser.evaluate("document.querySelectorAll('#decision .value').length")
    assert shown >= 2 and "in your place" in browser.evaluate("document.getElementById('decision-title').textContent")
    browser.evaluate(f"{PRESS}.focus()")
    browser.press("Enter")  # another move from the start: the later ones are taken back
    browser.wait_for("document.querySelectorAll('#moves button').length > 0")
    browser.evaluate("document.getElementById('seat-0').value = 1;"
                     "document.getElementById('seat-0').dispatchEvent(new Event('change'))")  # fmt: skip
    browser.wait_for("document.getElementById('status').textContent.startsWith('Game over')")
    assert browser.evaluate("document.querySelectorAll('.strip').length") == 2
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert not browser.errors


def test_cards_are_hidden_until_the_game_ends(browser: Browser, pages) -> None:
    browser.open(pages["kuhn_poker"], fragment="#seed=1")
    backs = "document.querySelectorAll('.playing-card.back').length"
    assert browser.evaluate(backs) == 1
    browser.evaluate("document.getElementById('open').click()")
    assert browser.evaluate(backs) == 0
    browser.evaluate("document.getElementById('open').click()")
    play_to_the_end(browser)
    assert browser.evaluate(backs) == 0


def test_arrow_keys_move_on_a_board(browser: Browser, pages) -> None:
    """The board is one stop of the Tab key; arrows select a field, Enter plays it."""
    browser.open(pages["tic_tac_toe"], fragment="#seed=1")
    assert browser.evaluate("document.querySelectorAll('.board [tabindex=\"0\"]').length") == 1
    browser.evaluate("document.querySelector('.board [tabindex=\"0\"]').focus()")
    browser.press("ArrowLeft")
    browser.press("ArrowUp")
    assert browser.evaluate("document.activeElement.dataset.place") == "0"
    browser.press("Enter")
    browser.wait_for("document.querySelectorAll('#moves button').length == 2")
    assert browser.evaluate("document.querySelector('#moves').textContent").startswith("1. you: field 1")
    assert browser.evaluate("document.activeElement.dataset.place") == "0"


@pytest.mark.parametrize("rows", ["", "iteration,exploitability\n1,0.5\n", "iteration\n1\n"])
def test_a_run_that_lacks_everything_else(rows: str, browser: Browser, tmp_path: Path) -> None:
    """No checkpoint, and no rows, or no column besides the headline: every part explains itself."""
    folder = tmp_path / "run"
    shutil.copytree(FOLDER, folder)
    shutil.rmtree(folder / "checkpoints")
    (folder / "metrics.csv").write_text(rows) if rows else (folder / "metrics.csv").unlink()
    browser.open(write_run_page(folder, tmp_path / "run.html"))
    for part in ("budget", "mixture", "anchors", "replays"):
        assert len(browser.evaluate(f"document.querySelector('#{part} .soft').textContent")) > 40
    assert browser.evaluate("document.querySelectorAll('#curves svg').length") == (1 if "exploitability" in rows else 0)
    assert browser.evaluate("document.querySelectorAll('#facts dt').length") > 5 and not browser.errors


@pytest.mark.parametrize("width", [1280, 390])
def test_the_parts_of_a_run(width: int, browser: Browser, tmp_path: Path) -> None:
    """Values under the pointer, the heat map, an anchor that is clicked, and a text that would be a script."""
    browser.open(write_run_page(FOLDER, tmp_path / "run.html"), width=width)
    assert browser.evaluate("document.querySelectorAll('.chart svg').length") >= 3
    browser.evaluate("document.querySelector('#further svg').focus()")
    browser.press("ArrowLeft")
    assert "iterations: 1" in browser.evaluate("document.querySelector('#further .tip').textContent")
    before = browser.evaluate("document.querySelector('#anchor-maps strong').textContent")
    browser.evaluate("document.querySelectorAll('.anchor')[1].dispatchEvent(new MouseEvent('click'))")
    assert browser.evaluate("document.querySelector('#anchor-maps strong').textContent") != before
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert not browser.errors
