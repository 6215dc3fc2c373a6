"""To be drawn."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from gems_jax.run.pictures.drawn import Drawn

if TYPE_CHECKING:
    from gems_jax.run.spec import Plan


def outcomes_of_sides(plan: Plan, folder: Path) -> Drawn:
    raise NotImplementedError("outcomes_of_sides")
