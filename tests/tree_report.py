"""Prints the shape of the package: `python tests/tree_report.py [FOLDER]`.

Files per folder, loose modules, public names that are defined more than once, hops from `gems_step` to each equation,
and sizes: lines, cyclomatic complexity, long functions, many parameters. `tests/test_architecture.py` holds
the bars.
"""

from __future__ import annotations

import ast
import collections
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

SOURCE = Path(__file__).parents[1] / "src" / "gems_jax"
# the function that shows each equation of `gems_step` whole
EQUATIONS = {
    "eq:mc-estimators_revised": "estimation.monte_carlo:population_values",
    "eq:iw_estimator_main": "estimation.importance:shared_values",
    "eq:omwu-eta": "meta.omwu:omwu_update",
    "eq:eta-schedules": "meta.schedules:step_size",
    "eq:ucb-jac": "meta.bandit:eb_ucb",
    "eq:abr-tr_revised": "gems.response:abr_tr_loss",
    # formulas that the paper does not have, by their left sides
    "U_ij": "estimation.replay:estimate_pairs",
    "ratio_p(b, k)": "estimation.trajectories:estimate_game",
    "J(theta)": "gems.replayed_response:train_on_replay",
}
_BRANCHES = (ast.If, ast.IfExp, ast.For, ast.While, ast.ExceptHandler, ast.With, ast.Assert, ast.comprehension)
Function = ast.FunctionDef | ast.AsyncFunctionDef


class Measured(NamedTuple):
    """One function or method of the package."""

    place: str  # "folder/module.py:line name"
    lines: int
    parameters: int
    complexity: int


def modules(source: Path = SOURCE) -> dict[str, ast.Module]:
    """Parses every module: dotted name below the package -> tree."""
    paths = sorted(source.rglob("*.py"))
    return {
        ".".join(path.relative_to(source).with_suffix("").parts).removesuffix(".__init__"): ast.parse(path.read_text())
        for path in paths
    }


def count_lines(source: Path = SOURCE) -> int:
    """Counts the lines of all modules."""
    return sum(len(path.read_text().splitlines()) for path in source.rglob("*.py"))


def files_per_folder(source: Path = SOURCE) -> dict[str, int]:
    """Counts the modules of every folder."""
    folders = [source, *sorted(path for path in source.rglob("*") if path.is_dir())]
    counts = {str(folder.relative_to(source)): len(list(folder.glob("*.py"))) for folder in folders}
    return {folder: count for folder, count in counts.items() if count}


def loose_modules(source: Path = SOURCE) -> set[str]:
    """Names the modules that lie beside the folders."""
    return {path.stem for path in source.glob("*.py")}


def duplicate_names(source: Path = SOURCE) -> dict[str, list[str]]:
    """Maps public functions and classes that several modules define to those modules. `main` of a command is exempt."""
    homes = collections.defaultdict(list)
    for module, tree in modules(source).items():
        for node in tree.body:
            if isinstance(node, Function | ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(module)
    return {name: found for name, found in sorted(homes.items()) if len(found) > 1 and name != "main"}


def functions(source: Path = SOURCE) -> list[Measured]:
    """Measures every function and method; what is defined inside a function counts as part of it."""
    found = []
    for path in sorted(source.rglob("*.py")):
        for node in _outermost(ast.parse(path.read_text())):
            place = f"{path.relative_to(source)}:{node.lineno} {node.name}"
            arguments = node.args
            parameters = len([*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs])
            found.append(Measured(place, node.end_lineno - node.lineno + 1, parameters, complexity(node)))
    return found


def complexity(function: Function) -> int:
    """Counts the independent paths through a function, without those of functions that are defined inside."""
    count = 1
    for node in _own_nodes(function):
        if isinstance(node, _BRANCHES):
            count += 1 + len(getattr(node, "ifs", ()))
        elif isinstance(node, ast.BoolOp):
            count += len(node.values) - 1
    return count


def percentile(values: list[int], fraction: float) -> int:
    """Picks the smallest value that at least `fraction` of the values do not exceed."""
    return sorted(values)[max(0, -int(-fraction * len(values) // 1) - 1)]


def hops(source: Path = SOURCE, start: str = "gems.step:gems_step") -> dict[str, tuple[int, str]]:
    """Maps each equation to its distance from `start` in calls, and to the function that shows it.

    An equation is missing where that function cannot be reached or does not name it.
    """
    trees = modules(source)
    nodes = {f"{module}:{node.name}": node for module, tree in trees.items() for node in _top_level(tree)}
    names = {module: _imported(tree) | _local(module, tree) for module, tree in trees.items()}
    distance, queue = {start: 0}, collections.deque([start])
    while queue:
        here = queue.popleft()
        for target in _references(nodes[here], names[here.split(":")[0]], set(trees)):
            if target in nodes and target not in distance:
                distance[target] = distance[here] + 1
                queue.append(target)
    return {
        label: (distance[home], home)
        for label, home in EQUATIONS.items()
        if home in distance and label in (ast.get_docstring(nodes[home]) or "")
    }


def _outermost(tree: ast.AST) -> Iterator[Function]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Function):
            yield node
        elif isinstance(node, ast.ClassDef | ast.If):
            yield from _outermost(node)


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function | ast.Lambda):
            continue
        yield child
        yield from _own_nodes(child)


def _top_level(tree: ast.Module) -> Iterator[Function]:
    return (node for node in tree.body if isinstance(node, Function))


def _imported(tree: ast.Module) -> dict[str, str]:
    """Maps local names to "module:name" for functions, or to "module" for modules of the package."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "gems_jax":
            base = ".".join(node.module.split(".")[1:])
            names |= {alias.asname or alias.name: f"{base}:{alias.name}" for alias in node.names}
    return names


def _local(module: str, tree: ast.Module) -> dict[str, str]:
    return {node.name: f"{module}:{node.name}" for node in _top_level(tree)}


def _references(function: Function, names: dict[str, str], known: set[str]) -> Iterator[str]:
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and node.id in names:
            yield names[node.id]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in names:
            module = names[node.value.id].replace(":", ".").lstrip(".")
            if module in known:
                yield f"{module}:{node.attr}"


def report(source: Path = SOURCE) -> str:
    """Describes the tree in a few lines of text."""
    measured = functions(source)
    duplicates = duplicate_names(source)
    paths = [one.complexity for one in measured]
    lines = [
        f"lines {count_lines(source)}, functions {len(measured)}",
        "files per folder: " + ", ".join(f"{name} {count}" for name, count in files_per_folder(source).items()),
        "loose modules: " + ", ".join(sorted(loose_modules(source))),
        f"complexity: 90th percentile {percentile(paths, 0.9)}, above 5: {sum(path > 5 for path in paths)}",
        *(f"  {one.lines} lines: {one.place}" for one in measured if one.lines > 80),
        *(f"  {one.parameters} parameters: {one.place}" for one in measured if one.parameters > 10),
        f"public names in more than one module: {len(duplicates)}",
        *(f"  {name}: {', '.join(found)}" for name, found in duplicates.items()),
        "hops from gems_step to each equation:",
        *(f"  {label}: {count}, {where}" for label, (count, where) in hops(source).items()),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    print(report(Path(sys.argv[1]) if len(sys.argv) > 1 else SOURCE))
