"""Programs for accelerators: they lower for CUDA and TPU, and what is exported, stored and loaded gives equal numbers.

No accelerator is needed: `jax.export` lowers for platforms that are not at hand. The workarounds for CPUs are off, as
they are on those back ends.
"""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import GemsConfig, gems_step, init_gems, make_game, preset
from gems_jax.accelerator import cpu
from gems_jax.games.turns import TurnGame
from gems_jax.presets import PRESETS
from gems_jax.runner import engine as engines
from gems_jax.runner.measuring import make_monitor
from gems_jax.runner.options import RunOptions
from gems_jax.solvers import make_solver

HELPER = Path(__file__).parents[1] / "helpers" / "mesh_runs.py"
PLATFORMS = ("cpu", "cuda", "tpu")
# Custom calls that XLA itself, or its back ends for GPU and TPU, implement.
KNOWN = {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "TopK", "mhlo.topk", "cu_threefry2x32_ffi"}
TINY = {
    "capacity": 3, "initial_anchors": 2, "generator_widths": (8,), "critic_hidden": (4,), "num_opponents": 2,
    "mixture_samples": 2, "mutations": 2, "randoms": 2, "oracle_opponents": 2, "abr_steps": 2, "abr_anchors": 2,
    "kl_opponents": 1,
}  # fmt: skip
COMPILED = [(game, which) for game in PRESETS if ":" not in game for which in PRESETS[game]]


def forget_rules():
    """Drops the traces of a game's own rules: they are traced once, and do not know the switch."""
    for method in (TurnGame.init, TurnGame.step):
        method.clear_cache()


@pytest.fixture(autouse=True)
def as_on_an_accelerator(monkeypatch):
    monkeypatch.setenv(cpu.VARIABLE, "off")
    forget_rules()
    yield
    forget_rules()


def export(function, arguments, platforms=PLATFORMS):
    """Exports a function of a list of leaves: what is stored needs no class of this package."""
    leaves, tree = jax.tree.flatten(arguments)
    flat = lambda *given: jax.tree.leaves(function(*jax.tree.unflatten(tree, given)))  # noqa: E731
    return jax.export.export(jax.jit(flat), platforms=platforms)(*leaves)


def custom_calls(exported):
    text = exported.mlir_module()
    return set(re.findall(r"custom_call @([\w.]+)", text)) | set(re.findall(r'call_target_name = "([\w.]+)"', text))


def step_of(name, config):
    """`gems_step` with the words of a key as argument, and its arguments' shapes."""
    game = make_game(name)
    words = jax.ShapeDtypeStruct((2,), jnp.uint32)
    state = jax.eval_shape(lambda key: init_gems(key, game, config), jax.random.key(0))
    return lambda state, words: gems_step(state, jax.random.wrap_key_data(words), game, config), (state, words)


def chunk_of(name, config, monkeypatch, seeds=2):
    """The driver's chunk with its monitor, and its arguments' shapes: what the engine would compile."""
    game, found = make_game(name), []
    solver, options = make_solver("gems", game, config), RunOptions(chunk=2, evaluation_episodes=4)
    keep = lambda function, mesh, *arguments, **donated: found.append((function, arguments))  # noqa: E731
    monkeypatch.setattr(engines, "compile_program", keep)
    made = engines.make_engine(solver, range(seeds), options, make_monitor(game, solver, options), iterations=2)
    made.compile(made.template())
    return found[0]


def monitor_of(name, config, monkeypatch):
    """The exact monitor's measurement of one iteration."""
    game = make_game(name)
    solver = make_solver("gems", game, config)
    monitor = make_monitor(game, solver)
    before = jax.eval_shape(solver.init, jax.random.key(0))
    after, metrics = jax.eval_shape(solver.step, before, jax.eval_shape(lambda: jax.random.key(0)))
    return monitor.measure, (jax.eval_shape(monitor.init, before), before, metrics, after, jnp.int32(1))


