"""Distillation with known answers: penalties by hand, a student that agrees stays, a plain one becomes the average."""

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax import make_game
from gems_jax.extensive.infosets import tabular_policies
from gems_jax.learning.batches import Experience, Learner
from gems_jax.learning.networks import policy_network
from gems_jax.learning.ppo import zero_metrics
from gems_jax.policies.generator import Hypernetwork
from gems_jax.psro.base import Cost
from gems_jax.psro.distil import (
    Teachers,
    distil,
    distil_cost,
    imitation_penalty,
    new_pupil,
    pupil_policy,
    zero_surrogate,
)
from gems_jax.psro.settings import Learning, learning_of
from gems_jax.types import PolicyOutput, Profile

GAME = make_game("rock_paper_scissors")
LEARNING = learning_of(Learning(policy="tabular", opponents=32), GAME)


def plain_student(teachers, first, rounds, rate, weights=None):
    """What player 0's plain student plays [A] after learning from teachers [J, A], drawn with weights [J]."""
    stacked = tabular_policies(GAME, jnp.broadcast_to(jnp.asarray(teachers)[None, :, None], (2, len(teachers), 2, 3)))
    start = tabular_policies(GAME, jnp.broadcast_to(jnp.asarray(first), (2, 1, 2, 3)))
    params = jax.tree.map(lambda leaf: leaf[:, 0], start.params)
    alike = jnp.ones((2, len(teachers)))
    drawn = alike if weights is None else jnp.broadcast_to(jnp.asarray(weights), alike.shape)
    student, metrics = distil(
        jax.random.key(0), GAME, LEARNING, jnp.int32(rounds),
        Teachers(stacked, drawn, jnp.zeros((len(teachers), 0))), Profile(stacked, alike / len(teachers)),
        new_pupil(params, LEARNING), rate,
    )  # fmt: skip
    assert metrics.env_steps.tolist() == [32 * rounds] * 2
    return np.asarray(jax.nn.softmax(student.params["policy"][0][0]))


def test_a_student_that_agrees_stays():
    """KL is 0 and has no gradient there; the actions of a mixed policy, drawn, would move it by several rates."""
    mixed = np.array([0.5, 0.3, 0.2], np.float32)
    np.testing.assert_allclose(plain_student([mixed], mixed, rounds=20, rate=0.05), mixed, atol=1e-3)


def test_a_plain_student_becomes_the_average():
    """Of (0.8, 0.1, 0.1) and (0.2, 0.1, 0.7): (0.5, 0.1, 0.4) up to the draws."""
    found = plain_student([[0.8, 0.1, 0.1], [0.2, 0.1, 0.7]], np.full(3, 1 / 3, np.float32), rounds=400, rate=0.005)
    np.testing.assert_allclose(found, [0.5, 0.1, 0.4], atol=0.05)


def test_teachers_of_weight_zero_are_not_imitated():
    first = np.full(3, 1 / 3, np.float32)
    found = plain_student([[0.8, 0.1, 0.1], [0.1, 0.1, 0.8]], first, rounds=400, rate=0.005, weights=[1.0, 0.0])
    np.testing.assert_allclose(found, [0.8, 0.1, 0.1], atol=0.02)


# --- the penalty


def apply(phi, observation, legal):
    return PolicyOutput(logits=phi)


def learner_of(policy):
    return Learner(policy=policy, value=lambda params, code, seen: jnp.float32(0), apply=apply)


def batch_of(codes, acted):
    """Rows [G, R] of a game with two actions and nothing to see."""
    rows = jnp.asarray(acted)
    zero, count = jnp.zeros(rows.shape), jnp.int32(0)
    return Experience(
        jnp.asarray(codes), zero[..., None], jnp.ones((*rows.shape, 2), bool), jnp.zeros(rows.shape, jnp.int32), zero,
        rows, zero, zero, count, count, zero, zero[..., None],
    )  # fmt: skip


