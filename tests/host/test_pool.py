"""Worker processes: they start, play what the records order, report a crash, and end with the pool."""

import os
import signal

import numpy as np
import pytest

from gems_jax.host.base import EnvironmentFailure, make_environment
from gems_jax.host.pool import NOTHING, RESET, STEP, Pool, num_workers

RECIPE = {"kind": "pettingzoo", "id": "faulty_envs:Coins", "options": {}}
LANES = 5


def make_pool(workers, **options):
    recipe = {**RECIPE, "options": options}
    return Pool("coins", recipe, make_environment(recipe).facts, 4, 20.0, workers)


def order(pool, what, lanes, seed=0, action=0):
    pool.records["order"][lanes], pool.records["action"][lanes] = what, action
    if what == RESET:
        pool.records["seed"][lanes] = seed + np.asarray(lanes)
    pool.work()
    return pool.records[lanes].copy()


@pytest.fixture
def pools():
    made = []
    yield lambda *args, **options: made.append(make_pool(*args, **options)) or made[-1]
    for pool in made:
        pool.close()


@pytest.mark.parametrize("workers", [1, 2])
def test_workers_play_as_this_process_does(pools, workers):
    here, there = pools(0), pools(workers)
    lanes = np.arange(LANES)
    for what in (RESET, STEP, STEP, STEP, STEP):
        ours, theirs = order(here, what, lanes), order(there, what, lanes)
        for name in ours.dtype.names:
            np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    assert ours["terminated"].all() and (ours["step"] == 4).all() and (ours["order"] == NOTHING).all()


def test_only_the_ordered_lanes_are_played(pools):
    pool = pools(2)
    order(pool, RESET, np.arange(LANES))
    order(pool, STEP, np.asarray([1, 3]))
    assert pool.records["step"][:LANES].tolist() == [0, 1, 0, 1, 0]


def test_more_lanes_than_were_mapped(pools):
    pool = pools(1)
    size = pool.size
    pool.reserve(size)
    assert pool.size == size
    pool.reserve(size + 1)
    assert pool.size == 2 * size
    assert (order(pool, RESET, np.asarray([0, size]))["observation"] != 0).any()


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ("raise", r"coins: step 2 of the episode with seed 0 raised ValueError: the coin rolled off the table"),
        ("leave", r"coins: step 2 of the episode with seed 0: the worker process exited with code 7"),
    ],
)
def test_a_fault_closes_the_pool_and_names_the_step(pools, fault, message):
    pool = pools(1, fault=fault)
    workers = [worker.process for worker in pool.workers]
    order(pool, RESET, [0])
    order(pool, STEP, [0])
    with pytest.raises(EnvironmentFailure, match=message):
        order(pool, STEP, [0])
    assert all(process.poll() is not None for process in workers) and not pool.workers and pool.memory == -1


def test_a_killed_worker_is_reported(pools):
    pool = pools(1)
    order(pool, RESET, [0])
    os.kill(pool.workers[0].process.pid, signal.SIGKILL)
    with pytest.raises(EnvironmentFailure, match="the worker process was killed by SIGKILL"):
        order(pool, STEP, [0])


def test_close_ends_the_processes_and_may_be_repeated(pools):
    pool = pools(2)
    order(pool, RESET, [0])
    workers = [worker.process for worker in pool.workers]
    pool.close()
    pool.close()
    assert all(process.poll() is not None for process in workers)


def test_the_number_of_workers(monkeypatch):
    monkeypatch.setenv("GEMS_WORKERS", "3")
    assert num_workers() == 3
    monkeypatch.setenv("GEMS_WORKERS", "many")
    with pytest.raises(ValueError, match="GEMS_WORKERS must be .* from 0 to 256, got 'many'"):
        num_workers()
    monkeypatch.delenv("GEMS_WORKERS")
    assert num_workers() >= 1
