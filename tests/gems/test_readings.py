"""Readings of the paper that a choice turns on: each by a known answer, and all of them through one iteration."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import gems_step, init_gems, make_game, preset
from gems_jax.estimation.monte_carlo import bootstrap_mixture
from gems_jax.gems.meta_game import update_meta_strategy
from gems_jax.gems.oracle import expand
from gems_jax.gems.paper_presets import PAPER_GAMES
from gems_jax.gems.response import respond
from gems_jax.gems.state import AnchorSet, jacobian_weight
from gems_jax.gems.step import population_of
from gems_jax.learning import ppo
from gems_jax.learning.ppo import TrainMetrics
from gems_jax.policies.population import materialize
from gems_trails import RPS, TINY

ROCK, PAPER, SCISSORS = range(3)
LOW, HIGH = RPS.return_bounds
# Codes are rows of the identity, and e_a generates the pure policy a.
PURE = TINY.replace(latent_dim=3, generator_widths=(), initial_anchors=2, capacity=2, eta=1.2, mixture_samples=0)


def pure_state(config, *codes):
    """The linear generator 100 I for both players, with the pure policies `codes` [P, K] as anchors."""
    state = init_gems(jax.random.key(0), RPS, config, anchors=jnp.eye(3)[jnp.asarray(codes)])
    output = jnp.stack([jnp.tile(100.0 * jnp.eye(3), (1, 2))] * 2)
    return state.replace(generator={"layers": [], "output": output, "base": jnp.zeros_like(state.generator["base"])})


def solve(config, *codes, key=0):
    state = pure_state(config, *codes)
    return update_meta_strategy(
        jax.random.key(key), state, materialize(population_of(state, RPS, config), config.capacity), RPS, config
    )


def gap(solution, population=0):
    """How far the first anchor's logit is ahead of the second's."""
    return float(solution.log_sigma[population, 0] - solution.log_sigma[population, 1])


# --- the mixture's value: joint samples or bootstrap


def test_bootstrap_of_equal_returns_is_the_mixture_of_the_values():
    value, variance = bootstrap_mixture(
        jax.random.key(0), jnp.asarray([[0.25] * 6, [1.0] * 6]), jnp.asarray([0.4, 0.6]), 16
    )
    np.testing.assert_allclose(value, 0.4 * 0.25 + 0.6, rtol=1e-6)
    np.testing.assert_allclose(variance, 0.0, atol=1e-10)


def test_bootstrap_has_the_moments_of_resampling():
    """Means of resamples: expectation sigma . v-hat, variance sum sigma^2 v / n with the biased variance v."""
    returns, sigma, resamples = jnp.asarray([[0.0, 1.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]), jnp.asarray([0.5, 0.5]), 4000
    value, variance = bootstrap_mixture(jax.random.key(1), returns, sigma, resamples)
    expected = 0.25 * 0.25 + 0.25 * 0.1875
    assert abs(float(value) - 0.375) < 5 * np.sqrt(expected / 4 / resamples)
    np.testing.assert_allclose(variance, expected, rtol=5 * np.sqrt(2 / resamples))


def test_bootstrap_plays_no_joint_episode():
    """Rock and paper against scissors: 1 and 1/6 whatever is drawn, so that r-hat = sigma . v exactly."""
    found = {
        name: solve(PURE.replace(mixture=name, mixture_samples=8), [ROCK, PAPER], [SCISSORS] * 2)
        for name in ("joint", "bootstrap")
    }
    np.testing.assert_allclose(found["bootstrap"].estimate.mixture_value[0], (1 + 1 / 6) / 2, rtol=1e-5)
    np.testing.assert_allclose(found["bootstrap"].estimate.mixture_variance[0], 0.0, atol=1e-9)
    assert found["joint"].episodes - found["bootstrap"].episodes == 8 * PURE.episodes
    assert PURE.replace(mixture="bootstrap", mixture_samples=8).joint_episodes == 0


# --- EMA of v-hat and r-hat


@pytest.mark.parametrize(
    ("new_value", "scope", "mixture_value", "values", "ahead"),
    [
        # from 0, by half: r-hat = 7/24 and the bracket (1 - 7/24, 1/6 - 7/24) is cut at 1/2
        ("zero", "both", 7 / 24, (1 / 2, 1 / 12), 1.2 * (1 / 2 + 1 / 8)),
        # r-hat = 7/12 as measured: (5/12, -5/12)
        ("zero", "values", 7 / 12, (1 / 2, 1 / 12), 1.2 * 10 / 12),
        # nothing was measured before: the first average is the first estimate
        ("oracle_mean", "both", 7 / 12, (1.0, 1 / 6), 1.2 * 10 / 12),
    ],
)
def test_moving_averages_by_hand(new_value, scope, mixture_value, values, ahead):
    config = PURE.replace(ema=0.5, ema_scope=scope, new_value=new_value, gradient_cap=0.5)
    solution = solve(config, [ROCK, PAPER], [SCISSORS] * 2)
    np.testing.assert_allclose(solution.mixture_value[0], mixture_value, rtol=1e-5)
    np.testing.assert_allclose(solution.values[0], values, rtol=1e-5)
    np.testing.assert_allclose(gap(solution), ahead, rtol=1e-4)


# --- one number per player


def test_each_player_has_its_own_step_size():
    """Equal anchors against equal mixtures in a symmetric game: logits differ in proportion to eta."""
    config = PURE.replace(estimator="exact")
    one = solve(config.replace(eta=1.2), [ROCK, PAPER], [ROCK, PAPER])
    two = solve(config.replace(eta=(1.2, 0.3)), [ROCK, PAPER], [ROCK, PAPER])
    assert abs(gap(one)) > 0.1
    np.testing.assert_allclose([gap(two, 0), gap(two, 1)], [gap(one, 0), gap(one, 1) / 4], rtol=1e-5)
    swept = jax.vmap(lambda eta: solve(config.replace(eta=eta), [ROCK, PAPER], [ROCK, PAPER]).log_sigma)(
        jnp.asarray([[1.2, 1.2], [1.2, 0.3]])
    )
    np.testing.assert_allclose(swept, jnp.stack([one.log_sigma, two.log_sigma]), rtol=1e-6)


def test_each_player_has_its_own_jacobian_weight():
    config = TINY.replace(lambda_jacobian=(1.0, 3.0), lambda_decay=1.0)
    np.testing.assert_allclose([jacobian_weight(config, jnp.int32(1), p) for p in (0, 1)], [0.5, 1.5])
    assert jacobian_weight(config.replace(lambda_jacobian=2.0), jnp.int32(1), 1) == 1.0


# --- the oracle with anchors in the pool


@functools.cache
def oracle_calls():
    """Eight calls with one random candidate, for player 0 against scissors."""
    config = PURE.replace(capacity=3, mutations=0, randoms=1, pool_anchors=True, index="greedy", lambda_jacobian=(0, 9))
    state = pure_state(config, [ROCK, PAPER], [SCISSORS] * 2)
    frozen = population_of(state, RPS, config)
    opponents = materialize(frozen, config.capacity)

    @jax.jit
    @jax.vmap
    def call(key):
        key_meta, key_oracle = jax.random.split(key)
        solution = update_meta_strategy(key_meta, state, opponents, RPS, config)
        return expand(key_oracle, state, solution, frozen, opponents, RPS, config)

    return config, state, call(jax.random.split(jax.random.key(3), 8))


def test_an_anchor_that_wins_leaves_the_anchor_set_as_it_is():
    config, state, found = oracle_calls()
    rock, paper = found.metrics.pool_means[:, 0, 1], found.metrics.pool_means[:, 0, 2]
    np.testing.assert_allclose(rock, 1.0, rtol=1e-6)  # every candidate is judged, and so are the anchors
    np.testing.assert_allclose(paper, 1 / 6, rtol=1e-5)
    assert np.isneginf(found.metrics.scores[:, :, 3]).all() and np.isfinite(found.metrics.scores[:, :, :3]).all()
    better = np.asarray(
        found.metrics.scores[:, 0, 0] >= found.metrics.scores[:, 0, 1]
    )  # the fresh candidate comes first in a tie
    assert 0 < better.sum() < 8
    np.testing.assert_array_equal(found.metrics.chosen[:, 0], np.where(better, 0, -1))
    np.testing.assert_array_equal(found.anchor_set.active[:, 0].sum(axis=1), np.where(better, 3, 2))
    np.testing.assert_array_equal(found.slots[:, 0, 0], np.where(better, 2, -1))
    for number in np.flatnonzero(~better):
        np.testing.assert_array_equal(found.anchor_set.anchors[number, 0], state.anchors[0])
        np.testing.assert_array_equal(found.anchor_set.anchor_id[number, 0], state.anchor_id[0])
    # one candidate and two anchors of each player, whatever stands in the empty slot
    assert (found.episodes == 2 * 3 * config.oracle_opponents * config.oracle_episodes).all()
    assert (found.env_steps == found.episodes).all()  # games of one step
    assert config.pool_size(2) == 3 and config.pool_size() == 4


def test_the_penalty_of_the_pool_is_the_players_own():
    """J = 100 (I, I): its squared norm is 6e4 for every code, weighed by 9 for the second player alone."""
    _, _, found = oracle_calls()
    np.testing.assert_allclose(found.metrics.scores[:, 0, :3], found.metrics.pool_means[:, 0, :3], rtol=1e-6)
    penalty = found.metrics.pool_means[:, 1, :3] - found.metrics.scores[:, 1, :3]
    np.testing.assert_allclose(penalty, np.full((8, 3), 9 * 6e4), rtol=1e-4)


# --- q_new as the fraction of new opponents


def batch_of(monkeypatch, config, look):
    """(key, q_new) -> what `look` makes of the first training batch [P]. The newest anchor is new to the state."""

    def train(key, params, opt_state, *, experience, **options):
        zero = jnp.float32(0.0)
        seen = look(experience(key, params, options["carry"])[0][0])
        return params, opt_state, TrainMetrics(seen, zero, zero, zero, zero, jnp.int32(0), jnp.int32(0))

    monkeypatch.setattr(ppo, "train_learner", train)
    state = pure_state(config, [PAPER, PAPER], [ROCK, ROCK])
    held = AnchorSet(  # slot 1 was given to scissors, which has no mass
        anchors=jnp.eye(3)[jnp.asarray([[PAPER, SCISSORS]] * 2)].at[1, 0].set(jnp.eye(3)[ROCK]),
        active=state.active,
        anchor_id=jnp.asarray([[0, 2]] * 2),
        log_sigma=state.log_sigma,
        sigma=jnp.asarray([[1.0, 0.0]] * 2),
        values=state.values,
    )
    opponents = materialize(population_of(state, RPS, config), config.capacity)
    return jax.jit(lambda key, q: respond(key, state, held, opponents, RPS, config.replace(q_new=q)).metrics.objective)


def test_a_fraction_of_the_opponents_is_the_newest_anchor(monkeypatch):
    """Uniform draws of Z_t are the batch. What q_new asks for plays the newcomer's own policy, under theta_old."""
    config = PURE.replace(q_new_applies="opponents", abr_anchors=32, abr_opponents=16, abr_episodes=1)

    def look(batch):
        newest, scissors = jnp.mean(batch.faced[..., 1] == 1), jnp.mean(batch.code[:, SCISSORS])
        of_scissors = jnp.sum(batch.earned.mean(axis=1) * batch.code[:, SCISSORS]) / batch.code[:, SCISSORS].sum()
        return newest + 2 * (jnp.abs(scissors - 0.5) < 0.3) + 10 * of_scissors

    seen = batch_of(monkeypatch, config, look)
    payoff = np.asarray(RPS.payoffs[0])[SCISSORS] / (HIGH - LOW)  # of scissors against each pure policy
    for q_new, error in ((0.0, 1e-5), (1.0, 1e-5), (0.25, 0.15)):
        faced = (1 - q_new) * payoff[ROCK] + q_new * payoff[SCISSORS]
        got = float(seen(jax.random.key(2), q_new)[0])
        assert abs(got - (q_new + 2 + 10 * faced)) <= error * (1 + 10 * np.ptp(payoff)), (q_new, got)


