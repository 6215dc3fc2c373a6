"""The fused random stream: known answers of the cipher, statistics, key discipline."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.accelerator.prng import draw_uniform, fused_key, split_keys, threefry_2x32

ZERO, ONES = 0, 0xFFFFFFFF
PI = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344]


@pytest.mark.parametrize(
    ("rounds", "key", "words", "expected"),
    [
        # Random123's own known answers, in the order of its kat_vectors file.
        (13, (ZERO, ZERO), (ZERO, ZERO), (0x9D1C5EC6, 0x8BD50731)),
        (20, (ZERO, ZERO), (ZERO, ZERO), (0x6B200159, 0x99BA4EFE)),
        (20, (ONES, ONES), (ONES, ONES), (0x1CB996FC, 0xBB002BE7)),
        (20, (PI[2], PI[3]), (PI[0], PI[1]), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_known_answers(rounds, key, words, expected):
    x, y = threefry_2x32(jnp.asarray(key, jnp.uint32), jnp.uint32(words[0]), jnp.uint32(words[1]), rounds)
    assert (int(x), int(y)) == expected


def test_uniforms_are_uniform_and_streams_independent():
    keys = jax.random.split(fused_key(jax.random.key(0)), 64)
    draws = np.asarray(jax.vmap(lambda k: jax.random.uniform(k, (4096,)))(keys))
    counts = np.histogram(draws, bins=64, range=(0.0, 1.0))[0]
    expected = draws.size / 64
    chi_square = ((counts - expected) ** 2 / expected).sum()
    assert chi_square < 63 + 6 * np.sqrt(2 * 63)  # six deviations: failure probability below 1e-5
    correlation = np.corrcoef(draws) - np.eye(64)
    assert np.abs(correlation).max() < 6 / np.sqrt(4096)  # of 2016 pairs, six deviations each: below 1e-5
    serial = np.corrcoef(draws[:, :-1].ravel(), draws[:, 1:].ravel())[0, 1]
    assert abs(serial) < 6 / np.sqrt(draws.size)


@pytest.mark.parametrize("shape", [(), (3, 7)])
@pytest.mark.parametrize("make", [jax.random.key, lambda seed: fused_key(jax.random.key(seed))])
def test_uniform_numbers_are_those_of_jax(make, shape):
    expected = jax.random.uniform(make(8), shape)
    np.testing.assert_array_equal(draw_uniform(make(8), shape), expected)


def test_keys_are_typed_and_split_like_any_other():
    key_first, key_second, key_third = jax.random.split(fused_key(jax.random.key(3)), 3)
    assert not np.array_equal(jax.random.key_data(key_first), jax.random.key_data(key_second))
    folded = jax.random.key_data(jax.vmap(lambda n: jax.random.fold_in(key_first, n))(jnp.arange(8)))
    split = jax.random.key_data(jax.random.split(key_second, 8))
    assert len(np.unique(np.concatenate([folded, split]), axis=0)) == 16
    both = jax.vmap(lambda k: jax.random.normal(k, (5,)))(jax.random.split(key_third, 3))
    assert both.shape == (3, 5) and bool(jnp.isfinite(both).all())


def test_other_widths():
    key_byte, key_short = jax.random.split(fused_key(jax.random.key(4)))
    assert jax.random.bits(key_byte, (3,), jnp.uint8).dtype == jnp.uint8
    assert jax.random.randint(key_short, (100,), 0, 7).max() < 7


@pytest.mark.parametrize("count", [3, 40])  # fewer than there are keys, and more
def test_many_keys_draw_what_each_draws(count):
    keys = jax.random.split(fused_key(jax.random.key(5)), (2, 7))
    again = jax.random.clone(keys)

    def both(key):
        key_draw, key_split = jax.random.split(key)
        return jax.random.uniform(key_draw, (count,)), jax.random.key_data(jax.random.split(key_split, count))

    together = jax.jit(jax.vmap(jax.vmap(both)))(keys)
    for place in np.ndindex(2, 7):
        jax.tree.map(
            lambda all_, one, at=place: np.testing.assert_array_equal(all_[at], one), together, both(again[place])
        )


def test_wide_bits_of_many_keys():
    keys = jax.random.split(fused_key(jax.random.key(6)), 5)
    with jax.enable_x64(True):
        wide = jax.vmap(lambda key: jax.random.bits(key, (2,), jnp.uint64))(keys)
        assert wide.dtype == jnp.uint64 and len(np.unique(wide)) == 10


@pytest.mark.parametrize("kind", [fused_key, jax.random.clone])  # of this module, and of any other
def test_split_keys_are_those_of_a_split(kind):
    keys = jax.random.split(kind(jax.random.key(7)), 9)
    found = jax.jit(jax.vmap(lambda key: [jax.random.key_data(own) for own in split_keys(key, 3)]))(
        jax.random.clone(keys)
    )
    expected = jax.vmap(lambda key: jax.random.key_data(jax.random.split(key, 3)))(keys)
    np.testing.assert_array_equal(np.stack(found, axis=1), expected)
