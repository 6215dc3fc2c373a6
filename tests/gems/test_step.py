"""gems_step: what every iteration must leave behind. `test_configurations.py` trains every choice of the config.

Most tests run one of a few small settings on biased rock-paper-scissors for eight iterations, more than twice the
capacity; real-valued settings are arguments of the compiled program, so tests that differ in these share it.
"""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import init_gems
from gems_jax.gems.oracle import remove_mass
from gems_jax.gems.step import population_of
from gems_jax.meta.bandit import empirical_bernstein_width
from gems_jax.policies.population import materialize
from gems_trails import CONFIGS, OTHER_GAMES, RPS, STEPS, TINY, play, trail


@pytest.fixture(scope="module", params=CONFIGS)
def any_trail(request):
    return trail(request.param)


# --- what holds whatever the settings


def test_all_numbers_are_finite_and_sigma_stays_on_the_simplex(any_trail):
    for row in (any_trail.start, any_trail.states, any_trail.metrics):
        finite = jax.tree.map(lambda leaf: bool(np.isfinite(leaf).all()), row)
        if hasattr(row, "log_sigma"):
            finite = finite.replace(log_sigma=True)
            np.testing.assert_array_equal(np.isfinite(row.log_sigma), row.active)
        assert all(jax.tree.leaves(finite)), finite
    states = any_trail.states
    for sigma in (states.sigma, states.sigma_average, np.exp(states.log_sigma), any_trail.metrics.sigma):
        np.testing.assert_allclose(sigma.sum(axis=-1), 1.0, rtol=1e-5)
        assert (sigma >= 0.0).all()
    for sigma in (states.sigma, states.sigma_average, np.exp(states.log_sigma)):
        assert (sigma[~states.active] == 0.0).all()
    np.testing.assert_array_equal(states.step, np.arange(1, STEPS + 1))


def test_slots_fill_in_order_and_ids_count_insertions(any_trail):
    config, per_call = any_trail.config, any_trail.config.anchors_per_call
    inserted = config.initial_anchors
    for step in range(STEPS):
        before, after, measured = any_trail.before(step), any_trail.after(step), any_trail.measured(step)
        calls = config.mutations + config.randoms > 0 and step % config.oracle_period == 0
        if not calls:
            for name in ("anchors", "active", "anchor_id"):
                np.testing.assert_array_equal(getattr(after, name), getattr(before, name))
            assert (measured.slot == -1).all() and (measured.chosen == -1).all()
            continue
        np.testing.assert_array_equal(measured.num_active, min(inserted + per_call, config.capacity))
        for p in range(2):
            new = np.nonzero(after.anchor_id[p] != before.anchor_id[p])[0]
            assert sorted(after.anchor_id[p][new]) == list(range(inserted, inserted + per_call))
            if inserted + per_call <= config.capacity:
                np.testing.assert_array_equal(new, np.arange(inserted, inserted + per_call))
            slot = measured.slot[p]
            assert after.anchor_id[p][slot] == inserted
            np.testing.assert_array_equal(after.anchors[p, slot], measured.pool[p, measured.chosen[p]])
            kept = np.setdiff1d(np.arange(config.capacity), new)
            np.testing.assert_array_equal(after.anchors[p, kept], before.anchors[p, kept])
        inserted += per_call
    assert inserted > 2 * config.capacity or config.mutations == 0


def test_the_best_candidate_is_chosen(any_trail):
    metrics = any_trail.metrics
    called = metrics.chosen >= 0
    if any_trail.config.oracle_rounds == 1 and called.any():
        np.testing.assert_array_equal(metrics.chosen[called], metrics.scores.argmax(axis=-1)[called])


def test_newcomers_have_mass_in_the_next_update_but_are_not_played(any_trail):
    config = any_trail.config
    for step in range(STEPS):
        before, after, measured = any_trail.before(step), any_trail.after(step), any_trail.measured(step)
        for p in range(2):
            new = np.nonzero(after.anchor_id[p] != before.anchor_id[p])[0]
            np.testing.assert_array_equal(after.sigma[p, new], 0.0)
            kept = np.where(np.isin(np.arange(config.capacity), new), 0.0, measured.sigma[p])
            np.testing.assert_allclose(after.sigma[p], kept / kept.sum(), rtol=1e-5, atol=1e-7)
            if len(new) == 1:
                mass = 1.0 / measured.num_active[p]
                np.testing.assert_allclose(np.exp(after.log_sigma[p, new[0]]), mass, rtol=1e-5)
                value = measured.pool_means[p, measured.chosen[p]] if config.new_value == "oracle_mean" else 0.0
                np.testing.assert_allclose(after.values[p, new[0]], value, rtol=1e-5)


