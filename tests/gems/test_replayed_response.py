"""Training on stored episodes: exact gradients, best responses, the trust region, and that nobody plays."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from gems_jax import init_gems, make_game
from gems_jax.estimation.trajectories import TrajectoryBuffer, estimate_game
from gems_jax.games.matrix import matrix_game
from gems_jax.gems.abr_task import make_arena
from gems_jax.gems.replayed_response import train_on_replay
from gems_jax.gems.state import AnchorSet, population_of
from gems_jax.policies.population import StackedPolicies, materialize
from gems_trails import RPS, TINY, play

PLAIN = make_game("rock_paper_scissors")
THREE = matrix_game(
    np.random.default_rng(0).uniform(-1, 1, (3, 3, 3, 3)), return_bounds=(-1.0, 1.0), zero_sum=False, name="three"
)
PAPER = 1
CONFIG = TINY.replace(
    estimator="trajectories", initial_anchors=2, generator_widths=(), jacobian="none", replay_steps=1,
    replay_batch=262144, momentum=0.0, gradient_clip=float("inf"), beta_kl=0.0,
)  # fmt: skip


def every_action(game):
    """Every joint action once, as episodes that uniform play recorded: their weighted means are exact expectations."""
    players, count = game.num_seats, game.num_actions
    actions = np.asarray(list(itertools.product(range(count), repeat=players)), np.int32)  # [B, players]
    low, high = game.return_bounds
    returns = np.stack([(np.asarray(payoffs)[tuple(actions.T)] - low) / (high - low) for payoffs in game.payoffs])
    seats = np.broadcast_to(np.arange(players), actions.shape)
    return TrajectoryBuffer(
        decision={"action": jnp.asarray(actions), "row": jnp.asarray(seats, jnp.int32)},
        player=jnp.asarray(seats, jnp.int8),
        log_drawn=jnp.full(actions.shape, -np.log(count), jnp.float32),
        returns=jnp.asarray(returns.T, jnp.float32),
        born=jnp.zeros(len(actions), jnp.int32),
        cursor=jnp.int32(0),
    )


def train(game, config, opponents=None, sigma=None, seed=0):
    """Trains the newest of two anchors per population, slot 1, against frozen policies; the state before it, too."""
    state = init_gems(jax.random.key(seed), game, config)
    populations = game.num_seats
    sigma = jnp.asarray([[0.3, 0.7, 0.0]] * populations if sigma is None else sigma)
    own = materialize(population_of(state, game, config), config.capacity)
    faced = own if opponents is None else StackedPolicies(jnp.asarray(opponents, jnp.float32), own.apply)
    held = AnchorSet(state.anchors, state.active, state.anchor_id, jnp.log(sigma), sigma, state.values)
    arena = make_arena(state, held, faced, game, config)
    params = {"generator": state.generator, "critic": state.critic}
    buffer = every_action(game)
    joint = estimate_game(buffer, game, faced, jnp.int32(0), 1.0)
    run = jax.jit(lambda key, learned: train_on_replay(key, arena, learned, buffer, joint))
    learned, metrics = run(jax.random.key(seed + 1), (params, state.opt_state))
    after = state.replace(generator=learned[0]["generator"])
    return state, after, learned[1], metrics


def probabilities(state, game, config):
    """What every anchor plays, [P, K, A]: row p of the tables of population p is what it sees."""
    tables = np.asarray(jax.nn.softmax(materialize(population_of(state, game, config), config.capacity).params))
    return np.stack([tables[p, :, p] for p in range(game.num_seats)])


def exact_gradients(game, own, faced):
    """d J / d logits [players, A] of policies `own` [players, A], each against the others' `faced`."""
    payoffs, (low, high) = np.asarray(game.payoffs, np.float64), game.return_bounds
    found = []
    for player in range(game.num_seats):
        values = (payoffs[player] - low) / (high - low)
        for other in reversed(range(game.num_seats)):
            if other != player:
                values = np.tensordot(values, faced[other], axes=([other], [0]))
        found.append(own[player] * (values - own[player] @ values))
    return np.stack(found)


@pytest.mark.parametrize("game", [PLAIN, THREE], ids=["two players", "three players"])
def test_the_first_gradient_is_the_exact_one(game):
    """Without momentum Adam's first moment is the gradient of the loss: minus that of J for the base's own row."""
    state, _, opt_state, metrics = train(game, CONFIG)
    play_of = probabilities(state, game, CONFIG)
    mixed = np.einsum("k,pka->pa", [0.3, 0.7, 0.0], play_of)
    expected = exact_gradients(game, play_of[:, 1], mixed)
    moments = optax.tree_utils.tree_get(opt_state["generator"], "mu")["base"]  # [P, rows, A]
    got = -np.stack([moments[p, p] for p in range(game.num_seats)])
    np.testing.assert_allclose(got, expected, atol=0.005)
    assert np.abs(expected).max() > 0.03 and (metrics.improvement == 0).all()  # of one step there is no rise
    others = np.asarray(moments).copy()
    for p in range(game.num_seats):
        others[p, p] = 0
    np.testing.assert_allclose(others, 0.0, atol=1e-6)  # rows that others see


