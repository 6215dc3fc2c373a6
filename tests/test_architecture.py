"""Imports point one way, importing the package is quick, nothing pickles."""

import ast
import functools
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import gems_jax
from tests import tree_report

SOURCE = Path(gems_jax.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))

# What each part may import, by its top-level name inside gems_jax. A part may import itself.
TYPES = {"types", "config"}
LEAVES = {*TYPES, "accelerator", "host", "meta"}
PLAYING = {*LEAVES, "policies", "rollout"}
LEARNING = {*PLAYING, "extensive", "estimation", "learning"}
METHODS = {*LEARNING, "opponents", "evaluate", "games"}
SOLVERS = {*METHODS, "gems", "psro", "presets", "solvers"}
RUNNING = {*SOLVERS, "runner"}
ALLOWED = {
    "__init__": set(),  # lazily only; its TYPE_CHECKING block is exempt
    "__main__": {"cli"},
    "types": set(),
    "config": {"types"},
    "accelerator": {"types"},
    "host": {"types"},
    "meta": {"types"},
    "games": {"types", "accelerator", "host"},
    "testing": {"types", "host"},
    "policies": {"types", "accelerator"},
    "rollout": {*LEAVES, "policies"},
    "extensive": {*LEAVES, "policies"},
    "estimation": {*PLAYING, "extensive"},
    "learning": {*PLAYING, "extensive", "estimation"},
    "opponents": {"types", "policies", "games"},
    "gems": LEARNING,
    "evaluate": {*LEARNING, "opponents"},
    "psro": {*LEARNING, "evaluate"},
    "presets": {"types", "config", "gems"},
    "solvers": METHODS | {"gems", "psro", "presets"},
    "profiling": RUNNING,
    "runner": SOLVERS,
    "viz": RUNNING,
    "web": RUNNING | {"viz"},
    "sweep": RUNNING | {"viz", "profiling"},
    "cli": RUNNING | {"viz", "web", "profiling", "sweep", "testing"},
}
LOOSE = {"__init__", "__main__", "types", "config", "presets", "solvers"}
MAX_FILES = 20  # in any folder
WITHOUT_JAX = ("base", "bench", "openspiel", "own", "pettingzoo", "pool", "worker")  # modules of host/


