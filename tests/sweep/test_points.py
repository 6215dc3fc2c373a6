"""Sweep files: what their points are, which fields are numbers of one program, and every mistake in one line."""

import os
from pathlib import Path

import jax
import pytest

from cli import assert_one_line, call
from gems_jax.cli.words import stored_game
from gems_jax.config import GemsConfig
from gems_jax.games import make_game
from gems_jax.solvers import make_solver
from gems_jax.sweep.file import SweepError, parse_sweep, read_sweep
from gems_jax.sweep.points import SweepPlan, make_plan, traced_fields


def plan(**record) -> SweepPlan:
    return make_plan(parse_sweep({"name": "test", "game": "kuhn_poker", **record}))


def test_a_grid_is_every_combination_and_real_values_share_a_cell() -> None:
    found = plan(grid={"eta": [0.1, 0.2, 0.3], "capacity": [8, 16]}, seeds=2)
    assert [(one["eta"], one["capacity"]) for one in found.changes] == [
        (0.1, 8), (0.1, 16), (0.2, 8), (0.2, 16), (0.3, 8), (0.3, 16)
    ]  # fmt: skip
    assert found.traced == ("eta",) and found.axes == ("eta", "capacity")
    assert [cell.points for cell in found.cells] == [(0, 2, 4), (1, 3, 5)]
    assert [found.configs[n].eta for n in (0, 2, 4)] == [0.1, 0.2, 0.3] and found.configs[3].capacity == 16


def test_lists_are_taken_row_by_row_and_parts_multiply() -> None:
    found = plan(
        grid={"index": ["ucb1", "greedy"]}, list={"eta": [1, 0.5], "beta_kl": [0.1, 0.2]}, config={"delta": 0.1}
    )
    rows = [tuple(one.values()) for one in found.changes]
    assert rows == [("ucb1", 1.0, 0.1), ("ucb1", 0.5, 0.2), ("greedy", 1.0, 0.1), ("greedy", 0.5, 0.2)]
    assert len(found.cells) == 2 and {config.delta for config in found.configs} == {0.1}


def test_random_draws_are_in_range_and_do_not_depend_on_each_other() -> None:
    eta, capacity = {"low": 1e-3, "high": 1.0, "log": True}, {"low": 8, "high": 10}
    one = plan(random={"samples": 60, "seed": 3, "eta": eta})
    two = plan(random={"samples": 60, "seed": 3, "capacity": capacity, "eta": eta, "index": {"choices": ["ucb1"]}})
    etas = [change["eta"] for change in one.changes]
    assert etas == [change["eta"] for change in two.changes] and len(set(etas)) == 60
    assert 0.001 <= min(etas) < 0.01 and 0.1 < max(etas) <= 1.0  # each fails with probability (2/3)^60
    assert {change["capacity"] for change in two.changes} == {8, 9, 10} and len(two.cells) == 3
    assert plan(random={"samples": 60, "seed": 4, "eta": eta}).changes[0] != one.changes[0]


def test_numbers_of_each_player_have_a_program_of_their_own() -> None:
    found = plan(grid={"eta": [0.1, [0.1, 0.2]], "delta": [0.1, 0.2]})
    assert [config.eta for config in found.configs[1:3]] == [0.1, (0.1, 0.2)]
    assert found.traced == ("delta",) and [cell.points for cell in found.cells] == [(0, 1), (2, 3)]


def test_a_method_that_leaves_the_device_has_a_cell_per_point() -> None:
    found = plan(method="psro", grid={"learning_rate": [1e-3, 1e-2]})
    assert found.traced == () and len(found.cells) == 2


def test_the_real_valued_fields_of_gems_are_traced() -> None:
    """`test_sweep_cells.py` runs with all of them traced at once."""
    config = GemsConfig()
    names = traced_fields(config, make_solver("gems", make_game("kuhn_poker"), config))
    leaves = jax.tree_util.tree_flatten_with_path(config)[0]
    assert set(names) == {path[0].name for path, _ in leaves} and "eta" in names


