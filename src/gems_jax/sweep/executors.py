"""Executors of cells: `for outcome in executor(cells, stop): ...`.

    local             worker processes on this machine, each computes one cell at a time
    slurm             an array job, by submitit; submitit-local and submitit-debug replace SLURM by local processes
    ray               Ray Tune, on the cluster that `ray.init` finds or on this machine

A cell whose process dies has the outcome failed. Cells resume by themselves, so executors are stateless.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from gems_jax.host.own import python_module
from gems_jax.runner.writers import import_extra
from gems_jax.sweep.cell import Outcome, run_cell
from gems_jax.sweep.folder import SweepFolder
from gems_jax.sweep.points import SweepPlan

Cells = Sequence[tuple[int, int]]  # (cell, attempt)
Stop = Callable[[], bool]
Executor = Callable[[Cells, Stop], Iterator[Outcome]]


def make_executor(plan: SweepPlan, folder: SweepFolder) -> Executor:
    """Makes the executor of the sweep file. Raises MissingExtraError if its library is not installed."""
    kind = plan.file.run.executor
    if kind == "local":
        return partial(_run_locally, plan, folder)
    if kind == "ray":
        import_extra("ray.tune", "ray", "run.executor = 'ray'")
        return partial(_run_ray, plan, folder)
    # Prevents submitit from configuring logging, which would close existing handlers.
    before = os.environ.get("SUBMITIT_LOG_LEVEL")
    os.environ["SUBMITIT_LOG_LEVEL"] = before or "NOCONFIG"
    try:
        import_extra("submitit", "slurm", f"run.executor = {kind!r}")
    finally:
        if before is None:
            del os.environ["SUBMITIT_LOG_LEVEL"]
    return partial(_run_submitit, plan, folder, kind.removeprefix("submitit-"))


# --- processes of this machine


class _Worker:
    """Process that computes one cell at a time (`worker.py`)."""

    def __init__(self, folder: SweepFolder, environment: dict[str, str], trust: bool) -> None:
        line, path = python_module("gems_jax.sweep.worker")
        self.process = subprocess.Popen(
            [*line, str(folder.path), *(["--trust"] if trust else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **path, **environment},
        )

    def compute(self, cell: int, attempt: int) -> Outcome:
        """Computes a cell and waits for its outcome. If the process dies, the cell has failed."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(f"{cell} {attempt}\n")
            self.process.stdin.flush()
            answer = self.process.stdout.readline()
        except (BrokenPipeError, ValueError):
            answer = ""
        if answer:
            return Outcome(**json.loads(answer))
        code = self.process.wait()
        cause = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return Outcome(cell, "failed", f"its process ended with {cause}")

    def end(self) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.wait()


def _run_locally(plan: SweepPlan, folder: SweepFolder, cells: Cells, stop: Stop) -> Iterator[Outcome]:
    waiting: queue.SimpleQueue[tuple[int, int]] = queue.SimpleQueue()
    for item in cells:
        waiting.put(item)
    found: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
    workers: list[_Worker] = []

    def work(number: int) -> None:
        worker = None
        while not stop():
            try:
                cell, attempt = waiting.get_nowait()
            except queue.Empty:
                break
            if worker is None or worker.process.poll() is not None:
                worker = _Worker(folder, _environment(plan, number), plan.trust)
                workers.append(worker)
            found.put(worker.compute(cell, attempt))
        if worker is not None:
            worker.end()

    threads = [threading.Thread(target=work, args=(n,), daemon=True) for n in range(plan.file.run.workers)]
    for thread in threads:
        thread.start()
    stopping = False
    while any(thread.is_alive() for thread in threads) or not found.empty():
        if stop() and not stopping:  # workers save their state and report outcomes
            stopping = True
            _stop_workers(workers)
        with contextlib.suppress(queue.Empty):
            yield found.get(timeout=0.2)


def _environment(plan: SweepPlan, number: int) -> dict[str, str]:
    """Returns the environment of a worker: its GPU, and no preallocated memory if there are several workers."""
    run = plan.file.run
    shared = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} if run.workers > 1 else {}
    return shared | ({"CUDA_VISIBLE_DEVICES": str(number % run.gpus)} if run.gpus else {})


