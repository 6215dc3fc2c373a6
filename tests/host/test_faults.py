"""What a Python environment, or its process, can do wrong: one line that names it, an exit code, no process left."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from cli import SCRIPT, assert_one_line, call
from gems_jax.games import make_game
from gems_jax.games.adapters import hosted as python_game
from gems_jax.host.base import EnvironmentFailure
from gems_jax.host.stages import session
from gems_jax.runner.directory import read_status

COINS = "faulty_envs:Coins"
SAID = {
    "raise": "raised ValueError: the coin rolled off the table (faulty_envs.py:",
    "hang": "took more than 2 s, the time limit",
    "shape": "observation of odd does not fit: expected shape [3] of its observation space, got [2]",
    "mask": "gave seat 0 an action mask of zeros: no action is legal",
    "nan": "gave observation with NaN or infinity in it",
    "reward": "gave reward with NaN or infinity in it",
    "kill": "the worker process was killed by SIGKILL",
    "leave": "the worker process exited with code 7",
}


def children(of: int | None = None) -> set[int]:
    """Processes below this one, or another, that are workers."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                line = (folder / "cmdline").read_bytes()
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError):
                continue
            if b"gems_jax.host.worker" in line and parent == (of or os.getpid()):
                found.add(int(folder.name))
    return found


@pytest.fixture(autouse=True)
def one_worker(monkeypatch):
    monkeypatch.setenv("GEMS_WORKERS", "1")
    yield
    python_game.close_all()
    assert not children()


@pytest.mark.parametrize("fault", SAID)
def test_every_fault_is_one_line_and_leaves_no_process(fault):
    limit = ["time_limit=2"] if fault == "hang" else []  # on a busy machine, honest steps may take a second
    options = ["--game-option", f"fault={fault}", *limit]
    done = call("games", "--check", COINS, "--episodes", 2, *options)
    assert_one_line(done, 1, COINS, "step 2 of the episode with seed ", SAID[fault])
    assert not children()


TRAIN = ["train", "--method", "random", "--evaluation-episodes", 4, "--evaluation-every", 1, "--no-figures", "--quiet"]


def test_a_run_that_meets_a_fault_says_so_and_is_marked(tmp_path):
    done = call(*TRAIN, COINS, "--run-dir", tmp_path / "run", "--game-option", "fault=raise")
    assert_one_line(done, 1, "gems train: faulty_envs:Coins: step 2 of the episode with seed ", SAID["raise"])
    status = read_status(tmp_path / "run")
    assert status["state"] == "failed" and "the coin rolled off the table" in status["reason"]
    assert not children()


@pytest.mark.slow
def test_a_worker_of_a_run_that_is_killed(tmp_path):
    helpers = Path(__file__).parent.parent / "helpers"
    line = [*TRAIN, COINS, "--run-dir", tmp_path / "run", "--iterations", 1000000]
    environment = {**os.environ, "GEMS_WORKERS": "2", "PYTHONPATH": str(helpers)}
    process = subprocess.Popen([str(SCRIPT), *map(str, line)], stderr=subprocess.PIPE, text=True, env=environment)
    deadline = time.monotonic() + 600
    rows = tmp_path / "run" / "metrics.csv"
    while not (rows.exists() and rows.read_text().count("\n") > 3) and time.monotonic() < deadline:
        time.sleep(0.05)
    workers = children(process.pid)
    assert len(workers) == 2
    os.kill(min(workers), signal.SIGKILL)
    _, told = process.communicate(timeout=600)
    assert process.returncode == 1 and told.count("\n") == 1, told
    assert told.startswith(f"gems train: {COINS}: ") and "the worker process was killed by SIGKILL" in told
    assert not any(map(_runs, workers))


def test_the_seed_that_is_named_is_the_one_that_fails(monkeypatch):
    """Played alone, in this process, the same seed fails the same way."""
    monkeypatch.setenv("GEMS_WORKERS", "0")
    game = make_game(COINS, fault="raise", at=1)
    with pytest.raises(EnvironmentFailure, match=r"step 1 of the episode with seed (\d+)") as failure, session():
        state = jax.vmap(game.init)(jax.random.split(jax.random.key(3), 2))
        jax.vmap(game.step)(state, np.zeros((2, 2), np.int32), jax.random.split(jax.random.key(4), 2))
    seed = int(str(failure.value).split("seed ")[1].split()[0])
    assert seed == int(jax.random.bits(jax.random.split(jax.random.key(3), 2)[0], (), np.uint32) >> 1)


