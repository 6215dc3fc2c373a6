"""Copies the pages of the site into one folder: links and formulas rewritten, everything else as it is.

Markdown in the repository is written for GitHub, where links go from file to file. On the site

- a link to a page of the site goes to that page,
- a link to a Python file whose text is a name, such as [`omwu_update`](../src/gems_jax/meta/omwu.py), goes to the
  reference of that name,
- a link to any other file goes to a copy of it.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from website.formulas import render_formulas
from website.navigation import Page, pages

ROOT = Path(__file__).parents[1]
LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(([^()\s]+)\)")
CODE = re.compile(r"^(?:```|~~~).*?^(?:```|~~~)[ ]*$", re.MULTILINE | re.DOTALL)
PATH_AS_LABEL = re.compile(r"\[[\w./]+\.md\]")
PYTHON_NAME = re.compile(r"\[`([\w.]+)`\]")


def replace_links(text: str, replace: Callable[[str, str], str]) -> str:
    """Replaces the links of a page, except in blocks of code.

    Args:
      text: Markdown.
      replace: replace(`[text]`, target) -> the whole new link.

    Returns:
      Markdown with new links.
    """
    parts, end = [], 0
    for block in CODE.finditer(text):
        parts += [LINK.sub(lambda found: replace(found[1], found[2]), text[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*parts, LINK.sub(lambda found: replace(found[1], found[2]), text[end:])])


def links_of(text: str) -> list[tuple[str, str]]:
    """Lists the links of a page.

    Args:
      text: Markdown.

    Returns:
      (`[text]`, target) of each link outside of blocks of code.
    """
    found: list[tuple[str, str]] = []
    replace_links(text, lambda label, target: found.append((label, target)) or "")
    return found


def is_internal(target: str) -> bool:
    """Whether a link goes to a file of the repository, rather than to the web or within the page."""
    return not re.match(r"[a-z]+:|#", target)


def linked_file(source: str, target: str) -> str:
    """Finds the file that a link goes to.

    Args:
      source: file that has the link, relative to the repository.
      target: target of the link, without its anchor.

    Returns:
      Path of the target, relative to the repository.
    """
    return os.path.normpath(os.path.join(os.path.dirname(source), target))


def python_name(label: str, path: str) -> str | None:
    """Finds the full name that a link to a Python file means.

    Args:
      label: text of the link, with brackets.
      path: the linked file, relative to the repository.

    Returns:
      Name such as `gems_jax.meta.omwu.omwu_update`; None if the link is not of that kind.
    """
    found = PYTHON_NAME.fullmatch(label)
    if found is None or not path.endswith(".py"):
        return None
    return path.removeprefix("src/").removesuffix(".py").replace("/", ".") + "." + found[1]


def linked_names() -> Iterator[str]:
    """Yields the full names of all functions and classes that pages link to, repetitions included."""
    for page in pages():
        if page.source and (ROOT / page.source).exists():
            for label, target in links_of((ROOT / page.source).read_text()):
                name = python_name(label, linked_file(page.source, target)) if is_internal(target) else None
                if name:
                    yield name


def stage_page(page: Page, folder: Path) -> None:
    """Writes one page into the folder of the site, and copies the files that it links to.

    Args:
      page: a page with a source.
      folder: root of the staged pages.

    Raises:
      FileNotFoundError: if a link goes to a file that does not exist.
    """
    places = {one.source: one for one in pages() if one.source}

    def replace(label: str, target: str) -> str:
        if not is_internal(target):
            return f"{label}({target})"
        path, _, anchor = target.partition("#")
        path = linked_file(page.source, path)
        if not (ROOT / path).exists():
            raise FileNotFoundError(f"{page.source}: the link {target} goes to {path}, which does not exist.")
        name = python_name(label, path)
        if name is not None:
            return f"{label}[{name}]"
        place = places[path].path if path in places else _copy_file(path, folder)
        if path in places and PATH_AS_LABEL.fullmatch(label):
            label = f"[{places[path].title}]"
        shown = os.path.relpath(place, os.path.dirname(page.path) or ".")
        return f"{label}({shown}{'#' * bool(anchor)}{anchor})"

    text = render_formulas(replace_links((ROOT / page.source).read_text(), replace))
    target = folder / page.path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(indent_lists(text))


def _copy_file(path: str, folder: Path) -> str:
    """Copies a file that is not a page: what is in docs/ keeps its place, other files go to files/."""
    place = path.removeprefix("docs/") if path.startswith("docs/") else f"files/{path}"
    target = folder / place
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(ROOT / path, target)
    return place


def indent_lists(text: str) -> str:
    """Writes lists as Python-Markdown reads them: more strictly than GitHub does.

    Args:
      text: Markdown whose items continue with an indentation of two or three spaces.

    Returns:
      Markdown in which what belongs to an item is indented by four spaces, and an empty line stands before a list and
      after a paragraph within an item.
    """
    lines: list[str] = []
    inside = fenced = loose = False
    for line in text.split("\n"):
        fenced = fenced != line.startswith("```")
        item = not fenced and re.match(r"[-*] |(?:\d+\. )", line) is not None
        if item and lines and lines[-1].strip() and (loose or (not inside and line[0] in "-*")):
            lines.append("")
        if item:
            inside, loose = True, False
        elif line.strip() and not line.startswith(" "):
            inside = loose = False
        if inside and not fenced and re.match(r" {2,3}\S", line):
            loose = loose or not lines[-1].strip()
            line = "    " + line.lstrip(" ")
        lines.append(line)
    return "\n".join(lines)
