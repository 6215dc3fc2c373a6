"""What the spec of an experiment states of its full size, for the ledger: a shorter run is none of full size."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from experiments.harness.spec import Arm, Experiment, changed
from experiments.reporting.gathering import Size, flat_settings
from experiments.run import known, load
from gems_jax.presets import preset
from gems_jax.runner.files import resolve


def full_size(summary: Mapping[str, Any]) -> Size | None:
    """Look up what an experiment states. None: a study, or nothing that there is a spec of.

    A run that was started with --full is held to the spec's full version, any other one to the spec itself.
    """
    name = summary.get("name", "")
    spec = load(name) if name in known() else None
    if not isinstance(spec, Experiment):
        return None
    if "--full" in shlex.split(summary.get("command") or ""):
        spec = changed(spec, spec.full)
    return size_of(spec)


def size_of(spec: Experiment) -> Size:
    """Iterations and settings of every arm, and the number of seeds."""
    iterations = {arm.label: spec.iterations if arm.iterations is None else arm.iterations for arm in spec.arms}
    return Size(iterations, len(spec.seeds), {arm.label: settings_of(spec, arm) for arm in spec.arms})


def settings_of(spec: Experiment, arm: Arm) -> dict[str, Any]:
    """Those that the spec fixes, flat: of a preset or a config all, otherwise the changes to the method's default.

    An arm whose settings are made to take a budget has others in the end, and none here.
    """
    if arm.budget:
        return {}
    config = preset(arm.game or spec.game, arm.preset) if arm.preset is not None else arm.config
    if config is None:
        return flat_settings(resolve(dict(arm.overrides)))
    return flat_settings(resolve(config.replace(**arm.overrides)))
