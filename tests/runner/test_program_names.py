"""Runs from stored programs: equal rows and states, no tracing, and names that change with whatever matters."""

import dataclasses
import re
from pathlib import Path

import jax
import numpy as np
import pytest

import gems_jax
from gems_jax import GemsConfig, make_game
from gems_jax.accelerator import cpu, program_files
from gems_jax.cli.main import invoke
from gems_jax.games import matrix_game
from gems_jax.runner import engine as engines
from gems_jax.runner import measuring
from gems_jax.runner.options import RunOptions
from gems_jax.runner.rebuild import Problem
from gems_jax.runner.training import program_names
from gems_jax.runner.training.program_names import program_name
from gems_jax.runner.training.train import build_problem
from gems_jax.solvers import DEFAULTS

GAME, OPTIONS = "biased_rps", RunOptions()
TINY = {
    "capacity": 3, "initial_anchors": 2, "generator_widths": (8,), "critic_hidden": (4,), "num_opponents": 2,
    "mixture_samples": 2, "mutations": 2, "randoms": 2, "oracle_opponents": 2, "abr_steps": 2, "abr_anchors": 2,
    "kl_opponents": 1,
}  # fmt: skip


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(program_files.VARIABLE, "on")
    return tmp_path / "gems_jax" / "programs"


def refuse(*_: object, **__: object) -> None:
    raise AssertionError("a second start must neither trace nor enumerate")


