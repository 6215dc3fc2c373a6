"""All methods with learned responses, small: counts by hand, known answers, equal budgets."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import make_game, make_solver, nash_conv
from gems_jax.extensive.infosets import tables_of
from gems_jax.extensive.values import build_tree, uniform_table, values_against
from gems_jax.psro.oracle_variants import worst_cases
from gems_jax.psro.self_play import sample_past
from gems_jax.psro.settings import Learning, learning_of
from gems_jax.solvers import DEFAULTS

RPS = make_game("rock_paper_scissors")
EXPLICIT = (
    "psro", "double_oracle", "alpha_psro", "a_psro", "apsro", "epsro", "p2sro", "neupl", "fusion_psro", "fxp", "xdo",
    "sp_psro", "simplex_neupl", "jpsro", "neupl_jpsro",
)  # fmt: skip
SMALL = {
    "opponents": 32, "rounds": 12, "entry_episodes": 8, "critic_hidden": (4,), "learning_rate": 0.2,
}  # fmt: skip
OWN = {
    "p2sro": {"ticks": 1, "workers": 2, "capacity": 6},  # with the learners eight slots, as the others have
    "neupl": {"slots": 4, "rows": 2},
    "simplex_neupl": {"slots": 4, "rows": 2},
    "jpsro": {"capacity": 8},
    "neupl_jpsro": {"capacity": 8},
    "sp_psro": {"blocks": 2},
    "a_psro": {"ordinary": 0.0},
    "self_play": {"snapshots": 2},
    "fxp": {"capacity": 8},
}


def config_of(method, **changes):
    oracle = {} if method == "self_play" else {"oracle": "ppo"}
    sizes = {name: value for name, value in SMALL.items() if hasattr(DEFAULTS[method], name)}
    return DEFAULTS[method].replace(**{**sizes, **oracle, **OWN.get(method, {}), **changes})


def run(method, game, iterations, config, seed=0):
    solver = make_solver(method, game, config)
    step = jax.jit(solver.step) if solver.jittable else solver.step
    state, rows = solver.init(jax.random.key(seed)), []
    for key in jax.random.split(jax.random.key(seed + 1), iterations):
        state, metrics = step(state, key)
        rows.append(metrics)
    return solver, state, rows


@pytest.fixture(scope="module")
def runs():
    """{method: (solver, state, rows)} of four iterations of rock-paper-scissors, 1,200 env steps each."""
    return {method: run(method, RPS, 4, config_of(method, env_steps=1200)) for method in (*EXPLICIT, "self_play")}


@pytest.mark.parametrize("method", [*EXPLICIT, "self_play"])
def test_a_profile_and_honest_counts(method, runs):
    solver, state, rows = runs[method]
    for which in ("iterate", "average"):
        profile = solver.profile(state, which)
        np.testing.assert_allclose(profile.sigma.sum(axis=1), 1.0, atol=1e-5)
        assert 0 <= float(nash_conv(RPS, profile)) <= 2
    for metrics in rows:  # an episode of this game is one step
        assert int(metrics.episodes) == int(metrics.env_steps) > 0 and int(metrics.gradient_steps) > 0
        assert float(metrics.parameter_bytes) > 0 and int(metrics.tree_walks) == (method == "xdo")


@pytest.mark.parametrize("method", [*EXPLICIT, "self_play"])
def test_every_method_declares_its_columns(method, runs):
    solver, _, rows = runs[method]
    assert set(solver.columns) == {name for name, value in vars(rows[-1]).items() if np.ndim(value) == 0}


@pytest.mark.parametrize("method", [*EXPLICIT, "self_play"])
def test_every_method_keeps_the_budget(method, runs):
    """1,200 env steps per iteration: the account of four iterations is within a round (and a look ahead) of it."""
    _, state, rows = runs[method]
    total = sum(int(metrics.env_steps) for metrics in rows)
    lots = {"p2sro": 2, "apsro": 2, "fxp": 2, "neupl_jpsro": 2, "a_psro": 3, "sp_psro": 4}.get(method, 1)
    slack = lots * 2 * 32 + {"a_psro": 400, "p2sro": 400}.get(method, 40)
    assert abs(total - 4 * 1200) <= slack
    np.testing.assert_allclose(float(state.pace.balance), 4 * 1200 - total, atol=1e-3)


@pytest.mark.parametrize("advantage", ["gae", "q", "doubly_robust"])
def test_psro_learns_the_cycle(advantage):
    """Against uniform play anything goes; after that paper beats rock and so on: the mixture closes in on 1/3 each."""
    solver, state, _ = run("psro", RPS, 8, config_of("psro", rounds=40, entry_episodes=200, advantage=advantage))
    assert float(nash_conv(RPS, solver.profile(state))) < 0.25


def test_self_play_keeps_the_past(runs):
    """Two of four past policies, in slots behind the one that plays now; their number does not grow."""
    solver, state, rows = runs["self_play"]
    assert state.trainee.past.shape[:2] == (2, 2) and len({float(metrics.parameter_bytes) for metrics in rows}) == 1
    np.testing.assert_array_equal(solver.profile(state).sigma, [[1, 0, 0]] * 2)
    np.testing.assert_array_equal(solver.profile(state, "average").sigma, [[0, 0.5, 0.5]] * 2)
    once = state.replace(trainee=state.trainee.replace(updates=jnp.int32(1)))
    np.testing.assert_array_equal(solver.profile(once, "average").sigma, [[0, 1, 0]] * 2)


def test_fxp_has_mains_and_counters(runs):
    """The main goes on from where it was, counters start afresh: they are different policies."""
    _, state, rows = runs["fxp"]
    assert rows[-1].num_active.tolist() == [10, 10] and state.store.capacity == 16
    np.testing.assert_array_equal(state.main.params["policy"], state.store.params[:, 8])
    np.testing.assert_array_equal(state.counter.params["policy"], state.store.params[:, 9])
    assert not np.allclose(state.store.params[:, 8], state.store.params[:, 9], atol=1e-2)


def test_every_past_policy_is_equally_likely_to_be_kept():
    """Reservoir of 2 out of 4: each number from 1 to 4 is there in half of all cases."""

    def kept(key):
        past = jnp.zeros((1, 2))
        for step, k in enumerate(jax.random.split(key, 4)):
            past = sample_past(k, past, jnp.array([step + 1.0]), jnp.int32(step))
        return past[0]

    found = jax.jit(jax.vmap(kept))(jax.random.split(jax.random.key(0), 4000))
    shares = [float((found == number).any(axis=1).mean()) for number in range(1, 5)]
    np.testing.assert_allclose(shares, 0.5, atol=5 * 0.5 / 4000**0.5)
    assert (found[:, 0] != found[:, 1]).all()


@pytest.mark.slow
def test_independent_learners_of_more_players():
    """Everybody likes its second action best, whatever the others do."""
    payoffs = np.stack([np.moveaxis(np.broadcast_to([0.0, 1.0], (2, 2, 2)), 2, p) for p in range(3)])
    game = make_game("matrix", payoffs=payoffs)
    solver, state, _ = run("self_play", game, 2, config_of("self_play", rounds=30))
    assert float(nash_conv(game, solver.profile(state))) < 0.2


def test_settings_are_settled_by_the_game():
    tic = make_game("tic_tac_toe")
    config = DEFAULTS["psro"]
    assert (config.for_game(RPS).oracle, config.for_game(RPS).payoffs) == ("exact", "exact")
    learned = config.for_game(tic)
    assert (learned.oracle, learned.payoffs, learned.policy) == ("ppo", "episodes", "mlp")
    assert config.replace(oracle="ppo").for_game(RPS).payoffs == "episodes"
    part = learning_of(config.replace(opponents=5), RPS)
    assert type(part) is Learning and part.opponents == 5 and part.policy == "tabular" and part.learning_rate == 0.05
    assert learning_of(config, tic).learning_rate == 0.001
    assert learning_of(config.replace(learning_rate=0.3), tic).learning_rate == 0.3


@pytest.mark.parametrize(
    ("method", "changes", "message"),
    [
        ("psro", {"oracle": "pop"}, "oracle must be one of auto, exact, ppo: got 'pop'; did you mean 'ppo'"),
        ("p2sro", {"env_steps": -1}, "env_steps must be an integer, at least 0: got -1"),
        ("epsro", {"floor": 2.0}, "floor must be between 0 and 1: got 2.0"),
        ("self_play", {"policy": "film", "policy_hidden": ()}, "policy='film' modulates hidden layers"),
        ("psro", {"oracle": "ppo", "policy": "board"}, "policy='board' needs discrete actions and a board"),
    ],
)
def test_what_is_refused(method, changes, message):
    with pytest.raises(ValueError, match=message):
        make_solver(method, RPS, DEFAULTS[method].replace(**changes))


def test_a_look_ahead_by_hand():
    """Rock against an opponent that holds rock and paper: worst -1. Halfway to paper 0 and 0.5 are the outcomes."""
    payoffs, replies = jnp.array([[0.0, -1.0], [0.0, 0.0]]), jnp.array([True, True])
    directions = jnp.array([[1.0, 0.0], [-1.0, 1.0]])  # paper, scissors
    ahead, now = worst_cases(payoffs, jnp.array([1.0, 0.0]), directions, jnp.array([0.25, 0.5]), replies)
    np.testing.assert_allclose(ahead, [-0.5, -0.5])
    assert float(now) == -1.0
    alone, _ = worst_cases(payoffs, jnp.array([1.0, 0.0]), directions, jnp.array([0.5]), jnp.array([True, False]))
    np.testing.assert_allclose(alone, [0.5, -0.5])


@pytest.mark.slow
def test_a_learned_response_to_uniform_kuhn():
    """Exact: 0.5 for the first player. PPO reaches at least 0.4 with 15,000 episodes."""
    kuhn = make_game("kuhn_poker")
    tree = build_tree(kuhn)
    uniform = jnp.stack([uniform_table(tree)] * 2)[:, None]
    solver, state, rows = run("psro", kuhn, 1, DEFAULTS["psro"].replace(oracle="ppo", rounds=58, entry_episodes=1))
    assert int(rows[0].episodes) == 2 * 58 * 128 + 4
    tables = tables_of(kuhn, solver.profile(state).population)
    assert float(values_against(tree, tables[:, 1:2], uniform, jnp.ones((2, 1)))[0, 0]) >= 0.4


@pytest.mark.slow
def test_leduc():
    """Exploitability of PSRO at most 1.0 after 20 iterations of 60,000 episodes."""
    leduc = make_game("leduc_holdem")
    config = DEFAULTS["psro"].replace(**LEDUC)
    solver, state, rows = run("psro", leduc, 20, config)
    found = float(nash_conv(leduc, solver.profile(state))) / 2
    assert max(int(metrics.episodes) for metrics in rows) <= 60_000
    print("exploitability at 20:", found, "episodes per iteration:", [int(metrics.episodes) for metrics in rows])
    assert found <= 1.0


LEDUC = {"oracle": "ppo", "rounds": 108, "opponents": 256, "entry_episodes": 100}
