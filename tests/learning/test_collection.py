"""Collecting experience: segments of games that continue between rounds."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game
from gems_jax.extensive.values import behavior_table, build_tree, expected_returns, uniform_table
from gems_jax.learning.batches import Learner
from gems_jax.learning.collection import PlaySettings, collect_segment, decision_fraction, start_games
from gems_jax.learning.ppo import (
    LossSettings,
    TrainSettings,
    make_optimizer,
    policy_gradient_loss,
    ppo_surrogate,
    train_learner,
)
from gems_jax.policies.critic import Critic
from gems_jax.policies.mlp import MlpPolicy
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.episode import unroll_segment
from gems_jax.types import Policy
from toy_games import STOP, TAKE, WAIT, Purse, constant, pure

NO_CODE = jnp.zeros((1, 0))
ONE = jnp.zeros((2, 1))  # log_sigma of populations of one
KUHN = make_game("kuhn_poker")


def test_bits_are_kept_as_bits():
    """A board of pgx shows bits; what is kept of them is what was seen, and networks take it as it is."""
    game = make_game("tic_tac_toe")
    players = (Policy(jnp.zeros(9), constant),) * 2
    start = game.init(jax.random.key(0))
    _, rows = jax.jit(lambda key: unroll_segment(key, game, players, start, 3, seats=(0, 1)))(jax.random.key(1))
    assert rows.observation.dtype == bool and rows.final_observation.dtype == jnp.float32
    assert not rows.observation[0].any() and rows.observation[2, 0].sum() == 2
    network = MlpPolicy(18, 9, (4,))
    phi = network.init(jax.random.key(2))
    bits, floats = (
        network(phi, seen, rows.legal[2, 0]) for seen in (rows.observation[2, 0], rows.observation[2, 0] * 1.0)
    )
    np.testing.assert_array_equal(bits.logits, floats.logits)


def test_play_goes_on_in_a_new_episode():
    """Seat 0 takes and seat 1 stops: episodes of two steps; seven steps leave the fourth under way."""
    game = Purse(12)
    players = (Policy(pure(3, TAKE)[0], constant), Policy(pure(3, STOP)[0], constant))
    play = jax.jit(lambda state, key: unroll_segment(key, game, players, state, 7, seats=(1,)))
    state, rows = play(game.init(jax.random.key(0)), jax.random.key(1))
    np.testing.assert_array_equal(rows.terminated, [0, 1, 0, 1, 0, 1, 0])
    np.testing.assert_array_equal(rows.acted[:, 0], [0, 1, 0, 1, 0, 1, 0])
    np.testing.assert_array_equal(rows.reward[:, 0], [-1, 0, -1, 0, -1, 0, -1])
    assert rows.observation.shape == (7, 1, 3) and rows.length == 7 and state.to_move.tolist() == [False, True]
    state, rows = play(state, jax.random.key(2))
    np.testing.assert_array_equal(rows.terminated, [1, 0, 1, 0, 1, 0, 1])
    assert state.inner == 0 and not state.done


def test_a_time_limit_starts_a_new_episode_too():
    game = Purse(3)
    players = (Policy(pure(3, WAIT)[0], constant),) * 2
    _, rows = unroll_segment(jax.random.key(1), game, players, game.init(jax.random.key(0)), 7, seats=(0, 1))
    np.testing.assert_array_equal(rows.truncated, [0, 0, 1, 0, 0, 1, 0])
    assert not rows.terminated.any()


def kuhn_learner():
    policy, critic = MlpPolicy(KUHN.observation_shape[0], 2, (32,)), Critic(KUHN.observation_shape, 0, (32,))
    learner = Learner(
        policy=lambda params, code: params["actor"],
        value=lambda params, code, observation: critic(params["critic"], observation, code),
        apply=policy,
    )
    key_actor, key_critic = jax.random.split(jax.random.key(0))
    return policy, learner, {"actor": policy.init(key_actor), "critic": critic.init(key_critic)}


UNIFORM = StackedPolicies(jnp.zeros((2, 1, 2)), constant)


def test_returns_of_games_under_way_are_those_of_the_game():
    """Targets with decay 1 are returns in units of the width 4. Play is uniform (the head is near zero).

    An episode of seat 0 is worth 0.125 chips, with deviation 1.46; its decisions are weighted by how often they come,
    so the first decisions alone are averaged: about 9,000 of them, 5 deviations are 0.077.
    """
    policy, learner, params = kuhn_learner()

    @jax.jit
    def run(key):
        start_key, play_key = jax.random.split(key)
        settings = PlaySettings(64, episodes=4, discount=1.0, decay=1.0, segment=80)
        games = start_games(start_key, KUHN, ONE, 1, settings)
        return collect_segment(play_key, KUHN, learner, params, NO_CODE, UNIFORM, games, settings)

    batch, games = run(jax.random.key(3))
    assert batch.acted.shape == (1, 256 * 80) and batch.env_steps == 256 * 80
    assert games.state.terminated.shape == (1, 64, 4) and not games.state.terminated.any()
    history = np.asarray(batch.observation)[0, :, 7:11]
    first = np.asarray(batch.acted)[0] & ~history.any(axis=1)
    worth = 4.0 * np.asarray(batch.target)[0][first]
    assert len(worth) > 8000 and abs(worth.mean() - 0.125) < 0.077
    # an episode lasts 2.33 steps on average in uniform play
    assert abs(int(batch.episodes) / (256 * 80) - 1 / (7 / 3)) < 0.02


@pytest.mark.parametrize(
    ("name", "options", "fraction"),
    [("simple_spread", {}, 1.0), ("connect_four", {}, 0.5), ("hanabi", {}, 0.5), ("hanabi", {"teams": True}, 0.5)],
)
def test_fraction_of_decisions(name, options, fraction):
    """In turns one seat of all decides; a team's own seats are as many times the rows."""
    assert decision_fraction(make_game(name, **options)) == fraction


@pytest.mark.parametrize("minibatches", [1, 4])
def test_an_ordinary_network_learns_from_games_under_way(minibatches):
    """The best response of seat 0 to a uniform opponent in Kuhn is worth 0.5, uniform play 0.125."""
    policy, learner, params = kuhn_learner()
    optimizer = make_optimizer(0.5)

    @jax.jit
    def run(key):
        start_key, train_key = jax.random.split(key)
        settings = PlaySettings(64, episodes=1, discount=1.0, decay=0.95, segment=12)

        def experience(step_key, current, games):
            batch, games = collect_segment(step_key, KUHN, learner, current, NO_CODE, UNIFORM, games, settings)
            return [batch], games

        weights = LossSettings(ppo_surrogate, 0.2, value_weight=0.5, entropy_weight=0.0)
        return train_learner(
            train_key,
            params,
            {name: optimizer.init(part) for name, part in params.items()},
            learner=learner,
            experience=experience,
            loss=partial(policy_gradient_loss, learner=learner, settings=weights),
            settings=TrainSettings(
                epochs=2,
                learning_rate={"actor": 0.02, "critic": 0.02},
                gradient_clip=0.5,
                minibatches=minibatches,
                decision_fraction=0.5,
            ),
            steps=40,
            carry=start_games(start_key, KUHN, ONE, 1, settings),
        )

    trained, _, metrics = run(jax.random.key(0))
    assert metrics.env_steps == 40 * 64 * 12
    tree = build_tree(KUHN)
    tables = jnp.stack([behavior_table(tree, policy, trained["actor"]), uniform_table(tree)])
    assert expected_returns(tree, tables)[0] > 0.47
