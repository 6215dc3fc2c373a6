"""Self-play with and without a magnet: known equilibria, magnets by hand, what may be traced."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game, make_solver, nash_conv
from gems_jax.learning.magnets import anneal, magnet_penalty, move_magnet
from gems_jax.learning.tabular import TabularStatistics
from gems_jax.psro.ppo import student_networks
from gems_jax.psro.self_play import joint_learner, run_updates
from gems_jax.psro.settings import learning_of
from gems_jax.solvers import DEFAULTS
from logit_equilibria import quantal_response

RPS = make_game("rock_paper_scissors")
BIASED = make_game("biased_rps")
KUHN = make_game("kuhn_poker")
MAGNETS = ("uniform", "moving", "copied")
SMALL = DEFAULTS["self_play"].replace(opponents=16, rounds=4, critic_hidden=(4,), snapshots=2)


def test_a_magnet_that_stays_leads_to_the_quantal_response_equilibrium():
    """pi is proportional to magnet exp(Q / T), T = alpha times the width of the returns, for two magnets.

    Both equilibria are far from their magnets and from Nash.
    """
    alpha, payoffs, (low, high) = 0.15, np.asarray(BIASED.payoffs[0], float), BIASED.return_bounds
    config = SMALL.replace(
        opponents=512, learning_rate=0.1, learning_rate_decay=0.5, entropy_weight=0.0, magnet="copied",
        magnet_period=10_000, magnet_weight=alpha,
    )  # fmt: skip
    references = np.array([[1 / 3, 1 / 3, 1 / 3], [0.1, 0.2, 0.7]])
    start = make_solver("nash_pg", BIASED, config).init(jax.random.key(0)).trainee

    def learn(reference):
        magnet = jnp.broadcast_to(jnp.log(reference)[None, None], start.magnet.shape)
        return run_updates(jax.random.key(1), BIASED, config, jnp.int32(300), start.replace(magnet=magnet))[0]

    trainees = jax.jit(jax.vmap(learn))(jnp.asarray(references))
    found = np.asarray(jax.nn.softmax(trainees.student.params["policy"]))
    for number, reference in enumerate(references):
        expected = quantal_response(payoffs, alpha * (high - low), reference)
        assert abs(expected - reference[None]).max() > 0.1 and abs(expected - [1 / 3, 1 / 2, 1 / 6]).max() > 0.1
        played = np.stack([found[number, p, p] for p in range(2)])  # player p sees row p
        np.testing.assert_allclose(played, expected, atol=0.04)


def played_statistics():
    """What one population of biased rock-paper-scissors did, with numbers of no meaning."""
    sums = jnp.arange(1.0, 7.0).reshape(3, 2)
    taken = jnp.array([[2.0, 1.0], [1.0, 0.0], [0.0, 0.0]])  # three decisions, and one
    return TabularStatistics(jnp.zeros((1, 1), jnp.int32), taken, -sums, sums, sums, sums, jnp.float32(1.0))


def test_the_pull_by_hand():
    """Policy (1/2, 1/4, 1/4) in three of four decisions, uniform in one, against uniform play."""
    learner = joint_learner(student_networks(BIASED, learning_of(SMALL, BIASED)))
    logits = jnp.log(jnp.array([[[0.5, 0.25, 0.25], [1.0, 1.0, 1.0]]] * 2))
    params, batches = {"policy": logits}, [played_statistics()]
    divergence = 0.75 * (np.log(3) - 1.5 * np.log(2))
    for magnet, held in [("uniform", ()), ("copied", jnp.zeros_like(logits)), ("moving", jnp.ones_like(logits))]:
        config = SMALL.replace(magnet=magnet, magnet_weight=0.4, magnet_decay=1.0)
        for updates, weight in [(0, 0.4), (3, 0.2)]:
            pull = magnet_penalty(config, learner, {"policy": held}, jnp.int32(updates))(
                params, batches, jax.random.key(0)
            )
            np.testing.assert_allclose(pull, weight * divergence, rtol=1e-5)


def test_no_weight_is_no_magnet():
    """To the bit."""

    def after(config):
        solver = make_solver("self_play", BIASED, config)
        keys = jax.random.split(jax.random.key(1), 2)
        return jax.jit(lambda key: jax.lax.scan(solver.step, solver.init(key), keys)[0])(jax.random.key(0)).trainee

    plain = after(SMALL)
    assert int(plain.updates) == 8
    for magnet in MAGNETS:
        pulled = after(SMALL.replace(magnet=magnet, magnet_period=3))
        jax.tree.map(np.testing.assert_array_equal, plain, pulled.replace(magnet=()))


def test_magnets_by_hand():
    config, policy = DEFAULTS["nash_pg"].replace(magnet_period=3), {"w": jnp.array([4.0])}
    for updates, expected in [(1, 0.0), (2, 0.0), (3, 4.0), (6, 4.0), (7, 0.0)]:
        assert move_magnet(config, {"w": jnp.array([0.0])}, policy, jnp.int32(updates))["w"] == expected
    moving = config.replace(magnet="moving", magnet_rate=0.25)
    assert move_magnet(moving, {"w": jnp.array([0.0])}, policy, jnp.int32(1))["w"] == 1.0
    # of logits this is the geometric mean
    left, right = (jnp.log(jnp.array(row)) for row in ([0.5, 0.5], [0.9, 0.1]))
    mean = jax.nn.softmax(move_magnet(moving, left, right, jnp.int32(1)))
    expected = np.array([0.5**0.75 * 0.9**0.25, 0.5**0.75 * 0.1**0.25])
    np.testing.assert_allclose(mean, expected / expected.sum(), rtol=1e-5)
    assert move_magnet(config.replace(magnet="uniform"), (), policy, jnp.int32(3)) == ()


def test_annealing_by_hand():
    """x / sqrt(1 + decay t): 1 / sqrt(t + 1) for decay 1."""
    for decay, updates, expected in [(0.0, 100, 0.2), (1.0, 0, 0.2), (1.0, 3, 0.1), (0.01, 300, 0.1)]:
        np.testing.assert_allclose(anneal(0.2, decay, jnp.int32(updates)), expected, rtol=1e-6)


def test_settings_may_be_swept_by_vmap():
    """Two settings of every real-valued field of the schedules in one program: each as by itself."""
    names = ("magnet_weight", "magnet_rate", "magnet_decay", "learning_rate", "learning_rate_decay", "entropy_decay")
    values = jnp.array([[0.3, 0.1, 0.5, 0.1, 0.1, 0.2], [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]])

    def final(row):
        config = SMALL.replace(magnet="moving", **dict(zip(names, row, strict=True)))
        solver = make_solver("mmd", BIASED, config)
        return solver.step(solver.init(jax.random.key(0)), jax.random.key(1))[0].trainee

    both, alone = jax.jit(jax.vmap(final))(values), jax.jit(final)
    for number, row in enumerate(values):
        for left, right in zip(jax.tree.leaves(both), jax.tree.leaves(alone(row)), strict=True):
            np.testing.assert_allclose(left[number], right, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(both.magnet[1], both.student.params["policy"][1], atol=1e-7)  # rate 1


@pytest.mark.parametrize(
    "magnet", ["moving", *(pytest.param(name, marks=pytest.mark.slow) for name in ("uniform", "copied"))]
)
def test_networks_are_pulled_too(magnet):
    """An MLP on Kuhn poker improves on uniform play (NashConv 0.917); a strong magnet holds it there."""
    config = DEFAULTS["self_play"].replace(
        policy="mlp", policy_hidden=(16,), opponents=64, rounds=40, learning_rate=0.02, critic_hidden=(8,),
        entropy_weight=0.0, magnet=magnet, magnet_rate=0.02, magnet_period=30, snapshots=1,
    )  # fmt: skip
    profile_of = make_solver("mmd", KUHN, config).profile

    @jax.jit
    def after(weight):
        solver = make_solver("mmd", KUHN, config.replace(magnet_weight=weight))
        return solver.step(solver.init(jax.random.key(0)), jax.random.key(1))[0]

    free, held = (float(nash_conv(KUHN, profile_of(after(jnp.float32(weight))))) for weight in (0.02, 10.0))
    assert free < 0.6 and 0.75 < held < 1.0, (free, held)
