"""Prints words that readers of this field would not search for: `python tests/word_report.py [FOLDER]`.

Counts each word in the comments and strings of `src`, and in the pages README.md and docs/, at commit `BASELINE_COMMIT`
and today. Identifiers do not count: state fields, columns and file formats keep their names.
`tests/test_docstrings.py` holds the bar.
"""

from __future__ import annotations

import ast
import collections
import io
import re
import subprocess
import sys
import tarfile
import tokenize
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PARTS = ("README.md", "docs", "src")  # what is read, relative to the root
BASELINE_COMMIT = "9154dbd"
BASELINE_TOTAL = 462  # matches at that commit


class Word(NamedTuple):
    """A word to replace."""

    pattern: re.Pattern[str]
    instead: str
    exempt: str = ""  # a folder where the word is defined


def _word(pattern: str, instead: str, exempt: str = "") -> Word:
    return Word(re.compile(pattern, re.IGNORECASE), instead, exempt)


_COMPARATIVES = "longer|more|less|fewer|better|worse|larger|smaller|greater|higher|lower|faster|slower|deeper|earlier"
WORDS = {
    "walked": _word(r"\bbe walked\b", "enumerable"),
    "told": _word(r"\btold\b", "reported, printed, logged"),
    "says": _word(r"\bsays\b", "reports, prints, declares"),
    "worked out": _word(r"\bworked out\b", "computed, materialized"),
    "kept": _word(r"\bkept\b", "stored, cached, retained"),
    "alike": _word(r"\balike\b", "uniformly, identical"),
    "share": _word(
        r"\bshares? (?:of|that)\b|\b(?:a|the|its|their|this|whose|each|every|what|equal|fixed|largest) shares?\b",
        "fraction, probability",
    ),
    "whole number": _word(r"\bwhole numbers?\b", "integer"),
    "place": _word(
        r"(?<!\bin )(?<!\bin the )(?<!\bin its )(?<!\btakes the )(?<!\btake )(?<!\bdecimal )\bplaces?\b(?! \d)",
        "position, location",
    ),
    "lot": _word(r"(?<!\ba )\blots?\b", "sort key"),
    "word": _word(r"\b(?:one|two|both|high|low|32-bit) words?\b", "uint32"),
    "numbered": _word(r"\bnumbered\b|\bnumbers (?:what|its|their|actions|the)\b", "index, indexed"),
    "lane": _word(r"(?<![-*`])\blanes?\b", "environment instance", "src/gems_jax/rollout/"),
    "goes on": _word(r"\b(?:go|goes|going|gone|went) on\b(?! (?:\d+x\d+|any size))", "continues, resumes, warm-starts"),
    "laid out": _word(r"\b(?:laid|lays?|laying) (?:out|down)\b", "unrolled, defined"),
    "turned": _word(r"\bturned\b(?! (?:on|off|out)\b)", "permuted, converted"),
    "mended": _word(r"\bmend(?:s|ed|ing)?\b", "fixed"),
    "apart": _word(r"\bapart\b", "excluding, separately"),
    "is no": _word(rf"(?<!\bthere )\b(?:is|are|was|were) no\b(?! (?:{_COMPARATIVES})\b)", "is not a"),
    "slip": _word(r"\bslips? of the pen\b", "not found"),
}


def prose_of(name: str, text: str) -> Iterator[str]:
    """Yields what people read in a file: comments and strings of a program, the whole of a page.

    Args:
      name: path of the file, whose suffix decides.
      text: its contents.

    Yields:
      Text on one line: a page, the comments of a program, or one of its strings. Strings without a space are names.
    """
    if not name.endswith(".py"):
        yield " ".join(text.split())
        return
    tokens = tokenize.generate_tokens(io.StringIO(text).readline)
    yield " ".join(token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield " ".join(node.value.split())


def count_words(files: Mapping[str, str]) -> collections.Counter[str]:
    """Counts the matches of every word.

    Args:
      files: contents by path relative to the root of the project.

    Returns:
      Matches by the keys of `WORDS`.
    """
    counts: collections.Counter[str] = collections.Counter(dict.fromkeys(WORDS, 0))
    for name, text in files.items():
        for prose in prose_of(name, text):
            for word, (pattern, _, exempt) in WORDS.items():
                if not (exempt and name.startswith(exempt)):
                    counts[word] += len(pattern.findall(prose))
    return counts


def files_today(root: Path = ROOT) -> dict[str, str]:
    """Reads the programs and pages of a working tree, by path."""
    paths = [path for part in PARTS for path in (root / part, *(root / part).rglob("*"))]
    return {
        str(path.relative_to(root)): path.read_text() for path in sorted(paths) if _is_read(path.name, path.is_file())
    }


def files_at(commit: str, root: Path = ROOT) -> dict[str, str] | None:
    """Reads the programs and pages of a commit, by path; None without git or where the commit is not there."""
    try:
        archive = subprocess.run(["git", "archive", commit, *PARTS], cwd=root, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        members = [member for member in tar if _is_read(member.name, member.isfile())]
        return {member.name: tar.extractfile(member).read().decode() for member in members}  # type: ignore[union-attr]


def _is_read(name: str, is_file: bool) -> bool:
    return is_file and name.endswith((".py", ".md"))


def report(root: Path = ROOT) -> str:
    """Formats the table: word, count at the baseline, count today, what to write instead."""
    today, before = count_words(files_today(root)), files_at(BASELINE_COMMIT, root)
    then = None if before is None else count_words(before)
    lines = [f"{'word':14}{BASELINE_COMMIT:>9}{'today':>9}  write instead"]
    for word, (_, instead, _) in WORDS.items():
        lines.append(f"{word:14}{'-' if then is None else then[word]:>9}{today[word]:>9}  {instead}")
    total = BASELINE_TOTAL if then is None else then.total()
    return "\n".join([*lines, f"{'total':14}{total:>9}{today.total():>9}"])


if __name__ == "__main__":
    print(report(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT))
