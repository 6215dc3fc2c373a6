"""Strength of the fixed opponents: every one against random play and against the next weaker one of its game."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax

from experiments.harness.study import Findings, Study
from gems_jax.evaluate.head_to_head import head_to_head
from gems_jax.evaluate.solved_moves import has_solved_positions, solved_move_rate
from gems_jax.games import make_game
from gems_jax.opponents.profiles import fixed_profile
from gems_jax.opponents.registry import opponents_of
from gems_jax.types import Game, player_names
from gems_jax.viz.tables import TextTable

GAMES = {"connect_four": 400, "hanabi": 512, "simple_tag": 1000, "go_9x9": 128, "chess": 48}  # and episodes
FURTHER = (("minimax_2", "tactician"), ("minimax_4", "minimax_2"))  # beyond neighbors
BOARDS = ("connect_four", "go_9x9", "chess")


class Match(NamedTuple):
    """One measurement; `player` is the measured position, None for all of them."""

    label: str
    opponent: str
    player: int | None = None


def matches_of(game: Game) -> list[Match]:
    """Lists what is measured: boards in all positions, other games in the first position of every side."""
    first, *others = opponents_of(game)
    if game.name in BOARDS:
        weaker = [first, *others]
        found = [Match(label, first) for label in others]
        found += [Match(label, weaker[number]) for number, label in enumerate(others) if weaker[number] != first]
        found.sort(key=lambda match: others.index(match.label))
        return found + [Match(*pair) for pair in FURTHER if set(pair) <= set(others)]
    players = (0, 1) if game.name == "simple_tag" else (0,)
    pairs = [(first, first), *((label, met) for label in others for met in (first, label))]
    return [Match(*pair, player) for player in players for pair in pairs]


def measure(game: Game, match: Match, episodes: int) -> dict[str, Any]:
    """Plays one match with a fixed key; returns a row of numbers."""
    known = opponents_of(game)
    profile = fixed_profile(game, known[match.label])
    found = head_to_head(jax.random.key(0), game, profile, known[match.opponent], match.player, episodes)
    row = {"game": game.name, **match._asdict(), "mean": float(found.mean), "interval": float(found.interval)}
    return row | {"win": float(found.win), "draw": float(found.draw), "episodes": int(found.episodes)}


def opponents_study(quick: bool = False) -> Findings:
    """Measures all opponents of all games."""
    numbers, rates = [], {}
    for name, episodes in GAMES.items():
        game = make_game(name)
        numbers += [measure(game, match, episodes // 8 if quick else episodes) for match in matches_of(game)]
        if has_solved_positions(game):
            found = {label: solved_move_rate(game, policy) for label, policy in opponents_of(game).items()}
            rates = {label: (float(each.sampled), float(each.sampled_interval)) for label, each in found.items()}
    numbers += [
        {"game": "solved positions", "label": label, "mean": a, "interval": b} for label, (a, b) in rates.items()
    ]
    return Findings(_table(numbers), {}, numbers, _checks(numbers))


def _checks(numbers: list[dict[str, Any]]) -> list[tuple[str, bool]]:
    """Checks that every opponent is stronger than the weaker ones, by more than the interval."""
    boards = [row for row in numbers if row["game"] in BOARDS and _is_ordered(row)]
    checks = [
        (f"{row['game']}: {row['label']} beats {row['opponent']}", row["mean"] > row["interval"]) for row in boards
    ]
    others = {(row["game"], row["player"], row["label"], row["opponent"]): row for row in numbers if "player" in row}
    for (game, player, label, opponent), row in others.items():
        if game not in BOARDS and label != "random" and opponent == "random":
            base = others[game, player, "random", "random"]
            better = row["mean"] - row["interval"] > base["mean"] + base["interval"]
            if game != "hanabi":
                checks.append((f"{game}: {label} earns more than random play as player {player}", better))
    return checks


def _is_ordered(row: dict[str, Any]) -> bool:
    """Returns whether the label is meant to be stronger; minimax of depth 1 does not block, so it is not."""
    return (row["label"], row["opponent"]) != ("minimax_1", "tactician")


def _table(numbers: list[dict[str, Any]]) -> TextTable:
    header = ("", "against", "mean return", "wins", "draws", "episodes")
    body: list[tuple[str, ...]] = []
    sections: list[int] = []
    for game in dict.fromkeys(row["game"] for row in numbers):
        body.append((game, *[""] * (len(header) - 1)))
        for row in (row for row in numbers if row["game"] == game):
            mean = f"{row['mean']:.3f} ± {row['interval']:.3f}"
            if "opponent" not in row:
                body.append((f"  {row['label']}", "moves that keep the value", mean, "", "", ""))
                continue
            shares = [f"{row[name]:.3f}" if game in BOARDS else "" for name in ("win", "draw")]
            body.append((f"  {_name(row)}", row["opponent"], mean, *shares, f"{row['episodes']:,}"))
        sections.append(len(body) - 1)
    caption = "means and half of their 95 % intervals; boards: 1 for a win, -1 for a loss, all positions equally often"
    return TextTable(header, tuple(body), tuple(sections), caption)


def _name(row: dict[str, Any]) -> str:
    """Names the measured player, and its position if it is not every position."""
    names = player_names(make_game(row["game"]))
    position = "" if row["player"] is None or row["game"] == "hanabi" or names is None else f", {names[row['player']]}"
    return f"{row['label']}{position}"


EXPERIMENT = Study(
    name="opponents",
    title="Strength of the fixed opponents",
    measure=opponents_study,
    convention="simple_tag and hanabi: return of the measured player with the other policy in all other positions",
    notes=(
        "minimax_1 wins where it can, but does not block: it is weaker than the tactician. Every further ply is "
        "stronger than the one before.",
        "Minimax expects the best reply, so it does not resist where every move loses. The tactician still blocks one "
        "of two threats, and scores more than minimax_2 and minimax_3 against random play, which overlooks the other.",
        "The chess players count material and do not look for checkmate: most of their games are drawn, also against "
        "random play.",
        "Solved positions: the probability that the move keeps the value of the position, over 960 positions of 20 to "
        "35 stones in which some move fails.",
        "The Hanabi player takes no risk: with itself it never loses a life. A partner that plays at random loses all "
        "lives, and with them the points.",
    ),
)
