"""The importance-weighted estimator: unbiased at any floor, its variance by formula and by simulation, one batch."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.estimation.importance import shared_values
from gems_jax.games.matrix import matrix_game
from gems_jax.policies.population import StackedPolicies
from meta_games import exact
from toy_games import TAKE, WAIT, Purse, constant, pure

REPEATS, SAMPLES = 4000, 32
SIGMA = np.array([[0.01, 0.29, 0.7, 0.0], [0.5, 0.49, 0.01, 0.0], [0.3, 0.01, 0.69, 0.0]])
ACTIVE = jnp.asarray(SIGMA > 0)
FLOORS = (0.0, 0.01, 0.3)


def importance_variance(mean, second_moment, mass, samples):
    """Var v-hat_i = (E[Y^2 | i] / sigma(i) - v_i^2) / B at floor 0, of the mean return Y of one profile's episodes."""
    return (second_moment / mass - mean**2) / samples


def random_game(players, seed=0):
    payoffs = np.random.default_rng(seed).uniform(-1, 1, (players, *[3] * players))
    return matrix_game(payoffs, return_bounds=(-1.0, 1.0), zero_sum=False, name="random")


def logits_of(players, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=(players, 4, 3)), jnp.float32)


def repeated(game, logits, sigma, *, floor=0.0, repeats=REPEATS, samples=SAMPLES, **options):
    """Estimates [repeats, ...]."""
    active = jnp.asarray(sigma > 0)

    @jax.jit
    def run(game, keys, logits, log_sigma, floor):
        policies = StackedPolicies(logits, constant)
        options_ = {"samples": samples, "episodes": 1, **options}
        return jax.vmap(lambda k: shared_values(k, game, policies, log_sigma, active, floor=floor, **options_))(keys)

    with np.errstate(divide="ignore"):
        log_sigma = jnp.log(jnp.asarray(sigma, jnp.float32))
    return run(game, jax.random.split(jax.random.key(0), repeats), logits, log_sigma, floor)


@pytest.fixture(scope="module", params=[2, 3], ids=["two players", "three players"])
def runs(request):
    """(exact numbers, estimates by floor). The floor is traced: one compilation per number of players."""
    players = request.param
    game, logits, sigma = random_game(players), logits_of(players), SIGMA[:players]
    return exact(game, logits, sigma), {f: repeated(game, logits, sigma, floor=f) for f in FLOORS}, sigma


@pytest.mark.parametrize("floor", FLOORS)
def test_unbiased_down_to_masses_of_a_hundredth(runs, floor):
    """Five standard errors of at most 12 numbers: by chance below 1e-5 per case."""
    (values, _, mixture, _), found, sigma = runs
    got, active = found[floor], sigma > 0
    error = np.std(got.values, axis=0) / np.sqrt(REPEATS)
    assert (np.abs(got.values.mean(axis=0) - values)[active] < 5 * error[active]).all()
    error = np.std(got.mixture_value, axis=0) / np.sqrt(REPEATS)
    assert (np.abs(got.mixture_value.mean(axis=0) - mixture) < 5 * error).all()
    np.testing.assert_array_equal(got.values[:, ~active], 0.0)
    np.testing.assert_array_equal(got.variances[:, ~active], 0.0)
    assert (got.count == SAMPLES).all() and (got.episodes == SAMPLES).all() and (got.env_steps == SAMPLES).all()


def test_variance_by_formula(runs):
    """Against simulation, within five standard errors of a variance; what is reported is unbiased as well."""
    (values, variances, *_), found, sigma = runs
    got, active = found[0.0], sigma > 0
    expected = importance_variance(values, variances + values**2, np.where(active, sigma, 1.0), SAMPLES)[active]
    samples = np.asarray(got.values, np.float64)[:, active]
    deviations = (samples - samples.mean(axis=0)) ** 2
    error = deviations.std(axis=0) / np.sqrt(REPEATS)
    assert (np.abs(deviations.mean(axis=0) - expected) < 5 * error).all()
    assert expected.max() > 20 * expected.min()  # a mass of a hundredth costs that much
    reported = np.asarray(got.variances, np.float64)[:, active] / SAMPLES
    error = reported.std(axis=0) / np.sqrt(REPEATS)
    assert (np.abs(reported.mean(axis=0) - expected) < 5 * error).all()


