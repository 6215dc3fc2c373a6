"""The monitor's columns: by hand on rock-paper-scissors, then the error budget on real runs of five seeds."""

from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.config import GemsConfig
from gems_jax.evaluate.monitor import BUDGET_TERMS, exact_monitor, plain_monitor
from gems_jax.extensive.values import exploitability, nash_conv
from gems_jax.games import make_game
from gems_jax.gems.meta_game import update_meta_strategy
from gems_jax.gems.state import init_gems
from gems_jax.policies.population import materialize
from gems_jax.solvers import make_solver
from gems_jax.types import Array, PolicyOutput, Profile, Solver, Struct, static_field

SEEDS, ITERATIONS = 5, 5
TINY = GemsConfig(
    capacity=3,  # full after two iterations: replacement is part of every run
    generator_widths=(8,),
    critic_hidden=(8,),
    latent_dim=3,
    num_opponents=2,
    mixture_samples=0,
    mutations=2,
    randoms=2,
    top_anchors=2,
    oracle_opponents=2,
    abr_steps=2,
    abr_anchors=4,
    abr_opponents=2,
    kl_opponents=2,
    eta=0.5,
    learning_rate=0.05,  # so that generators move visibly within a few iterations
)


# --- by hand

PURE = 40.0 * np.eye(3, dtype=np.float32)  # logits of rock, paper, scissors
ROCK, PAPER, SCISSORS = PURE
UNIFORM = np.zeros(3, np.float32)


def play_logits(params, observation, legal) -> PolicyOutput:
    return PolicyOutput(logits=params)


class Logits(Struct):
    """A population whose codes are the logits themselves."""

    codes: Array  # [P, K, 3]
    apply: object = static_field(default=play_logits)

    def select(self, index):
        return self.codes[index]


def hand_state(codes, active, ids, sigma, average=None):
    """One population's arrays [K, ...], given to both players."""
    both = lambda rows: jnp.stack([jnp.asarray(rows)] * 2)  # noqa: E731
    return SimpleNamespace(
        codes=both(codes),
        active=both(active),
        anchor_id=both(ids),
        sigma=both(sigma),
        average=both(average if average is not None else sigma),
    )


HAND_SOLVER = Solver(
    init=lambda key: None,
    step=lambda state, key: (state, None),
    profile=lambda state, which="iterate": Profile(
        Logits(state.codes), state.sigma if which == "iterate" else state.average
    ),
)


INIT, MEASURE = exact_monitor(make_game("rock_paper_scissors"), HAND_SOLVER)


@pytest.fixture(scope="module")
def by_hand():
    """Everybody plays rock; paper is proposed and taken; training then turns it halfway to scissors.

    f before: rock 0, scissors -1, paper 1 = BR.
    """
    before = hand_state([ROCK, SCISSORS, UNIFORM], [True, True, False], [0, 1, -1], [1.0, 0.0, 0.0])
    half = np.array([-40.0, 0.0, 0.0], np.float32)  # paper or scissors, one half each
    after = hand_state(
        [ROCK, half, half], [True, True, True], [0, 1, 2], [1.0, 0.0, 0.0], average=[0.5, 0.25, 0.25]
    )  # anchor 1 drifted from scissors, anchor 2 is new
    metrics = SimpleNamespace(
        # bounds (-1, 1): 0.6 is a return of 0.2, where the true value of rock against itself is 0; scissors are right
        values=jnp.array([[0.6, 0.0, 9.0]] * 2),
        measured_sigma=before.sigma,
        sigma=before.sigma,
        pool=jnp.asarray(np.stack([np.stack([SCISSORS, PAPER])] * 2)),
        chosen=jnp.array([1, 1]),
        scores=jnp.array([[0.1, 0.4], [0.2, 0.8]]),
        num_active=jnp.array([3, 3]),
        entropy=jnp.array([0.5, 1.0]),
        episodes=jnp.int32(7),
        env_steps=jnp.int32(9),
    )
    return before, metrics, after


