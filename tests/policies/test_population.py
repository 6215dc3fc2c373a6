"""Populations: what a slot plays, and which slot a newcomer gets."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.policies.film import FilmPolicy
from gems_jax.policies.generator import Hypernetwork
from gems_jax.policies.mlp import MlpPolicy
from gems_jax.policies.population import Anchors, StackedPolicies, append_policy, choose_slot, materialize
from gems_jax.rollout.views import take_population
from gems_jax.types import Population

POLICY = MlpPolicy(observation_size=2, num_actions=2)
LINEAR = Hypernetwork(POLICY, latent_dim=2, widths=())
# phi = base + z W by hand: head kernel [2, 2], flattened row by row.
THETA = {
    "layers": [],
    "output": jnp.asarray([[1.0, 0.0, 0.0, 2.0], [0.0, 3.0, -1.0, 0.0]]),
    "base": {"head": {"kernel": jnp.asarray([[0.5, 0.0], [0.0, -0.5]])}},
}
CODES = jnp.asarray([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]])
KERNELS = np.asarray([[[1.5, 0.0], [0.0, 1.5]], [[0.5, 6.0], [-2.0, -0.5]], [[1.5, 3.0], [-1.0, 1.5]]])


def test_a_slot_plays_its_generated_policy():
    anchors = Anchors(THETA, CODES, 1.0, LINEAR)
    assert isinstance(anchors, Population) and anchors.apply is POLICY
    for index, kernel in enumerate(KERNELS):
        phi = anchors.select(jnp.int32(index))
        np.testing.assert_allclose(phi["head"]["kernel"], kernel, atol=1e-6)
        chex.assert_trees_all_equal(phi, anchors.generate(CODES[index]))
    logits = anchors.apply(anchors.select(1), jnp.asarray([1.0, 0.0]), jnp.ones(2, bool)).logits
    np.testing.assert_allclose(logits, [0.5, 6.0], atol=1e-6)


def test_temperature_divides_the_logits():
    for temperature in (0.5, 4.0):
        anchors = Anchors(THETA, CODES, temperature, LINEAR)
        np.testing.assert_allclose(anchors.select(2)["head"]["kernel"], KERNELS[2] / temperature, atol=1e-6)


def test_materialise_generates_every_slot_of_every_population():
    doubled = jax.tree.map(lambda leaf: 2.0 * leaf, THETA)
    both = jax.tree.map(lambda *leaves: jnp.stack(leaves), THETA, doubled)
    anchors = Anchors(both, jnp.stack([CODES, CODES]), jnp.asarray([1.0, 4.0]), LINEAR)
    stacked = materialize(anchors, 3)
    assert isinstance(stacked, StackedPolicies) and isinstance(stacked, Population) and stacked.apply is POLICY
    np.testing.assert_allclose(stacked.params["head"]["kernel"], np.stack([KERNELS, KERNELS / 2]), atol=1e-6)
    for population in range(2):
        for slot in range(3):
            chex.assert_trees_all_close(
                take_population(stacked, population).select(slot),
                take_population(anchors, population).select(slot),
                atol=1e-6,
            )
    assert materialize(anchors, 2).params["head"]["kernel"].shape == (2, 2, 2, 2)


def test_stacked_policies_select_rows_inside_vmap():
    stacked = StackedPolicies({"a": jnp.arange(6.0).reshape(3, 2)}, POLICY)
    chex.assert_trees_all_equal(stacked.select(2), {"a": jnp.asarray([4.0, 5.0])})
    rows = jax.vmap(stacked.select)(jnp.asarray([2, 0]))["a"]
    np.testing.assert_array_equal(rows, [[4.0, 5.0], [0.0, 1.0]])


@pytest.mark.parametrize(
    ("active", "rule", "slot"),
    [
        ([1, 0, 1, 0], "least_mass", 1),  # the first free slot, whoever is lightest
        ([1, 0, 1, 0], "worst_ev", 1),
        ([1, 1, 1, 0], "least_mass", 3),
        ([1, 1, 1, 1], "least_mass", 2),  # mass 0.1
        ([1, 1, 1, 1], "worst_ev", 3),  # value 0.2
    ],
)
def test_the_slot_of_a_newcomer(active, rule, slot):
    mass, values = jnp.asarray([0.4, 0.3, 0.1, 0.2]), jnp.asarray([0.5, 0.9, 0.7, 0.2])
    active = jnp.asarray(active, bool)
    assert choose_slot(active, mass, values, rule) == slot
    assert jax.jit(choose_slot, static_argnames="rule")(active, mass, values, rule) == slot


def test_unknown_rules_list_the_known():
    with pytest.raises(
        ValueError, match="unknown replacement rule, expected one of least_mass, worst_ev, got 'oldest'"
    ):
        choose_slot(jnp.ones(2, bool), jnp.ones(2), jnp.ones(2), "oldest")


@pytest.mark.parametrize("policy", [POLICY, FilmPolicy(2, 2, (3,))], ids=["own", "shared"])
def test_an_appended_policy_keeps_what_it_shares_to_itself(policy):
    """Two populations of two anchors and a third policy of another generator: every slot acts as by itself."""
    generator = Hypernetwork(policy, latent_dim=2, widths=())
    held, added = (jax.vmap(generator.init)(jax.random.split(jax.random.key(n), 2)) for n in (0, 1))
    codes = jnp.broadcast_to(CODES[None, :2], (2, 2, 2))
    stack = materialize(Anchors(held, codes, jnp.ones(2), generator), 2)
    newest = jax.vmap(lambda theta: generator(theta, CODES[2]))(added)
    seen, legal = jnp.asarray([0.3, -0.7]), jnp.ones(2, bool)
    grown = append_policy(stack, newest)
    for p in range(2):
        own = take_population(grown, p)
        for slot in range(3):
            theta = jax.tree.map(lambda leaf, p=p: leaf[p], held if slot < 2 else added)
            expected = policy(generator(theta, CODES[slot]), seen, legal).logits
            np.testing.assert_allclose(own.apply(own.select(slot), seen, legal).logits, expected, rtol=1e-5)
