"""Runs that several tests look at, made once."""

from pathlib import Path

import pytest

from cli import SMALL, TINY, Outcome, gems, untrained_run
from gems_jax.run.directory import RunDirectory


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Outcome]:
    """Kuhn poker, two seeds, two iterations, trained by the real console script: its folder and what was said."""
    folder = tmp_path_factory.mktemp("trained") / "kuhn"
    words = ["train", "kuhn_poker", "--quick", "--preset", "paper", "--iterations", 2, "--seeds", 2, "--chunk", 1]
    return folder, gems(*words, "--checkpoint-seconds", 0, "--run-dir", folder, *TINY)


@pytest.fixture(scope="session")
def kuhn_run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return untrained_run(tmp_path_factory.mktemp("untrained") / "kuhn", "kuhn_poker", SMALL, seeds=(3, 4))


@pytest.fixture(scope="session")
def matrix_run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    return untrained_run(tmp_path_factory.mktemp("untrained") / "rps", "biased_rps", SMALL, a=2.0)


@pytest.fixture(scope="session")
def board_run(tmp_path_factory: pytest.TempPathFactory) -> RunDirectory:
    config = SMALL.replace(policy="mlp", policy_hidden=(8,))
    return untrained_run(tmp_path_factory.mktemp("untrained") / "board", "pgx:tic_tac_toe", config)
