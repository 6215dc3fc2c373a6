"""Presets for one accelerator: they fill it, and a step fits into its memory."""

import jax
import jax.numpy as jnp
import pytest

from gems_jax import gems_step, init_gems, make_game, preset
from gems_jax.gems.gpu_presets import GPU, LIMIT
from gems_jax.presets import PRESETS, best_preset
from gems_jax.profiling.peak_memory import peak_bytes


@pytest.mark.parametrize("name", GPU)
def test_batches_are_larger_than_those_of_the_default(name):
    large, default = preset(name, "gpu"), preset(name, best_preset(name))
    episodes = [
        max(c.mixture_samples, c.num_opponents * c.capacity, c.abr_opponents * c.abr_episodes) for c in (large, default)
    ]
    assert episodes[0] >= 4 * episodes[1] and episodes[0] >= 512
    assert PRESETS[name]["gpu"] is GPU[name]


def test_the_estimated_memory_fits(name="simple_spread"):
    """By the cost model, which overestimates what is compiled."""
    assert peak_bytes(make_game(name), GPU[name]) < LIMIT


@pytest.mark.slow
@pytest.mark.parametrize("name", GPU)
def test_the_compiled_step_fits(name):
    game, config = make_game(name), GPU[name]
    state = jax.eval_shape(lambda key: init_gems(key, game, config), jax.random.key(0))
    words = jax.ShapeDtypeStruct((2,), jnp.uint32)
    step = jax.jit(lambda state, words: gems_step(state, jax.random.wrap_key_data(words), game, config))
    memory = step.lower(state, words).compile().memory_analysis()
    taken = memory.temp_size_in_bytes + memory.argument_size_in_bytes + memory.output_size_in_bytes
    assert 1e7 < taken < LIMIT
