"""Whole runs on games that Python plays: they learn, every method plays them, and a killed one goes on as it was."""

import signal
import subprocess
import time
from pathlib import Path

import jax
import numpy as np
import pytest

from cli import _SIZES, SCRIPT, TINY, call, gems
from gems_jax import GemsConfig, make_game, make_solver
from gems_jax.evaluate.sampled import sampled_row
from gems_jax.games.adapters import hosted as python_game
from gems_jax.runner.driver import run
from gems_jax.runner.measuring import make_monitor
from gems_jax.runner.options import RunOptions
from gems_jax.runner.writers import read_metrics
from gems_jax.solvers import DEFAULTS

pytestmark = pytest.mark.slow
SMALL = ["--policy", "mlp", "--policy-hidden", "8", *TINY, "--checkpoint-seconds", "0", "--iterations", "30"]
LEARNERS = {
    "rounds": 2,
    "opponents": 8,
    "entry_episodes": 20,
    "oracle": "ppo",
    "payoffs": "episodes",
    "policy": "mlp",
    "policy_hidden": (8,),
    "capacity": 2,
    "slots": 3,
    "workers": 2,
    "ticks": 1,
    "updates": 2,
    "graph_period": 2,
    "snapshots": 2,
    "directions": 2,
}
ON_THE_TREE = ("cfr", "cfr_plus", "xfp", "os_mccfr", "es_mccfr")
METHODS = sorted(set(DEFAULTS) - {"gems", *ON_THE_TREE})


@pytest.fixture(autouse=True)
def one_worker(monkeypatch):
    monkeypatch.setenv("GEMS_WORKERS", "1")
    yield
    python_game.close_all()


def trained(folder: Path, *words: object) -> dict[str, np.ndarray]:
    done = gems("train", *words, "--run-dir", folder, "--quiet", "--no-figures")
    assert done.code == 0, done
    return read_metrics(folder)


def test_leduc_of_openspiel_learns(tmp_path):
    gap = trained(tmp_path / "run", "openspiel:leduc_poker", "--quick")["exploitability"]
    assert gap[-1] < 0.8 * gap[0] and gap[-1] < 2.0  # random play: 2.37


def test_connect_four_of_pettingzoo_learns(tmp_path):
    rows = trained(tmp_path / "run", "pz:connect_four_v3", "--quick")
    assert rows["score_random"][-1] > rows["score_random"][0] + 2 * rows["score_random_interval"][0]
    assert rows["score_random"][-1] > 0.65


@pytest.mark.parametrize("game", ["openspiel:kuhn_poker", "pz:tictactoe_v3"])
def test_a_killed_run_goes_on_to_the_bit(tmp_path, monkeypatch, game):
    """Killed after its second checkpoint or later, taken up with another number of workers."""
    line = ["train", game, *SMALL, "--evaluation-episodes", 16, "--evaluation-every", 1, "--no-figures"]
    monkeypatch.setenv("GEMS_WORKERS", "2")
    folder = tmp_path / "killed"
    process = subprocess.Popen([str(SCRIPT), *map(str, line), "--quiet", "--run-dir", str(folder)])
    deadline = time.monotonic() + 600
    while not (folder / "checkpoints" / "00000002").exists() and time.monotonic() < deadline:
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    monkeypatch.setenv("GEMS_WORKERS", "1")
    resumed = call("resume", folder)
    assert resumed.code == 0 and "resumed from iteration" in resumed.out, resumed
    assert call(*line, "--run-dir", tmp_path / "whole", "--quiet").code == 0
    one, other = read_metrics(folder), read_metrics(tmp_path / "whole")
    assert one.keys() == other.keys() and len(one["iteration"]) == 30
    for name in set(one) - {"seconds", "memory_mb"}:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


KINDS = [  # teams, one shared population, moves at once, games that go on
    ("pz:simple_tag_v3", {"continuous_actions": True, "max_cycles": 4}, {}),
    ("pz:simple_spread_v3", {"teams": False, "shared": True, "max_cycles": 4}, {"common_random_numbers": True}),
    ("openspiel:goofspiel(num_cards=3)", {}, {"meta_steps": 2, "abr_minibatches": 2}),
    ("pz:go_v5", {"board_size": 5}, {"abr_segment": 8, "policy": "film"}),
    ("openspiel:hanabi", {"max_steps": 10}, {"abr_segment": 8}),
]


@pytest.mark.parametrize(("name", "options", "settings"), KINDS, ids=[kind[0] for kind in KINDS])
def test_gems_plays_games_of_every_kind(name, options, settings):
    game = make_game(name, **options)
    sizes = {word.replace("-", "_"): size for word, size in _SIZES.items()}
    sizes |= {"critic_hidden": (8,), "generator_widths": (8,), "policy": "mlp", "policy_hidden": (8,), **settings}
    solver = make_solver("gems", game, GemsConfig(**sizes))
    monitor = make_monitor(game, solver, RunOptions(exact=False, evaluation_episodes=4, evaluation_every=1))
    rows = run(solver, iterations=2, monitor=monitor).rows
    assert all(np.isfinite(values).all() for values in rows.values()) and (rows["env_steps"] > 0).all()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_plays(method):
    game = make_game("openspiel:kuhn_poker")
    known = {name: value for name, value in LEARNERS.items() if hasattr(DEFAULTS[method], name)}
    solver = make_solver(method, game, DEFAULTS[method].replace(**known))
    monitor = make_monitor(game, solver)
    result = run(solver, iterations=2, monitor=monitor)
    assert not solver.jittable and 0 < result.rows["exploitability"][0, -1] < 2
    assert (result.rows["env_steps"] > 0).all() or method == "random"
    row = sampled_row(jax.random.key(0), game, solver.profile(result.state[0]), 32)
    assert 0 <= float(row["score_random"]) <= 1


@pytest.mark.parametrize("method", ON_THE_TREE)
def test_tabular_methods_walk_openspiel(method):
    game = make_game("openspiel:kuhn_poker")
    few = {"traversals": 100} if hasattr(DEFAULTS[method], "traversals") else {}
    solver = make_solver(method, game, DEFAULTS[method].replace(**few))
    monitor = make_monitor(game, solver)
    gap = run(solver, iterations=30, monitor=monitor).rows["exploitability_average"]
    assert gap[0, -1] < 0.1