def test_the_penalty_is_the_divergence_from_the_teacher():
    """KL of (1/2, 1/2) from (p, 1 - p) is -log(4 p (1 - p)) / 2; rows without a decision and codes do not matter."""
    teacher = learner_of(lambda params, code: jnp.zeros(2))
    pupil = learner_of(lambda params, code: params["policy"])
    penalty = imitation_penalty(teacher, pupil)
    batches = [batch_of(jnp.zeros((2, 1)), [[True, False], [True, True]])]
    for share in (0.5, 0.8):
        logits = {"policy": jnp.log(jnp.array([share, 1 - share]))}
        value = penalty(logits, batches, jax.random.key(0))
        np.testing.assert_allclose(value, -0.5 * np.log(4 * share * (1 - share)), atol=1e-6)
        # the gradient of KL(teacher || softmax) is softmax minus the teacher
        slope = jax.grad(lambda params: penalty(params, batches, jax.random.key(0)))(logits)["policy"]
        np.testing.assert_allclose(slope, [share - 0.5, 0.5 - share], atol=1e-6)


def test_the_penalty_tells_both_the_code():
    """Codes 0 and 1 of one batch: the teacher plays (1/2, 1/2) or logits (1, 0), the pupil agrees with both."""
    each = jnp.array([[0.0, 0.0], [1.0, 0.0]])
    by_code = learner_of(lambda params, code: each[code[0].astype(jnp.int32)])
    batch = batch_of([[0.0], [1.0]], [[True], [True]])
    value = imitation_penalty(by_code, by_code)((), [batch], jax.random.key(0))
    np.testing.assert_allclose(value, 0.0, atol=1e-7)
    always_first = learner_of(lambda params, code: each[0])
    value = imitation_penalty(by_code, always_first)((), [batch], jax.random.key(0))
    share = 1 / (1 + np.exp(-1))
    np.testing.assert_allclose(
        value, (np.log(2) + share * np.log(share) + (1 - share) * np.log(1 - share)) / 2, rtol=1e-5
    )


# --- a student with codes


def test_a_student_with_codes_becomes_all_of_its_teachers():
    """One network per population: code j makes it play as teacher j, against profiles that are drawn jointly."""
    wanted = np.array([[0.8, 0.1, 0.1], [0.1, 0.2, 0.7]], np.float32)
    stacked = tabular_policies(GAME, jnp.broadcast_to(wanted[None, :, None], (2, 2, 2, 3)))
    generator, codes = Hypernetwork(policy_network(GAME, LEARNING), 2, ()), jnp.eye(2)
    params = jax.vmap(generator.init)(jax.random.split(jax.random.key(1), 2))
    student, metrics = distil(
        jax.random.key(2), GAME, LEARNING, jnp.int32(200), Teachers(stacked, jnp.ones((2, 2)), codes),
        Profile(stacked, jnp.full(2, 0.5)), new_pupil(params, LEARNING), 0.05, generator, 2,
    )  # fmt: skip
    assert metrics.env_steps.tolist() == [32 * 200] * 2
    for population in range(2):
        own = jax.tree.map(lambda leaf, p=population: leaf[p], student.params["policy"])
        found = [jax.nn.softmax(pupil_policy(generator, own, code)[population]) for code in codes]
        np.testing.assert_allclose(found, wanted, atol=0.02)


def test_nothing_is_earned():
    np.testing.assert_array_equal(zero_surrogate(jnp.array([-1.0, -2.0]), jnp.zeros(2), jnp.ones(2), 0.2), [0, 0])


def test_a_plain_student_is_its_parameters():
    assert pupil_policy(None, "params", jnp.zeros(0)) == "params"
    pupil = new_pupil(jnp.zeros((2, 4)), LEARNING)
    assert set(pupil.params) == set(pupil.opt_state) == {"policy"}
    assert all(len(leaf) == 2 for leaf in jax.tree.leaves(pupil.opt_state))


def test_what_a_distillation_costs():
    """Four passes over a round of every population; all that is played is learned from."""
    metrics = zero_metrics()._replace(episodes=jnp.array([30, 50]), env_steps=jnp.array([100, 200]))
    cost = distil_cost(LEARNING.replace(minibatches=3), metrics, rounds=5)
    assert cost == Cost(episodes=80, env_steps=300, gradient_steps=5 * 4 * 3 * 2, training_steps=300)
