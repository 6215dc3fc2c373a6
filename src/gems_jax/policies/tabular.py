"""Tabular policies: one row of logits per information set, looked up by the observation."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.accelerator.cpu import compute_once
from gems_jax.policies.distributions import mask_logits, relative_masses, sum_cumulatively
from gems_jax.types import Array, GameState, Policy, PolicyOutput

Tables = tuple[Array, Array | None]  # logits [n, I, A], and their CDFs [n, I, A - 1] if they are computed in advance

_HASHED = 1024  # tables with more rows than this are searched by a hash instead of row by row
_NEGATIVE_ZERO = np.uint32(0x80000000)  # the bits of -0.0


class TabularPolicy:
    """Policy with one row of logits per information set: phi is [I, A], indexed by the observation.

    The table of observations is part of the static structure (equal tables are equal policies). Observations must be
    among its rows; an unknown one gets the logits of another row, or uniform play.
    """

    def __init__(self, observations: np.ndarray, legal: np.ndarray, infosets: np.ndarray | None = None):
        """Makes the policy of a table of observations.

        Args:
          observations: [I, *obs].
          legal: [I, A] bool.
          infosets: [I], the game's own index of each row's information set (`GameState.infoset`), if it has one.
        """
        self.observations = np.asarray(observations, np.float32).reshape(len(observations), -1)  # [I, obs]
        self.legal = np.asarray(legal, bool)  # [I, A]
        self.distinct = len(np.unique(self.observations, axis=0)) == len(self.observations)
        self._hashes = _hash_table(self.observations) if self.distinct and len(self.legal) > _HASHED else None
        self._weights, self._prints = (None, None) if self._hashes else _fingerprints(self.observations)
        self.row_of_infoset = None if infosets is None else _invert(infosets)  # [the highest number + 1] int32
        numbers = b"" if self.row_of_infoset is None else self.row_of_infoset.tobytes()
        self._key = (self.observations.shape, self.observations.tobytes(), self.legal.tobytes(), numbers)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TabularPolicy) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def init(self, key: Array) -> Array:
        """Initializes phi to uniform play. key: consumed, because the protocol has one."""
        del key
        return jnp.zeros(self.legal.shape)

    def match_rows(self, observation: Array) -> Array:
        """Computes the mask [I] of an observation's row, by fingerprints where the table has them."""
        if self._hashes is not None:
            row, known = self._hashes.find(observation.reshape(-1))
            return known & (jnp.arange(len(self.legal)) == row)
        seen = observation.reshape(-1)
        if self._weights is None:
            return jnp.all(jnp.asarray(self.observations) == seen[None, :], axis=1)
        return jnp.asarray(self._prints) == jnp.sum(seen * jnp.asarray(self._weights))

    def find_row(self, observation: Array) -> Array:
        """Finds the index [] of an observation's row; 0 for an unknown observation."""
        if self._hashes is not None:
            row, known = self._hashes.find(observation.reshape(-1))
            return jnp.where(known, row, 0)
        return jnp.sum(jnp.where(self.match_rows(observation), jnp.arange(len(self.legal)), 0))

    def __call__(self, phi: Array, observation: Array, legal: Array) -> PolicyOutput:
        chex.assert_shape(phi, self.legal.shape)
        if self._hashes is not None:
            row, known = self._hashes.find(observation.reshape(-1))
            return PolicyOutput(logits=mask_logits(jnp.where(known, phi[row], 0.0), legal))
        # A masked sum instead of a gather: XLA fuses it with its surroundings.
        logits = jnp.sum(jnp.where(self.match_rows(observation)[:, None], phi, 0.0), axis=0)
        return PolicyOutput(logits=mask_logits(logits, legal))

    def temper(self, phi: Array, temperature: Array | float) -> Array:
        return phi / temperature

    def explore(self, phi: Array, epsilon: Array | float) -> Array:
        """Mixes each row of tables with uniform play over legal actions.

        Args:
          phi: logits, [..., I, A].
          epsilon: probability of uniform play, [].

        Returns:
          Logits of the mixed policies, [..., I, A]; 0 for illegal actions.
        """
        legal = jnp.broadcast_to(jnp.asarray(self.legal), phi.shape)
        uniform = legal / jnp.sum(legal, axis=-1, keepdims=True)
        mixed = (1.0 - epsilon) * jax.nn.softmax(mask_logits(phi, legal)) + epsilon * uniform
        return jnp.where(legal, jnp.log(jnp.where(legal, mixed, 1.0)), 0.0)

    def cdf(self, phi: Array) -> Array:
        """Computes the CDF of every row, [I, A]."""
        masses = jax.vmap(relative_masses)(mask_logits(phi, jnp.asarray(self.legal)))
        cdf = jax.vmap(sum_cumulatively)(masses)
        # Actions of probability zero add exactly 0, so trailing entries are exactly 1 after the division.
        return cdf / cdf[:, -1:]

    def read_rows(self, phi: Array, row: Array) -> PolicyOutput:
        """Looks up action distributions [..., A] in the rows [...] of one table [I, A]."""
        return PolicyOutput(logits=mask_logits(phi, jnp.asarray(self.legal))[row])

    def log_likelihoods_of_rows(self, params: Array, population: Array, row: Array, action: Array) -> Array:
        """Sums log pi(a) over decisions, under each table of the population that decides.

        Args:
          params: tables of P populations, [P, K, I, A].
          population: population that decides, [..., Q] int32; -1 for padding.
          row: row of the tables, [..., Q] int32.
          action: [..., Q] int32.

        Returns:
          Log-likelihoods [..., K].
        """
        log_probs = jax.nn.log_softmax(mask_logits(params, jnp.broadcast_to(jnp.asarray(self.legal), params.shape)))
        cells = jnp.moveaxis(log_probs, 1, 3).reshape(-1, params.shape[1])  # [P I A, K]: a look-up reads one run
        rows, actions = self.legal.shape
        cell = jnp.where(population >= 0, (population * rows + row) * actions + action, len(cells))
        cells = jnp.concatenate([cells, jnp.zeros_like(cells[:1])])
        return sum((cells[cell[..., q]] for q in range(1, cell.shape[-1])), cells[cell[..., 0]])

    @property
    def indexed(self) -> IndexedTable:
        return IndexedTable(self)

    def prepare_stack(self, params: Array, lazily: bool = False) -> Tables:
        """Computes the CDFs of tables [n, I, A] and orders rows as `IndexedTable.find_row` numbers them.

        Args:
          params: logits, [n, I, A].
          lazily: leaves tables as they are; `IndexedTable` then computes the CDF of a row when it reads it.

        Returns:
          Logits and CDFs.
        """
        if lazily:
            return params, None
        tables = params, jax.vmap(self.cdf)(params)[..., :-1]  # the last entry is 1, which no draw reaches
        rows = self.row_of_infoset
        return tables if rows is None else jax.tree.map(lambda leaf: leaf[:, rows], tables)


