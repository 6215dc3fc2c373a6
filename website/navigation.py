"""The pages of the site, in order, and the files that they are made from."""

import json
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]


class Page(NamedTuple):
    """One page: its title in the navigation, its path in the site, and the file that it is made from."""

    title: str
    path: str
    source: str  # relative to the repository; "" for generated pages


def _docs(title: str, name: str) -> Page:
    return Page(title, name, f"docs/{name}")


TUTORIALS = (
    ("Solve Kuhn poker, read the error budget", "kuhn"),
    ("GEMS inside your own JAX program", "own_program"),
    ("Your own game", "own_game"),
    ("Compare methods at an equal budget", "compare"),
    ("A population that you can look at", "population"),
    ("Connect Four, from zero to beating a tactician", "connect_four"),
    ("Three players, coarse correlated equilibria", "three_players"),
)


def _result_pages() -> list[Page]:
    """Pages of published experiments, by the titles in their JSON files; in the order of the file names."""
    found = []
    for path in sorted((ROOT / "docs" / "results").glob("*.md")):
        record = path.with_suffix(".json")
        name = json.loads(record.read_text()).get("title") if record.exists() else None
        if path.stem != "claims":
            found.append(_docs(name or path.stem.replace("_", " ").capitalize(), f"results/{path.name}"))
    return found


def sections() -> dict[str, list[Page]]:
    """Lists the pages of the site.

    Returns:
      {section: pages}. The first page of a section is its overview.
    """
    api = [("Overview", "index"), ("Training and runs", "training"), ("GEMS as pure functions", "gems")]
    api += [("Games", "games"), ("Solvers and parts", "solvers"), ("Evaluation and play", "evaluation")]
    api += [("Types and errors", "types"), ("Equations", "equations")]
    return {
        "Home": [Page("Home", "index.md", "README.md")],
        "Tutorials": [
            _docs("Overview", "tutorials/index.md"),
            *(_docs(title, f"tutorials/{name}.md") for title, name in TUTORIALS),
        ],
        "Guides": [
            _docs("Installation", "install.md"),
            _docs("The library", "library.md"),
            _docs("The command line", "command_line.md"),
            _docs("Add a game", "add_a_game.md"),
            _docs("Add a method", "add_a_method.md"),
            _docs("Sweep over settings", "sweeps.md"),
            _docs("Python environments", "python_environments.md"),
            _docs("Read a run", "reading_a_run.md"),
            _docs("GPUs and TPUs", "accelerators.md"),
            _docs("Fixed opponents", "opponents.md"),
            _docs("Repeat the experiments", "experiments.md"),
            _docs("Play in the browser", "play.md"),
            _docs("Pages: play, and look at a run", "web.md"),
        ],
        "Concepts": [
            _docs("The method and its equations", "concepts.md"),
            _docs("Methods and budgets", "methods.md"),
            _docs("How we read the paper", "paper.md"),
            _docs("Design", "design.md"),
            _docs("Devices, hosts and cost", "scaling.md"),
            _docs("Speed", "speed.md"),
            _docs("Ours and the originals", "originals.md"),
            _docs("Faults and hostile files", "trust.md"),
            _docs("Glossary", "glossary.md"),
        ],
        "Results": [
            _docs("Overview", "results.md"),
            _docs("Leaderboard", "leaderboard.md"),
            _docs("The paper's claims", "results/claims.md"),
            *_result_pages(),
        ],
        "API": [Page(title, f"api/{name}.md", "") for title, name in api],
        "Project": [
            _docs("Release notes", "release_notes.md"),
            Page("Changelog", "changelog.md", "CHANGELOG.md"),
            Page("Contributing", "contributing.md", "CONTRIBUTING.md"),
            Page("Security", "security.md", "SECURITY.md"),
            Page("Code of conduct", "code_of_conduct.md", "CODE_OF_CONDUCT.md"),
        ],
    }


def pages() -> list[Page]:
    """Lists all pages in order."""
    return [page for section in sections().values() for page in section]
