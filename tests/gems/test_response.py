"""The loss of ABR-TR by hand: every term of eq:abr-tr_revised on one batch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.gems.abr_task import AbrTask, make_learner, train_settings
from gems_jax.gems.response import abr_tr_loss
from gems_jax.gems.step import gems_networks
from gems_jax.learning.collection import PlaySettings, Source
from gems_jax.learning.trust_region import make_trust_region
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.views import make_view
from gems_trails import RPS, TINY

CONFIG = TINY.replace(latent_dim=1, generator_widths=(), jacobian="exact", surrogate="a2c", gae_lambda=1.0)


def setup(config):
    """One population of two anchors with logits (z, 0, 0); the frozen generator, and one whose base moved by 0.7."""
    nets = gems_networks(RPS, config)
    critic = nets.critic.init(jax.random.key(0))
    output = jnp.tile(jnp.asarray([[1.0, 0.0, 0.0]]), (1, 2))
    frozen = {"generator": {"layers": [], "output": output, "base": jnp.zeros((2, 3))}, "critic": critic}
    moved = {**frozen["generator"], "base": frozen["generator"]["base"].at[:, 0].add(0.7)}
    learner, codes = make_learner(nets, 1.0), jnp.asarray([[0.0], [1.0]])
    opponents = StackedPolicies(jnp.zeros((2, 1, 2, 3)), learner.apply)
    source = Source((make_view(RPS, 0),), learner, opponents, jnp.zeros((2, 1)), PlaySettings(4, 2, 1.0, 1.0))
    task = AbrTask(
        source, nets, codes, jnp.ones(2, bool), newest=jnp.int32(1), log_codes=jnp.log(jnp.full(2, 0.5)),
        time=jnp.int32(1), jacobian_weight=0.25, config=config,
    )  # fmt: skip
    batches = source.play_episodes(jax.random.key(1), frozen, codes, source.settings)
    region = make_trust_region(learner, frozen, batches, jnp.asarray([True, False]))
    return task, region, batches, frozen | {"generator": moved}


def log_policy(first):
    return np.asarray([first, 0.0, 0.0]) - np.log(np.exp(first) + 2.0)


@pytest.mark.parametrize("protects", ["others", "batch"])
def test_the_loss_is_the_sum_of_its_terms(protects):
    """KL and entropy by hand: logits move from z to z + 0.7. J = (1, 0, 0, 1, 0, 0): its squared norm is 2."""
    config = CONFIG.replace(
        kl_protects=protects, beta_kl=0.5, slowdown=2.0, value_weight=0.3, entropy_weight=0.4, entropy_decay=1.0
    )
    task, region, batches, params = setup(config)
    loss, (parts, penalty) = abr_tr_loss(params, batches, jax.random.key(2), task=task, region=region)
    now, then = np.stack([log_policy(0.7), log_policy(1.7)]), np.stack([log_policy(0.0), log_policy(1.0)])
    drift = (np.exp(now) * (now - then)).sum(axis=1)
    kl = drift[0] if protects == "others" else drift.mean()  # the first anchor is protected, or the batch's two are
    np.testing.assert_allclose(penalty, 0.5 * 2.0 * kl + 0.25 * 2.0, rtol=1e-5)
    np.testing.assert_allclose(parts.entropy, -(np.exp(now) * now).sum(axis=1).mean(), rtol=1e-5)
    (batch,) = batches
    taken = np.asarray(batch.action)
    log_prob = np.take_along_axis(now[:, None], taken[..., None], axis=2)[..., 0]
    np.testing.assert_allclose(parts.objective, (log_prob * batch.advantage).mean(), rtol=1e-4)
    value_loss = np.mean(np.square(batch.advantage))  # the critic did not move: its error is the advantage
    np.testing.assert_allclose(parts.value_loss, value_loss, rtol=1e-4)
    expected = -parts.objective + 0.3 * parts.value_loss - 0.2 * parts.entropy + penalty
    np.testing.assert_allclose(loss, expected, rtol=1e-5)


@pytest.mark.parametrize("magnet", ["uniform", "copied"])
def test_the_pull_of_a_magnet_by_hand(magnet):
    """Logits (z + 0.7, 0, 0) of z = 0 and z = 1 towards uniform play, or towards a copy of the frozen generator.

    In the fourth iteration, after three, alpha = 0.6 / sqrt(1 + 3) = 0.3.
    """
    config = CONFIG.replace(
        beta_kl=0.0, value_weight=0.0, jacobian="none", magnet=magnet, magnet_weight=0.6, magnet_decay=1.0
    )
    task, region, batches, params = setup(config)
    task = task._replace(time=jnp.int32(4), magnet=region.frozen["generator"])
    loss, (parts, penalty) = abr_tr_loss(params, batches, jax.random.key(2), task=task, region=region)
    now = np.stack([log_policy(0.7), log_policy(1.7)])
    then = np.stack([log_policy(0.0), log_policy(0.0 if magnet == "uniform" else 1.0)])
    np.testing.assert_allclose(penalty, 0.3 * (np.exp(now) * (now - then)).sum(axis=1).mean(), rtol=1e-5)
    np.testing.assert_allclose(loss, -parts.objective + penalty, rtol=1e-5)


def test_step_sizes_are_annealed_by_the_iteration():
    """0.02 / 2 and 0.04 / 2 of a slowdown of 2, halved after three iterations; the output layer takes a quarter."""
    config = CONFIG.replace(
        learning_rate=0.02, critic_learning_rate=0.04, slowdown=2.0, learning_rate_decay=1.0, output_rate=0.25
    )
    settings = train_settings(setup(config)[0]._replace(time=jnp.int32(4)))
    np.testing.assert_allclose(settings.learning_rate["generator"]["base"], 0.005, rtol=1e-6)
    np.testing.assert_allclose(settings.learning_rate["generator"]["output"], 0.00125, rtol=1e-6)
    np.testing.assert_allclose(settings.learning_rate["critic"], 0.01, rtol=1e-6)
    assert settings.momentum == 0.9 and train_settings(setup(config.replace(momentum=0.0))[0]).momentum == 0.0


def test_without_weights_only_the_objective_is_left():
    config = CONFIG.replace(beta_kl=0.0, value_weight=0.0, entropy_weight=0.0, jacobian="none")
    task, region, batches, params = setup(config)
    loss, (parts, penalty) = abr_tr_loss(params, batches, jax.random.key(2), task=task, region=region)
    assert penalty == 0.0
    np.testing.assert_allclose(loss, -parts.objective, rtol=1e-6)
