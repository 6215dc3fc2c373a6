"""Where learned responses start: averages of parameters by hand, and what PSRO does with them."""

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.policies.mlp import MlpPolicy
from gems_jax.psro.oracle_variants import STARTS, fuse_parameters, newest_slot, single_opponent_oracle
from gems_jax.psro.responses import Mixture, Oracle, Response
from gems_jax.types import Array


def mixture_of(sigma, count):
    sigma = jnp.asarray(sigma, jnp.float32)
    active = jnp.broadcast_to(jnp.arange(sigma.shape[1]) < count, sigma.shape)
    return Mixture(None, active, sigma)


def test_with_one_policy_every_start_is_that_policy():
    for weights in STARTS.values():
        np.testing.assert_allclose(weights(mixture_of([[1, 0, 0], [1, 0, 0]], 1)), [[1, 0, 0]] * 2)


def test_weights_by_hand():
    """Own mixture; the last; the opponents' mixture one slot later, without the newest that nobody answered yet."""
    mixture = mixture_of([[0.2, 0.3, 0.5, 0], [0.6, 0.4, 0, 0]], 3)
    np.testing.assert_allclose(STARTS["fusion"](mixture), mixture.sigma)
    np.testing.assert_allclose(STARTS["newest"](mixture), [[0, 0, 1, 0]] * 2)
    np.testing.assert_allclose(STARTS["transfer"](mixture), [[0, 0.6, 0.4, 0], [0, 0.4, 0.6, 0]], atol=1e-6)
    # all of the opponents' weight on the newest: nothing to transfer
    np.testing.assert_allclose(STARTS["transfer"](mixture_of([[0, 0, 1.0], [0, 0, 1]], 3)), [[0, 0, 1]] * 2)
    # two players of one population meet themselves
    np.testing.assert_allclose(STARTS["transfer"](mixture_of([[0.25, 0.75, 0]], 2)), [[0, 1, 0]])


def test_fusion_of_a_point_mass_is_a_copy():
    params = {"kernel": jax.random.normal(jax.random.key(0), (2, 3, 4, 5)), "bias": jnp.arange(6.0).reshape(2, 3)}
    copy = fuse_parameters(params, jnp.array([[0.0, 1, 0], [0, 0, 1]]))
    np.testing.assert_array_equal(copy["kernel"], jnp.stack([params["kernel"][0, 1], params["kernel"][1, 2]]))
    np.testing.assert_array_equal(copy["bias"], [1.0, 5.0])


def test_fused_logits_of_a_linear_network_are_weighted_logits():
    network, weights = MlpPolicy(4, 3, ()), jnp.array([[0.2, 0.8]])
    params = jax.vmap(jax.vmap(network.init))(jax.random.split(jax.random.key(1), (1, 2)))
    params = jax.tree.map(lambda leaf: leaf + jax.random.normal(jax.random.key(2), leaf.shape), params)
    seen, legal = jnp.array([1.0, -2.0, 0.5, 3.0]), jnp.ones(3, bool)
    each = jax.vmap(lambda one: network(one, seen, legal).logits)(jax.tree.map(lambda leaf: leaf[0], params))
    one = jax.tree.map(lambda leaf: leaf[0], fuse_parameters(params, weights))
    np.testing.assert_allclose(network(one, seen, legal).logits, weights[0] @ each, rtol=1e-5)


def test_a_single_opponent():
    """Whatever the mixture, the newest policies are answered."""
    met: list[Array] = []

    def respond(key, mixture, start=None, rounds=1):
        met.append(mixture.sigma)
        return Response(None, np.zeros(2), None)

    oracle = single_opponent_oracle(Oracle(None, None, None, respond))
    oracle.respond(jax.random.key(0), mixture_of([[0.5, 0.5, 0], [1, 0, 0]], 2))
    np.testing.assert_array_equal(met[0], [[0, 1, 0], [0, 1, 0]])
    np.testing.assert_array_equal(newest_slot(jnp.array([[True, False]])), [[1, 0]])
