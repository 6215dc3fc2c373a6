"""Self-play with and without a magnet: known equilibria, magnets by hand, what is traced."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game, make_solver, nash_conv
from gems_jax.baselines.self_play import anneal, move_magnet, practise
from gems_jax.solvers import DEFAULTS

BIASED = make_game("biased_rps")
KUHN = make_game("kuhn_poker")
MAGNETS = ("uniform", "moving", "copied")
SMALL = {"opponents": 16, "rounds": 4, "critic_hidden": (4,), "snapshots": 2}


def after(game, config, iterations, seed=0):
    """The solver and its state after some iterations, compiled as one program."""
    solver = make_solver("self_play", game, config)
    keys = jax.random.split(jax.random.key(seed + 1), iterations)
    run = jax.jit(lambda key: jax.lax.scan(solver.step, solver.init(key), keys)[0])
    return solver, run(jax.random.key(seed))


def played(state):
    """Action probabilities [P, A] of a two-player matrix game; player p sees row p."""
    logits = state.trainee.student.params["policy"]
    return np.stack([np.asarray(jax.nn.softmax(logits[p, p])) for p in range(2)])


def quantal_response(payoffs, temperature, reference):
    """x = reference exp(A y / T) / Z for both players of a zero-sum game, by damped iteration in float64."""
    x = y = np.full(len(payoffs), 1 / len(payoffs))
    for _ in range(4000):
        replies = [reference[0] * np.exp(payoffs @ y / temperature), reference[1] * np.exp(-payoffs.T @ x / temperature)]
        x, y = (0.99 * old + 0.01 * new / new.sum() for old, new in zip((x, y), replies, strict=True))
    return np.stack([x, y])


EXACT = DEFAULTS["self_play"].replace(opponents=512, learning_rate=0.1, learning_rate_decay=0.5, critic_hidden=(4,))


def test_a_uniform_magnet_leads_to_the_quantal_response_equilibrium():
    """Of temperature alpha times the width of the returns; the entropy bonus of that weight leads to the same."""
    alpha, payoffs = 0.15, np.asarray(BIASED.payoffs[0], float)
    low, high = BIASED.return_bounds
    expected = quantal_response(payoffs, alpha * (high - low), np.full((2, 3), 1 / 3))
    nash = quantal_response(payoffs, 0.05, np.full((2, 3), 1 / 3))
    assert abs(expected - 1 / 3).max() > 0.05 and abs(expected - nash).max() > 0.05
    for changes in ({"magnet": "uniform", "magnet_weight": alpha}, {"entropy_weight": alpha}):
        _, state = after(BIASED, EXACT.replace(rounds=300, **changes), 1)
        np.testing.assert_allclose(played(state), expected, atol=0.03)


def test_a_magnet_that_stays_is_the_prior_of_the_quantal_response():
    """pi is proportional to magnet exp(Q / T): here the magnet is a policy that prefers its first action."""
    alpha, payoffs = 0.3, np.asarray(BIASED.payoffs[0], float)
    low, high = BIASED.return_bounds
    reference = np.array([[0.6, 0.2, 0.2], [0.6, 0.2, 0.2]])
    expected = quantal_response(payoffs, alpha * (high - low), reference)
    assert abs(expected - reference).max() > 0.05
    config = EXACT.replace(magnet="copied", magnet_period=10_000, magnet_weight=alpha)
    solver = make_solver("self_play", BIASED, config)
    trainee = solver.init(jax.random.key(0)).trainee
    magnet = jnp.broadcast_to(jnp.log(reference)[:, None], trainee.magnet.shape)
    run = jax.jit(lambda key, start: practise(key, BIASED, config, jnp.int32(300), start)[0])
    trainee = run(jax.random.key(1), trainee.replace(magnet=magnet))
    np.testing.assert_array_equal(trainee.magnet, magnet)
    logits = trainee.student.params["policy"]
    found = np.stack([jax.nn.softmax(logits[p, p]) for p in range(2)])
    np.testing.assert_allclose(found, expected, atol=0.03)


def test_copied_and_moving_magnets_lead_to_nash():
    """Where the uniform magnet of the same weight stops at the quantal response."""
    config = EXACT.replace(magnet_weight=0.15, rounds=300, magnet_period=50, magnet_rate=0.02)
    found = {}
    for magnet in MAGNETS:
        solver, state = after(BIASED, config.replace(magnet=magnet), 2)
        found[magnet] = float(nash_conv(BIASED, solver.profile(state)))
    assert found["uniform"] > 0.3 and found["copied"] < 0.1 and found["moving"] < 0.1, found


@pytest.mark.parametrize("magnet", MAGNETS)
def test_no_weight_is_no_magnet(magnet):
    """To the bit."""
    config = DEFAULTS["self_play"].replace(**SMALL)
    (_, plain), (_, pulled) = after(KUHN, config, 2), after(KUHN, config.replace(magnet=magnet, magnet_period=3), 2)
    assert int(plain.trainee.updates) == int(pulled.trainee.updates) == 8
    for left, right in zip(*(jax.tree.leaves((s.trainee.student, s.past)) for s in (plain, pulled)), strict=True):
        np.testing.assert_array_equal(left, right)


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
    """x / sqrt(1 + decay t): 1/sqrt(t) from t = 1 on for decay 1."""
    for decay, updates, expected in [(0.0, 100, 0.2), (1.0, 0, 0.2), (1.0, 3, 0.1), (0.01, 300, 0.1)]:
        np.testing.assert_allclose(anneal(0.2, decay, jnp.int32(updates)), expected, rtol=1e-6)


def test_settings_may_be_swept_by_vmap():
    """Two settings of every real-valued field of the schedules in one program: each as by itself."""
    config = DEFAULTS["mmd"].replace(**SMALL)
    names = ("magnet_weight", "magnet_rate", "magnet_decay", "learning_rate", "learning_rate_decay", "entropy_decay")
    values = jnp.array([[0.3, 0.1, 0.5, 0.1, 0.1, 0.2], [0.0, 1.0, 0.0, 0.0, 0.0, 0.0]])

    def final(row):
        solver = make_solver("mmd", BIASED, config.replace(**dict(zip(names, row, strict=True))))
        return solver.step(solver.init(jax.random.key(0)), jax.random.key(1))[0].trainee

    both = jax.jit(jax.vmap(final))(values)
    for number, row in enumerate(values.tolist()):
        alone = jax.jit(lambda row=row: final(row))()
        for left, right in zip(jax.tree.leaves(both), jax.tree.leaves(alone), strict=True):
            np.testing.assert_allclose(left[number], right, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(both.magnet[1], both.student.params["policy"][1])  # rate 1: the policy itself


@pytest.mark.parametrize("magnet", MAGNETS)
def test_networks_are_pulled_too(magnet):
    """An MLP on Kuhn poker improves on uniform play; a strong magnet holds it where it is."""
    config = DEFAULTS["self_play"].replace(
        policy="mlp", policy_hidden=(16,), opponents=64, rounds=40, learning_rate=0.02, critic_hidden=(8,),
        magnet=magnet, magnet_rate=0.05, magnet_period=20, snapshots=1,
    )  # fmt: skip
    found = {}
    for weight in (0.02, 30.0):
        solver, state = after(KUHN, config.replace(magnet_weight=weight), 1)
        found[weight] = float(nash_conv(KUHN, solver.profile(state)))
    print(magnet, found)
    assert found[0.02] < 0.6 < 0.8 < found[30.0] < 1.0, found
