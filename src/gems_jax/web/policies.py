"""Policies as data of a page: what each network needs, once per population, and what each anchor adds.

A network is described by `kind`, which `assets/networks.js` runs. Numbers are float32 in base64: the arrays that a
population shares, then those of its anchors in order of their mass. Anchors without mass are left out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from gems_jax.evaluate.loaded_policy import LoadedPolicy
from gems_jax.extensive.infosets import infoset_policy
from gems_jax.extensive.tables import policy_tables
from gems_jax.extensive.tree import build_tree, is_enumerable
from gems_jax.policies.film import BoardPolicy, ConvPolicy, FilmPolicy
from gems_jax.policies.mlp import MlpPolicy
from gems_jax.policies.population import materialize
from gems_jax.policies.tabular import TabularPolicy
from gems_jax.runner.errors import RunError
from gems_jax.types import Game, PyTree, take_slot
from gems_jax.web.page import encode_numbers

Arrays = dict[str, np.ndarray]


class UnsupportedPolicyError(RunError):
    """Raised if a page cannot run a policy."""

    exit_code = 2


class PolicyParts(NamedTuple):
    """Parameters of one anchor: arrays that all anchors of its population share, and its own."""

    shared: Arrays
    own: Arrays


class Runner(NamedTuple):
    """How a page runs a network."""

    describe: Callable[[Any], dict[str, Any]]  # network -> its sizes, for `networks.js`
    split: Callable[[Any, PyTree], PolicyParts]  # network, parameters of one policy -> arrays


class PolicyNumbers(NamedTuple):
    """All anchors of one population that have mass, heaviest first."""

    slots: list[int]
    masses: list[float]
    parts: list[PolicyParts]
    dropped: float = 0.0  # mass of the anchors that were left out

    def count_numbers(self) -> int:
        """Counts the numbers of all arrays."""
        return _size(self.parts[0].shared) + sum(_size(part.own) for part in self.parts)

    def without_lightest(self) -> PolicyNumbers:
        """Removes the lightest anchor."""
        left = self.dropped + self.masses[-1]
        return PolicyNumbers(self.slots[:-1], self.masses[:-1], self.parts[:-1], left)


@dataclasses.dataclass(frozen=True)
class PolicyData:
    """A policy before it is cut to size: how its network runs, and its anchors."""

    kind: dict[str, Any]
    populations: list[PolicyNumbers]

    def count_bytes(self) -> int:
        """Counts the bytes of all numbers as they are in a page."""
        tables = sum(len(value) for value in self.kind.values() if isinstance(value, str))
        return tables + -(-sum(one.count_numbers() for one in self.populations) * 16 // 3)

    def drop_lightest(self) -> PolicyData | None:
        """Removes the lightest anchor of all populations that have two or more; None if none has."""
        ends = [(one.masses[-1], index) for index, one in enumerate(self.populations) if len(one.slots) > 1]
        if not ends:
            return None
        _, lightest = min(ends)
        populations = list(self.populations)
        populations[lightest] = populations[lightest].without_lightest()
        return PolicyData(self.kind, populations)

    def dropped_mass(self) -> float:
        """Returns the mass that is missing from the population that lost most."""
        return max(one.dropped for one in self.populations)

    def record(self) -> dict[str, Any]:
        """Returns plain data for `mixture.js`. Masses are those of the mixture, also of one that was cut."""
        return {"kind": self.kind, "populations": [_population(one) for one in self.populations]}


def read_policy(policy: LoadedPolicy) -> PolicyData:
    """Collects the networks and parameters of a mixture's anchors with positive mass.

    Args:
      policy: the mixture.

    Returns:
      What a page needs to play it.

    Raises:
      UnsupportedPolicyError: if pages cannot run the policy's network.
    """
    sigma = np.asarray(policy.profile.sigma, np.float64)
    slots = list(map(_heaviest_first, sigma))
    network, params = _as_known_network(policy)
    runner = _RUNNERS[type(network)]

    def split(population: int, slot: int) -> PolicyParts:
        one = take_slot(jax.tree.map(lambda leaf: leaf[population], params), slot)
        parts = runner.split(network, jax.tree.map(lambda leaf: np.asarray(leaf, np.float32), one))
        return PolicyParts(*({name: np.ravel(array) for name, array in arrays.items()} for arrays in parts))

    numbers = [
        PolicyNumbers(found, [float(row[slot]) for slot in found], [split(population, slot) for slot in found])
        for population, (row, found) in enumerate(zip(sigma, slots, strict=True))
    ]
    return PolicyData(runner.describe(network), numbers)


def _heaviest_first(masses: np.ndarray) -> list[int]:
    """Lists the slots with positive mass."""
    return [int(slot) for slot in np.argsort(-masses, kind="stable") if masses[slot] > 0]


def _as_known_network(policy: LoadedPolicy) -> tuple[Any, PyTree]:
    """Returns the network and its parameters [P, K, ...]; other networks of enumerable games become tables."""
    count = policy.profile.sigma.shape[1]
    stacked = materialize(policy.profile.population, count)
    if type(stacked.apply) in _RUNNERS:
        return stacked.apply, stacked.params
    if not is_enumerable(policy.game):
        raise UnsupportedPolicyError(
            f"{policy.source}: expected a policy that is tabular, mlp, film, conv or board, got "
            f"{type(stacked.apply).__name__}. Train one of these, in float32"
        )
    return _as_tables(policy.game, policy_tables(build_tree(policy.game), policy.profile.population, count))


def _as_tables(game: Game, tables: Any) -> tuple[TabularPolicy, np.ndarray]:
    """Converts probabilities at information sets [P, K, I, A] to a tabular policy and its logits [P, K, rows, A]."""
    tree, network = build_tree(game), infoset_policy(game)
    rows = np.unique(np.asarray(tree.twin))
    logits = np.log(np.maximum(np.asarray(tables)[:, :, rows], 1e-30)).astype(np.float32)
    return network, logits


def _population(one: PolicyNumbers) -> dict[str, Any]:
    first = one.parts[0]
    blocks = [*first.shared.values(), *(array for part in one.parts for array in part.own.values())]
    return {
        "slots": one.slots,
        "masses": one.masses,
        "shared": _layout(first.shared),
        "own": _layout(first.own),
        "numbers": encode_numbers(np.concatenate(blocks).astype("<f4").tobytes()),
    }


def _layout(arrays: Arrays) -> list[tuple[str, int]]:
    return [(name, int(array.size)) for name, array in arrays.items()]


def _size(arrays: Arrays) -> int:
    return sum(array.size for array in arrays.values())


# --- networks


def _describe_table(network: TabularPolicy) -> dict[str, Any]:
    seen = network.observations
    if not np.isin(seen, (0.0, 1.0)).all():
        raise UnsupportedPolicyError("tabular policy: expected observations of zeros and ones, got other numbers.")
    rows, actions = network.legal.shape
    bits = {"observations": seen.astype(bool), "legal": network.legal}
    packed = {name: encode_numbers(np.packbits(value.ravel()).tobytes()) for name, value in bits.items()}
    return {"name": "table", "count": rows, "inputs": seen.shape[1], "actions": actions, **packed}


def _split_table(network: TabularPolicy, phi: np.ndarray) -> PolicyParts:
    return PolicyParts({}, {"logits": phi[network.legal]})


def _describe_mlp(network: MlpPolicy) -> dict[str, Any]:
    return {"name": "mlp", "actions": network.num_actions, "hidden": list(network.hidden)}


def _split_mlp(network: MlpPolicy, phi: dict[str, Any]) -> PolicyParts:
    return PolicyParts({}, _named({name: phi[name] for name in sorted(phi)}))


def _describe_film(network: FilmPolicy) -> dict[str, Any]:
    return {"name": "film", "actions": network.num_actions, "hidden": list(network.hidden)}


def _describe_conv(network: ConvPolicy) -> dict[str, Any]:
    shape = {"board": list(network.observation_shape), "channels": network.channels, "kernel": network.kernel}
    return {"name": "conv", "actions": network.num_actions, "hidden": list(network.hidden), **shape}


def _describe_board(network: BoardPolicy) -> dict[str, Any]:
    shape = {"board": list(network.observation_shape), "channels": network.channels, "turns": network.turns}
    return {"name": "board", "actions": network.num_actions, **shape}


def _split_film(network: Any, phi: dict[str, Any]) -> PolicyParts:
    own = {"film": _indexed(phi["film"]), "head": phi["head"]}
    torso = phi["torso"].value
    return PolicyParts(_named({"torso": torso if isinstance(torso, dict) else _indexed(torso)}), _named(own))


def _indexed(parts: Sequence[Any]) -> dict[str, Any]:
    return {str(index): part for index, part in enumerate(parts)}


def _named(tree: dict[str, Any], prefix: str = "") -> Arrays:
    """Flattens nested dicts of arrays to dotted names."""
    found: Arrays = {}
    for name, value in tree.items():
        found |= _named(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return found


_RUNNERS: dict[type, Runner] = {
    TabularPolicy: Runner(_describe_table, _split_table),
    MlpPolicy: Runner(_describe_mlp, _split_mlp),
    FilmPolicy: Runner(_describe_film, _split_film),
    ConvPolicy: Runner(_describe_conv, _split_film),
    BoardPolicy: Runner(_describe_board, _split_film),
}
