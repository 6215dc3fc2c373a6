"""Live opponents and magnets of ABR-TR: known equilibria, who is met, every kind of population."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import gems_step, init_gems, make_game, make_solver
from gems_jax.gems.abr_task import make_arena
from gems_jax.gems.state import AnchorSet, gems_profile, population_of
from gems_jax.policies.population import materialize
from gems_trails import OTHER_GAMES, RPS, TINY
from logit_equilibria import quantal_response

BIASED = make_game("biased_rps")
# One anchor of each player, no oracle, no trust region: what is left of GEMS is regularized self-play.
SELF_PLAY = TINY.replace(
    capacity=1, mutations=0, randoms=0, mixture_samples=0, num_opponents=1, episodes=1, jacobian="none", q_new=1.0,
    abr_anchors=1, abr_opponents=256, abr_episodes=1, opponents="stratified", abr_steps=50, kl_opponents=1,
    beta_kl=0.0, live_opponents=True, self_play_fraction=1.0, momentum=0.0, gradient_clip=10.0,
    learning_rate=0.1, critic_learning_rate=0.02,
)  # fmt: skip


def policies_after(game, config, iterations):
    """Probabilities [P, A] of the first anchors of a matrix game."""
    solver = make_solver("gems", game, config)
    keys = jax.random.split(jax.random.key(1), iterations)
    state = jax.jit(lambda key: jax.lax.scan(solver.step, solver.init(key), keys)[0])(jax.random.key(0))
    held = materialize(gems_profile(state, game, config).population, 1)
    return np.stack([jax.nn.softmax(held.params[p, 0, p]) for p in range(2)])  # player p sees row p


def test_self_play_with_a_uniform_magnet_finds_the_logit_equilibrium():
    """pi = softmax(Q / (w alpha)) with w the width of the returns, as `mmd` does: far from uniform and from Nash."""
    alpha, (low, high) = 0.15, BIASED.return_bounds
    config = SELF_PLAY.replace(magnet="uniform", magnet_weight=alpha, learning_rate_decay=20.0)
    expected = quantal_response(np.asarray(BIASED.payoffs[0], float), alpha * (high - low), np.full(3, 1 / 3))
    assert abs(expected - 1 / 3).max() > 0.1 and abs(expected - [1 / 3, 1 / 2, 1 / 6]).max() > 0.1
    np.testing.assert_allclose(policies_after(BIASED, config, 6), expected, atol=0.04)


@pytest.mark.slow
def test_self_play_with_a_magnet_that_moves_finds_nash():
    """(1/3, 1/2, 1/6), although play starts elsewhere and alpha does not vanish."""
    config = SELF_PLAY.replace(magnet="moving", magnet_weight=0.1, magnet_rate=0.05, learning_rate_decay=2.0)
    found = policies_after(BIASED, config, 10)
    np.testing.assert_allclose(found, np.broadcast_to([1 / 3, 1 / 2, 1 / 6], (2, 3)), atol=0.06)


def test_who_is_met():
    """Slot K plays the newest anchor under today's parameters and has mass rho; the others keep their proportions."""
    config = TINY.replace(capacity=3, initial_anchors=2, live_opponents=True, self_play_fraction=0.25)
    state, other = (init_gems(jax.random.key(n), RPS, config) for n in (0, 1))
    sigma = jnp.asarray([[0.8, 0.2, 0.0], [0.5, 0.5, 0.0]])
    held = AnchorSet(state.anchors, state.active, state.anchor_id, state.log_sigma, sigma, state.values)
    frozen = materialize(population_of(state, RPS, config), 3)
    arena = make_arena(state, held, frozen, RPS, config)
    live = arena.add_live_opponents({"generator": other.generator, "critic": other.critic})
    np.testing.assert_allclose(jnp.exp(live.faced), [[0.6, 0.15, 0.0, 0.25], [0.375, 0.375, 0.0, 0.25]], rtol=1e-5)
    np.testing.assert_array_equal(live.opponents.params[:, :3], frozen.params)
    newest = materialize(population_of(state.replace(generator=other.generator), RPS, config), 3).params[:, 1]
    np.testing.assert_allclose(live.opponents.params[:, 3], newest, rtol=1e-5)
    assert abs(newest - frozen.params[:, 1]).max() > 0.01


@pytest.mark.parametrize("name", [pytest.param("three", marks=pytest.mark.slow), "team_shares"])
def test_every_kind_of_population_trains(name):
    """Three populations; a team and a single player that share one. Segments continue against slots that change."""
    game, config = OTHER_GAMES[name]
    config = config.replace(
        live_opponents=True, self_play_fraction=0.5, magnet="moving", magnet_weight=0.1, magnet_rate=1.0, abr_segment=2,
        abr_steps=2,
    )  # fmt: skip

    @jax.jit
    def train(key):
        key_init, key_step = jax.random.split(key)
        before = init_gems(key_init, game, config)
        return before, *gems_step(before, key_step, game, config)

    before, after, metrics = train(jax.random.key(0))
    assert jax.tree.structure(before) == jax.tree.structure(after)
    assert int(after.magnet.updates) == 2 and int(metrics.gradient_steps) == 2 * len(before.active)
    moved = jax.tree.map(lambda a, b: abs(a - b).max() > 1e-3, before.generator, after.generator)
    assert any(jax.tree.leaves(moved))
    chex.assert_trees_all_close(after.magnet.params, after.generator, atol=1e-6)  # a rate of 1
