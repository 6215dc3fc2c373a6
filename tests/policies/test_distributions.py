"""Action distributions against closed forms."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.policies import distributions
from gems_jax.types import PolicyOutput


def categorical(probabilities, legal=None):
    logits = jnp.log(jnp.asarray(probabilities))
    legal = jnp.ones(logits.shape, bool) if legal is None else jnp.asarray(legal)
    return PolicyOutput(logits=distributions.mask_logits(logits, legal))


def test_categorical_closed_forms():
    output = categorical([0.5, 0.25, 0.25])
    assert distributions.log_prob(output, jnp.int32(1)) == pytest.approx(np.log(0.25), abs=1e-6)
    assert distributions.action_entropy(output) == pytest.approx(1.5 * np.log(2), abs=1e-6)
    uniform = categorical([1 / 3, 1 / 3, 1 / 3])
    expected = 0.5 * np.log(0.5 * 3) + 0.5 * np.log(0.25 * 3)
    assert distributions.action_kl(output, uniform) == pytest.approx(expected, abs=1e-6)
    assert distributions.action_kl(output, output) == pytest.approx(0.0, abs=1e-6)


def test_a_trembling_hand_mixes_in_any_legal_action():
    output = categorical([0.25, 0.5, 0.25], [True, False, True])
    legal = jnp.asarray([True, False, True])
    sure = categorical([1.0, 1e-30, 1e-30], legal)
    for share, expected in [(0.0, [1, 0, 0]), (0.5, [0.75, 0, 0.25]), (1.0, [0.5, 0, 0.5])]:
        shaken = distributions.tremble(sure, legal, share)
        np.testing.assert_allclose(jax.nn.softmax(shaken.logits), expected, atol=1e-6)
    np.testing.assert_allclose(jax.nn.softmax(distributions.tremble(output, legal, 0.3).logits), [0.5, 0, 0.5])
    with pytest.raises(ValueError, match="abr_tremble=0"):
        distributions.tremble(PolicyOutput(mean=jnp.zeros(2), log_std=jnp.zeros(2)), legal, 0.1)


def test_inverse_cdf_hits_each_action_at_its_quantiles_and_never_an_illegal_one():
    output = categorical([0.25, 0.5, 0.25], [True, False, True])  # renormalised to 1/2, 0, 1/2
    noise = jnp.asarray([0.0, 0.49, 0.51, 1.0 - 2.0**-24])
    assert jax.vmap(lambda u: distributions.sample_action(output, u))(noise).tolist() == [0, 0, 2, 2]


@pytest.mark.parametrize(
    "legal", [[True, False, False, True], [False, True, False, False], [False, False, False, True]]
)
def test_sampled_actions_are_legal(legal):
    logits = jax.random.normal(jax.random.key(0), (500, 4)) * 20.0
    noise = jax.random.uniform(jax.random.key(1), (500,))
    draw = lambda row, u: distributions.sample_action(  # noqa: E731
        PolicyOutput(logits=distributions.mask_logits(row, jnp.asarray(legal))), u
    )
    actions = jax.vmap(draw)(logits, noise)
    assert np.asarray(legal)[np.asarray(actions)].all()


SIZES = [2, 7, 8, 9, 32, 33, 82, 128, 4672]
LAST = 1.0 - 2.0**-24  # the largest float32 below one


def rows_of_logits(rng, rows, size, legal_share):
    """Logits [rows, size] of scales from flat to extreme, some actions illegal, and which are legal."""
    scale = 10.0 ** rng.uniform(-3, 4, size=(rows, 1))
    legal = rng.random((rows, size)) < legal_share
    legal[np.arange(rows), rng.integers(size, size=rows)] = True
    logits = jnp.asarray(rng.normal(size=(rows, size)) * scale, jnp.float32)
    return distributions.mask_logits(logits, jnp.asarray(legal)), legal


def exact_cdf(logits):
    """CDF [..., A] in float64."""
    logits = np.asarray(logits, np.float64)
    masses = np.exp(logits - logits.max(-1, keepdims=True))
    return np.cumsum(masses, -1) / masses.sum(-1, keepdims=True)


def noises_at_the_edges(rng, logits, count):
    """Uniforms [rows, count + 2]: the ends, and the rest within a few roundings of where one action gives way."""
    cdf = exact_cdf(logits)
    at = np.take_along_axis(cdf, rng.integers(cdf.shape[-1], size=(len(cdf), count)), -1)
    near = at + rng.integers(-4, 5, size=at.shape) * 2.0**-24
    ends = np.broadcast_to([0.0, LAST], (len(cdf), 2))
    return jnp.asarray(np.concatenate([ends, np.clip(near, 0.0, LAST)], -1), jnp.float32)


@jax.jit
def draws(logits, noise):
    """Actions [rows, count] from logits [rows, A] and noise [rows, count]."""
    one = lambda row, u: distributions.sample_action(PolicyOutput(logits=row), u)  # noqa: E731
    return jax.vmap(jax.vmap(one, in_axes=(None, 0)))(logits, noise)


@pytest.mark.parametrize("size", SIZES)
def test_inverse_cdf_known_answers(size):
    places = [0, size - 1] if size == 2 else [0, size // 2, size - 1]
    shares = [0.25, 0.75] if size == 2 else [0.25, 0.5, 0.25]
    logits = np.full(size, distributions.ILLEGAL)
    logits[places] = np.log(shares)
    noise = [0.0, 0.2499, 0.2501, 0.7499, 0.7501, LAST]
    expected = [0, 0, places[1], places[1], places[-1], places[-1]]
    assert draws(jnp.asarray(logits, jnp.float32)[None], jnp.asarray(noise)[None]).tolist() == [expected]


@pytest.mark.parametrize("legal_share", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("size", SIZES)
def test_inverse_cdf_is_that_of_float64(size, legal_share):
    rng = np.random.default_rng(size)
    logits, _ = rows_of_logits(rng, 50, size, legal_share)
    noise = rng.random((50, 100), dtype=np.float32)
    actions, cdf = np.asarray(draws(logits, noise)), exact_cdf(logits)
    expected = (cdf[:, None, :] <= noise[..., None]).sum(-1)
    at_an_edge = (np.abs(cdf[:, None, :] - noise[..., None]) < 1e-5).any(-1)
    assert at_an_edge.mean() < 0.5  # so that something is compared
    np.testing.assert_array_equal(actions[~at_an_edge], expected[~at_an_edge])


@pytest.mark.parametrize("legal_share", [0.0, 0.01, 0.3, 1.0])
@pytest.mark.parametrize("size", SIZES)
def test_an_action_of_no_probability_is_never_sampled(size, legal_share):
    rng = np.random.default_rng(size)
    logits, legal = rows_of_logits(rng, 100, size, legal_share)
    actions = np.asarray(draws(logits, noises_at_the_edges(rng, logits, 300)))
    assert actions.dtype == np.int32 and actions.min() >= 0 and actions.max() < size
    assert np.take_along_axis(legal, actions, -1).all()
    gap = np.take_along_axis(np.asarray(logits.max(-1, keepdims=True) - logits), actions, -1)
    assert gap.max() < 104.0  # exp(-104) is zero in float32, subnormal numbers included


@pytest.mark.parametrize("gap", [75.0, 80.0, 85.0, 87.3, 87.4, 90.0, 103.0])
@pytest.mark.parametrize("size", [8, 82, 4672])
def test_hardly_possible_actions_do_not_lead_to_illegal_ones(size, gap):
    """Where float32's exp fades out to zero, and the noise is at its ends."""
    logits = np.full((2, size), distributions.ILLEGAL)
    sure, hardly = size // 2, [3, size - 2]
    logits[:, sure] = 0.0
    logits[0, hardly[0]] = logits[1, hardly[1]] = -gap
    noise = jnp.broadcast_to(jnp.asarray([0.0, 2.0**-24, 0.5, LAST]), (2, 4))
    actions = np.asarray(draws(jnp.asarray(logits, jnp.float32), noise))
    assert np.isin(actions[0], [sure, hardly[0]]).all() and np.isin(actions[1], [sure, hardly[1]]).all()


