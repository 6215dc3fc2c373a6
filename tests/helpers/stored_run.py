"""Writes the stored run of the current checkpoint format: `python tests/helpers/stored_run.py`.

`tests/runner/test_stored_run.py` reads it. Write it anew, under a new name, only when the format changes; the old one
must stay readable.
"""

import os
import shutil
from pathlib import Path

from benchmarks.trust.damage import newest, seal
from gems_jax.cli.main import invoke
from gems_jax.runner.checkpoint import FORMAT, _checksums, read_manifest

FOLDER = Path(__file__).resolve().parents[1] / "data" / f"run_format_{FORMAT}"
LINE = (
    "train matching_pennies --quick --preset auto --iterations 2 --chunk 1 --checkpoint-seconds 0 --keep 1 "
    "--no-exact --evaluation-episodes 0 --capacity 4 --initial-anchors 2 --generator-widths 8 --critic-hidden 8 --quiet"
)


def drop_paths(folder: Path) -> None:
    """Removes the path of this machine from the note of orbax, and seals the manifest again."""
    path = newest(folder)
    (path / "state" / "commit_success.txt").write_text("Checkpoint commit was successful\n")
    seal(path / "manifest.json", {**read_manifest(path), "files": _checksums(path / "state")})


if __name__ == "__main__":
    shutil.rmtree(FOLDER, ignore_errors=True)
    os.chdir(FOLDER.parent)
    assert invoke([*LINE.split(), "--run-dir", FOLDER.name]) == 0
    (FOLDER / ".lock").unlink()
    drop_paths(FOLDER)
