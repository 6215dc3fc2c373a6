"""Properties of the algebra that hold for any input: hypothesis looks for one where they do not.

Shapes are fixed and masks vary, so that every function is compiled once.
"""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gems_jax.estimation.exact import exact_values
from gems_jax.estimation.importance import shared_values
from gems_jax.estimation.monte_carlo import Sampling, population_values, to_unit
from gems_jax.games.matrix import matrix_game
from gems_jax.gems.oracle import remove_mass
from gems_jax.meta import duality_gap, slot_values
from gems_jax.meta.omwu import omwu_update
from gems_jax.meta.replicator import project_with_floor
from gems_jax.meta.simplex import masked_log_softmax, masked_normalize, stratify_slots
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.views import make_view
from toy_games import constant

SLOTS = 5
ANY = settings(deadline=None, derandomize=True, database=None, max_examples=30)
FEW = settings(ANY, max_examples=12)


def rows(size=SLOTS, largest=100.0):
    return arrays(np.float32, (size,), elements=st.floats(-largest, largest, width=32))


def masks(*shape):
    """At least one slot of every row is active."""
    return arrays(np.bool_, shape).filter(lambda mask: mask.any(axis=-1).all())


def mixtures(*shape):
    """On the simplex, with slots of mass zero."""
    weights = arrays(np.float32, shape, elements=st.integers(0, 4).map(float))
    return weights.filter(lambda w: w.any(axis=-1).all()).map(lambda w: w / w.sum(axis=-1, keepdims=True))


def assert_on_simplex(sigma, active):
    sigma = np.asarray(sigma)
    assert np.isfinite(sigma).all() and (sigma >= 0.0).all() and (sigma[~active] == 0.0).all()
    np.testing.assert_allclose(sigma.sum(axis=-1), 1.0, atol=1e-5)


# --- sigma on the simplex

UPDATE = jax.jit(omwu_update)
UPDATES = jax.jit(jax.vmap(omwu_update, in_axes=(0, 0, 0, None, None, 0)))


@ANY
@given(rows(), rows(), rows(), masks(SLOTS), st.floats(0.0, 50.0), st.floats(0.0, 50.0))
def test_an_update_stays_on_the_simplex(logits, values, previous, active, eta, cap):
    before = masked_log_softmax(jnp.asarray(logits), jnp.asarray(active))
    assert_on_simplex(jnp.exp(before), active)
    capped = UPDATE(before, values, previous, 0.5, eta, active, gradient_cap=cap, logit_cap=cap)
    assert_on_simplex(jnp.exp(capped), active)
    sigma = np.asarray(jnp.exp(UPDATE(before, values, previous, 0.5, eta, active, gradient_cap=np.inf, logit_cap=50.0)))
    assert_on_simplex(sigma, active)
    # normalization cancels the value of the mixture
    other = UPDATE(before, values, previous, -3.0, eta, active, gradient_cap=np.inf, logit_cap=50.0)
    np.testing.assert_allclose(jnp.exp(other), sigma, atol=2e-4)


@ANY
@given(rows(), masks(SLOTS), arrays(np.int32, (2,), elements=st.integers(-1, SLOTS - 1)), st.floats(0.0, 0.2))
def test_projections_are_on_the_simplex(weights, active, slots, floor):
    sigma = masked_normalize(jnp.asarray(weights), jnp.asarray(active))
    assert_on_simplex(sigma, active)
    left = remove_mass(sigma[None], jnp.asarray(slots)[None])[0]
    assert_on_simplex(left, active)
    taken = np.isin(np.arange(SLOTS), slots)
    assert (np.asarray(left)[taken] == 0.0).all() or (np.asarray(sigma)[~taken] == 0.0).all()
    projected = np.asarray(project_with_floor(jnp.asarray(weights) / 100.0, jnp.asarray(active), floor))
    assert_on_simplex(projected, active)
    assert (projected[active] >= floor - 1e-6).all()


@FEW
@given(mixtures(SLOTS), st.integers(0, 2**31 - 1))
def test_stratified_counts_are_those_of_the_mixture(sigma, seed):
    counts = np.bincount(stratify_slots(jax.random.key(seed), jnp.log(sigma), 40), minlength=SLOTS)
    assert (np.abs(counts - 40 * sigma) < 1.0 + 1e-3).all() and (counts[sigma == 0.0] == 0).all()


# --- payoffs

TENSORS = arrays(np.float32, (3, 3, 3, 3), elements=st.floats(-10.0, 10.0, width=32))


@ANY
@given(arrays(np.float32, (3, 3), elements=st.floats(-10.0, 10.0, width=32)), mixtures(2, 3))
def test_zero_sum_payoffs_are_antisymmetric(matrix, sigma):
    """What one earns the other pays, the same in the transposed game, and the gap is no less than zero."""
    payoffs, active = jnp.stack([matrix, -matrix]), jnp.ones((2, 3), bool)
    values = slot_values(payoffs, jnp.asarray(sigma))
    np.testing.assert_allclose((sigma * np.asarray(values)).sum(), 0.0, atol=1e-4)
    assert float(duality_gap(payoffs, jnp.asarray(sigma), active)) >= -1e-4
    swapped = slot_values(jnp.stack([-matrix.T, matrix.T]), jnp.asarray(sigma[::-1]))
    np.testing.assert_allclose(swapped, values[::-1], atol=1e-4)


