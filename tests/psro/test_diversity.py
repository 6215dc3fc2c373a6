"""The diversity bonus by hand: 0 for a copy, 1 - exp(-KL) for others, gradients away from what is held."""

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.learning.batches import Experience, Learner
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.ppo import bounded_divergence, diversity_penalty
from gems_jax.types import PolicyOutput


def apply(phi, observation, legal):
    return PolicyOutput(logits=phi)


LEARNER = Learner(policy=lambda params, code: params["policy"], value=lambda params, code, seen: 0.0, apply=apply)
HELD = StackedPolicies(jnp.array([[0.0, 0.0], [9.0, -9.0]]), apply)  # uniform, and the first action


def batch_of(acted):
    rows = jnp.asarray(acted).reshape(1, -1)
    zero, one = jnp.zeros(rows.shape), jnp.int32(0)
    return Experience(
        jnp.zeros((1, 0)), zero[..., None], jnp.ones((*rows.shape, 2), bool), jnp.zeros(rows.shape, jnp.int32), zero,
        rows, zero, zero, one, one, zero, zero[..., None],
    )  # fmt: skip


def bonus(logits, sigma, weight=1.0):
    penalty = diversity_penalty(LEARNER, HELD, jnp.asarray(sigma), weight)
    return -penalty({"policy": jnp.asarray(logits)}, [batch_of([True, True, False])], jax.random.key(0))


def test_differences_by_hand():
    uniform, pure = PolicyOutput(logits=jnp.zeros(2)), PolicyOutput(logits=jnp.array([50.0, -50.0]))
    assert float(bounded_divergence(uniform, uniform)) == 0
    np.testing.assert_allclose(bounded_divergence(pure, uniform), 0.5, atol=1e-6)  # KL = log 2
    np.testing.assert_allclose(bounded_divergence(uniform, pure), 1.0, atol=1e-6)


def test_the_bonus_of_a_population():
    np.testing.assert_allclose(bonus([0.0, 0.0], [1.0, 0.0]), 0.0, atol=1e-6)
    np.testing.assert_allclose(bonus([9.0, -9.0], [0.0, 1.0]), 0.0, atol=1e-6)
    np.testing.assert_allclose(bonus([9.0, -9.0], [1.0, 0.0], weight=3.0), 1.5, atol=1e-4)


def test_gradients_lead_away():
    """From a hedged policy, away from the one that takes the first action."""
    slope = jax.grad(lambda logits: bonus(logits, [0.0, 1.0]))(jnp.array([2.0, 0.0]))
    assert slope[0] < 0 < slope[1]
