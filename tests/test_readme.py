"""What the README tells a programmer to type does run."""

import io
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import jax
import numpy as np
import pytest

from cli import call
from experiments.samples import SAMPLES
from gems_jax import load

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"


SIZES = {
    "capacity": 4, "generator_widths": (8,), "critic_hidden": (8,), "num_opponents": 2, "mixture_samples": 4,
    "mutations": 2, "randoms": 2, "oracle_opponents": 2, "abr_steps": 2, "abr_anchors": 4, "kl_opponents": 1,
}  # fmt: skip


def fenced(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def blocks():
    return fenced("python")


@pytest.fixture(scope="module")
def commands():
    """Lines of the bash blocks, without comments."""
    lines = [line for block in fenced("bash") for line in block.splitlines()]
    return [line.partition("#")[0].strip() for line in lines]


@pytest.fixture(scope="module")
def ran(blocks):
    """The names that the first example leaves behind, run small and for 2 iterations instead of 40."""
    example = next(block for block in blocks if "gems_step" in block)
    assert "jax.random.key(1), 40)" in example and "GemsConfig()" in example
    names: dict = {}
    small = example.replace("40)", "2)").replace("GemsConfig()", f"GemsConfig(**{SIZES})")
    exec(compile(small, str(README), "exec"), names)
    return names


def test_the_first_example(ran):
    state, metrics = ran["state"], ran["metrics"]
    assert ran["game"].name == "kuhn_poker" and state.step == 2
    np.testing.assert_array_equal(metrics.num_active, [[2, 2], [3, 3]])
    np.testing.assert_allclose(state.sigma.sum(axis=1), 1.0, rtol=1e-5)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(metrics))
    # per population at least: one anchor x 2, 4 candidates x 2, 2 rounds of 4 anchors
    assert (metrics.episodes >= 2 * (2 + 4 * 2 + 2 * 4)).all()


def test_the_examples_that_build_on_it(blocks, ran):
    """They are traced, not run: names, shapes and axes are what could go wrong."""
    later = [block for block in blocks if "gems_step" in block or "make_solver" in block][1:]
    assert len(later) >= 2
    for block in later:
        if "exploitability" in block:
            exec(compile(block, str(README), "exec"), ran)
            assert 0.0 < ran["exploitability"](ran["game"], ran["solver"].profile(ran["state"])) < 1.0
        else:
            jax.eval_shape(lambda code=block: exec(compile(code, str(README), "exec"), dict(ran)))


def test_the_other_examples(blocks):
    others = [block for block in blocks if "gems_step" not in block and "make_solver" not in block]
    assert len(others) == 2
    names: dict = {}
    exec(compile(others[1], str(README), "exec"), names)
    assert names["game"].num_actions == 3 and names["game"].zero_sum


def test_training_in_one_call(blocks, tmp_path, monkeypatch, capsys):
    """With a method and a game that compile in a moment."""
    block, call = blocks[0], 'train("kuhn_poker", iterations=40'
    assert call in block
    monkeypatch.chdir(tmp_path)
    exec(compile(block.replace(call, 'train("biased_rps", "cfr_plus", iterations=2'), str(README), "exec"), {})
    assert capsys.readouterr().out.count(".") == 2 and load("runs/kuhn").iteration == 2


def test_the_page_of_the_library():
    """Its blocks build on one another. Training is cheap here, as above; the callback must stop it."""
    text = (ROOT / "docs" / "library.md").read_text()
    first, watched, *playing = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    first = first.replace('"kuhn_poker", "psro", iterations=20', '"biased_rps", "cfr_plus", iterations=2')
    names: dict = {}
    exec(compile(first.replace(", budget=25_750", ""), "library.md", "exec"), names)
    watched = watched.replace('train("kuhn_poker",', 'train("biased_rps", "cfr_plus", iterations=40,').replace(
        "0.01", "9"
    )
    exec(compile(watched, "library.md", "exec"), names)
    assert 1 <= names["run"].iteration <= 5
    for block in playing:
        exec(compile(block, "library.md", "exec"), names)
    assert names["returns"].shape == (1000, 2) and names["probabilities"].sum() == 1.0


def test_every_command_is_of_a_known_kind(commands):
    assert {command.split()[0] for command in commands} == {"pip", "make", "gems"}


def test_install_lines_name_extras_that_exist(commands):
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    lines = [command for command in commands if command.startswith("pip")]
    assert lines[0] == "pip install ."
    for line in lines[1:]:
        found = re.fullmatch(r'pip install "\.\[([\w,]+)\]"', line)
        assert found and set(found[1].split(",")) <= set(extras), line


@pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")
def test_make_commands_are_targets(commands):
    lines = [command.split() for command in commands if command.startswith("make")]
    assert ["make", "kuhn"] in lines and ["make", "test"] in lines
    for line in lines:
        done = subprocess.run([*line, "--dry-run"], cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == 0 and "python -m" in done.stdout, done


def test_gems_commands_run(commands, tmp_path, monkeypatch):
    """Training is among the samples of docs/command_line.md, which the slow set runs; the others run here."""
    monkeypatch.chdir(tmp_path)
    samples = [step.command for steps in SAMPLES.values() for step in steps]
    lines = [command for command in commands if command.startswith("gems")]
    assert "gems train kuhn_poker --quick" in lines
    for line in lines:
        if line.startswith("gems train"):
            assert line in samples
            continue
        monkeypatch.setattr("sys.stdin", io.StringIO("q\n"))
        done = call(*line.split()[1:])
        assert done.code == 0 and done.out, done


def test_the_first_screen_is_short():
    lines = README.read_text().splitlines()
    assert len(lines) <= 150
    for heading in ("## Install", "## Fifteen lines", "## Two commands"):
        assert heading in lines[:60]
    assert sum(len(block.splitlines()) for block in fenced("python")[:2]) <= 15
