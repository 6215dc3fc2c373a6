"""Meta-game estimates: unbiased on known games, honest about their spread, exact in what they count."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game
from gems_jax.estimation import monte_carlo as estimate
from gems_jax.estimation.exact import exact_values
from gems_jax.estimation.monte_carlo import (
    Sampling,
    draw_opponents,
    player_return,
    policy_returns,
    population_values,
)
from gems_jax.games.matrix import matrix_game
from gems_jax.meta.bandit import empirical_bernstein_width
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.views import make_view
from gems_jax.types import num_populations
from meta_games import exact
from toy_games import STOP, TAKE, WAIT, Purse, constant, pure, team_game

REPEATS = 1500
MODES = {
    "per_anchor": Sampling(2, 2, "per_anchor"),
    "shared": Sampling(2, 2, "shared"),
    "stratified": Sampling(2, 2, "stratified"),
    "common": Sampling(2, 2, "per_anchor", common=True),
}


def two_players(payoffs):
    """All with the same structure, so that different payoffs share one compilation."""
    return matrix_game(np.asarray(payoffs), return_bounds=(-5.0, 5.0), zero_sum=False, name="two")


ROW = np.asarray([[2.0, -1.0], [-1.0, 1.0]])
DILEMMA = np.asarray([[3.0, 0.0], [5.0, 1.0]])
GAMES = {
    "zero_sum": two_players([ROW, -ROW]),
    "dilemma": two_players([DILEMMA, DILEMMA.T]),
    "three": matrix_game(np.random.default_rng(0).uniform(-1, 1, (3, 2, 2, 2)), return_bounds=(-1.0, 1.0)),
    # not symmetric: a policy earns differently in the two places, and its value is the mean
    "one_population": matrix_game(
        np.asarray([[[1.0, -0.5], [0.25, 0.0]], [[0.0, 0.5], [-1.0, 0.75]]]), return_bounds=(-1.0, 1.0), shared=True
    ),
}
CASES = [(name, mode) for name in ("zero_sum", "dilemma") for mode in MODES]
CASES += [("three", "per_anchor"), ("three", "stratified"), ("one_population", "shared"), ("one_population", "common")]


def profile(count, seed=0):
    """Three mixed policies per population, of which the last is inactive: logits [P, 3, 2], sigma [P, 3], active."""
    rng = np.random.default_rng(seed)
    logits = jnp.asarray(rng.normal(size=(count, 3, 2)), jnp.float32)
    mass = rng.uniform(0.2, 0.8, count)
    return (
        logits,
        np.stack([mass, 1 - mass, np.zeros(count)], axis=1),
        jnp.tile(jnp.asarray([[1, 1, 0]], bool), (count, 1)),
    )


@partial(jax.jit, static_argnames="modes")
def repeated(game, keys, logits, log_sigma, active, modes):
    """Each mode's estimates [REPEATS, ...]; "common" plays no joint episode."""
    opponents = StackedPolicies(logits, constant)

    def one(key):
        results = {}
        for number, mode in enumerate(modes):
            results[mode] = population_values(
                jax.random.fold_in(key, number),
                game,
                opponents,
                log_sigma,
                active,
                MODES[mode],
                mixture_samples=0 if mode == "common" else 3,
            )
        return results

    return jax.vmap(one)(keys)


@pytest.fixture(scope="module")
def runs():
    """game name -> (exact numbers, repeated estimates)."""
    found = {}
    for seed, (name, game) in enumerate(GAMES.items()):
        logits, sigma, active = profile(num_populations(game), seed)
        keys = jax.random.split(jax.random.key(seed), REPEATS)
        modes = tuple(mode for case, mode in CASES if case == name)
        found[name] = exact(game, logits, sigma), repeated(game, keys, logits, jnp.log(sigma), active, modes), sigma
    return found


@pytest.mark.parametrize(("name", "mode"), CASES)
def test_values_and_mixture_value_are_unbiased(runs, name, mode):
    """Five standard errors for each of at most 10 numbers: by chance below 6e-6 per case, 1e-4 in all."""
    (values, _, mixture, _), results, sigma = runs[name]
    got = results[mode]
    active = sigma > 0
    means, errors = got.values.mean(axis=0), got.values.std(axis=0) / np.sqrt(REPEATS)
    assert (np.abs(means - values)[active] < 5 * errors[active]).all()
    assert (errors[active] > 1e-3).all() and (errors[active] < 0.05).all()  # noise there is, and not too much
    np.testing.assert_array_equal(got.values[:, ~active], 0.0)
    np.testing.assert_array_equal(got.variances[:, ~active], 0.0)
    errors = got.mixture_value.std(axis=0) / np.sqrt(REPEATS)
    assert (np.abs(got.mixture_value.mean(axis=0) - mixture) < 5 * errors).all()


