"""One game of the trained mixture against itself: up to fifteen positions, and an animation.

It is the first game that is played; none is selected.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from experiments.pictures.board_drawing import check_board, draw_board
from experiments.pictures.drawn import Drawn, trained
from gems_jax.runner.directory import slug
from gems_jax.viz.animation import board_of
from gems_jax.viz.plotting import make_panels
from gems_jax.viz.transcripts import GameRecord, GameTable, animate_game, play_game
from gems_jax.viz.words import Words, words_of

if TYPE_CHECKING:
    from experiments.harness.spec import Plan

ROWS, COLUMNS, CELL = 3, 5, 2.1


def boards(plan: Plan, folder: Path) -> Drawn:
    """Draws `boards-<arm>.png` and `.svg`, one game of the first seed each; numbers: its length and result."""
    files: dict[str, Any] = {}
    numbers: dict[str, Any] = {}
    for label, (member, *_) in trained(plan, folder).items():
        policy, words = member.policy, words_of(member.policy.game)
        check_board(policy.game)
        record = play_game(GameTable(policy.game), policy, jax.random.key(policy.seed))
        files[f"boards-{slug(label)}.png"] = _sequence(f"{label}, seed {policy.seed}", words, record)
        files[f"boards-{slug(label)}.svg"] = animate_game(words, record).encode()
        numbers[label] = {"moves": len(record.turns), "result": _ending(words, record)}
    return Drawn(files, numbers)


def frames_of(moves: int) -> list[int]:
    """Selects up to fifteen moves, evenly spaced from the first to the last."""
    return sorted({int(number) for number in np.linspace(1, moves, min(moves, ROWS * COLUMNS)).round()})


def _sequence(title: str, words: Words, record: GameRecord) -> Any:
    positions = [*(turn.state for turn in record.turns), record.final]
    board = board_of(positions[0].inner.state)
    shown = frames_of(len(record.turns))
    rows = -(-len(shown) // COLUMNS)
    figure, axes = make_panels(rows, COLUMNS, width=CELL * COLUMNS, height=(CELL + 0.3) * rows + 0.4, sharex=False)
    for axis in axes.ravel()[len(shown) :]:
        axis.set_axis_off()
    for axis, number in zip(axes.ravel(), shown, strict=False):
        turn = record.turns[number - 1]
        ((seat, action),) = turn.actions.items()
        draw_board(axis, positions[number], board.moved(turn.state, action) if board else ())
        axis.set_title(f"{number}. {words.seat(seat)}: {words.action(turn.state, action)}", fontsize=7.5, pad=3)
    high, wide = (np.ptp(limits) for limits in (axes[0, 0].get_ylim(), axes[0, 0].get_xlim()))
    figure.set_size_inches(CELL * COLUMNS, (CELL * high / wide + 0.3) * rows + 0.4)
    figure.suptitle(f"{title}: {len(record.turns)} moves; {_ending(words, record)}", fontsize=9)
    return figure


def _ending(words: Words, record: GameRecord) -> str:
    """Describes who won, and how if that is not visible."""
    best = int(np.argmax(record.returns))
    won = f"{words.seat(best)} wins" if record.returns[best] > 0 else "a draw"
    return f"{won} ({words.ending(record.final)})" if words.ending else won
