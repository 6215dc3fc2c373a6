"""`python -m experiments.results runs/<experiment>/<time>`: put a finished experiment into docs/results.md.

Every experiment has its own section between two markers, which is replaced; the rest of the file stays as it is.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gems_jax.run.directory import slug
from gems_jax.run.errors import RunError
from gems_jax.run.experiment import load_summary
from gems_jax.run.files import replace_text
from gems_jax.run.labels import readable
from gems_jax.run.summary import Table

MAX_FIGURE_BYTES = 200_000
TITLE = "# Results\n\nWritten by `python -m experiments.run <experiment> --write-results`; do not edit by hand.\n"
# Columns that say why an arm stands where it stands, as far as they were logged.
REASONS = (
    "budget_best_response",
    "budget_oracle",
    "budget_newcomer",
    "budget_meta_regret",
    "budget_total",
    "monte_carlo_error",
    "abr_gap",
    "forgetting_kl",
    "forgetting_value",
    "effective_policies",
    "active_anchors",
)
DOCS = Path(__file__).resolve().parent.parent / "docs"


def write_results(folder: Path | str, docs: Path = DOCS, notes: Sequence[str] = ()) -> Path:
    """Write the section of the experiment in `folder`, with its figures and notes; returns the path of results.md."""
    folder, summary = Path(folder), load_summary(folder)
    copied = []
    (docs / "figures").mkdir(parents=True, exist_ok=True)
    for name in summary["figures"]:
        size = (folder / name).stat().st_size
        if size > MAX_FIGURE_BYTES:
            raise RunError(f"{folder / name} has {size} bytes, more than the {MAX_FIGURE_BYTES} that docs may hold")
        target = docs / "figures" / f"{slug(summary['name'])}_{Path(name).name}"
        shutil.copyfile(folder / name, target)
        copied.append(target.relative_to(docs).as_posix())
    path = docs / "results.md"
    before = path.read_text(encoding="utf-8") if path.exists() else TITLE
    replace_text(path, replace_section(before, summary["name"], section(summary, copied, notes)))
    return path


def replace_section(text: str, name: str, body: str) -> str:
    """`text` with the section `name` replaced, or added at the end."""
    start, end = f"<!-- begin {name} -->\n", f"<!-- end {name} -->\n"
    block = f"{start}{body.strip()}\n{end}"
    if (start in text) != (end in text) or text.count(start) > 1 or text.count(end) > 1:
        raise RunError(f"results.md has not exactly one pair of the markers {start.strip()} and {end.strip()}: mend it")
    if start not in text:
        return f"{text.rstrip()}\n\n{block}"
    head, rest = text.split(start)
    if end not in rest:
        raise RunError(f"results.md has {end.strip()} before {start.strip()}: mend it")
    return head + block + rest.split(end)[1]


def section(summary: dict[str, Any], figures: Sequence[str], notes: Sequence[str] = ()) -> str:
    table = Table(**summary["table"])
    lines = [f"## {summary['title']}", ""]
    if summary["convention"]:
        lines += [f"Convention: {summary['convention']}.", ""]
    lines += [table.markdown()]
    lines += [f"- {line}" for line in (*notes, *summary["checks"])] + [""]
    lines += reasons(summary)
    lines += [f"![{Path(name).stem.replace('_', ' ')}]({name})\n" for name in figures]
    return "\n".join([*lines, *_circumstances(summary)])


def reasons(summary: dict[str, Any]) -> list[str]:
    """Means over seeds at the last iteration of what `evaluate/monitor.py` says about causes."""
    if not summary["arms"]:  # a study
        return []
    last = max(row["iteration"] for row in summary["numbers"])
    means = {(row["column"], row["arm"]): row["mean"] for row in summary["numbers"] if row["iteration"] == last}
    arms = [arm for arm in summary["arms"] if any((column, arm) in means for column in REASONS[:-1])]
    shown = [column for column in REASONS if any((column, arm) in means for arm in arms)]
    if not shown:
        return []
    header = ["| why: mean over seeds at iteration " + str(last), *arms]
    lines = [" | ".join(header) + " |", "| --- |" + " ---: |" * len(arms)]
    for column in shown:
        cells = [f"{means[column, arm]:.4g}" if (column, arm) in means else "" for arm in arms]
        lines.append(f"| {readable(column)} | " + " | ".join(cells) + " |")
    return [*lines, "", "The columns are explained in `src/gems_jax/evaluate/monitor.py`.", ""]


def _circumstances(summary: dict[str, Any]) -> list[str]:
    commit = summary["commit"] or "unknown"
    changed = ", with uncommitted changes" if summary["dirty"] else ""
    device = summary["device"]
    versions = ", ".join(f"{name} {version}" for name, version in summary["versions"].items())
    return [
        f"- Command: `{summary['command'] or 'run_experiment from Python'}`",
        f"- Commit: {commit}{changed}",
        f"- Date: {summary['finished']}",
        f"- Hardware: {summary['processor']}, {summary['cpus']} cores; JAX on {device['count']} x {device['kind']}",
        f"- Versions: Python {summary['python']}, {versions}",
    ]


def main(arguments: Sequence[str]) -> int:
    if len(arguments) != 1:
        print("usage: python -m experiments.results runs/<experiment>/<time>", file=sys.stderr)
        return 2
    try:
        from experiments.run import load

        spec = load(load_summary(arguments[0])["name"])
        print(f"written: {write_results(arguments[0], notes=spec.notes)}")
    except (RunError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
