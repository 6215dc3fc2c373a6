"""Tables, files and heat map of an arena of two to twenty entrants."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from gems_jax import make_game
from gems_jax.evaluate.arena import Match, rank_entrants
from gems_jax.viz.arena import draw_arena, matrix_table, standings_table, write_arena


def invented(count: int, game: str, seed: int = 0):
    """A ranking of entrants whose scores follow from strengths; the last of several never scores."""
    generator, strength, matches = np.random.default_rng(seed), np.linspace(1.0, 0.0, count), []
    for row, column in np.argwhere(~np.eye(count, dtype=bool)):
        chance = 1.0 / (1.0 + np.exp(strength[column] - strength[row]))
        score = generator.binomial(16, chance, 64) / 16
        if count > 2 and count - 1 in (row, column):
            score = np.full(64, float(column == count - 1))
        scores = np.stack([score, 1 - score])
        matches.append(Match(int(row), int(column), 0, 1024, 2 * scores - 1, scores))
    return matches, rank_entrants(make_game(game), matches, count, replicates=100)


def printed(*tables) -> str:
    stream = io.StringIO()
    for table in tables:
        Console(file=stream, width=110).print(table)
    return stream.getvalue()


@pytest.mark.parametrize("count", [2, 5, 20])
def test_files_hold_what_was_measured(count: int, tmp_path: Path) -> None:
    matches, ranking = invented(count, "rock_paper_scissors")
    labels = [f"gems s{number}" for number in range(count)]
    paths = write_arena(ranking, matches, labels, {"game": "rps", "episodes": 1024}, tmp_path / "new" / "out")
    assert [path.name for path in paths] == ["arena.json", "matrix.csv", "ranking.csv", "arena.png"]
    record = json.loads(paths[0].read_text())
    assert record["episodes"] == 1024 and record["entrants"] == labels and record["ranked_by"] == "score"
    assert len(record["matches"]) == count * (count - 1) and record["scores"]["mean"][0][0] is None
    np.testing.assert_allclose(record["scores"]["mean"][0][1], ranking.scores.mean[0, 1])
    rows = list(csv.DictReader(paths[1].open()))
    assert rows[0]["entrant"] == labels[ranking.order[0]] and rows[0][rows[0]["entrant"]] == ""
    np.testing.assert_allclose(float(rows[0][rows[1]["entrant"]]), ranking.scores.mean[tuple(ranking.order[:2])])
    best = next(csv.DictReader(paths[2].open()))
    assert float(best["elo"]) == pytest.approx(ranking.elo.rating.max()) and float(best["elo_low"]) <= float(
        best["elo"]
    )
    assert 5e3 < paths[3].stat().st_size < 5e5


def test_tables_are_readable() -> None:
    _, ranking = invented(4, "rock_paper_scissors")
    text = printed(standings_table(ranking, list("abcd")), matrix_table(ranking, list("abcd")))
    assert "ranking by Elo" in text and "≤ -" in text and "≥, ≤: bounds" in text and "0 of" not in text
    assert f"{ranking.scores.mean[0, 1]:.3f}" in text and "–" in text and all(len(x) <= 110 for x in text.splitlines())
    _, many = invented(13, "rock_paper_scissors")
    assert "matrix.csv" in printed(matrix_table(many, [str(n) for n in range(13)]))
    _, stakes = invented(3, "kuhn_poker")
    text = printed(standings_table(stakes, list("abc")))
    assert "ranking by mean return" in text and "whatever their stakes" in text


@pytest.mark.parametrize(("count", "names"), [(2, "{}"), (20, "{}"), (6, "a long name of a run {}")])
def test_names_and_numbers_do_not_leave_the_picture(count: int, names: str) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    _, ranking = invented(count, "rock_paper_scissors")
    labels = [names.format(number) for number in range(count)]
    figure = draw_arena(ranking, labels, "a game")
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    heat, bars = figure.axes
    assert len(heat.texts) == count * (count - 1) and [text.get_text() for text in heat.get_xticklabels()] == [
        labels[entrant] for entrant in ranking.order
    ]
    title, *marks = (
        text.get_window_extent(canvas.get_renderer())
        for text in (*figure.texts, *heat.get_xticklabels(), *heat.get_yticklabels(), bars.xaxis.label)
    )
    width, height = figure.bbox.width, figure.bbox.height
    for box in (title, *marks):
        assert box.x0 >= 0 and box.x1 <= width and box.y0 >= 0 and box.y1 <= height
        assert box is title or box.y1 < title.y0
    cell = heat.get_window_extent().width / count
    assert all(text.get_window_extent(canvas.get_renderer()).width < cell for text in heat.texts)
