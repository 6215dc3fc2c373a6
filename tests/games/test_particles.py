"""Particle worlds: by hand, whole episodes beside mpe2, and the promises of a game. JaxMARL: see test_jaxmarl_game."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.games import make_game
from gems_jax.games.particles import Particles, SimpleSpread, SimpleTag

STAY, LEFT, RIGHT, DOWN, UP = range(5)


def placed(game, position, velocity=None, time=0):
    """A state with the bodies where one wants them."""
    velocity = np.zeros((game.num_seats, 2)) if velocity is None else velocity
    inner = Particles(jnp.asarray(position, jnp.float32), jnp.asarray(velocity, jnp.float32), jnp.int32(time))
    return game._game_state(inner)


def advance(game, state, actions):
    return game.step(state, jnp.asarray(actions), jax.random.key(0))


APART = [[-0.8, -0.8], [-0.8, 0.8], [0.8, -0.8], [0.0, 0.0], [0.5, 0.5], [-0.5, 0.1]]  # nobody touches anybody


def test_motion_by_hand():
    """Old velocity moves, then is damped and pushed by accel * dt, then held to the top speed."""
    game = SimpleTag()
    velocity = [[0.5, 0.0], [0.0, 0.0], [0.95, 0.0], [0.0, -1.29]]
    state = advance(game, placed(game, APART, velocity), [UP, LEFT, RIGHT, DOWN])
    np.testing.assert_allclose(state.inner.position[:4] - np.asarray(APART[:4]), np.asarray(velocity) * 0.1, atol=1e-6)
    np.testing.assert_allclose(state.inner.position[4:], APART[4:])  # obstacles stay
    fast = 1.29 * 0.75 + 0.4
    assert fast > 1.3 and 0.95 * 0.75 + 0.3 > 1.0
    expected = [[0.375, 0.3], [-0.3, 0.0], [1.0, 0.0], [0.0, -1.3]]
    np.testing.assert_allclose(state.inner.velocity, expected, atol=1e-6)
    spread = SimpleSpread()  # no top speed there
    state = advance(spread, placed(spread, APART, [[3.0, 0.0]] * 3), [RIGHT, STAY, LEFT])
    np.testing.assert_allclose(state.inner.velocity[:, 0], [2.25 + 0.5, 2.25, 2.25 - 0.5], atol=1e-6)


def test_contact_pushes_apart_by_hand():
    """Deep inside each other the force is 100 times the depth, along the line between the two."""
    game = SimpleTag()
    position = np.asarray(APART)
    position[3] = position[0] + [0.1, 0.0]  # radii 0.075 + 0.05: 0.025 deep
    state = advance(game, placed(game, position), [STAY] * 4)
    np.testing.assert_allclose(state.inner.velocity[0], [-0.25, 0.0], atol=1e-5)
    np.testing.assert_allclose(state.inner.velocity[3], [0.25, 0.0], atol=1e-5)
    position[3] = position[4] - [0.2, 0.0]  # an obstacle of 0.2 pushes and stays where it is
    state = advance(game, placed(game, position), [STAY] * 4)
    np.testing.assert_allclose(state.inner.velocity[3], [-0.5, 0.0], atol=1e-5)
    np.testing.assert_allclose(state.inner.position[4], position[4])
    position[3] = position[0]  # no direction to be pushed in: nothing happens, and nothing is NaN
    state = advance(game, placed(game, position), [STAY] * 4)
    assert np.isfinite(state.observation).all()
    spread = SimpleSpread()  # landmarks of spread are only marks
    position = np.asarray(APART)
    position[3] = position[0]
    np.testing.assert_allclose(advance(spread, placed(spread, position), [STAY] * 3).inner.velocity, np.zeros((3, 2)))


def test_tag_pays_for_touches_and_fines_the_evader_outside():
    game = SimpleTag()
    position = np.asarray(APART)
    np.testing.assert_array_equal(game._rewards(jnp.asarray(position)), [0, 0, 0, 0])
    position[:2] = [[0.0, 0.1], [0.0, -0.1]]  # two pursuers touch the evader, the third does not
    np.testing.assert_allclose(game._rewards(jnp.asarray(position)), [20, 20, 20, -20])
    for place, fine in (((0.89, 0.0), 0.0), ((0.95, 0.0), 0.5), ((-1.0, 0.95), 1.5), ((1.5, 0.0), np.e), ((9, 9), 20)):
        position = np.asarray(APART)
        position[3] = place
        np.testing.assert_allclose(game._rewards(jnp.asarray(position)), [0, 0, 0, -fine], atol=1e-5)


def test_spread_pays_half_the_distances_and_half_a_point_per_touch():
    game = SimpleSpread()
    position = np.asarray([[0, 0], [0, 0.2], [0.9, 0.9], [0, 0], [0, 0.3], [0.5, 0.9]], np.float32)
    np.testing.assert_allclose(
        game._rewards(jnp.asarray(position)), [-0.25 - 0.5, -0.25 - 0.5, -0.25], atol=1e-6
    )  # nearest: 0, 0.1, 0.4; the first two touch (radii of 0.15)


def test_observations():
    game = SimpleTag()
    velocity = np.arange(8.0).reshape(4, 2)
    seen = np.asarray(placed(game, APART, velocity).observation)
    place = np.asarray(APART)
    others = np.concatenate([(place[[4, 5, 0, 2, 3]] - place[1]).reshape(-1)])
    np.testing.assert_allclose(seen[1], [2, 3, -0.8, 0.8, *others, 6, 7, 0, 1, 0, 0], atol=1e-6)
    np.testing.assert_array_equal(seen[3, 14:], [0, 0, 0, 0, 0, 1])  # padding, then the seat
    assert game.observation_shape == (20,) and SimpleSpread().observation_shape == (17,)


def test_an_episode_has_exactly_max_steps_and_is_truncated():
    game = SimpleTag(max_steps=3)
    state = placed(game, APART)
    for _ in range(3):
        assert not state.done and state.to_move.all() and state.legal.all()
        state = advance(game, state, [LEFT] * 4)
    assert state.truncated and not state.terminated and not state.to_move.any() and not state.legal.any()
    again = advance(game, state, [RIGHT] * 4)
    np.testing.assert_array_equal(again.observation, state.observation)
    assert not again.reward.any() and again.truncated
    assert make_game("simple_tag").max_steps == make_game("simple_spread").max_steps == 25


def test_starts():
    """Uniform in the square; the bounds are the originals'."""
    for game in (SimpleTag(), SimpleSpread()):
        position = np.asarray(jax.vmap(game.init)(jax.random.split(jax.random.key(0), 2000)).inner.position)
        reach = np.asarray([body.start for body in game.bodies])
        largest = np.abs(position).max(axis=(0, 2))
        assert (largest <= reach).all() and (largest > 0.99 * reach).all()  # 4000 draws: all below by 0.99^4000 < 1e-17
        assert np.abs(position.mean(axis=0)).max() < 0.08  # six standard errors of 0.58 / sqrt(2000)


