"""Critics of full positions: known answers of their training, contexts, and fixed shapes."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game
from gems_jax.estimation.history_critic import (
    HistoryCritic,
    ValueTargets,
    make_history_critic,
    make_tabular_critic,
    targets_of_trajectory,
)
from gems_jax.rollout.episode import unroll
from gems_jax.types import Policy
from toy_games import Dice, constant


def squares(key, episodes=256, steps=2):
    """Positions whose value is the square of what seat 0 sees, plus the context; the last step is padding."""
    seen = jax.random.uniform(key, (episodes, steps, 2, 1), minval=-1.0)
    context = jnp.tile(jnp.asarray([0.0, 1.0]), episodes // 2)
    value = seen[:, :, 0, 0] ** 2 + context[:, None]
    played = jnp.tile(jnp.arange(steps)[None] < steps - 1, (episodes, 1))
    remaining = jnp.where(played, value, 1e3)[..., None] * jnp.asarray([[[1.0, -1.0]]])
    moves = jnp.tile(jnp.asarray([[[True, False]]]), (episodes, steps, 1))
    return ValueTargets(seen, moves, remaining, played), context[:, None]


def test_a_critic_learns_a_known_function_of_position_and_context():
    targets, context = squares(jax.random.key(0))
    critic = HistoryCritic((1,), 2, context_size=1, hidden=(32,), zero_sum=True)
    blind = HistoryCritic((1,), 2, hidden=(32,), zero_sum=True)

    @jax.jit
    def fit(key):
        key_init, key_train = jax.random.split(key)
        state = critic.init(jax.random.clone(key_init))
        first = blind.init(key_init)
        knowing = critic.train(state, jax.random.clone(key_train), targets, context, steps=600, learning_rate=0.01)
        return state, *knowing, blind.train(first, key_train, targets, steps=600, learning_rate=0.01)[1]

    before, after, losses, others = fit(jax.random.key(1))
    chex.assert_trees_all_equal_shapes_and_dtypes(before, after)
    assert losses.shape == (600,)
    assert losses[-50:].mean() < 0.01
    assert abs(others[-50:].mean() - 0.25) < 0.05  # the context's variance, which it cannot see
    values = critic.evaluate(after.params, jnp.asarray([[0.5], [0.0]]), jnp.asarray([True, False]), context=jnp.ones(1))
    np.testing.assert_allclose(values, [1.25, -1.25], atol=0.15)
    with pytest.raises(ValueError, match="context of 1 numbers"):
        critic.evaluate(after.params, jnp.zeros((2, 1)), jnp.ones(2, bool))


def test_trajectories_give_returns_to_go():
    game = Dice()
    policies = tuple(Policy(jnp.zeros(2), constant) for _ in range(3))
    keys = jax.random.split(jax.random.key(0), 16)
    played = jax.jit(jax.vmap(lambda key: unroll(key, game, policies)))(keys)
    targets = targets_of_trajectory(played)
    np.testing.assert_array_equal(targets.played.sum(axis=1), played.length)
    np.testing.assert_allclose(targets.remaining[:, 0], played.reward.sum(axis=1), rtol=1e-5)
    np.testing.assert_allclose(targets.remaining[:, 3], played.reward[:, 3:].sum(axis=1), rtol=1e-5)
    np.testing.assert_array_equal(targets.to_move.sum(axis=2), targets.played)
    assert (played.length < 9).any() and (played.length == 9).any()


def test_a_table_holds_means_and_forgets():
    game = make_game("kuhn_poker")
    critic = make_tabular_critic(game)
    assert critic.sizes == (6, 6) and critic.num_cells == 72
    states, _ = game.deals()
    played = jnp.asarray([[True], [True], [False], [True], [False], [False]])

    def targets(first):
        remaining = (first + jnp.arange(6.0))[:, None, None] * jnp.asarray([[[1.0, -1.0]]])
        return ValueTargets(
            states.observation[:, None], states.to_move[:, None], remaining, played, states.infoset[:, None]
        )

    state = critic.init(jax.random.key(0))
    state, loss = critic.train(state, jax.random.key(0), targets(0.0))
    values = jax.vmap(lambda position: critic(state.params, position))
    np.testing.assert_allclose(values(states)[:, 0], [0.0, 1.0, 0.0, 3.0, 0.0, 0.0])
    np.testing.assert_allclose(loss, [(0 + 1 + 9) / 3], rtol=1e-6)
    state, loss = critic.train(state, jax.random.key(0), targets(3.0), retained=0.5)
    np.testing.assert_allclose(loss, [9.0], rtol=1e-6)
    np.testing.assert_allclose(values(states)[:, 0], [2.0, 3.0, 0.0, 5.0, 0.0, 0.0], rtol=1e-6)
    with pytest.raises(ValueError, match="expected targets with information sets"):
        critic.train(state, jax.random.key(0), targets(0.0).replace(infoset=None))


def test_critics_are_made_for_their_games():
    leduc = make_history_critic(make_game("leduc_holdem"), context_size=8)
    assert (leduc.scale, leduc.zero_sum, leduc.num_seats) == (13.0, True, 2)
    assert make_history_critic(Dice()).zero_sum is False
    with pytest.raises(ValueError, match="make_history_critic"):
        make_tabular_critic(make_game("rock_paper_scissors"))