@pytest.mark.parametrize("legal_share", [0.01, 1.0])
@pytest.mark.parametrize("size", SIZES)
def test_more_noise_never_means_an_earlier_action(size, legal_share):
    rng = np.random.default_rng(size)
    logits, _ = rows_of_logits(rng, 50, size, legal_share)
    noise = jnp.sort(jnp.concatenate([noises_at_the_edges(rng, logits, 300), rng.random((50, 300))], -1), -1)
    assert (np.diff(draws(logits, noise.astype(jnp.float32)), axis=-1) >= 0).all()


@pytest.mark.parametrize("size", SIZES)
def test_the_only_legal_action_is_sampled_wherever_it_is(size):
    places = np.unique(np.linspace(0, size - 1, 300).astype(int))
    logits = np.full((len(places), size), distributions.ILLEGAL, np.float32)
    logits[np.arange(len(places)), places] = -3.0
    actions = draws(logits, jnp.broadcast_to(jnp.asarray([0.0, 0.5, LAST]), (len(places), 3)))
    np.testing.assert_array_equal(actions, np.broadcast_to(places[:, None], actions.shape))


@pytest.mark.parametrize("size", SIZES)
def test_sampling_without_a_legal_action_stays_in_range(size):
    actions = draws(jnp.full((1, size), distributions.ILLEGAL), jnp.asarray([[0.0, 0.5, LAST]]))
    assert actions.min() >= 0 and actions.max() < size