def test_the_state_never_changes_its_shape(any_trail):
    shapes = jax.tree.map(lambda leaf: (leaf.shape, leaf.dtype), any_trail.start)
    assert shapes == jax.tree.map(lambda leaf: (leaf.shape[1:], leaf.dtype), any_trail.states)


@pytest.mark.parametrize(("name", "rule"), [("plain", "least_mass"), ("other", "worst_ev")])
def test_replacement_past_capacity(name, rule):
    for seed in range(3):
        past = trail(name, seed)
        assert past.config.replacement == rule
        chosen = []
        for step in range(past.config.capacity - 1, STEPS):
            before, measured = past.before(step), past.measured(step)
            assert before.active.all()
            loser = (measured.sigma if rule == "least_mass" else measured.values).argmin(axis=1)
            np.testing.assert_array_equal(measured.slot, loser)
            chosen += list(loser)
        assert len(set(chosen)) > 1


def test_two_newcomers_take_two_slots_even_at_capacity():
    both = trail("two_at_once")
    for step in range(0, STEPS, 2):
        changed = both.after(step).anchor_id != both.before(step).anchor_id
        np.testing.assert_array_equal(changed.sum(axis=1), 2)
        if step >= 4:  # full by now: the two lightest anchors give way
            lightest = np.argsort(both.measured(step).sigma, axis=1)[:, :2]
            np.testing.assert_array_equal(np.sort(lightest, axis=1), np.stack([np.nonzero(row)[0] for row in changed]))


def test_the_run_average_is_the_mean_of_the_played_mixtures():
    plain = trail("plain")
    for step in range(plain.config.capacity - 1):  # until an anchor gives way
        np.testing.assert_allclose(
            plain.after(step).sigma_average, plain.metrics.sigma[: step + 1].mean(axis=0), rtol=1e-5, atol=1e-7
        )


def test_the_run_average_gives_nothing_to_an_anchor_that_just_came():
    """Its slot may have had mass before, which was another anchor's."""
    plain = trail("plain")
    replaced = 0
    for step in range(1, STEPS):
        slots = plain.metrics.slot[step]
        before = np.take_along_axis(plain.states.sigma_average[step - 1], slots[:, None], axis=1)
        now = np.take_along_axis(plain.states.sigma_average[step], slots[:, None], axis=1)
        np.testing.assert_array_equal(now, 0.0)
        replaced += (before > 0.0).sum()
    assert replaced > 0


def test_mass_of_a_slot_that_was_given_away():
    sigma = jnp.asarray([[0.5, 0.3, 0.2], [0.0, 1.0, 0.0], [0.2, 0.8, 0.0]])
    got = remove_mass(sigma, jnp.asarray([[1], [1], [-1]]))
    np.testing.assert_allclose(got, [[5 / 7, 0, 2 / 7], [0, 1, 0], [0.2, 0.8, 0]], rtol=1e-6)


# --- settings that say what must happen


def test_step_size_zero_moves_no_mass():
    """New mass 1/k: sigma stays uniform over the active anchors."""
    still = trail("plain", eta=0.0)
    np.testing.assert_allclose(
        np.exp(still.states.log_sigma), still.states.active / still.states.active.sum(axis=-1, keepdims=True), rtol=1e-4
    )


def test_caps_hold_the_mixture_together():
    """No logit more than 1e-6 below the top, or no bracket larger than 1e-6: as good as a step size of zero."""
    for caps in ({"logit_cap": 1e-6}, {"gradient_cap": 1e-6}):
        held = trail("plain", eta=5.0, **caps)
        uniform = held.states.active / held.states.active.sum(axis=-1, keepdims=True)
        np.testing.assert_allclose(np.exp(held.states.log_sigma), uniform, rtol=1e-3)
    assert (np.abs(np.exp(trail("plain", eta=5.0).states.log_sigma[-1]) - 1 / 3) > 0.1).any()


def test_values_are_measured_against_the_mixture_before_the_update():
    plain = trail("plain")
    for step in range(STEPS):
        np.testing.assert_allclose(plain.measured(step).measured_sigma, np.exp(plain.before(step).log_sigma), rtol=1e-5)


