"""Cells: one compiled call for all points and seeds, each point as if it had run alone, ordinary runs at the end."""

import dataclasses
import json
import shutil
import typing
from pathlib import Path

import jax
import numpy as np
import pytest

from cli import call
from gems_jax.config import GemsConfig, is_real
from gems_jax.games import make_game
from gems_jax.gems.step import gems_profile, init_gems
from gems_jax.runner.console import Console
from gems_jax.runner.driver import run
from gems_jax.runner.load import load
from gems_jax.runner.options import RunOptions
from gems_jax.runner.writers import read_metrics
from gems_jax.solvers import make_solver
from gems_jax.sweep.cell import run_cell
from gems_jax.sweep.execution import run_sweep
from gems_jax.sweep.executors import make_executor
from gems_jax.sweep.file import parse_sweep
from gems_jax.sweep.folder import SweepFolder, create_folder, open_folder
from gems_jax.sweep.memory import bytes_of_run, choose_run_batch
from gems_jax.sweep.points import SweepPlan, make_plan
from gems_jax.sweep.report import rank_points

ETAS = [round(0.05 * number, 2) for number in range(1, 17)]
FIELDS = [name for name, hint in typing.get_type_hints(GemsConfig).items() if is_real(hint) and name != "eta"]
SIZES = {  # those of the fixture `kuhn_gems`
    "capacity": 4, "generator_widths": [16], "critic_hidden": [8], "num_opponents": 4, "mixture_samples": 8,
    "mutations": 4, "randoms": 4, "oracle_opponents": 4, "abr_steps": 2, "abr_anchors": 4, "kl_opponents": 2,
}  # fmt: skip
SWEEP = {  # one value of every other real-valued field, so that all of them are traced
    "name": "steps", "game": "kuhn_poker", "preset": "paper", "iterations": 2, "seeds": 5, "metric": "entropy",
    "config": SIZES, "grid": {"eta": ETAS}, "list": {name: [getattr(GemsConfig(), name)] for name in FIELDS},
    "run": {"exact": False, "evaluation_episodes": 0, "chunk": 1, "checkpoint_seconds": 0.0},
}  # fmt: skip
LIGHT = {  # neither oracle nor training: all that is left is the meta-game
    "name": "light", "game": "biased_rps", "iterations": 3, "seeds": 2, "metric": "env_steps",
    "config": {
        "capacity": 3, "initial_anchors": 3, "mutations": 0, "randoms": 0, "abr_steps": 0, "mixture_samples": 0,
        "jacobian": "none", "critic_hidden": [4], "generator_widths": [4], "kl_opponents": 1,
    },
    "grid": {"eta": [0.1, 0.5, 2.0]},
    "run": {"exact": False, "evaluation_episodes": 0, "chunk": 1, "checkpoint_seconds": 0.0},
}  # fmt: skip
QUICK = {  # no cell of it takes a second
    "name": "walks", "game": "kuhn_poker", "method": "cfr", "seeds": 2, "grid": {"walks": [1, 2], "iterations": [2, 3]},
}  # fmt: skip


def prepared(path: Path, record: dict) -> tuple[SweepFolder, SweepPlan]:
    file = parse_sweep(record)
    return create_folder(path, file, {}), make_plan(file)


def computed(path: Path, record: dict) -> tuple[SweepFolder, SweepPlan, int]:
    """A sweep of one cell, and how often a step was traced for it."""
    folder, plan = prepared(path, record)
    traces: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        import gems_jax.solvers as solvers

        step = solvers.gems_step
        patch.setattr(solvers, "gems_step", lambda *args, **named: traces.append(1) or step(*args, **named))
        assert run_cell(folder.path, 0).state == "done"
    return folder, plan, len(traces)


@pytest.fixture(scope="module")
def light(tmp_path_factory: pytest.TempPathFactory) -> tuple[SweepFolder, SweepPlan, int]:
    return computed(tmp_path_factory.mktemp("sweep") / "light", LIGHT)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[SweepFolder, SweepPlan, int]:
    """16 step sizes x 5 seeds, with every real-valued field traced."""
    return computed(tmp_path_factory.mktemp("sweep") / "steps", SWEEP)