@dataclasses.dataclass(frozen=True)
class IndexedTable:
    """Runs one of many tables: phi is its index, and all tables with their CDFs.

    If the game indexes its information sets, the index replaces the observation. Then no observation is computed
    and searched for in the table.
    """

    table: TabularPolicy

    def read(self, state: GameState) -> Array:
        if self.table.row_of_infoset is None:
            return state.observation
        assert state.infoset is not None  # the game itself indexed the table's rows
        return state.infoset

    def find_row(self, seen: Array) -> Array:
        """Finds the row of the prepared tables for one input of `read`."""
        return seen if self.table.row_of_infoset is not None else self.table.find_row(seen)

    def __call__(self, phi: tuple[Array, Tables], seen: Array, legal: Array) -> PolicyOutput:
        index, (logits, cdfs) = phi
        row_index, rows = self.find_row(seen), self.table.row_of_infoset
        row = row_index if rows is None else jnp.asarray(rows)[row_index]
        stored = logits[index, row if cdfs is None else row_index]
        return PolicyOutput(mask_logits(stored, legal), cdf=self._find_cdf(phi, row_index), row=row)

    def _find_cdf(self, phi: tuple[Array, Tables], row_index: Array) -> Array:
        """Looks up or computes the CDF [A - 1] of one row of one policy."""
        index, (logits, cdfs) = phi
        if cdfs is not None:
            return cdfs[index, row_index]
        rows = self.table.row_of_infoset
        row = row_index if rows is None else jnp.asarray(rows)[row_index]
        masses = relative_masses(mask_logits(logits[index, row], jnp.asarray(self.table.legal)[row]))
        cdf = sum_cumulatively(masses)
        return (cdf / cdf[-1])[:-1]

    def sample_mover(self, policies: tuple[Policy, ...], state: GameState, noise: Array) -> Array:
        def of_mover(of_seats: Sequence[Array] | Array) -> Array:
            found = of_seats[0]
            for seat in range(1, len(policies)):
                found = jnp.where(state.to_move[seat], of_seats[seat], found)
            return found

        stack, row_index = policies[0].params[1], self.find_row(of_mover(self.read(state)))
        if all(policy.params[1] is stack for policy in policies):
            cdf = self._find_cdf((of_mover([policy.params[0] for policy in policies]), stack), row_index)
        else:
            cdf = of_mover([self._find_cdf(policy.params, row_index) for policy in policies])
        return jnp.sum(compute_once(cdf <= of_mover(noise)), dtype=jnp.int32)  # the rest of the episode depends on it


