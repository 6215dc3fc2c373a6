"""Estimates for machines that are not at hand, between two limits.

`at_best` takes every byte and operation of the cost model at a fixed share of what the machine's data sheet says;
`carried_over` takes seconds that were measured on a known machine, times the ratio of the memory bandwidths. Both add
the launches of sequential work, which no number of devices makes fewer. They are estimates, and nothing more: games
are integer arithmetic and gathers, which no data sheet speaks of.
"""

from __future__ import annotations

from typing import NamedTuple

from benchmarks.hlo import Cost
from benchmarks.work_model import Traffic, Work

BANDWIDTH_SHARE, FLOPS_SHARE = 0.5, 0.3  # of the data sheet's, in float32


class Machine(NamedTuple):
    name: str
    devices: int
    bandwidth: float  # bytes per second of a device
    flops: float  # float32 operations per second of a device
    launch: float  # seconds that a turn of a loop takes however little it does, with what devices tell each other


MACHINES = (
    Machine("one GPU (A100, 80 GB)", 1, 2.0e12, 19.5e12, 2.5e-4),
    Machine("eight GPUs (A100, NVLink)", 8, 2.0e12, 19.5e12, 2.7e-4),
    Machine("a pod slice (32 TPU v4)", 32, 1.2e12, 30e12, 3.0e-4),
)


def total(amount: Work, unit: Work) -> float:
    """Operations, or bytes, of all of it."""
    return sum(count * each for count, each in zip(amount, unit, strict=True))


def at_best(amount: Work, unit: Traffic, machine: Machine) -> float:
    """Seconds if nothing but bandwidth, arithmetic and launches counted."""
    moving = total(amount, unit.bytes) / (BANDWIDTH_SHARE * machine.bandwidth * machine.devices)
    computing = total(amount, unit.flops) / (FLOPS_SHARE * machine.flops * machine.devices)
    return moving + computing + amount.turns * machine.launch


def carried_over(amount: Work, seconds: float, bandwidth: float, machine: Machine) -> float:
    """Seconds if the machine were faster than one of `bandwidth` that takes `seconds` by the ratio of bandwidths."""
    return seconds * bandwidth / (machine.bandwidth * machine.devices) + amount.turns * machine.launch


# Machines of `roofline`, whose `launch` is that of one kernel. Data sheets: A100 80 GB SXM, 19.5e12 float32 operations.
# TPU v5e: 197e12 in bfloat16; float32 products take six passes of it.
ROOFLINES = (
    Machine("A100", 1, 2.0e12, 19.5e12, 5e-6),
    Machine("TPU v5e", 1, 0.82e12, 197e12 / 6, 1e-6),
)


def roofline(cost: Cost, machine: Machine) -> float:
    """Estimates the seconds of a program: its launches, and the slower of moving bytes and arithmetic.

    Args:
      cost: launches, bytes and floating-point operations.
      machine: one device, with the seconds of one launch.

    Returns:
      Seconds, at `BANDWIDTH_SHARE` and `FLOPS_SHARE` of the data sheet.
    """
    moving = cost.bytes / (BANDWIDTH_SHARE * machine.bandwidth)
    return cost.launches * machine.launch + max(moving, cost.flops / (FLOPS_SHARE * machine.flops))
