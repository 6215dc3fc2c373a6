"""Studies: what they leave behind, and (slow) that the published ones hold their checks."""

import io
import json

import pytest

from experiments.harness.study import Findings, Study, run_study
from experiments.results import write_results
from experiments.run import known, load
from gems_jax.runner.console import Console
from gems_jax.runner.errors import RunExistsError
from gems_jax.viz.plotting import make_panels
from gems_jax.viz.tables import TextTable

STUDIES = [name for name in known() if isinstance(load(name), Study)]


def tiny(quick):
    figure, axes = make_panels(1, 1, width=3.0, height=2.0)
    axes[0, 0].plot([1, 2], [3, 4])
    table = TextTable(("", "a"), (("row", "1"),), (0,), "a caption")
    checks = [("one and one is two", True), ("quick is slow", not quick)]
    return Findings(table, {"line": figure}, [{"name": "row", "a": 1.0}], checks)


@pytest.mark.parametrize("quick", [False, True])
def test_a_study_leaves_what_an_experiment_leaves(tmp_path, quick):
    stream, folder = io.StringIO(), tmp_path / "study"
    study = Study("tiny", "A tiny study", tiny, convention="none", notes=("a note",))
    options = {"run_dir": folder, "console": Console(file=stream, interactive=False), "command": "make tiny"}
    result = run_study(study, quick=quick, **options)
    assert result.finished and result.exit_code == int(quick)
    assert result.failures == (("check FAILED: quick is slow",) if quick else ())
    said = stream.getvalue()
    assert "check holds: one and one is two" in said and "caption" in said
    assert (folder / "figures" / "line.png").stat().st_size > 500
    assert (folder / "summary.csv").read_text() == "name,a\nrow,1.0\n"
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["name"] == "tiny"
    text = write_results(folder, tmp_path / "docs", notes=study.notes).read_text()
    assert "# A tiny study\n" in text and "- a note" in text and "| row | 1 |" in text and "`make tiny`" in text
    assert "(../figures/tiny_line.png)" in text and (tmp_path / "docs" / "figures" / "tiny_line.png").is_file()
    with pytest.raises(RunExistsError, match="is not empty"):
        run_study(study, **options)


def test_there_are_studies():
    assert "oracle" in STUDIES


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_the_published_studies_hold(name, tmp_path):
    result = run_study(load(name), run_dir=tmp_path / name, console=Console(quiet=True))
    assert result.exit_code == 0, result.failures
