"""Random openings: how long they are, that they are legal and random, that nothing is learned from them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game, make_solver, preset
from gems_jax.config import LearnerConfig
from gems_jax.learning.batches import Learner
from gems_jax.learning.collection import PlaySettings, SelfPlay
from gems_jax.policies.critic import Critic
from gems_jax.policies.mlp import MlpPolicy
from gems_jax.rollout.episode import unroll
from gems_jax.rollout.openings import add_openings
from gems_jax.solvers import DEFAULTS
from gems_jax.types import Policy

GAME = make_game("tic_tac_toe")
OPENED = add_openings(GAME, LearnerConfig(opening_plies=4, opening_fraction=0.6))
FIRST = MlpPolicy(18, 9, ())  # a linear policy


def first_legal():
    """Plays the first free square."""
    params = {"head": {"kernel": jnp.zeros((18, 9))}}
    return Policy(params, lambda phi, seen, legal: FIRST(phi, seen, legal).replace(
        logits=jnp.where(legal, -50.0 * jnp.arange(9), -1e9)
    ))  # fmt: skip


@pytest.fixture(scope="module")
def episodes():
    play = jax.jit(jax.vmap(lambda key: unroll(key, OPENED, (first_legal(), first_legal()))))
    return jax.tree.map(np.asarray, play(jax.random.split(jax.random.key(0), 4000)))


def test_no_settings_is_the_game_itself():
    assert add_openings(GAME, LearnerConfig()) is GAME


def test_openings_have_the_stated_lengths(episodes):
    """L = 0 with probability .4, and 1 to 4 with .15 each; five standard deviations of 4,000 draws are below .04."""
    lengths = np.argmax(episodes.acted.any(axis=2), axis=1)  # steps before the first decision
    shares = np.bincount(lengths, minlength=5) / len(lengths)
    np.testing.assert_allclose(shares, [0.4, 0.15, 0.15, 0.15, 0.15], atol=0.04)


def test_openings_are_uniform_and_decisions_are_the_policys(episodes):
    """The first move is uniform on nine squares in an opening, and else the first square."""
    opened = ~episodes.acted[:, 0].any(axis=1)
    moves = episodes.observation[:, 1, 1, :, :, 0].reshape(4000, 9)  # seat 1 is to move and sees the stone of seat 0
    stones = episodes.observation[:, 1].any(axis=(1, 4)).reshape(4000, 9)
    assert (stones.sum(axis=1) == 1).all() and moves.shape == stones.shape
    np.testing.assert_allclose(stones[opened].mean(axis=0), 1 / 9, atol=0.035)
    assert stones[~opened][:, 0].all()


def test_every_later_step_is_a_decision(episodes):
    """From the opening's end to the end of the game exactly one seat decides; no game ends in an opening of four."""
    decided = episodes.acted.sum(axis=2)
    for row, length in zip(decided, episodes.length, strict=True):
        start = int(np.argmax(row))
        assert (row[:start] == 0).all() and (row[start:length] == 1).all() and (row[length:] == 0).all()


def learner_of(game):
    policy, critic = MlpPolicy(18, 9, (8,)), Critic(game.observation_shape, 0, (8,))
    learner = Learner(
        policy=lambda params, code: params["policy"],
        value=lambda params, code, seen: critic(params["critic"], seen, jnp.zeros(0)),
        apply=policy,
    )
    return learner, {"policy": policy.init(jax.random.key(1)), "critic": critic.init(jax.random.key(2))}