def test_a_floor_bounds_the_variance(runs):
    _, found, sigma = runs
    rare = sigma == 0.01
    spread = {floor: np.var(np.asarray(found[floor].values), axis=0)[rare] for floor in FLOORS}
    # drawn by a share of 0.3 from three anchors alike, a mass of 0.01 comes up ten times as often
    assert (spread[0.3] < 0.25 * spread[0.0]).all() and (spread[0.01] < spread[0.0]).all()


def test_the_episodes_of_a_profile_are_one_sample():
    """Pure anchors: episodes of a profile are all alike, so two of them change nothing but the count."""
    game = random_game(2)
    logits = jnp.stack([jnp.concatenate([pure(3, 0, 1, 2), pure(3, 0)])] * 2)
    values, variances, *_ = exact(game, logits, SIGMA[:2])
    got = repeated(game, logits, SIGMA[:2], repeats=2000, episodes=2)
    active = SIGMA[:2] > 0
    expected = importance_variance(values, variances + values**2, np.where(active, SIGMA[:2], 1.0), SAMPLES)[active]
    samples = np.asarray(got.values, np.float64)[:, active]
    deviations = (samples - samples.mean(axis=0)) ** 2
    assert (np.abs(deviations.mean(axis=0) - expected) < 5 * deviations.std(axis=0) / np.sqrt(2000)).all()
    assert (got.episodes == 2 * SAMPLES).all() and (got.count == SAMPLES).all()


def test_self_normalised_is_steadier_and_nearly_unbiased():
    """By 256 samples the bias is below the noise of one estimate; its own variance says how large that is."""
    game, logits, sigma = random_game(3), logits_of(3), np.array([[0.2, 0.3, 0.5, 0.0]] * 3)
    values, *_ = exact(game, logits, sigma)
    plain, steady = (
        repeated(game, logits, sigma, repeats=1000, samples=256, self_normalized=kind) for kind in (False, True)
    )
    active = sigma > 0
    bias = np.abs(steady.values.mean(axis=0) - values)[active]
    spread, plain_spread = (np.var(np.asarray(one.values), axis=0)[active] for one in (steady, plain))
    assert (bias < 0.2 * np.sqrt(spread)).all() and (spread < 0.8 * plain_spread).all()
    reported = np.asarray(steady.variances).mean(axis=0)[active] / 256
    np.testing.assert_allclose(reported, spread, rtol=0.25)


def test_an_anchor_that_never_came_up_counts_as_the_mixture():
    game = random_game(2)
    sigma = np.array([[1.0 - 1e-6, 1e-6, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    got = repeated(game, logits_of(2), sigma, repeats=3, self_normalized=True)
    np.testing.assert_allclose(got.values[:, 0, 1], got.mixture_value[:, 0], rtol=1e-5)
    np.testing.assert_array_equal(got.variances[:, 0, 1], 0.0)


def test_a_shared_population_averages_over_its_places():
    """Both players from one population, in a game that pays the two places differently."""
    payoffs = np.asarray([[[1.0, -0.5], [0.25, 0.0]], [[0.0, 0.5], [-1.0, 0.75]]])
    game = matrix_game(payoffs, return_bounds=(-1.0, 1.0), shared=True)
    logits, sigma = jnp.stack([pure(2, 0, 1)]), np.array([[0.3, 0.7]])
    values, _, mixture, _ = exact(game, logits, sigma)
    got = repeated(game, logits, sigma, repeats=2000, floor=0.1, stratified=True)
    error = np.std(got.values, axis=0) / np.sqrt(2000)
    assert (np.abs(got.values.mean(axis=0) - values) < 5 * error).all()
    assert np.abs(got.mixture_value.mean(axis=0) - mixture) < 5 * np.std(got.mixture_value) / np.sqrt(2000)


def test_steps_are_counted():
    """TAKE against WAIT lasts 4 steps, in all of five profiles, twice."""
    policies = StackedPolicies(jnp.stack([pure(3, TAKE), pure(3, WAIT)]), constant)
    got = jax.jit(
        lambda k: shared_values(k, Purse(4), policies, jnp.zeros((2, 1)), jnp.ones((2, 1), bool), samples=5, episodes=2)
    )(jax.random.key(0))
    assert got.episodes == 10 and got.env_steps == 40
    np.testing.assert_allclose(got.values, [[0.75], [0.25]], rtol=1e-6)  # 2 coins of [-4, 4]
