"""Large tables are searched by a hash: the same rows as a comparison with every row finds."""

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.policies.tabular import TabularPolicy


def big_table(rows=3000, size=12):
    rng = np.random.default_rng(0)
    bits = (np.arange(rows)[:, None] >> np.arange(size)[None, :]) & 1
    return bits.astype(np.float32), rng.normal(size=(rows, 3)).astype(np.float32)


def test_every_observation_finds_its_row():
    observations, logits = big_table()
    table = TabularPolicy(observations, np.ones((3000, 3), bool))
    assert table._hashes is not None
    rows = jax.jit(jax.vmap(table.find_row))(observations)
    np.testing.assert_array_equal(rows, np.arange(3000))
    stored_small = jnp.asarray(observations, bool)  # games may store observations in fewer bytes
    np.testing.assert_array_equal(jax.vmap(table.find_row)(stored_small), np.arange(3000))
    legal = jnp.ones(3, bool)
    found = jax.jit(jax.vmap(lambda seen: table(jnp.asarray(logits), seen, legal).logits))(observations)
    np.testing.assert_array_equal(found, logits)
    assert np.array_equal(table.match_rows(jnp.asarray(observations[77])), np.arange(3000) == 77)


def test_negative_zeros_are_zeros_and_real_numbers_are_told_apart():
    drawn = np.random.default_rng(1).normal(size=(2000, 4)).astype(np.float32)
    drawn[5, 2] = 0.0
    table = TabularPolicy(drawn, np.ones((2000, 2), bool))
    np.testing.assert_array_equal(jax.vmap(table.find_row)(jnp.asarray(drawn)), np.arange(2000))
    negative = drawn[5].copy()
    negative[2] = -0.0
    assert int(table.find_row(jnp.asarray(negative))) == 5


def test_an_unknown_observation_is_played_uniformly():
    observations, logits = big_table()
    table = TabularPolicy(observations, np.ones((3000, 3), bool))
    unknown = jnp.full(12, 7.0)
    assert not table.match_rows(unknown).any() and int(table.find_row(unknown)) == 0
    assert not np.asarray(table(jnp.asarray(logits), unknown, jnp.ones(3, bool)).logits).any()
