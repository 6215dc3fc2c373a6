"""Sufficient statistics of tabular play: sums by hand, then the losses, gradients and divergences of the rows."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game
from gems_jax.extensive.infosets import infoset_policy
from gems_jax.learning.batches import Experience, Learner, choose_table, evaluate_critic
from gems_jax.learning.collection import PlaySettings, collect_episodes
from gems_jax.learning.ppo import (
    SURROGATES,
    LossSettings,
    TrainSettings,
    init_optimizers,
    policy_gradient_loss,
    train_learner,
)
from gems_jax.learning.tabular import TabularStatistics, entropy_of_cells, kl_of_cells, summarize
from gems_jax.policies.critic import Critic
from gems_jax.policies.population import StackedPolicies
from gems_jax.policies.tabular import TabularPolicy
from gems_jax.rollout.views import make_view

KUHN = make_game("kuhn_poker")
CODES = jnp.array([[0.0, 0.0], [1.0, -0.5], [1.0, -0.5]])  # the third is the second again, as newest anchors are


def generated(params, code):
    """A row of logits per information set that bends with the code."""
    return params["policy"][0] + jnp.tanh(code @ params["policy"][1])[:, None] * params["policy"][2]


def learner_of(table: TabularPolicy, size: int) -> Learner:
    critic = Critic((size,), 2, (5,))
    return Learner(generated, lambda params, code, seen: critic(params["critic"], seen, code), table)


def params_of(key, table: TabularPolicy, size: int):
    keys = jax.random.split(key, 4)
    shape = table.legal.shape
    parts = (
        jax.random.normal(keys[0], shape),
        jax.random.normal(keys[1], (2, shape[0])),
        jax.random.normal(keys[2], shape),
    )
    return {"policy": parts, "critic": Critic((size,), 2, (5,)).init(keys[3])}


LEARNER = learner_of(infoset_policy(KUHN), 13)
PLAYED, OTHER = (params_of(jax.random.key(seed), infoset_policy(KUHN), 13) for seed in (0, 1))


def play_settings(episodes: int) -> PlaySettings:
    return PlaySettings(num_opponents=1, episodes=episodes, discount=1.0, decay=0.9)


def of_actions(learner: Learner) -> Learner:
    """The learner with a critic of action values: V, and 2 V - 1."""

    def action_values(params, code, seen):
        value = learner.value(params, code, seen)
        return jnp.stack([value, 2.0 * value - 1.0])

    return learner._replace(value=action_values)


def played(player: int, episodes: int = 16, learner: Learner = LEARNER, doubly_robust: bool = False) -> Experience:
    """What three codes of Kuhn poker do in `player`'s place against uniform play."""
    settings = play_settings(episodes)._replace(doubly_robust=doubly_robust)
    opponents = StackedPolicies(jnp.zeros((2, 1, 12, 2)), infoset_policy(KUHN))
    return jax.jit(
        lambda key: collect_episodes(
            key, make_view(KUHN, player), learner, PLAYED, CODES, opponents, jnp.zeros((2, 1)), settings
        )
    )(jax.random.key(7))


def test_sums_by_hand():
    """Two information sets, seen as 5 and 6, three actions, of which the first set has two."""
    table = TabularPolicy(np.array([[5.0], [6.0]]), np.array([[1, 1, 0], [1, 1, 1]]))
    learner = learner_of(table, 1)
    params = params_of(jax.random.key(3), table, 1)
    batch = Experience(
        code=jnp.zeros((1, 2)),
        observation=jnp.array([[[5.0], [6.0], [6.0], [5.0], [6.0]]]),
        legal=jnp.ones((1, 5, 3), bool),
        action=jnp.array([[1, 2, 2, 0, 2]]),
        log_prob=jnp.zeros((1, 5)),
        acted=jnp.array([[True, True, True, False, True]]),
        advantage=jnp.array([[0.5, -1.0, 2.0, 9.0, 3.0]]),
        target=jnp.array([[1.0, 2.0, 3.0, 9.0, 4.0]]),
        episodes=jnp.int32(5),
        env_steps=jnp.int32(5),
        earned=jnp.zeros((1, 5)),
        faced=jnp.zeros((1, 5, 2), jnp.int32),
        row=jnp.array([[0, 1, 1, 0, 1]]),
    )
    sums = summarize(learner, params, batch)
    assert isinstance(sums, TabularStatistics)
    np.testing.assert_allclose(sums.visits, [1, 3])
    np.testing.assert_allclose(sums.taken, [[0, 0], [1, 0], [0, 3]])
    np.testing.assert_allclose(sums.gain, [[0, 0], [0.5, 0], [0, 5.0]])
    np.testing.assert_allclose(sums.loss, [[0, 0], [0, 0], [0, 1.0]])
    np.testing.assert_allclose(sums.target, [[0, 0], [1, 0], [0, 9]])
    np.testing.assert_allclose(sums.squared, 1 + 4 + 9 + 16)
    np.testing.assert_allclose(jnp.exp(sums.log_prob).sum(axis=0), [1, 1], rtol=1e-6)
    assert jnp.exp(sums.log_prob)[2, 0] == 0  # illegal


