"""Prints the versions and devices of this installation, for a bug report: `gems doctor`."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Sequence
from typing import Any

from gems_jax.cli.parsing import parse

EXTRAS = {
    "jaxmarl": "jaxmarl",
    "pettingzoo": "pettingzoo",
    "open_spiel": "openspiel",
    "submitit": "slurm",
    "ray": "ray",
    "wandb": "wandb",
    "tensorboardX": "tensorboard",
}


@dataclasses.dataclass(frozen=True)
class Doctor:
    """Print versions, devices, extras and the cache folder."""


def main(argv: Sequence[str]) -> int:
    """Runs `gems doctor` and returns its exit code."""
    parse(Doctor, argv, prog="gems doctor")
    import jax

    from gems_jax.accelerator.cache import cache_root, compilation_cache_dir
    from gems_jax.runner import machine
    from gems_jax.runner.load import shipped_policies

    print(f"gems_jax {machine.package_version('gems_jax')}{_commit(machine.commit())}")
    print(f"python {platform.python_version()}, {platform.platform()}")
    core = (*machine.CORE_PACKAGES[1:], "orbax-checkpoint", "safetensors", "tyro", "rich")
    _print_versions("packages", dict.fromkeys(core, "MISSING"))
    _print_versions(
        "extras", {name: f'not installed: pip install "gems_jax[{extra}]"' for name, extra in EXTRAS.items()}
    )
    print("devices:")
    for device in jax.devices():
        print(f"  {device.platform}:{device.id} {device.device_kind}")
    print(f"memory of this process: {machine.memory_bytes() / 1e6:.0f} MB")
    chosen = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    folder = chosen or compilation_cache_dir()
    print(f"cache: {cache_root()} (compiled programs in {folder})")
    print(f"shipped policies: {', '.join(shipped_policies()) or 'none'}")
    return 0


def _commit(found: dict[str, Any]) -> str:
    return f", commit {found['commit'][:12]}{' with changes' * found['dirty']}" if found["commit"] else ""


def _print_versions(title: str, missing: dict[str, str]) -> None:
    """Lists the version of each package, or a note that it is not installed."""
    from gems_jax.runner.machine import package_version

    print(f"{title}:")
    for name, note in missing.items():
        print(f"  {name:<18} {package_version(name) or note}")
