"""Worker of the local executor: `python -m gems_jax.sweep.worker FOLDER [--trust]`.

It reads lines `cell attempt`, computes each cell and answers with its outcome as a line of JSON. The output of a cell
goes to its log.txt. If the process that started it ends, a worker saves and stops after its chunk.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path


def main(folder: Path, trust: bool = False) -> None:
    """Computes the cells of the sweep in `folder` that stdin names, until it closes."""
    threading.Thread(target=_leave_with_parent, args=(os.getppid(),), daemon=True).start()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        cell, attempt = map(int, line.split())
        _log_to(folder / "cells" / f"{cell:03d}" / "log.txt")
        from gems_jax.sweep.cell import run_cell

        outcome = run_cell(folder, cell, attempt, trust)
        print(json.dumps(outcome._asdict()), file=answers, flush=True)
        import jax

        jax.clear_caches()  # frees memory: the next cell is another program


def _log_to(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)


def _leave_with_parent(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main(Path(sys.argv[1]), trust="--trust" in sys.argv[2:])