@pytest.mark.parametrize("segment", [0, 12])
def test_every_player_learns_from_the_same_games(segment):
    """With decay 1 the targets of both players are the returns of the games that both of them played."""
    learner, params = learner_of(GAME)
    settings = PlaySettings(4, episodes=16, discount=1.0, decay=1.0, segment=segment)
    source = SelfPlay(GAME, (learner, learner), settings)

    @jax.jit
    def play(key):
        key_start, key_play = jax.random.split(key)
        games = source.start_games(key_start)
        return source.play_round(key_play, [params] * 2, [jnp.zeros((1, 0))] * 2, games)

    (first, second), games = play(jax.random.key(0))
    assert (games is None) == (not segment)
    steps = segment or 9
    acted = np.stack([np.asarray(batch.acted).reshape(64, steps) for batch in (first, second)])
    assert not acted.all(axis=0).any()  # one seat moves at a time
    assert first.env_steps == second.env_steps and first.episodes == second.episodes
    if segment:
        assert first.env_steps == 64 * 12
        return
    assert acted.sum() == first.env_steps
    earned = np.stack([np.asarray(batch.earned)[0] for batch in (first, second)])
    np.testing.assert_allclose(earned.sum(axis=0), 0.0)
    for player, batch in enumerate((first, second)):
        target = np.asarray(batch.target).reshape(64, steps)
        expected = np.broadcast_to(earned[player][:, None], target.shape)
        np.testing.assert_allclose(target[acted[player]], expected[acted[player]], atol=1e-5)


def test_one_network_is_evaluated_once_with_the_same_result():
    """Two equal policies that are one object are evaluated for the mover only; two objects for both seats."""
    learner, params = learner_of(GAME)
    one, other = (Policy(params["policy"], learner.apply) for _ in range(2))
    same = jax.jit(lambda key: unroll(key, GAME, (one, one)))(jax.random.key(3))
    apart = jax.jit(lambda key: unroll(key, GAME, (one, other)))(jax.random.key(3))
    np.testing.assert_array_equal(same.action[same.acted], apart.action[apart.acted])
    np.testing.assert_allclose(same.log_prob[same.acted], apart.log_prob[apart.acted], rtol=1e-5)


SHARED = make_game("tic_tac_toe", shared=True)
LEARNER = {
    "policy": "film", "policy_hidden": (16,), "critic_hidden": (16,), "normalise_advantages": True,
    "opening_plies": 3, "learning_rate": 3e-3,
}  # fmt: skip


@pytest.mark.parametrize(
    ("method", "game"),
    [
        ("self_play", SHARED),
        ("gems", SHARED),
        pytest.param("gems", GAME, marks=pytest.mark.slow),
        pytest.param("self_play", GAME, marks=pytest.mark.slow),
    ],
    ids=["self_play, one population", "gems, one population", "gems, two populations", "self_play, two populations"],
)
def test_training_with_openings_and_joint_play(method, game):
    """Both methods train, play each joint game once, and count its steps once."""
    if method == "self_play":
        config = DEFAULTS[method].replace(
            **LEARNER, opponents=1, episodes=16, segment=9, rounds=4, joint_play=True, minibatches=2, snapshots=1
        )
        trained = 4 * 16 * 9
    else:
        config = preset("connect_four", "tuned").replace(
            **LEARNER, capacity=2, generator_widths=(4,), num_opponents=1, oracle_opponents=1, mutations=0, randoms=1,
            meta_steps=1, abr_segment=9, abr_steps=4, abr_opponents=8, abr_episodes=2, live_opponents=True,
            self_play_fraction=0.5, joint_play=True,
        )  # fmt: skip
        trained = 4 * 2 * 9 * (4 + 2 * 4)
    solver = make_solver(method, game, config)

    @jax.jit
    def run(key):
        key_init, key_step = jax.random.split(key)
        return solver.step(solver.init(key_init), key_step)

    state, metrics = run(jax.random.key(0))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(solver.profile(state)) if leaf.dtype != int)
    if method == "self_play":
        assert int(metrics.env_steps) == trained
    else:  # estimates and the trust region play up to 5 + 2 + 4 episodes of at most 9 steps
        assert trained < int(metrics.env_steps) <= trained + 9 * 12


def test_joint_play_needs_newest_anchors():
    with pytest.raises(ValueError, match="joint_play trains the newest anchors"):
        preset("connect_four", "tuned").replace(joint_play=True).validate()