# --- Z_0 and sigma_0


def test_initial_anchors_and_meta_strategy_are_arguments():
    config = TINY.replace(initial_anchors=2)
    codes, sigma = jnp.arange(8.0).reshape(2, 2, 2), jnp.asarray([[0.25, 0.75], [1.0, 0.0]])
    state = init_gems(jax.random.key(0), RPS, config, anchors=codes, sigma=sigma)
    np.testing.assert_array_equal(state.anchors[:, :2], codes)
    np.testing.assert_array_equal(state.anchors[:, 2], 0.0)
    for mixture in (state.sigma, state.sigma_average, np.exp(state.log_sigma)):
        np.testing.assert_allclose(mixture, [[0.25, 0.75, 0.0], [1.0, 0.0, 0.0]], rtol=1e-6)
    plain = init_gems(jax.random.key(0), RPS, config)
    jax.tree.map(np.testing.assert_array_equal, plain.generator, state.generator)  # the key is split as ever
    traced = jax.jit(lambda z, s: init_gems(jax.random.key(0), RPS, config, anchors=z, sigma=s))(codes, sigma)
    np.testing.assert_array_equal(traced.anchors, state.anchors)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"anchors": np.zeros((2, 1, 2))}, r"anchors must have the shape \[P, k0, D\] = \(2, 2, 2\).*got \(2, 1, 2\)"),
        ({"anchors": np.full((2, 2, 2), np.nan)}, "anchors must be finite"),
        ({"sigma": np.ones((2, 3)) / 3}, r"sigma must have the shape \[P, k0\] = \(2, 2\).*got \(2, 3\)"),
        ({"sigma": np.ones((2, 2))}, "every row of sigma must be at least 0 and sum to 1"),
        ({"sigma": np.asarray([[1.5, -0.5]] * 2)}, "every row of sigma must be at least 0 and sum to 1"),
    ],
)
def test_initial_arrays_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        init_gems(jax.random.key(0), RPS, TINY.replace(initial_anchors=2), **arguments)