def _invert(numbers: np.ndarray) -> np.ndarray:
    """The position of every number in `numbers`, 0 for a missing one."""
    positions = np.zeros(numbers.max() + 1, np.int32)
    positions[numbers] = np.arange(len(numbers))
    return positions


def _fingerprints(table: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
    """Weights w [obs] and table @ w [I], exact in float32 and distinct for every row; None where no w is found.

    One product identifies a row, instead of a comparison with every entry of the table. Observations of small integers
    have such weights: float32 is exact for integers up to 2^24.
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


@dataclasses.dataclass(frozen=True, eq=False)
class HashedRows:
    """The rows of a large table, sorted by a 32-bit hash that is distinct for each row."""

    weights: np.ndarray  # [obs] uint32
    hashes: np.ndarray  # [I] uint32, ascending
    rows: np.ndarray  # [I] int32, the row of each hash

    def find(self, observation: Array) -> tuple[Array, Array]:
        """Finds an observation [obs] of any dtype: returns its row [] int32, and whether it is in the table [] bool."""
        bits = jax.lax.bitcast_convert_type(observation.astype(jnp.float32), jnp.uint32)
        hashed = _hash(bits, jnp.asarray(self.weights))
        hashes = jnp.asarray(self.hashes)
        row_index = jnp.minimum(jnp.searchsorted(hashes, hashed, method="scan_unrolled"), len(self.hashes) - 1)
        return jnp.asarray(self.rows)[row_index], hashes[row_index] == hashed


def _hash(bits: Any, weights: Any) -> Any:
    """Bits of floats [..., obs] uint32 -> hashes [...] uint32. Rotates, because low bits of small numbers are zeros."""
    rotated = (bits << 9) | (bits >> 23)
    rotated = rotated * (bits != _NEGATIVE_ZERO)  # -0.0 equals 0.0
    return (rotated * weights).sum(axis=-1, dtype=np.uint32)


def _hash_table(table: np.ndarray) -> HashedRows | None:
    """Hashes of the rows of a table [I, obs] float32; None where no weights give distinct hashes."""
    bits = np.ascontiguousarray(table).view(np.uint32)
    for seed in range(16):
        weights = np.random.default_rng(seed).integers(1, 2**32, table.shape[1], dtype=np.uint32)
        hashes: np.ndarray = _hash(bits, weights)
        order = np.argsort(hashes)
        if (np.diff(hashes[order]) > 0).all():  # unsigned, so 0 for equal neighbors only
            return HashedRows(np.asarray(weights), hashes[order], order.astype(np.int32))
    return None
