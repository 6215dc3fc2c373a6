"""gems_step: what every iteration must leave behind, every choice of the config, and how it compiles.

Most tests run one of a few small settings on biased rock-paper-scissors for eight iterations, more than twice the
capacity; real-valued settings are arguments of the compiled program, so tests that differ in these share it.
"""

import functools
import time
import typing
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import GemsConfig, best_response, exploitability, gems_step, init_gems, make_game, preset
from gems_jax.best_response import TrainMetrics, outputs_on
from gems_jax.evaluate.tabular import build_tree, mixture_to_behaviour, policy_tables
from gems_jax.experience import collect
from gems_jax.games import matrix_game
from gems_jax.gems import gems_profile, networks, population_of
from gems_jax.meta.omwu import omwu_update
from gems_jax.oracle import empirical_bernstein_width
from gems_jax.phases.expansion import Expansion, without
from gems_jax.phases.meta_game import solve_meta_game
from gems_jax.phases.response import anchor_kl, faced_mixture, make_learner, respond
from gems_jax.population import StackedPolicies, materialise
from gems_jax.roles import view
from toy_games import TeamGame, team_game

RPS = make_game("biased_rps", a=1, b=2, c=3)
STEPS = 8

TINY = GemsConfig(
    capacity=3,
    latent_dim=2,
    generator_widths=(4,),
    critic_hidden=(4,),
    num_opponents=3,
    episodes=2,
    mixture_samples=4,
    mutations=2,
    randoms=2,
    top_anchors=2,
    oracle_opponents=2,
    oracle_episodes=1,
    abr_steps=2,
    abr_anchors=2,
    abr_opponents=2,
    abr_episodes=2,
    kl_opponents=2,
    eta=0.5,
    learning_rate=0.02,
)
CONFIGS = {
    "plain": TINY,
    "other": TINY.replace(
        replacement="worst_ev", new_mass="floor", new_value="zero", policy="mlp", opponents="shared", meta_rule="mwu",
        schedule="sqrt", index="ucb_v", delta_rule="decaying", range_term=False, jacobian="exact", surrogate="a2c",
        kl_protects="batch", reset_optimizer=True, normalise_advantages=True,
    ),
    "rich": TINY.replace(
        new_mass="floor", policy="mlp", policy_hidden=(4,), generator="concatenated", opponents="stratified",
        schedule="harmonic", meta_steps=3, meta_restart=True, index="thompson", common_random_numbers=True,
        jacobian="hutchinson", kl_protects="others", oracle_rounds=2, abr_epochs=2,
    ),
    "untrained": TINY.replace(abr_steps=0, jacobian="none", index="ucb1"),
    "no_pool": TINY.replace(mutations=0, randoms=0, initial_anchors=2),
    "two_at_once": TINY.replace(
        anchors_per_call=2, oracle_period=2, capacity=4, index="thompson_nig", abr_steps=0, jacobian="none"
    ),
}  # fmt: skip
# Of other kinds of players: three with a population each; a team of two seats and a single player that share one.
OTHER_GAMES = {
    "three": (
        matrix_game(np.random.default_rng(0).uniform(-1, 1, (3, 2, 2, 2))),
        TINY.replace(index="greedy", mixture_samples=0, abr_steps=1, jacobian="none", capacity=2),
    ),
    "team_shares": (
        TeamGame(team_game().base, population_of_player=(0, 0)),
        TINY.replace(mixture_samples=0, jacobian="none", capacity=2),
    ),
}


class Trail(NamedTuple):
    """A run: the state before, and states and metrics of every iteration [T, ...]."""

    config: GemsConfig
    start: typing.Any
    states: typing.Any
    metrics: typing.Any

    def before(self, step):
        """The state that iteration `step` started from."""
        return self.start if step == 0 else jax.tree.map(lambda leaf: leaf[step - 1], self.states)

    def after(self, step):
        return jax.tree.map(lambda leaf: leaf[step], self.states)

    def measured(self, step):
        return jax.tree.map(lambda leaf: leaf[step], self.metrics)


class Program(NamedTuple):
    """gems_step on one game, compiled once, and how often it was traced."""

    step: typing.Any  # (state, key, config) -> (state, metrics)
    traces: list


@functools.cache
def program(game, structure):
    """`structure` is that of the config: settings that differ in real values only share one program."""
    del structure
    traces = []

    @jax.jit
    def step(state, key, config):
        traces.append(1)
        return gems_step(state, key, game, config)

    return Program(step, traces)


