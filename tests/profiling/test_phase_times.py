"""Counting operations, and the phases of a step as programs of their own."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks.flops import flops, learning_flops
from gems_jax import init_gems
from gems_jax.gems.budget import episodes_per_phase
from gems_jax.profiling.phase_times import META, PHASES, fill_slots, measure_phases
from gems_trails import RPS, TINY


def test_operations_of_products_loops_and_convolutions():
    a, b = jnp.zeros((3, 4)), jnp.zeros((4, 5))
    assert flops(lambda x, y: x @ y, a, b) == 2 * 3 * 4 * 5
    assert flops(lambda x, y: jax.vmap(lambda r: r @ y)(x).sum(), a, b) == 2 * 3 * 4 * 5
    square = jnp.zeros((4, 4))
    assert flops(lambda x: jax.lax.scan(lambda c, _: (c @ c, None), x, None, length=7)[0], square) == 7 * 2 * 64
    assert flops(jax.jit(lambda x: jnp.sin(x @ x)), square) == 2 * 64
    # the product, and one for the gradient of each of its two factors
    assert flops(jax.grad(lambda x: jnp.sum(jnp.sin(x @ jnp.sin(x)))), square) == 3 * 2 * 64
    image, kernel = jnp.zeros((1, 9, 9, 2)), jnp.zeros((3, 3, 2, 5))
    convolve = lambda i, k: jax.lax.conv_general_dilated(  # noqa: E731
        i, k, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    assert flops(convolve, image, kernel) == 2 * (9 * 9 * 5) * (3 * 3 * 2)


@pytest.mark.slow
def test_the_phases_add_up_to_the_step():
    key_init, key_time, key = jax.random.split(jax.random.key(0), 3)
    state = init_gems(key_init, RPS, TINY)
    times = measure_phases(RPS, TINY, state, key_time, repeats=2)
    counted = episodes_per_phase(RPS, TINY, TINY.initial_anchors)
    assert sum(times.episodes.values()) == counted.sum_without_training(TINY) + TINY.abr_steps * counted.abr_step
    assert times.env_steps == times.episodes  # one joint move
    assert set(times.seconds) == set(PHASES)
    assert times.whole.shape == times.seconds[META].shape == (2,)
    # twice the rounds of training are twice the gradient steps
    twice = TINY.replace(abr_steps=2 * TINY.abr_steps)
    once = learning_flops(RPS, TINY, state, key)
    assert once > 0
    np.testing.assert_allclose(learning_flops(RPS, twice, state, key), 2 * once)


def test_a_population_without_empty_slots():
    state = fill_slots(init_gems(jax.random.key(0), RPS, TINY), jax.random.key(1))
    assert bool(state.active.all())
    np.testing.assert_allclose(state.sigma.sum(axis=1), 1.0, rtol=1e-6)
    assert len({tuple(np.asarray(code)) for code in state.anchors[0]}) == TINY.capacity
