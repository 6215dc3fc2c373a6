"""Games that Python plays: the same to the solver as JAX's, whatever the number of workers."""

import jax
import jax.numpy as jnp
import numpy as np
import pyspiel
import pytest

from gems_jax import exploitability, gems_step, make_solver
from gems_jax.config import GemsConfig
from gems_jax.evaluate.sampled import random_profile
from gems_jax.extensive.tree import build_tree
from gems_jax.games import make_game
from gems_jax.games.adapters import hosted as python_game
from gems_jax.host.stages import NotStagedError, session, stage
from gems_jax.opponents.uniform import random_policy
from gems_jax.policies.population import StackedPolicies
from gems_jax.rollout.episode import play_episode, unroll, unroll_segment
from gems_jax.rollout.groups import play_groups
from gems_jax.rollout.views import make_view
from gems_jax.testing import check_game
from gems_jax.types import Policy, PolicyOutput, num_players
from toy_games import constant

IDS = [
    ("pz:connect_four_v3", {}, 16),
    ("pz:chess_v6", {"max_steps": 60}, 1),
    ("pz:go_v5", {"board_size": 5}, 2),
    ("pz:hanabi_v5", {}, 1),
    ("pz:simple_tag_v3", {}, 2),
    ("pz:simple_tag_v3", {"continuous_actions": True, "teams": False}, 2),
    ("pz:simple_spread_v3", {"max_cycles": 5}, 2),
    ("pz:simple_spread_v3", {"continuous_actions": True}, 2),
    ("openspiel:leduc_poker", {}, 16),
    ("openspiel:connect_four", {}, 2),
    ("openspiel:goofspiel(num_cards=3,imp_info=True)", {}, 4),
    ("openspiel:hanabi", {}, 1),
]


@pytest.fixture(autouse=True)
def workers(monkeypatch):
    monkeypatch.setenv("GEMS_WORKERS", "1")
    yield lambda count: monkeypatch.setenv("GEMS_WORKERS", str(count))
    python_game.close_all()


@pytest.mark.parametrize(("name", "options", "episodes"), IDS, ids=lambda value: str(value))
def test_conformance(name, options, episodes, workers):
    workers(0)
    check_game(make_game(name, **options), episodes=episodes)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["pz:chess_v6", "pz:go_v5"])
def test_conformance_of_whole_games(name):
    check_game(make_game(name), episodes=2)


def episodes_of(game, key, count, play=play_episode, **options):
    policies = (random_policy(game),) * num_players(game)
    return stage(lambda k: jax.vmap(lambda one: play(one, game, policies, **options))(jax.random.split(k, count)))(key)


def test_the_number_of_workers_makes_no_difference(workers):
    game, found = make_game("pz:simple_spread_v3", max_cycles=6), []
    for count in (0, 1, 3):
        workers(count)
        found.append(episodes_of(game, jax.random.key(5), 7, unroll))
    for other in found[1:]:
        jax.tree.map(np.testing.assert_array_equal, found[0], other)


def test_games_that_go_on_are_whole_episodes(workers):
    """Lanes renewed where a game ends: rewards between two ends are those of one game of Leduc."""
    workers(0)
    game, steps = make_game("openspiel:leduc_poker"), 20
    policies = (random_policy(game),) * 2

    def lane(key):
        key_start, key_on = jax.random.split(key)
        return unroll_segment(key_on, game, policies, game.init(key_start), steps, (0, 1))[1]

    found = stage(lambda k: jax.vmap(lane)(jax.random.split(k, 6)))(jax.random.key(0))
    ended, reward = np.asarray(found.terminated), np.asarray(found.reward)
    assert (np.asarray(found.length) == steps).all() and (ended.sum(axis=1) >= 2).all()
    assert not reward[~ended].any() and np.isin(np.abs(reward[ended]), [1, 3, 5, 7, 9, 11, 13, 0]).all()
    assert (np.asarray(found.acted).sum(axis=2) == 1).all()  # somebody moves in every step


def test_nobody_plays_what_is_not_wanted(workers):
    """Of three policies the second is spared; the others' episodes are what they would be anyway."""
    workers(0)
    game = make_game("openspiel:kuhn_poker")
    params, slots = jnp.zeros((3, 2)), StackedPolicies(jnp.zeros((2, 1, 2)), constant)
    indices, key = jnp.zeros((3, 4, 2), jnp.int32), jax.random.key(0)

    def play(wanted):
        return play_groups(
            play_episode, key, make_view(game, 0), StackedPolicies(params, constant), slots, indices, 2, wanted=wanted
        )

    all_of_them, two = (stage(play)(jnp.asarray(wanted)) for wanted in ([True] * 3, [True, False, True]))
    assert (np.asarray(two.length)[1] == 0).all() and (np.asarray(all_of_them.length) >= 2).all()
    for other in (0, 2):
        jax.tree.map(lambda a, b, i=other: np.testing.assert_array_equal(a[i], b[i]), all_of_them, two)


def stones(weights, observation, legal):
    """A policy of Connect Four that looks at the board, at both sides' stones apart."""
    columns = observation.sum(axis=0) @ jnp.asarray([1.0, -1.0]) + 0.3 * observation[2:, :, 1].sum(axis=0)
    return PolicyOutput(logits=jnp.where(legal, weights * columns, -1e9))