def _stop_workers(workers: Sequence[_Worker]) -> None:
    for worker in workers:
        if worker.process.poll() is None:
            worker.process.send_signal(signal.SIGTERM)


# --- SLURM, by submitit


class CellJob:
    """Job of submitit. If SLURM preempts it, it is queued again and resumes."""

    def __call__(self, path: str, cell: int, attempt: int, trust: bool) -> tuple[int, str, str]:
        outcome = run_cell(path, cell, attempt, trust)
        return outcome.cell, outcome.state, outcome.reason

    def checkpoint(self, *arguments: Any) -> Any:
        """Requeues the job; submitit calls this on preemption."""
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self, *arguments)


def _run_submitit(plan: SweepPlan, folder: SweepFolder, cluster: str, cells: Cells, stop: Stop) -> Iterator[Outcome]:
    import submitit

    executor = submitit.AutoExecutor(folder=folder.path / "cells" / "submitit", cluster=cluster)
    array = {"slurm_array_parallelism": plan.file.run.workers} if cluster == "slurm" else {}
    executor.update_parameters(name=plan.file.name, **array, **plan.file.slurm)
    most = len(cells) if cluster == "slurm" else plan.file.run.workers
    pending, running = list(cells), dict[int, Any]()
    while (pending and not stop()) or running:
        if stop():
            _cancel(cluster, running)
        else:
            count = most - len(running)
            running |= _submit(executor, plan, folder, pending[:count])
            pending = pending[count:]
        for cell in [cell for cell, job in running.items() if cluster == "debug" or job.done()]:
            yield _job_outcome(cell, running.pop(cell))
        if running:
            time.sleep(0.5 if cluster == "local" else 5.0)


def _submit(executor: Any, plan: SweepPlan, folder: SweepFolder, batch: Cells) -> dict[int, Any]:
    """Submits jobs of some cells, and returns them by cell."""
    if not batch:
        return {}
    with executor.batch():
        jobs = [executor.submit(CellJob(), str(folder.path), *item, plan.trust) for item in batch]
    return {cell: job for (cell, _), job in zip(batch, jobs, strict=True)}


def _cancel(cluster: str, running: dict[int, Any]) -> None:
    for job in running.values() if cluster != "debug" else ():
        job.cancel()


def _job_outcome(cell: int, job: Any) -> Outcome:
    try:
        return Outcome(*job.result())
    except Exception as error:  # any failure of the job, which its log explains
        first = (str(error).strip().splitlines() or [type(error).__name__])[-1]
        return Outcome(cell, "failed", f"job {job.job_id}: {first[:300]}")


# --- Ray Tune


def _run_ray(plan: SweepPlan, folder: SweepFolder, cells: Cells, stop: Stop) -> Iterator[Outcome]:
    import ray
    from ray import tune

    path = str(folder.path.absolute())

    def trial(config: dict[str, dict[str, int]]) -> None:
        outcome = run_cell(path, **config["item"], trust=plan.trust)
        tune.report({"outcome": list(outcome)})

    if not ray.is_initialized():
        ray.init(include_dashboard=False, log_to_driver=False)
    numbers = [{"number": cell, "attempt": attempt} for cell, attempt in cells]
    tuner = tune.Tuner(
        tune.with_resources(trial, {"CPU": 1, **plan.file.ray}),
        param_space={"item": tune.grid_search(numbers)},
        tune_config=tune.TuneConfig(max_concurrent_trials=plan.file.run.workers),
        run_config=tune.RunConfig(storage_path=f"{path}/cells", name="ray", verbose=0),
    )
    del stop  # Ray ends its trials itself if this process is interrupted
    results: Any = tuner.fit()
    for number, result in zip(numbers, results, strict=True):
        if result.error is None:
            yield Outcome(*result.metrics["outcome"])
        else:
            yield Outcome(number["number"], "failed", str(result.error).strip().splitlines()[-1][:300])
