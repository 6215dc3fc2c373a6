"""Generalized advantages by hand: rewards in between, ends of episodes, cuts."""

import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.learning.gae import Outlook, advantages, gae


def gae_of(reward, value, acted, final=0.0, discount=1.0, decay=1.0):
    return np.asarray(
        gae(
            jnp.asarray(reward, jnp.float32),
            jnp.asarray(value, jnp.float32),
            jnp.asarray(acted, bool),
            jnp.float32(final),
            discount,
            decay,
        )
    )


def test_gae_of_a_single_decision():
    """What comes after the only decision is its reward: 0.25 + 0.5 + 1 - 0.4, whatever the discount."""
    for discount, decay in [(1.0, 1.0), (0.5, 0.9)]:
        got = gae_of([0.25, 0.5, 1.0], [0.4, 9.0, 9.0], [1, 0, 0], discount=discount, decay=decay)
        np.testing.assert_allclose(got, [1.35, 0.0, 0.0], rtol=1e-6)


@pytest.mark.parametrize(
    ("final", "decay", "first", "second"),
    [
        # second: 4 + 0.5 final - 0.25; first: (1 + 2) + 0.5 * 0.25 - 0.5 + 0.5 decay * second
        (0.0, 0.8, 4.125, 3.75),
        (2.0, 0.8, 4.525, 4.75),  # truncated: the value of the last observation stands in for what was cut off
        (0.0, 0.0, 2.625, 3.75),  # decay 0: the error of one step
        (0.0, 1.0, 4.5, 3.75),  # decay 1: (1 + 2) + 0.5 * 4 - 0.5, the return less the value
        (2.0, 1.0, 5.0, 4.75),  # and 0.25 * 2 more
    ],
)
def test_gae_of_two_decisions_with_rewards_in_between(final, decay, first, second):
    got = gae_of([1.0, 2.0, 4.0], [0.5, 99.0, 0.25], [1, 0, 1], final, discount=0.5, decay=decay)
    np.testing.assert_allclose(got, [first, 0.0, second], rtol=1e-6)


def test_gae_does_not_look_back_nor_at_seats_that_wait():
    """What was earned before the first decision is not its doing; a seat that never acts has no advantage."""
    np.testing.assert_allclose(gae_of([5.0, 1.0], [9.0, 0.25], [0, 1]), [0.0, 0.75])
    np.testing.assert_allclose(gae_of([5.0, 1.0], [9.0, 9.0], [0, 0], final=3.0), [0.0, 0.0])


def test_long_episodes_are_scanned_to_the_same_numbers():
    """Twelve decisions of reward 1, value 0, no discount: the rewards to go, 12 to 1 (longer than what is unrolled)."""
    np.testing.assert_allclose(gae_of([1.0] * 12, [0.0] * 12, [1] * 12), np.arange(12, 0, -1))


def of(reward, value, acted, terminated, truncated, known=True, final=0.0, discount=0.5, decay=0.5):
    found, learnt = advantages(
        jnp.asarray(reward, jnp.float32), jnp.asarray(value, jnp.float32), jnp.asarray(acted, bool),
        jnp.asarray(terminated, bool), jnp.asarray(truncated, bool), Outlook(jnp.float32(final), jnp.bool_(known)),
        discount, decay,
    )  # fmt: skip
    return np.asarray(found), np.asarray(learnt)


def test_nothing_flows_across_the_end_of_an_episode():
    """Two episodes in a row have the advantages that each has alone."""
    reward, value = [1.0, 2.0, 4.0, 8.0], [0.5, 0.25, 1.0, 3.0]
    both, learnt = of(reward, value, [1, 1, 1, 1], [0, 1, 0, 1], [0, 0, 0, 0])
    alone = [
        gae(jnp.asarray(reward[i : i + 2]), jnp.asarray(value[i : i + 2]), jnp.ones(2, bool), jnp.float32(0), 0.5, 0.5)
        for i in (0, 2)
    ]
    np.testing.assert_allclose(both, np.concatenate(alone), rtol=1e-6)
    # by hand: the last is 8 - 3 = 5, the one before 4 + 0.5 * 3 - 1 + 0.25 * 5 = 5.75
    np.testing.assert_allclose(both[2:], [5.75, 5.0], rtol=1e-6)
    assert learnt.all()


def test_the_decision_before_a_cut_lends_its_value_and_is_not_learned_from():
    """The rows end before the second decision's outcome: 1 + 0.5 * 0.25 - 0.5 for the first, none for the second."""
    found, learnt = of([1.0, 0.0, 2.0], [0.5, 9.0, 0.25], [1, 0, 1], [0, 0, 0], [0, 0, 0], known=False)
    np.testing.assert_allclose(found, [0.625, 0.0, 0.0], rtol=1e-6)
    np.testing.assert_array_equal(learnt, [True, False, False])
    # a time limit in the middle does the same, and the next episode leaves no trace
    found, learnt = of([1.0, 2.0, 7.0], [0.5, 0.25, 3.0], [1, 1, 1], [0, 0, 1], [0, 1, 0])
    np.testing.assert_allclose(found, [0.625, 0.0, 4.0], rtol=1e-6)
    np.testing.assert_array_equal(learnt, [True, False, True])


def test_a_known_outlook_bootstraps():
    found, learnt = of([1.0], [0.5], [1], [0], [0], known=True, final=4.0)
    np.testing.assert_allclose(found, [1.0 + 0.5 * 4.0 - 0.5])
    assert learnt.all()
