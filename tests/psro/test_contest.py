"""Multiplicative weights of the restricted side: updates and averages by hand, and a known equilibrium."""

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.psro.anytime import EPSRO
from gems_jax.psro.contest import (
    Weights,
    anneal_learning,
    annealing_factor,
    carry_weights,
    initial_weights,
    update_weights,
)
from gems_jax.psro.settings import Learning

ACTIVE = jnp.array([True, True, False])


def single(active):
    """Uniform weights of one population."""
    return jax.tree.map(lambda leaf: leaf[0], initial_weights(active[None]))


def test_weights_go_to_whoever_costs_the_learner_most():
    """The restricted side minimizes what the learner earns: 1 from the first policy, 0 from the second."""
    weights = single(ACTIVE)
    for _ in range(30):
        weights = update_weights(weights, ACTIVE, jnp.array([1.0, 1.0, 0.0]), jnp.array([0, 0, 1]), 0.3)
    masses = np.exp(weights.log_weight)
    assert masses[1] > 0.99 and masses[2] == 0
    np.testing.assert_allclose(weights.cost[:2], [1.0, 0.0], atol=1e-6)
    assert float(weights.age) == 30


def test_one_update_by_hand():
    """Costs 1 and 1/2 at step size 2: the ratio of the weights becomes exp(-2 * 1/2)."""
    weights = update_weights(single(ACTIVE), ACTIVE, jnp.array([1.0, 0.0, 1.0]), jnp.array([0, 1, 1]), 2.0)
    np.testing.assert_allclose(weights.cost[:2], [1.0, 0.5])
    np.testing.assert_allclose(weights.log_weight[0] - weights.log_weight[1], -1.0, rtol=1e-6)
    np.testing.assert_allclose(weights.average, [0.5, 0.5, 0.0])  # the mixture before the update


def test_costs_weigh_episodes_equally():
    """Three episodes, then one: discounted sums, not the mean of the rounds' means. Unmet policies are neutral."""
    active = jnp.ones(3, bool)
    first = update_weights(single(active), active, jnp.array([1.0, 1.0, 1.0]), jnp.array([0, 0, 0]), 0.0)
    second = update_weights(first, active, jnp.array([0.0, 0.5]), jnp.array([0, 1]), 0.0)
    overall = (0.7 * 3 + 0.5) / (0.7 * 3 + 2)
    np.testing.assert_allclose(second.cost, [0.7 * 3 / (0.7 * 3 + 1), 0.5, overall], rtol=1e-6)


def test_the_average_is_linear_in_the_round():
    """Mixtures m1, m2, m3 count 1, 2, 3 of 6."""
    mixtures = np.array([[0.5, 0.5], [0.9, 0.1], [0.2, 0.8]])
    weights = single(jnp.ones(2, bool))
    for mixture in mixtures:
        weights = update_weights(
            weights._replace(log_weight=jnp.log(mixture)), jnp.ones(2, bool), jnp.zeros(1), jnp.zeros(1, int), 0.1
        )
    np.testing.assert_allclose(weights.average, np.average(mixtures, axis=0, weights=[1, 2, 3]), rtol=1e-6)


def test_what_the_next_iteration_starts_from():
    """The last average with probability 0.9, the newcomer included in the rest; the age shrinks to 0.8 of it."""
    old = initial_weights(jnp.ones((2, 2), bool))
    old = old._replace(average=jnp.array([[0.25, 0.75], [1.0, 0.0]]), age=jnp.array([10.0, 10.0]), met=old.met + 3)
    active = jnp.array([[True, True, True, False]] * 2)
    new = carry_weights(old, active, 0.9, 0.8)
    np.testing.assert_allclose(
        np.exp(new.log_weight), 0.9 * np.array([[0.25, 0.75, 0, 0], [1, 0, 0, 0]]) + 0.1 * np.array([1, 1, 1, 0]) / 3,
        rtol=1e-6,
    )  # fmt: skip
    np.testing.assert_allclose(new.average, [[0.25, 0.75, 0, 0], [1, 0, 0, 0]])
    np.testing.assert_allclose(new.age, 8.0)
    assert not new.met.any()
    again = carry_weights(old, active, 0.0, 0.0)
    np.testing.assert_allclose(np.exp(again.log_weight), np.array([[1, 1, 1, 0]] * 2) / 3, rtol=1e-6)
    assert not again.age.any()


def test_a_restricted_game_with_a_known_equilibrium():
    """[[2, -1], [-1, 1]] for the learner: against best responses the average goes to (2/5, 3/5), value 1/5."""
    payoffs, active = jnp.array([[2.0, -1.0], [-1.0, 1.0]]), jnp.ones(2, bool)

    def one_round(weights: Weights, _):
        best = jnp.argmax(payoffs @ jnp.exp(weights.log_weight))
        return update_weights(weights, active, (payoffs[best] + 1) / 3, jnp.arange(2), 0.1), None

    weights, _ = jax.lax.scan(one_round, single(active), None, length=2000)
    np.testing.assert_allclose(weights.average, [0.4, 0.6], atol=0.02)
    assert float((payoffs @ weights.average).max()) < 0.2 + 0.05


def test_step_sizes_fall_with_the_square_root_of_the_iteration():
    np.testing.assert_allclose([annealing_factor(EPSRO, t) for t in (0, 3, 15)], [1.0, 0.5, 0.25])
    assert annealing_factor(EPSRO.replace(anneal=0.0), 7) == 1.0
    changed = anneal_learning(Learning(learning_rate=0.08, critic_learning_rate=0.02), 0.5)
    assert (changed.learning_rate, changed.critic_learning_rate) == (0.04, 0.02)
