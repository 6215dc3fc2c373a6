"""Play on a mesh: how axes are shared out, and that many devices and many processes give the curve of one."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import pytest
from jax.sharding import AxisType, PartitionSpec

from cli import SCRIPT, TINY, gems
from gems_jax.accelerator.sharding import assign_axes, gather, play_mesh, spread
from gems_jax.runner.engine import uses_mesh
from gems_jax.runner.options import RunOptions
from gems_jax.runner.writers import read_metrics

HELPER = Path(__file__).parents[1] / "helpers" / "mesh_runs.py"
GAMES = ("kuhn_poker", "connect_four", "simple_tag")


def environment(devices: int, **more: str) -> dict[str, str]:
    flags = os.environ.get("XLA_FLAGS", "")
    return {**os.environ, "XLA_FLAGS": f"{flags} --xla_force_host_platform_device_count={devices}", **more}


def started(*words: object, **options) -> subprocess.Popen:
    line = [sys.executable, str(HELPER), *map(str, words)]
    return subprocess.Popen(line, stderr=subprocess.PIPE, text=True, **options)


def finished(process: subprocess.Popen) -> None:
    _, told = process.communicate(timeout=1200)
    assert process.returncode == 0, told


def processes_of_one_program(count: int) -> list[dict[str, str]]:
    """The environments of `count` processes that find each other."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    common = {"JAX_COORDINATOR_ADDRESS": address, "JAX_NUM_PROCESSES": str(count)}
    return [{**os.environ, **common, "JAX_PROCESS_ID": str(number)} for number in range(count)]


def test_axes_are_filled_from_the_first() -> None:
    eight = {"play0": 2, "play1": 2, "play2": 2}
    assert assign_axes((64, 8, 2), eight) == PartitionSpec(("play0", "play1", "play2"), None, None)
    assert assign_axes((4, 2, 3), eight) == PartitionSpec(("play0", "play1"), ("play2",), None)
    assert assign_axes((3, 5), eight) == PartitionSpec(None, None)
    assert assign_axes((6, 3), {"play0": 3, "play1": 2, "play2": 3}) == PartitionSpec(("play0", "play1"), ("play2",))


def test_without_a_mesh_nothing_is_marked() -> None:
    tree = {"keys": jax.random.split(jax.random.key(0), 8)}
    assert spread(tree, 1) is tree
    with pytest.raises(ValueError, match="must divide the 1 devices, got 2"):
        play_mesh(jax.devices()[:1], seeds=2)


def test_several_devices_share_a_run_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not uses_mesh(RunOptions())  # one device
    monkeypatch.setattr(jax, "device_count", lambda: 8)
    assert uses_mesh(RunOptions())
    assert not uses_mesh(RunOptions(mesh=False)) and not uses_mesh(RunOptions(debug=True))


def test_inside_somebodys_shard_map_nothing_is_marked() -> None:
    """Every device has its own program there, and a layout is not for us to give; vmapped, as seeds are."""
    mesh = jax.make_mesh((1,), ("seeds",), axis_types=(AxisType.Auto,), devices=jax.devices()[:1])
    own = jax.vmap(lambda row: gather(spread(2.0 * row, 1)))
    program = jax.shard_map(own, mesh=mesh, in_specs=PartitionSpec("seeds"), out_specs=PartitionSpec("seeds"))
    np.testing.assert_array_equal(jax.jit(program)(np.ones((4, 3), np.float32)), 2.0)


def test_eight_devices_share_the_episodes_and_play_the_same(tmp_path: Path) -> None:
    finished(started("episodes", tmp_path / "found.npz", env=environment(8)))
    found = np.load(tmp_path / "found.npz")
    np.testing.assert_array_equal(found["all_returns"], found["one_returns"])
    assert len(set(found["one_returns"].ravel())) > 2  # chips won and lost
    assert found["one_parts"] == 1 and found["all_parts"] == 8
    assert found["all_flops"] < found["one_flops"] / 5  # per device, with what all of them do