@pytest.fixture(scope="module")
def monitored(by_hand):
    """(monitor, row) of the iteration above."""
    before, metrics, after = by_hand
    return MEASURE(INIT(before), before, metrics, after)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ("exploitability", 1.0),  # paper beats rock by 1, for both players
        ("nash_conv", 2.0),
        # average: rock 1/2, paper and scissors 1/4 each: paper earns 1/2 - 1/4
        ("exploitability_average", 0.25),
        ("exploit_restricted", 0.0),  # neither anchor beats rock
        ("regret_0", 1.0),  # one iteration of rock, and paper wins 1
        ("regret_1", 1.0),
        ("cce_gap", 2.0),
        ("cce_gap_anchors", 0.0),
        ("cce_gap_ids", 2.0),
        ("cce_gap_ids_anchors", 0.0),
        ("budget_best_response", 0.0),
        ("budget_oracle", 0.0),
        ("budget_newcomer", 1.0),
        ("budget_meta_regret", 0.0),
        ("budget_total", 1.0),
        ("budget_violation", 0.0),
        ("monte_carlo_error", 0.2),
        ("abr_gap", 1.0),  # BR 1, and half paper half scissors earns 0
        # rock kept 0, the anchor that was scissors ln 2, the newcomer 0
        ("forgetting_kl", np.log(2.0) / 3),
        # against rock: scissors -1 became 0, the others did not change
        ("forgetting_value", 1 / 3),
        ("forgetting_value_worst", 0.0),
        ("effective_policies", 1.0),  # all mass on rock
        # rock alone, two copies of one policy that never agrees with it: 1 / (1/9 + 4/9)
        ("effective_policies_uniform", 9 / 5),
        ("active_anchors", 6),
        ("entropy", 0.75),
        ("max_score", 0.6),
        ("episodes", 7),
        ("env_steps", 9),
    ],
)
def test_columns_by_hand(monitored, column, expected):
    np.testing.assert_allclose(monitored[1][column], expected, atol=1e-5)


def test_tables_at_insertion_are_kept_until_a_slot_is_taken(monitored):
    """[rock, scissors as it was, the newcomer as training left it]."""
    inserted = monitored[0]["inserted"]
    expected = np.array([[1, 0, 0], [0, 0, 1], [0, 0.5, 0.5]])
    np.testing.assert_allclose(inserted[0, :, 0], expected, atol=1e-6)


def test_without_training_the_budget_is_of_the_mixture_that_is_played(by_hand):
    before, metrics, _ = (SimpleNamespace(**vars(part)) for part in by_hand)
    metrics.sigma = jnp.array([[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]])
    after = SimpleNamespace(**vars(before))
    after.sigma = metrics.sigma
    before.active = jnp.ones_like(before.active)
    monitor, row = MEASURE(INIT(before), before, metrics, after)
    np.testing.assert_allclose(row["budget_total"], row["exploitability"], atol=1e-6)
    assert float(row["exploitability"]) > 0.1 and float(row["budget_violation"]) < 1e-6
    np.testing.assert_allclose([row["forgetting_kl"], row["forgetting_value"]], 0.0, atol=1e-6)


def test_reused_returns_have_a_regret_and_an_error_of_their_own(by_hand, monitored):
    """Returns have the width 2. By its own estimate rock, which is played, earns 0.25 and scissors 0.5."""
    before, metrics, after = (SimpleNamespace(**vars(part)) for part in by_hand)
    before.replay = ()
    metrics.values = jnp.array([[0.25, 0.5, 9.0], [0.5, 0.25, 9.0]])
    metrics.value_errors = jnp.array([[0.3, 0.4, 9.0], [0.3, jnp.inf, 9.0]])  # inf: nothing is known of that anchor
    _, row = MEASURE(INIT(before), before, metrics, after)
    np.testing.assert_allclose(row["meta_regret_estimated"], 2 * (0.25 + 0.0) / 2, atol=1e-6)
    np.testing.assert_allclose(row["value_error"], 2 * np.sqrt((0.09 + 0.16 + 0.09) / 3), atol=1e-6)
    assert not {"meta_regret_estimated", "value_error"} & set(monitored[1])