def test_connect_four_is_the_same_game(workers):
    """Move by move the same board, turn and result in PettingZoo and pgx."""
    workers(0)
    ours, theirs = make_game("connect_four"), make_game("pz:connect_four_v3")
    init, step = jax.jit(ours.init), jax.jit(ours.step)
    for seed in range(4):
        rng, key = np.random.default_rng(seed), jax.random.key(seed)
        with session(), jax.debug_key_reuse(False):
            pair = [init(key), theirs.init(key)]
            while not pair[0].done:
                for field in ("observation", "legal", "to_move", "reward", "terminated", "truncated"):
                    one, other = (np.asarray(getattr(state, field)) for state in pair)
                    np.testing.assert_array_equal(one, other, err_msg=f"{field} of seed {seed}")
                mover = int(np.argmax(pair[0].to_move))
                move = rng.choice(np.flatnonzero(pair[0].legal[mover]))
                actions = jnp.full(2, move, jnp.int32)
                pair = [step(pair[0], actions, key), theirs.step(pair[1], actions, key)]
            np.testing.assert_array_equal(*(np.asarray(state.reward) for state in pair))
            assert pair[1].terminated


def test_connect_four_gives_the_same_results(workers):
    """Head to head, one policy against another. A right pair differs by more than 4 deviations once in 16,000."""
    workers(0)
    means, deviations = [], []
    for name, count in (("connect_four", 2048), ("pz:connect_four_v3", 192)):
        game = make_game(name)
        policies = (Policy(jnp.float32(1.5), stones), random_policy(game))

        def returns(key, game=game, policies=policies, count=count):
            play = jax.vmap(lambda k: play_episode(k, game, policies).returns[0])
            return play(jax.random.split(key, count))

        found = np.asarray((jax.jit if name == "connect_four" else stage)(returns)(jax.random.key(1)))
        means.append(found.mean())
        deviations.append(found.std() / np.sqrt(count))
    assert abs(means[0] - means[1]) < 4 * np.hypot(*deviations)
    assert abs(means[0]) < 0.95  # neither always wins: the comparison says something


def test_shimmy_s_truncation_is_not_ours(workers):
    """Every game of Kuhn through shimmy ends after one action; through pyspiel they are whole, and pay."""
    workers(0)
    played = episodes_of(make_game("openspiel:kuhn_poker"), jax.random.key(2), 64)
    assert set(np.asarray(played.length).tolist()) == {2, 3}
    assert (np.abs(np.asarray(played.returns)) >= 1).all()


def test_hanabi_upstream_is_marked():
    assert "truncated upstream" in make_game("pz:hanabi_v5").note


def test_trees_of_openspiel():
    """Exploitability of uniform play as OpenSpiel has it; chance in the middle of Leduc is walked."""
    exact = {"kuhn_poker": 0.9166667 / 2, "leduc_poker": 4.7472222 / 2}
    sets = {"kuhn_poker": 12, "leduc_poker": 936}
    for name, value in exact.items():
        game = make_game(f"openspiel:{name}")
        tree = build_tree(game)
        assert tree.num_infosets == sets[name] and abs(float(tree.chance.sum()) - _leaf_mass(name)) < 1e-3
        assert abs(float(exploitability(game, random_profile(game))) - value) < 1e-4


def _leaf_mass(name: str) -> float:
    """The sum over ends of the probability of chance on the way there, by OpenSpiel's own states."""

    def below(state, mass):
        if state.is_terminal():
            return mass
        if state.is_chance_node():
            return sum(below(state.child(outcome), mass * p) for outcome, p in state.chance_outcomes())
        return sum(below(state.child(action), mass) for action in state.legal_actions())

    return below(pyspiel.load_game(name).new_initial_state(), 1.0)


def test_a_position_is_left_behind_for_good(workers):
    workers(0)
    game = make_game("openspiel:kuhn_poker")
    with session(), jax.debug_key_reuse(False):
        start = game.init(jax.random.key(0))
        after = game.step(start, jnp.ones(2, jnp.int32), jax.random.key(1))
        assert after.to_move[1]
        with pytest.raises(python_game.EnvironmentFailure, match="stale state: the environment has already advanced"):
            game.step(start, jnp.ones(2, jnp.int32), jax.random.key(1))
    with (
        session(),
        pytest.raises(python_game.EnvironmentFailure, match="stale state: the environment has already advanced"),
    ):  # of a session before
        game.step(after, jnp.ones(2, jnp.int32), jax.random.key(1))


def test_gems_step_names_make_solver():
    game, config = make_game("openspiel:kuhn_poker"), GemsConfig()
    solver = make_solver("gems", game, config)
    assert not solver.jittable
    with pytest.raises(NotStagedError, match="make_solver"):
        gems_step(jax.eval_shape(solver.init, jax.random.key(0)), jax.random.key(0), game, config)


def test_options_and_what_is_missing():
    assert make_game("pz:go_v5", board_size=9) == make_game("pz:go_v5", board_size=9)
    assert make_game("pz:go_v5", board_size=9) != make_game("pz:go_v5", board_size=5)
    assert make_game("pz:simple_tag_v3").player_names == ("pursuers", "evader")
    with pytest.raises(ValueError, match="no known length: expected max_steps > 0, got 0. Pass it"):
        make_game("pz:rps_v2")
    with pytest.raises(ValueError, match="no known returns. Pass return_bounds"):
        make_game("pz:rps_v2", max_steps=50)
    assert make_game("pz:rps_v2", max_steps=50, return_bounds=(-50, 50), zero_sum=True).zero_sum
