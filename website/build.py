"""Builds the site: `python -m website.build`, or `make docs`. `--serve` shows it and watches nothing.

Pages are staged in build/docs, the site is build/site. Warnings, broken links and missing references are errors.
"""

import argparse
import functools
import http.server
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

from website.navigation import Page, pages, sections
from website.reference import reference_pages
from website.stage import stage_page

ROOT = Path(__file__).parents[1]
HERE = Path(__file__).parent
BUILD = ROOT / "build"
SETTINGS = "zensical.toml"
REMOTE = re.compile(r'<(?:script|img|iframe)[^>]*\ssrc="?https?://[^"\s>]*|<link[^>]*stylesheet[^>]*https?://[^"\s>]*')


def stage(folder: Path) -> None:
    """Writes all pages of the site, and what they need.

    Args:
      folder: folder of the staged pages; emptied first.
    """
    from website.notebooks import write_notebooks
    from website.play import write_play_pages

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for page in pages():
        if page.source:
            stage_page(page, folder)
    for path, text in reference_pages():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    shutil.copytree(HERE / "assets", folder / "assets")
    write_notebooks(folder / "tutorials")
    write_play_pages(folder)


def settings() -> str:
    """Writes the settings of a site, in TOML: those beside this file, with the navigation."""

    def entry(title: str, value: str) -> str:
        return f"{{ {json.dumps(title)} = {value} }}"

    def group(of: list[Page]) -> str:
        return f"[{', '.join(entry(page.title, json.dumps(page.path)) for page in of)}]"

    nav = ", ".join(
        entry(name, group(of) if len(of) > 1 else json.dumps(of[0].path)) for name, of in sections().items()
    )
    own = f'[project]\ndocs_dir = "docs"\nsite_dir = "site"\nnav = [{nav}]\n'
    return (HERE / SETTINGS).read_text().replace("{root}", str(ROOT)).replace("[project]\n", own, 1)


def build(folder: Path) -> int:
    """Builds the site.

    Args:
      folder: folder for `docs`, the staged pages, and `site`.

    Returns:
      0 if the site was built without a warning.
    """
    stage(folder / "docs")
    return render(folder)


def render(folder: Path) -> int:
    """Makes the site from staged pages.

    Args:
      folder: folder with `docs`; `site` is written.

    Returns:
      0 if there was no warning.
    """
    path = folder / SETTINGS
    path.write_text(settings())
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict", "--config-file", str(path)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(done.stdout.strip())
    if done.returncode or "griffe: " in done.stdout:  # docstrings: reported, but not counted as warnings
        print("docs: the site was not built, see the messages above")
        return done.returncode or 1
    keep_local(folder / "site")
    print(f"{len(pages())} pages in {folder / 'site'}")
    return 0


def keep_local(site: Path) -> None:
    """Takes the script that search needs on file:// from the site itself instead of from a server.

    Args:
      site: folder of the finished site, with `assets/iframe-worker.js`.

    Raises:
      RuntimeError: if a page would still load a script, a style sheet, a picture or a frame from a server.
    """
    for path in site.rglob("*.html"):
        text = path.read_text()
        own = "../" * (len(path.relative_to(site).parts) - 1) + "assets/iframe-worker.js"
        local = text.replace("https://unpkg.com/iframe-worker/shim", own)
        if remote := REMOTE.search(local):
            raise RuntimeError(f"{path}: expected nothing from a server, got {remote[0]}")
        if local != text:
            path.write_text(local)


def main() -> int:
    """Builds, and with `--serve` shows, the site."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--serve", action="store_true", help="show the site on a local port")
    parser.add_argument("--port", type=int, default=8000)
    arguments = parser.parse_args()
    code = build(BUILD)
    if code or not arguments.serve:
        return code
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=BUILD / "site")
    print(f"http://localhost:{arguments.port}/ (Ctrl-C stops)")
    try:
        http.server.ThreadingHTTPServer(("localhost", arguments.port), handler).serve_forever()
    except KeyboardInterrupt:
        return 0


if __name__ == "__main__":
    sys.exit(main())