@pytest.mark.parametrize(
    ("player", "surrogate", "advantage"),
    [(0, "ppo", "gae"), (1, "ppo", "gae"), (0, "a2c", "gae"), (1, "a2c", "gae")]
    + [(1, "ppo", "doubly_robust"), (0, "a2c", "q")],
)
def test_losses_and_gradients_are_those_of_the_rows(player, surrogate, advantage):
    """At the policy that played, and at another one where clipping takes hold on both sides."""
    learner = LEARNER if advantage == "gae" else of_actions(LEARNER)
    rows = played(player, learner=learner, doubly_robust=advantage == "doubly_robust")
    sums = summarize(learner, PLAYED, rows)
    assert isinstance(sums, TabularStatistics)
    assert sums.visits.sum() == rows.acted.sum() > 16

    @jax.jit
    def found(params, batch):
        weights = LossSettings(SURROGATES[surrogate], 0.2, value_weight=0.5, entropy_weight=0.1)
        loss = partial(policy_gradient_loss, learner=learner, settings=weights)
        return jax.value_and_grad(loss, has_aux=True)(params, [batch], jax.random.key(0))

    for params in (PLAYED, OTHER):
        for left, right in zip(jax.tree.leaves(found(params, rows)), jax.tree.leaves(found(params, sums)), strict=True):
            np.testing.assert_allclose(left, right, rtol=2e-4, atol=2e-6)


def test_divergence_of_policies_is_that_of_the_rows():
    rows = played(0)
    sums = summarize(LEARNER, PLAYED, rows)
    of_rows, of_sums = (
        batch.kl_per_code(batch.behavior(LEARNER, OTHER), batch.behavior(LEARNER, PLAYED)) for batch in (rows, sums)
    )
    assert of_rows.shape == (3,)
    assert (of_rows > 0.01).all()
    np.testing.assert_allclose(of_rows, of_sums, rtol=1e-4)


def test_uniform_play_is_that_of_the_rows():
    rows = played(0)
    of_rows, of_sums = (
        batch.kl_per_code(found := batch.behavior(LEARNER, OTHER), batch.uniform_behavior(LEARNER, found))
        for batch in (rows, summarize(LEARNER, PLAYED, rows))
    )
    assert (of_rows > 0.01).all()
    np.testing.assert_allclose(of_rows, of_sums, rtol=1e-4)


def test_divergence_and_entropy_by_hand():
    """Of (1/2, 1/2) against (1/4, 3/4): (log 2 + log 2/3) / 2; the second cell has one legal action."""
    left = jnp.log(jnp.array([[0.5, 1.0], [0.5, 0.0]])).at[1, 1].set(-1e9)
    right = jnp.log(jnp.array([[0.25, 1.0], [0.75, 0.0]])).at[1, 1].set(-1e9)
    np.testing.assert_allclose(kl_of_cells(left, right), [0.5 * np.log(4 / 3), 0.0], rtol=1e-5)
    np.testing.assert_allclose(entropy_of_cells(left), [np.log(2), 0.0], rtol=1e-6)


def test_values_looked_up_are_those_of_the_critic():
    """Advantages come from values in a table; by hand they come from the critic on every row."""
    rows = played(1)
    value = evaluate_critic(LEARNER, PLAYED, rows.code, rows.observation)
    np.testing.assert_allclose(
        np.where(rows.acted, rows.target - rows.advantage, 0), np.where(rows.acted, value, 0), rtol=1e-5, atol=1e-6
    )


def test_few_rows_stay_rows():
    """Four episodes of three steps are no more rows than there are information sets."""
    rows = played(0, episodes=4)
    assert summarize(LEARNER, PLAYED, rows) is rows


def test_looks_that_two_rows_share_are_not_counted():
    table = TabularPolicy(np.array([[1.0], [1.0]]), np.array([[1, 0], [1, 1]]))
    assert not table.distinct
    assert choose_table(learner_of(table, 1), 100) is None


def test_training_goes_the_same_way():
    """Three rounds on statistics and on rows, of the same play until rounding tells them apart."""
    rates = {"policy": 0.05, "critic": 0.05}

    def trained(summed: bool):
        opponents = StackedPolicies(jnp.zeros((2, 1, 12, 2)), infoset_policy(KUHN))

        def experience(key, params, carry):
            batch = collect_episodes(
                key, make_view(KUHN, 0), LEARNER, params, CODES, opponents, jnp.zeros((2, 1)), play_settings(16)
            )
            return [batch], carry

        weights = LossSettings(SURROGATES["ppo"], 0.2, value_weight=0.5, entropy_weight=0.01)
        return jax.jit(
            lambda key: train_learner(
                key,
                PLAYED,
                init_optimizers(PLAYED, 0.5),
                learner=LEARNER,
                experience=experience,
                loss=partial(policy_gradient_loss, learner=LEARNER, settings=weights),
                settings=TrainSettings(epochs=2, learning_rate=rates, gradient_clip=0.5, summarize=summed),
                steps=3,
            )
        )(jax.random.key(5))

    (left, _, said), (right, _, told) = trained(True), trained(False)
    for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(right), strict=True):
        np.testing.assert_allclose(a, b, atol=2e-3)
    assert said.episodes == told.episodes == 3 * 48
    np.testing.assert_allclose(said.value_loss, told.value_loss, rtol=1e-2)
    moved = max(
        float(jnp.abs(a - b).max()) for a, b in zip(jax.tree.leaves(left), jax.tree.leaves(PLAYED), strict=True)
    )
    assert moved > 0.1
