"""The page of one run: curves, error budget, mixture over time, a map of its anchors, replays, settings."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from gems_jax.evaluate.loaded_policy import LoadedPolicy
from gems_jax.runner.directory import RunDirectory, open_run, read_config
from gems_jax.runner.errors import NoRunError, RunError
from gems_jax.runner.load import find_run, load, run_folder
from gems_jax.runner.rebuild import rebuild
from gems_jax.types import Game
from gems_jax.viz.transcripts import check_discrete, write_replays
from gems_jax.viz.words import words_of
from gems_jax.web.anchor_map import describe_anchors
from gems_jax.web.page import encode_numbers, make_page, write_page
from gems_jax.web.run_record import describe_mixture, describe_rows, describe_run, quietly

MAX_PICTURE = 600_000  # bytes of an embedded replay
_TYPES = {".svg": "image/svg+xml", ".gif": "image/gif", ".png": "image/png"}
_SCRIPTS = ("dom.js", "charts.js", "maps.js", "run.js")


def write_run_page(
    run: Path | str,
    path: Path | str,
    *,
    seed: int | None = None,
    at: str | int = "last",
    games: int = 2,
    trust: bool = False,
    game: Game | None = None,
) -> Path:
    """Writes a self-contained page of one run.

    Args:
      run: folder of a seed, or of a batch, whose curves are shown together.
      path: HTML file to write.
      seed: seed whose mixture, anchors and games are shown; by default the one of the folder, or the first.
      at: checkpoint of the anchors and games, as for `gems_jax.load`.
      games: number of replayed games; 0 for none.
      trust: import the game if the run names a user-defined class, as for `gems_jax.load`.
      game: the game, if you have it.

    Returns:
      The path.

    Raises:
      RunError: if there is no such run, or the file cannot be written. What the run lacks is explained on the page.
    """
    return write_page(path, make_run_page(run, seed=seed, at=at, games=games, trust=trust, game=game))


def make_run_page(
    run: Path | str,
    *,
    seed: int | None = None,
    at: str | int = "last",
    games: int = 2,
    trust: bool = False,
    game: Game | None = None,
) -> str:
    """Makes the HTML text of `write_run_page`, whose arguments it takes."""
    found = find_run(run)
    if found.suffix == ".safetensors":
        raise NoRunError(f"{found} is one mixture: expected a run folder, whose rows can be shown. `gems web` plays it")
    folder = run_folder(found)
    directory = open_run(folder)
    wanted = _choose_seed(directory, folder, seed)
    made = rebuild(read_config(directory.shared), str(directory.shared), trust=trust, game=game).game
    words = words_of(made)
    described = describe_run(directory)
    policy, why = _load_policy(folder, wanted, at, made)
    data = {
        **described,
        "title": words.title,
        "unit": words.unit,
        "rows": describe_rows(directory, words.unit),
        "seed": wanted,
        "mixture": quietly(
            lambda: describe_mixture(directory, wanted, trust, made),
            lambda reason: {"iterations": [], "populations": [], "source": reason},
        ),
        "anchors": _anchors(policy, why),
        "replays": _replays(policy, why, games),
        "at": policy.iteration if policy is not None else None,
    }
    return make_page(f"{words.title}: {described['method']}", "run.html", ("base.css", "run.css"), _SCRIPTS, data)


def _choose_seed(directory: RunDirectory, folder: Path, seed: int | None) -> int:
    own = read_config(folder).get("seed")
    wanted = seed if seed is not None else own if own is not None else directory.seeds[0]
    if wanted not in directory.seeds:
        known = ", ".join(map(str, directory.seeds))
        raise NoRunError(f"{folder}: expected one of the seeds {known}, got seed {wanted}. Choose one of these")
    return wanted


def _load_policy(folder: Path, seed: int, at: str | int, game: Game) -> tuple[LoadedPolicy | None, str]:
    """Loads the policy; without a usable checkpoint returns None and the reason."""
    try:
        return load(folder, seed=seed, at=at, game=game), ""
    except RunError as error:
        return None, str(error)


def _anchors(policy: LoadedPolicy | None, why: str) -> dict[str, Any]:
    if policy is None:
        return {"populations": [], "why": why}
    return quietly(lambda: describe_anchors(policy), lambda reason: {"populations": [], "why": reason})


def _replays(policy: LoadedPolicy | None, why: str, games: int) -> dict[str, Any]:
    if policy is None or not games:
        return {"text": "", "pictures": [], "why": why or "no games were asked for (--games 0)"}

    def play() -> dict[str, Any]:
        check_discrete(policy.game)
        with tempfile.TemporaryDirectory() as folder:
            text, *pictures = write_replays(policy, Path(folder), episodes=games, seed=0)
            small = [one for one in pictures if one.suffix in _TYPES and one.stat().st_size <= MAX_PICTURE]
            shown = [{"name": one.stem, "source": _embed(one)} for one in small[: max(games, 2)]]
            return {"text": text.read_text(encoding="utf-8"), "pictures": shown, "why": ""}

    return quietly(play, lambda reason: {"text": "", "pictures": [], "why": reason})


def _embed(path: Path) -> str:
    """Makes a data URI of a picture; a browser runs no script of a picture."""
    return f"data:{_TYPES[path.suffix]};base64,{encode_numbers(path.read_bytes())}"
