"""The bandit oracle: indices by hand, running statistics, the pool, equal and adaptive pulls."""

from functools import partial

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import binom

from gems_jax.meta import bandit as oracle
from gems_jax.meta.bandit import INDICES, Pulls, delta_at, eb_ucb, empirical_bernstein_width, index_scores, propose

# --- indices


@pytest.mark.parametrize(("delta", "deviation", "range_part"), [(0.5, 0.236627, 0.358352), (0.01, 0.422189, 1.140756)])
def test_eb_ucb_terms(delta, deviation, range_part):
    np.testing.assert_allclose(eb_ucb(0.0, 0.25, 16, delta, range_term=False), deviation, atol=1e-6)
    np.testing.assert_allclose(eb_ucb(0.0, 0.0, 16, delta), range_part, atol=1e-6)
    whole = eb_ucb(0.3, 0.25, 16, delta, jacobian=5.0, lambda_jacobian=0.1)
    np.testing.assert_allclose(whole, 0.3 + deviation + range_part - 0.5, atol=1e-6)


def test_other_indices_by_hand():
    # ln 100 = 4.605170; UCB-V: zeta ln t = 5.526204, biased variance 0.25 * 15/16 = 0.234375
    np.testing.assert_allclose(oracle.ucb1(0.5, 16, 100), 0.5 + 0.758714, atol=1e-6)
    np.testing.assert_allclose(oracle.ucb_v(0.5, 0.25, 16, 100), 0.5 + 0.402369 + 1.036163, atol=1e-6)
    np.testing.assert_allclose(oracle.greedy(0.5, 16), 0.5)


def test_delta_rules():
    np.testing.assert_allclose([delta_at("decaying", 0.5, t) for t in (1, 2, 10)], [1.0, 0.25, 0.01], rtol=1e-6)
    np.testing.assert_allclose([delta_at("constant", 0.5, t) for t in (1, 2, 10)], 0.5)
    with pytest.raises(ValueError, match="slow.*decaying, constant"):
        delta_at("slow", 0.5, 1)


def test_thompson_quartiles():
    """Half of the draws lie between the quartiles of the posterior, a quarter on either side."""
    n = 40_000
    mean, variance, pulls = jnp.full(n, 0.7), jnp.full(n, 0.04), jnp.full(n, 4)
    gaussian = oracle.thompson(jax.random.key(0), mean, pulls)
    inverse_gamma = oracle.thompson_nig(jax.random.key(1), mean, variance, pulls)
    # Normal quartiles at 0.674490 / sqrt(4). Posterior of the other: strength 5, shape 3, centre 3.3 / 5 = 0.66,
    # scale 0.1 + 0.12 / 2 + 4 * 0.04 / 5 / 2 = 0.176; Student t of 6 degrees, quartiles at 0.717558 sqrt(0.176 / 15).
    for draws, centre, quartile in [(gaussian, 0.7, 0.337245), (inverse_gamma, 0.66, 0.077726)]:
        below = float(jnp.mean(draws < centre - quartile))
        above = float(jnp.mean(draws > centre + quartile))
        # 5 standard deviations, four shares: fails by chance less than once in 400,000 seeds
        assert abs(below - 0.25) < 5 * np.sqrt(0.1875 / n)
        assert abs(above - 0.25) < 5 * np.sqrt(0.1875 / n)


@pytest.mark.parametrize("name", INDICES)
def test_every_index_of_the_table(name):
    stats = Pulls.empty(3).add(jnp.array([0, 2]), jnp.array([[0.0, 1.0, 1.0], [1.0, 1.0, 0.0]]))
    free = index_scores(name, jax.random.key(0), stats, t=5, delta=0.1)
    chex.assert_shape(free, (3,))
    if name != "thompson_nig":  # which has a prior for candidates that were never pulled
        assert free[1] == jnp.inf
    assert np.isfinite(free[jnp.array([0, 2])]).all()
    penalised = index_scores(
        name, jax.random.key(0), stats, t=5, delta=0.1, jacobian=jnp.array([1.0, 2.0, 3.0]), lambda_jacobian=0.5
    )
    np.testing.assert_allclose((free - penalised)[jnp.array([0, 2])], [0.5, 1.5], rtol=1e-5)