# --- one iteration of everything

SMALL = dict(
    capacity=3, generator_widths=(4,), critic_hidden=(4,), num_opponents=2, episodes=1, mixture_samples=8, mutations=1,
    randoms=1, oracle_opponents=2, oracle_episodes=1, abr_steps=1, abr_anchors=2, abr_opponents=2, abr_episodes=1,
    kl_opponents=1, jacobian="gram",
)  # fmt: skip


@pytest.mark.parametrize(
    "name", [*(pytest.param(name, marks=pytest.mark.slow) for name in ("kuhn_poker", "public_goods")), "simple_spread"]
)
def test_paper_presets_train_with_every_reading(name):
    """The preset at a small size: by weights for five players, continuous in a particle world, and Kuhn's settings
    with all the other readings in a game of one step."""
    options = {**PAPER_GAMES.get(name, {}), **({"max_steps": 2} if name == "simple_spread" else {})}
    config = preset(name, "paper").replace(**SMALL)
    game = RPS if name == "kuhn_poker" else make_game(name, **options)
    if name == "kuhn_poker":
        config = config.replace(
            mixture="bootstrap", pool_anchors=True, ema=0.5, eta=(0.1, 0.2), lambda_jacobian=(1e-4, 1e-3)
        )
    assert config.q_new_applies == "opponents" and config.kl_protects == "batch" and config.ema_scope == "both"
    start = init_gems(jax.random.key(0), game, config)
    state, metrics = jax.jit(lambda s, k, c: gems_step(s, k, game, c))(start, jax.random.key(1), config)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((state.generator, state.values, state.sigma)))
    leaves = zip(*(jax.tree.leaves(each.generator) for each in (state, start)), strict=True)
    assert not all(np.array_equal(new, old) for new, old in leaves)
    np.testing.assert_allclose(state.sigma.sum(axis=1), 1.0, rtol=1e-5)
    assert metrics.env_steps > 0


def test_continuous_actions_do_not_tremble():
    with pytest.raises(ValueError, match="abr_tremble must be 0 in simple_tag, whose actions are continuous, got 0.5"):
        init_gems(
            jax.random.key(0),
            make_game("simple_tag", continuous=True),
            preset("simple_tag", "paper").replace(abr_tremble=0.5),
        )
