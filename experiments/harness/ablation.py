"""Ablations, one factor at a time: a base, and arms that change one factor of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from experiments.harness.spec import Arm


class Factors(NamedTuple):
    """Arms and groups of an `Experiment`."""

    arms: tuple[Arm, ...]  # the base first
    groups: tuple[tuple[str, tuple[str, ...]], ...]  # a factor each: the base, and what changes that factor


def one_at_a_time(base: Arm, factors: Mapping[str, Sequence[Mapping[str, Any]]]) -> Factors:
    """Makes the arms of an ablation, labelled by their changes, as in `eta 0.08`.

    Args:
      base: the arm that all others change.
      factors: {title: [changes of the base's settings, ...]}.
    """
    arms, groups = [base], []
    for title, levels in factors.items():
        members = [
            dataclasses.replace(
                base,
                label=", ".join(f"{name} {value}" for name, value in changes.items()),
                overrides={**base.overrides, **changes},
            )
            for changes in levels
        ]
        arms += members
        groups.append((title, (base.label, *(member.label for member in members))))
    return Factors(tuple(arms), tuple(groups))


def levels(name: str, *values: Any) -> list[dict[str, Any]]:
    """Lists one setting at several values, as `one_at_a_time` expects it."""
    return [{name: value} for value in values]
