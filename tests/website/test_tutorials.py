"""Tutorials run, and their pages are those of their files."""

import re

import pytest

from website import notebooks
from website.navigation import TUTORIALS
from website.notebooks import FOLDER, Cell, execute, read_cells, render, run_cell

NAMES = [name for _, name in TUTORIALS]
EXPECTED = {  # what one of the outputs says
    "kuhn": "bets with probability",
    "own_program": "(2, 2, 2)",
    "own_game": "return_bounds",
    "compare": "self_play",
    "population": "value of the two mixtures",
    "connect_four": "greedy actions against the tactician: score",
    "three_players": "cce_gap",
}


def test_cells_are_read_and_run():
    cells = read_cells("# %% [markdown]\n# # Title\n#\n# text\n\n# %%\nx = 2\nprint('a')\nx + 1\n\n# %%\ny = x\n")
    assert cells == [Cell(False, "# Title\n\ntext"), Cell(True, "x = 2\nprint('a')\nx + 1"), Cell(True, "y = x")]
    outputs = execute(cells, "a_tutorial")
    assert [output.text for output in outputs] == ["", "a\n3\n", ""]


def test_figures_are_collected(tmp_path, monkeypatch):
    monkeypatch.setattr(notebooks, "FOLDER", tmp_path)
    output = run_cell("import matplotlib.pyplot as plt\nplt.plot([1])\nplt.title('a b')\nNone", {})
    assert [title for title, _ in output.figures] == ["a b"] and output.text == ""
    page = render("t", [Cell(True, "plot()")], [output], "the end")
    assert page == "```python\nplot()\n```\n\n![a b](figures/t_1.png)\n\nthe end\n"
    assert (tmp_path / "figures" / "t_1.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", NAMES)
def test_pages_are_those_of_their_files(name):
    """`make tutorials` writes them: text and code are equal, and every figure of the page exists."""
    page, rest = (FOLDER / f"{name}.md").read_text(), 0
    for cell in read_cells((FOLDER / f"{name}.py").read_text()):
        text = f"```python\n{cell.text}\n```" if cell.is_code else cell.text
        assert text in page[rest:], f"{name}.md is older than {name}.py: run `make tutorials ARGS={name}`"
        rest = page.index(text, rest) + len(text)
    if page.rstrip().splitlines()[-1].startswith("*Not executed yet"):
        pytest.skip(f"{name}.md has no outputs: run `make tutorials ARGS={name}` on an idle machine")
    figures = re.findall(r"^!\[(.+)\]\((figures/.*)\)$", page, re.MULTILINE)
    assert figures and all((FOLDER / path).exists() for _, path in figures)
    assert page.rstrip().splitlines()[-1].startswith("*Executed ")
    assert sum(path.stat().st_size for path in (FOLDER / "figures").glob(f"{name}_*.png")) < 400_000


@pytest.mark.slow  # 12 to 15 CPU seconds each, with a warm compilation cache
@pytest.mark.parametrize("name", NAMES)
def test_tutorials_run(name, monkeypatch, tmp_path):
    monkeypatch.setenv(notebooks.QUICK, "1")
    monkeypatch.chdir(tmp_path)
    cells = read_cells((FOLDER / f"{name}.py").read_text())
    outputs = execute(cells, f"tutorial_{name}")
    assert any(EXPECTED[name] in output.text for output in outputs)
    drawn = sum(cell.text.count("plt.subplots(") for cell in cells if cell.is_code)
    assert sum(len(output.figures) for output in outputs) == drawn > 0
    assert all(title for output in outputs for title, _ in output.figures)