def test_the_known_value_of_defecting():
    """Both always defect: 1 each, scaled (1 + 5) / 10; cooperating against it earns 0, scaled 0.5."""
    game = GAMES["dilemma"]
    opponents = StackedPolicies(jnp.stack([pure(2, 0, 1)] * 2), constant)
    with np.errstate(divide="ignore"):
        log_sigma = jnp.log(jnp.asarray([[0.0, 1.0], [0.0, 1.0]]))
    got = jax.jit(
        lambda key: population_values(
            key, game, opponents, log_sigma, jnp.ones((2, 2), bool), Sampling(3, 1), mixture_samples=2
        )
    )(jax.random.key(0))
    np.testing.assert_allclose(got.values, [[0.5, 0.6], [0.5, 0.6]], rtol=1e-6)
    np.testing.assert_allclose(got.mixture_value, [0.6, 0.6], rtol=1e-6)
    np.testing.assert_allclose(got.variances, 0.0, atol=1e-12)
    np.testing.assert_allclose(got.mixture_variance, 0.0, atol=1e-12)


def test_without_joint_samples_the_mixture_value_is_sigma_times_values(runs):
    for name in ("zero_sum", "dilemma", "one_population"):
        _, results, sigma = runs[name]
        got = results["common"]
        by_hand = (sigma[None] * np.asarray(got.values)).sum(axis=2)
        np.testing.assert_allclose(got.mixture_value, by_hand, rtol=1e-5)
        spread = (sigma[None] ** 2 * np.asarray(got.variances)).sum(axis=2)
        np.testing.assert_allclose(got.mixture_variance, spread, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize("name", sorted(GAMES))
def test_exact_values_are_those_by_hand(name):
    game = GAMES[name]
    logits, sigma, active = profile(num_populations(game))
    values, _, mixture, _ = exact(game, logits, sigma)
    got = exact_values(game, StackedPolicies(logits, constant), jnp.log(sigma), active)
    np.testing.assert_allclose(np.where(active, got.values, values), values, rtol=1e-5)
    np.testing.assert_allclose(got.mixture_value, mixture, rtol=1e-5)
    assert int(got.episodes) == 0 and not np.asarray(got.variances).any()


def coin_returns(keys, sampling):
    """Scaled returns [repeats, n] of betting on one of two pure opponents of mass 1/2 each: 1 or 0, mean 1/2."""
    game = two_players([np.asarray([[5.0, -5.0], [0.0, 0.0]])] * 2)
    opponents = StackedPolicies(jnp.stack([pure(2, 0, 0), pure(2, 0, 1)]), constant)
    log_sigma = jnp.log(jnp.full((2, 2), 0.5))

    @jax.jit
    def run(keys):
        def one(key):
            own = StackedPolicies(pure(2, 0), constant)
            return policy_returns(key, (make_view(game, 0),), own, opponents, log_sigma, sampling)[0][0]

        return jax.vmap(one)(keys)

    return run(keys)


def test_stratified_opponents_come_up_by_their_mass():
    """Four stratified draws hold each coin exactly twice; independent ones do so with probability 3/8 only."""
    keys = jax.random.split(jax.random.key(0), 100)
    stratified = coin_returns(keys, Sampling(4, 1, "stratified"))
    np.testing.assert_allclose(stratified.mean(axis=1), 0.5, rtol=1e-6)
    keys = jax.random.split(jax.random.key(0), 100)
    assert coin_returns(keys, Sampling(4, 1)).mean(axis=1).std() > 0.1  # 0.25 is expected


# --- spread


@pytest.fixture(scope="module")
def independent():
    """One episode per opponent (m = 1): 2,000 estimates of 256 independent returns each; returns fill their bounds."""
    game = make_game("biased_matching_pennies")
    logits, sigma, active = profile(2)

    @jax.jit
    def run(keys):
        return jax.vmap(
            lambda key: population_values(
                key, game, StackedPolicies(logits, constant), jnp.log(sigma), active, Sampling(256, 1), 256
            )
        )(keys)

    return exact(game, logits, sigma), run(jax.random.split(jax.random.key(0), 2000))


def test_variances_are_unbiased_when_every_episode_has_its_own_opponent(independent):
    """Five standard errors for six numbers: fails by chance less than once in 200,000 seeds."""
    (_, variances, _, joint), got = independent
    error = got.variances.std(axis=0) / np.sqrt(2000)
    assert (np.abs(got.variances.mean(axis=0) - variances)[:, :2] < 5 * error[:, :2]).all()
    error = got.mixture_variance.std(axis=0) / np.sqrt(2000)
    assert (np.abs(got.mixture_variance.mean(axis=0) - joint) < 5 * error).all()


@pytest.mark.parametrize("delta", [0.5, 0.1])
def test_bernstein_intervals_cover_at_their_stated_rate(independent, delta):
    """With m = 1 the n returns of an anchor are independent, and n is the count that the interval wants.

    With m > 1 the m episodes against one opponent are not independent of each other: n * m overstates what was seen of
    the others' mixture, and intervals of that width miss too often (the test after this one).
    """
    (values, *_), got = independent
    width = empirical_bernstein_width(got.variances, 256, delta)[:, :, :2]
    error = np.abs(np.asarray(got.values) - values[None])[:, :, :2]
    # Even at a true rate of exactly delta, five standard deviations are exceeded once in two million.
    assert ((error > width).mean(axis=0) <= delta + 5 * np.sqrt(delta * (1 - delta) / 2000)).all()
    # Nor is the interval idle: half of it misses now and then.
    assert ((error > 0.5 * width).mean(axis=0) > 0.01).all()


def test_episodes_that_share_an_opponent_do_not_count_as_independent():
    """Two pure opponents of mass 1/2, n = 2 draws, m = 64 equal episodes with each: half the time one is never met."""
    returns = coin_returns(jax.random.split(jax.random.key(0), 400), Sampling(2, 64))  # [repeats, 128]
    missed = {
        count: (jnp.abs(returns.mean(axis=1) - 0.5) > empirical_bernstein_width(returns.var(axis=1), count, 0.1)).mean()
        for count in (2, 128)
    }
    assert missed[2] == 0.0
    assert missed[128] > 0.4  # the true rate is 1/2, so fails by chance below 1e-4


# --- counting


def test_episodes_and_steps_are_counted_exactly():
    """Purse of 4 moves: TAKE against WAIT lasts 4, TAKE against STOP lasts 2.

    Population 0 holds TAKE (and an inactive slot), population 1 WAIT and STOP, of which only WAIT has mass. Three
    opponents, two episodes: 6 x 4 for TAKE, 6 x 4 and 6 x 2 for the others; five joint samples, twice: 10 x 4.
    """
    opponents = StackedPolicies(jnp.stack([pure(3, TAKE, STOP), pure(3, WAIT, STOP)]), constant)
    log_sigma = jnp.log(jnp.asarray([[1.0, 0.0], [1.0, 0.0]]))
    active = jnp.asarray([[True, False], [True, True]])

    got = jax.jit(
        lambda key: population_values(key, Purse(4), opponents, log_sigma, active, Sampling(3, 2), mixture_samples=5)
    )(jax.random.key(0))
    assert got.episodes == 6 + 12 + 10 and got.env_steps == 24 + 24 + 12 + 40
    # TAKE earns 2 of [-4, 4]; WAIT loses 2; STOP has lost the one coin taken before its turn
    np.testing.assert_allclose(got.values, [[0.75, 0.0], [0.25, 0.375]], rtol=1e-6)


def test_a_shared_population_is_measured_in_both_places(runs):
    _, results, _ = runs["one_population"]
    # two active anchors, two places, two opponents, two episodes; three joint samples, twice; one step each
    assert (results["shared"].episodes == 16 + 6).all() and (results["shared"].env_steps == 22).all()
    assert (results["common"].episodes == 16).all()


# --- parts


def test_scaling_by_hand():
    game = make_game("prisoners_dilemma")  # returns in [0, 5]
    assert estimate.return_scale(game) == (0.0, 5.0)
    np.testing.assert_allclose(estimate.to_unit(game, jnp.asarray([0.0, 1.0, 5.0, 6.0])), [0, 0.2, 1, 1.2], rtol=1e-6)
    np.testing.assert_allclose(estimate.from_unit(make_game("biased_rps"), jnp.asarray([0.0, 0.5, 1.0])), [-3, 0, 3])


def test_a_team_earns_the_mean_of_its_seats():
    returns = jnp.asarray([[1.0, 3.0, -4.0], [0.0, 1.0, 2.0]])
    np.testing.assert_array_equal(player_return(team_game(), 0, returns), [2.0, 0.5])
    np.testing.assert_array_equal(player_return(team_game(), 1, returns), [-4.0, 2.0])


def test_opponents_are_drawn_from_their_own_populations():
    game = GAMES["three"]
    log_sigma = jnp.log(jnp.asarray([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [0.25, 0.0, 0.75]]))
    draw = jax.jit(lambda key, stratified: draw_opponents(key, game, log_sigma, (5, 8), stratified), static_argnums=1)
    for stratified in (True, False):
        drawn = draw(jax.random.key(0), stratified)
        chex.assert_shape(drawn, (5, 8, 3))
        np.testing.assert_array_equal(drawn[..., 1], 1)
        assert set(np.unique(drawn[..., 2])) == {0, 2}
        counts = np.stack([np.bincount(row, minlength=3) for row in np.asarray(drawn[..., 0])])
        # exactly by mass when stratified; five independent rows all alike by chance below 1e-4
        assert (counts == [4, 2, 2]).all() == stratified


def test_unknown_sampling_lists_the_known():
    game = GAMES["zero_sum"]
    with pytest.raises(
        ValueError, match="opponent sampling, expected one of per_anchor, shared, stratified, got 'best'"
    ):
        policy_returns(
            jax.random.key(0),
            (make_view(game, 0),),
            StackedPolicies(pure(2, 0), constant),
            StackedPolicies(jnp.stack([pure(2, 0)] * 2), constant),
            jnp.zeros((2, 1)),
            Sampling(1, 1, "best"),
        )