def keys_of(seed, steps):
    key_start, key_steps = jax.random.split(jax.random.key(seed))
    return key_start, jax.random.split(key_steps, steps)


def play(game, config, seed=0, steps=STEPS):
    """The whole run, step by step."""
    step = program(game, jax.tree.structure(config)).step
    key_start, keys = keys_of(seed, steps)
    state = start = init_gems(key_start, game, config)
    rows = []
    for key in keys:
        state, metrics = step(state, key, config)
        rows.append((state, metrics))
    return Trail(config, *jax.device_get((start, *jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows))))


def trail(name, seed=0, **reals):
    config = CONFIGS[name].replace(**reals)
    assert jax.tree.structure(config) == jax.tree.structure(CONFIGS[name])  # only reals: nothing compiles anew
    return play(RPS, config, seed)


@pytest.fixture(scope="module", params=CONFIGS)
def any_trail(request):
    return trail(request.param)


# --- what holds whatever the settings


def test_every_choice_of_the_config_is_run():
    for name, hint in typing.get_type_hints(GemsConfig).items():
        choices = (True, False) if hint is bool else typing.get_args(hint) if typing.get_origin(hint) else ()
        if typing.get_origin(hint) is tuple:
            continue
        settings = [*CONFIGS.values(), *(config for _, config in OTHER_GAMES.values())]
        elsewhere = {"film", "board"} if name == "policy" else set()  # in test_modulated.py
        missing = set(choices) - {getattr(config, name) for config in settings} - elsewhere
        assert not missing, f"no settings of this file run {name} = {missing}"


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
                mass = 1.0 / measured.num_active[p] if config.new_mass == "uniform" else config.mass_floor
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


def test_mass_of_a_slot_that_was_given_away():
    sigma = jnp.asarray([[0.5, 0.3, 0.2], [0.0, 1.0, 0.0], [0.2, 0.8, 0.0]])
    got = without(sigma, jnp.asarray([[1], [1], [-1]]))
    np.testing.assert_allclose(got, [[5 / 7, 0, 2 / 7], [0, 1, 0], [0.2, 0.8, 0]], rtol=1e-6)


# --- settings that say what must happen


def test_step_size_zero_moves_no_mass():
    """New mass 1/k: sigma stays uniform over the active anchors."""
    still = trail("plain", eta=0.0)
    np.testing.assert_allclose(
        np.exp(still.states.log_sigma), still.states.active / still.states.active.sum(axis=-1, keepdims=True), rtol=1e-4
    )
    floor = trail("other", eta=0.0, mass_floor=0.2)
    np.testing.assert_allclose(np.exp(floor.after(0).log_sigma), [[0.8, 0.2, 0.0]] * 2, rtol=1e-5)
    np.testing.assert_allclose(np.exp(floor.after(1).log_sigma), [[0.64, 0.16, 0.2]] * 2, rtol=1e-5)
    for p, slot in enumerate(floor.measured(2).slot):  # whoever gives way, the others share 0.8 by their mass
        kept = np.where(np.arange(3) == slot, 0.0, [0.64, 0.16, 0.2])
        expected = np.where(np.arange(3) == slot, 0.2, 0.8 * kept / kept.sum())
        np.testing.assert_allclose(np.exp(floor.after(2).log_sigma[p]), expected, rtol=1e-4)


def test_a_restart_begins_at_the_uniform_mixture():
    """Newcomers have the mass of the floor in log_sigma, but a restart does not look at it."""
    fresh = trail("rich", eta=0.0)
    for step in range(STEPS):
        active = fresh.before(step).active
        uniform = active / active.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(fresh.measured(step).sigma, uniform, rtol=1e-5)
    assert (np.abs(np.exp(fresh.states.log_sigma) - 1 / 3) > 0.1).any()


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
    alike = materialise(population_of(init_gems(jax.random.key(0), RPS, config), RPS, config), 3).params
    np.testing.assert_array_equal(alike[:, 0], alike[:, 2])
    config = config.replace(generator_scale=1.0)
    different = materialise(population_of(init_gems(jax.random.key(0), RPS, config), RPS, config), 3).params
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
    rich = trail("rich").measured(0)  # three meta steps; 2 rounds of the oracle; 2 epochs on the same episodes
    assert rich.episodes == 3 * (12 + 8) + 16 + 32 + 12 and rich.gradient_steps == 8