def original(game):
    """The same world of mpe2."""
    simple_tag_v3, simple_spread_v3 = (
        pytest.importorskip("mpe2.simple_tag_v3"),
        pytest.importorskip("mpe2.simple_spread_v3"),
    )
    module = simple_tag_v3 if game.name == "simple_tag" else simple_spread_v3
    env = module.raw_env(continuous_actions=game.continuous, max_cycles=game.max_steps)
    env.reset(seed=0)
    return env


@pytest.mark.parametrize(
    "game", [SimpleTag(), SimpleSpread(), SimpleTag(continuous=True), SimpleSpread(continuous=True)]
)
def test_whole_episodes_are_those_of_mpe2(game):
    """Same positions and actions: same motion, rewards, observations and end. Half of the starts are crowded."""
    env = original(game)
    bodies = [*env.world.agents, *env.world.landmarks]
    assert [body.size for body in bodies] == [body.radius for body in game.bodies]
    step, rng, touches = jax.jit(game.step), np.random.default_rng(0), 0.0
    for episode in range(6):
        state = game.init(jax.random.key(episode))
        spread = 1.0 if episode % 2 else 0.3
        state = placed(game, np.asarray(state.inner.position) * spread)
        env.reset(seed=0)
        for body, place in zip(bodies, np.asarray(state.inner.position, np.float64), strict=True):
            body.state.p_pos, body.state.p_vel = place.copy(), np.zeros(2)
        for time in range(game.max_steps):
            shape = (game.num_seats, 5) if game.continuous else (game.num_seats,)
            actions = rng.uniform(0, 1, shape) if game.continuous else rng.integers(5, size=shape)
            assert not state.done and not any(env.truncations.values())
            state = step(state, jnp.asarray(actions * 2 - 1 if game.continuous else actions), jax.random.key(0))
            for action in actions:
                env.step(np.asarray(action, np.float32) if game.continuous else int(action))
            where = np.asarray([body.state.p_pos for body in bodies])
            np.testing.assert_allclose(state.inner.position, where, atol=2e-4, err_msg=f"{episode} {time}")
            np.testing.assert_allclose(state.reward, list(env.rewards.values()), atol=2e-3)
            for seat, agent in enumerate(env.possible_agents):
                seen = env.observe(agent)
                own = np.asarray(state.observation[seat, : -game.num_seats])
                size = min(len(seen), len(own))
                np.testing.assert_allclose(own[:size], seen[:size], atol=3e-3)
                assert not seen[size:].any() and not own[size:].any()  # silence of spread, padding of the evader
            touches += abs(float(state.reward[0])) > 5 if game.name == "simple_tag" else 0
        assert state.truncated and all(env.truncations.values()) and not any(env.terminations.values())
    assert touches > 5 or game.name == "simple_spread"  # contacts did happen


