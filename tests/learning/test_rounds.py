"""Rounds whose number is static or traced."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.learning.rounds import repeat_rounds, sum_rounds


def count_rounds(state, key, number):
    total, drawn = state
    return total + number, drawn + jax.random.uniform(key)


@pytest.mark.parametrize("count", [0, 1, 4])
def test_rounds_are_counted_from_zero(count):
    """The numbers 0 to count - 1, whether the count is static or traced; keys are drawn differently."""
    start, key = (jnp.int32(0), jnp.float32(0.0)), jax.random.key(0)
    static = repeat_rounds(count_rounds, start, key, count)
    traced = jax.jit(lambda n: repeat_rounds(count_rounds, start, jax.random.key(0), n))(jnp.int32(count))
    assert static[0] == traced[0] == sum(range(count))
    keys = jax.random.split(jax.random.key(0), count) if count else []
    np.testing.assert_allclose(static[1], sum((float(jax.random.uniform(k)) for k in keys), 0.0), rtol=1e-6)
    folded = [float(jax.random.uniform(jax.random.fold_in(jax.random.key(0), n))) for n in range(count)]
    np.testing.assert_allclose(traced[1], sum(folded, 0.0), rtol=1e-6)


def test_no_static_round_is_not_traced():
    def fail(state, key, number):
        raise AssertionError("traced")

    assert repeat_rounds(fail, 7, jax.random.key(0), 0) == 7


@pytest.mark.parametrize("count", [0, 1, 5])
def test_what_rounds_count_is_summed(count):
    """Numbers 0 to count - 1, for a static and for a traced number of rounds."""

    def advance(state, key, number):
        return state + 1, (number, jnp.float32(2.0))

    for rounds in (count, jnp.int32(count)):
        state, (numbers, twos) = sum_rounds(advance, jnp.int32(3), jax.random.key(0), rounds)
        assert (int(state), int(numbers), float(twos)) == (3 + count, count * (count - 1) // 2, 2.0 * count)