MISTAKES = {
    "unknown game": ('game = "kuhn_pokre"\n[grid]\neta = [1]', "kuhn_poker"),
    "no game": ("[grid]\neta = [1]", "has no game"),
    "unknown method": ('game = "kuhn_poker"\nmethod = "gesm"\n[grid]\neta = [1]', "did you mean 'gems'"),
    "unknown preset": ('game = "kuhn_poker"\npreset = "papre"\n[grid]\neta = [1]', "paper"),
    "unknown key": ('game = "kuhn_poker"\nsede = 3\n[grid]\neta = [1]', "'sede'; did you mean seeds?"),
    "unknown field": ('game = "kuhn_poker"\n[grid]\netta = [1]', "unknown field 'etta'; did you mean eta?"),
    "unknown fixed": ('game = "kuhn_poker"\n[config]\ncapacty = 3\n[grid]\neta = [1]', "did you mean capacity?"),
    "wrong type": ('game = "kuhn_poker"\n[grid]\neta = [0.1, "fast"]', "or lists with one for each player, got 'fast'"),
    "wrong size": ('game = "kuhn_poker"\n[grid]\ncapacity = [8.5]', "grid.capacity must contain integers, got 8.5"),
    "wrong name": ('game = "kuhn_poker"\n[grid]\nindex = ["ucb2"]', "did you mean 'ucb1'?"),
    "out of range": ('game = "kuhn_poker"\n[grid]\neta = [-1.0]', "eta must be"),
    "empty grid": ('game = "kuhn_poker"\n[grid]\neta = []', "grid.eta is empty"),
    "nothing": ('game = "kuhn_poker"\n[grid]', "sweeps nothing"),
    "twice": ('game = "kuhn_poker"\n[grid]\neta = [1]\n[list]\neta = [2]', "sweeps eta twice"),
    "equal": ('game = "kuhn_poker"\n[grid]\neta = [1, 1.0]', "distinct values"),
    "fixed": ('game = "kuhn_poker"\n[config]\neta = 1\n[grid]\neta = [1]', "sets it in [config]"),
    "lengths": ('game = "kuhn_poker"\n[list]\neta = [1]\ndelta = [0.1, 0.2]', "equal lengths, got eta 1, delta 2"),
    "no samples": ('game = "kuhn_poker"\n[random]\neta = { low = 1, high = 2 }', "random.samples"),
    "no range": ('game = "kuhn_poker"\n[random]\nsamples = 2\neta = 3', "{ low = ..., high = ... }"),
    "low high": ('game = "kuhn_poker"\n[random]\nsamples = 2\neta = { low = 3, high = 2 }', "low < high"),
    "seeds": ('game = "kuhn_poker"\nseeds = [1, 1]\n[grid]\neta = [1]', "seeds must be"),
    "executor": ('game = "kuhn_poker"\n[grid]\neta = [1]\n[run]\nexecutor = "slurn"', "did you mean 'slurm'?"),
    "workers": ('game = "kuhn_poker"\n[grid]\neta = [1]\n[run]\nworkers = true', "run.workers must be an integer"),
    "no TOML": ("game = kuhn", "is not valid TOML"),
    "too many": (
        'game = "kuhn_poker"\n[random]\nsamples = 20000\neta = { low = 1, high = 2 }',
        "at most 10000 points, got 20000",
    ),
    "memory": (
        'game = "kuhn_poker"\n[grid]\nabr_episodes = [2, 100000000]\n[run]\nmemory_gb = 4',
        "at abr_episodes = 100000000 needs about",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_line_before_anything_starts(name: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    text, told = MISTAKES[name]
    (tmp_path / "sweep.toml").write_text(text)
    assert_one_line(call("sweep", "sweep.toml"), 2, told)
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.toml"]


def test_files_and_folders_that_are_not_there(tmp_path: Path) -> None:
    assert_one_line(call("sweep", tmp_path / "none.toml"), 2, "cannot read", "none.toml")
    assert_one_line(call("sweep", tmp_path), 1, "is not the folder of a sweep")


@pytest.mark.parametrize("path", ["/dev/zero", "pipe"])
def test_only_regular_files_are_read(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device has no end, and a pipe no writer."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    assert_one_line(call("sweep", path), 2, f"cannot read {path}: expected a regular file")
    assert stored_game(path) == ""


def test_the_plan_can_be_shown(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text('game = "kuhn_poker"\nseeds = 3\n[grid]\neta = [0.1, 0.2]\ncapacity = [4, 8]')
    said = call("sweep", file, "--plan")
    assert said.code == 0 and "cell 1: capacity = 8; 2 points x 3 seeds, about" in said.out, said
    assert read_sweep(file).name == "small"
    with pytest.raises(SweepError, match="must be a table"):
        parse_sweep({"name": "x", "game": "kuhn_poker", "grid": 3})


SHIPPED = sorted((Path(__file__).parents[2] / "experiments" / "sweeps").glob("*.toml"))
CLUSTER = {"gpu_box", "slurm_array"}


@pytest.mark.parametrize("file", [file for file in SHIPPED if file.stem not in CLUSTER], ids=lambda file: file.stem)
def test_shipped_sweeps_can_be_planned(file: Path) -> None:
    assert make_plan(read_sweep(file)).cells


@pytest.mark.slow
@pytest.mark.parametrize("file", [file for file in SHIPPED if file.stem in CLUSTER], ids=lambda file: file.stem)
def test_shipped_sweeps_for_clusters_can_be_planned(file: Path) -> None:
    assert len(make_plan(read_sweep(file)).cells) > 10 and file.with_suffix(".sh").exists()