def test_mutations_of_scale_zero_are_their_parents():
    exact = trail("plain", mutation_scale=0.0)
    for step in range(STEPS):
        pool, parent = exact.measured(step).pool, exact.measured(step).parent
        for p in range(2):
            assert exact.before(step).active[p, parent[p, :2]].all() and (parent[p, 2:] == -1).all()
            np.testing.assert_array_equal(pool[p, :2], exact.before(step).anchors[p, parent[p, :2]])


def test_codes_differ_by_the_generators_scale():
    config = TINY.replace(initial_anchors=3, generator_scale=0.0)
    alike = materialize(population_of(init_gems(jax.random.key(0), RPS, config), RPS, config), 3).params
    np.testing.assert_array_equal(alike[:, 0], alike[:, 2])
    config = config.replace(generator_scale=1.0)
    different = materialize(population_of(init_gems(jax.random.key(0), RPS, config), RPS, config), 3).params
    assert (np.abs(different[:, 0] - different[:, 2]) > 0.01).all()


def test_without_training_the_networks_stay_bit_for_bit():
    untrained = trail("untrained")
    for name in ("generator", "critic", "opt_state"):
        for step in range(STEPS):
            chex.assert_trees_all_equal(getattr(untrained.after(step), name), getattr(untrained.start, name))
    assert (untrained.metrics.gradient_steps == 0).all() and (untrained.metrics.kl == 0.0).all()
    trained = trail("plain")
    moved = jax.tree.map(lambda new, old: bool((new != old).any()), trained.after(0).generator, trained.start.generator)
    assert all(jax.tree.leaves(moved))


def test_an_empty_pool_adds_nothing_while_the_rest_goes_on():
    empty = trail("no_pool")
    np.testing.assert_array_equal(empty.states.anchors, np.tile(empty.start.anchors, (STEPS, 1, 1, 1)))
    assert (empty.metrics.num_active == 2).all() and empty.metrics.pool.shape == (STEPS, 2, 0, 2)
    assert (empty.after(STEPS - 1).sigma[:, :2] != 0.5).all()  # the meta-strategy still learns
    assert (empty.after(0).generator["output"] != empty.start.generator["output"]).any()


def test_learning_rate_zero_and_the_kl_that_it_leaves():
    still = trail("plain", learning_rate=0.0)
    assert (still.metrics.kl == 0.0).all() and (still.metrics.forgetting == 0.0).all()
    chex.assert_trees_all_equal(still.after(STEPS - 1).generator, still.start.generator)
    assert (trail("plain").metrics.kl > 0.0).all()


def test_the_trust_region_holds_and_can_be_switched_off():
    free = trail("plain", beta_kl=0.0, lambda_jacobian=0.0)
    held = trail("plain", beta_kl=1e3, lambda_jacobian=0.0)
    assert np.isfinite(free.metrics.kl).all()
    assert held.metrics.kl.mean() < free.metrics.kl.mean()
    # A heavy Jacobian penalty shrinks ||J G||^2 by its gradient alone.
    smooth = trail("plain", beta_kl=0.0, lambda_jacobian=1e3)
    assert smooth.metrics.jacobian[-1].max() < free.metrics.jacobian[-1].min()
    assert (smooth.metrics.scores < 0.0).all() and (free.metrics.scores > 0.0).all()  # and weighs on every candidate
    annealed = trail("plain", beta_kl=0.0, lambda_jacobian=1e3, lambda_decay=1e9)
    np.testing.assert_allclose(annealed.measured(0).scores, free.measured(0).scores, atol=1e-3)


def test_the_newest_anchor_is_free_where_only_the_others_are_protected():
    for name, free in [("rich", True), ("plain", False)]:
        one = trail(name)
        for step in range(STEPS):
            for p in range(2):
                newest = one.after(step).anchor_id[p].argmax()
                drift = one.measured(step).forgetting[p]
                assert (drift[newest] == 0.0) == free
                held = one.after(step).active[p] & (np.arange(3) != newest if free else True)
                np.testing.assert_allclose(one.measured(step).kl[p], drift[held].mean(), rtol=1e-4)


def test_an_optimizer_is_kept_or_begun_afresh():
    """Adam counts its steps: two per iteration."""
    for name, counts in [("plain", 2 * np.arange(1, STEPS + 1)), ("other", np.full(STEPS, 2))]:
        states = trail(name).states
        for part in ("generator", "critic"):
            count = [leaf for leaf in jax.tree.leaves(states.opt_state[part]) if leaf.dtype == np.int32]
            np.testing.assert_array_equal(count[0], np.stack([counts, counts], axis=1))