@FEW
@given(TENSORS, mixtures(3, 3), st.sampled_from(list(itertools.permutations(range(3)))))
def test_players_may_change_places(payoffs, sigma, order):
    """Player q of the permuted game is player order[q]: values and gap are permuted with it."""
    permuted = np.stack([payoffs[player].transpose(order) for player in order])
    values = np.asarray(slot_values(jnp.asarray(payoffs), jnp.asarray(sigma)))
    found = slot_values(jnp.asarray(permuted), jnp.asarray(sigma[list(order)]))
    np.testing.assert_allclose(found, values[list(order)], atol=1e-3)


THREE = matrix_game(np.random.default_rng(3).uniform(-1.0, 1.0, (3, 2, 2, 2)), name="three")


@FEW
@given(st.integers(0, 2), st.tuples(*[st.integers(0, 1)] * 3))
def test_a_view_pays_what_the_game_pays(player, actions):
    """The action and the reward of seat s of a view are those of seat seats[s] of the game."""
    view = make_view(THREE, player)
    seats = np.asarray(view.seats)
    key = jax.random.key(0)
    reward = THREE.step(THREE.init(key), jnp.asarray(actions), key).reward
    np.testing.assert_allclose(reward, THREE.payoffs[(slice(None), *actions)], atol=1e-6)
    seen = view.step(view.init(key), jnp.asarray(actions)[seats], key).reward
    np.testing.assert_allclose(seen, np.asarray(reward)[seats], atol=1e-6)


# --- estimates

K = 3
SQUARE = matrix_game(np.random.default_rng(5).uniform(-1.0, 1.0, (2, K, K)), name="square")
PURE = StackedPolicies(jnp.broadcast_to(40.0 * jnp.eye(K), (2, K, K)), constant)
EXACT = jax.jit(lambda log_sigma, active: exact_values(SQUARE, PURE, log_sigma, active))
ESTIMATORS = {
    "per anchor": lambda key, log_sigma, active: population_values(
        key, SQUARE, PURE, log_sigma, active, Sampling(400, 1), 400
    ),
    "shared": lambda key, log_sigma, active: shared_values(
        key, SQUARE, PURE, log_sigma, active, samples=3000, episodes=1, floor=0.3
    ),
}
PLAYED = {name: jax.jit(estimate) for name, estimate in ESTIMATORS.items()}


def masked(sigma, active):
    """The mixture on the active slots, each with some mass: what is never drawn has no sample variance."""
    sigma = np.where(active, sigma + 0.05, 0.0)
    return np.log(sigma / sigma.sum(axis=-1, keepdims=True), where=active, out=np.full(active.shape, -np.inf))


@FEW
@given(mixtures(2, K), masks(2, K))
def test_the_tree_gives_what_the_payoffs_give(sigma, active):
    """The general path, over the game's tree, and the sum over the tensor."""
    log_sigma = jnp.asarray(masked(sigma, active), jnp.float32)
    found = EXACT(log_sigma, jnp.asarray(active))
    expected = np.asarray(slot_values(to_unit(SQUARE, SQUARE.payoffs), jnp.exp(log_sigma)))
    np.testing.assert_allclose(found.values, np.where(active, expected, 0.0), atol=1e-5)
    np.testing.assert_allclose(found.mixture_value, (np.exp(log_sigma) * expected).sum(axis=1), atol=1e-5)


@FEW
@given(mixtures(2, K), masks(2, K), st.integers(0, 2**31 - 1))
def test_estimates_are_unbiased_under_any_mask(sigma, active, seed):
    """Within five standard errors of the exact values, and 0 on empty slots."""
    log_sigma, mask = jnp.asarray(masked(sigma, active), jnp.float32), jnp.asarray(active)
    exact = EXACT(log_sigma, mask)
    for name, play in PLAYED.items():
        found = play(jax.random.key(seed), log_sigma, mask)
        error = 5.0 * np.sqrt(np.asarray(found.variances) / int(found.count)) + 1e-5
        assert (np.abs(np.asarray(found.values - exact.values)) <= error).all(), name
        assert (np.asarray(found.values)[~active] == 0.0).all(), name


# --- batches


@ANY
@given(arrays(np.float32, (3, 4, SLOTS), elements=st.floats(-5.0, 5.0, width=32)), masks(4, SLOTS), st.floats(0.0, 5.0))
def test_a_batch_of_updates_is_each_of_them(numbers, active, eta):
    logits, values, previous = numbers
    before = jax.vmap(masked_log_softmax)(jnp.asarray(logits), jnp.asarray(active))
    together = np.exp(UPDATES(before, values, previous, 0.0, eta, active))
    for row in range(4):
        alone = UPDATE(
            before[row], values[row], previous[row], 0.0, eta, active[row], gradient_cap=np.inf, logit_cap=np.inf
        )
        np.testing.assert_allclose(np.exp(alone), together[row], atol=1e-6)
