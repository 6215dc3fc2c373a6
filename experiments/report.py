"""`python -m experiments.report`: everything under runs/ on one page, runs/report/index.html, with the claims ledger.

--write-results puts the ledger into docs/results.md, judged by the numbers in docs/results alone, so that they make the
same one for everybody. `python -m benchmarks.publish` puts the figures of benchmarks there.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from experiments.claims import CLAIMS
from experiments.reporting.gathering import BENCHMARKS, gather
from experiments.reporting.ledger import SECTION, Ledger, everything, make_ledger, markdown, tally
from experiments.reporting.page import page, write_page
from experiments.reporting.sections import About
from experiments.results import DOCS, replace_section, results_page
from experiments.run import known, load, modules
from experiments.sizes import full_size
from gems_jax.runner.errors import RunError
from gems_jax.runner.files import replace_text

ORDER = (
    "kuhn", "kuhn_compare", "kuhn_family", "deceptive", "tag", "spread", "connect4", "hanabi", "go", "chess",
    "public_goods", "oracle", "ablate_kuhn", "ablate_deceptive", "ablate_public_goods", "scaling",
)  # fmt: skip


def about(name: str) -> About:
    """The first paragraph of the spec's file, and its notes."""
    if name not in known():
        return About()
    told = importlib.import_module(modules()[name]).__doc__ or ""
    return About(" ".join(told.strip().split("\n\n")[0].split()), tuple(load(name).notes))


def write_report(root: Path | str = "runs", docs: Path = DOCS) -> Path:
    """Write the page; returns its path."""
    sources = gather(root, docs / "results", full_size)
    folder = Path(root) / BENCHMARKS
    ledger = make_ledger(CLAIMS, sources)
    text = page(sources, ledger, {name: about(name) for name in sources.folders}, ORDER, sorted(folder.glob("*.png")))
    return write_page(Path(root) / "report" / "index.html", text)


def stated_ledger(docs: Path = DOCS) -> Ledger:
    """Judge every claim by the numbers in docs/results, and by nothing else."""
    return make_ledger(CLAIMS, gather(None, docs / "results", full_size))


def write_ledger(docs: Path = DOCS) -> Path:
    """Write the ledger to docs/results.md, before the experiments: by docs/results, and by nothing else."""
    path = docs / "results.md"
    section = markdown(stated_ledger(docs))
    replace_text(path, replace_section(results_page(path), SECTION, section, first=True))
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m experiments.report", description=__doc__.split("\n")[0])
    parser.add_argument("--root", type=Path, default=Path("runs"), help="where the experiments are")
    parser.add_argument("--write-results", action="store_true", help="put the ledger into docs/results.md, too")
    options = parser.parse_args(arguments)
    try:
        print(f"written: {write_report(options.root)}")
        if options.write_results:
            print(f"written: {write_ledger()}")
        print(f"claims, by docs/results: {tally(everything(stated_ledger()))}")
    except (RunError, ValueError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
