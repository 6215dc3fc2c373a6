"""The two engines: same numbers as a loop by hand, however the iterations are cut and batched."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.runner.driver import run
from gems_jax.runner.engine import Monitor, seeds_at_once
from gems_jax.runner.options import RunOptions
from walk_solver import make_walk, walk


def by_hand(seed: int, iterations: int):
    """The contract of the keys, written out: init from fold_in(key, 0), iteration i from fold_in(key, i)."""
    solver, key = make_walk(), jax.random.key(seed)
    state = jax.jit(solver.init)(jax.random.fold_in(key, 0))
    gaps = []
    for i in range(1, iterations + 1):
        state, metrics = jax.jit(solver.step)(state, jax.random.fold_in(key, i))
        gaps.append(metrics.gap)
    return state, np.asarray(gaps)


@pytest.fixture(scope="module")
def reference():
    return walk(None)


def test_rows_are_those_of_a_loop_by_hand(reference) -> None:
    for index, seed in enumerate((0, 1)):
        state, gaps = by_hand(seed, 12)
        np.testing.assert_allclose(reference.rows["gap"][index], gaps, rtol=1e-5)
        np.testing.assert_allclose(reference.rows["gap_sum"][index], np.cumsum(gaps), rtol=1e-5)
        np.testing.assert_allclose(reference.state.log_sigma[index], state.log_sigma, rtol=1e-5)
        np.testing.assert_array_equal(jax.random.key_data(reference.state.key)[index], jax.random.key_data(state.key))


def test_columns(reference) -> None:
    rows = reference.rows
    assert set(rows) == {
        *("iteration", "gap", "episodes", "env_steps", "active_anchors", "gap_sum", "moved"),
        *("total_episodes", "total_env_steps", "seconds", "memory_mb"),
    }
    assert all(values.shape == (2, 12) for values in rows.values())
    np.testing.assert_array_equal(rows["iteration"], np.tile(np.arange(1, 13), (2, 1)))
    np.testing.assert_array_equal(rows["total_env_steps"], np.cumsum(rows["env_steps"], axis=1))
    np.testing.assert_array_equal(rows["active_anchors"], 3)
    assert np.all(np.diff(rows["seconds"]) >= 0) and np.all(rows["memory_mb"] > 1)
    np.testing.assert_allclose(reference.monitor, rows["gap_sum"][:, -1])


@pytest.mark.parametrize("chunk", [1, 5, 100])
def test_chunks_do_not_matter_to_the_last_bit(reference, chunk: int) -> None:
    other = walk(None, chunk=chunk)
    chex.assert_trees_all_equal(other.state, reference.state)
    for name in set(reference.rows) - {"seconds", "memory_mb"}:
        np.testing.assert_array_equal(other.rows[name], reference.rows[name])


def test_python_engine_gives_the_same_rows(reference) -> None:
    other = walk(None, solver=make_walk(jittable=False))
    assert isinstance(other.state, tuple) and len(other.state) == 2
    assert set(other.rows) == set(reference.rows)
    for name in set(reference.rows) - {"seconds", "memory_mb"}:
        np.testing.assert_allclose(other.rows[name], reference.rows[name], rtol=1e-4, atol=1e-6)


def test_stepwise_carries_what_the_compiled_engine_carries(reference) -> None:
    other = walk(None, debug=True)
    chex.assert_trees_all_equal_shapes_and_dtypes(other.state, reference.state)
    np.testing.assert_allclose(other.state.log_sigma, reference.state.log_sigma, rtol=1e-4)
    np.testing.assert_allclose(other.rows["gap"], reference.rows["gap"], rtol=1e-4, atol=1e-6)


def test_seed_batches_limit_what_is_in_memory_not_the_result() -> None:
    whole, parts = walk(None, 4, seeds=range(3)), walk(None, 4, seeds=range(3), seed_batch=2)
    np.testing.assert_allclose(parts.rows["gap"], whole.rows["gap"], rtol=1e-5)


def test_one_trace_serves_the_shorter_last_chunk() -> None:
    traces = []
    solver = make_walk()

    def counted(state, key):
        traces.append(None)
        return solver.step(state, key)

    run(solver._replace(step=counted), iterations=1, options=RunOptions(chunk=4))
    once = len(traces)
    traces.clear()
    run(solver._replace(step=counted), iterations=11, options=RunOptions(chunk=4))
    assert len(traces) == once


def test_compilation_is_counted_apart(reference) -> None:
    assert reference.compile_seconds > 0
    assert reference.seconds == pytest.approx(reference.rows["seconds"][0, -1], abs=1e-3)


def test_without_measure_the_scalars_of_the_metrics_are_the_rows() -> None:
    rows = run(make_walk(), iterations=2).rows
    assert "gap" in rows and "sigma" not in rows and "gap_sum" not in rows


@pytest.mark.parametrize(
    ("row", "message"),
    [({"vector": jnp.ones(3)}, "'vector' has shape \\(3,\\)"), ({"seconds": jnp.ones(())}, "'seconds' is a column")],
)
@pytest.mark.parametrize("jittable", [True, False])
def test_bad_measure(row, message: str, jittable: bool) -> None:
    with pytest.raises(ValueError, match=message):
        run(make_walk(jittable=jittable), iterations=2, monitor=Monitor(measure=lambda monitor, *_: (monitor, row)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"iterations": 0}, "iterations must be at least 1, got 0"),
        ({"options": RunOptions(chunk=0)}, "chunk must be at least 1"),
        ({"options": RunOptions(keep=0)}, "keep must be at least 1"),
        ({"seeds": ()}, "seeds must be one or more different integers"),
        ({"seeds": (1, 1)}, "different integers, got \\(1, 1\\)"),
        ({"options": RunOptions(checkpoint_seconds=-1.0)}, "checkpoint_seconds must be at least 0"),
    ],
)
def test_bad_arguments(options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        run(make_walk(), **({"iterations": 2} | options))


def test_a_monitor_that_shares_an_array_with_the_state_can_be_donated() -> None:
    result = run(
        make_walk(),
        iterations=4,
        options=RunOptions(chunk=2),
        monitor=Monitor(
            lambda state: state.previous,
            lambda monitor, before, metrics, after, iteration: (
                monitor,
                {"drift": jnp.sum(jnp.abs(after.previous - monitor))},
            ),
        ),
    )
    np.testing.assert_array_equal(result.monitor, 0)


@pytest.mark.parametrize(
    ("count", "devices", "expected"),
    [(1, 1, 1), (8, 1, 8), (9, 1, 5), (64, 1, 8), (16, 2, 16), (20, 2, 10), (64, 2, 16), (65, 2, 14), (3, 4, 4)],
)
def test_a_cpu_takes_eight_seeds_per_device_at_once(count, devices, expected) -> None:
    """As few batches as that allows, of the same size and a multiple of the devices; a caller cuts it at `count`."""
    assert seeds_at_once(count, devices) == expected
