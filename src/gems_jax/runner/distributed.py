"""Several processes as one program: `jax.distributed`, and what the driver asks of it.

Every process computes its part of every iteration. Process 0 alone touches files, checkpoints included, and speaks: the
others get the state they go on from out of its hands, so no shared file system is needed to start. With one process
all of this is nothing.
"""

from __future__ import annotations

import os

import jax
import numpy as np

from gems_jax.runner.errors import RunError
from gems_jax.types import PyTree

_VARIABLES = ("JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID")


class ClusterError(RunError):
    """The processes did not find each other."""

    exit_code = 2


def join() -> None:
    """Joins the other processes, before anything is computed.

    By the variables JAX_COORDINATOR_ADDRESS (host:port), JAX_NUM_PROCESSES and JAX_PROCESS_ID where they are set;
    otherwise as JAX finds out itself under SLURM, Open MPI and Kubernetes, and on a TPU pod.
    """
    address, count, own = (os.environ.get(name) for name in _VARIABLES)
    lacking = [name for name in _VARIABLES if not os.environ.get(name)]
    if lacking not in ([], list(_VARIABLES), list(_VARIABLES[1:])):
        raise ClusterError(
            f"--distributed needs all of {', '.join(_VARIABLES)}, or none: {', '.join(lacking)} is not set"
        )
    try:
        jax.distributed.initialize(*((address, int(count), int(own)) if count and own else ()))
    except (ValueError, RuntimeError) as error:
        told = " ".join(str(error).split())[:200]
        raise ClusterError(
            f"--distributed found no other processes ({told}): start it under SLURM or on a TPU pod, or set "
            f"{', '.join(_VARIABLES)}"
        ) from error


def several() -> bool:
    return jax.process_count() > 1


def primary() -> bool:
    """Is this the process that writes and speaks?"""
    return jax.process_index() == 0


def from_primary(tree: PyTree) -> PyTree:
    """The tree as process 0 has it; the others give one of the same shapes."""
    if not several():
        return tree
    from jax.experimental import multihost_utils

    plain = jax.tree.map(lambda leaf: jax.random.key_data(leaf) if _is_key(leaf) else leaf, tree)
    received = multihost_utils.broadcast_one_to_all(jax.tree.map(np.asarray, plain))
    return jax.tree.map(
        lambda leaf, new: jax.random.wrap_key_data(new, impl=jax.random.key_impl(leaf)) if _is_key(leaf) else new,
        tree,
        received,
    )


def anywhere(flag: bool) -> bool:
    """Is it so in any process?"""
    if not several():
        return flag
    from jax.experimental import multihost_utils

    return bool(np.any(multihost_utils.process_allgather(np.asarray(flag))))


def _is_key(leaf: PyTree) -> bool:
    return isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key)
