"""Text from files is text: no markup of rich, no HTML, no escape sequences, no formulas of matplotlib."""

import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from benchmarks.trust import damage
from cli import assert_one_line, call
from experiments.reporting import html
from gems_jax.runner.console import Console, Progress, summary_table
from gems_jax.viz.comparison import compare_runs, comparison_markdown, comparison_table
from gems_jax.viz.plotting import make_panels, save_figure
from gems_jax.viz.tables import TextTable

STORED = Path(__file__).parents[1] / "data" / "run_format_3"
NAMES = ("[red]red[/red]", "[/]", "[link=x]", ":smile:", "<script>alert(1)</script>", "$\\foo$")


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("interactive", [False, True])
def test_names_are_printed_as_they_are(name: str, interactive: bool) -> None:
    out = io.StringIO()
    console = Console(out, interactive=interactive)
    console.start(name, 3)
    console.update(Progress(1, 3, (name, 0.5), 1.0, 1.0, None, 1))
    console.stop()
    console.say(f"{name}\x1b[31m\x07")
    rows = {"iteration": np.array([[1, 2]]), name: np.array([[0.5, 0.25]])}
    console.table(summary_table(name, rows, [name], compile_seconds=0.0))
    console.table(TextTable((name, "b"), ((name, name),), (), name).rich(name))
    said = out.getvalue()
    assert said.count(name) >= 6 and f"{name}?[31m?" in said
    assert interactive or "\x1b" not in said


@pytest.mark.parametrize("name", NAMES)
def test_names_of_files_in_comparisons_and_figures(tmp_path: Path, name: str) -> None:
    run = Path(shutil.copytree(STORED, tmp_path / "run"))
    for field in ("game", "method"):
        damage.change_json(run, "config.json", field, name)
    with_gap = [
        f"{line},{'gap' if not n else 0.5 / n}" for n, line in enumerate((run / "metrics.csv").read_text().split())
    ]
    (run / "metrics.csv").write_text("\n".join(with_gap) + "\n")
    found = compare_runs([run], metric="gap")
    out = io.StringIO()
    Console(out).table(comparison_table(found))
    assert name in out.getvalue().replace("\n", "")
    assert "<script" not in comparison_markdown(found)
    figure, axes = make_panels(1, 1, 3, 2)
    axes[0][0].plot([1, 1000], [1, 2], label=name)
    axes[0][0].set(title=name, xlabel=name, xscale="log")
    axes[0][0].legend(title=name)
    assert save_figure(figure, tmp_path / "figure.png").stat().st_size > 1000


def test_documents_escape(tmp_path: Path) -> None:
    evil = "<script>alert('1')</script>\"&"
    (tmp_path / "a.png").write_bytes(b"")
    table = TextTable((evil, "b"), ((evil, evil),), (), evil)
    pages = [html.table(table), html.paragraphs([evil]), html.bullets([evil]), html.pairs([(evil, evil)])]
    pages += [html.folded(evil, ""), html.picture(tmp_path / "a.png", evil, evil), html.element("p", "", title=evil)]
    for page in pages:
        assert "<script" not in page and "&lt;script&gt;" in page and "='1'" not in page


@pytest.mark.parametrize("field", ["game", "method", "config/policy", "options/preset", "created"])
def test_escape_sequences_in_a_config_are_refused(tmp_path: Path, field: str) -> None:
    run = Path(shutil.copytree(STORED, tmp_path / "run"))
    damage.change_json(run, "config.json", field, "\x1b]0;title\x07")
    assert_one_line(call("eval", run), 1, field.split("/")[0])
    outcome = call("doctor", run)
    assert outcome.code == 1 and "\x1b" not in outcome.out + outcome.err
    assert "\\u001b" in json.dumps(json.loads((run / "config.json").read_text()))
