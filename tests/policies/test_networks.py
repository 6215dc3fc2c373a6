"""Generators, their Jacobians, and the policy networks they fill."""

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
from gems_jax.policies.distributions import sample_action
from gems_jax.policies.generator import Concatenated, Hypernetwork, jacobian_norm
from gems_jax.policies.mlp import MlpPolicy
from gems_jax.policies.networks import HalfPolicy, IndexedNetwork, orthogonal
from gems_jax.policies.tabular import TabularPolicy

LEGAL = jnp.asarray([True, True, False])
POLICY = MlpPolicy(observation_size=4, num_actions=3, hidden=(5,))


@pytest.fixture(scope="module")
def hyper():
    generator = Hypernetwork(POLICY, latent_dim=2, widths=(6,))
    return generator, generator.init(jax.random.key(0), 0.7)


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


def test_hypernetwork_is_base_plus_linear_output(hyper):
    generator, theta = hyper
    z = jnp.asarray([0.3, -1.0])
    phi = generator(theta, z)
    chex.assert_trees_all_equal_shapes(phi, POLICY.init(jax.random.key(1)))
    hidden = np.tanh(np.asarray(z) @ theta["layers"][0]["kernel"] + theta["layers"][0]["bias"])
    from jax.flatten_util import ravel_pytree

    expected = ravel_pytree(theta["base"])[0] + hidden @ theta["output"]
    np.testing.assert_allclose(ravel_pytree(phi)[0], expected, rtol=1e-5, atol=1e-6)


def test_jacobian_by_hand_for_a_linear_generator():
    """With no hidden layer phi = base + z W, so ||J||_F^2 is the sum of squares of W."""
    generator = Hypernetwork(POLICY, latent_dim=2, widths=())
    theta = generator.init(jax.random.key(0), 1.0)
    expected = float(jnp.sum(theta["output"] ** 2))
    for method in ("exact", "gram"):
        assert jacobian_norm(generator, theta, jnp.ones(2), method) == pytest.approx(expected, rel=1e-5)


def test_jacobian_forms_agree_and_hutchinson_is_unbiased(hyper):
    generator, theta = hyper
    z = jnp.asarray([0.3, -1.0])
    exact = jacobian_norm(generator, theta, z, "exact")
    assert jacobian_norm(generator, theta, z, "gram") == pytest.approx(float(exact), rel=1e-5)
    keys = jax.random.split(jax.random.key(1), 4000)
    probes = jax.vmap(lambda k: jacobian_norm(generator, theta, z, "hutchinson", k))(keys)
    # Five standard errors of the mean: failure probability below 1e-6.
    assert abs(probes.mean() - exact) < 5 * probes.std() / np.sqrt(4000) + 1e-6
    gradient = jax.grad(lambda t: jacobian_norm(generator, t, z, "gram"))(theta)
    exact_gradient = jax.grad(lambda t: jacobian_norm(generator, t, z, "exact"))(theta)
    chex.assert_trees_all_close(gradient, exact_gradient, rtol=1e-4, atol=1e-4)


def test_jacobian_of_two_layers_agrees_too():
    generator = Hypernetwork(POLICY, latent_dim=2, widths=(5, 3))
    theta, z = generator.init(jax.random.key(0), 1.0), jnp.asarray([0.3, -1.0])
    gram, exact = (
        jax.value_and_grad(lambda t, m=m: jacobian_norm(generator, t, z, m))(theta) for m in ("gram", "exact")
    )
    chex.assert_trees_all_close(gram, exact, rtol=1e-4, atol=1e-5)


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


def test_concatenated_equals_a_network_on_observation_and_code():
    generator = Concatenated(POLICY, latent_dim=2)
    theta = generator.init(jax.random.key(0), 1.0)
    observation, z = jnp.asarray([1.0, 2.0, 3.0, 4.0]), jnp.asarray([0.5, -0.5])
    network = theta["network"]
    kernel = jnp.concatenate([network["layer_0"]["kernel"], theta["code"]])
    hidden = jnp.tanh(jnp.concatenate([observation, z]) @ kernel + network["layer_0"]["bias"])
    expected = hidden @ network["head"]["kernel"] + network["head"]["bias"]
    output = POLICY(generator(theta, z), observation, jnp.ones(3, bool))
    np.testing.assert_allclose(output.logits, expected, rtol=1e-5)
    assert jacobian_norm(generator, theta, z, "gram") == pytest.approx(float(jnp.sum(theta["code"] ** 2)), rel=1e-5)


def test_errors_say_what_to_do():
    with pytest.raises(ValueError, match="policy_hidden"):
        Concatenated(MlpPolicy(4, 3), 2).init(jax.random.key(0), 1.0)
    generator = Hypernetwork(POLICY, 2, ())
    theta = generator.init(jax.random.key(0), 1.0)
    with pytest.raises(ValueError, match="known: 'exact'"):
        jacobian_norm(generator, theta, jnp.ones(2), "magic")
    with pytest.raises(ValueError, match="needs a key"):
        jacobian_norm(generator, theta, jnp.ones(2), "hutchinson")


def test_illegal_actions_are_never_played(hyper):
    generator, theta = hyper
    output = POLICY(generator(theta, jnp.zeros(2)), jnp.ones(4), LEGAL)
    assert jax.nn.softmax(output.logits)[2] == 0.0


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
    with pytest.raises(ValueError, match="hypernetwork"):
        config.replace(generator="concatenated").validate()
