"""What a picture gives back, and what all of them begin with: the mixtures that the arms ended with."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gems_jax.run.directory import slug
from gems_jax.run.load import LoadedPolicy, load

if TYPE_CHECKING:
    from gems_jax.run.spec import Plan


class Drawn(NamedTuple):
    files: Mapping[str, Any]  # name with .png: a matplotlib figure or bytes; with .gif, .svg: bytes
    numbers: Mapping[str, Any] = {}


def trained(plan: Plan, folder: Path) -> dict[str, list[LoadedPolicy]]:
    """The last checkpoint of every seed, by the label of its arm. Random play, which learns nothing, is left out."""
    return {
        arm.label: [load(folder / slug(arm.label), seed=seed) for seed in plan.spec.seeds]
        for arm, *_ in plan.arms
        if arm.method != "random"
    }
