"""Docstrings are contracts, and prose uses the field's words. Modules are parsed, not imported."""

import ast
import collections
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import word_report

SOURCE = Path(__file__).parents[1] / "src" / "gems_jax"
Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = Function | ast.ClassDef
BAD_OPENING = re.compile(r"(?:Of|The same|What)\b|`")
SENTENCE = re.compile(r"\w\W+\w.*[.!?:](?:\s|$)", re.DOTALL)


def definitions(tree: ast.AST) -> Iterator[Documented]:
    """Yields every function and class of a module, nested ones and methods included."""
    return (node for node in ast.walk(tree) if isinstance(node, Documented))


def missing_sentences(tree: ast.Module) -> list[str]:
    """Lists the public functions and classes of a module that have no docstring with a sentence."""
    public = [node for node in tree.body if isinstance(node, Documented) and not node.name.startswith("_")]
    return [f"{node.lineno} {node.name}" for node in public if not SENTENCE.search(ast.get_docstring(node) or "")]


def bad_openings(tree: ast.Module) -> list[str]:
    """Lists the docstrings of a module, its functions and classes that do not stand alone in a tooltip."""
    texts = [("1 module", ast.get_docstring(tree) or "")] if isinstance(tree, ast.Module) else []
    texts += [(f"{node.lineno} {node.name}", ast.get_docstring(node) or "") for node in definitions(tree)]
    return [f"{where}: {text[:40]!r}" for where, text in texts if BAD_OPENING.match(text)]


def missing_sections(node: Documented) -> list[str]:
    """Lists the sections that the docstring of a public function or method lacks."""
    if isinstance(node, ast.ClassDef):
        methods = [one for one in node.body if isinstance(one, Function) and not one.name.startswith("_")]
        methods = [one for one in methods if not _is_property(one)]
        return [f"{node.name}.{missing}" for method in methods for missing in missing_sections(method)]
    text, arguments = ast.get_docstring(node) or "", node.args
    names = [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    names += [one.arg for one in (arguments.vararg, arguments.kwarg) if one]
    takes = [name for name in names if name not in ("self", "cls")]
    returns = node.returns is None or ast.unparse(node.returns) not in ("None", "NoReturn")
    needed = [("Args:", bool(takes)), ("Returns:", returns)]
    return [f"{node.name} lacks {section}" for section, wanted in needed if wanted and section not in text]


def _is_property(node: Function) -> bool:
    return any("property" in ast.unparse(decorator) for decorator in node.decorator_list)


@functools.cache
def exported(source: Path = SOURCE) -> dict[str, Documented | None]:
    """Maps the names of `gems_jax.__all__` to their definitions; None for constants and aliases."""
    tree = ast.parse((source / "__init__.py").read_text())
    values = {
        target.id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    homes, names = ast.literal_eval(values["_HOME"]), ast.literal_eval(values["__all__"])
    return {name: _find(homes[name], name, source) for name in names}


def _find(module: str, name: str, source: Path) -> Documented | None:
    """Finds a definition in a module of the package, or in the module that it is imported from."""
    parts = module.split(".")[1:]
    path = source.joinpath(*parts)
    tree = ast.parse((path / "__init__.py" if path.is_dir() else path.with_suffix(".py")).read_text())
    for node in tree.body:
        if isinstance(node, Documented) and node.name == name:
            return node
        if isinstance(node, ast.ImportFrom) and name in [alias.name for alias in node.names]:
            return _find(node.module or "", name, source)
    return None


@functools.cache
def violations(source: Path = SOURCE) -> dict[str, list[str]]:
    """Lists what the tests below object to, by folder of the package."""
    found = collections.defaultdict(list)
    for path in sorted(source.rglob("*.py")):
        name, tree = path.relative_to(source), ast.parse(path.read_text())
        folder = name.parts[0] if len(name.parts) > 1 else "."
        found[folder] += [f"{name}:{line} has no sentence" for line in missing_sentences(tree)]
        found[folder] += [f"{name}:{line}" for line in bad_openings(tree)]
    return {folder: lines for folder, lines in found.items() if lines}


FOLDERS = sorted({path.relative_to(SOURCE).parts[0] if path.parent != SOURCE else "." for path in SOURCE.rglob("*.py")})


@pytest.mark.parametrize("folder", FOLDERS)
def test_docstrings_stand_alone(folder: str) -> None:
    assert not violations().get(folder, [])


@pytest.mark.parametrize("name", exported())
def test_exported_names_have_contracts(name: str) -> None:
    node = exported()[name]
    if node is not None:
        assert SENTENCE.search(ast.get_docstring(node) or "")
        assert not missing_sections(node)


@pytest.mark.parametrize("folder", ["experiments", "benchmarks"])
def test_docstrings_of_other_folders_stand_alone(folder: str) -> None:
    paths = sorted((SOURCE.parents[1] / folder).rglob("*.py"))
    assert paths and not [f"{path}:{line}" for path in paths for line in bad_openings(ast.parse(path.read_text()))]


def test_exported_constants_are_explained() -> None:
    """Constants and aliases have no docstring: a comment is on their line or above it."""
    texts = [path.read_text() for path in SOURCE.rglob("*.py")]
    for name in (name for name, node in exported().items() if node is None):
        comment = re.compile(rf"^(?:#.*\n{name}\b.* = |{name}\b.* = .*  # )", re.MULTILINE)
        assert any(map(comment.search, texts)), name


def test_words_of_the_field() -> None:
    """At most a tenth of the words that a reader would have to translate at the commit that the report names."""
    counts = word_report.count_words(word_report.files_today())
    assert counts.total() <= word_report.BASELINE_TOTAL / 10, {word: count for word, count in counts.items() if count}


def test_the_baseline_is_what_the_report_counts() -> None:
    before = word_report.files_at(word_report.BASELINE_COMMIT)
    if before is None:
        pytest.skip("the commit is not available here")
    assert word_report.count_words(before).total() == word_report.BASELINE_TOTAL


def test_the_report_reads_prose_alone() -> None:
    program = '"""A share of the whole."""\nkept = told["kept"]  # is told, goes\n# on\n'
    program += 'shares = f"{kept} goes\\n on; there is no x"\n'
    counts = word_report.count_words({"src/a.py": program, "docs/b.md": "All lanes alike. It is no game.\n"})
    found = {word: count for word, count in counts.items() if count}
    assert found == {"share": 1, "told": 1, "goes on": 2, "lane": 1, "alike": 1, "is no": 1}
    assert not word_report.count_words({"src/gems_jax/rollout/a.py": "# one lane\n"}).total()
    assert "write instead" in word_report.report()


def test_the_reader_sees_every_form() -> None:
    assert bad_openings(ast.parse("'''`f` of x.'''")) == ["1 module: '`f` of x.'"]
    tree = ast.parse(
        "def f(x) -> int:\n    '''Adds one.'''\ndef g():\n    '''Noun'''\n    def h():\n        '''Of x.'''\n"
        "class C:\n    '''A thing.'''\n    @property\n    def p(self) -> int: ...\n    def m(self, a) -> None:\n"
        "        '''`a` of it.'''\ndef _private(): ...\n"
    )
    assert missing_sentences(tree) == ["3 g"]
    assert sorted(line.split(":")[0] for line in bad_openings(tree)) == ["11 m", "5 h"]
    assert missing_sections(tree.body[0]) == ["f lacks Args:", "f lacks Returns:"]
    assert missing_sections(tree.body[2]) == ["C.m lacks Args:"]
