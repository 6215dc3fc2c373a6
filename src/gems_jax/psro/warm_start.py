"""Where a learned response starts, and whom it meets: settings of PSRO that spare training from scratch.

A start is an average of the parameters of policies that the population holds, with weights w over its slots,

    newest     the last one alone
    fusion     w = the population's own mixture sigma                                (Fusion-PSRO: Lian et al. 2024)
    transfer   w_{j+1} = the opponents' mixture sigma_j: slot j + 1 learned to answer when their slot j was the newest,
               so it stands for the answer to it                    (Strategic Knowledge Transfer: Smith et al. 2023)

and with one policy each of them is that policy. Optimizer and critic are fresh. Parameters are only averaged in a
sensible way where policies descend from one another, which these rules see to.

Single-opponent iterated best response (the scheme of Smith et al. 2021) trains against the opponents' newest policies
alone, whatever the mixture: one opponent instead of a population. The original then builds the answer to the mixture
from such responses' Q-values. Both that and transfer are reconstructions: there are no Q-values here, and what the
original mixes as values is mixed as parameters, and trained on.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from gems_jax.meta.simplex import masked_normalise
from gems_jax.psro.ppo import Student
from gems_jax.psro.responses import Mixture, Oracle, Response
from gems_jax.types import Array, PyTree


def fused(params: PyTree, weights: Array) -> PyTree:
    """sum_j w_j theta_j, [P, ...], of parameters [P, K, ...] and weights [P, K]."""
    return jax.tree.map(lambda leaf: jnp.einsum("pk,pk...->p...", weights, leaf, precision="highest"), params)


def newest(active: Array) -> Array:
    """[P, K], all weight on the last active slot; slots fill in order."""
    return jax.nn.one_hot(active.sum(axis=1) - 1, active.shape[1])


def _own_mixture(mixture: Mixture) -> Array:
    return mixture.sigma


def _answers(mixture: Mixture) -> Array:
    """The opponents' mixture, one slot later; what has no answer yet is left out."""
    populations, slots = mixture.sigma.shape
    others = (mixture.sigma.sum(axis=0, keepdims=True) - mixture.sigma) if populations > 1 else mixture.sigma
    later = jnp.pad(others, ((0, 0), (1, 0)))[:, :slots]
    known = jnp.where(mixture.active, later, 0.0)
    some = known.sum(axis=1, keepdims=True) > 1e-6
    return jnp.where(some, jax.vmap(masked_normalise)(known, mixture.active), newest(mixture.active))


STARTS: dict[str, Callable[[Mixture], Array]] = {
    "newest": lambda mixture: newest(mixture.active),
    "fusion": _own_mixture,
    "transfer": _answers,
}


def warm_oracle(oracle: Oracle, how: str) -> Oracle:
    """An oracle of learned responses that start as STARTS[how] says, where no learner is given to go on from."""

    def respond(key: Array, mixture: Mixture, start: PyTree = None, rounds: int = 1) -> Response:
        key_first, key_learn = jax.random.split(key)
        if start is None:
            fresh: Student = oracle.first(key_first)
            policy = fused(mixture.policies.params, STARTS[how](mixture))
            start = fresh.replace(params={**fresh.params, "policy": policy})
        return oracle.respond(key_learn, mixture, start, rounds=rounds)

    return oracle._replace(respond=respond)


def single_opponent(oracle: Oracle) -> Oracle:
    """An oracle that answers the others' newest policies instead of their mixture."""

    def respond(key: Array, mixture: Mixture, start: PyTree = None, rounds: int = 1) -> Response:
        return oracle.respond(key, mixture._replace(sigma=newest(mixture.active)), start, rounds=rounds)

    return oracle._replace(respond=respond)