def test_an_entropy_bonus_keeps_play_mixed():
    eager, mixed = (trail("plain", learning_rate=0.1, entropy_weight=weight) for weight in (0.0, 10.0))
    assert mixed.metrics.entropy[-1].min() > eager.metrics.entropy[-1].max()


def test_an_infinite_temperature_is_uniform_play():
    hot = trail("plain", temperature=1e6)
    np.testing.assert_allclose(hot.metrics.entropy, np.log(3), rtol=1e-5)
    cold = trail("plain", temperature=1e-6)
    assert (cold.metrics.entropy < 0.1).all()


def test_slowdown_is_a_smaller_step_size_a_smaller_rate_and_a_heavier_trust_region():
    slow = trail("plain", slowdown=4.0, eta=0.8, learning_rate=0.08, critic_learning_rate=0.4, beta_kl=0.5)
    same = trail("plain", slowdown=1.0, eta=0.2, learning_rate=0.02, critic_learning_rate=0.1, beta_kl=2.0)
    chex.assert_trees_all_close(slow.after(1), same.after(1), rtol=1e-4, atol=1e-5)


def test_moving_average_of_the_values():
    smooth = trail("plain", ema=0.25)
    np.testing.assert_allclose(smooth.after(0).values[:, 0], smooth.measured(0).values[:, 0], rtol=1e-6)
    for step in range(1, STEPS):
        expected = 0.25 * smooth.measured(step).values + 0.75 * smooth.before(step).values
        old = smooth.after(step).anchor_id == smooth.before(step).anchor_id
        old &= smooth.before(step).active
        np.testing.assert_allclose(smooth.after(step).values[old], expected[old], rtol=1e-5)
    raw = trail("plain")
    old = raw.after(1).anchor_id == raw.before(1).anchor_id
    old &= raw.before(1).active
    np.testing.assert_allclose(raw.after(1).values[old], raw.measured(1).values[old], rtol=1e-6)


def test_episodes_steps_and_widths_by_hand():
    """One active anchor: 2 x 3 x 2 and 4 joint samples, twice; 2 x 4 candidates x 2; 2 x 2 rounds of 2 x 2 x 2; and
    the states of the trust region, 2 x 3 slots x 2. Every episode is one step.
    """
    plain = trail("plain")
    assert plain.measured(0).episodes == 12 + 8 + 16 + 32 + 12
    assert plain.measured(STEPS - 1).episodes == 36 + 8 + 16 + 32 + 12  # three active anchors
    np.testing.assert_array_equal(plain.metrics.env_steps, plain.metrics.episodes)
    assert (plain.metrics.gradient_steps == 4).all()
    expected = empirical_bernstein_width(plain.metrics.variances, 6, 0.5)
    np.testing.assert_allclose(plain.metrics.widths, expected, rtol=1e-5)
    rich = trail("rich").measured(0)  # three meta steps on joint play alone; 2 rounds of the oracle; 2 epochs
    assert rich.episodes == 3 * 8 + 16 + 32 + 12 and rich.gradient_steps == 8


# --- other kinds of players


@pytest.mark.parametrize("kind", OTHER_GAMES)
def test_any_number_of_players_teams_and_shared_populations(kind):
    """Places: one per population, or two of the shared one. First iteration: one active anchor of 6 episodes per place,
    four candidates of 2, rounds of 8, and the states of the trust region of two slots.
    """
    game, config = OTHER_GAMES[kind]
    populations, places = (3, 3) if kind == "three" else (1, 2)
    start, states, metrics = play(game, config, steps=3)[1:]
    assert states.sigma.shape == (3, populations, 2)
    np.testing.assert_allclose(states.sigma.sum(axis=-1), 1.0, rtol=1e-5)
    np.testing.assert_array_equal(states.anchor_id.max(axis=2), np.tile([[1], [2], [3]], (1, populations)))
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(metrics))
    assert metrics.episodes[0] == places * (6 + 8 + 8 * config.abr_steps + 4)
    np.testing.assert_array_equal(metrics.env_steps, metrics.episodes)
    if config.index == "greedy":
        np.testing.assert_array_equal(metrics.scores, metrics.pool_means)
    moved = jax.tree.map(lambda new, old: bool((new[-1] != old).any()), states.generator, start.generator)
    assert all(jax.tree.leaves(moved))