def test_table_passes_on_its_arguments():
    stats = Pulls.empty(1).add(jnp.array([0]), jnp.array([[0.0, 1.0, 1.0, 1.0]]))
    got = partial(index_scores, key=jax.random.key(0), stats=stats)
    np.testing.assert_allclose(got("eb_ucb", t=1, delta=0.2), eb_ucb(0.75, 0.25, 4, 0.2)[None], rtol=1e-6)
    short = eb_ucb(0.75, 0.25, 4, 0.2, range_term=False)[None]
    np.testing.assert_allclose(got("eb_ucb", t=1, delta=0.2, range_term=False), short, rtol=1e-6)
    np.testing.assert_allclose(got("ucb_v", t=7, delta=0.2), oracle.ucb_v(0.75, 0.25, 4, 7)[None], rtol=1e-6)
    np.testing.assert_allclose(got("ucb1", t=7, delta=0.2), oracle.ucb1(0.75, 4, 7)[None], rtol=1e-6)
    with pytest.raises(ValueError, match="ucb2.*eb_ucb, ucb_v, ucb1, thompson, thompson_nig, greedy"):
        got("ucb2", t=1, delta=0.2)


def test_one_pull_is_finite():
    assert np.isfinite(eb_ucb(0.5, 0.0, 1, 0.1))
    assert np.isfinite(empirical_bernstein_width(0.0, 1, 0.1))


# --- empirical-Bernstein intervals


def test_width_by_hand():
    # ln 20 = 2.995732: sqrt(2 * 0.25 * 2.995732 / 100) + 3 * 2.995732 / 99
    np.testing.assert_allclose(empirical_bernstein_width(0.25, 100, 0.1), 0.122387 + 0.090780, atol=1e-6)


