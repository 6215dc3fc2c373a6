"""Pieces of play: advantages across ends and cuts, games that go on between rounds, decisions in random order."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game
from gems_jax.extensive.values import behaviour, build_tree, expected_returns, uniform_table
from gems_jax.learning.batches import Learner, Outlook, advantages, collect_on, decision_share, gae, start_lanes
from gems_jax.learning.ppo import make_optimizer, ppo_surrogate, train
from gems_jax.policies.networks import Critic, MlpPolicy
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.episode import go_on
from gems_jax.types import Policy
from toy_games import STOP, TAKE, WAIT, Purse, constant, pure

NO_CODE = jnp.zeros((1, 0))
ONE = jnp.zeros((2, 1))  # log_sigma of populations of one
KUHN = make_game("kuhn_poker")


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


def test_bits_are_kept_as_bits():
    """A board of pgx shows bits; what is kept of them is what was seen, and networks take it as it is."""
    game = make_game("tic_tac_toe")
    players = (Policy(jnp.zeros(9), constant),) * 2
    start = game.init(jax.random.key(0))
    _, rows = jax.jit(lambda key: go_on(key, game, players, start, 3, seats=(0, 1)))(jax.random.key(1))
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
    play = jax.jit(lambda state, key: go_on(key, game, players, state, 7, seats=(1,)))
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
    _, rows = go_on(jax.random.key(1), game, players, game.init(jax.random.key(0)), 7, seats=(0, 1))
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
        lanes_key, play_key = jax.random.split(key)
        lanes = start_lanes(lanes_key, KUHN, ONE, 1, 64, 4)
        return collect_on(
            play_key, KUHN, learner, params, NO_CODE, UNIFORM, lanes, steps=80, discount=1.0, decay=1.0
        )  # fmt: skip

    batch, lanes = run(jax.random.key(3))
    assert batch.acted.shape == (1, 256 * 80) and batch.env_steps == 256 * 80
    assert lanes.state.terminated.shape == (1, 64, 4) and not lanes.state.terminated.any()
    history = np.asarray(batch.observation)[0, :, 7:11]
    first = np.asarray(batch.acted)[0] & ~history.any(axis=1)
    worth = 4.0 * np.asarray(batch.target)[0][first]
    assert len(worth) > 8000 and abs(worth.mean() - 0.125) < 0.077
    # an episode lasts 2.33 steps on average in uniform play
    assert abs(int(batch.episodes) / (256 * 80) - 1 / (7 / 3)) < 0.02


@pytest.mark.parametrize(
    ("name", "options", "share"),
    [("simple_spread", {}, 1.0), ("connect_four", {}, 0.5), ("hanabi", {}, 0.5), ("hanabi", {"teams": True}, 0.5)],
)
def test_share_of_decisions(name, options, share):
    """In turns one seat of all decides; a team's own seats are as many times the rows."""
    assert decision_share(make_game(name, **options)) == share


@pytest.mark.parametrize("minibatches", [1, 4])
def test_an_ordinary_network_learns_from_games_under_way(minibatches):
    """The best response of seat 0 to a uniform opponent in Kuhn is worth 0.5, uniform play 0.125."""
    policy, learner, params = kuhn_learner()
    optimizer = make_optimizer(0.5)

    @jax.jit
    def run(key):
        lanes_key, train_key = jax.random.split(key)

        def experience(step_key, current, lanes):
            return _listed(
                collect_on(
                    step_key, KUHN, learner, current, NO_CODE, UNIFORM, lanes, steps=12, discount=1.0, decay=0.95
                )
            )

        return train(
            train_key, params, {name: optimizer.init(part) for name, part in params.items()},
            experience=experience, learner=learner, surrogate=ppo_surrogate, steps=40, epochs=2,
            learning_rate={"actor": 0.02, "critic": 0.02}, gradient_clip=0.5, clip=0.2, value_weight=0.5,
            entropy_weight=0.0, minibatches=minibatches, kept=0.5,
            carry=start_lanes(lanes_key, KUHN, ONE, 1, 64, 1),
        )  # fmt: skip

    trained, _, metrics = run(jax.random.key(0))
    assert metrics.env_steps == 40 * 64 * 12
    tree = build_tree(KUHN)
    tables = jnp.stack([behaviour(tree, policy, trained["actor"]), uniform_table(tree)])
    assert expected_returns(tree, tables)[0] > 0.47


def _listed(played):
    batch, lanes = played
    return [batch], lanes
