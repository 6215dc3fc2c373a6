"""Pages on which a reader plays the shipped policies, if the package can write them."""

import importlib
import importlib.util
from pathlib import Path

from gems_jax.runner.errors import RunError

ROOT = Path(__file__).parents[1]
SHIPPED = ROOT / "src" / "gems_jax" / "checkpoints"
TITLES = {"connect_four": "Connect Four", "kuhn": "Kuhn poker", "leduc": "Leduc hold'em", "tic_tac_toe": "Tic-tac-toe"}
FRAME = '<iframe class="play" src="play/{name}.html" title="Play {name}" loading="lazy"></iframe>'


def write_play_pages(folder: Path) -> list[Path]:
    """Writes one page for each shipped policy, and embeds them in play.md; prints a note if that is not possible.

    Args:
      folder: root of the staged pages, with play.md.

    Returns:
      The pages that were written.
    """
    if importlib.util.find_spec("gems_jax.web") is None:
        print("docs: gems_jax.web is not installed, so the site has no playable pages")
        return []
    web, load = importlib.import_module("gems_jax.web"), importlib.import_module("gems_jax").load
    written, frames = [], []
    (folder / "play").mkdir(exist_ok=True)
    for name in sorted(path.stem for path in SHIPPED.glob("*.safetensors")):
        path = folder / "play" / f"{name}.html"
        try:
            web.write_play_page(load(name), path)
        except RunError as error:  # a game without such pages
            print(f"docs: {name} is not among the playable pages: {error}")
            continue
        written.append(path)
        frames.append(f"## {TITLES.get(name, name.replace('_', ' ').capitalize())}\n\n{FRAME.format(name=name)}\n")
    page = folder / "play.md"
    page.write_text(page.read_text() + "\n" + "\n".join(frames))
    return written
