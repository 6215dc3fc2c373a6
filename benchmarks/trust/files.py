"""Campaigns of files: damaged ones must be noticed, hostile ones refused, each in one line."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.trust import damage
from benchmarks.trust.children import Outcome, call, is_clean

MARKER = "marker"
# What a downloaded config.json or policy file may name as its game: (name, options).
PLANTED: dict[str, tuple[Any, dict[str, Any]]] = {
    "class": ("subprocess:Popen", {"args": f"touch {MARKER}", "shell": True}),
    "function": ("shutil:rmtree", {"path": "run"}),
    "builtin": ("os:system", {"command": f"touch {MARKER}"}),
    "evaluation": ("builtins:eval", {}),
    "module of the folder": ("evil:Game", {}),
    "module by a path": ("run.evil:Game", {}),
    "relative module": (".evil:Game", {}),
    "behind a known prefix": ("pz:os:system", {"command": f"touch {MARKER}"}),
    "path behind a prefix": ("pz:../evil", {}),
    "pgx": ("pgx:evil:Game", {}),
    "openspiel": ("openspiel:evil:Game", {}),
    "history": ("history:evil:Game", {}),
    "option that is the id": ("pz:tictactoe_v3", {"id": "os:system", "command": f"touch {MARKER}"}),
    "own package": ("gems_jax.games.adapters.pettingzoo:environment_game", {"id": "os:system"}),
    "no name": (["os", "system"], {}),
    "markup": ("[red]<script>alert(1)</script>", {}),
    "escape sequence": ("\x1b]0;title\x07", {}),
}


def _plant(kind: str, run: Path) -> Path:
    name, options = PLANTED[kind]
    damage.change_json(run, "config.json", "game", name)
    damage.change_json(run, "config.json", "options/game", options)
    return run


def _plant_in_policy(kind: str, run: Path) -> Path:
    from safetensors.numpy import save

    record = json.loads((_plant(kind, run) / "config.json").read_text())
    description = {name: record[name] for name in ("game", "method", "config", "options")}
    text = json.dumps({"format": 1, **description, "seed": 0, "iteration": 1, "last_row": {}})
    (run.parent / "policy.safetensors").write_bytes(save({}, metadata={"gems_jax": text}))
    return run.parent / "policy.safetensors"


def _policy(run: Path, content: bytes) -> Path:
    path = run.parent / "policy.safetensors"
    path.write_bytes(content)
    return path


def _huge_header(run: Path) -> Path:
    return _policy(run, (2**62).to_bytes(8, "little") + b"{}")


def _pipe(run: Path) -> Path:
    os.mkfifo(run.parent / "policy.safetensors")
    return run.parent / "policy.safetensors"


def _damaged(kind: str) -> Callable[[Path], Path]:
    def spoil(run: Path) -> Path:
        damage.LINKS[kind](run)
        return run

    return spoil


HOSTILE: dict[str, Callable[[Path], Path]] = {
    **{f"run, {kind}": lambda run, kind=kind: _plant(kind, run) for kind in PLANTED},
    **{f"policy, {kind}": lambda run, kind=kind: _plant_in_policy(kind, run) for kind in PLANTED},
    **{kind: _damaged(kind) for kind in damage.LINKS},
    "policy, huge header": _huge_header,
    "policy, empty": lambda run: _policy(run, b""),
    "policy, pickle": lambda run: _policy(run, b"\x80\x04cos\nsystem\n(S'touch marker'\ntR."),
    "policy, pipe": _pipe,
}


def _copy(run: Path, folder: Path, number: int) -> Path:
    place = folder / f"copy-{number}"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    shutil.copytree(run, place / "run")
    code = f"import pathlib\npathlib.Path({str(place / MARKER)!r}).touch()\nclass Game: ...\n"
    (place / "evil.py").write_text(code)
    os.chdir(place)
    return place / "run"


def _lines(run: Path) -> dict[str, Outcome]:
    return {
        "doctor": call(["doctor", str(run)]),
        "eval": call(["eval", str(run)]),
        "resume": call(["resume", str(run), "--quiet", "--no-figures"]),
    }


def try_damage(numbers: list[int], run: Path, folder: Path) -> list[dict[str, Any]]:
    """Damages copies of a run, and checks that `doctor` or `resume` notices it and no command ends in a traceback."""
    records = []
    for number in numbers:
        kind = list(damage.KINDS)[number]
        copy = _copy(run, folder, number)
        damage.KINDS[kind](copy)
        found = _lines(copy)
        noticed = found["doctor"].code == 1 or found["resume"].code in (1, 2)
        clean = all(map(is_clean, (found["eval"], found["resume"]))) and found["doctor"].code in (0, 1)
        record = {"number": number, "kind": kind, "detected": noticed and clean}
        more = {name: [each.code, each.err[-300:], round(each.seconds, 1)] for name, each in found.items()}
        records.append(record if record["detected"] else {**record, "lines": more})
        shutil.rmtree(copy.parent, ignore_errors=True)
    return records


def try_hostile(numbers: list[int], run: Path, folder: Path) -> list[dict[str, Any]]:
    """Opens hostile files by `gems eval` without --trust, which must refuse them and run nothing that they name."""
    records = []
    for number in numbers:
        kind = list(HOSTILE)[number]
        copy = _copy(run, folder, number)
        outcome = call(["eval", str(HOSTILE[kind](copy))])
        calm = not any(path.name in (MARKER, "run-target") for path in copy.parent.rglob("*"))
        status = kind.startswith(("link: status", "pipe: status"))
        refused = is_clean(outcome) and outcome.code in (1, 2) and calm and (copy.exists() or status)
        record = {"number": number, "kind": kind, "refused": refused}
        records.append(record if refused else {**record, "code": outcome.code, "err": outcome.err[-300:]})
        shutil.rmtree(copy.parent, ignore_errors=True)
    return records
