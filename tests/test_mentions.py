"""Every module, command, flag, make target and file that a message or a document mentions exists.

Read are all strings of the package, the experiments and the benchmarks (docstrings and the fixed parts of f-strings
included), README.md and docs/. A name that does not resolve sends the reader nowhere.
"""

import ast
import functools
import importlib
import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from gems_jax.cli import COMMANDS
from gems_jax.cli.parsing import flags_of
from gems_jax.presets import PRESETS
from gems_jax.solvers import DEFAULTS

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "gems_jax"
GAP = "\x00"  # what an f-string fills in
PROGRAMS = [path for part in ("src", "experiments", "benchmarks") for path in sorted((ROOT / part).rglob("*.py"))]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Flags of other programs: git's in machine.py and timing.py, XLA's, and the two that every command has.
HELP = {"--help", "--help-all"}
FOREIGN = {"--abbrev", "--always", "--dirty", "--error-unmatch", "--porcelain", "--xla", "--version", "--no-", *HELP}
FOREIGN |= {"--tyro-print-completion", "--rm", "--gpus", "--build-arg"}  # of tyro and docker
FOREIGN |= {"--record-suite", "--dist", "--no-loadscope-reorder"}  # of the tests and pytest-xdist
# "gems" is a method, too: words that follow it in sentences and labels.
NOT_COMMANDS = {"at", "measures", *(name for presets in PRESETS.values() for name in presets)}
FILES = re.compile(r"(?<![\w/.<*])((?:[a-z_]+/)+[\w.-]+\.(?:py|md|toml|lock))\b")
MADE = ("runs/",)  # folders that commands make


def texts_of(path: Path) -> Iterator[tuple[str, str]]:
    """(place, text) of every string of a program, or of a whole page."""
    if path.suffix == ".md":
        yield path.name, path.read_text()
        return
    tree = ast.parse(path.read_text())
    inside = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    inside -= {id(node) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)}
    for node in ast.walk(tree):
        if id(node) in inside:
            continue
        place = f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}"
        if isinstance(node, ast.JoinedStr):
            yield place, "".join(part.value if isinstance(part, ast.Constant) else GAP for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield place, node.value


@functools.cache
def texts() -> tuple[tuple[str, str], ...]:
    return tuple(found for path in (*PROGRAMS, *PAGES) for found in texts_of(path) if path.name != "style.py")


def resolves(name: str) -> bool:
    """Whether a dotted name is a module, or an attribute of one."""
    parts = name.split(".")
    for count in range(len(parts), 0, -1):
        module = ".".join(parts[:count])
        try:
            found = importlib.util.find_spec(module)
        except (ModuleNotFoundError, ValueError):
            found = None
        if found is None:
            continue
        value = importlib.import_module(module)
        for part in parts[count:]:
            if not hasattr(value, part):
                return False
            value = getattr(value, part)
        return True
    return False


@functools.cache
def command_flags(command: str) -> frozenset[str]:
    """The flags of `gems command`; of train those of every method."""
    module = importlib.import_module(f"gems_jax.cli.commands.{COMMANDS[command].module}")
    own = [kind for kind in vars(module).values() if isinstance(kind, type) and kind.__module__ == module.__name__]
    kind = own[0]
    settings = [type(default) for default in DEFAULTS.values() if default is not None] if command == "train" else []
    return frozenset().union(flags_of(kind), *(flags_of(setting) for setting in settings))


@functools.cache
def program_flags(path: Path) -> frozenset[str]:
    """The flags that a program of the experiments or benchmarks parses itself."""
    if path.name == "sweep.py":  # hands its line to `gems sweep`
        return command_flags("sweep")
    calls = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
    named = [
        a.value for c in calls if "add_argument" in ast.unparse(c.func) for a in c.args if isinstance(a, ast.Constant)
    ]
    return frozenset(name for name in named if str(name).startswith("--"))


@functools.cache
def targets() -> frozenset[str]:
    """The targets of the Makefile, those by variables included."""
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    names = re.findall(r"^([a-z][\w-]*):", text, re.MULTILINE)
    for line in re.findall(r"^(?:PAPER|EXPERIMENTS) := (.*)$", text, re.MULTILINE):
        names += [word for word in line.split() if "$" not in word]
    return frozenset(names)


def test_modules_and_their_attributes() -> None:
    mentioned = {
        (name, place) for place, text in texts() for name in re.findall(r"\bgems_jax(?:\.[A-Za-z_]\w*)+", text)
    }
    assert len({name for name, _ in mentioned}) > 20
    assert not [(name, place) for name, place in sorted(mentioned) if not resolves(name)]


def test_programs_to_start() -> None:
    found = {
        (n, place)
        for place, text in texts()
        for n in re.findall(r"python -m ((?:gems_jax|experiments|benchmarks)[\w.]*\w)", text)
    }
    assert len(found) > 10
    assert not [(name, place) for name, place in sorted(found) if importlib.util.find_spec(name) is None]


def test_commands() -> None:
    found = {(name, place) for place, text in texts() for name in re.findall(r"\bgems ([a-z][a-z_]*)", text)}
    assert set(COMMANDS) <= {name for name, _ in found}
    assert not [(name, place) for name, place in sorted(found) if name not in {*COMMANDS, *NOT_COMMANDS}]


def test_flags_of_commands() -> None:
    """`gems train GAME --method psro`: every flag up to the end of the line or of the code belongs to the command."""
    checked = 0
    for place, text in texts():
        for command, rest in re.findall(r"\bgems ([a-z]+)\b([^`\n;.]*)", text):
            for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]*", rest) if command in COMMANDS else ():
                checked += 1
                assert flag in command_flags(command) | HELP, f"{place}: gems {command} has no {flag}"
    assert checked > 20


