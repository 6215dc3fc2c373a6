"""`gems games`: every name is listed with what it needs and whether that is installed."""

import pytest

from cli import call
from gems_jax.cli.commands import games
from gems_jax.games import GAMES, KINDS


def entries(text: str) -> dict[str, str]:
    """Name -> what is said of it, on one line."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if not line.startswith(" "):
            name = line.split()[0]
            found[name] = ""
        found[name] += " " + line.removeprefix(name).strip()
    return found


def test_all_names_and_kinds_of_names_are_listed() -> None:
    done = call("games")
    listed = entries(done.out)
    assert done.code == 0 and list(listed) == [*GAMES, *KINDS, "module:MyGame"]
    assert max(len(line) for line in done.out.splitlines()) <= 120
    for name, entry in GAMES.items():
        assert entry.description in listed[name]
    assert "needs pgx: 2." in listed["go_9x9"] and "is installed; presets: paper, tuned" in listed["go_9x9"]
    assert "needs pgx: 2." in listed["pgx:<id>"] and "needs jaxmarl: 0." in listed["jaxmarl:<id>"]
    assert "needs pettingzoo: 1." in listed["pz:<id>"] and "needs open_spiel: 2." in listed["openspiel:<id>"]
    for own in ("hanabi", "simple_tag", "deceptive_messages", "matrix"):
        assert "no extra library" in listed[own]
    assert "options: n, r, c, shared" in listed["public_goods"]


def test_what_is_missing_comes_with_the_line_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(games, "package_version", lambda name: None)
    listed = entries(call("games").out)
    assert 'needs jaxmarl: not installed, pip install "gems_jax[jaxmarl]"' in listed["jaxmarl:<id>"]
    assert "needs pgx: not installed, pip install pgx" in listed["chess"]
