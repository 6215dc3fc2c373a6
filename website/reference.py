"""Pages of the API reference: every public name of the package, and the functions behind the paper's equations."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from website.stage import linked_names

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "gems_jax"
INHERITED = "    options:\n      inherited_members: true\n"


class Group(NamedTuple):
    """One page of the reference."""

    page: str
    title: str
    text: str
    names: tuple[str, ...]


GROUPS = (
    Group(
        "training",
        "Training and runs",
        "One call trains a method on a game; a run is a folder that can be loaded, resumed and played.",
        ("train", "Run", "load", "LoadedPolicy", "enable_compilation_cache", "disable_compilation_cache"),
    ),
    Group(
        "gems",
        "GEMS as pure functions",
        "The method without a driver. These functions work inside `jit`, `scan`, `vmap` and `shard_map`.",
        ("init_gems", "gems_step", "gems_profile", "GemsConfig", "GemsState", "GemsMetrics", "PRESETS", "preset"),
    ),
    Group(
        "games",
        "Games",
        "Games by name and from payoffs, and the protocol that a game of your own follows.",
        ("make_game", "matrix_game", "GAMES", "MatrixGame", "Game", "GameState"),
    ),
    Group(
        "solvers",
        "Solvers and parts of the method",
        "All methods behind one interface, and functions of GEMS that are useful alone.",
        ("make_solver", "METHODS", "Solver", "META_SOLVERS", "MetaSolver", "omwu_update", "eb_ucb"),
    ),
    Group(
        "evaluation",
        "Evaluation and play",
        "Exact values of enumerable games, and episodes between mixtures.",
        ("exploitability", "nash_conv", "head_to_head", "play_episode", "Episode"),
    ),
    Group(
        "types",
        "Types and errors",
        "What policies, populations and mixtures are, and what is raised.",
        ("Policy", "Population", "Profile", "PolicyOutput", "Apply", "PRNGKey")
        + ("NotAGameError", "NotEnumerableError", "NotStagedError", "RunError", "UntrustedGameError"),
    ),
)


@functools.cache
def homes() -> dict[str, str]:
    """Maps the public names of the package to the modules that define them, without importing it.

    Returns:
      {name: full name of its definition}.
    """
    table = _constant(SOURCE / "__init__.py", "_HOME")
    return {name: f"{_defining_module(module, name)}.{name}" for name, module in table.items()}


def _constant(path: Path, name: str) -> dict[str, str]:
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.Assign) and any(isinstance(one, ast.Name) and one.id == name for one in node.targets):
            return ast.literal_eval(node.value)
    raise KeyError(name)


def module_path(module: str) -> Path:
    """Finds the file of a module.

    Args:
      module: full name, such as `gems_jax.meta.omwu`.

    Returns:
      Its path.
    """
    folder = SOURCE.joinpath(*module.split(".")[1:])
    return folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")


def _defining_module(module: str, name: str) -> str:
    """Follows imports from a module to the one that defines the name."""
    for node in ast.parse(module_path(module).read_text()).body:
        if isinstance(node, ast.ImportFrom) and any(alias.name == name for alias in node.names):
            return _defining_module(str(node.module), name)
    return module


def _comment(full: str) -> str | None:
    """The comment above a constant or alias, or behind it; None for functions and classes."""
    module, _, name = full.rpartition(".")
    text = module_path(module).read_text()
    found = re.search(rf"^# (.*)\n{name}\b.* = |^{name}\b.* = .*  # (.*)$", text, re.MULTILINE)
    return found and (found[1] or found[2])


def reference_pages() -> Iterator[tuple[str, str]]:
    """Writes the pages of the reference.

    Yields:
      (path below the site's pages, Markdown).
    """
    rows = [f"| [{group.title}]({group.page}.md) | {_links(group)} |" for group in GROUPS]
    yield (
        "api/index.md",
        "# API reference\n\nEvery public name of `gems_jax`, generated from its docstring. Shapes are in brackets: "
        "`[P, K]` is an array of P populations and K slots; the [glossary](../glossary.md) defines the letters.\n\n"
        "| page | names |\n| --- | --- |\n"
        + "\n".join(rows)
        + "\n| [Equations](equations.md) | the functions that the equations of [Concepts](../concepts.md) link to |\n",
    )
    for group in GROUPS:
        entries = "\n".join(_entry(name) for name in group.names)
        yield f"api/{group.page}.md", f"# {group.title}\n\n{group.text}\n\n{entries}"
    entries = "\n".join(_directive(name) for name in other_names())
    yield (
        "api/equations.md",
        "# Equations\n\nThe functions that compute the equations of [Concepts](../concepts.md). They are not public "
        "names: their arguments may change between versions.\n\n" + entries,
    )


def other_names() -> list[str]:
    """Lists the full names that pages link to and that are not public, in order."""
    return sorted(set(linked_names()) - set(homes().values()))


def _links(group: Group) -> str:
    return ", ".join(f"[`{name}`]({group.page}.md#{_anchor(name)})" for name in group.names)


def _anchor(name: str) -> str:
    return homes()[name] if _comment(homes()[name]) is None else name.lower()


def _entry(name: str) -> str:
    comment = _comment(homes()[name])
    if comment is None:
        return _directive(homes()[name]) + INHERITED * (name in ("GemsConfig", "GemsMetrics"))
    module = homes()[name].rpartition(".")[0]
    return f"## `{name}` {{ #{name.lower()} }}\n\n{comment[0].upper()}{comment[1:]}.\nDefined in `{module}`.\n"


def _directive(full: str) -> str:
    return f"::: {full}\n"
