"""`python -m experiments.results runs/<experiment>/<time>`: put a finished experiment into docs/results.md.

Every experiment has its own section between two markers, which is replaced; the rest of the file stays as it is.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from experiments.claims import COLUMNS as CLAIMED
from experiments.harness.experiment import load_summary
from experiments.harness.spec import Experiment
from experiments.harness.study import Study
from experiments.reporting import describing
from experiments.reporting.stated import stated_numbers, write_stated
from gems_jax.runner.directory import slug
from gems_jax.runner.errors import RunError
from gems_jax.runner.files import replace_text
from gems_jax.viz.tables import TextTable

MAX_FIGURE_BYTES = 250_000
TITLE = "# Results\n\nWritten by `python -m experiments.run <experiment> --write-results`; do not edit by hand.\n"
DOCS = Path(__file__).resolve().parent.parent / "docs"


def write_results(
    folder: Path | str, docs: Path = DOCS, notes: Sequence[str] = (), metrics: Sequence[str] = ()
) -> Path:
    """Write the section of the experiment in `folder`, with its figures and notes; returns the path of results.md.

    Beside it go the same numbers for programs, docs/results/<name>.json: `metrics`, costs, and what claims speak of.
    """
    folder, summary = Path(folder), load_summary(folder)
    copied = []
    (docs / "figures").mkdir(parents=True, exist_ok=True)
    for name in summary["figures"]:  # all of them before the first is copied
        size = (folder / name).stat().st_size
        if size > MAX_FIGURE_BYTES:
            raise RunError(f"{folder / name} has {size} bytes, more than the {MAX_FIGURE_BYTES} that docs may hold")
    for name in summary["figures"]:
        target = docs / "figures" / f"{slug(summary['name'])}_{Path(name).name}"
        shutil.copyfile(folder / name, target)
        copied.append(target.relative_to(docs).as_posix())
    path = docs / "results.md"
    replace_text(path, replace_section(results_page(path), summary["name"], section(summary, copied, notes)))
    write_stated(docs / "results", stated_numbers(summary, (*CLAIMED, *metrics)))
    return path


def results_page(path: Path) -> str:
    """What docs/results.md holds, or its beginning."""
    return path.read_text(encoding="utf-8") if path.exists() else TITLE


def replace_section(text: str, name: str, body: str, first: bool = False) -> str:
    """`text` with the section `name` replaced, or added at the end, or before the `first` section."""
    start, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->\n"
    block = f"{start}{body.strip()}\n{end}"
    if (start in text) != (end in text) or text.count(start) > 1 or text.count(end) > 1:
        raise RunError(f"results.md has not exactly one pair of the markers {start.strip()} and {end.strip()}: mend it")
    if start not in text and first and "<!-- begin " in text:
        head, marker, rest = text.partition("<!-- begin ")
        return f"{head}{block}\n{marker}{rest}"
    if start not in text:
        return f"{text.rstrip()}\n\n{block}"
    head, rest = text.split(start)
    if end not in rest:
        raise RunError(f"results.md has {end.strip()} before {start.strip()}: mend it")
    return head + block + rest.split(end)[1]


def section(summary: dict[str, Any], figures: Sequence[str], notes: Sequence[str] = ()) -> str:
    table = TextTable(**summary["table"])
    lines = [f"## {summary['title']}", ""]
    if summary["convention"]:
        lines += [f"Convention: {summary['convention']}.", ""]
    lines += [table.markdown()]
    lines += [f"- {line}" for line in (*notes, *summary["checks"])] + [""]
    lines += reasons(summary)
    lines += [f"![{Path(name).stem.replace('_', ' ')}]({name})\n" for name in figures]
    return "\n".join([*lines, *(f"- {name}: {text}" for name, text in describing.circumstances(summary))])


def reasons(summary: dict[str, Any]) -> list[str]:
    """Lines of the table of causes, where there is one."""
    table = describing.reasons(summary)
    if table is None:
        return []
    rows = [table.header, ["---"] + ["---:"] * (len(table.header) - 1), *table.rows]
    return [*("| " + " | ".join(cells) + " |" for cells in rows), "", describing.EXPLAINED, ""]


def metrics_of(spec: Experiment | Study) -> tuple[str, ...]:
    """The columns of the experiment's table; a study has numbers of its own."""
    return spec.metrics if isinstance(spec, Experiment) else ()


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m experiments.results runs/<experiment>/<time>", file=sys.stderr)
        return 2
    try:
        from experiments.report import write_ledger
        from experiments.run import load

        spec = load(load_summary(arguments[0])["name"])
        print(f"written: {write_results(arguments[0], notes=spec.notes, metrics=metrics_of(spec))}")
        write_ledger()  # the claims that the new numbers decide
    except (RunError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