def test_regret_on_an_estimate_is_the_solver_s_and_its_error_that_of_the_episodes():
    """Many updates on few episodes leave little regret and a large error, one update on many episodes the reverse."""
    game = make_game("biased_rps")
    config = TINY.replace(estimator="trajectories", meta_rule="rm_plus", initial_anchors=3, sigma_floor=0.3)

    def one_row(meta_steps, samples):
        settings = config.replace(meta_steps=meta_steps, mixture_samples=samples)
        solver = make_solver("gems", game, settings)
        state = init_gems(jax.random.key(0), game, settings)
        policies = materialize(solver.profile(state).population, settings.capacity)
        solve = jax.jit(lambda key: update_meta_strategy(key, state, policies, game, settings).metrics)
        empty = {"pool": jnp.zeros((2, 0, settings.latent_dim)), "chosen": jnp.array([-1, -1])}
        init, measure = exact_monitor(game, solver)
        metrics = SimpleNamespace(**vars(solve(jax.random.key(1))), **empty)
        return measure(init(state), state, metrics, state)[1]

    solved, precise = one_row(200, 32), one_row(1, 1024)
    assert 0.0 <= solved["meta_regret_estimated"] < 0.02 < precise["meta_regret_estimated"]
    assert precise["value_error"] < 0.5 * solved["value_error"]


def test_empty_pool_has_no_score_and_still_adds_up(by_hand):
    before, metrics, after = by_hand
    metrics = SimpleNamespace(**vars(metrics))
    metrics.pool, metrics.scores, metrics.chosen = jnp.zeros((2, 0, 3)), jnp.zeros((2, 0)), jnp.array([-1, -1])
    _, row = MEASURE(INIT(before), before, metrics, after)
    assert "max_score" not in row and float(row["budget_violation"]) < 1e-6
    assert float(row["budget_oracle"]) == float(row["budget_newcomer"]) == 0.0
    np.testing.assert_allclose(row["budget_best_response"], 1.0, atol=1e-6)


def test_plain_monitor_has_what_the_metrics_hold(by_hand, monitored):
    before, metrics, after = by_hand
    init, measure = plain_monitor(make_game("rock_paper_scissors"), HAND_SOLVER)
    monitor, row = measure(init(before), before, metrics, after)
    assert set(row) == {"active_anchors", "entropy", "max_score", "episodes", "env_steps"}
    assert all(float(row[name]) == float(monitored[1][name]) for name in row)
    assert jax.tree.leaves(monitor) == []


def test_general_sum_games_have_no_exploitability():
    """Prisoner's dilemma, everybody cooperates: each wins by defecting."""
    game = make_game("prisoners_dilemma")
    state = SimpleNamespace(codes=jnp.zeros((2, 1, 2)).at[:, :, 0].set(40.0), sigma=jnp.ones((2, 1)))
    state.average = state.sigma
    init, measure = exact_monitor(game, HAND_SOLVER)
    _, row = measure(init(state), state, SimpleNamespace(), state)
    joint_play = {"regret_0", "regret_1", "cce_gap"}
    assert set(row) == {"nash_conv", "nash_conv_average", "value_0", "value_1", "welfare"} | joint_play
    gain = game.payoffs[0, 1, 0] - game.payoffs[0, 0, 0]
    np.testing.assert_allclose(row["nash_conv"], 2 * gain, atol=1e-5)


def test_solver_that_is_not_gems():
    """A state without anchors and metrics without a pool: distances and what the metrics hold, no more."""
    state = SimpleNamespace(codes=jnp.zeros((2, 1, 3)), sigma=jnp.ones((2, 1)), average=jnp.ones((2, 1)))
    metrics = SimpleNamespace(episodes=jnp.int32(3), env_steps=jnp.int32(4))
    _, row = MEASURE(INIT(state), state, metrics, state)
    distances = {"exploitability", "nash_conv", "exploitability_average", "regret_0", "regret_1", "cce_gap"}
    assert set(row) == distances | {"episodes", "env_steps"}
    np.testing.assert_allclose(row["exploitability"], 0.0, atol=1e-6)


# --- real runs: (game, solver, final states [seeds], rows [seeds, iterations])


def scanned_runs(name):
    """Monitor and step scanned together and vmapped over seeds, as the driver does it."""
    game = make_game(name)
    solver = make_solver("gems", game, TINY)
    init, measure = exact_monitor(game, solver)

    def body(carry, key):
        state, monitor = carry
        after, metrics = solver.step(state, key)
        monitor, row = measure(monitor, state, metrics, after)
        return (after, monitor), row

    def one(key):
        key_init, key_run = jax.random.split(key)
        state = solver.init(key_init)
        (state, _), rows = jax.lax.scan(body, (state, init(state)), jax.random.split(key_run, ITERATIONS))
        return state, rows

    return game, solver, *jax.jit(jax.vmap(one))(jax.random.split(jax.random.key(0), SEEDS))


