"""Generators and their Jacobians."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.policies.generator import Hypernetwork, encode_angles, jacobian_norm
from gems_jax.policies.mlp import MlpPolicy

LEGAL = jnp.asarray([True, True, False])
POLICY = MlpPolicy(observation_size=4, num_actions=3, hidden=(5,))


@pytest.fixture(scope="module")
def hyper():
    generator = Hypernetwork(POLICY, latent_dim=2, widths=(6,))
    return generator, generator.init(jax.random.key(0), 0.7)


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


def test_errors_say_what_to_do():
    generator = Hypernetwork(POLICY, 2, ())
    theta = generator.init(jax.random.key(0), 1.0)
    with pytest.raises(ValueError, match="expected one of exact, gram, hutchinson"):
        jacobian_norm(generator, theta, jnp.ones(2), "magic")
    with pytest.raises(ValueError, match="needs a key, got None"):
        jacobian_norm(generator, theta, jnp.ones(2), "hutchinson")


def test_illegal_actions_are_never_played(hyper):
    generator, theta = hyper
    output = POLICY(generator(theta, jnp.zeros(2)), jnp.ones(4), LEGAL)
    assert jax.nn.softmax(output.logits)[2] == 0.0


def test_codes_of_constant_norm():
    """cos and sin of 0, pi / 2 and pi by hand; the norm is sqrt(D); the Jacobian's forms agree."""
    found = encode_angles(jnp.asarray([0.0, 1.0, 2.0]))
    np.testing.assert_allclose(found, [1, 0, -1, 0, 1, 0], atol=1e-6)
    assert jnp.linalg.norm(encode_angles(jnp.asarray([0.3, -7.0]))) == pytest.approx(np.sqrt(2.0), rel=1e-5)
    generator = Hypernetwork(POLICY, latent_dim=2, widths=(6,), constant_norm=True)
    theta, z = generator.init(jax.random.key(0), 0.7), jnp.asarray([0.3, -1.0])
    plain = Hypernetwork(POLICY, latent_dim=4, widths=(6,))
    chex.assert_trees_all_close(generator(theta, z), plain(theta, encode_angles(z)), rtol=1e-5)
    gram, exact = (float(jacobian_norm(generator, theta, z, method)) for method in ("gram", "exact"))
    assert gram == pytest.approx(exact, rel=1e-5)


def test_without_scale_all_codes_start_as_the_base(hyper):
    """And the output layer learns: its gradient is not zero."""
    generator, _ = hyper
    theta = generator.init(jax.random.key(0), 0.0)
    for z in (jnp.zeros(2), jnp.ones(2)):
        chex.assert_trees_all_equal(generator(theta, z), theta["base"])
    gradient = jax.grad(lambda t: jax.tree.leaves(generator(t, jnp.ones(2)))[0].sum())(theta)
    assert abs(gradient["output"]).max() > 0
