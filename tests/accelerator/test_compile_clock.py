"""Compilation is told from computation by JAX's own events, in compiled runs and in steps that run in Python."""

import threading
import time

import jax
import jax.numpy as jnp
import pytest

from gems_jax.accelerator.cache import enable_compilation_cache
from gems_jax.accelerator.compile_clock import count_compilation, follow_compilation, merged_seconds
from gems_jax.runner.driver import run
from gems_jax.runner.options import RunOptions
from walk_solver import make_walk


def slow_to_trace(seconds):
    """A new function whose compilation takes at least so long, and whose calls take no time."""

    @jax.jit
    def function(x):
        time.sleep(seconds)  # while it is traced
        return x + 1.0

    return function


@pytest.mark.parametrize(
    ("spans", "length"),
    [
        ([], 0),
        ([(1, 3)], 2),
        ([(1, 3), (5, 6)], 3),
        ([(2, 3), (1, 4)], 3),
        ([(1, 3), (2, 5), (5, 6)], 5),
        ([(1, 2)] * 3, 1),
    ],
)
def test_spans_that_overlap_count_once(spans, length):
    assert merged_seconds(spans) == length


def test_compilation_is_recorded_where_it_happens():
    inner, outer, elsewhere = slow_to_trace(0.1), slow_to_trace(0.1), slow_to_trace(0.1)
    both = jax.jit(lambda x: outer(inner(x)))  # two traces inside a third
    with count_compilation() as whole:
        with count_compilation() as first:
            begin = time.perf_counter()
            both(jnp.ones(3)).block_until_ready()
            took = time.perf_counter() - begin
        assert first.programs >= 1 and 0.2 <= first.seconds <= took
        with count_compilation() as second:
            both(jnp.ones(3)).block_until_ready()
        assert (second.programs, second.seconds) == (0, 0.0)
        thread = threading.Thread(target=lambda: elsewhere(jnp.ones(3)).block_until_ready())
        thread.start()
        thread.join()
    assert whole.spans == first.spans  # nothing of the other thread
    with count_compilation() as broken, pytest.raises(TypeError):
        jax.jit(lambda x: x + "1")(jnp.ones(3))
    both(jnp.ones(4))  # after a block nothing is recorded any more
    assert broken.programs == 0 and whole.spans == first.spans


@pytest.mark.parametrize("jittable", [True, False])
def test_seconds_of_a_run_exclude_what_a_step_compiles(jittable):
    """A step in Python compiles at its second iteration; one that is compiled whole does so before the first."""
    walk, late = make_walk(jittable=jittable), slow_to_trace(0.6)

    def step(state, key):
        if jittable or int(state.step) == 1:
            state = state.replace(previous=late(state.previous) - 1.0)
        return walk.step(state, key)

    begin = time.perf_counter()
    result = run(walk._replace(step=step), iterations=4, options=RunOptions(chunk=1))
    took = time.perf_counter() - begin
    assert result.compile_seconds >= 0.6
    assert result.seconds == pytest.approx(result.rows["seconds"][0, -1], abs=1e-3)
    # Other work on the machine makes all three longer; compilation that counts twice makes the sum too long.
    assert result.seconds + result.compile_seconds < took


def test_stages_are_followed_and_named_when_they_end(tmp_path):
    """A compilation is told from a read of the cache."""

    def stages():
        found = []
        function = slow_to_trace(0.0)
        with follow_compilation(lambda stage, before: found.append((stage, before))):
            jax.jit(lambda x: function(x) * 3.0).lower(1.0).compile()
        return found

    before = jax.config.jax_compilation_cache_dir
    enable_compilation_cache(tmp_path)
    try:
        first, second = stages(), stages()
    finally:
        enable_compilation_cache(before)
    assert first[0] == ("compiling or reading the cache", "") and first[-1] == ("tracing", "compiling")
    assert second[-1] == ("tracing", "from the cache")
