"""The scaffold of the PSRO family in closed form: stored policies, budgets, averages, metrics and the loop."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game
from gems_jax.psro.base import (
    Cost,
    Iteration,
    Pace,
    PsroState,
    Store,
    allowed_rounds,
    choose_mixture,
    family_solver,
    measure_iteration,
    new_pace,
    new_state,
    pad_slots,
    settle_pace,
    stack_slots,
    update_average,
)
from gems_jax.psro.settings import Budgeted
from gems_jax.types import Profile, nbytes

KUHN = make_game("kuhn_poker")


# --- stored policies


def policies(value, slots):
    """[P = 2, slots, ...]"""
    return {"a": jnp.full((2, slots, 3), value), "b": jnp.full((2, slots), value, jnp.int32)}


def test_policies_come_in_order_and_stay_as_they_are():
    store = Store.create(policies(1.0, 1), capacity=2)
    np.testing.assert_array_equal(store.active, [[True, False]] * 2)
    assert store.widen().capacity == 2
    first = jax.tree.map(np.asarray, store.params)
    store, fresh = store.append(jax.tree.map(lambda leaf: leaf[:, 0], policies(2.0, 1)), np.array([True, False]))
    np.testing.assert_array_equal(fresh, [[False, True], [False, False]])
    np.testing.assert_array_equal(store.active, [[True, True], [True, False]])
    np.testing.assert_array_equal(store.params["b"], [[1, 2], [1, 0]])
    assert [store.widen(newcomers).capacity for newcomers in (0, 1, 7)] == [2, 4, 16]
    wide = store.widen()
    np.testing.assert_array_equal(wide.active, [[True, True, False, False], [True, False, False, False]])
    wide, fresh = wide.append(jax.tree.map(lambda leaf: leaf[:, 0], policies(3.0, 1)), np.array([True, True]))
    np.testing.assert_array_equal(wide.params["b"], [[1, 2, 3, 0], [1, 3, 0, 0]])
    jax.tree.map(lambda old, new: np.testing.assert_array_equal(old[:, 0], new[:, 0]), first, wide.params)
    assert nbytes(wide.params) == 2 * 4 * (3 * 4 + 4)


def test_no_room():
    store = Store.create(policies(1.0, 2), capacity=2)
    newcomer = jax.tree.map(lambda leaf: leaf[:, 0], policies(2.0, 1))
    with pytest.raises(ValueError, match="store is full: .2, 2. policies in 2 slots. Call `widen` first"):
        store.append(newcomer, np.array([True, True]))
    same, fresh = store.append(newcomer, np.array([False, False]))
    np.testing.assert_array_equal(same.params["a"], store.params["a"])
    assert not fresh.any()
    with pytest.raises(ValueError, match="must fit the capacity 1, got 2"):
        Store.create(policies(1.0, 2), capacity=1)


def test_slots_are_stacked_behind_populations():
    one, two = ({"a": jnp.full((2, 3), value)} for value in (1.0, 2.0))
    stacked = stack_slots(one, two)["a"]
    assert stacked.shape == (2, 2, 3)
    np.testing.assert_array_equal(stacked[:, 1], two["a"])
    np.testing.assert_array_equal(pad_slots(jnp.ones((2, 1)), 3, (1,)), [[1, 0, 0]] * 2)
    assert pad_slots(jnp.ones((2, 2, 2), bool), 3, (1, 2)).sum() == 8


# --- budgets


def test_without_a_budget_rounds_are_those_of_the_settings():
    config = Budgeted(rounds=7)
    pace = new_pace(KUHN, config)
    assert int(allowed_rounds(pace, config)) == 7
    assert settle_pace(pace, config, 7, Cost(env_steps=100, training_steps=50)) is pace


def test_an_account_by_hand():
    """1,000 steps are allowed. Two rounds take 300 each, and 100 are measured: 300 are left for the next iteration."""
    config = Budgeted(env_steps=1000, opponents=10, episodes=2)
    pace = new_pace(KUHN, config)
    assert float(pace.per_round) == 2 * 10 * 2 * KUHN.max_steps
    assert int(allowed_rounds(pace, config)) == round(1000 / (40 * KUHN.max_steps))
    pace = settle_pace(pace, config, 2, Cost(env_steps=700, training_steps=600))
    assert (float(pace.balance), float(pace.per_round), float(pace.aside)) == (300.0, 300.0, 100.0)
    assert int(allowed_rounds(pace, config)) == 4  # (300 + 1000 - 100) / 300


def test_an_iteration_has_at_least_one_round():
    """Also where measuring alone exceeds the budget; rounds without steps do not divide by zero."""
    config = Budgeted(env_steps=10)
    pace = Pace(jnp.float32(-500.0), jnp.float32(100.0), jnp.float32(90.0))
    assert int(allowed_rounds(pace, config)) == 1
    assert float(settle_pace(pace, config, 1, Cost(env_steps=5)).per_round) == 1.0


@pytest.mark.parametrize("segment", [0, 3])
def test_the_first_round_is_taken_to_be_as_long_as_it_can_be(segment):
    pace = new_pace(KUHN, Budgeted(opponents=5, episodes=1, segment=segment))
    assert float(pace.per_round) == 2 * 5 * (segment or KUHN.max_steps)


# --- mixtures and metrics


def test_the_average_of_mixtures_that_get_more_slots():
    """Means of (1), (0, 1) and (0.5, 0, 0.5), the shorter ones with zeros behind them."""
    average = jnp.ones((1, 1))
    for count, mixture in enumerate([[1.0], [0.0, 1.0], [0.5, 0.0, 0.5]]):
        average = update_average(average, jnp.asarray([mixture]), count)
    np.testing.assert_allclose(average, [[0.5, 1 / 3, 1 / 6]], rtol=1e-6)
    np.testing.assert_allclose(update_average(jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0]), 1), [0.5, 0.5])


def test_profiles_have_two_names():
    assert choose_mixture("iterate", 1, 2) == 1 and choose_mixture("average", 1, 2) == 2
    with pytest.raises(ValueError, match="unknown profile 'last'; known: 'iterate', 'average'"):
        choose_mixture("last", 1, 2)


def test_costs_add_up():
    total = Cost(1, 2, 3, 4, 5).plus(Cost(env_steps=10), Cost(tree_walks=20, training_steps=30))
    assert total == Cost(1, 12, 3, 24, 35)


def test_metrics_count_bytes_and_policies():
    active = jnp.array([[True, True, False], [True, False, False]])
    done = Iteration(
        Cost(1, 2, 3, 4, 5), 9, active, jnp.zeros(10), (jnp.zeros(3), jnp.zeros(2, jnp.int32)), active, gap=0.25
    )
    metrics = measure_iteration(done)
    assert metrics.num_active.tolist() == [2, 1] and float(metrics.restricted_gap) == 0.25
    assert [int(n) for n in (metrics.episodes, metrics.env_steps, metrics.gradient_steps, metrics.tree_walks)] == [
        1, 2, 3, 4,
    ]  # fmt: skip
    assert [float(n) for n in (metrics.parameter_bytes, metrics.payoff_bytes, metrics.meta_bytes)] == [40, 20, 6]


# --- the loop


def test_the_loop_around_a_method():
    """A method that takes 10 steps a round and moves its mixture to slot 1, then 2: rounds, average, bytes, profile."""
    config = Budgeted(env_steps=100, opponents=5, episodes=1)
    rounds_taken = []

    def first(key):
        return new_state(PsroState, KUHN, config, jnp.eye(3)[:1])

    def iterate(state, key, rounds):
        rounds_taken.append(rounds)
        sigma = jnp.eye(3)[None, int(state.step) + 1]
        cost = Cost(env_steps=10 * rounds + 20, training_steps=10 * rounds)
        return state.replace(sigma=sigma), Iteration(cost, rounds, jnp.ones((1, 3), bool), (), meta=(sigma, sigma))

    solver = family_solver(config, first, iterate, lambda state, sigma: Profile(None, sigma))
    assert not solver.jittable and "env_steps" in solver.columns and "num_active" not in solver.columns
    state = solver.init(jax.random.key(0))
    np.testing.assert_array_equal(solver.profile(state).sigma, [[1, 0, 0]])
    for _ in range(2):
        state, metrics = solver.step(state, jax.random.key(0))
    longest = 10 * KUHN.max_steps
    before = round(100 / longest)
    assert rounds_taken == [before, round((100 - (10 * before + 20) + 100 - 20) / 10)]
    assert float(state.pace.balance) == 200 - sum(10 * rounds + 20 for rounds in rounds_taken)
    assert int(state.step) == 2 and float(metrics.meta_bytes) == 2 * 3 * 4
    np.testing.assert_array_equal(solver.profile(state).sigma, [[0, 0, 1]])
    np.testing.assert_array_equal(solver.profile(state, "average").sigma, [[0, 0.5, 0.5]])
