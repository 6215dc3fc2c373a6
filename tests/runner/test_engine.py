"""The two engines: same numbers as a loop by hand, however the iterations are cut and batched."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.runner.driver import run
from gems_jax.runner.engine import Monitor, choose_seed_batch
from gems_jax.runner.errors import NonFiniteError
from gems_jax.runner.leaves import restore_keys, strip_keys
from gems_jax.runner.options import RunOptions
from walk_solver import MONITOR, make_walk, walk


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


def sampled(every: int = 5) -> Monitor:
    """The walk, with a costly column: the weight of the first action, which is the headline."""
    sample = lambda state, iteration: {"score": jnp.exp(state.log_sigma[0])}  # noqa: E731
    return MONITOR._replace(sample=sample, every=every, headlines=("score",), highest=True)


@pytest.fixture(scope="module")
def measured_everywhere():
    return walk(None, monitor=sampled(1))


@pytest.mark.parametrize("options", [{}, {"chunk": 5}, {"solver": make_walk(jittable=False)}, {"debug": True}])
def test_cells_that_were_not_measured_are_missing(measured_everywhere, options) -> None:
    """Iterations 1, 5, 10 and the last, 12, are measured; all other columns are there in every iteration."""
    rows = walk(None, monitor=sampled(), **options).rows
    np.testing.assert_array_equal(np.flatnonzero(~np.isnan(rows["score"][0])) + 1, [1, 5, 10, 12])
    there = ~np.isnan(rows["score"])
    np.testing.assert_allclose(rows["score"][there], measured_everywhere.rows["score"][there], rtol=1e-4)
    assert all(np.isfinite(values).all() for name, values in rows.items() if name != "score")


@pytest.mark.parametrize(
    ("monitor", "options"),
    [(MONITOR, {}), (sampled(), {"chunk": 100}), (sampled(1), {"seeds": (1,)})],
    ids=["lowest", "sampled", "one seed"],
)
def test_the_state_of_the_best_measured_iteration_is_kept(monitor: Monitor, options) -> None:
    """Of every seed, to the bit, wherever in a chunk that iteration is."""
    result = walk(None, monitor=monitor, **options)
    sign = -1 if monitor.highest else 1
    best = np.nanargmin(sign * result.rows[monitor.headlines[0]], axis=1) + 1
    np.testing.assert_array_equal(result.best["iteration"], best)
    assert 1 in options.get("seeds", ()) or len(set(best)) == 2  # the seeds differ
    for seed, iteration in enumerate(best):
        there = walk(None, int(iteration), monitor=monitor, **options).state
        kept = restore_keys(result.best["state"], there)
        for one, other in zip(jax.tree.leaves(strip_keys(kept)), jax.tree.leaves(strip_keys(there)), strict=True):
            np.testing.assert_array_equal(one[seed], other[seed])


@pytest.mark.parametrize("options", [{"solver": make_walk(jittable=False)}, {"debug": True}])
def test_python_loops_keep_the_same_best(options) -> None:
    compiled, looped = walk(None, monitor=sampled()), walk(None, monitor=sampled(), **options)
    best = looped.best if options.get("debug") else jax.tree.map(lambda *seeds: jnp.stack(seeds), *looped.best)
    np.testing.assert_array_equal(best["iteration"], compiled.best["iteration"])
    np.testing.assert_allclose(best["state"].log_sigma, compiled.best["state"].log_sigma, rtol=1e-4)


def test_a_measurement_that_is_no_number_stops_the_run() -> None:
    """Only cells that were not measured are missing."""
    bad = sampled()._replace(sample=lambda state, iteration: {"score": jnp.where(iteration == 10, jnp.nan, 0.5)})
    with pytest.raises(NonFiniteError, match="score became nan at iteration 10, seed 0"):
        walk(None, monitor=bad)


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
    [
        ({"vector": jnp.ones(3)}, "got 'vector' of shape \\(3,\\)"),
        ({"seconds": jnp.ones(())}, "column 'seconds' is reserved"),
    ],
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
        ({"seeds": ()}, "seeds must be one or more distinct integers"),
        ({"seeds": (1, 1)}, "distinct integers, got \\(1, 1\\)"),
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
    assert choose_seed_batch(count, devices) == expected
