"""Surrogates and the training loop, without any generator: numbers by hand, then known best responses."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game
from gems_jax.extensive.values import behavior_table, build_tree, expected_returns, uniform_table
from gems_jax.learning import ppo
from gems_jax.learning.batches import Experience, Learner, masked_mean
from gems_jax.learning.collection import PlaySettings, collect_episodes
from gems_jax.learning.ppo import (
    SURROGATES,
    LossSettings,
    TrainSettings,
    a2c_surrogate,
    apply_gradients,
    make_optimizer,
    policy_gradient_loss,
    ppo_surrogate,
    train_learner,
    zero_penalty,
)
from gems_jax.policies.critic import Critic
from gems_jax.policies.mlp import MlpPolicy
from gems_jax.policies.population import StackedPolicies
from toy_games import STOP, TAKE, WAIT, Purse, constant, pure, team_game


def test_small_parts_move_as_one_vector_as_they_do_one_by_one(monkeypatch):
    """Two steps of Adam with clipped gradients, and a rate of its own for one array."""
    optimizer, key = make_optimizer(0.5), jax.random.key(0)
    part = {"a": jax.random.normal(key, (3, 2)), "b": {"c": jnp.ones(4), "d": jnp.float32(2.0)}}
    rates = {"net": {"a": 0.1, "b": jnp.float32(0.01)}}

    def two_steps():
        params, state = {"net": part}, {"net": optimizer.init(part)}
        for scale in (3.0, 0.1):
            gradients = jax.tree.map(lambda leaf, scale=scale: scale * leaf, params)
            params, state = apply_gradients(optimizer, params, state, gradients, rates)
        return params, state

    together = two_steps()
    monkeypatch.setattr(ppo, "_SMALL", 0)
    chex.assert_trees_all_close(together, two_steps(), rtol=1e-6)


# --- surrogates


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected", "slope"),
    [
        (2.0, 1.0, 1.2, 0.0),  # clipped above: no more to be gained
        (2.0, -1.0, -2.0, -2.0),  # a bad move made likelier is not forgiven
        (0.5, 1.0, 0.5, 0.5),
        (0.5, -1.0, -0.8, 0.0),  # clipped below
        (1.1, 3.0, 3.3, 3.3),
    ],
)
def test_ppo_surrogate_by_hand(ratio, advantage, expected, slope):
    def surrogate(log_prob):
        return ppo_surrogate(log_prob, jnp.log(0.3), jnp.float32(advantage), 0.2)

    value, gradient = jax.value_and_grad(surrogate)(jnp.log(jnp.float32(0.3 * ratio)))
    np.testing.assert_allclose([value, gradient], [expected, slope], rtol=1e-5, atol=1e-6)


def test_a2c_surrogate_by_hand():
    value, gradient = jax.value_and_grad(lambda p: a2c_surrogate(p, jnp.float32(7.0), jnp.float32(-2.0), 0.1))(-0.7)
    np.testing.assert_allclose([value, gradient], [1.4, -2.0], rtol=1e-6)
    assert set(SURROGATES) == {"ppo", "a2c"}


# --- one batch

# Trainable logits and one trainable value, whatever the code and the observation.
PLAIN = Learner(
    policy=lambda params, code: params["actor"],
    value=lambda params, code, observation: params["critic"],
    apply=constant,
)
NO_CODE = jnp.zeros((1, 0))


def hand_batch():
    """One episode of three steps, one seat, two actions, at the last step of which the seat is not to move."""
    shape = (1, 3)
    return Experience(
        code=NO_CODE,
        observation=jnp.zeros((*shape, 2)),
        legal=jnp.ones((*shape, 2), bool),
        action=jnp.asarray([0, 1, 0]).reshape(shape),
        log_prob=jnp.log(jnp.asarray([0.5, 0.25, 1.0])).reshape(shape),
        acted=jnp.asarray([True, True, False]).reshape(shape),
        advantage=jnp.asarray([2.0, -1.0, 100.0]).reshape(shape),
        target=jnp.asarray([1.0, 0.0, 100.0]).reshape(shape),
        episodes=jnp.int32(1),
        env_steps=jnp.int32(3),
        earned=jnp.zeros((1, 1)),
        faced=jnp.zeros((1, 1, 2), jnp.int32),
    )


def loss_of(params, batch, surrogate, value_weight, entropy_weight):
    """The loss on one batch, with a clip of 0.2."""
    weights = LossSettings(surrogate, 0.2, value_weight, entropy_weight)
    return policy_gradient_loss(params, [batch], jax.random.key(0), learner=PLAIN, settings=weights)


def test_the_parts_of_the_loss_by_hand():
    """Policy (3/4, 1/4), value 0.5.

    PPO: ratios 1.5 and 1, clipped at 1.2: (1.2 * 2 - 1) / 2 = 0.7. A2C: (2 ln 0.75 - ln 0.25) / 2 = 0.405465.
    Value error: (0.25 + 0.25) / 2. Entropy of (3/4, 1/4): 0.562335.
    """
    params = {"actor": jnp.asarray([jnp.log(3.0), 0.0]), "critic": jnp.float32(0.5)}
    for surrogate, objective in [(ppo_surrogate, 0.7), (a2c_surrogate, 0.405465)]:
        loss, (parts, penalty) = loss_of(params, hand_batch(), surrogate, 0.5, 0.1)
        assert penalty == 0.0
        np.testing.assert_allclose(parts.objective, objective, rtol=1e-5)
        np.testing.assert_allclose(parts.value_loss, 0.25, rtol=1e-6)
        np.testing.assert_allclose(parts.entropy, 0.562335, rtol=1e-5)
        np.testing.assert_allclose(loss, -objective + 0.5 * 0.25 - 0.1 * 0.562335, rtol=1e-5)


def test_gradients_of_value_and_entropy_by_hand():
    """d value: 2 * ((0.5 - 1) + (0.5 - 0)) / 2 = 0, and 2 * (v - 0.5) in general; entropy pulls towards (1/2, 1/2)."""

    def gradient(value, entropy_weight):
        params = {"actor": jnp.asarray([jnp.log(3.0), 0.0]), "critic": jnp.float32(value)}
        silent = hand_batch().replace(advantage=jnp.zeros((1, 3)))
        return jax.grad(lambda p: loss_of(p, silent, ppo_surrogate, 1.0, entropy_weight)[0])(params)

    np.testing.assert_allclose(gradient(0.75, 0.0)["critic"], 0.5, rtol=1e-5)
    np.testing.assert_allclose(gradient(0.5, 0.0)["critic"], 0.0, atol=1e-6)
    # dH/dx_0 = -p0 p1 (ln p0 - ln p1) = -(3/16) ln 3; the loss is minus the entropy
    np.testing.assert_allclose(gradient(0.5, 1.0)["actor"], 3 / 16 * np.log(3) * np.asarray([1, -1]), rtol=1e-5)
    np.testing.assert_allclose(gradient(0.5, 0.0)["actor"], 0.0, atol=1e-6)


def test_masked_mean():
    np.testing.assert_allclose(masked_mean(jnp.asarray([1.0, 2.0, jnp.nan]), jnp.asarray([True, True, False])), 1.5)
    assert masked_mean(jnp.ones(2), jnp.zeros(2, bool)) == 0.0


def test_normalized_advantages_by_hand():
    """Of the two decisions that count, 2 and -1: mean 1/2, deviation 3/2."""
    got = hand_batch().normalize_advantages().advantage.reshape(-1)
    np.testing.assert_allclose(got[:2], [1.0, -1.0], rtol=1e-5)


# --- collecting


def stacked(*rows):
    """Populations [P, K, A] of constant policies."""
    return StackedPolicies(jnp.stack(rows), constant)


RPS = make_game("biased_rps", a=1, b=2, c=3)  # width 6
ROCK = stacked(pure(3, 0), pure(3, 0))
ONE = jnp.zeros((2, 1))  # log_sigma of populations of one


@pytest.mark.parametrize("surrogate", SURROGATES.values())
def test_the_gradient_on_a_bandit_is_the_policy_gradient(surrogate):
    """Against rock the actions earn (0, 1, -3) / 6: d/dx_k E[r] = p_k (r_k - E[r]), the value's baseline drops out.

    With a value of -1/4 an advantage is at most 5/12 in size, and so is the gradient of one episode: the mean of 40,000
    is within 5 * (5/12) / 200 = 0.0105 with probability above 1 - 2e-6. The coordinates are 0.03 to 0.15 in size.
    """
    params = {"actor": jnp.asarray([0.5, 0.0, 0.2]), "critic": jnp.float32(-0.25)}

    @jax.jit
    def gradient(key):
        many = PlaySettings(num_opponents=1, episodes=40_000, discount=1.0, decay=1.0)
        batch = collect_episodes(key, RPS, PLAIN, params, NO_CODE, ROCK, ONE, many)
        return jax.grad(lambda p: loss_of(p, batch, surrogate, 0.0, 0.0)[0])(params)["actor"]

    earned, chance = np.asarray([0.0, 1.0, -3.0]) / 6, np.asarray(jax.nn.softmax(params["actor"]))
    expected = chance * (earned - chance @ earned)
    assert np.abs(expected).min() > 0.03
    np.testing.assert_allclose(-gradient(jax.random.key(0)), expected, atol=0.0105)


def test_truncation_bootstraps_and_termination_does_not():
    """Purse of two moves, width 4, value 0.3 everywhere, discount 0.9. TAKE against TAKE: 1/4 - 1/4 + 0.27 - 0.3."""
    learner = PLAIN._replace(policy=lambda params, code: code)

    @jax.jit
    def run(key, codes, opponent):
        two = PlaySettings(num_opponents=2, episodes=1, discount=0.9, decay=0.5)
        others = stacked(opponent, opponent)
        return collect_episodes(key, Purse(2), learner, {"critic": jnp.float32(0.3)}, codes, others, ONE, two)

    batch = run(jax.random.key(0), pure(3, TAKE, WAIT, STOP), pure(3, TAKE))
    chex.assert_shape(batch.advantage, (3, 4))  # two episodes of two steps, one seat
    assert batch.env_steps == 2 * (2 + 2 + 1)
    np.testing.assert_array_equal(batch.acted, np.tile([True, False], (3, 2)))
    expected = [0.25 - 0.25 + 0.27 - 0.3, -0.25 + 0.27 - 0.3, -0.3]
    np.testing.assert_allclose(batch.advantage[:, 0], expected, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(batch.target[:, 0], np.asarray(expected) + 0.3, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(batch.action[:, ::2], [[TAKE] * 2, [WAIT] * 2, [STOP] * 2])


def test_every_seat_of_a_team_learns_from_the_teams_reward():
    """Seats 0 and 1, one team, earn 7 and 0 of a range from -3.5 to 7; a value of 0.1 is taken off."""
    learner = PLAIN._replace(policy=lambda params, code: code)
    teams = stacked(pure(2, 1), pure(2, 1))
    one, critic = PlaySettings(num_opponents=1, episodes=1, discount=1.0, decay=1.0), {"critic": jnp.float32(0.1)}
    batch = collect_episodes(jax.random.key(0), team_game(), learner, critic, pure(2, 1), teams, ONE, one)
    np.testing.assert_allclose(batch.advantage[0], [3.5 / 10.5 - 0.1] * 2, rtol=1e-5)
    np.testing.assert_array_equal(batch.acted[0], [True, True])
    np.testing.assert_array_equal(batch.observation[0], np.eye(3)[:2])


# --- training


@partial(jax.jit, static_argnames=("game", "learner", "steps", "options"))
def trained(key, params, opponents, log_sigma, rates, game, learner, steps, options):
    """`train_learner` against a fixed mixture, from a fresh optimizer."""
    options = dict(options)
    play = PlaySettings(options["episodes"], episodes=1, discount=1.0, decay=0.95)
    weights = LossSettings(options["surrogate"], 0.2, value_weight=0.5, entropy_weight=0.0)
    optimizer = make_optimizer(0.5)

    def experience(step_key, current, carry):
        batch = collect_episodes(step_key, game, learner, current, NO_CODE, opponents, log_sigma, play)
        return [batch], carry

    return train_learner(
        key,
        params,
        {name: optimizer.init(part) for name, part in params.items()},
        learner=learner,
        experience=experience,
        loss=partial(policy_gradient_loss, learner=learner, settings=weights, penalty=options["penalty"]),
        settings=TrainSettings(options["epochs"], rates, gradient_clip=0.5, normalize=options["normalize"]),
        steps=steps,
    )


def settings(**options):
    """Options of `trained` as a static argument."""
    defaults = {"epochs": 1, "episodes": 64, "normalize": False, "penalty": zero_penalty}
    return tuple(sorted({**defaults, **options}.items()))


HALF_ROCK_HALF_PAPER = stacked(pure(3, 0, 1), pure(3, 0, 1))  # scores (-1/2, 1/2, -1/2): paper is the best response
START = {"actor": jnp.zeros(3), "critic": jnp.float32(0.0)}


@pytest.mark.parametrize("name", SURROGATES)
def test_training_finds_the_best_response_in_biased_rps(name):
    options = settings(surrogate=SURROGATES[name], epochs=2, normalize=name == "a2c")
    rates = {"actor": 0.1, "critic": 0.05}
    log_sigma = jnp.log(jnp.full((2, 2), 0.5))
    params, _, metrics = trained(
        jax.random.key(0), START, HALF_ROCK_HALF_PAPER, log_sigma, rates, RPS, PLAIN, 60, options
    )
    # Gradients of 64 episodes, 120 steps of Adam at 0.1: a failure would need most of them to point the wrong way.
    assert jax.nn.softmax(params["actor"])[1] > 0.95
    assert params["critic"] == pytest.approx(0.5 / 6, abs=0.05)  # paper wins 1 or loses nothing: 1/2 of a width of 6
    assert metrics.episodes == 60 * 64 and metrics.env_steps == 60 * 64
    assert metrics.penalty == 0.0 and metrics.gradient_norm > 0.0


def test_a_part_with_rate_zero_and_a_training_of_no_steps_change_nothing():
    options = settings(surrogate=ppo_surrogate, episodes=8)
    arguments = (HALF_ROCK_HALF_PAPER, jnp.log(jnp.full((2, 2), 0.5)))
    params, _, _ = trained(jax.random.key(0), START, *arguments, {"actor": 0.0, "critic": 0.1}, RPS, PLAIN, 3, options)
    np.testing.assert_array_equal(params["actor"], START["actor"])
    assert params["critic"] != 0.0
    params, opt_state, metrics = trained(
        jax.random.key(0), START, *arguments, {"actor": 0.1, "critic": 0.1}, RPS, PLAIN, 0, options
    )
    chex.assert_trees_all_equal(params, START)
    assert metrics.episodes == 0 and metrics.env_steps == 0
    assert all(not np.any(leaf) for leaf in jax.tree.leaves(opt_state))


def test_a_penalty_is_added_to_the_loss():
    """No advantage at all (rock against rock, value 0): only the penalty moves the policy, to its minimum (1, 0, 0)."""
    rock = {"actor": pure(3, 0)[0], "critic": jnp.float32(0.0)}

    def penalty(params, batches, key):
        del key
        assert len(batches) == 1 and batches[0].code.shape == (1, 0)
        return jnp.sum((params["actor"] - rock["actor"] - jnp.asarray([1.0, 0.0, 0.0])) ** 2)

    options = settings(surrogate=a2c_surrogate, episodes=2, penalty=penalty)
    params, _, metrics = trained(
        jax.random.key(0), rock, ROCK, ONE, {"actor": 0.05, "critic": 0.0}, RPS, PLAIN, 100, options
    )
    np.testing.assert_allclose(params["actor"] - rock["actor"], [1.0, 0.0, 0.0], atol=0.05)
    assert metrics.penalty < 0.01


def test_an_ordinary_network_learns_to_beat_uniform_play_in_kuhn():
    """No generator anywhere. The best response of seat 0 to a uniform opponent is worth 0.5; 15,360 episodes.

    Over keys 0 to 9 this training always ended above 0.4999.
    """
    game = make_game("kuhn_poker")
    size = int(np.prod(game.observation_shape))
    policy, critic = MlpPolicy(size, game.num_actions, (32,)), Critic(game.observation_shape, 0, (32,))
    learner = Learner(
        policy=lambda params, code: params["actor"],
        value=lambda params, code, observation: critic(params["critic"], observation, code),
        apply=policy,
    )
    key_actor, key_critic, key_train = jax.random.split(jax.random.key(0), 3)
    params = {"actor": policy.init(key_actor), "critic": critic.init(key_critic)}
    options = settings(surrogate=ppo_surrogate, epochs=2, episodes=256)
    rates = {"actor": 0.02, "critic": 0.02}
    uniform = stacked(jnp.zeros((1, 2)), jnp.zeros((1, 2)))
    params, _, metrics = trained(key_train, params, uniform, ONE, rates, game, learner, 60, options)
    assert metrics.episodes == 15_360
    tree = build_tree(game)
    tables = jnp.stack([behavior_table(tree, policy, params["actor"]), uniform_table(tree)])
    assert expected_returns(tree, tables)[0] > 0.49
