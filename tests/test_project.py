"""The project's own files agree: workflows call make targets that exist, and every place names one version."""

import json
import re
import subprocess
import sys
import tomllib
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
MAKE = re.compile(r"\bmake ((?:(?![#|;&`\n])[^\s]+[ \t]*)+)")


def targets_of_makefile() -> set[str]:
    """Targets that `make` knows; variables of lists of targets are expanded."""
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    lists = {name: value for name, value in re.findall(r"^(\w+) := (.*)$", text, re.MULTILINE)}
    experiments = lists["EXPERIMENTS"].replace("$(PAPER)", lists["PAPER"]).split()
    return {name for line in re.findall(r"^([a-z][\w -]*):", text, re.MULTILINE) for name in line.split()} | {
        *experiments
    }


def targets_called(text: str) -> set[str]:
    """Targets of every `make ...` of a text: words that are neither options nor variables."""
    calls = [re.sub(r'(\w+=)"[^"]*"', r"\1", call) for call in MAKE.findall(text)]
    return {word for call in calls for word in call.split() if re.fullmatch(r"[a-z][a-z0-9-]*", word)}


def commands_of(workflow: dict[str, Any]) -> list[str]:
    return [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_calls_make_targets_that_exist(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text())
    assert workflow["permissions"] == {"contents": "read"} and True in workflow  # `on` is true in YAML 1.1
    commands = commands_of(workflow)
    assert all(command.startswith("make ") for command in commands), commands
    called = targets_called("\n".join(commands))
    assert called and called <= targets_of_makefile()
    for job in workflow["jobs"].values():
        assert job["runs-on"] and 0 < job["timeout-minutes"] <= 360
        for step in job["steps"]:
            assert ("run" in step) != ("uses" in step)
            assert "@" in step.get("uses", "@")


def test_workflows_cover_lint_tests_docs_slow_tests_and_packages() -> None:
    workflows = {path.stem: yaml.safe_load(path.read_text()) for path in WORKFLOWS}
    called = {name: targets_called("\n".join(commands_of(each))) for name, each in workflows.items()}
    assert {"lint", "test", "smoke", "docs"} <= called["ci"]
    assert {"test-slow", "test-matrix", "verify-results"} <= called["nightly"]
    assert {"dist", "smoke", "sbom", "check-version", "lint-docker"} <= called["publish"]
    pythons = workflows["ci"]["jobs"]["test"]["strategy"]["matrix"]["python"]
    named = [c.rsplit(" ", 1)[1] for c in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", c)]
    assert pythons == named == ["3.11", "3.12", "3.13"]
    publish = workflows["publish"]["jobs"]["publish"]
    assert publish["permissions"] == {"id-token": "write"} and publish["environment"] == "pypi"
    assert "attestations: true" in (ROOT / ".github" / "workflows" / "publish.yml").read_text()


@pytest.mark.parametrize("name", [".ci/run", "CONTRIBUTING.md", ".github/PULL_REQUEST_TEMPLATE.md", "README.md"])
def test_make_targets_that_other_files_name_exist(name: str) -> None:
    text = (ROOT / name).read_text()
    found = set(re.findall(r"`make ([a-z-]+)", text)) | set(re.findall(r"^make ([a-z-]+)", text, re.MULTILINE))
    assert found <= targets_of_makefile()
    assert name != ".ci/run" or found == {"lint", "test", "smoke"}


def test_one_version_everywhere() -> None:
    script = [sys.executable, str(ROOT / ".ci" / "version")]
    assert subprocess.run([*script, f"v{PROJECT['version']}"], capture_output=True, text=True).returncode == 0
    other = subprocess.run([*script, "v9.9.9"], capture_output=True, text=True)
    assert other.returncode == 1 and "9.9.9 in tag v9.9.9" in other.stdout


def test_metadata_is_complete() -> None:
    assert PROJECT["readme"] == "README.md" and PROJECT["authors"] and PROJECT["urls"] and PROJECT["license"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["cff-version"] == "1.2.0" and citation["license"] == PROJECT["license"]
    assert citation["preferred-citation"]["url"] in PROJECT["urls"].values()
    readme = (ROOT / "docs" / "install.md").read_text()
    for extra in PROJECT["optional-dependencies"]:
        assert f"`{extra}`" in readme, f"docs/install.md does not explain the extra {extra}"


def load_script(name: str) -> ModuleType:
    """A script of .ci/ as a module; none is a file that ends in .py."""
    loader = SourceFileLoader(f"ci_{name}", str(ROOT / ".ci" / name))
    module = module_from_spec(spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


def test_the_matrix_finds_interpreters_and_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = load_script("matrix")
    versions = {"a": "3.11.9", "b": "3.11.10", "c": "3.12.1", "d": "3.14.0", "e": ""}
    monkeypatch.setattr(matrix, "candidates", lambda: list(versions))
    monkeypatch.setattr(matrix, "version_of", versions.get)
    assert matrix.find_interpreters() == {"3.11": "b", "3.12": "c"}
    low, high = re.fullmatch(r"jax>=([\d.]+),<([\d.]+)", PROJECT["dependencies"][0]).groups()
    offered = ["0.9.2", f"{low}.1", f"{low}.0", "0.11.10", "0.11.9", "0.12.0rc1", high, f"{high}.1"]
    assert matrix.allowed_jax(offered) == [f"{low}.0", f"{low}.1", "0.11.9", "0.11.10"]
    assert all((ROOT / path.partition("::")[0]).is_file() for path in matrix.SELECTION)


def test_the_page_of_installation_has_the_table_of_the_matrix() -> None:
    matrix = load_script("matrix")
    record = json.loads(matrix.RECORD.read_text())
    shown = (ROOT / "docs" / "install.md").read_text()
    assert matrix.format_table(record) == shown.partition(matrix.MARKS[0])[2].partition(matrix.MARKS[1])[0]
    assert all(entry["passed"] for entry in record["environments"])


def test_the_size_of_an_installation(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    size = load_script("install_size")
    needs = {"gems_jax": ["a>=1", "b"], "gems-jax": ["a>=1", "b"], "a": ["c"], "b": ["c", "d; extra == 'x'", "e"]}
    sizes = {"gems-jax": 1e6, "a": 2e6, "b": 4e6, "c": 8e6, "d": 16e6, "e": 32e6}
    monkeypatch.setattr(size.metadata, "requires", needs.get)
    monkeypatch.setattr(size, "size_of", lambda name: int(sizes[name]))
    monkeypatch.setattr(sys, "argv", ["install_size", "b"])
    size.main()
    printed = json.loads(capsys.readouterr().out)
    assert (printed["installed"], printed["packages"]) == (47.0, 5)
    assert printed["added"] == {"by": "b", "megabytes": 36.0, "packages": {"b": 4.0, "e": 32.0}}


def test_pages_of_results_name_their_hardware() -> None:
    pages = sorted((ROOT / "docs" / "results").glob("*.md"))
    without = {page.stem for page in pages if "- Hardware: " not in page.read_text()}
    assert len(pages) > 20 and without <= {"claims"}, without  # claims link the pages that their numbers are from
    assert all(" CPUs (" in (ROOT / "docs" / name).read_text() for name in ("speed.md", "accelerators.md"))


def test_configuration_files_are_valid() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]
    assert [hook["id"] for hook in hooks] == ["ruff-check", "ruff-format", "mypy"]
    for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text())
        assert path.name == "config.yml" or all(part["attributes"]["label"] for part in form["body"])