def part_of(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


@functools.cache
def imported_modules(path: Path) -> list[str]:
    """Every module named by an import anywhere in the file, inside functions too, but not under TYPE_CHECKING."""
    tree = ast.parse(path.read_text())
    package = ("gems_jax", *path.relative_to(SOURCE).parent.parts)
    type_only = {
        id(child)
        for node in ast.walk(tree)
        if path.name == "__init__.py" and isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for child in ast.walk(node)
    }
    found = []
    for node in ast.walk(tree):
        if id(node) in type_only:
            continue
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            source = ".".join(filter(None, [base, node.module or ""]))
            # `from package import name` may name a module: both readings are recorded
            found += [source, *(f"{source}.{alias.name}" for alias in node.names)]
    return found


def own_imports(path: Path) -> set[tuple[str, ...]]:
    """Imports of gems_jax itself as tuples below the package: ("meta", "omwu"), ("types",)."""
    parts = {tuple(name.split(".")[1:]) for name in imported_modules(path) if name.split(".")[0] == "gems_jax"}
    return {p for p in parts if p and ((SOURCE / p[0]).is_dir() or (SOURCE / f"{p[0]}.py").exists())}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    part = part_of(path)
    assert part in ALLOWED, f"{part} is a new part: say in ALLOWED what it may import"
    forbidden = {p[0] for p in own_imports(path)} - ALLOWED[part] - {part}
    assert not forbidden, f"{path.relative_to(SOURCE)} must not import {sorted(forbidden)}"


def test_the_tree_is_flat_and_its_folders_are_small() -> None:
    assert tree_report.loose_modules(SOURCE) == LOOSE
    assert not {folder: count for folder, count in tree_report.files_per_folder(SOURCE).items() if count > MAX_FILES}
    for path in MODULES:
        assert (path.parent / "__init__.py").exists()


def test_a_public_name_has_one_home() -> None:
    assert not tree_report.duplicate_names(SOURCE)


def test_every_equation_is_near_the_step() -> None:
    """One function shows each equation whole and names its label, at most four calls from `gems_step`."""
    hops = tree_report.hops(SOURCE)
    assert set(hops) == set(tree_report.EQUATIONS)
    assert max(count for count, _ in hops.values()) <= 4


def test_functions_are_short_and_plain() -> None:
    measured = tree_report.functions(SOURCE)
    assert not [one for one in measured if one.lines > 80 or one.parameters > 10]
    assert tree_report.percentile([one.complexity for one in measured], 0.9) <= 5


def test_the_report_sees_what_it_counts(tmp_path: Path) -> None:
    """Complexity, parameters, duplicate names and loose modules of a package that is written here."""
    (tmp_path / "gems").mkdir()
    step = "def gems_step(a, b, *, c):\n    if a and b:\n        return far(a)\n\n\ndef far(x):\n    return x\n"
    (tmp_path / "gems" / "step.py").write_text(step)
    (tmp_path / "other.py").write_text("def far():\n    return [x for x in () if x]\n")
    assert tree_report.duplicate_names(tmp_path) == {"far": ["gems.step", "other"]}
    first, _, other = tree_report.functions(tmp_path)
    assert (first.parameters, first.complexity, first.lines, other.complexity) == (3, 3, 3, 3)
    assert "public names in more than one module: 1" in tree_report.report(tmp_path)
    assert tree_report.loose_modules(tmp_path) == {"other"}


@pytest.mark.parametrize(
    ("library", "home"),
    [("pickle", None), ("cloudpickle", None), ("dill", None), ("joblib", None), ("distrax", "distributions.py")],
)
def test_library_is_imported_in_one_place_or_nowhere(library: str, home: str | None) -> None:
    users = {path.name for path in MODULES if library in {name.split(".")[0] for name in imported_modules(path)}}
    assert users <= ({home} if home else set()), f"{library} is imported by {sorted(users)}"


@pytest.mark.parametrize("name", ["__init__", *WITHOUT_JAX])
def test_workers_start_without_jax(name: str) -> None:
    imported = imported_modules(SOURCE / "host" / f"{name}.py")
    assert not {"jax", "jaxlib", "flax"} & {module.split(".")[0] for module in imported}
    own = {module.split(".")[2] for module in imported if module.startswith("gems_jax.host.")}
    assert own <= set(WITHOUT_JAX)


def test_arrays_are_never_saved_with_pickle() -> None:
    for path in MODULES:
        assert "allow_pickle=True" not in path.read_text(), path


def test_the_import_reader_sees_every_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above are only as good as this reader: all spellings of an import are found."""
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    folder = tmp_path / "meta"
    folder.mkdir()
    for name in ("gems.py", "types.py", "rollout.py", "nets.py"):
        (tmp_path / name).touch()
    path = folder / "omwu.py"
    path.write_text(
        "import gems_jax.types\nfrom gems_jax import nets\nfrom .. import rollout\nfrom ..gems import x\n"
        "from .matrix import y\ndef f():\n    import pickle\n"
    )
    assert own_imports(path) >= {("types",), ("nets",), ("rollout",), ("gems",), ("meta", "matrix")}
    assert "pickle" in imported_modules(path)


IMPORT_SCRIPT = """
import sys, time
start = time.process_time()
import gems_jax
seconds = time.process_time() - start
gems_jax.Solver, gems_jax.Game
heavy = ("pgx", "jaxmarl", "distrax", "matplotlib", "orbax")
print(seconds, *[name for name in heavy if name in sys.modules])
"""


def test_import_is_quick_and_light() -> None:
    """Under two seconds of the processor in the best of three: the first may find no bytecode, or a busy machine."""
    seconds = []
    while len(seconds) < 3 and min(seconds, default=9.0) >= 2.0:
        result = subprocess.run([sys.executable, "-c", IMPORT_SCRIPT], capture_output=True, text=True, check=True)
        took, *loaded = result.stdout.split()
        assert not loaded, f"import gems_jax pulls in {loaded}"
        seconds.append(float(took))
    assert min(seconds) < 2.0


def test_public_names() -> None:
    assert len(set(gems_jax.__all__)) == len(gems_jax.__all__)
    assert set(gems_jax.__all__) == set(gems_jax._HOME)
    assert set(gems_jax.__all__) <= set(dir(gems_jax))
    with pytest.raises(AttributeError, match="no attribute 'make_gaem'.*Solver"):
        _ = gems_jax.make_gaem


@pytest.mark.parametrize("name", gems_jax.__all__)
def test_public_name_can_be_imported(name: str) -> None:
    namespace: dict[str, object] = {}
    exec(f"from gems_jax import {name}", namespace)
    assert namespace[name] is getattr(importlib.import_module(gems_jax._HOME[name]), name)


def test_type_checkers_see_the_same_names() -> None:
    """The TYPE_CHECKING block, the table and __all__ say the same."""
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {
        alias.asname or alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert typed == gems_jax._HOME


def test_version_is_the_distribution_s() -> None:
    metadata = importlib.import_module("importlib.metadata")
    assert gems_jax.__version__ == metadata.version("gems_jax")
