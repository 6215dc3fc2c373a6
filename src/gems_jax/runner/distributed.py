"""Multi-process runs by `jax.distributed`.

Every process computes its part of every iteration. Only process 0 reads and writes files, including checkpoints, and
prints. It broadcasts the state to resume from, so that no shared file system is needed. With one process these
functions do nothing.
"""

from __future__ import annotations

import os

import jax
import numpy as np

from gems_jax.runner.errors import RunError
from gems_jax.runner.leaves import restore_keys, strip_keys
from gems_jax.types import PyTree

_VARIABLES = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")


class ClusterError(RunError):
    """Raised if the processes cannot connect to each other."""

    exit_code = 2


def join_cluster() -> None:
    """Connects to the other processes. Call it before any computation.

    Reads the variables JAX_COORDINATOR_ADDRESS (host:port), JAX_NUM_PROCESSES and JAX_PROCESS_ID if they are set.
    Otherwise JAX detects SLURM, Open MPI, Kubernetes and TPU pods.

    Raises:
      ClusterError: if only some variables are set, or if no other process is found.
    """
    address, count, own = (os.environ.get(name) for name in _VARIABLES)
    lacking = [name for name in _VARIABLES if not os.environ.get(name)]
    if lacking not in ([], list(_VARIABLES), list(_VARIABLES[1:])):
        raise ClusterError(
            f"--distributed needs all or none of {', '.join(_VARIABLES)}: {', '.join(lacking)} is not set"
        )
    try:
        jax.distributed.initialize(*((address, int(count), int(own)) if count and own else ()))
    except (ValueError, RuntimeError) as error:
        detail = " ".join(str(error).split())[:200]
        raise ClusterError(
            f"--distributed found no other processes ({detail}): start it under SLURM or on a TPU pod, or set "
            f"{', '.join(_VARIABLES)}"
        ) from error


def is_multiprocess() -> bool:
    """Checks whether several processes run this program."""
    return jax.process_count() > 1


def is_primary() -> bool:
    """Checks whether this is process 0, which writes and prints."""
    return jax.process_index() == 0


def broadcast_from_primary(tree: PyTree) -> PyTree:
    """Broadcasts the tree of process 0 to all processes; each passes a tree of the same shapes."""
    if not is_multiprocess():
        return tree
    from jax.experimental import multihost_utils

    received = multihost_utils.broadcast_one_to_all(jax.tree.map(np.asarray, strip_keys(tree)))
    return restore_keys(received, tree)


def any_process(flag: bool) -> bool:
    """Checks whether the flag is set in any process."""
    if not is_multiprocess():
        return flag
    from jax.experimental import multihost_utils

    return bool(np.any(multihost_utils.process_allgather(np.asarray(flag))))