def assert_same_run(one: Path, other: Path) -> None:
    """The curve, and the state it ends in, up to rounding.

    Where a gradient is nothing but rounding, Adam makes a whole step of it: a few weights may be a step or two apart.
    """
    here, there = np.load(one), np.load(other)
    assert set(here.files) == set(there.files)
    for name in set(here.files) - {"devices"}:
        if not name.startswith("state"):
            np.testing.assert_allclose(there[name], here[name], rtol=1e-3, atol=2e-5, err_msg=name)
        elif np.issubdtype(here[name].dtype, np.floating):
            finite = np.isfinite(here[name])
            np.testing.assert_array_equal(np.isfinite(there[name]), finite, err_msg=name)
            apart = np.abs(there[name] - here[name], where=finite, out=np.zeros_like(here[name]))
            assert apart.max(initial=0.0) < 4e-3 and apart.sum() <= 1e-5 * max(apart.size, 100), name
        else:
            np.testing.assert_array_equal(there[name], here[name], err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("seeds", [1, 2])
def test_eight_devices_give_the_curve_of_one(game: str, seeds: int, tmp_path: Path) -> None:
    finished(started("run", game, 0, seeds, tmp_path / "one.npz", env=environment(1)))
    finished(started("run", game, 1, seeds, tmp_path / "eight.npz", env=environment(8)))
    assert np.load(tmp_path / "eight.npz")["devices"] == 8
    assert_same_run(tmp_path / "one.npz", tmp_path / "eight.npz")


@pytest.mark.slow
def test_a_device_for_every_seed_gives_the_curves_of_one(tmp_path: Path) -> None:
    """Nothing but seeds is shared out then, and every device has a program for its own."""
    finished(started("run", GAMES[0], 0, 2, tmp_path / "one.npz", env=environment(1)))
    finished(started("run", GAMES[0], 1, 2, tmp_path / "two.npz", env=environment(2)))
    assert np.load(tmp_path / "two.npz")["devices"] == 2
    assert_same_run(tmp_path / "one.npz", tmp_path / "two.npz")


@pytest.mark.slow
@pytest.mark.parametrize("game", GAMES)
def test_two_processes_give_the_curve_of_one(game: str, tmp_path: Path) -> None:
    finished(started("run", game, 0, 1, tmp_path / "one.npz", env=environment(1)))
    both = [
        started("run", game, 1, 1, tmp_path / f"process{number}.npz", env=own)
        for number, own in enumerate(processes_of_one_program(2))
    ]
    for process in both:
        finished(process)
    for number in range(2):
        assert np.load(tmp_path / f"process{number}.npz")["devices"] == 2
        assert_same_run(tmp_path / "one.npz", tmp_path / f"process{number}.npz")


@pytest.mark.slow
def test_train_distributed(tmp_path: Path) -> None:
    """Process 0 alone writes and speaks; a second start goes on from its checkpoint, whatever files the others see."""
    words = ["train", "kuhn_poker", "--preset", "paper", "--chunk", "1", "--checkpoint-seconds", "0", *TINY]
    alone, folder = tmp_path / "alone", tmp_path / "two"
    assert gems(*words, "--iterations", 3, "--run-dir", alone).code == 0

    def both(*line: object) -> list[tuple[int, str, str]]:
        found = [
            subprocess.Popen(
                [str(SCRIPT), *map(str, line)], env=own, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
            )
            for own in processes_of_one_program(2)
        ]
        said = [process.communicate(timeout=600) for process in found]
        return [(process.returncode, *told) for process, told in zip(found, said, strict=True)]

    first, second = both(*words, "--iterations", 2, "--run-dir", folder, "--distributed")
    assert first[0] == second[0] == 0, (first, second)
    assert "done: 2 iterations" in first[1] and "iterations" not in second[1]
    first, second = both("resume", folder, "--iterations", 3, "--distributed")
    assert first[0] == second[0] == 0 and "resumed from iteration 2" in first[1], (first, second)
    here, there = read_metrics(alone), read_metrics(folder)
    for name in set(here) - {"seconds", "memory_mb"}:
        np.testing.assert_allclose(there[name], here[name], rtol=1e-3, atol=2e-5, err_msg=name)


def test_processes_that_do_not_find_each_other_are_told() -> None:
    lonely = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "OMPI", "JAX_"))}
    said = gems("train", "kuhn_poker", "--distributed", env=lonely)
    assert said.code == 2 and said.err.count("\n") == 1 and "JAX_NUM_PROCESSES" in said.err, said
    said = gems("train", "kuhn_poker", "--distributed", env={**lonely, "JAX_PROCESS_ID": "0"})
    assert said.code == 2 and "JAX_COORDINATOR_ADDRESS, JAX_NUM_PROCESSES is not set" in said.err, said