def test_flags_of_programs() -> None:
    """`python -m benchmarks.growth --anchors 64`: the program's own flags."""
    checked = 0
    for place, text in texts():
        for name, rest in re.findall(r"python -m ((?:experiments|benchmarks)\.\w+)([^`\n;.]*)", text):
            spec = importlib.util.find_spec(name)
            if spec and spec.submodule_search_locations:  # a package is run by its __main__
                spec = importlib.util.find_spec(f"{name}.__main__")
            for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]*", rest) if spec and spec.origin else ():
                checked += 1
                assert flag in program_flags(Path(spec.origin)), f"{place}: {name} has no {flag}"
    assert checked > 10


def test_flags_anywhere() -> None:
    """A flag that stands alone belongs to some command, or to some program of the experiments and benchmarks."""
    known = FOREIGN.union(*map(command_flags, COMMANDS))
    others = frozenset().union(*(program_flags(path) for path in PROGRAMS if SOURCE not in path.parents))
    for place, text in texts():
        own = place.startswith("src") and "/run/report/" not in place and "python -m" not in text
        allowed = known if own else known | others
        for flag in re.findall(r"(?<![\w-])--[a-z][a-z-]*", text):
            assert flag in allowed, f"{place}: there is no flag {flag}"


def test_make_targets() -> None:
    code = [(place, part) for place, text in texts() for part in re.findall(r"`+([^`]*)`+", text)]
    code += [(place, text) for place, text in texts() if text.startswith("make ")]
    found = {(name, place) for place, text in code for name in re.findall(r"\bmake ([a-z][\w-]*)", text)}
    assert {"kuhn", "report", "bench", "verify-results"} <= {name for name, _ in found}
    assert not [(name, place) for name, place in sorted(found) if name not in targets()]


@pytest.mark.parametrize("path", [*PAGES, None], ids=lambda path: path.name if path else "programs")
def test_files(path: Path | None) -> None:
    found = texts_of(path) if path else (each for each in texts() if ".py:" in each[0])
    for place, text in found:
        for name in FILES.findall(text):
            somewhere = [base / name for base in (ROOT, SOURCE, SOURCE / "run", ROOT / "docs")]
            assert name.startswith(MADE) or any(one.exists() for one in somewhere), f"{place}: there is no file {name}"
    if path:  # links of a page, pictures included
        for link in re.findall(r"\]\(([^)#:]+)\)", path.read_text()):
            assert (path.parent / link).exists(), f"{path.name} links to {link}"


def test_the_reader_sees_every_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests above are only as good as this reader."""
    assert not resolves("gems_jax.evaluate.approximate") and resolves("gems_jax.runner.driver.run")
    assert "--trust" in command_flags("eval") and "--exploiter" not in command_flags("train")
    assert {"kuhn", "two-thousand", "lock", "connect4"} <= targets() and "sandwich" not in targets()
    monkeypatch.setitem(globals(), "ROOT", tmp_path)
    path = tmp_path / "some.py"
    path.write_text(
        '"""gems_jax.a"""\nRULE = ("gems_jax.b "\n  "gems eval")\nraise ValueError(f"{RULE}: see gems_jax.c.{RULE}")\n'
    )
    assert [text for _, text in texts_of(path)] == [
        "gems_jax.a",
        "gems_jax.b gems eval",
        f"{GAP}: see gems_jax.c.{GAP}",
    ]
