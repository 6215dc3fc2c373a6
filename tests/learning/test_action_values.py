"""Advantages by a critic of action values: exact ones by hand, targets of the critic, and training."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import GemsConfig, make_game
from gems_jax.extensive.infosets import infoset_policy
from gems_jax.learning.batches import Learner
from gems_jax.learning.collection import PlaySettings, collect_episodes
from gems_jax.learning.gae import doubly_robust_weights, expected_value
from gems_jax.learning.networks import critic_network
from gems_jax.learning.ppo import (
    SURROGATES,
    LossSettings,
    TrainSettings,
    init_optimizers,
    policy_gradient_loss,
    train_learner,
)
from gems_jax.policies.population import StackedPolicies
from toy_games import STOP, TAKE, WAIT, Purse, constant, pure

KUHN = make_game("kuhn_poker")
TABLE = infoset_policy(KUHN)
NO_CODE = jnp.zeros((1, 0))
ONE = jnp.zeros((2, 1))  # log_sigma of populations of one
PLAY = np.array([0.75, 0.25])  # seat 0 bets with probability 3/4 everywhere, seat 1 with 1/2

# Q of (bet, pass) in chips, by card (J, Q, K). After pass-bet: call for +-2 or fold for -1; the queen beats one of two.
AFTER_A_BET = np.array([[-2.0, -1.0], [0.0, -1.0], [2.0, -1.0]])
LATER = AFTER_A_BET @ PLAY  # V: (-1.75, -0.25, 1.25)
# A bet earns 1 or is called for +-2. A pass leads to a showdown for +-1 or to a bet.
FIRST = np.stack([0.5 + np.array([-1.0, 0.0, 1.0]), 0.5 * np.array([-1.0, 0.0, 1.0]) + 0.5 * LATER], axis=1)


def find_nodes(observations):
    """The card, and whether the betting has not started, of observations [..., 13] of seat 0."""
    seen = np.asarray(observations)
    return seen[..., :3].argmax(axis=-1), ~seen[..., 7:11].any(axis=-1)


def exact_values(observations):
    """Q [..., A] of seat 0, in units of the scaled return."""
    card, first = find_nodes(observations)
    return np.where(first[..., None], FIRST[card], AFTER_A_BET[card]) / 4


@partial(jax.jit, static_argnames="episodes")
def play_exactly(episodes, decay):
    """Episodes of seat 0 against uniform play, with the exact critic."""
    known = jnp.asarray(exact_values(TABLE.observations), jnp.float32)
    learner = Learner(
        policy=lambda params, code: jnp.tile(jnp.log(jnp.asarray(PLAY)), (len(known), 1)),
        value=lambda params, code, observation: known[TABLE.find_row(observation)],
        apply=TABLE,
    )
    uniform = StackedPolicies(jnp.zeros((2, 1, *known.shape)), TABLE)
    settings = PlaySettings(num_opponents=episodes, episodes=1, discount=1.0, decay=decay)
    return collect_episodes(jax.random.key(0), KUHN, learner, (), NO_CODE, uniform, ONE, settings)


@pytest.mark.parametrize("episodes", [3, 64])  # fewer rows than information sets, and more: the critic on a table
def test_exact_action_values_have_exact_advantages(episodes):
    """A(o, a) = Q(o, a) - V(o) whatever is dealt and played: (K, bet) at the root is worth 1.5 - 1.40625 chips."""
    np.testing.assert_allclose(FIRST, [[-0.5, -1.375], [0.5, -0.125], [1.5, 1.125]])
    batch = play_exactly(episodes, decay=0.9)
    values, acted = exact_values(batch.observation), np.asarray(batch.acted)
    taken = np.take_along_axis(values, np.asarray(batch.action)[..., None], axis=-1)[..., 0]
    np.testing.assert_allclose(batch.advantage, np.where(acted, taken - values @ PLAY, 0.0), atol=1e-6)
    card, first = find_nodes(batch.observation)
    king = np.asarray(batch.advantage)[acted & first & (card == 2) & (np.asarray(batch.action) == 0)]
    np.testing.assert_allclose(king, 0.09375 / 4, atol=1e-6)


def test_targets_are_lambda_returns():
    """lambda = 1: the return of the episode. lambda = 0: r + V(o'), the mean over the actions of the next decision."""
    whole, one_step = play_exactly(64, decay=1.0), play_exactly(64, decay=0.0)
    acted = np.asarray(whole.acted).reshape(64, 3)
    earned = np.broadcast_to(np.asarray(whole.earned).reshape(64, 1), (64, 3))
    np.testing.assert_allclose(np.asarray(whole.target).reshape(64, 3)[acted], earned[acted], atol=1e-6)
    later = acted[:, 2]  # pass-bet: the root's target is the value of the second decision
    card, _ = find_nodes(one_step.observation.reshape(64, 3, -1)[:, 0])
    expected = np.where(later, LATER[card] / 4, earned[:, 0])
    assert 8 < later.sum() < 56
    np.testing.assert_allclose(np.asarray(one_step.target).reshape(64, 3)[:, 0], expected, atol=1e-6)


def test_expected_value_by_hand():
    """0.25 * 4 + 0.75 * (-2); an illegal action has no weight, whatever its number."""
    got = expected_value(jnp.array([[4.0, -2.0, 99.0]]), jnp.array([[0.25, 0.75, 0.0]]))
    np.testing.assert_allclose(got, [-0.5])


def test_doubly_robust_weights_by_hand():
    """V = 2.5, return 2 after the first action: (1/4 (1 - 2.5) + (2 - 1), 3/4 (3 - 2.5), 0)."""
    got = doubly_robust_weights(
        jnp.array([1.0, 3.0, 9.0]), jnp.array([0.25, 0.75, 0.0]), jnp.int32(0), jnp.float32(2.0)
    )
    np.testing.assert_allclose(got, [0.625, 0.375, 0.0])


@pytest.mark.parametrize("critic", [[1.0, -2.0, 5.0], [0.0, 3.0, 1.0]])
def test_doubly_robust_gradients_are_unbiased_for_any_critic(critic):
    """The mean over actions is p_k (r_k - E[r]), the policy gradient; with the exact critic so is every single one."""
    earned, probs, critic = jnp.array([0.0, 3.0, 1.0]), jnp.array([0.5, 0.2, 0.3]), jnp.array(critic)
    weights = jnp.stack([doubly_robust_weights(critic, probs, jnp.int32(a), earned[a]) for a in range(3)])
    gradients = weights - probs[None] * weights.sum(axis=1, keepdims=True)  # of sum_b w(b) log softmax(x)_b
    expected = probs * (earned - probs @ earned)
    np.testing.assert_allclose(probs @ gradients, expected, atol=1e-6)
    if bool((critic == earned).all()):
        np.testing.assert_allclose(gradients, jnp.tile(expected, (3, 1)), atol=1e-6)


def test_weights_are_normalized_by_their_norm():
    """Decisions with weights (3, 4) and (0, 1): the mean of the squared norms is (25 + 1) / 2."""
    batch = play_exactly(3, decay=0.9)
    weights = jnp.zeros((*batch.acted.shape, 2)).at[0, :2].set(jnp.array([[3.0, 4.0], [0.0, 1.0]]))
    acted = jnp.zeros_like(batch.acted).at[0, :2].set(True)
    got = batch.replace(advantage=weights, acted=acted).normalize_advantages().advantage
    np.testing.assert_allclose(got, weights / np.sqrt(13.0), rtol=1e-5)


# Trainable logits and action values, whatever the code and the observation.
PLAIN = Learner(
    policy=lambda params, code: params["actor"],
    value=lambda params, code, observation: params["critic"],
    apply=constant,
)


def test_a_time_limit_bootstraps_from_the_mean_over_actions():
    """Purse of two moves, width 4, discount 0.9. The policy always takes and Q(take) = 0.3, so V = 0.3 at the limit.

    TAKE against TAKE: 1/4 - 1/4 + 0.27. STOP ends the game: no bootstrap.
    """
    learner = PLAIN._replace(policy=lambda params, code: code)
    codes, others = pure(3, TAKE, STOP), StackedPolicies(pure(3, TAKE)[None].repeat(2, axis=0), constant)
    values = {"critic": jnp.zeros(3).at[jnp.array([WAIT, TAKE, STOP])].set(jnp.array([9.0, 0.3, 0.1]))}
    settings = PlaySettings(num_opponents=2, episodes=1, discount=0.9, decay=0.5)
    batch = jax.jit(lambda key: collect_episodes(key, Purse(2), learner, values, codes, others, ONE, settings))(
        jax.random.key(0)
    )
    np.testing.assert_allclose(batch.target[:, 0], [0.25 - 0.25 + 0.9 * 0.3, 0.0], atol=1e-6)
    np.testing.assert_allclose(batch.advantage[:, 0], [0.0, 0.0], atol=1e-6)


@pytest.mark.parametrize(("surrogate", "doubly_robust"), [("ppo", False), ("ppo", True), ("a2c", True)])
def test_a_critic_learns_action_values_and_a_policy_learns_from_them(surrogate, doubly_robust):
    """Against rock the actions earn (0, 1, -3) of a width of 6, without noise; paper is best."""
    game = make_game("biased_rps", a=1, b=2, c=3)
    rock = StackedPolicies(jnp.stack([pure(3, 0)] * 2), constant)

    @jax.jit
    def train(key, rates):
        start = {"actor": jnp.zeros(3), "critic": jnp.zeros(3)}
        weights = LossSettings(SURROGATES[surrogate], 0.2, value_weight=0.5, entropy_weight=0.0)
        play = PlaySettings(32, episodes=1, discount=1.0, decay=0.95, doubly_robust=doubly_robust)

        def experience(step_key, params, carry):
            return [collect_episodes(step_key, game, PLAIN, params, NO_CODE, rock, ONE, play)], carry

        return train_learner(
            key,
            start,
            init_optimizers(start, 0.5),
            learner=PLAIN,
            experience=experience,
            loss=partial(policy_gradient_loss, learner=PLAIN, settings=weights),
            settings=TrainSettings(1, rates, gradient_clip=0.5, minibatches=2),
            steps=100,
        )[0]

    values = train(jax.random.key(0), {"actor": 0.0, "critic": 0.02})["critic"]
    np.testing.assert_allclose(values, np.array([0.0, 1.0, -3.0]) / 6, atol=0.005)
    learned = train(jax.random.key(1), {"actor": 0.1, "critic": 0.02})
    assert jax.nn.softmax(learned["actor"])[1] > 0.95
    np.testing.assert_allclose(learned["critic"][1], 1 / 6, atol=0.005)


def test_continuous_actions_are_rejected():
    game = make_game("simple_spread", continuous=True)
    with pytest.raises(ValueError, match="advantage='q' needs one critic output per action"):
        critic_network(game, GemsConfig(advantage="q"), 2)
