"""Pictures of trained policies, drawn from the folders of the arms when all of them have finished.

An experiment lists them by name (`Experiment.pictures`). Each is a function of the plan and the experiment's folder
that returns files by name, as matplotlib figures or bytes, and numbers that describe them. Still pictures go to
`figures/`, animations to `replays/`, numbers to summary.json. If a picture fails, the reason is recorded, and nothing
else is affected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from experiments.pictures.boards import boards
from experiments.pictures.drawn import Drawn
from experiments.pictures.embeddings import embeddings
from experiments.pictures.ghosts import ghosts
from experiments.pictures.sides import outcomes_of_sides
from gems_jax.runner.errors import report_write_errors
from gems_jax.viz.plotting import save_figure

if TYPE_CHECKING:
    from experiments.harness.spec import Plan

PICTURES: dict[str, Callable[[Plan, Path], Drawn]] = {
    "ghosts": ghosts,
    "embeddings": embeddings,
    "boards": boards,
    "outcomes_of_sides": outcomes_of_sides,
}


class Pictures(NamedTuple):
    """All pictures of an experiment."""

    figures: list[Path]
    replays: list[Path]
    record: dict[str, Any]  # name -> files and numbers, or why there are none


def check_pictures(names: Sequence[str]) -> None:
    """Raises ValueError for unknown names."""
    unknown = [name for name in names if name not in PICTURES]
    if unknown:
        raise ValueError(f"unknown pictures {', '.join(unknown)}; known: {', '.join(PICTURES)}")


def draw_pictures(plan: Plan, folder: Path, say: Callable[[str], None]) -> Pictures:
    """Draws the requested pictures and writes them below `folder`; `say` prints the reasons of failures."""
    found = Pictures([], [], {})
    for name in plan.spec.pictures:
        try:
            drawn = PICTURES[name](plan, folder)
            paths = [_write(folder, file, content) for file, content in drawn.files.items()]
        except Exception as error:  # whatever it is, the numbers of the experiment are worth more than its pictures
            why = f"{type(error).__name__}: {error}"
            say(f"the picture {name} could not be drawn: {why}")
            found.record[name] = {"failed": why}
            continue
        for path in paths:
            (found.figures if path.suffix == ".png" else found.replays).append(path)
        files = [path.relative_to(folder).as_posix() for path in paths]
        found.record[name] = {"files": files, "numbers": dict(drawn.numbers)}
    return found


def _write(folder: Path, file: str, content: Any) -> Path:
    """Writes still pictures to figures/ and animations to replays/."""
    path = folder / ("figures" if file.endswith(".png") else "replays") / file
    with report_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        if not isinstance(content, bytes):
            return save_figure(content, path)
        path.write_bytes(content)
    return path
