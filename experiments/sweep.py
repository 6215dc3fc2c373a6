"""Runs a sweep of experiments/sweeps/, or any sweep file: `python -m experiments.sweep NAME|FILE [--run-dir FOLDER]`.

It is `gems sweep` with the names of the files in that folder. Without a name it lists them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from gems_jax.cli.main import invoke

SWEEPS = Path(__file__).parent / "sweeps"


def known() -> list[str]:
    return sorted(path.stem for path in SWEEPS.glob("*.toml"))


def main(arguments: Sequence[str] | None = None) -> int:
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words:
        print(f"which sweep? {', '.join(known())}, or a file; flags: gems sweep --help")
        return 2
    if words[0] in known():
        words[0] = str(SWEEPS / f"{words[0]}.toml")
    return invoke(["sweep", *words])


if __name__ == "__main__":
    sys.exit(main())
