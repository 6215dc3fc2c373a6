"""How many runs of a cell are in memory at once, and whether one fits at all."""

from __future__ import annotations

import math
import os

from gems_jax.config import GemsConfig
from gems_jax.sweep.file import SweepError
from gems_jax.sweep.points import Cell, SweepPlan

SHARE = 0.8  # of a machine's memory that a sweep takes by itself


def check_memory(plan: SweepPlan) -> None:
    """SweepError where one run of some cell is larger than the limit, as far as its bytes can be estimated."""
    limit = _limit(plan)
    for cell in plan.cells:
        needed = bytes_of_run(plan, cell) or 0.0
        if needed > limit:
            static = plan.describe_cell(cell)
            where = static and f" at {static}"
            raise SweepError(
                f"{plan.file.name}: one run{where} takes about {needed / 2**30:.3g} GB, the limit is "
                f"{limit / 2**30:.3g} GB: choose smaller sizes, fewer workers, or raise run.memory_gb"
            )


def runs_at_once(plan: SweepPlan, cell: Cell, count: int) -> int | None:
    """How many of a cell's `count` runs are vmapped at once; None for all of them."""
    needed = bytes_of_run(plan, cell)
    if needed is None:
        return None
    fit = max(int(_limit(plan, on_device=True) / needed), 1)
    if fit >= count:
        return None
    return -(-count // -(-count // fit))  # as many batches as it takes, of one size


def bytes_of_run(plan: SweepPlan, cell: Cell) -> float | None:
    """Of the cell's runs, all alike; None for methods that nothing is known of."""
    from gems_jax.profiling.peak_memory import peak_bytes

    config = plan.configs[cell.points[0]]
    return peak_bytes(plan.game, config) if isinstance(config, GemsConfig) else None


def _limit(plan: SweepPlan, on_device: bool = False) -> float:
    """Bytes that a cell may take: what the file says, or the share of a worker in this machine's.

    on_device: ask the accelerator, which the process that only plans must leave alone.
    """
    run = plan.file.run
    if run.memory_gb:
        return run.memory_gb * 2**30
    if on_device and (limit := _device_bytes()):
        return SHARE * limit
    if run.executor in ("slurm", "ray") and not on_device:
        return math.inf  # other machines, of which nothing is known here
    here = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return SHARE * here / (run.workers if run.executor in ("local", "submitit-local") else 1)


def _device_bytes() -> int:
    """What the first device has; 0 where it does not say."""
    import jax

    return (jax.local_devices()[0].memory_stats() or {}).get("bytes_limit", 0)
