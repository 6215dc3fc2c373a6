"""The phases of gems_step by hand, on one step or less."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import init_gems
from gems_jax.gems.abr_task import faced_mixture, make_learner
from gems_jax.gems.meta_game import update_meta_strategy
from gems_jax.gems.response import respond
from gems_jax.gems.state import AnchorSet
from gems_jax.gems.step import gems_networks, gems_profile, population_of
from gems_jax.learning import ppo
from gems_jax.learning.collection import PlaySettings, collect_episodes
from gems_jax.learning.ppo import TrainMetrics
from gems_jax.learning.trust_region import make_trust_region
from gems_jax.policies.population import StackedPolicies, materialize
from gems_jax.rollout.views import make_view
from gems_trails import RPS, TINY, trail


def pure_population(config, *codes):
    """A linear generator that turns the code e_a into the pure policy a, the same for both players; anchors `codes`."""
    state = init_gems(jax.random.key(0), RPS, config)
    output = jnp.tile(100.0 * jnp.eye(3), (1, 2))  # phi [2 infosets, 3 actions], flattened
    generator = {
        "layers": [],
        "output": jnp.stack([output] * 2),
        "base": jnp.zeros_like(state.generator["base"]),
    }
    return state.replace(generator=generator, anchors=jnp.stack([jnp.eye(3)[jnp.asarray(row)] for row in codes]))


BY_HAND = TINY.replace(latent_dim=3, generator_widths=(), initial_anchors=2, capacity=2, meta_steps=3, eta=1.2)


def test_meta_steps_average_the_iterates():
    """Rock and paper against scissors earn 1 and 1/6 of the scaled return, whatever is drawn: no noise at all.

    In both rules the first logit gains 1.2 (1 - 1/6) = 1 on the second per step (the first step has no hint, the later
    ones see equal values), so sigma = 1 / (1 + e^-n) after n steps and the mixture that is played is their mean.
    """

    @jax.jit
    def solve(key):
        solutions = {}
        for rule in ("omwu", "mwu"):
            config = BY_HAND.replace(meta_rule=rule)
            state = pure_population(config, [0, 1], [2, 2])
            opponents = materialize(population_of(state, RPS, config), 2)
            solutions[rule] = update_meta_strategy(jax.random.fold_in(key, len(rule)), state, opponents, RPS, config)
        return solutions

    iterates = 1.0 / (1.0 + np.exp(-np.arange(4.0)))
    for solution in solve(jax.random.key(1)).values():
        np.testing.assert_allclose(solution.sigma[0], [iterates[1:].mean(), 1 - iterates[1:].mean()], rtol=1e-5)
        np.testing.assert_allclose(np.exp(solution.log_sigma[0, 0]), iterates[3], rtol=1e-5)
        np.testing.assert_allclose(solution.metrics.measured_sigma[0, 0], iterates[2], rtol=1e-5)
        np.testing.assert_allclose(solution.estimate.values[0], [1.0, 1 / 6], rtol=1e-5)
        assert solution.episodes == 3 * (2 * 2 * 6 + 8)


def test_kl_of_a_perturbation_by_hand():
    """Two anchors at logits (0, 0, 0) and (1, 0, 0); the new generator adds (d, 0, 0) to both."""
    config = TINY.replace(latent_dim=1, generator_widths=())
    learner = make_learner(gems_networks(RPS, config), 1.0)
    output = jnp.tile(jnp.asarray([[1.0, 0.0, 0.0]]), (1, 2))
    critic = gems_networks(RPS, config).critic.init(jax.random.key(0))
    frozen = {"generator": {"layers": [], "output": output, "base": jnp.zeros((2, 3))}, "critic": critic}
    codes = jnp.asarray([[0.0], [1.0]])

    @jax.jit
    def drift(key, shift):
        moved = {**frozen["generator"], "base": frozen["generator"]["base"].at[:, 0].add(shift)}
        opponents = StackedPolicies(jnp.zeros((2, 1, 2, 3)), learner.apply)
        play = PlaySettings(num_opponents=2, episodes=1, discount=1.0, decay=1.0)
        batch = collect_episodes(key, make_view(RPS, 0), learner, frozen, codes, opponents, jnp.zeros((2, 1)), play)
        region = make_trust_region(learner, frozen, [batch], jnp.ones(2, bool))
        trained = {**frozen, "generator": moved}
        return region.divergence(learner, trained), region.divergence_on(learner, trained, [batch])

    for found in drift(jax.random.key(0), 0.0):
        np.testing.assert_array_equal(found, [0.0, 0.0])
    for shift in (0.7, -2.0):

        def log_policy(first):
            return np.asarray([first, 0.0, 0.0]) - np.log(np.exp(first) + 2.0)

        expected = [(np.exp(log_policy(x + shift)) * (log_policy(x + shift) - log_policy(x))).sum() for x in (0.0, 1.0)]
        for found in drift(jax.random.key(0), shift):
            np.testing.assert_allclose(found, expected, rtol=1e-4)


def training_that_looks(monkeypatch, state, config, look):
    """Phase 4 whose training learns nothing: (key, config) -> what `look` makes of its first batch, [P]."""

    def train(key, params, opt_state, *, experience, **options):
        zero = jnp.float32(0.0)
        seen = look(experience(key, params, options["carry"])[0][0])
        return params, opt_state, TrainMetrics(seen, zero, zero, zero, zero, jnp.int32(0), jnp.int32(0))

    monkeypatch.setattr(ppo, "train_learner", train)
    held = AnchorSet(state.anchors, state.active, state.anchor_id, state.log_sigma, state.sigma, state.values)
    opponents = materialize(population_of(state, RPS, config), 2)
    return lambda key, config: respond(key, state, held, opponents, RPS, config).metrics.objective


def test_the_share_of_a_batch_on_the_newest_anchor(monkeypatch):
    """Slot 1, of code 1, holds the newest anchor and has no mass; slot 0, of code 0, has it all."""
    config = TINY.replace(latent_dim=1, generator_widths=(), capacity=2, initial_anchors=2, abr_anchors=4)
    state = init_gems(jax.random.key(0), RPS, config)
    state = state.replace(anchors=jnp.tile(jnp.asarray([[0.0], [1.0]]), (2, 1, 1)), sigma=jnp.asarray([[1.0, 0.0]] * 2))

    respond_with = training_that_looks(monkeypatch, state, config, lambda batch: jnp.mean(batch.code))

    @jax.jit
    def share(key, q_new):
        return respond_with(key, config.replace(q_new=q_new))

    for q_new in (0.0, 0.25, 0.5, 1.0):
        np.testing.assert_allclose(share(jax.random.key(1), q_new), [q_new, q_new])


def test_the_share_of_opponents_that_sigma_does_not_choose():
    """Masses 0.8, 0.2, none (the newcomer) and an empty slot: the floor spreads over the first two."""
    sigma, active = jnp.asarray([[0.8, 0.2, 0.0, 0.0]]), jnp.asarray([[True, True, True, False]])
    for floor, expected in [(0.0, [0.8, 0.2, 0, 0]), (0.5, [0.65, 0.35, 0, 0]), (1.0, [0.5, 0.5, 0, 0])]:
        np.testing.assert_allclose(jnp.exp(faced_mixture(sigma, active, floor)), [expected], rtol=1e-6)


def test_opponents_of_the_training_tremble(monkeypatch):
    """Scissors against rock lose every episode; against a hand that always trembles they lose a third."""
    config = BY_HAND.replace(abr_anchors=8, abr_opponents=8, abr_episodes=8)
    state = pure_population(config, [2, 2], [0, 0])

    respond_with = training_that_looks(monkeypatch, state, config, lambda batch: jnp.mean(batch.earned))

    @jax.jit
    def earned(key, tremble):
        return respond_with(key, config.replace(abr_tremble=tremble))[0]

    low, high = RPS.return_bounds
    sure, shaken = (float(earned(jax.random.key(1), share)) for share in (0.0, 1.0))
    rewards = np.asarray([RPS.payoffs[0][2][other] for other in range(3)]) / (high - low)
    assert sure == pytest.approx(rewards[0], abs=1e-6)
    assert shaken == pytest.approx(rewards.mean(), abs=0.1)
    assert abs(shaken - sure) > 0.2


def test_profiles_and_temperature():
    plain = trail("plain")
    state = plain.after(4)
    profile = gems_profile(state, RPS, plain.config)
    np.testing.assert_array_equal(profile.sigma, state.sigma)
    np.testing.assert_array_equal(gems_profile(state, RPS, plain.config, "average").sigma, state.sigma_average)
    params = materialize(profile.population, 3).params
    cooler = gems_profile(state, RPS, plain.config.replace(temperature=4.0))
    np.testing.assert_allclose(materialize(cooler.population, 3).params, params / 4.0, rtol=1e-5)
    sharper = plain.config.replace(temperature=4.0, play_temperature=0.5)
    np.testing.assert_allclose(
        materialize(gems_profile(state, RPS, sharper).population, 3).params, params / 2.0, rtol=1e-5
    )
    with pytest.raises(ValueError, match="unknown profile 'last'; known: 'iterate', 'average'"):
        gems_profile(state, RPS, plain.config, "last")


def test_the_initial_state():
    config = TINY.replace(initial_anchors=2)
    state = init_gems(jax.random.key(0), RPS, config)
    np.testing.assert_array_equal(state.active, [[True, True, False]] * 2)
    np.testing.assert_array_equal(state.anchor_id, [[0, 1, -1]] * 2)
    np.testing.assert_allclose(np.exp(state.log_sigma), [[0.5, 0.5, 0.0]] * 2)
    np.testing.assert_array_equal(state.anchors[:, 2], 0.0)
    assert (state.anchors[0] != state.anchors[1]).any() and state.step == 0
