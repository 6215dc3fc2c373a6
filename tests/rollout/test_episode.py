"""Episodes with known ends, the grouped layout, and the two ways of looping."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game, play_episode
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout import episode as rollout
from gems_jax.rollout.episode import unroll
from gems_jax.rollout.groups import play_groups, play_joint
from gems_jax.types import Policy
from toy_games import STOP, TAKE, WAIT, Purse, constant, pure, team_game

BET, PASS = 0, 1
KUHN = make_game("kuhn_poker")
HALF = jnp.zeros(2)


def policies(logits):
    return tuple(Policy(row, constant) for row in logits)


@pytest.fixture(scope="module")
def kuhn():
    """play(logits [2, A], keys [n]) -> Episodes [n], compiled once."""
    return jax.jit(jax.vmap(lambda logits, key: play_episode(key, KUHN, policies(logits)), in_axes=(None, 0)))


@pytest.fixture(scope="module")
def kuhn_unrolled():
    return jax.jit(jax.vmap(lambda logits, key: unroll(key, KUHN, policies(logits)), in_axes=(None, 0)))


def keys(count=64, seed=0):
    return jax.random.split(jax.random.key(seed), count)


@pytest.mark.parametrize(
    ("actions", "returns", "length"),
    [
        ((BET, PASS), {(1.0, -1.0)}, 2),  # a bet, a fold
        ((PASS, BET), {(-1.0, 1.0)}, 3),  # a check, a bet, a fold
        ((BET, BET), {(2.0, -2.0), (-2.0, 2.0)}, 2),  # a bet, a call, the higher card
        ((PASS, PASS), {(1.0, -1.0), (-1.0, 1.0)}, 2),  # both check
    ],
)
def test_known_returns_in_kuhn(kuhn, actions, returns, length):
    played = kuhn(pure(2, *actions), keys())
    # Of 64 deals all go one way with probability 2^-63.
    assert {tuple(row) for row in np.asarray(played.returns).tolist()} == returns
    np.testing.assert_array_equal(played.length, length)


def test_random_play_in_kuhn_earns_what_the_tree_says(kuhn):
    """Uniform against uniform: 1/8 for the first seat."""
    played = kuhn(jnp.zeros((2, 2)), keys(4000))
    np.testing.assert_array_equal(played.returns.sum(axis=1), 0.0)
    error = played.returns[:, 0].std() / np.sqrt(4000)
    assert abs(float(played.returns[:, 0].mean()) - 0.125) < 5 * error  # fails once in two million
    assert set(np.unique(played.length)) == {2, 3}


def test_unrolled_episodes_end_like_played_ones(kuhn, kuhn_unrolled):
    logits = jnp.asarray([[0.3, -0.2], [0.0, 0.5]])
    played, trajectory = kuhn(logits, keys()), kuhn_unrolled(logits, keys())
    np.testing.assert_allclose(trajectory.reward.sum(axis=1), played.returns)
    np.testing.assert_array_equal(trajectory.length, played.length)


def test_unroll_marks_who_acted_and_what_is_padding(kuhn_unrolled):
    trajectory = kuhn_unrolled(pure(2, PASS, BET), keys(4))
    chex.assert_shape(trajectory.observation, (4, 3, 2, *KUHN.observation_shape))
    chex.assert_shape(trajectory.legal, (4, 3, 2, 2))
    chex.assert_shape([trajectory.action, trajectory.log_prob, trajectory.acted, trajectory.reward], (4, 3, 2))
    for row in range(4):
        np.testing.assert_array_equal(trajectory.acted[row], [[1, 0], [0, 1], [1, 0]])
        np.testing.assert_array_equal(trajectory.reward[row], [[0, 0], [0, 0], [-1, 1]])
        np.testing.assert_array_equal(trajectory.action[row][trajectory.acted[row]], [PASS, BET, PASS])
    np.testing.assert_allclose(trajectory.log_prob[trajectory.acted], 0.0, atol=1e-6)  # certain moves
    assert not trajectory.truncated.any()
    folded = kuhn_unrolled(pure(2, BET, PASS), keys(4))  # two steps, then one of padding
    np.testing.assert_array_equal(folded.length, 2)
    assert not folded.acted[:, 2].any() and not folded.reward[:, 2].any()


def test_log_probabilities_are_those_of_the_moves(kuhn_unrolled):
    logits = jnp.asarray([[0.0, jnp.log(3.0)], [jnp.log(4.0), 0.0]])  # pass 3/4; bet 4/5
    trajectory = kuhn_unrolled(logits, keys())
    expected = np.log([[0.25, 0.75], [0.8, 0.2]])
    for seat in range(2):
        acted = np.asarray(trajectory.acted[..., seat])
        moves = np.asarray(trajectory.action[..., seat])[acted]
        np.testing.assert_allclose(np.asarray(trajectory.log_prob[..., seat])[acted], expected[seat][moves], rtol=1e-5)
        assert {0, 1} == set(moves)


# --- long episodes


@pytest.fixture(scope="module")
def purse():
    """(loop, straight): the same twelve moves by while_loop and laid out; play(logits [2, A], keys [n])."""
    game = Purse(12)

    def compiled(loops):
        play = jax.vmap(lambda logits, key: play_episode(key, game, policies(logits)), in_axes=(None, 0))
        traced = jax.jit(play).trace(jnp.zeros((2, 3)), keys(64))
        assert ("while[" in str(traced.jaxpr)) == loops
        return traced.lower().compile()

    loop = compiled(True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rollout, "_UNROLL", 100)
        return loop, compiled(False)


@pytest.mark.parametrize(
    ("actions", "returns", "length"),
    [((TAKE, WAIT), (6, -6), 12), ((WAIT, TAKE), (-6, 6), 12), ((STOP, TAKE), (0, 0), 1), ((TAKE, STOP), (1, -1), 2)],
)
def test_known_returns_of_long_episodes(purse, actions, returns, length):
    for play in purse:
        played = play(pure(3, *actions), keys())
        np.testing.assert_array_equal(played.returns, np.tile(returns, (64, 1)))
        np.testing.assert_array_equal(played.length, length)


def test_the_loop_equals_the_unrolled_layout(purse):
    loop, straight = (play(jnp.asarray([[0.0, 1.0, -1.5], [0.5, 0.0, -1.0]]), keys()) for play in purse)
    chex.assert_trees_all_equal(loop, straight)
    assert len(np.unique(loop.length)) > 5


def test_truncated_episodes_say_so():
    play = jax.jit(lambda logits, key: unroll(key, Purse(10), policies(logits)))
    cut = play(pure(3, TAKE, WAIT), jax.random.key(0))
    np.testing.assert_array_equal(cut.truncated, np.arange(10) == 9)
    assert cut.length == 10 and not cut.terminated.any()
    np.testing.assert_allclose(cut.final_observation, [[1, 0, 1], [0, 1, 1]])
    np.testing.assert_array_equal(cut.acted.sum(axis=0), [5, 5])
    ended = play(pure(3, TAKE, STOP), jax.random.key(0))
    np.testing.assert_array_equal(ended.terminated, np.arange(10) == 1)
    assert not ended.truncated.any() and ended.length == 2
    np.testing.assert_array_equal(ended.acted.sum(axis=0), [1, 1])


def test_a_board_game_of_pgx_plays_to_its_end():
    game = make_game("pgx:tic_tac_toe")
    play = jax.jit(jax.vmap(lambda key: play_episode(key, game, policies(jnp.zeros((2, 9))))))
    played = play(keys(32))
    np.testing.assert_array_equal(played.returns.sum(axis=1), 0.0)
    assert played.length.min() >= 5 and played.length.max() <= 9
    drawn = np.asarray(played.returns[:, 0]) == 0
    assert (np.asarray(played.length)[drawn] == 9).all()


# --- groups


def test_groups_are_laid_out_as_policy_opponent_episode():
    """Rock, paper, scissors [C = 3] against chosen opponents [N = 2], twice [M = 2]: every return by hand."""
    game = make_game("biased_rps", a=1, b=2, c=3)
    opponents = StackedPolicies(jnp.stack([pure(3, 0, 0, 0), pure(3, 0, 1, 2)]), constant)
    indices = jnp.asarray([[[9, 1], [9, 2]], [[9, 0], [9, 0]], [[9, 2], [9, 1]]])  # column 0 is ignored
    played = jax.jit(
        lambda key: play_groups(
            play_episode, key, game, StackedPolicies(pure(3, 0, 1, 2), constant), opponents, indices, episodes=2
        )
    )(jax.random.key(0))
    chex.assert_shape(played.returns, (3, 2, 2, 2))
    chex.assert_shape(played.length, (3, 2, 2))
    expected = np.asarray([[-1, 3], [1, 1], [0, 2]])  # rock meets paper and scissors; paper meets rock; ...
    np.testing.assert_array_equal(played.returns[..., 0], np.repeat(expected[:, :, None], 2, axis=2))
    np.testing.assert_array_equal(played.returns[..., 1], -played.returns[..., 0])


def test_common_random_numbers_give_equal_policies_equal_returns():
    opponents = StackedPolicies(jnp.stack([jnp.zeros((2, 2)), jnp.zeros((2, 2))]), constant)
    params = jnp.asarray([[0.4, 0.0], [0.4, 0.0], [2.0, 0.0]])
    draws = jnp.asarray([[0, 0], [0, 1], [0, 1]])

    @partial(jax.jit, static_argnames="common")
    def play(key, common):
        indices = draws if common else jnp.broadcast_to(draws, (3, 3, 2))
        return play_groups(
            play_episode, key, KUHN, StackedPolicies(params, constant), opponents, indices, episodes=16, common=common
        )

    together, apart = play(jax.random.key(0), True), play(jax.random.key(0), False)
    chex.assert_shape([together.returns, apart.returns], (3, 3, 16, 2))
    np.testing.assert_array_equal(together.returns[0], together.returns[1])
    # 48 independent episodes with at least two outcomes of probability above 1/5 each: equal by chance below 1e-9.
    assert (together.returns[0] != together.returns[2]).any() and (apart.returns[0] != apart.returns[1]).any()
    assert (together.returns[0, 1] != together.returns[0, 2]).any()  # draws of one opponent get their own deals


def test_a_team_plays_one_policy_in_both_its_seats():
    game = team_game()
    opponents = StackedPolicies(jnp.stack([pure(2, 0, 0), pure(2, 0, 1)]), constant)
    indices = jnp.asarray([[[0, 0], [0, 1]]] * 2)
    played = jax.jit(
        lambda key: play_groups(
            play_episode, key, game, StackedPolicies(pure(2, 0, 1), constant), opponents, indices, episodes=1
        )
    )(jax.random.key(0))
    # payoff 4 a + 2 a + b of seat 0; seat 2 loses half of it
    np.testing.assert_array_equal(played.returns[:, :, 0, 0], [[0, 1], [6, 7]])
    np.testing.assert_array_equal(played.returns[:, :, 0, 2], [[0, -0.5], [-3, -3.5]])


def test_joint_draws():
    game = make_game("biased_rps")
    opponents = StackedPolicies(jnp.stack([pure(3, 0, 1), pure(3, 2, 0)]), constant)
    indices = jnp.asarray([[0, 0], [0, 1], [1, 0], [1, 1]])
    play = jax.jit(lambda key: play_joint(play_episode, key, game, opponents, indices, episodes=3))
    returns = play(jax.random.key(0)).returns
    chex.assert_shape(returns, (4, 3, 2))
    # rock-scissors 3, rock-rock 0, paper-scissors -2, paper-rock 1
    np.testing.assert_array_equal(returns[..., 0], np.repeat([[3], [0], [-2], [1]], 3, axis=1))


def test_joint_draws_of_a_shared_population():
    game = make_game("biased_rps", shared=True)
    opponents = StackedPolicies(pure(3, 0, 1)[None], constant)
    play = jax.jit(lambda key: play_joint(play_episode, key, game, opponents, jnp.asarray([[0, 1], [1, 1]]), 1))
    np.testing.assert_array_equal(play(jax.random.key(0)).returns[:, 0], [[-1, 1], [0, 0]])


@pytest.mark.parametrize("play", [play_episode, unroll])
def test_the_number_of_policies_must_fit(play):
    with pytest.raises(ValueError, match="kuhn_poker: expected 2 policies, got 1. Pass one Policy per player"):
        play(jax.random.key(0), KUHN, (Policy(HALF, constant),))
    with pytest.raises(ValueError, match="team: expected 2 policies, got 3"):
        play(jax.random.key(0), team_game(), (Policy(HALF, constant),) * 3)
