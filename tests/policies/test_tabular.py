"""Policies that are tables."""

import jax.numpy as jnp
import numpy as np

from gems_jax.policies.distributions import sample_action
from gems_jax.policies.mlp import MlpPolicy
from gems_jax.policies.networks import IndexedNetwork
from gems_jax.policies.tabular import TabularPolicy


def test_tabular_policy_reads_its_row():
    table = np.asarray([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 0.0]])
    policy = TabularPolicy(table, np.ones((3, 2), bool))
    phi = jnp.asarray([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    for row in range(3):
        output = policy(phi, jnp.asarray(table[row], jnp.float32), jnp.ones(2, bool))
        np.testing.assert_allclose(output.logits, phi[row])
    assert policy == TabularPolicy(table, np.ones((3, 2), bool)) and hash(policy) == hash(
        TabularPolicy(table, np.ones((3, 2), bool))
    )
    assert policy != TabularPolicy(table[:2], np.ones((2, 2), bool))


def test_a_table_that_brings_its_cdf_plays_the_same():
    """Rows of (1/4, 1/4, 1/2), of (1/3, 2/3) with the first action illegal, and of the middle action alone."""
    legal = np.array([[1, 1, 1], [0, 1, 1], [0, 1, 0]], bool)
    table = TabularPolicy(np.eye(3), legal)
    logits = jnp.log(jnp.array([[1.0, 1.0, 2.0], [9.0, 1.0, 2.0], [9.0, 1.0, 9.0]]))
    np.testing.assert_allclose(table.cdf(logits), [[0.25, 0.5, 1.0], [0.0, 1 / 3, 1.0], [0.0, 1.0, 1.0]], rtol=1e-6)
    assert isinstance(table, IndexedNetwork)
    phi, apply = (0, table.prepare_stack(logits[None])), table.indexed
    below_one = np.nextafter(np.float32(1), np.float32(0))
    for row, seen in enumerate(jnp.eye(3)):
        output = apply(phi, seen, jnp.asarray(legal[row]))
        plain = table(logits, seen, jnp.asarray(legal[row]))
        np.testing.assert_array_equal(output.logits, plain.logits)
        assert output.row == row
        for noise in (0.0, 0.1, 0.3, 0.4, 0.7, below_one):
            assert sample_action(output, jnp.float32(noise)) == sample_action(plain, jnp.float32(noise))
        assert (
            legal[row, sample_action(output, jnp.float32(0))]
            and legal[row, sample_action(output, jnp.float32(below_one))]
        )


def test_other_networks_are_not_called_by_index():
    assert not isinstance(MlpPolicy(3, 2), IndexedNetwork)
