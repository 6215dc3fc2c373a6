"""Action distributions against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import distributions
from gems_jax.types import PolicyOutput


def categorical(probabilities, legal=None):
    logits = jnp.log(jnp.asarray(probabilities))
    legal = jnp.ones(logits.shape, bool) if legal is None else jnp.asarray(legal)
    return PolicyOutput(logits=distributions.mask_logits(logits, legal))


def test_categorical_closed_forms():
    output = categorical([0.5, 0.25, 0.25])
    assert distributions.log_prob(output, jnp.int32(1)) == pytest.approx(np.log(0.25), abs=1e-6)
    assert distributions.entropy(output) == pytest.approx(1.5 * np.log(2), abs=1e-6)
    uniform = categorical([1 / 3, 1 / 3, 1 / 3])
    expected = 0.5 * np.log(0.5 * 3) + 0.5 * np.log(0.25 * 3)
    assert distributions.kl(output, uniform) == pytest.approx(expected, abs=1e-6)
    assert distributions.kl(output, output) == pytest.approx(0.0, abs=1e-6)


def test_a_trembling_hand_mixes_in_any_legal_action():
    output = categorical([0.25, 0.5, 0.25], [True, False, True])
    legal = jnp.asarray([True, False, True])
    sure = categorical([1.0, 1e-30, 1e-30], legal)
    for share, expected in [(0.0, [1, 0, 0]), (0.5, [0.75, 0, 0.25]), (1.0, [0.5, 0, 0.5])]:
        shaken = distributions.tremble(sure, legal, share)
        np.testing.assert_allclose(jax.nn.softmax(shaken.logits), expected, atol=1e-6)
    np.testing.assert_allclose(jax.nn.softmax(distributions.tremble(output, legal, 0.3).logits), [0.5, 0, 0.5])
    with pytest.raises(ValueError, match="abr_tremble=0"):
        distributions.tremble(PolicyOutput(mean=jnp.zeros(2), log_std=jnp.zeros(2)), legal, 0.1)


def test_inverse_cdf_hits_each_action_at_its_quantiles_and_never_an_illegal_one():
    output = categorical([0.25, 0.5, 0.25], [True, False, True])  # renormalised to 1/2, 0, 1/2
    noise = jnp.asarray([0.0, 0.49, 0.51, 1.0 - 2.0**-24])
    assert jax.vmap(lambda u: distributions.sample(output, u))(noise).tolist() == [0, 0, 2, 2]


@pytest.mark.parametrize(
    "legal", [[True, False, False, True], [False, True, False, False], [False, False, False, True]]
)
def test_sampled_actions_are_legal(legal):
    logits = jax.random.normal(jax.random.key(0), (500, 4)) * 20.0
    noise = jax.random.uniform(jax.random.key(1), (500,))
    draw = lambda row, u: distributions.sample(  # noqa: E731
        PolicyOutput(logits=distributions.mask_logits(row, jnp.asarray(legal))), u
    )
    actions = jax.vmap(draw)(logits, noise)
    assert np.asarray(legal)[np.asarray(actions)].all()


def test_sample_frequencies():
    output = categorical([0.1, 0.6, 0.3])
    noise = distributions.draw_noise(jax.random.key(0), (20_000,), 3, continuous=False)
    counts = np.bincount(jax.vmap(lambda u: distributions.sample(output, u))(noise), minlength=3) / 20_000
    # Standard errors are below 0.0036: five of them, failure probability below 2e-6.
    np.testing.assert_allclose(counts, [0.1, 0.6, 0.3], atol=0.018)


def test_masked_gradients_are_finite():
    legal = jnp.asarray([True, False])

    def loss(logits):
        output = PolicyOutput(logits=distributions.mask_logits(logits, legal))
        other = PolicyOutput(logits=distributions.mask_logits(2.0 * logits, legal))
        return distributions.entropy(output) + distributions.kl(output, other) + distributions.log_prob(output, 0)

    assert jnp.isfinite(jax.grad(loss)(jnp.asarray([1.0, 3.0]))).all()


def test_squashed_gaussian():
    output = PolicyOutput(mean=jnp.asarray([0.3, -0.2]), log_std=jnp.log(jnp.asarray([0.5, 2.0])))
    noise = jnp.asarray([0.7, -0.4])
    action = distributions.sample(output, noise)
    base = np.asarray([0.3 + 0.35, -0.2 - 0.8])
    np.testing.assert_allclose(action, np.tanh(base), atol=1e-6)
    normal = -0.5 * np.asarray([0.49, 0.16]) - np.log([0.5, 2.0]) - 0.5 * np.log(2 * np.pi)
    expected = (normal - np.log(1 - np.tanh(base) ** 2)).sum()
    assert distributions.log_prob(output, action) == pytest.approx(expected, abs=1e-4)
    other = PolicyOutput(mean=jnp.zeros(2), log_std=jnp.zeros(2))
    kl = (0.5 * (np.asarray([0.25, 4.0]) + np.asarray([0.09, 0.04]) - 1) - np.log([0.5, 2.0])).sum()
    assert distributions.kl(output, other) == pytest.approx(kl, abs=1e-5)
    assert distributions.entropy(other) == pytest.approx(np.log(2 * np.pi * np.e), abs=1e-5)
    extreme = PolicyOutput(mean=jnp.asarray([50.0, -50.0]), log_std=jnp.zeros(2))
    assert jnp.isfinite(distributions.log_prob(extreme, distributions.sample(extreme, noise)))
