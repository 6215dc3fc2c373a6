"""Monte-Carlo CFR as a solver: what it reaches, what it counts, how it keeps to a budget."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game, make_solver, nash_conv
from gems_jax.extensive.counterfactual import behavior_from_reach, regret_matching
from gems_jax.extensive.histories import build_histories
from gems_jax.extensive.mccfr import McCfrConfig, OutcomeSamplingConfig, add_compensated
from gems_jax.extensive.values import build_tree, nash_conv_of_tables
from gems_jax.solvers import DEFAULTS, apply_budget
from gems_jax.types import NotEnumerableError

KUHN, RPS = make_game("kuhn_poker"), make_game("rock_paper_scissors")
METHODS = ("os_mccfr", "es_mccfr")
BASELINES = ("none", "learned")


def random_game(seed):
    """A zero-sum game of 5 x 5 actions with payoffs uniform in [-1, 1]."""
    payoffs = np.random.default_rng(seed).uniform(-1, 1, (5, 5))
    return make_game("matrix", payoffs=np.stack([payoffs, -payoffs]))


def gaps(game, method, iterations, seeds, **changes):
    """NashConv of the average policy of every seed, and the env steps [seeds, iterations]."""
    tree, solver = build_tree(game), make_solver(method, game, DEFAULTS[method].replace(**changes))

    def run(seed):
        keys = jax.random.split(jax.random.key(seed), iterations)
        state, metrics = jax.lax.scan(solver.step, solver.init(jax.random.key(0)), keys)
        table = behavior_from_reach(tree, state.average[0])
        return nash_conv_of_tables(tree, jnp.stack([table] * tree.num_players)), metrics.env_steps

    return jax.tree.map(np.asarray, jax.jit(jax.vmap(run))(jnp.asarray(seeds)))


@pytest.mark.parametrize("baseline", BASELINES)
@pytest.mark.parametrize("method", METHODS)
def test_kuhn_within_fifty_thousand_steps(method, baseline):
    """Exploitability below .05 on seeds 0 and 1 after 2 iterations of 25,750 steps, which the run keeps to."""
    found, steps = gaps(KUHN, method, 2, range(2), baseline=baseline, env_steps=25_750)
    assert (found / 2 < 0.05).all()
    total = np.cumsum(steps, axis=1) - 25_750 * np.arange(1, 3)
    assert (total >= 0).all() and (total < 12).all()


@pytest.mark.slow
def test_kuhn_within_a_million_steps():
    """Exploitability on seeds 0-9 after 40 iterations: below .02 each; baselines and external sampling do better."""
    mean = {}
    for method in METHODS:
        for baseline in BASELINES:
            found, _ = gaps(KUHN, method, 40, range(10), baseline=baseline, env_steps=25_750)
            assert (found / 2 < 0.02).all()
            mean[method, baseline] = found.mean() / 2
    assert mean["os_mccfr", "none"] == max(mean.values()) and mean["os_mccfr", "none"] < 0.01


@pytest.mark.parametrize("method", METHODS)
def test_matrix_games(method):
    """NashConv of rock-paper-scissors, the biased one and a random 5 x 5 game, seeds 0-4, after 12,800 steps."""
    for game, bound in ((RPS, 0.15), (make_game("biased_rps"), 0.3), (random_game(0), 0.2)):
        found, _ = gaps(game, method, 1, range(5), env_steps=12_800)
        assert (found < bound).all(), (game, found)


@pytest.mark.parametrize(("plus", "linear"), [(True, False), (False, True), (True, True)])
def test_variants(plus, linear):
    found, _ = gaps(KUHN, "es_mccfr", 2, [0], plus=plus, linear=linear, env_steps=25_750)
    assert found[0] / 2 < 0.05


def test_three_players_find_what_everybody_likes_best():
    payoffs = np.stack([np.moveaxis(np.broadcast_to([0.0, 1.0], (2, 2, 2)), 2, p) for p in range(3)])
    game = make_game("matrix", payoffs=payoffs)
    for method in METHODS:
        solver = make_solver(method, game, DEFAULTS[method].replace(baseline="learned", traversals=50))
        state, _ = solver.step(solver.init(jax.random.key(0)), jax.random.key(1))
        np.testing.assert_allclose(regret_matching(build_tree(game), state.regrets), [[0, 1]] * 3, atol=1e-6)


def test_linear_averaging_by_hand():
    """In a game with a dominant action every policy from round 2 on is pure: uniform play weighs 1/T, or 2/(T(T+1))."""
    payoffs = np.stack([np.broadcast_to([[0.0], [1.0]], (2, 2)), np.broadcast_to([0.0, 1.0], (2, 2))])
    game = make_game("matrix", payoffs=payoffs)
    for linear, first in ((False, 1 / 20), (True, 2 / (20 * 21))):
        solver = make_solver("es_mccfr", game, McCfrConfig(traversals=10, linear=linear))
        state = solver.init(jax.random.key(0))
        for number in range(2):
            state, _ = solver.step(state, jax.random.key(number))
        table = behavior_from_reach(build_tree(game), state.average[0])
        np.testing.assert_allclose(table[:, 0], [first / 2] * 2, rtol=1e-5)


def test_the_baseline_learns_what_it_walks():
    """After one traversal each at rate 1 the slots before ends hold payoffs, and no other slot has moved."""
    histories, _ = build_histories(RPS)
    solver = make_solver("es_mccfr", RPS, McCfrConfig(traversals=1, baseline="learned", baseline_rate=1.0))
    state, _ = solver.step(solver.init(jax.random.key(0)), jax.random.key(1))
    baseline, payoff = np.asarray(state.baseline[0]), np.asarray(histories.payoff[0])
    children = np.asarray(histories.child[0])
    second = np.asarray(histories.player[0]) == 1
    held = np.abs(baseline[second]).sum(axis=-1) > 0
    np.testing.assert_array_equal(baseline[second][held], payoff[children[second]][held])
    # Seat 0's traversal walks one slot of each of seat 1's nodes, seat 1's all of one: 5 slots, some with payoff 0.
    assert 3 <= held.sum() <= 5
    assert (np.abs(baseline[0]).sum(axis=-1) <= np.abs(payoff).max() * 2).all()


@pytest.mark.parametrize("method", METHODS)
def test_profiles_and_counts(method):
    solver = make_solver(method, KUHN, DEFAULTS[method].replace(traversals=30, baseline="learned"))
    state = solver.init(jax.random.key(0))
    (after, metrics), (eager, _) = (run(state, jax.random.key(1)) for run in (jax.jit(solver.step), solver.step))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4), after, eager)
    assert int(metrics.rounds) == int(after.rounds) == 30 and int(metrics.gradient_steps) == 0
    assert float(metrics.state_bytes) == sum(leaf.nbytes for leaf in jax.tree.leaves(after))
    if method == "os_mccfr":
        assert int(metrics.episodes) == 60 and 120 <= int(metrics.env_steps) <= 180
    tree = build_tree(KUHN)
    tables = regret_matching(tree, after.regrets), behavior_from_reach(tree, after.average[0])
    for which, table in zip(("iterate", "average"), tables, strict=True):
        expected = nash_conv_of_tables(tree, jnp.stack([table, table]))
        np.testing.assert_allclose(nash_conv(KUHN, solver.profile(after, which)), expected, atol=1e-6)
    with pytest.raises(ValueError, match="unknown profile 'current'; known: 'iterate', 'average'"):
        solver.profile(after, "current")


def test_sums_do_not_stall():
    """float32 alone stops at 2^24 when ones are added; a compensated sum goes on."""
    start, one = jnp.stack([jnp.float32(2**24), jnp.float32(0)]), jnp.float32(1)
    after = jax.jit(lambda sums: jax.lax.fori_loop(0, 1001, lambda _, now: add_compensated(now, one), sums))(start)
    assert abs(float(after[0]) - (2**24 + 1001)) <= 1 and float(jnp.float32(2**24) + 1) == 2**24


def test_budgets_and_refusals():
    for method in METHODS:
        assert apply_budget(method, KUHN, DEFAULTS[method], 100).env_steps == 100
    with pytest.raises(NotEnumerableError):
        make_solver("os_mccfr", make_game("pgx:connect_four"))
    with pytest.raises(NotEnumerableError, match="one player per seat"):
        teams = SimpleNamespace(name="teams", num_seats=3, player_of_seat=(0, 0, 1), population_of_player=(0, 1))
        make_solver("es_mccfr", teams)
    with pytest.raises(ValueError, match="exploration"):
        make_solver("os_mccfr", KUHN, OutcomeSamplingConfig(exploration=0.0))
    with pytest.raises(ValueError, match="takes a OutcomeSamplingConfig: got McCfrConfig"):
        make_solver("os_mccfr", KUHN, McCfrConfig())