def assert_equal(one: gems_jax.Run, other: gems_jax.Run) -> None:
    own = {"seconds", "memory_mb"}  # of the process; a file holds as many digits as tell float32 apart
    assert set(one.metrics) == set(other.metrics)
    for name in set(one.metrics) - own:
        values = np.asarray(other.metrics[name], one.metrics[name].dtype)
        np.testing.assert_array_equal(one.metrics[name], values, err_msg=name)
    carries = [
        {"state": run.result.state, "monitor": run.result.monitor, "best": run.result.best} for run in (one, other)
    ]
    assert jax.tree.structure(carries[0]) == jax.tree.structure(carries[1])
    for left, right in zip(*map(jax.tree.leaves, carries), strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize(
    ("method", "config"),
    [
        # tests/accelerator/test_lowering.py stores and loads a step of GEMS.
        pytest.param("gems", GemsConfig().replace(**TINY, iterations=3), marks=pytest.mark.slow),
        ("cfr_plus", dataclasses.replace(DEFAULTS["cfr_plus"])),
    ],
)
def test_a_second_start_does_not_trace_and_gives_equal_bits(
    method: str, config: object, store: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def train(**options: object) -> gems_jax.Run:
        return gems_jax.train(GAME, method, config=config, iterations=3, seeds=2, chunk=2, **options)

    plain = train(stored_programs=False)
    assert not store.exists()
    first = train()
    assert sorted(re.sub("[0-9a-f]{40}", "NAME", path.name) for path in store.iterdir()) == [
        "NAME-advance.program",
        "NAME-start.program",
    ]
    monkeypatch.setattr(engines, "_iterate", refuse)
    monkeypatch.setattr(program_names, "make_monitor", refuse)
    again = train(run_dir=tmp_path / "run")
    assert_equal(plain, first)
    assert_equal(plain, again)


def test_a_run_is_resumed_without_tracing(store: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    line = ["train", GAME, "--method", "cfr_plus", "--no-figures", "--checkpoint-seconds", "0", "--chunk", "2"]
    assert invoke([*line, "--iterations", "4", "--run-dir", str(tmp_path / "whole")]) == 0
    assert invoke([*line, "--iterations", "2", "--run-dir", str(tmp_path / "run")]) == 0
    monkeypatch.setattr(engines, "_iterate", refuse)
    assert invoke(["resume", str(tmp_path / "run"), "--iterations", "4", "--no-figures"]) == 0
    log = (tmp_path / "run" / "log.txt").read_text()
    assert (
        "resumed from iteration 2" in log and "iteration: loading the stored program" not in log.split("ready after")[0]
    )
    rows = [np.genfromtxt(tmp_path / name / "metrics.csv", delimiter=",", names=True) for name in ("run", "whole")]
    for column in set(rows[0].dtype.names) - {"seconds", "memory_mb"}:
        np.testing.assert_array_equal(rows[0][column], rows[1][column], err_msg=column)


def test_warm_compiles_ahead_and_says_what_it_wrote(
    store: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    line = [GAME, "--method", "cfr_plus", "--iterations", "2"]
    assert invoke(["warm", *line]) == 0
    said = capsys.readouterr().out
    assert re.search(r"ready after [\d.]+ s", said)  # waits that are too short to matter are not listed
    assert all(f"wrote {path} (" in said for path in store.iterdir()) and said.count("wrote ") == 2
    monkeypatch.setattr(engines, "_iterate", refuse)
    assert invoke(["train", *line, "--no-figures", "--run-dir", str(tmp_path / "run")]) == 0
    assert invoke(["warm", *line]) == 0
    assert "no stored programs written: they were there" in capsys.readouterr().out
    assert invoke(["warm", *line, "--no-stored-programs"]) == 70  # `refuse`: it would trace
    assert invoke(["warm", "kuhn_poker", "--method", "psro"]) == 2
    assert "nothing to compile ahead" in capsys.readouterr().err


def name(game: object = None, method: str = "gems", config: object = None, seeds: int = 1, **options: object) -> str:
    game = make_game(GAME) if game is None else game
    config = GemsConfig().replace(**TINY) if config is None else config
    return program_name(build_problem(game, method, config), seeds, dataclasses.replace(OPTIONS, **options))


def test_a_name_changes_with_whatever_a_program_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [
        name(),
        name(make_game(GAME, a=3.0)),
        name(make_game("matching_pennies")),
        name(matrix_game([[1.0, 0.0], [0.0, 2.0]])),
        name(method="cfr_plus", config=DEFAULTS["cfr_plus"]),
        name(method="cfr", config=DEFAULTS["cfr"]),
        name(config=GemsConfig().replace(**TINY, eta=0.37)),
        name(seeds=2),
        name(chunk=3),
        name(exact=False),
    ]
    assert name() == names[0] and name(keep=7, checkpoint_seconds=0.0) == names[0]
    with jax.numpy_rank_promotion("allow"):
        names.append(name())
    with jax.default_matmul_precision("float32"):
        names.append(name())
    monkeypatch.setenv("XLA_FLAGS", "--xla_cpu_enable_fast_math=true")  # read by XLA long ago
    names.append(name())
    monkeypatch.setenv(cpu.VARIABLE, "off")
    names.append(name())
    monkeypatch.setattr(program_names, "source_hash", lambda: "another")
    names.append(name())
    monkeypatch.setattr(program_names, "versions", lambda packages: {"jax": "0.99"})
    names.append(name())
    assert len(set(names)) == len(names) and "" not in names


class OwnGame(type(make_game("kuhn_poker"))):  # type: ignore[misc]
    """A game of somebody else's module."""


def test_what_is_a_user_s_own_has_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    named = Problem(OwnGame(), "cfr", DEFAULTS["cfr"], build_problem(make_game(GAME), "cfr", DEFAULTS["cfr"]).solver)
    assert program_name(named, 1, OPTIONS) == ""
    assert name(debug=True) == name(stored_programs=False) == ""
    assert name(method="psro", config=DEFAULTS["psro"]) == ""  # runs in Python
    monkeypatch.setattr(jax, "device_count", lambda: 8)
    assert name() == "" != name(mesh=False)  # programs of a mesh


def test_a_recalled_monitor_measures_as_the_one_it_describes() -> None:
    problem = build_problem(make_game(GAME), "cfr_plus", DEFAULTS["cfr_plus"])
    made = measuring.make_monitor(problem.game, problem.solver, OPTIONS)
    described = program_names.describe_monitor(made)
    recalled = program_names.recall_monitor(described, lambda: made)
    assert program_names.describe_monitor(recalled) == described
    state = problem.solver.init(jax.random.key(0))
    after, metrics = problem.solver.step(state, jax.random.key(1))
    rows = [monitor.measure(monitor.init(state), state, metrics, after, 1)[1] for monitor in (made, recalled)]
    assert rows[0].keys() == rows[1].keys() and "exploitability" in rows[0]
    assert all(np.array_equal(rows[0][column], rows[1][column]) for column in rows[0])