def store_and_load(exported):
    """The exported program after a round trip through bytes; without flatbuffers, its module alone is in bytes."""
    if importlib.util.find_spec("flatbuffers") is None:
        return exported
    return jax.export.deserialize(exported.serialize())


def assert_loads_with_equal_numbers(function, arguments):
    exported = export(function, arguments)
    assert exported.platforms == PLATFORMS and custom_calls(exported) <= KNOWN, custom_calls(exported) - KNOWN
    loaded = store_and_load(exported)
    leaves = jax.tree.leaves(arguments)
    found = loaded.call(*leaves)
    expected = jax.tree.leaves(jax.jit(function)(*arguments))
    assert len(found) == len(expected) > 0
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_a_step_is_stored_and_loaded_with_equal_numbers():
    config, game = preset("kuhn_poker").replace(**TINY), make_game("kuhn_poker")
    function, _ = step_of("kuhn_poker", config)
    state = init_gems(jax.random.key(0), game, config)
    assert_loads_with_equal_numbers(function, (state, jax.random.key_data(jax.random.key(1))))


def test_custom_calls_of_one_back_end_are_found():
    """The sample of what a program must not contain: LAPACK's, which only CPUs have."""
    exported = export(jnp.linalg.cholesky, (jax.ShapeDtypeStruct((3, 3), jnp.float32),), platforms=["cpu"])
    assert custom_calls(exported) - KNOWN


@pytest.mark.slow
def test_a_chunk_with_the_exact_monitor_is_loaded_with_equal_numbers(monkeypatch):
    config = GemsConfig().replace(**TINY)
    function, arguments = chunk_of("kuhn_poker", config, monkeypatch, seeds=1)
    monkeypatch.undo()
    monkeypatch.setenv(cpu.VARIABLE, "off")
    game = make_game("kuhn_poker")
    solver = make_solver("gems", game, config)
    made = engines.make_engine(solver, [0], RunOptions(chunk=2), make_monitor(game, solver), iterations=2)
    words, values, _, *_ = arguments
    counts = (jnp.int32(0), jnp.int32(2), jnp.int32(2))
    assert_loads_with_equal_numbers(function, (words, values, made.start()[0], *counts))


@pytest.mark.slow
@pytest.mark.parametrize("make", [chunk_of, monitor_of])
def test_the_exact_monitor_lowers(make, monkeypatch):
    exported = export(*make("kuhn_poker", preset("kuhn_poker").replace(**TINY), monkeypatch), PLATFORMS[1:])
    assert custom_calls(exported) <= KNOWN


@pytest.mark.slow
@pytest.mark.parametrize(("game", "which"), COMPILED)
def test_every_preset_lowers(game, which):
    exported = export(*step_of(game, preset(game, which)), PLATFORMS[1:])
    assert exported.platforms == PLATFORMS[1:] and custom_calls(exported) <= KNOWN, custom_calls(exported) - KNOWN
    assert store_and_load(exported).in_avals == exported.in_avals


@pytest.mark.slow
@pytest.mark.parametrize("game", ["kuhn_poker", "connect_four", "simple_tag"])
def test_the_driver_s_chunk_lowers(game, monkeypatch):
    exported = export(*chunk_of(game, preset(game, "tuned"), monkeypatch), PLATFORMS[1:])
    assert custom_calls(exported) <= KNOWN, custom_calls(exported) - KNOWN


@pytest.mark.slow
@pytest.mark.parametrize("game", ["kuhn_poker", "connect_four", "simple_tag"])
def test_the_form_of_eight_devices_lowers(game, tmp_path):
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=8"
    line = [sys.executable, str(HELPER), "lower", game, str(tmp_path / "lowered.npz")]
    done = subprocess.run(line, env={**os.environ, "XLA_FLAGS": flags}, capture_output=True, text=True, timeout=1200)
    assert done.returncode == 0, done.stderr
    found = np.load(tmp_path / "lowered.npz")
    assert found["devices"] == 8 and found["shardings"] > 0
    assert set(found["custom_calls"].tolist()) <= KNOWN