@pytest.mark.slow
def test_all_step_sizes_and_seeds_are_one_program(swept) -> None:
    folder, plan, traces = swept
    assert len(plan.cells) == 1 and traces == 1
    assert sorted(path.name for path in (folder.path / "points").iterdir()) == [f"{n:04d}" for n in range(16)]
    assert not (folder.cell(0) / "work").exists() and folder.status(0)["state"] == "done"


@pytest.mark.slow
@pytest.mark.parametrize(("point", "seed"), [(0, 4), (9, 0), (15, 2)])
def test_a_member_is_the_same_run_alone(swept, kuhn_gems, point: int, seed: int) -> None:
    folder, plan, _ = swept
    assert set(plan.traced) == {*FIELDS, "eta"} and plan.configs[point] == kuhn_gems.config.replace(
        eta=ETAS[point], iterations=2
    )
    config, key = kuhn_gems.config.replace(eta=ETAS[point]), jax.random.key(seed)
    state = init_gems(jax.random.fold_in(key, 0), kuhn_gems.game, config)
    steps = 0
    for iteration in (1, 2):
        state, metrics = kuhn_gems.step(state, jax.random.fold_in(key, iteration), config)
        steps += int(metrics.env_steps)
    assert read_metrics(folder.point(point) / f"s{seed}")["total_env_steps"][-1] == steps
    here, there = gems_profile(state, kuhn_gems.game, config), load(folder.point(point), seed=seed).profile
    for alone, member in zip(jax.tree.leaves(here), jax.tree.leaves(there), strict=True):
        np.testing.assert_allclose(member, alone, atol=1e-5, rtol=1e-5)


@pytest.mark.slow
def test_a_member_is_the_same_run_of_the_driver(swept) -> None:
    folder, plan, _ = swept
    solver = make_solver("gems", make_game("kuhn_poker"), plan.configs[7])
    alone = run(solver, iterations=2, seeds=(1, 3), options=RunOptions(chunk=1))
    for place, seed in enumerate((1, 3)):
        profile = solver.profile(jax.tree.map(lambda leaf, n=place: leaf[n], alone.state))
        member = load(folder.point(7), seed=seed).profile
        for there, here in zip(jax.tree.leaves(member), jax.tree.leaves(profile), strict=True):
            np.testing.assert_allclose(there, here, atol=1e-5, rtol=1e-5)


def test_a_cell_delivers_its_points_as_ordinary_runs(light) -> None:
    folder, plan, traces = light
    assert len(plan.cells) == 1 and traces == 1 and not (folder.cell(0) / "work").exists()
    assert sorted(path.name for path in (folder.path / "points").iterdir()) == ["0000", "0001", "0002"]
    record = json.loads((folder.point(1) / "config.json").read_text())
    assert record["config"]["eta"] == 0.5 and record["options"]["swept"] == {"eta": 0.5}
    said = call("eval", folder.point(1) / "s1")
    assert said.code == 0 and "seed 1: exploitability" in said.out, said


def test_cells_that_were_not_measured_have_not_diverged(light, tmp_path: Path) -> None:
    """Only numbers that are not finite count; the points are ranked by a score, so the highest comes first."""
    shutil.copytree(light[0].path, tmp_path / "sweep")
    folder = SweepFolder(tmp_path / "sweep")
    plan = dataclasses.replace(light[1], file=dataclasses.replace(light[1].file, metric="score_random"))
    for number, path in enumerate(sorted(folder.path.glob("points/*/s*/metrics.csv"))):
        scores = ("score_random", "nan" if number == 0 else "0.5", "", f"0.{number}")
        path.write_text(
            "".join(f"{line},{score}\n" for line, score in zip(path.read_text().split(), scores, strict=True))
        )
    first, *_, last = rank_points(plan, folder).points
    assert first.value.mean > last.value.mean and last.number == 0
    assert (first.diverged, last.diverged) == (0, 1)


