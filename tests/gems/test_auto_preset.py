"""Settings derived from a game: they fit every class of games, and solve small matrix games."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import GemsConfig, make_game, make_solver, matrix_game, preset
from gems_jax.extensive.tree import build_tree
from gems_jax.extensive.values import player_gains_of_mixture, policy_tables
from gems_jax.gems.auto_preset import auto_preset, class_of_game
from gems_jax.gems.env_steps import mean_length, planned_steps
from gems_jax.presets import PRESETS, best_preset
from gems_jax.psro.self_play import SELF_PLAY
from gems_jax.runner.rebuild import starting_settings
from gems_jax.solvers import DEFAULTS, apply_budget, settings_of

RPS = make_game("rock_paper_scissors")
CLASSES = {
    "matching_pennies": "one_shot",
    "prisoners_dilemma": "one_shot",
    "public_goods": "one_shot",
    "deceptive_messages": "small",
    "kuhn_poker_3p": "small",
    "liars_dice": "large",
    "tic_tac_toe": "positions",
    "connect_four": "turn_based",
    "hanabi": "turn_based",
    "simple_spread": "simultaneous",
}


@pytest.mark.parametrize(("name", "expected"), CLASSES.items())
def test_derived_settings_fit_the_game(name, expected):
    game = make_game(name)
    config = auto_preset(game).validate()
    assert class_of_game(game) == expected
    assert (config.policy == "tabular") == (expected in ("one_shot", "small", "large", "positions"))
    jax.eval_shape(make_solver("gems", game, config).init, jax.random.key(0))


def test_sizes_follow_the_game():
    """Iterations grow with the number of actions; three players store fewer episodes and update less."""
    wide, three = matrix_game(np.eye(8)), matrix_game(np.zeros((3, 2, 2, 2)))
    assert auto_preset(RPS).iterations == auto_preset(RPS).capacity == 27
    assert auto_preset(wide).iterations == 32 and auto_preset(matrix_game(np.eye(60))).capacity == 64
    assert auto_preset(three).meta_steps < auto_preset(wide).meta_steps
    assert auto_preset(three).buffer_episodes < auto_preset(wide).buffer_episodes
    assert auto_preset(make_game("connect_four")).abr_segment == 42


def test_one_dial_scales_all_phases():
    """The budget gives the settings that `gems train --budget` gives, and an iteration plays about that many steps."""
    config = auto_preset(RPS, 5_000)
    assert config == apply_budget("gems", RPS, auto_preset(RPS), 5_000)
    assert sum(planned_steps(RPS, config, mean_length(RPS, config))) == pytest.approx(5_000, rel=0.1)
    with pytest.raises(ValueError, match="a budget of 3 env steps per iteration is too small"):
        auto_preset(RPS, 3)


# --- solving


def nash_convs(games, config, seeds):
    """NashConv [games, seeds] of matrix games of one shape after the last iteration, all in one program."""
    low, high = min(g.return_bounds[0] for g in games), max(g.return_bounds[1] for g in games)
    trees = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(build_tree, games))

    def solve(tree, payoffs, seed):
        game = matrix_game(payoffs, return_bounds=(low, high), zero_sum=True)
        solver = make_solver("gems", game, config)
        key_init, key = jax.random.split(jax.random.key(seed))
        keys = jax.random.split(key, config.iterations)
        state = jax.lax.scan(lambda s, k: (solver.step(s, k)[0], None), solver.init(key_init), keys)[0]
        profile = solver.profile(state)
        return player_gains_of_mixture(tree, policy_tables(tree, profile.population, config.capacity), profile.sigma)

    each = jax.vmap(jax.vmap(solve, in_axes=(None, None, 0)), in_axes=(0, 0, None))
    return jax.jit(each)(trees, jnp.stack([game.payoffs for game in games]), jnp.asarray(seeds)).sum(axis=-1)


@pytest.mark.slow
def test_small_matrix_games_are_solved():
    """Both end below .02 of the range of payoffs."""
    games = [RPS, matrix_game(np.random.default_rng(7).uniform(-1.0, 1.0, (3, 3)))]
    gaps = nash_convs(games, auto_preset(RPS), (0,))
    ranges = np.asarray([np.ptp(game.return_bounds) for game in games])
    assert (gaps / ranges[:, None] < 0.02).all(), gaps


# --- defaults and names


def test_make_solver_takes_settings_that_fit():
    def config_of(game):
        return make_solver("gems", game).init.keywords["config"]

    assert config_of(RPS) == auto_preset(RPS)
    assert config_of(make_game("biased_rps")) == PRESETS["biased_rps"]["tuned"]
    assert config_of(make_game("kuhn_poker")) == PRESETS["kuhn_poker"]["replay"]
    spread = make_game("simple_spread", continuous=True)
    assert config_of(spread) == PRESETS["simple_spread"]["joint"]
    assert settings_of("self_play", "connect_four").joint_play and settings_of("self_play", "kuhn_poker") == SELF_PLAY
    assert DEFAULTS["gems"] == GemsConfig()


def test_the_command_line_starts_from_them():
    start = partial(starting_settings, "gems")
    assert start("rock_paper_scissors", RPS, "") == (auto_preset(RPS), "auto")
    assert start("rock_paper_scissors", None, "") == (GemsConfig(), "auto")
    assert start("kuhn_poker", None, "")[1] == "replay" == best_preset("kuhn_poker")
    kuhn = make_game("kuhn_poker")
    assert start("kuhn_poker", kuhn, "auto") == (auto_preset(kuhn), "auto")
    tuned = PRESETS["biased_rps"]["tuned"]
    assert start("rock_paper_scissors", RPS, "tuned@biased_rps") == (tuned, "tuned@biased_rps")


@pytest.mark.parametrize(
    ("which", "message"),
    [
        ("tuned@biased_rpss", "no presets for the game 'biased_rpss'; did you mean 'biased_rps'"),
        ("tunned@biased_rps", "biased_rps has no preset 'tunned'; did you mean 'tuned'"),
        ("tuned", "no presets for the game 'rock_paper_scissors'; .*use 'auto', or NAME@GAME"),
    ],
)
def test_unknown_presets_are_refused_with_a_suggestion(which, message):
    with pytest.raises(ValueError, match=message):
        preset(RPS, which)


def test_auto_needs_the_game_itself():
    with pytest.raises(ValueError, match="expected a game, got its name 'kuhn_poker'"):
        preset("kuhn_poker", "auto")