@pytest.mark.parametrize("rho", [1.0, 0.5])
def test_live_opponents_are_the_newest_anchors(rho):
    """With rho = 1 the gradient is against what the other population's newest anchor plays now, whatever sigma says."""
    config = CONFIG.replace(live_opponents=True, self_play_fraction=rho)
    rock = 10.0 * jax.nn.one_hot(jnp.zeros((2, 3, 2), jnp.int32), 3)
    state, _, opt_state, _ = train(PLAIN, config, opponents=rock)
    own = probabilities(state, PLAIN, config)[:, 1]
    frozen = np.asarray(jax.nn.softmax(rock))[0, 0, 0]
    expected = exact_gradients(PLAIN, own, rho * own + (1 - rho) * frozen)
    moments = optax.tree_utils.tree_get(opt_state["generator"], "mu")["base"]
    np.testing.assert_allclose(-np.stack([moments[0, 0], moments[1, 1]]), expected, atol=0.005)


TRAINED = CONFIG.replace(replay_steps=300, replay_batch=64, momentum=0.9, learning_rate=0.05)


def mostly_rock():
    """Opponents of which the first plays rock and the second paper, as tables [P, K, rows, A]."""
    actions = jnp.broadcast_to(jnp.asarray([0, 1, 2])[None, :, None], (2, 3, 2))
    return 20.0 * jax.nn.one_hot(actions, 3)


def test_the_best_response_is_found():
    """Seven in ten rock and the rest paper: paper earns 0.7, rock -0.3 and scissors -0.4."""
    state, after, _, metrics = train(PLAIN, TRAINED, mostly_rock(), [[0.7, 0.3, 0.0]] * 2)
    before, found = (probabilities(one, PLAIN, TRAINED)[:, 1] for one in (state, after))
    assert (found[:, PAPER] > 0.95).all() and (before[:, PAPER] < 0.9).all()
    values = (np.array([-0.3, 0.7, -0.4]) + 1) / 2
    np.testing.assert_allclose(metrics.improvement, (found - before) @ values, atol=0.12)  # of batches of 64
    assert (metrics.entropy < 0.3).all() and np.isfinite(metrics.divergence).all()


def test_the_trust_region_holds_the_other_anchors():
    """KL of the first anchor, by hand on its own row and as it is measured: large without, small with a large beta."""
    drift = {}
    for beta in (0.0, 100.0):
        config = TRAINED.replace(beta_kl=beta)
        state, after, _, metrics = train(PLAIN, config, mostly_rock(), [[0.7, 0.3, 0.0]] * 2)
        old, new = (probabilities(one, PLAIN, config) for one in (state, after))
        kl = (new * np.log(new / old)).sum(axis=2)
        drift[beta] = kl[:, 0]
        # measured before the last step
        np.testing.assert_allclose(metrics.divergence[:, :2], kl[:, :2], rtol=0.1, atol=2e-3)
    assert (drift[0.0] > 0.1).all() and (drift[100.0] < 0.01).all()
    assert (new[:, 1, PAPER] > old[:, 1, PAPER]).all()  # what it learns, the newest anchor does


def test_a_cap_ends_the_gradient():
    """Ratios pi / (1/3) of the action that gains are capped at 1 where pi > 1/3: only others have a gradient."""
    capped = CONFIG.replace(replay_cap=1.0)
    *_, opt_state, _ = train(PLAIN, capped, mostly_rock(), [[0.7, 0.3, 0.0]] * 2)
    state, *_ = train(PLAIN, CONFIG, mostly_rock(), [[0.7, 0.3, 0.0]] * 2)
    own = probabilities(state, PLAIN, CONFIG)[:, 1]
    weight = np.minimum(3.0 * own, 1.0)  # of each action
    values = (np.array([-0.3, 0.7, -0.4]) + 1) / 2
    mean = (weight @ values) / weight.sum(axis=1)
    free = np.where(3.0 * own < 1.0, own * 3.0, 0.0) * (values - mean[:, None]) / weight.sum(axis=1, keepdims=True)
    expected = free - own * free.sum(axis=1, keepdims=True)  # through d pi_a / d logits
    moments = optax.tree_utils.tree_get(opt_state["generator"], "mu")["base"]
    np.testing.assert_allclose(-np.stack([moments[0, 0], moments[1, 1]]), expected, atol=0.005)


def test_nothing_is_played():
    """A whole iteration with networks, with and without training on stored episodes: the same episodes and steps."""
    config = TINY.replace(
        estimator="trajectories", meta_rule="rm_plus", policy="mlp", policy_hidden=(4,), jacobian="none",
        buffer_episodes=16, replay_batch=16, meta_steps=3, abr_steps=0,
    )  # fmt: skip
    without, trained = (play(RPS, config.replace(replay_steps=steps), steps=2) for steps in (0, 3))
    first, second = (run.measured(0) for run in (without, trained))
    assert first.env_steps == second.env_steps and first.episodes == second.episodes
    assert second.gradient_steps == first.gradient_steps + 3 * 2
    moved = jax.tree.map(lambda a, b: bool((a != b).any()), without.after(0).generator, trained.after(0).generator)
    assert any(jax.tree.leaves(moved))
    jax.tree.map(np.testing.assert_array_equal, without.after(0).critic, trained.after(0).critic)
    for leaf in jax.tree.leaves((trained.states, trained.metrics)):
        assert not np.isnan(np.asarray(leaf, np.float64)).any()
    assert "observation" in trained.after(0).replay.decision and (trained.metrics.forgetting >= -1e-6).all()