# --- phases by hand


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
            opponents = materialise(population_of(state, RPS, config), 2)
            solutions[rule] = solve_meta_game(jax.random.fold_in(key, len(rule)), state, opponents, RPS, config)
        return solutions

    iterates = 1.0 / (1.0 + np.exp(-np.arange(4.0)))
    for solution in solve(jax.random.key(1)).values():
        np.testing.assert_allclose(solution.sigma[0], [iterates[1:].mean(), 1 - iterates[1:].mean()], rtol=1e-5)
        np.testing.assert_allclose(np.exp(solution.log_sigma[0, 0]), iterates[3], rtol=1e-5)
        np.testing.assert_allclose(solution.measured_sigma[0, 0], iterates[2], rtol=1e-5)
        np.testing.assert_allclose(solution.estimate.values[0], [1.0, 1 / 6], rtol=1e-5)
        assert solution.episodes == 3 * (2 * 2 * 6 + 8)


def test_kl_of_a_perturbation_by_hand():
    """Two anchors at logits (0, 0, 0) and (1, 0, 0); the new generator adds (d, 0, 0) to both."""
    config = TINY.replace(latent_dim=1, generator_widths=())
    learner = make_learner(networks(RPS, config), 1.0)
    output = jnp.tile(jnp.asarray([[1.0, 0.0, 0.0]]), (1, 2))
    critic = networks(RPS, config).critic.init(jax.random.key(0))
    frozen = {"generator": {"layers": [], "output": output, "base": jnp.zeros((2, 3))}, "critic": critic}
    codes = jnp.asarray([[0.0], [1.0]])

    @jax.jit
    def drift(key, shift):
        moved = {**frozen["generator"], "base": frozen["generator"]["base"].at[:, 0].add(shift)}
        opponents = StackedPolicies(jnp.zeros((2, 1, 2, 3)), learner.apply)
        batch = collect(
            key, view(RPS, 0), learner, frozen, codes, opponents, jnp.zeros((2, 1)),
            num_opponents=2, episodes=1, discount=1.0, decay=1.0,
        )  # fmt: skip
        before = outputs_on(learner, frozen, batch)
        return anchor_kl(learner, {**frozen, "generator": moved}, [batch], [before])

    np.testing.assert_array_equal(drift(jax.random.key(0), 0.0), [0.0, 0.0])
    for shift in (0.7, -2.0):

        def log_policy(first):
            return np.asarray([first, 0.0, 0.0]) - np.log(np.exp(first) + 2.0)

        expected = [(np.exp(log_policy(x + shift)) * (log_policy(x + shift) - log_policy(x))).sum() for x in (0.0, 1.0)]
        np.testing.assert_allclose(drift(jax.random.key(0), shift), expected, rtol=1e-4)


def test_the_share_of_a_batch_on_the_newest_anchor(monkeypatch):
    """Slot 1, of code 1, holds the newest anchor and has no mass; slot 0, of code 0, has it all."""
    config = TINY.replace(latent_dim=1, generator_widths=(), capacity=2, initial_anchors=2, abr_anchors=4)
    state = init_gems(jax.random.key(0), RPS, config)
    state = state.replace(anchors=jnp.tile(jnp.asarray([[0.0], [1.0]]), (2, 1, 1)), sigma=jnp.asarray([[1.0, 0.0]] * 2))

    def train(key, params, opt_state, *, experience, **options):
        zero = jnp.float32(0.0)
        trained = jnp.mean(experience(key, params, options["carry"])[0][0].code)
        return params, opt_state, TrainMetrics(trained, zero, zero, zero, zero, jnp.int32(0), jnp.int32(0))

    monkeypatch.setattr(best_response, "train", train)
    known = {name: getattr(state, name) for name in ("anchors", "active", "anchor_id", "sigma")}
    found = Expansion(**{name: known.get(name) for name in Expansion._fields})
    opponents = materialise(population_of(state, RPS, config), 2)

    @jax.jit
    def share(key, q_new):
        return respond(key, state, found, opponents, RPS, config.replace(q_new=q_new)).metrics.objective

    for q_new in (0.0, 0.25, 0.5, 1.0):
        np.testing.assert_allclose(share(jax.random.key(1), q_new), [q_new, q_new])


