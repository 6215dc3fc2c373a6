"""Policy networks, the critic, their layers and initializers."""

import dataclasses

import chex
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import GemsConfig, make_game
from gems_jax.gems.step import gems_networks
from gems_jax.policies.critic import Critic
from gems_jax.policies.mlp import MlpPolicy
from gems_jax.policies.networks import HalfPolicy, orthogonal


@pytest.mark.parametrize("shape", [(5, 5), (9, 4), (4, 9), (6, 1), (3, 3, 4, 7)])
def test_orthogonal_kernels_are_those_of_flax(shape):
    ours, theirs = (make(1.5)(jax.random.key(2), shape) for make in (orthogonal, nn.initializers.orthogonal))
    assert ours.shape == theirs.shape and ours.dtype == theirs.dtype
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    flat = np.asarray(ours).reshape(-1, shape[-1])
    gram = flat.T @ flat if flat.shape[0] >= flat.shape[1] else flat @ flat.T
    np.testing.assert_allclose(gram, 2.25 * np.eye(len(gram)), atol=1e-5)


def test_a_large_kernel_is_orthogonal():
    kernel = np.asarray(jax.jit(lambda key: orthogonal(1.0)(key, (672, 256)))(jax.random.key(0)))
    np.testing.assert_allclose(kernel.T @ kernel, np.eye(256), atol=1e-5)


def test_mlp_policy_by_hand():
    policy = MlpPolicy(2, 2, (1,))
    phi = {
        "layer_0": {"kernel": jnp.asarray([[1.0], [2.0]]), "bias": jnp.asarray([0.5])},
        "head": {"kernel": jnp.asarray([[3.0, -1.0]]), "bias": jnp.asarray([0.0, 1.0])},
    }
    logits = policy(phi, jnp.asarray([0.1, 0.2]), jnp.ones(2, bool)).logits
    hidden = np.tanh(0.1 + 0.4 + 0.5)
    np.testing.assert_allclose(logits, [3 * hidden, 1 - hidden], rtol=1e-6)
    cool = policy(policy.temper(phi, 2.0), jnp.asarray([0.1, 0.2]), jnp.ones(2, bool)).logits
    np.testing.assert_allclose(cool, logits / 2, rtol=1e-6)


@pytest.mark.parametrize("channels", [0, 2])
@pytest.mark.parametrize("hidden", [(), (5,), (5, 3)])
def test_a_critic_is_the_dense_network_on_observation_and_code_joined(hidden, channels):
    critic = Critic((2, 2, 3), latent_dim=2, hidden=hidden, channels=channels)
    params = critic.init(jax.random.key(0))
    seen, codes = jax.random.normal(jax.random.key(1), (4, 2, 2, 3)), jax.random.normal(jax.random.key(2), (3, 2))
    mlp = params["mlp"] if channels else params

    def joined(params, seen, code):
        squares = jnp.tanh(seen @ params["embed"]["kernel"] + params["embed"]["bias"][None, None]) if channels else seen
        x, own = jnp.concatenate([squares.reshape(-1), code]), params["mlp"] if channels else params
        for number in range(len(hidden)):
            x = jnp.tanh(x @ own[f"layer_{number}"]["kernel"] + own[f"layer_{number}"]["bias"])
        return (x @ own["head"]["kernel"] + (own["head"]["bias"] if hidden else 0.0))[0]

    def all_pairs(value):
        return lambda p: jax.vmap(lambda z: jax.vmap(lambda s: value(p, s, z))(seen))(codes)

    assert set(mlp) == {*(f"layer_{number}" for number in range(len(hidden))), "head"}
    np.testing.assert_allclose(all_pairs(critic)(params), all_pairs(joined)(params), rtol=1e-5, atol=1e-6)
    gradients = (jax.grad(lambda p, v=v: jnp.sum(all_pairs(v)(p) ** 2))(params) for v in (critic, joined))
    chex.assert_trees_all_close(*gradients, rtol=1e-4, atol=1e-6)


def test_continuous_head_and_critic():
    policy = MlpPolicy(4, 3, (5,), continuous=True)
    output = policy(policy.init(jax.random.key(0)), jnp.ones(4), jnp.ones(3, bool))
    assert output.logits is None and output.mean.shape == (3,) and output.log_std.shape == (3,)
    for critic in (Critic((2, 2, 3), 2, (8,)), Critic((2, 2, 3), 2, (8,), channels=4)):
        assert critic(critic.init(jax.random.key(0)), jnp.ones((2, 2, 3)), jnp.ones(2)).shape == ()


def test_bfloat16_is_near_float32_and_only_inside():
    network, critic = MlpPolicy(5, 3, (16,)), Critic((5,), 2, (16,))
    phi, params = network.init(jax.random.key(0)), critic.init(jax.random.key(1))
    phi = jax.tree.map(lambda leaf: leaf + 0.3, phi)
    seen, legal, z = jnp.linspace(-1.0, 1.0, 5), jnp.asarray([True, True, False]), jnp.ones(2)
    exact, rounded = (each(phi, seen, legal).logits for each in (network, HalfPolicy(network)))
    np.testing.assert_allclose(rounded[:2], exact[:2], rtol=0.02, atol=0.02)
    assert rounded.dtype == jnp.float32 and not np.array_equal(rounded, exact)
    assert jax.nn.softmax(rounded)[2] == 0.0
    half = dataclasses.replace(critic, half=True)
    assert half(params, seen, z).dtype == jnp.float32
    np.testing.assert_allclose(half(params, seen, z), critic(params, seen, z), atol=0.02)
    gradients = jax.grad(lambda p: HalfPolicy(network)(p, seen, legal).logits[0])(phi)
    assert {leaf.dtype for leaf in jax.tree.leaves(gradients)} == {jnp.dtype("float32")}
    config = GemsConfig(policy="mlp", policy_hidden=(8,), precision="bfloat16")
    nets = gems_networks(make_game("biased_rps", a=1, b=2, c=3), config)
    assert isinstance(nets.generator.policy, HalfPolicy) and nets.critic.half
