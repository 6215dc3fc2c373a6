"""Distillation with known answers: a student that agrees stays, a plain one becomes the average."""

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax import make_game
from gems_jax.extensive.infosets import tabular_policies
from gems_jax.psro.distil import Teachers, distil, new_pupil
from gems_jax.psro.settings import Learning, learning_of
from gems_jax.types import Profile

GAME = make_game("rock_paper_scissors")
LEARNING = learning_of(Learning(policy="tabular", opponents=32), GAME)


def plain_student(teachers, first, rounds, rate):
    """What player 0's plain student plays [A] after learning from teachers [J, A], all drawn alike."""
    stacked = tabular_policies(GAME, jnp.broadcast_to(jnp.asarray(teachers)[None, :, None], (2, len(teachers), 2, 3)))
    start = tabular_policies(GAME, jnp.broadcast_to(jnp.asarray(first), (2, 1, 2, 3)))
    params = jax.tree.map(lambda leaf: leaf[:, 0], start.params)
    alike = jnp.ones((2, len(teachers)))
    student, metrics = distil(
        jax.random.key(0), GAME, LEARNING, jnp.int32(rounds),
        Teachers(stacked, alike, jnp.zeros((len(teachers), 0))), Profile(stacked, alike / len(teachers)),
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
