"""Prints the versions and devices of this installation (`gems doctor`), or inspects a run (`gems doctor RUN`)."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import tyro

from gems_jax.cli.parsing import UsageError, parse

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
    """Print versions, devices, extras and the cache folder; or inspect a run folder.

    With RUN, a table shows which files are intact and what can be recovered. The exit code is 1 if any is damaged."""

    run: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[RUN]")] = None
    """Run directory to inspect: the folder of a seed or of a batch."""
    accept_rows: bool = False
    """Accept metrics.csv as it is, after you have changed it on purpose: store its checksum in the checkpoints."""


def main(argv: Sequence[str]) -> int:
    """Runs `gems doctor` and returns its exit code."""
    arguments = parse(Doctor, argv, prog="gems doctor")
    if arguments.run is None and arguments.accept_rows:
        raise UsageError("--accept-rows needs a RUN")
    return _print_installation() if arguments.run is None else _inspect(arguments.run, arguments.accept_rows)


def _inspect(folder: Path, accept: bool) -> int:
    """Prints the state of a run folder; returns 1 if any part is damaged."""
    from gems_jax.runner.console import printable
    from gems_jax.runner.directory import open_run
    from gems_jax.runner.integrity.inspection import accept_rows, inspect_run

    if accept:
        for line in accept_rows(open_run(folder)):
            print(line)
    found = inspect_run(folder)
    width = max(len(finding.part) for finding in found.findings)
    for part, intact, note in found.findings:
        print(printable(f"{part:<{width}}  {'intact ' if intact else 'DAMAGED'}  {note}").rstrip())
    print(printable(f"{'all intact' if found.intact else 'damaged'}: {found.recovery}"))
    return 0 if found.intact else 1


def _print_installation() -> int:
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
