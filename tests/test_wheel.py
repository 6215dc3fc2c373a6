"""The wheel holds the package alone, and its commands work where nothing else of the repository is."""

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    line = [sys.executable, "-m", "pip", "wheel", str(ROOT), "--no-deps", "--quiet", "--wheel-dir", str(folder)]
    if importlib.util.find_spec("hatchling"):
        line.append("--no-build-isolation")  # nothing is downloaded
    once = {**os.environ, "PIP_RETRIES": "0"}  # without a network, pip would try for minutes
    done = subprocess.run(line, capture_output=True, text=True, timeout=900, stdin=subprocess.DEVNULL, env=once)
    if done.returncode and ("hatchling" in done.stderr or "No module named pip" in done.stderr):
        pytest.skip("the build backend, hatchling, cannot be installed from here")
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("gems_jax-*.whl")
    return found


def test_the_wheel_holds_the_package_alone(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        sources = {name: archive.read(name).decode() for name in names if name.endswith(".py")}
    assert {name.split("/")[0].split("-")[0] for name in names} == {"gems_jax"}
    assert "gems_jax/runner/driver.py" in sources and "gems_jax/checkpoints/" in " ".join(names)
    assets = sorted((ROOT / "src" / "gems_jax" / "web" / "assets").rglob("*.*"))
    assert assets and {str(path.relative_to(ROOT / "src")) for path in assets} <= set(names)  # of the pages
    for name, text in sources.items():
        lines = [line.strip() for line in text.splitlines()]
        assert not [line for line in lines if line.startswith(("from experiments", "import experiments"))], name
        assert not [line for line in lines if line.startswith(("from benchmarks", "import benchmarks"))], name


def test_commands_of_the_installed_wheel_in_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    target, empty = tmp_path / "installed", tmp_path / "empty"
    empty.mkdir()
    with zipfile.ZipFile(wheel) as archive:  # a wheel of pure Python is installed by unpacking it
        archive.extractall(target)
    environment = {**os.environ, "PYTHONPATH": str(target)}
    where = "import gems_jax; print(gems_jax.__file__)"

    def say(*words: str) -> str:
        done = subprocess.run(
            [sys.executable, *words], cwd=empty, env=environment, capture_output=True, text=True, timeout=900
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert str(target) in say("-c", where)
    assert "gems train GAME" in say("-m", "gems_jax", "--help")
    assert "kuhn_poker" in say("-m", "gems_jax", "games")
    assert not list(empty.iterdir())


@pytest.mark.slow
def test_the_packages_work_in_an_environment_of_their_own(tmp_path: Path) -> None:
    for package in ("build", "hatchling", "pip"):
        pytest.importorskip(package)
    line = [sys.executable, str(ROOT / ".ci" / "smoke"), "--reuse", "--into", str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=1800, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "gems play kuhn" in done.stdout and done.stdout.splitlines()[-1].startswith("OK")
    assert len(list(tmp_path.glob("gems_jax-*.tar.gz"))) == len(list(tmp_path.glob("gems_jax-*.whl"))) == 1