@pytest.mark.parametrize(
    ("name", "options", "players", "populations"),
    [
        ("simple_tag", {}, (0, 0, 0, 1), (0, 1)),
        ("simple_tag", {"teams": False}, (0, 1, 2, 3), (0, 1, 2, 3)),
        ("simple_tag", {"teams": False, "shared": True}, (0, 1, 2, 3), (0, 0, 0, 1)),
        ("simple_spread", {}, (0, 0, 0), (0,)),
        ("simple_spread", {"teams": False}, (0, 1, 2), (0, 1, 2)),
        ("simple_spread", {"teams": False, "shared": True, "agents": 2}, (0, 1), (0, 0)),
    ],
)
def test_players_and_populations(name, options, players, populations):
    game = make_game(name, **options)
    assert game.player_of_seat == players and game.population_of_player == populations


def test_bounds_are_typical_and_grow_with_the_episode():
    """Nearly all of 2,000 random returns lie inside; the share is what the interval was chosen for."""
    for game in (SimpleTag(), SimpleSpread()):
        low, high = game.return_bounds
        assert game.typical_bounds
        longer = type(game)(max_steps=100)
        assert longer.return_bounds == (4 * low, 4 * high)

        def episode(key, game=game):
            key_start, key_act = jax.random.split(key)
            actions = jax.random.randint(key_act, (game.max_steps, game.num_seats), 0, 5)

            def advance(state, action):
                state = game.step(state, action, None)
                return state, state.reward

            return jax.lax.scan(advance, game.init(key_start), actions)[1].sum(axis=0)

        returns = np.asarray(jax.jit(jax.vmap(episode))(jax.random.split(jax.random.key(0), 2000)))
        assert ((low <= returns) & (returns <= high)).mean() > 0.99
        expected = {"simple_tag": (4.3, -16.0), "simple_spread": (-26.5, -26.5)}[game.name]  # JaxMARL's, 4096 episodes
        error = 5 * returns.std(axis=0) / np.sqrt(2000)  # five standard errors: below 1e-5 by chance
        assert (
            abs(returns[:, 0].mean() - expected[0]) < error[0] and abs(returns[:, -1].mean() - expected[1]) < error[-1]
        )


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("simple_tag", {"max_steps": 0}, "max_steps must be an integer of at least 1, got 0"),
        ("simple_tag", {"shared": True}, "teams=True makes a side one player"),
        ("simple_spread", {"agents": 1}, "at least 2, got 1"),
    ],
)
def test_bad_options(name, options, message):
    with pytest.raises(ValueError, match=message):
        make_game(name, **options)


def test_no_environment_library_is_needed():
    code = """
import sys, jax, gems_jax
for name in ("simple_tag", "simple_spread", "hanabi"):
    jax.eval_shape(gems_jax.make_game(name).init, jax.random.key(0))
assert not {"jaxmarl", "mpe2", "pyspiel", "pgx"} & set(sys.modules), sorted(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
