"""Full size of experiments according to their specs, for the ledger."""

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
    """Looks up the full size of an experiment; None for a study or an unknown name.

    A run that was started with --full is compared with the spec's full version, any other run with the spec itself.
    """
    name = summary.get("name", "")
    spec = load(name) if name in known() else None
    if not isinstance(spec, Experiment):
        return None
    if "--full" in shlex.split(summary.get("command") or ""):
        spec = changed(spec, spec.full)
    return size_of(spec)


def size_of(spec: Experiment) -> Size:
    """Collects iterations and settings of every arm, and the number of seeds."""
    iterations = {arm.label: spec.iterations if arm.iterations is None else arm.iterations for arm in spec.arms}
    return Size(iterations, len(spec.seeds), {arm.label: settings_of(spec, arm) for arm in spec.arms})


def settings_of(spec: Experiment, arm: Arm) -> dict[str, Any]:
    """Lists the settings that the spec fixes, flat: all of a preset or config, otherwise changes to the default.

    An arm with a budget has no fixed settings, because the budget changes them.
    """
    if arm.budget:
        return {}
    config = preset(arm.game or spec.game, arm.preset) if arm.preset is not None else arm.config
    if config is None:
        return flat_settings(resolve(dict(arm.overrides)))
    return flat_settings(resolve(config.replace(**arm.overrides)))