@pytest.mark.parametrize("n", [2, 8, 64, 512, 20_000])
@pytest.mark.parametrize("delta", [0.5, 0.1, 0.01])
def test_intervals_cover_bernoulli_means_at_the_stated_rate(n, delta):
    """No sampling: the coverage is summed over the n + 1 outcomes, for means from 0.001 to 0.999."""
    outcomes = np.arange(n + 1) / n
    variance = outcomes * (1 - outcomes) * n / (n - 1)
    width = np.asarray(empirical_bernstein_width(jnp.array(variance, jnp.float32), n, delta), np.float64)
    coverage = []
    for p in np.concatenate([[0.001, 0.01], np.linspace(0.05, 0.95, 19), [0.99, 0.999]]):
        covered = np.abs(outcomes - p) <= width
        coverage.append(binom.pmf(np.arange(n + 1), n, p)[covered].sum())
    assert min(coverage) >= 1 - delta
    if n == 20_000:  # nor is the interval idle: it misses sometimes, and beats Hoeffding's for means near an end
        assert min(coverage) < 1 - delta / 1000
        assert width[n // 100] < np.sqrt(np.log(2 / delta) / (2 * n)) / 2


def test_intervals_cover_beta_means_at_the_stated_rate():
    delta, n, repeats = 0.1, 1000, 4000
    samples = np.random.default_rng(0).beta(2.0, 5.0, (repeats, n))
    stats = Pulls.empty(repeats).add(jnp.arange(repeats), jnp.array(samples, jnp.float32))
    missed = jnp.abs(stats.mean - 2.0 / 7.0) > empirical_bernstein_width(stats.variance, stats.count, delta)
    # Even at a true rate of just 0.9 the share of misses stays within 5 standard deviations but once in a million.
    assert float(missed.mean()) <= delta + 5 * np.sqrt(delta * (1 - delta) / repeats)
    # Nor idle: half the width is 2.1 standard errors and misses 3.6 % of the time; below 0.5 % once in a million.
    half = jnp.abs(stats.mean - 2.0 / 7.0) > 0.5 * empirical_bernstein_width(stats.variance, stats.count, delta)
    assert float(half.mean()) > 0.005


# --- running statistics


def test_pulls_equal_numpy_over_several_additions():
    rng = np.random.default_rng(0)
    stats, seen = Pulls.empty(4), [[] for _ in range(4)]
    for indices, n in [([0, 1, 2], 5), ([2], 1), ([1, 1, 0], 7)]:  # the last adds two rows for one candidate
        returns = rng.uniform(size=(len(indices), n)).astype(np.float32)
        stats = stats.add(jnp.array(indices), jnp.array(returns))
        for index, row in zip(indices, returns, strict=True):
            seen[index].extend(row)
    np.testing.assert_array_equal(stats.count, [12, 19, 6, 0])
    np.testing.assert_allclose(stats.mean[:3], [np.mean(s) for s in seen[:3]], rtol=1e-6)
    np.testing.assert_allclose(stats.variance[:3], [np.var(s, ddof=1) for s in seen[:3]], rtol=1e-5)
    assert stats.mean[3] == 0 and stats.variance[3] == 0


def test_variance_does_not_cancel():
    """Sums of squares in float32 would give a variance of zero, or a negative one, here."""
    returns = 1000.0 + jnp.array([[0.0, 0.25, 0.5, 0.25]])
    stats = Pulls.empty(1)
    for _ in range(50):
        stats = stats.add(jnp.array([0]), returns)
    np.testing.assert_allclose(stats.variance, [50 * 0.125 / 199], rtol=1e-3)
    constant = Pulls.empty(1)
    for _ in range(50):
        constant = constant.add(jnp.array([0]), jnp.array([[0.9]]))
    assert constant.variance[0] == 0.0 and constant.mean[0] == jnp.float32(0.9)


# --- the pool

ANCHORS = jnp.arange(12.0).reshape(6, 2)
SIGMA = jnp.array([0.1, 0.0, 0.4, 0.3, 0.2, 0.0])
ACTIVE = jnp.array([True, True, True, True, False, False])


def pool_of(**changes):
    options = {"num_mutations": 7, "num_random": 4, "mutation_scale": 0.2, "top_anchors": 2} | changes
    return propose(jax.random.key(0), ANCHORS, jnp.log(SIGMA), ACTIVE, **options)


def test_heaviest_active_anchors_take_turns():
    pool, parent = pool_of(mutation_scale=0.0)
    np.testing.assert_array_equal(parent, [2, 3, 2, 3, 2, 3, 2, -1, -1, -1, -1])
    np.testing.assert_array_equal(pool[:7], ANCHORS[parent[:7]])
    assert pool.dtype == jnp.float32 and parent.dtype == jnp.int32
    # more than are active: all of them, by mass, the one without mass too, and no inactive slot
    np.testing.assert_array_equal(pool_of(top_anchors=100, num_random=0)[1], [2, 3, 0, 1, 2, 3, 0])
    options = {"num_mutations": 4, "num_random": 0, "mutation_scale": 0.0, "top_anchors": 6}
    weights, active = jnp.array([0.0, 0.0, 1.0]), jnp.array([False, True, True])
    _, parent = propose(jax.random.key(0), ANCHORS[:3], jnp.log(weights), active, **options)
    np.testing.assert_array_equal(parent, [2, 1, 2, 1])


def test_inactive_slots_are_never_parents_whatever_they_hold():
    log_sigma = jnp.where(ACTIVE, jnp.log(SIGMA), jnp.nan)
    anchors = jnp.where(ACTIVE[:, None], ANCHORS, jnp.nan)
    options = {"num_mutations": 8, "num_random": 1, "mutation_scale": 0.2, "top_anchors": 6}
    pool, parent = propose(jax.random.key(0), anchors, log_sigma, ACTIVE, **options)
    assert np.isfinite(pool).all()
    assert set(np.asarray(parent).tolist()) == {-1, 0, 1, 2, 3}


def test_noise_has_the_stated_deviation():
    pool, parent = pool_of(num_mutations=5000, num_random=5000)
    # 10,000 normal numbers each: 6 standard deviations of mean and of deviation, below 1e-7 in all
    for noise, scale in [(pool[:5000] - ANCHORS[parent[:5000]], 0.2), (pool[5000:], 1.0)]:
        assert abs(float(noise.mean())) < 6 * scale / 100
        assert abs(float(noise.std()) - scale) < 6 * scale / np.sqrt(2 * 10_000)


@pytest.mark.parametrize(("mutations", "randoms"), [(0, 3), (3, 0), (0, 0)])
def test_either_part_of_the_pool_may_be_empty(mutations, randoms):
    pool, parent = pool_of(num_mutations=mutations, num_random=randoms)
    assert pool.shape == (mutations + randoms, 2)
    assert int((parent == -1).sum()) == randoms


def test_propose_under_jit_and_vmap():
    propose_four = partial(propose, num_mutations=2, num_random=2, mutation_scale=0.3, top_anchors=3)

    def keys():
        return jax.random.split(jax.random.key(3), 3)

    active = jnp.stack([ACTIVE, ACTIVE.at[2].set(False), ACTIVE.at[:3].set(False)])
    batched = jax.jit(jax.vmap(propose_four, in_axes=(0, None, None, 0)))(keys(), ANCHORS, jnp.log(SIGMA), active)
    for row in range(3):
        one = propose_four(keys()[row], ANCHORS, jnp.log(SIGMA), active[row])
        chex.assert_trees_all_close(one, jax.tree.map(lambda x, row=row: x[row], batched), rtol=1e-6)


def test_propose_refuses_bad_sizes():
    with pytest.raises(ValueError, match="num_mutations=-1"):
        pool_of(num_mutations=-1)
    with pytest.raises(ValueError, match="top_anchors=0"):
        pool_of(top_anchors=0)


# --- equal and adaptive pulls


def bernoulli_arms(means):
    def evaluate(key, indices, num):
        returns = jax.random.bernoulli(key, means[indices][:, None], (indices.shape[0], num)).astype(jnp.float32)
        return returns, jnp.int32(3 * returns.size)

    return evaluate


def by(name, **options):
    return lambda key, stats: index_scores(name, key, stats, **({"t": 10, "delta": 0.5} | options))


def test_equal_pulls_pick_the_argmax_of_the_index():
    means = jnp.linspace(0.1, 0.8, 8)[::-1]
    run = partial(oracle.run_oracle, evaluate=bernoulli_arms(means), num_candidates=8, pulls_per_candidate=20)
    got = run(jax.random.key(0), score=by("eb_ucb"), num_selected=3)
    np.testing.assert_array_equal(got.stats.count, 20)
    np.testing.assert_array_equal(got.scores, eb_ucb(got.stats.mean, got.stats.variance, got.stats.count, 0.5))
    np.testing.assert_array_equal(got.selected, np.argsort(-np.asarray(got.scores), kind="stable")[:3])
    assert got.episodes == 160 and got.env_steps == 480
    # with equal pulls the third term shifts every score alike
    shorter = run(jax.random.key(0), score=by("eb_ucb", range_term=False), num_selected=3)
    np.testing.assert_array_equal(shorter.selected, got.selected)


def test_the_jacobian_penalty_decides_between_equals():
    norms = jnp.array([3.0, 1.0, 2.0])
    score = by("eb_ucb", jacobian=norms, lambda_jacobian=0.1)
    got = oracle.run_oracle(
        jax.random.key(0), bernoulli_arms(jnp.ones(3)), 3, score=score, pulls_per_candidate=4, num_selected=3
    )
    np.testing.assert_array_equal(got.selected, [1, 2, 0])


@pytest.mark.parametrize(
    ("candidates", "pulls", "rounds", "spent"),
    [(16, 8, 2, 128), (16, 9, 4, 144), (10, 6, 3, 60), (7, 5, 2, 35), (1, 4, 4, 4)],
)
def test_adaptive_pulls_spend_the_same_budget_on_the_best(candidates, pulls, rounds, spent):
    """Constant rewards, scored by their mean: every later round goes to the same quarter."""
    means = jnp.linspace(0.0, 0.9, candidates)

    def evaluate(key, indices, num):
        return jnp.tile(means[indices][:, None], (1, num)), jnp.int32(0)

    got = oracle.run_oracle(
        jax.random.key(0), evaluate, candidates, score=by("greedy"), pulls_per_candidate=pulls, rounds=rounds
    )
    share, favoured = pulls // rounds, max(1, candidates // 4)
    expected = np.full(candidates, pulls - (rounds - 1) * share)
    expected[candidates - favoured :] += (rounds - 1) * (candidates * share // favoured)
    np.testing.assert_array_equal(got.stats.count, expected)
    assert got.episodes == spent == candidates * pulls
    np.testing.assert_array_equal(got.selected, [candidates - 1])


def test_budget_lost_to_rounding_is_less_than_a_pull_per_favoured_candidate():
    got = oracle.run_oracle(
        jax.random.key(0), bernoulli_arms(jnp.full(11, 0.5)), 11, score=by("eb_ucb"), pulls_per_candidate=9, rounds=3
    )
    assert 99 - 2 * (11 // 4 - 1) <= got.episodes <= 99


def found_best(means, *, pulls, rounds, repeats):
    def once(key):
        run = partial(oracle.run_oracle, score=by("eb_ucb"), pulls_per_candidate=pulls, rounds=rounds)
        return run(key, bernoulli_arms(means), means.shape[0]).selected[0] == jnp.argmax(means)

    return float(jax.jit(jax.vmap(once))(jax.random.split(jax.random.key(rounds), repeats)).mean())


def test_adaptive_pulls_find_the_best_arm_more_often_at_equal_budget():
    means = jnp.full(64, 0.5).at[21].set(0.7)
    equal = found_best(means, pulls=16, rounds=1, repeats=1000)
    adaptive = found_best(means, pulls=16, rounds=2, repeats=1000)
    # Measured: 0.25 and 0.52. The difference of two shares of 1000 has a deviation of at most 0.0224: at a true
    # difference of 0.25 this fails by chance less than once in ten million seeds.
    assert adaptive > equal + 0.13


def test_a_bonus_for_lack_of_pulls_wins_nothing():
    """After unequal pulls the plain argmax of the index would pick a candidate that was hardly measured."""
    means = jnp.linspace(0.1, 0.9, 16)
    got = oracle.run_oracle(
        jax.random.key(1),
        bernoulli_arms(means),
        16,
        score=by("eb_ucb"),
        pulls_per_candidate=40,
        rounds=2,
        num_selected=2,
    )
    assert int(got.stats.count[jnp.argmax(got.scores)]) == 20
    np.testing.assert_array_equal(got.stats.count[got.selected], 20 + 80)


@pytest.mark.parametrize("rounds", [1, 3])
def test_no_candidates(rounds):
    def never(*_):
        raise AssertionError("there is nothing to evaluate")

    got = oracle.run_oracle(
        jax.random.key(0), never, 0, score=by("eb_ucb"), pulls_per_candidate=3, rounds=rounds, num_selected=2
    )
    assert got.selected.shape == got.scores.shape == (0,)
    assert got.episodes == 0 and got.env_steps == 0


def test_more_asked_for_than_there_are_gives_all():
    got = oracle.run_oracle(
        jax.random.key(0), bernoulli_arms(jnp.ones(2)), 2, score=by("greedy"), pulls_per_candidate=2, num_selected=5
    )
    assert sorted(got.selected.tolist()) == [0, 1]


def test_later_rounds_are_traced_once():
    arms, sizes = bernoulli_arms(jnp.linspace(0.0, 1.0, 8)), []

    def evaluate(key, indices, num):
        sizes.append((indices.shape[0], num))
        return arms(key, indices, num)

    run = partial(oracle.run_oracle, evaluate=evaluate, num_candidates=8, score=by("thompson"), pulls_per_candidate=12)
    jax.jit(partial(run, rounds=6))(jax.random.key(0))
    assert set(sizes) == {(8, 2), (2, 8)}
    assert len(sizes) <= 3  # scan may trace its body twice


def test_run_oracle_under_jit_and_vmap():
    means = jnp.linspace(0.2, 0.8, 8)
    run = partial(
        oracle.run_oracle,
        evaluate=bernoulli_arms(means),
        num_candidates=8,
        score=by("thompson"),
        pulls_per_candidate=8,
        rounds=4,
        num_selected=2,
    )

    def keys():
        return jax.random.split(jax.random.key(7), 3)

    batched = jax.jit(jax.vmap(run))(keys())
    for row in range(3):
        one = jax.tree.map(lambda x, row=row: x[row], batched)
        chex.assert_trees_all_close(run(keys()[row]), one, rtol=1e-5)


def test_run_oracle_refuses_more_rounds_than_pulls():
    with pytest.raises(ValueError, match="rounds=5 and pulls_per_candidate=4"):
        oracle.run_oracle(
            jax.random.key(0), bernoulli_arms(jnp.ones(2)), 2, score=by("greedy"), pulls_per_candidate=4, rounds=5
        )