def test_a_member_of_a_light_cell_is_the_same_run_alone(light) -> None:
    folder, plan, _ = light
    solver = make_solver("gems", make_game("biased_rps"), plan.configs[2])
    alone = run(solver, iterations=3, seeds=(0, 1), options=RunOptions(chunk=3))
    for seed in (0, 1):
        sigma = load(folder.point(2), seed=seed).profile.sigma
        np.testing.assert_allclose(sigma, alone.state.sigma[seed], atol=1e-5)
        others = [load(folder.point(n), seed=seed).profile.sigma for n in (0, 1)]
        assert all(np.abs(np.asarray(sigma) - np.asarray(other)).max() > 1e-3 for other in others)  # eta matters


def test_memory_decides_how_many_runs_are_computed_at_once(light) -> None:
    _, plan, _ = light
    one = bytes_of_run(plan, plan.cells[0])
    assert choose_run_batch(plan, plan.cells[0], 80) is None
    for fit, batch in ((79, 40), (33, 27), (1, 1)):
        limited = {**LIGHT, "run": {"memory_gb": (fit + 0.5) * one / 2**30}}
        assert choose_run_batch(make_plan(parse_sweep(limited)), plan.cells[0], 80) == batch


def test_a_finished_cell_is_not_computed_again(tmp_path: Path) -> None:
    folder, _ = prepared(tmp_path / "walks", QUICK)
    assert run_cell(folder.path, 2).state == "done"
    stamp = (folder.point(2) / "status.json").stat().st_mtime_ns
    assert run_cell(folder.path, 2).state == "done"
    assert (folder.point(2) / "status.json").stat().st_mtime_ns == stamp


def test_failures_are_tried_again_and_told(tmp_path: Path, monkeypatch, capsys) -> None:
    """Cell 1 fails once, cell 3 always: one retry mends the first, the second is reported, the rest is there."""
    from gems_jax.sweep import cell as cells

    folder, _ = prepared(tmp_path / "walks", {**QUICK, "run": {"executor": "submitit-debug"}})
    compute, calls = cells._compute, []

    def flaky(folder, plan, cell):
        calls.append(cell.number)
        if cell.number == 3 or calls.count(1) == 1 == cell.number:
            raise RuntimeError(f"cell {cell.number} is out of luck")
        return compute(folder, plan, cell)

    monkeypatch.setattr(cells, "_compute", flaky)
    result = run_sweep(folder.path, console=Console())
    said = capsys.readouterr().out
    assert calls == [0, 1, 2, 3, 1, 3] and result.exit_code == 1 and result.done == 3
    assert result.failed == {3: "RuntimeError: cell 3 is out of luck"} and "cell 3 failed 2 times" in said
    assert {point.number for point in result.ranking.points} == {0, 1, 2}
    summary = json.loads((folder.path / "summary.json").read_text())
    assert summary["failed"] == {"3": result.failed[3]} and summary["points"][0]["mean"] > 0
    assert (folder.path / "figures" / "parallel_coordinates.png").stat().st_size > 5000
    monkeypatch.setattr(cells, "_compute", compute)
    again = run_sweep(folder.path, console=Console(quiet=True))
    assert again.exit_code == 0 and again.done == 4 and len(again.ranking.points) == 4
    best = again.ranking.points[0]
    assert best.changes == {"walks": 2, "iterations": 3} and best.number == 3  # more of CFR is better


def test_a_folder_keeps_to_its_sweep(tmp_path: Path) -> None:
    folder, _ = prepared(tmp_path / "walks", QUICK)
    assert open_folder(folder.path)[1].grid == QUICK["grid"]
    file = tmp_path / "other.toml"
    file.write_text('name = "walks"\ngame = "kuhn_poker"\nmethod = "cfr"\nseeds = 2\n[grid]\nwalks = [1, 3]')
    said = call("sweep", file, "--run-dir", folder.path)
    assert said.code == 2 and "contains another sweep" in said.err, said


def test_a_missing_library_is_told_before_anything_starts(tmp_path: Path, monkeypatch) -> None:
    import sys

    folder, plan = prepared(tmp_path / "walks", {**QUICK, "run": {"executor": "slurm"}})
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(ImportError, match=r'pip install "gems_jax\[slurm\]"'):
        make_executor(plan, folder)
