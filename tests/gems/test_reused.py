"""Iterations on reused returns: every estimator and rule trains, what is stored keeps its size, episodes add up."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import gems_step, init_gems, make_game
from gems_jax.estimation.estimated_game import JointGame, PairGame
from gems_jax.games.matrix import matrix_game
from gems_jax.gems.adaptive import planned_episodes, unit_costs
from gems_jax.gems.budget import episodes_per_phase
from gems_jax.gems.reused import solve_estimated_game
from gems_jax.runner import checkpoint
from gems_jax.types import nbytes
from gems_trails import RPS, TINY, keys_of, play, program

KUHN = make_game("kuhn_poker")
THREE = matrix_game(np.random.default_rng(0).uniform(-1, 1, (3, 2, 2, 2)), zero_sum=False, name="three")
SMALL = TINY.replace(
    mixture_samples=8, episodes=1, buffer_episodes=20, meta_steps=5, sigma_floor=0.2, jacobian="none", abr_steps=1
)
MATRIX = np.array([[0.5, 0.25, 1.0], [0.75, 0.5, 0.0], [0.0, 1.0, 0.5]])  # biased rock-paper-scissors, scaled
EQUILIBRIUM = [0.4, 0.4, 0.2]


@pytest.mark.parametrize(
    ("game", "estimator", "rule"),
    [
        (KUHN, "pairs", "rm_plus"),
        (THREE, "trajectories", "omwu"),
        pytest.param(KUHN, "trajectories", "rm_plus", marks=pytest.mark.slow),
        pytest.param(KUHN, "pairs", "omwu", marks=pytest.mark.slow),
        pytest.param(KUHN, "pairs", "mwu", marks=pytest.mark.slow),
        pytest.param(KUHN, "trajectories", "omwu", marks=pytest.mark.slow),
        pytest.param(KUHN, "trajectories", "mwu", marks=pytest.mark.slow),
        pytest.param(THREE, "trajectories", "mwu", marks=pytest.mark.slow),
        pytest.param(THREE, "trajectories", "rm_plus", marks=pytest.mark.slow),
    ],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_iterations_train(game, estimator, rule):
    """Past the capacity of the anchors, and of the episodes that are stored: 8 at a time into 20 slots."""
    config = SMALL.replace(estimator=estimator, meta_rule=rule)
    run = play(game, config, steps=4)
    for leaf in jax.tree.leaves((run.states, run.metrics)):
        if jnp.issubdtype(leaf.dtype, jnp.floating):
            assert not np.isnan(leaf).any()
    np.testing.assert_allclose(run.states.sigma.sum(axis=2), 1.0, atol=1e-5)
    assert (run.states.sigma[~np.asarray(run.states.active)] == 0).all()
    assert (run.metrics.value_errors >= 0).all() and (run.metrics.value_errors[-1] < 1).all()
    stored = nbytes(run.start.replay)
    assert stored > 0 and (run.metrics.payoff_bytes == stored).all()
    assert all(nbytes(run.after(step)) == nbytes(run.start) for step in range(4))
    for step in range(4):
        counted = episodes_per_phase(game, config, min(1 + step, config.capacity))
        expected = counted.sum_without_training(config) + config.abr_steps * counted.abr_step
        assert counted.meta_update == 8 and run.metrics.episodes[step] == expected
    if estimator == "trajectories":
        assert (run.after(3).replay.born == [2] * 4 + [3] * 8 + [1] * 4 + [2] * 4).all()
    moved = jax.tree.map(lambda a, b: bool((a != b).any()), run.start.generator, run.after(3).generator)
    assert any(jax.tree.leaves(moved))


@pytest.mark.parametrize("estimator", [pytest.param("pairs", marks=pytest.mark.slow), "trajectories"])
def test_a_thousand_iterations_keep_their_size(estimator):
    config = SMALL.replace(estimator=estimator, meta_rule="rm_plus", capacity=3, abr_steps=1, kl_opponents=1)
    state = jax.jit(lambda key: init_gems(key, RPS, config))(jax.random.key(0))

    def step(state, key):
        return gems_step(state, key, RPS, config)

    after = jax.eval_shape(step, state, jax.random.key(0))[0]
    before = jax.eval_shape(lambda s: s, state)
    assert jax.tree.structure(before) == jax.tree.structure(after)
    assert [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(before)] == [
        (leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(after)
    ]

    @jax.jit
    def run(state, keys):
        def one(state, key):
            state, metrics = step(state, key)
            return state, (state.sigma, metrics.payoff_bytes, metrics.episodes, metrics.value_errors)

        return jax.lax.scan(one, state, keys)

    last, (sigma, payoff_bytes, episodes, errors) = run(state, jax.random.split(jax.random.key(1), 1000))
    np.testing.assert_allclose(np.asarray(sigma).sum(axis=2), 1.0, atol=1e-4)
    assert (np.asarray(sigma) >= 0).all() and np.isfinite(errors).all()
    assert (payoff_bytes == nbytes(last.replay)).all() and nbytes(last) == nbytes(state)
    assert len(np.unique(np.asarray(episodes)[5:])) == 1 and int(last.step) == 1000
    if estimator == "pairs":  # a newcomer clears its row and column in every iteration: little is held at a time
        assert 0 < float(last.replay.counts.sum()) <= 8 * 9


@pytest.mark.parametrize("estimator", ["pairs", "trajectories"])
def test_a_checkpoint_continues_to_the_bit(tmp_path, estimator):
    config = SMALL.replace(estimator=estimator, meta_rule="rm_plus")
    step, (key_start, keys) = program(KUHN, jax.tree.structure(config)).step, keys_of(0, 3)
    state = template = init_gems(key_start, KUHN, config)
    *keys, last = keys
    for key in keys:
        state, _ = step(state, key, config)
    identity = {"game": "kuhn_poker", "method": "gems", "seeds": [0], "config": {}}
    checkpoint.write_checkpoint(tmp_path, 2, state, identity=identity)
    restored = checkpoint.restore_checkpoint(tmp_path, template, identity=identity).tree
    jax.tree.map(np.testing.assert_array_equal, restored, state)
    left, right = (step(one, jax.random.clone(last), config)[0] for one in (state, restored))
    jax.tree.map(np.testing.assert_array_equal, left, right)


@pytest.mark.slow
def test_seeds_side_by_side():
    """vmap over seeds gives what each seed gives alone, up to rounding."""
    config = SMALL.replace(estimator="trajectories", meta_rule="rm_plus")
    starts, keys = jax.random.split(jax.random.key(0), (2, 3))
    both = jax.jit(jax.vmap(lambda start, key: gems_step(init_gems(start, KUHN, config), key, KUHN, config)[0]))
    together = both(jax.random.clone(starts), jax.random.clone(keys))
    step = program(KUHN, jax.tree.structure(config)).step
    for seed in range(3):
        alone, _ = step(init_gems(starts[seed], KUHN, config), keys[seed], config)
        np.testing.assert_array_equal(together.replay.decision["action"][seed], alone.replay.decision["action"])
        np.testing.assert_allclose(together.sigma[seed], alone.sigma, atol=1e-4)
    assert np.ptp(np.asarray(together.replay.returns), axis=0).max() > 0  # the seeds differ


def test_adaptive_budgets_move_rounds_of_play():
    """Rounds of joint episodes in place of meta updates; what is played stays within what the settings say."""
    config = SMALL.replace(
        estimator="trajectories", meta_rule="rm_plus", adaptive=True, abr_steps=4, mixture_samples=4, oracle_rounds=2
    )
    active = jnp.zeros((2, 3), bool).at[:, 0].set(True)
    assert unit_costs(RPS, config, active)[0] == 4 and planned_episodes(RPS, config, active)[0] == 4
    run = play(RPS, config, steps=5)
    np.testing.assert_allclose(run.states.shares.sum(axis=1), 1.0, rtol=1e-5)
    assert np.isfinite(run.metrics.errors).all()
    aside = 2 * config.pool_size(0) * 1 * config.oracle_episodes + 2 * 3 * config.kl_opponents
    for step in range(5):
        budget = float(planned_episodes(RPS, config, run.before(step).active).sum()) + aside
        assert budget - 16 < run.metrics.episodes[step] <= budget
    assert np.abs(run.states.shares[-1] - run.start.shares).max() > 0.02
    assert (run.after(4).replay.born >= 0).sum() > 4  # stored: several rounds of several iterations


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"meta_rule": "rm_plus"}, "meta_rule='rm_plus' solves an estimate that reuses returns"),
        ({"meta_rule": "rm_plus", "estimator": "importance"}, "got estimator='importance'"),
        ({"estimator": "pairs", "mixture_samples": 0}, "estimator='pairs' weights joint samples"),
        ({"replay_steps": 1}, "replay_steps learn from the episodes of estimator='trajectories'"),
        ({"replay_steps": 1, "estimator": "pairs"}, "got estimator='pairs'"),
        ({"estimator": "trajectories", "buffer_episodes": 7}, "buffer_episodes must hold the 8 episodes"),
        ({"self_play_fraction": 0.5}, "self_play_fraction must be 0 unless live_opponents"),
    ],
)
def test_settings_that_do_not_go_together(changes, message):
    with pytest.raises(ValueError, match=message):
        SMALL.replace(**changes).validate()


def test_pairs_of_three_players_are_refused():
    with pytest.raises(ValueError, match="with 3. Use estimator='trajectories'"):
        init_gems(jax.random.key(0), THREE, SMALL.replace(estimator="pairs"))


def estimated(kind):
    """Biased rock-paper-scissors as an estimated game, with a fourth slot that holds nothing but looks best."""
    matrix = np.full((4, 4), 2.0)
    matrix[:3, :3] = MATRIX
    if kind == "pairs":
        payoffs = jnp.asarray(np.stack([matrix, 1.0 - matrix]), jnp.float32)
        return PairGame(payoffs, jnp.zeros((2, 4, 4)), (0, 1))
    # one episode of each pair, with ratios that pick it out: 1 for its own anchors
    rows, columns = np.divmod(np.arange(9), 3)
    ratios = np.stack([np.eye(4)[rows], np.eye(4)[columns]])
    returns = np.stack([MATRIX[rows, columns], 1.0 - MATRIX[rows, columns]])
    return JointGame(*(jnp.asarray(x, jnp.float32) for x in (ratios, returns, np.ones(9))), (0, 1))


@pytest.mark.parametrize("kind", ["pairs", "episodes"])
@pytest.mark.parametrize(("rule", "steps", "tolerance"), [("rm_plus", 1000, 2e-3), ("omwu", 4000, 2e-2)])
def test_the_equilibrium_of_a_known_game(kind, rule, steps, tolerance):
    """OMWU's iterates converge slowly to it; RM+ has it sooner. Neither gives mass to an empty slot."""
    active = jnp.asarray([[True, True, True, False]] * 2)
    start = jnp.log(jnp.where(active, jnp.asarray([[0.7, 0.2, 0.1, 0.0], [0.1, 0.1, 0.8, 0.0]]), 0.0))
    config = TINY.replace(meta_rule=rule, meta_steps=steps, estimator="pairs", eta=0.3)
    solved = jax.jit(lambda: solve_estimated_game(estimated(kind), start, active, jnp.int32(1), config))()
    np.testing.assert_allclose(solved.sigma[:, :3], [EQUILIBRIUM] * 2, atol=tolerance)
    np.testing.assert_array_equal(solved.sigma[:, 3], 0.0)
    assert (np.asarray(jnp.exp(solved.log_sigma))[:, 3] == 0).all()


def test_one_update_is_the_rule_of_the_other_estimators():
    """A single MWU step from uniform: exp(eta v), normalized."""
    active, start = jnp.asarray([[True, True, True, False]] * 2), np.log([[1 / 3, 1 / 3, 1 / 3, 1e-38]] * 2)
    start = jnp.where(active, jnp.asarray(start, jnp.float32), -jnp.inf)
    config = TINY.replace(meta_rule="mwu", meta_steps=1, estimator="pairs", eta=0.5)
    solved = solve_estimated_game(estimated("pairs"), start, active, jnp.int32(1), config)
    for player, values in enumerate((MATRIX.mean(axis=1), (1 - MATRIX).mean(axis=0))):
        expected = np.exp(0.5 * values) / np.exp(0.5 * values).sum()
        np.testing.assert_allclose(solved.sigma[player, :3], expected, rtol=1e-5)
