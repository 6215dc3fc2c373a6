"""Tutorials: Python files with cells (jupytext's percent format), executed here and written as Markdown pages.

`make tutorials` executes them at full size and writes docs/tutorials/NAME.md with outputs and figures, which are
committed: building the site executes nothing. GEMS_TUTORIAL_QUICK=1 shrinks what they train, for tests.
"""

import argparse
import ast
import contextlib
import io
import os
import re
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any, NamedTuple

from gems_jax.runner import machine
from website.navigation import TUTORIALS

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "tutorials"
QUICK = "GEMS_TUTORIAL_QUICK"
MARK = re.compile(r"^# %%(.*)$", re.MULTILINE)


class Cell(NamedTuple):
    """One cell of a tutorial."""

    is_code: bool
    text: str


class Output(NamedTuple):
    """What a cell prints, and its figures as (title, PNG)."""

    text: str
    figures: list[tuple[str, bytes]]


def read_cells(text: str) -> list[Cell]:
    """Splits a tutorial into cells.

    Args:
      text: a Python file in the percent format.

    Returns:
      Cells in order; text of Markdown cells without comment signs.
    """
    pieces = MARK.split(text)[1:]
    cells = []
    for mark, body in zip(pieces[::2], pieces[1::2], strict=True):
        if "[markdown]" in mark:
            body = re.sub(r"^# ?", "", body.strip("\n"), flags=re.MULTILINE)
        cells.append(Cell("[markdown]" not in mark, body.strip("\n")))
    return cells


def execute(cells: list[Cell], name: str) -> list[Output]:
    """Executes the cells of a tutorial in one new module.

    Args:
      cells: its cells.
      name: name of the module.

    Returns:
      Outputs, one for each cell; those of Markdown cells are empty.
    """
    import matplotlib

    matplotlib.use("Agg", force=True)
    module = types.ModuleType(name)
    sys.modules[name] = module  # dataclasses look for the module of their class
    try:
        return [run_cell(cell.text, module.__dict__) if cell.is_code else Output("", []) for cell in cells]
    finally:
        del sys.modules[name]


def run_cell(text: str, names: dict[str, Any]) -> Output:
    """Runs the code of one cell, and shows the value of its last expression as a notebook does.

    Args:
      text: the code.
      names: names of the module; changed.

    Returns:
      The printed text and the figures that were drawn, which are closed.
    """
    import matplotlib.pyplot as plt

    body = ast.parse(text).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "tutorial", "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), "tutorial", "eval"), names)
        if value is not None:
            print(repr(value))
    figures = []
    for number in plt.get_fignums():
        figure, file = plt.figure(number), io.BytesIO()
        figure.savefig(file, format="png", dpi=100)
        title = figure.get_suptitle() or next((axes.get_title() for axes in figure.axes), "")
        figures.append((" ".join(title.split()), file.getvalue()))
    plt.close("all")
    return Output(printed.getvalue(), figures)


def render(name: str, cells: list[Cell], outputs: list[Output], note: str) -> str:
    """Writes the page of a tutorial, and its figures beside it.

    Args:
      name: name of the tutorial.
      cells: its cells.
      outputs: their outputs.
      note: last line of the page.

    Returns:
      Markdown.
    """
    parts, count = [], 0
    for cell, output in zip(cells, outputs, strict=True):
        parts.append(f"```python\n{cell.text}\n```" if cell.is_code else cell.text)
        if output.text.strip():
            parts.append(f"```text\n{output.text.rstrip()}\n```")
        for title, image in output.figures:
            count += 1
            (FOLDER / "figures").mkdir(exist_ok=True)
            (FOLDER / "figures" / f"{name}_{count}.png").write_bytes(image)
            parts.append(f"![{title}](figures/{name}_{count}.png)")
    return "\n\n".join([*parts, note]) + "\n"


def write_tutorial(name: str) -> None:
    """Executes a tutorial and writes its page.

    Args:
      name: name of the file without its ending.
    """
    cells = read_cells((FOLDER / f"{name}.py").read_text())
    start, cpu = time.perf_counter(), time.process_time()
    outputs = execute(cells, f"tutorial_{name}")
    seconds, used = time.perf_counter() - start, time.process_time() - cpu
    (FOLDER / f"{name}.md").write_text(render(name, cells, outputs, _note(name, seconds, used)))
    print(f"{name}: {seconds:.0f} s, {used:.0f} s of CPU time")


def _note(name: str, seconds: float, used: float) -> str:
    found = machine.describe_circumstances()
    size = "with small sizes " * bool(os.environ.get(QUICK))
    flags = os.environ.get("XLA_FLAGS", "").strip()
    jax = f"jax {found['versions']['jax']}{', XLA_FLAGS=' * bool(flags)}{flags}"
    return (
        f"*Executed {size}by `make tutorials` from [{name}.py]({name}.py): {seconds:.0f} s, {used:.0f} s of CPU time, "
        f"compilation included, on {found['cpus']} shared cores ({found['processor']}), {jax}, "
        f"commit {(found['commit'] or 'unknown')[:10]}, {found['created'][:10]}.*"
    )


def write_notebooks(folder: Path) -> None:
    """Writes a notebook of each tutorial for download, and a line with the link into its staged page.

    Args:
      folder: folder of the staged tutorials.
    """
    import jupytext

    for _, name in TUTORIALS:
        notebook = jupytext.read(FOLDER / f"{name}.py", fmt="py:percent")
        for number, cell in enumerate(notebook.cells):
            cell["id"] = f"cell-{number}"  # not random: equal sources make equal files
        jupytext.write(notebook, folder / f"{name}.ipynb", fmt="ipynb")
        page = folder / f"{name}.md"
        heading, _, rest = page.read_text().partition("\n")
        page.write_text(f"{heading}\n\n[Download as a notebook]({name}.ipynb)\n{rest}")


def main() -> int:
    """Executes tutorials: all, or those that are named. Each has its own process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="tutorials, by default all")
    names = parser.parse_args().names or [name for _, name in TUTORIALS]
    if len(names) == 1:
        write_tutorial(names[0])
        return 0
    return max(subprocess.run([sys.executable, "-m", "website.notebooks", name], cwd=ROOT).returncode for name in names)


if __name__ == "__main__":
    sys.exit(main())
