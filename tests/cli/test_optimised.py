"""What users run: XLA with its optimisations, which the other tests switch off to compile quickly."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cli import TINY, Outcome, gems

OURS = ("--xla_backend_optimization_level", "--xla_llvm_disable_expensive_passes", "--xla_cpu_use_fusion_emitters")
STEP = """
import json, os, jax
from gems_jax import GemsConfig, gems_step, init_gems, make_game
sizes = dict(capacity=4, num_opponents=4, mixture_samples=8, mutations=2, randoms=2, oracle_opponents=2, abr_steps=2)
game, config = make_game("rock_paper_scissors"), GemsConfig(**sizes, generator_widths=(8,), critic_hidden=(8,))
step = jax.jit(lambda state, key: gems_step(state, key, game, config))
state = init_gems(jax.random.key(0), game, config)
for number in range(2):
    state, metrics = step(state, jax.random.key(number + 1))
sigma = state.sigma.tolist()
print(json.dumps({"flags": os.environ.get("XLA_FLAGS", ""), "sigma": sigma, "active": state.active.sum().item()}))
"""


def environment() -> dict[str, str]:
    flags = [flag for flag in os.environ.get("XLA_FLAGS", "").split() if flag.split("=")[0] not in OURS]
    return {**os.environ, "XLA_FLAGS": " ".join(flags)}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    folder = tmp_path_factory.mktemp("optimised") / "run"
    words = ["train", "biased_rps", "--quick", "--iterations", 2, "--run-dir", folder, "--no-figures", *TINY]
    return folder, gems(*words, env=environment())


def test_train(run: tuple[Path, Outcome]) -> None:
    folder, done = run
    assert done.code == 0 and done.err == "", done.err
    assert "exploitability" in done.out and f"done: 2 iterations in {folder}" in done.out


def test_eval(run: tuple[Path, Outcome]) -> None:
    """The exact evaluation of the checkpoint is what the run has logged."""
    folder, _ = run
    done = gems("eval", folder, env=environment())
    found = re.search(r"exploitability ([\d.]+)", done.out)
    assert done.code == 0 and found, done.err
    header, *rows = [line.split(",") for line in (folder / "metrics.csv").read_text().splitlines()]
    assert float(found[1]) == pytest.approx(float(rows[-1][header.index("exploitability")]), abs=2e-6)


@pytest.mark.slow
def test_a_jitted_step() -> None:
    """The step of the library; the run above compiles the same step in a scan."""
    done = subprocess.run([sys.executable, "-c", STEP], capture_output=True, text=True, timeout=600, env=environment())
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert not any(flag in found["flags"] for flag in OURS)
    assert all(sum(row) == pytest.approx(1.0, abs=1e-5) for row in found["sigma"]) and found["active"] >= 3
