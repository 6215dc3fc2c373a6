"""requirements.lock names everything that `.[dev]` installs."""

import importlib.metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LOCK = Path(__file__).parents[1] / "requirements.lock"


def closure(name: str, extras: frozenset[str]) -> set[str]:
    """The packages that an installed distribution with its extras requires on this Python, and what these require."""
    found: set[str] = set()
    seen, waiting = set(), [(canonicalize_name(name), extras)]
    while waiting:
        package, wanted = waiting.pop()
        if (package, wanted) in seen:
            continue
        seen.add((package, wanted))
        found.add(package)
        for line in importlib.metadata.requires(package) or []:
            requirement = Requirement(line)
            if requirement.marker is None or any(
                requirement.marker.evaluate({"extra": extra}) for extra in (wanted or {""})
            ):
                waiting.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return found


def test_the_lock_names_every_package_of_the_dev_extra() -> None:
    lines = [line for line in LOCK.read_text().splitlines() if line and not line.startswith("#")]
    pinned = dict(line.split("==") for line in lines)  # every line is name==version
    assert all(pinned.values()) and len(pinned) == len(lines)
    needed = closure("gems_jax", frozenset({"dev"})) - {"gems-jax"}
    assert {"jax", "pettingzoo", "mpe2", "open-spiel", "pytest", "submitit"} <= needed
    assert not needed - {canonicalize_name(name) for name in pinned}