def test_a_worker_that_is_killed_from_outside():
    game = make_game(COINS)
    with session():
        state = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 4))
        (worker,) = children()
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(EnvironmentFailure, match=f"{COINS}: .* the worker process was killed by SIGKILL"):
            jax.vmap(game.step)(state, np.zeros((4, 2), np.int32), jax.random.split(jax.random.key(1), 4))
    assert not children()
    with session():  # and the next use begins anew
        assert not jax.vmap(game.init)(jax.random.split(jax.random.key(0), 4)).done.any()


SLEEPER = """
import jax, numpy as np, sys
from gems_jax.games import make_game
from gems_jax.games.adapters.hosted import lanes_of
game = make_game("faulty_envs:Coins", fault="hang")
state = jax.vmap(game.init)(jax.random.split(jax.random.key(0), 2))
print(*[worker.process.pid for worker in lanes_of(game).pool.workers], flush=True)
for number in range(2):
    state = jax.vmap(game.step)(state, np.zeros((2, 2), np.int32), jax.random.split(jax.random.key(1), 2))
"""


def test_workers_die_with_a_parent_that_is_killed():
    """In the middle of a step that would take a quarter of an hour."""
    helpers = Path(__file__).parent.parent / "helpers"
    environment = {**os.environ, "GEMS_WORKERS": "2", "PYTHONPATH": str(helpers)}
    parent = subprocess.Popen([sys.executable, "-c", SLEEPER], stdout=subprocess.PIPE, text=True, env=environment)
    workers = [int(word) for word in parent.stdout.readline().split()]
    assert len(workers) == 2
    time.sleep(1.0)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 60
    while any(_runs(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(_runs(pid) for pid in workers)


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_missing_extras_name_the_line_that_installs_them(monkeypatch):
    monkeypatch.setitem(sys.modules, "pettingzoo", None)
    monkeypatch.setitem(sys.modules, "pyspiel", None)
    for name, extra in (("pz:connect_four_v3", "pettingzoo"), ("openspiel:tic_tac_toe", "openspiel")):
        for line in (["games", "--check", name], ["train", name, "--quick"]):
            assert_one_line(call(*line), 2, name, f'pip install "gems_jax[{extra}]"')


def test_unknown_ids_are_told_with_what_is_near():
    assert_one_line(call("games", "--check", "openspiel:leduc_pokr"), 2, "did you mean 'openspiel:leduc_poker'")
    assert_one_line(call("games", "--check", "pz:connect_for_v3"), 2, "did you mean 'pz:connect_four_v3'")


@pytest.mark.parametrize("fault", ["no_seed", "sum"])
def test_what_only_many_steps_show(fault):
    said = {
        "no_seed": "init does not depend on seed and actions alone",
        "sum": "zero_sum is claimed, but the players' returns add up to",
    }
    options = ["--game-option", f"fault={fault}"]
    assert_one_line(call("games", "--check", COINS, "--episodes", 8, *options), 1, said[fault])


def test_what_does_not_end_is_cut_off():
    game = make_game(COINS, fault="endless")
    with session():
        state = game.init(jax.random.key(0))
        for _ in range(4):
            state = game.step(state, np.zeros(2, np.int32), jax.random.key(1))
    assert state.truncated and not state.terminated and not state.to_move.any() and not state.legal.any()


def test_a_right_one_is_sound():
    done = call("games", "--check", COINS, "--episodes", 4)
    assert done.code == 0 and "faulty_envs:Coins: valid. 2 seats, 2 actions, observations of 5, at most 4" in done.out


def test_bad_numbers_of_workers(monkeypatch):
    monkeypatch.setenv("GEMS_WORKERS", "-1")
    with pytest.raises(ValueError, match="GEMS_WORKERS must be an integer from 0"):
        make_game(COINS, at=9).init(jax.random.key(0))