def looped_runs(kuhn_gems):
    """One seed and one iteration after the other, on the step that the whole suite shares."""
    config = kuhn_gems.config.replace(eta=0.5, learning_rate=0.05)
    solver = make_solver("gems", kuhn_gems.game, config)
    init, measure = exact_monitor(kuhn_gems.game, solver)
    start, measure, finals, rows = jax.jit(solver.init), jax.jit(measure), [], []
    for seed in range(SEEDS):
        key_init, key_run = jax.random.split(jax.random.key(seed))
        state = start(key_init)
        monitor = init(state)
        for key in jax.random.split(key_run, ITERATIONS):
            after, metrics = kuhn_gems.step(state, key, config)
            monitor, row = measure(monitor, state, metrics, after)
            state = after
            rows.append(row)
        finals.append(state)
    table = jax.tree.map(lambda *cells: np.reshape(cells, (SEEDS, ITERATIONS)), *rows)
    return kuhn_gems.game, solver, jax.tree.map(lambda *leaves: jnp.stack(leaves), *finals), table


@pytest.fixture(scope="module", params=[pytest.param("biased_rps", marks=pytest.mark.slow), "kuhn_poker"])
def real(request):
    if request.param == "kuhn_poker":
        return looped_runs(request.getfixturevalue("kuhn_gems"))
    return scanned_runs(request.param)


def test_budget_adds_up_in_every_iteration(real):
    *_, rows = real
    for term in BUDGET_TERMS:
        assert rows[term].shape == (SEEDS, ITERATIONS)
        assert (rows[term] >= 0).all()
    np.testing.assert_allclose(sum(rows[term] for term in BUDGET_TERMS), rows["budget_total"], atol=1e-5)
    assert (rows["budget_violation"] <= 1e-5).all()
    # ... and it is not the sum of nothing
    assert (rows["budget_total"] > 0.01).all()
    assert sum(float(rows[term].max()) > 1e-3 for term in BUDGET_TERMS) >= 3


def test_distances_are_those_of_the_final_state(real):
    game, solver, states, rows = real
    for seed in range(2):
        state = jax.tree.map(lambda leaf, seed=seed: leaf[seed], states)
        np.testing.assert_allclose(rows["nash_conv"][seed, -1], nash_conv(game, solver.profile(state)), atol=1e-5)
        expected = exploitability(game, solver.profile(state, which="average"))
        np.testing.assert_allclose(rows["exploitability_average"][seed, -1], expected, atol=1e-5)
    np.testing.assert_allclose(rows["nash_conv"], 2 * rows["exploitability"], atol=1e-6)


def test_joint_play_of_one_iteration_and_of_all(real):
    """The first iteration's regrets are its gaps; later the gap is of the average, at most the average of the gaps."""
    *_, rows = real
    np.testing.assert_allclose(rows["cce_gap"][:, 0], rows["nash_conv"][:, 0], atol=1e-5)
    average = np.cumsum(np.asarray(rows["nash_conv"]), axis=1) / np.arange(1, ITERATIONS + 1)
    assert (rows["cce_gap"] <= average + 1e-5).all() and (rows["cce_gap"][:, -1] < average[:, -1] - 1e-3).any()
    assert (rows["cce_gap_anchors"] <= rows["cce_gap"] + 1e-5).all()
    assert (rows["cce_gap_ids_anchors"] <= rows["cce_gap_ids"] + 1e-5).all()
    assert (rows["exploit_restricted"] <= rows["exploitability"] + 1e-5).all()


def test_every_column_is_finite_and_forgetting_is_measured(real):
    *_, states, rows = real
    for name, values in rows.items():
        assert values.shape == (SEEDS, ITERATIONS) and np.isfinite(values).all(), name
    capacity = states.active.shape[-1]
    assert rows["active_anchors"][0].tolist() == [2 * min(n + 2, capacity) for n in range(ITERATIONS)]
    assert states.anchor_id.max() == ITERATIONS > capacity - 1  # some anchor was replaced
    assert (rows["forgetting_kl"] >= 0).all() and float(rows["forgetting_kl"].max()) > 1e-5
    assert (rows["forgetting_value_worst"] <= 0).all()
    assert (rows["effective_policies"] >= 1 - 1e-5).all() and (rows["effective_policies"] <= capacity).all()