def test_the_share_of_opponents_that_sigma_does_not_choose():
    """Masses 0.8, 0.2, none (the newcomer) and an empty slot: the floor spreads over the first two."""
    sigma, active = jnp.asarray([[0.8, 0.2, 0.0, 0.0]]), jnp.asarray([[True, True, True, False]])
    for floor, expected in [(0.0, [0.8, 0.2, 0, 0]), (0.5, [0.65, 0.35, 0, 0]), (1.0, [0.5, 0.5, 0, 0])]:
        np.testing.assert_allclose(jnp.exp(faced_mixture(sigma, active, floor)), [expected], rtol=1e-6)


def test_profiles_and_temperature():
    plain = trail("plain")
    state = plain.after(4)
    profile = gems_profile(state, RPS, plain.config)
    np.testing.assert_array_equal(profile.sigma, state.sigma)
    np.testing.assert_array_equal(gems_profile(state, RPS, plain.config, "average").sigma, state.sigma_average)
    params = materialise(profile.population, 3).params
    cooler = gems_profile(state, RPS, plain.config.replace(temperature=4.0))
    np.testing.assert_allclose(materialise(cooler.population, 3).params, params / 4.0, rtol=1e-5)
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


# --- compilation, batches, time and bytes


def test_one_trace_serves_a_run_past_twice_the_capacity():
    """And any real-valued setting; a new size does compile anew (the config's tests show which is which)."""
    shared = program(RPS, jax.tree.structure(TINY))
    plain = trail("plain")
    assert plain.metrics.slot.shape[0] > 2 * TINY.capacity and (plain.states.anchor_id.max(axis=(1, 2))[-1] == STEPS)
    for changes in ({"eta": 1.0}, {"beta_kl": 3.0, "learning_rate": 0.1}, {"temperature": 2.0, "ema": 0.5}):
        trail("plain", 1, **changes)
    assert len(shared.traces) == 1 and shared.step._cache_size() == 1


def test_kuhn_too_traces_once_and_keeps_its_bytes(kuhn_gems):
    state, sizes = kuhn_gems.start, set()
    for number in range(2 * kuhn_gems.config.capacity):
        settings = kuhn_gems.config.replace(eta=0.01 * number, learning_rate=1e-3 * number, beta_kl=0.1 * number)
        state, metrics = kuhn_gems.step(state, jax.random.key(number), settings)
        sizes.add(sum(leaf.nbytes for leaf in jax.tree.leaves(state)))
        chex.assert_trees_all_equal_shapes_and_dtypes(state, kuhn_gems.start)
    assert len(kuhn_gems.traces) == 1 and len(sizes) == 1
    assert (state.anchor_id.max(axis=1) == 8).all() and state.active.all()
    assert 2 * metrics.episodes <= metrics.env_steps <= 3 * metrics.episodes  # two or three moves each
    assert (metrics.kl > 0.0).all()


def test_iterations_take_as_long_at_the_end_as_at_the_beginning():
    """Interleaved blocks from an early and from a late state; bootstrap interval of the ratio of medians."""
    step, plain = program(RPS, jax.tree.structure(TINY)).step, trail("plain")
    early, late = jax.device_put((plain.before(1), plain.after(STEPS - 1)))

    def seconds(state, seed):
        keys = list(jax.random.split(jax.random.key(seed), 10))
        jax.block_until_ready((keys, state))
        start = time.perf_counter()
        for key in keys:
            state, _ = step(state, key, TINY)
        jax.block_until_ready(state)
        return time.perf_counter() - start

    pairs = np.asarray([(seconds(early, seed), seconds(late, 1000 + seed)) for seed in range(21)])
    resampled = pairs[np.random.default_rng(0).integers(0, len(pairs), (2000, len(pairs)))]
    ratio = np.median(resampled[..., 1], axis=1) / np.median(resampled[..., 0], axis=1)
    assert np.quantile(ratio, 0.025) < 1.1, f"late iterations take {np.median(ratio):.2f} times as long as early ones"


def seeds(numbers):
    return jax.vmap(jax.random.key)(jnp.asarray(numbers))


@pytest.fixture(scope="module")
def batch():
    """40 iterations of 4 step sizes x 8 seeds in one program: (config, start, states, traces)."""
    config = TINY
    sweep = config.replace(eta=jnp.asarray([0.0, 0.1, 0.5, 1.0]))
    axes = jax.tree.map(lambda _: None, config).replace(eta=0)
    traces = []

    @jax.jit
    def everything(keys, settings):
        traces.append(1)

        def one(key, own):
            key_start, key_steps = jax.random.split(key)
            start = init_gems(key_start, RPS, own)

            def step(state, step_key):
                state, metrics = gems_step(state, step_key, RPS, own)
                return state, (state, metrics)

            return start, *jax.lax.scan(step, start, jax.random.split(key_steps, 40))[1]

        over_seeds = jax.vmap(one, in_axes=(0, None))
        return jax.vmap(over_seeds, in_axes=(None, axes))(keys, settings)

    results = everything(seeds(range(8)), sweep)
    everything(seeds(range(8, 16)), sweep.replace(eta=2.0 * sweep.eta))
    return sweep, jax.device_get(results), traces, everything._cache_size()


