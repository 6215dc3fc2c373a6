"""Names of stored programs: a hash of everything that the compiled programs of a run depend on.

The game and its options, the method and its settings, the shapes, the package's source, the versions of libraries, the
settings of JAX and XLA, and the device. Games, methods and settings of a user's own have no name: nobody knows which
files they depend on.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import jax

import gems_jax
from gems_jax.accelerator.compile import compiler_options
from gems_jax.accelerator.cpu import cpu_workarounds
from gems_jax.accelerator.stored_programs import load_program
from gems_jax.games import describe_game
from gems_jax.runner.engine import ADVANCE, Measure, Monitor, Sample, uses_mesh
from gems_jax.runner.files import resolve
from gems_jax.runner.machine import CORE_PACKAGES, device, versions
from gems_jax.runner.measuring import make_monitor
from gems_jax.runner.options import RunOptions
from gems_jax.runner.rebuild import Problem
from gems_jax.solvers import METHODS

FORMAT = 1  # of the stored programs
_OPTIONS = ("chunk", "exact", "evaluation_episodes", "evaluation_every", "seed_batch")  # that a program depends on
_LIBRARIES = ("jaxmarl", "open_spiel", "ml_dtypes", "tensorflow-probability")
_VARIABLES = ("XLA_FLAGS", "LIBTPU_INIT_ARGS", "GEMS_JAX_WORKAROUNDS")
_OUTSIDE = ("cache", "log", "traceback", "dump", "profile", "compilation_")  # settings that change no program


def program_name(problem: Problem, seeds: int, options: RunOptions) -> str:
    """Names the compiled programs of a run.

    Args:
      problem: game, method, settings and solver.
      seeds: number of seeds.
      options: options of the run, fitted to the game.

    Returns:
      A hash as hexadecimal digits; "" if the run's programs are not to be stored.
    """
    if not problem.solver.jittable or options.debug or uses_mesh(options) or not options.stored_programs:
        return ""
    described = describe_game(problem.game)
    own = (type(problem.game), METHODS.get(problem.method), type(problem.config))
    if described is None or any(getattr(one, "__module__", "").split(".")[0] != "gems_jax" for one in own):
        return ""
    try:
        settings = resolve({"game": described, "config": problem.config})
    except TypeError:
        return ""
    if any(":" in text and not text.startswith(("pgx:", "jaxmarl:")) for text in _texts(settings)):
        return ""  # package.module:name, a user's own
    parts = {
        **settings,
        "method": problem.method,
        "settings": type(problem.config).__qualname__,
        "seeds": seeds,
        "options": {name: getattr(options, name) for name in _OPTIONS},
        "surroundings": _surroundings(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:40]


def choose_monitor(problem: Problem, options: RunOptions, program: str) -> Monitor:
    """Makes the monitor of a run, without enumerating the game if the stored program says how it measures.

    Args:
      problem: game, method, settings and solver.
      options: options of the run.
      program: name of its programs.
    """
    make = functools.partial(make_monitor, problem.game, problem.solver, options)
    stored = load_program(f"{program}-{ADVANCE}") if program else None
    return make() if stored is None else recall_monitor(stored.notes, make)


def describe_monitor(monitor: Monitor) -> dict[str, Any]:
    """Describes a monitor as plain data: all of it but its functions, of which it says whether they are there."""
    allowed = monitor.allow_nonfinite
    return {
        **{name: getattr(monitor, name) for name in ("highest", "note", "every")},
        "headlines": list(monitor.headlines),
        "allow_nonfinite": None if allowed is None else sorted(allowed),
        "measure": monitor.measure is not None,
        "sample": monitor.sample is not None,
    }


def recall_monitor(described: dict[str, Any], make: Callable[[], Monitor]) -> Monitor:
    """Makes a monitor from its description; what it calls is made when it is first called, which is while tracing.

    Args:
      described: the result of `describe_monitor`.
      make: makes the monitor itself, which may enumerate the game.

    Returns:
      A monitor with equal results.
    """
    once = functools.cache(make)
    measures, samples = described["measure"], described["sample"]
    return Monitor(
        init=lambda state: once().init(state),
        measure=(lambda *given: cast(Measure, once().measure)(*given)) if measures else None,
        headlines=tuple(described["headlines"]),
        highest=described["highest"],
        note=described["note"],
        allow_nonfinite=described["allow_nonfinite"],
        sample=(lambda *given: cast(Sample, once().sample)(*given)) if samples else None,
        every=described["every"],
    )


def is_stored(program: str) -> bool:
    """Returns whether a run of these programs does not need to trace its iterations."""
    return bool(program) and load_program(f"{program}-{ADVANCE}") is not None


def _texts(value: Any) -> Iterator[str]:
    """All strings in plain data, names of fields apart."""
    if isinstance(value, str):
        yield value
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _texts(item)


def _surroundings() -> dict[str, Any]:
    """Collects what a program depends on besides the run."""
    names = [name for name in jax.config.values if not any(part in name for part in _OUTSIDE)]
    return {
        "format": FORMAT,
        "source": source_hash(),
        "versions": versions((*CORE_PACKAGES, *_LIBRARIES)),
        "device": [device()["platform"], device()["kind"], jax.devices()[0].client.platform_version],
        "jax": {name: str(getattr(jax.config, name, jax.config.values[name])) for name in sorted(names)},
        "variables": {name: os.environ.get(name, "") for name in _VARIABLES},
        "compiler": sorted(map(str, compiler_options().items())),
        "workarounds": cpu_workarounds(),
    }


@functools.cache
def source_hash() -> str:
    """Computes a hash of the package's modules and of the names and sizes of its data."""
    root, found = Path(gems_jax.__file__).parent, hashlib.sha256()
    for path in sorted(path for path in root.rglob("*") if path.is_file() and path.suffix != ".pyc"):
        content = path.read_bytes() if path.suffix == ".py" else str(path.stat().st_size).encode()
        found.update(f"{path.relative_to(root)}\0{len(content)}\0".encode() + content)
    return found.hexdigest()
