"""Memory limits of a sweep: whether a run fits, and how many runs of a cell are batched."""

from __future__ import annotations

import math
import os

from gems_jax.config import GemsConfig
from gems_jax.sweep.file import SweepError
from gems_jax.sweep.points import Cell, SweepPlan

MEMORY_FRACTION = 0.8  # fraction of a machine's memory that a sweep uses by default


def check_memory(plan: SweepPlan) -> None:
    """Checks that one run of each cell fits the limit, if its bytes can be estimated. Raises SweepError."""
    limit = _limit(plan)
    for cell in plan.cells:
        needed = bytes_of_run(plan, cell) or 0.0
        if needed > limit:
            static = plan.describe_cell(cell)
            where = static and f" at {static}"
            raise SweepError(
                f"{plan.file.name}: one run{where} needs about {needed / 2**30:.3g} GB, the limit is "
                f"{limit / 2**30:.3g} GB. Use smaller sizes or fewer workers, or raise run.memory_gb"
            )


def choose_run_batch(plan: SweepPlan, cell: Cell, count: int) -> int | None:
    """Chooses how many of a cell's `count` runs to vmap; None for all of them."""
    needed = bytes_of_run(plan, cell)
    if needed is None:
        return None
    fit = max(int(_limit(plan, on_device=True) / needed), 1)
    if fit >= count:
        return None
    return -(-count // -(-count // fit))  # batches of equal size


def bytes_of_run(plan: SweepPlan, cell: Cell) -> float | None:
    """Estimates the bytes of one run of the cell; None if the method has no estimate."""
    from gems_jax.profiling.peak_memory import peak_bytes

    config = plan.configs[cell.points[0]]
    return peak_bytes(plan.game, config) if isinstance(config, GemsConfig) else None


def _limit(plan: SweepPlan, on_device: bool = False) -> float:
    """Computes the byte limit of a cell: that of the file, or a worker's part of this machine's memory.

    on_device: query the accelerator, which the planning process must not use.
    """
    run = plan.file.run
    if run.memory_gb:
        return run.memory_gb * 2**30
    if on_device and (limit := _device_bytes()):
        return MEMORY_FRACTION * limit
    if run.executor in ("slurm", "ray") and not on_device:
        return math.inf  # other machines, whose memory is unknown here
    here = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return MEMORY_FRACTION * here / (run.workers if run.executor in ("local", "submitit-local") else 1)


def _device_bytes() -> int:
    """Returns the memory of the first device; 0 if unknown."""
    import jax

    return (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit", 0)