@pytest.mark.parametrize("size", [7, 82])
def test_sampling_is_the_same_alone_and_in_nested_batches(size):
    rng = np.random.default_rng(0)
    logits, _ = rows_of_logits(rng, 12, size, 0.5)
    noise = jnp.asarray(rng.random(12), jnp.float32)
    one = lambda row, u: distributions.sample_action(PolicyOutput(logits=row), u)  # noqa: E731
    alone = [int(one(row, u)) for row, u in zip(logits, noise, strict=True)]
    nested = jax.jit(jax.vmap(jax.vmap(one)))(logits.reshape(3, 4, size), noise.reshape(3, 4))
    assert nested.reshape(-1).tolist() == alone


def test_sample_frequencies():
    output = categorical([0.1, 0.6, 0.3])
    noise = distributions.draw_noise(jax.random.key(0), (20_000,), 3, continuous=False)
    counts = np.bincount(jax.vmap(lambda u: distributions.sample_action(output, u))(noise), minlength=3) / 20_000
    # Standard errors are below 0.0036: five of them, failure probability below 2e-6.
    np.testing.assert_allclose(counts, [0.1, 0.6, 0.3], atol=0.018)


def test_masked_gradients_are_finite():
    legal = jnp.asarray([True, False])

    def loss(logits):
        output = PolicyOutput(logits=distributions.mask_logits(logits, legal))
        other = PolicyOutput(logits=distributions.mask_logits(2.0 * logits, legal))
        return (
            distributions.action_entropy(output)
            + distributions.action_kl(output, other)
            + distributions.log_prob(output, 0)
        )

    assert jnp.isfinite(jax.grad(loss)(jnp.asarray([1.0, 3.0]))).all()


def test_squashed_gaussian():
    output = PolicyOutput(mean=jnp.asarray([0.3, -0.2]), log_std=jnp.log(jnp.asarray([0.5, 2.0])))
    noise = jnp.asarray([0.7, -0.4])
    action = distributions.sample_action(output, noise)
    base = np.asarray([0.3 + 0.35, -0.2 - 0.8])
    np.testing.assert_allclose(action, np.tanh(base), atol=1e-6)
    normal = -0.5 * np.asarray([0.49, 0.16]) - np.log([0.5, 2.0]) - 0.5 * np.log(2 * np.pi)
    expected = (normal - np.log(1 - np.tanh(base) ** 2)).sum()
    assert distributions.log_prob(output, action) == pytest.approx(expected, abs=1e-4)
    other = PolicyOutput(mean=jnp.zeros(2), log_std=jnp.zeros(2))
    kl = (0.5 * (np.asarray([0.25, 4.0]) + np.asarray([0.09, 0.04]) - 1) - np.log([0.5, 2.0])).sum()
    assert distributions.action_kl(output, other) == pytest.approx(kl, abs=1e-5)
    assert distributions.action_entropy(other) == pytest.approx(np.log(2 * np.pi * np.e), abs=1e-5)
    extreme = PolicyOutput(mean=jnp.asarray([50.0, -50.0]), log_std=jnp.zeros(2))
    assert jnp.isfinite(distributions.log_prob(extreme, distributions.sample_action(extreme, noise)))
