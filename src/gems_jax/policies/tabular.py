"""Policies that are tables: one row of logits per information set, looked up by what is seen."""

from __future__ import annotations

import dataclasses

import chex
import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.policies.distributions import cumulative, mask_logits, relative_masses
from gems_jax.types import Apply, Array, PolicyOutput, PyTree


class TabularPolicy:
    """One row of logits per information set: phi is [I, A], and the observation is looked up in a table.

    The table is part of the static structure (equal tables are equal policies). Observations must be among its rows;
    an unknown one gets the logits of another row or none (uniform play).
    """

    def __init__(self, observations: np.ndarray, legal: np.ndarray, infosets: np.ndarray | None = None):
        """infosets: [I], the number that the game itself gives what is seen in each row (`GameState.infoset`)."""
        self.observations = np.asarray(observations, np.float32).reshape(len(observations), -1)  # [I, obs]
        self.legal = np.asarray(legal, bool)  # [I, A]
        self.distinct = len(np.unique(self.observations, axis=0)) == len(self.observations)
        self._weights, self._prints = _fingerprints(self.observations)
        self.row_of_infoset = None if infosets is None else _inverse(infosets)  # [the highest number + 1] int32
        numbers = b"" if self.row_of_infoset is None else self.row_of_infoset.tobytes()
        self._key = (self.observations.shape, self.observations.tobytes(), self.legal.tobytes(), numbers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TabularPolicy) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def init(self, key: Array) -> Array:
        """Uniform play. key: consumed, for the protocol's sake."""
        del key
        return jnp.zeros(self.legal.shape)

    def row(self, observation: Array) -> Array:
        """Mask [I] of an observation's row: by its fingerprint, or entry by entry where there is none."""
        seen = observation.reshape(-1)
        if self._weights is None:
            return jnp.all(jnp.asarray(self.observations) == seen[None, :], axis=1)
        return jnp.asarray(self._prints) == jnp.sum(seen * jnp.asarray(self._weights))

    def place(self, observation: Array) -> Array:
        """The number [] of an observation's row, 0 for one that the table does not have."""
        return jnp.sum(jnp.where(self.row(observation), jnp.arange(len(self.legal)), 0))

    def __call__(self, phi: Array, observation: Array, legal: Array) -> PolicyOutput:
        chex.assert_shape(phi, self.legal.shape)
        # A masked sum, not a gather: it fuses with what is around it.
        logits = jnp.sum(jnp.where(self.row(observation)[:, None], phi, 0.0), axis=0)
        return PolicyOutput(logits=mask_logits(logits, legal))

    def temper(self, phi: Array, temperature: Array | float) -> Array:
        return phi / temperature

    def cdf(self, phi: Array) -> Array:
        """The CDF of every row, [I, A]."""
        masses = jax.vmap(relative_masses)(mask_logits(phi, jnp.asarray(self.legal)))
        cdf = jax.vmap(cumulative)(masses)
        # What has no probability adds exactly nothing: divided by the last entry, trailing ones are exactly 1.
        return cdf / cdf[:, -1:]


@dataclasses.dataclass(frozen=True)
class ReadyTable:
    """A table of logits together with its CDF, for play: many draws are made from a policy that stays as it is."""

    table: TabularPolicy

    def __call__(self, phi: tuple[Array, Array], observation: Array, legal: Array) -> PolicyOutput:
        logits, cdf = phi
        known = jnp.sum(jnp.where(self.table.row(observation)[:, None], cdf, 0.0), axis=0)
        output = self.table(logits, observation, legal)
        return dataclasses.replace(output, cdf=known, row=self.table.place(observation))


def ready(params: PyTree, apply: Apply) -> tuple[PyTree, Apply]:
    """Policies [..., ] as they are best played from: tables with their CDFs, all others as they are."""
    if not isinstance(apply, TabularPolicy):
        return params, apply
    rows = params.reshape(-1, *params.shape[-2:])
    cdf = jax.vmap(apply.cdf)(rows)[..., :-1]  # the last entry is 1, which no draw reaches
    return (params, cdf.reshape(*params.shape[:-1], -1)), ReadyTable(apply)


def _inverse(numbers: np.ndarray) -> np.ndarray:
    """The place of every number, 0 for one that is not there."""
    places = np.zeros(numbers.max() + 1, np.int32)
    places[numbers] = np.arange(len(numbers))
    return places


def _fingerprints(table: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Weights w [obs] and table @ w [I], exact in float32 and different for every row; None where there are none.

    One product tells a row then, instead of a comparison with every entry of the table. Observations of small whole
    numbers have such weights: float32 is exact for whole numbers up to 2^24.
    """
    if not np.array_equal(table, np.round(table)):
        return None, None
    limit = 2**24 // max(int(np.abs(table).sum(axis=1).max()), 1)
    for seed in range(16):
        weights = np.random.default_rng(seed).integers(1, max(limit, 2), table.shape[1])
        prints = table.astype(np.int64) @ weights
        if len(np.unique(prints)) == len(table) and np.abs(prints).max() < 2**24:
            return np.asarray(weights, np.float32), np.asarray(prints, np.float32)
    return None, None
