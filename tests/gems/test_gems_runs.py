"""Whole runs of gems_step: how they compile, batches of them, time and bytes; and a game solved."""

import functools
import time

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import exploitability, gems_step, init_gems, preset
from gems_jax.extensive.values import build_tree, mixture_to_behavior, policy_tables
from gems_jax.gems.step import gems_profile
from gems_jax.meta.omwu import omwu_update
from gems_trails import RPS, STEPS, TINY, play, program, trail

# --- compilation, batches, time and bytes


def test_one_trace_serves_a_run_past_twice_the_capacity():
    """And any real-valued setting; a new size does compile anew (the config's tests show which is which)."""
    shared = program(RPS, jax.tree.structure(TINY))
    plain = trail("plain")
    shared.step(plain.before(0), jax.random.key(0), TINY)
    once = len(shared.traces)  # 1, or more where caches were cleared in between
    assert plain.metrics.slot.shape[0] > 2 * TINY.capacity and (plain.states.anchor_id.max(axis=(1, 2))[-1] == STEPS)
    for changes in ({"eta": 1.0}, {"beta_kl": 3.0, "learning_rate": 0.1}, {"temperature": 2.0, "ema": 0.5}):
        trail("plain", 1, **changes)
    assert len(shared.traces) == once


def test_kuhn_too_traces_once_and_keeps_its_bytes(kuhn_gems):
    state, sizes, before = kuhn_gems.start, set(), len(kuhn_gems.traces)
    for number in range(2 * kuhn_gems.config.capacity):
        settings = kuhn_gems.config.replace(eta=0.01 * number, learning_rate=1e-3 * number, beta_kl=0.1 * number)
        state, metrics = kuhn_gems.step(state, jax.random.key(number), settings)
        sizes.add(sum(leaf.nbytes for leaf in jax.tree.leaves(state)))
        chex.assert_trees_all_equal_shapes_and_dtypes(state, kuhn_gems.start)
    assert len(kuhn_gems.traces) - before <= 1 and len(sizes) == 1
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
        start = time.process_time()
        for key in keys:
            state, _ = step(state, key, TINY)
        jax.block_until_ready(state)
        return time.process_time() - start

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
    assert len(traces) == 1 and programs <= 1  # JAX's cache is of limited size: after many tests it may keep none
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
            play = mixture_to_behavior(tree, tables[p], profile.sigma[p])
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