def test_forty_steps_of_seeds_and_step_sizes_compile_once(batch):
    _, (_, states, metrics), traces, programs = batch
    assert len(traces) == 1 and programs == 1
    assert states.sigma.shape == (4, 8, 40, 2, 3)
    np.testing.assert_allclose(states.sigma.sum(axis=-1), 1.0, rtol=1e-4)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(metrics))
    np.testing.assert_array_equal(states.anchor_id.max(axis=(3, 4))[:, :, -1], 40)
    finals = states.sigma[:, :, -1].reshape(32, -1)
    assert len(np.unique(finals[8:].round(6), axis=0)) > 16  # different seeds, different runs


def test_vmapped_and_single_runs_agree(batch):
    sweep, (start, states, _), _, _ = batch
    for size, seed in [(0, 0), (1, 3), (2, 5), (3, 7)]:
        # The keys are split as 40 of the whole run there and as 40 here, so that the first two are the same.
        single = play(RPS, TINY.replace(eta=float(sweep.eta[size])), seed, steps=40)
        take = functools.partial(jax.tree.map, lambda leaf, i=size, j=seed: leaf[i, j])
        chex.assert_trees_all_close(take(start), single.start, rtol=1e-5, atol=1e-5)
        for step in range(2):
            vmapped = jax.tree.map(lambda leaf, t=step: leaf[t], take(states))
            masses = [tree.replace(log_sigma=np.exp(tree.log_sigma)) for tree in (vmapped, single.after(step))]
            chex.assert_trees_all_close(*masses, rtol=1e-5, atol=1e-5)


# --- a game solved


def test_gems_solves_biased_rock_paper_scissors():
    """Seeds 0 to 2: exploitability below 0.05 and Nash (1/3, 1/2, 1/6) in the play of both mixtures.

    Over seeds 0 to 9 these settings end between 0.007 and 0.021.
    """
    config = preset("biased_rps", "tuned")

    @jax.jit
    def solve(keys):
        def one(key):
            key_start, key_steps = jax.random.split(key)
            start = init_gems(key_start, RPS, config)
            step = functools.partial(gems_step, game=RPS, config=config)
            return jax.lax.scan(step, start, jax.random.split(key_steps, config.iterations))[0]

        return jax.vmap(one)(keys)

    finals = solve(seeds(range(3)))
    tree = build_tree(RPS)
    for seed in range(3):
        profile = gems_profile(jax.tree.map(lambda leaf, i=seed: leaf[i], finals), RPS, config)
        assert exploitability(RPS, profile) < 0.05
        tables = policy_tables(tree, profile.population, config.capacity)
        for p in range(2):
            play = mixture_to_behaviour(tree, tables[p], profile.sigma[p])
            np.testing.assert_allclose(play[tree.seat == p][0], [1 / 3, 1 / 2, 1 / 6], atol=0.05)


def test_omwu_alone_solves_the_same_game_with_exact_values():
    """The meta-strategy of the three pure policies: the average iterate's duality gap is below 1e-3."""
    payoffs = (RPS.payoffs[0] + 3.0) / 6.0

    @jax.jit
    def solve():
        uniform, active = jnp.log(jnp.full((2, 3), 1 / 3)), jnp.ones(3, bool)
        update = jax.vmap(lambda ls, v, pv: omwu_update(ls, v, pv, jnp.float32(0.5), 0.5, active))

        def step(carry, _):
            log_sigma, previous = carry
            sigma = jnp.exp(log_sigma)
            values = jnp.stack([payoffs @ sigma[1], 1.0 - sigma[0] @ payoffs])
            return (update(log_sigma, values, previous), values), sigma

        return jax.lax.scan(step, (uniform, jnp.full((2, 3), 0.5)), length=4000)[1].mean(axis=0)

    row, column = solve()
    assert (payoffs @ column).max() - (row @ payoffs).min() < 1e-3
