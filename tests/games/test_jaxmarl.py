"""JaxMARL: the games of this package are its games, and any other environment goes through the adapter."""

import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax.games import JaxmarlGame, make_game
from gems_jax.games.adapters.jaxmarl import _library, jaxmarl_game

jaxmarl = _library()
LANES = 16


@pytest.fixture(autouse=True)
def their_rank_promotion():
    """JaxMARL broadcasts without saying so."""
    with jax.numpy_rank_promotion("allow"):
        yield


def stepper(env):
    """step_env of one action per agent [S, ...], over lanes."""

    def one(state, actions):
        chosen = {agent: actions[seat] for seat, agent in enumerate(env.agents)}
        seen, state, rewards, dones, _ = env.step_env(jax.random.key(0), state, chosen)
        return seen, state, jnp.stack([rewards[agent] for agent in env.agents]), dones["__all__"]

    return jax.jit(jax.vmap(one))


@pytest.mark.parametrize(
    ("name", "continuous"),
    [
        ("simple_tag", False),
        pytest.param("simple_spread", False, marks=pytest.mark.slow),
        pytest.param("simple_tag", True, marks=pytest.mark.slow),
        pytest.param("simple_spread", True, marks=pytest.mark.slow),
    ],
)
def test_particles_are_those_of_jaxmarl(name, continuous):
    """Same starts and actions give the same episodes; JaxMARL's lasts one step longer."""
    game = make_game(name, continuous=continuous)
    env = jaxmarl.make(f"MPE_{name}_v3", **({"action_type": "Continuous"} if continuous else {}))
    np.testing.assert_allclose([body.radius for body in game.bodies], env.rad)
    states = jax.jit(jax.vmap(game.init))(jax.random.split(jax.random.key(0), LANES))
    _, theirs = jax.jit(jax.vmap(env.reset))(jax.random.split(jax.random.key(0), LANES))
    crowded = jnp.where(jnp.arange(LANES) % 2 == 0, 1.0, 0.4)[:, None, None]
    states = states.replace(inner=states.inner.replace(position=states.inner.position * crowded))
    theirs = theirs.replace(p_pos=states.inner.position)
    step, their_step, rng = jax.jit(jax.vmap(game.step, in_axes=(0, 0, None))), stepper(env), np.random.default_rng(0)
    for _ in range(25):
        shape = (LANES, game.num_seats)
        actions = rng.uniform(-1, 1, (*shape, 5)).astype(np.float32) if continuous else rng.integers(5, size=shape)
        states = step(states, actions, None)
        seen, theirs, rewards, over = their_step(theirs, (actions + 1) / 2 if continuous else actions)
        np.testing.assert_allclose(states.inner.position, theirs.p_pos, atol=2e-4)
        np.testing.assert_allclose(states.inner.velocity, theirs.p_vel[:, : game.num_seats], atol=2e-3)
        np.testing.assert_allclose(states.reward, rewards, atol=2e-3)
        for seat, agent in enumerate(env.agents):
            other, own = np.asarray(seen[agent]), np.asarray(states.observation[:, seat, : -game.num_seats])
            size = min(other.shape[1], own.shape[1])
            np.testing.assert_allclose(own[:, :size], other[:, :size], atol=2e-3)
            assert not other[:, size:].any() and not own[:, size:].any()
    assert np.asarray(states.truncated).all() and not np.asarray(over).any()


@pytest.mark.parametrize("players", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_hanabi_is_that_of_jaxmarl(players):
    """The same deck and moves: same observations to the last entry, legal moves, rewards and ends."""
    game, env = make_game("hanabi", players=players), jaxmarl.make("hanabi", num_agents=players)
    assert game.observation_shape == (env.obs_size + players,)
    states = jax.jit(jax.vmap(game.init))(jax.random.split(jax.random.key(0), LANES))
    decks = np.asarray(states.inner.deck)
    seen, theirs = jax.jit(jax.vmap(env.reset_from_deck_of_pairs))(np.stack([decks // 5, decks % 5], axis=-1))
    step, their_step = jax.jit(jax.vmap(game.step, in_axes=(0, 0, None))), stepper(env)
    their_legal, rng, moves = jax.jit(jax.vmap(env.get_legal_moves)), np.random.default_rng(0), 0
    for _ in range(game.max_steps):
        running, possible = ~np.asarray(states.done), their_legal(theirs)
        for seat, agent in enumerate(env.agents):
            own = np.asarray(states.observation[:, seat, :-players])
            np.testing.assert_allclose(own[running], np.asarray(seen[agent])[running], atol=1e-6)
            acts = np.asarray(states.to_move[:, seat])
            legal = np.asarray(possible[agent], bool)[:, :-1]
            np.testing.assert_array_equal(np.asarray(states.legal[:, seat])[acts], legal[acts])
        weights = np.asarray(states.legal.any(axis=1)) * np.where(
            np.arange(game.num_actions) // game.hand_size == 1, 0.1, 1
        )
        weights[~running] = 1.0  # anything: the games are over
        actions = np.stack([rng.choice(game.num_actions, p=row / row.sum()) for row in weights])
        joint = np.tile(actions[:, None], (1, players))
        states = step(states, joint, None)
        seen, theirs, rewards, over = their_step(theirs, joint)
        np.testing.assert_array_equal(np.asarray(states.reward)[running], np.asarray(rewards)[running])
        np.testing.assert_array_equal(np.asarray(states.terminated)[running], np.asarray(over)[running])
        moves += running.sum()
    assert np.asarray(states.terminated).all() and moves > 30 * LANES


def test_an_environment_through_the_adapter():
    """Padding, seats, masks, both sides of a game with unequal observations; the limit is exact and truncates."""
    game = make_game("jaxmarl:MPE_simple_adversary_v3", max_steps=3)
    assert game.name == "jaxmarl:MPE_simple_adversary_v3" and game.sides == (0, 1, 1)
    assert game.player_of_seat == (0, 1, 2) and game.population_of_player == (0, 1, 2)
    assert make_game("jaxmarl:MPE_simple_adversary_v3", teams=True).player_of_seat == (0, 1, 1)
    assert game.return_bounds == pytest.approx((-70 * 3 / 25, 70 * 3 / 25))
    state, step = game.init(jax.random.key(0)), jax.jit(game.step)
    np.testing.assert_array_equal(state.observation[:, -3:], np.eye(3))
    assert not state.observation[0, 8:10].any() and state.observation[1, 8:10].all()  # the adversary's is shorter
    for _ in range(3):
        assert not state.done
        state = step(state, jnp.zeros(3, jnp.int32), jax.random.key(1))
    assert state.truncated and not state.terminated


def test_unequal_actions_are_masked():
    game = make_game("jaxmarl:MPE_simple_speaker_listener_v4", teams=True)
    assert game.player_of_seat == (0, 0) and game.num_actions == 5
    legal = np.asarray(game.init(jax.random.key(0)).legal)
    assert sorted(legal.sum(axis=1).tolist()) == [3, 5]


def test_a_longer_limit_than_the_environments_own():
    game = make_game("jaxmarl:MPE_simple_v3", max_steps=30)
    state, step = game.init(jax.random.key(0)), jax.jit(game.step)
    for _ in range(29):
        state = step(state, jnp.ones(1, jnp.int32), jax.random.key(0))
    assert not state.done and step(state, jnp.ones(1, jnp.int32), jax.random.key(0)).truncated


def test_ends_by_the_rules_are_terminations():
    """The riddle ends as soon as somebody tells."""
    game = make_game("jaxmarl:switch_riddle")
    state = jax.jit(game.step)(game.init(jax.random.key(0)), jnp.full(3, 2), jax.random.key(1))
    assert state.terminated and not state.truncated and (state.reward == -1).all()


def test_continuous_boxes_are_mapped():
    game = make_game("jaxmarl:MPE_simple_v3", action_type="Continuous")
    assert game.continuous and game.num_actions == 5
    np.testing.assert_allclose(game._action("agent_0", jnp.asarray([-1.0, 0.0, 1.0, 3.0, 0.5])), [0, 0.5, 1, 1, 0.75])


@pytest.mark.parametrize(
    ("id", "options", "message"),
    [
        ("MPE_simple_tug_v3", {}, "did you mean 'jaxmarl:MPE_simple_tag_v3'"),
        ("storm", {}, "expected step_env"),
        ("coin_game", {}, "expected step_env"),
        ("LearnedPolicyEnemySMAX", {}, "missing 2 required positional arguments"),
        ("ant_4x2", {}, "requires brax"),
        ("MPE_simple_crypto_v3", {"max_steps": 25}, "expected low < high, got 0.0 and 0.0"),
        ("MPE_simple_crypto_v3", {"low": -1.0}, "no known length: expected max_steps > 0"),
        ("MPE_simple_v3", {"action_type": "Analogue"}, "cannot make 'MPE_simple_v3' with action_type='Analogue'"),
        ("MPE_simple_v3", {"rad": [1.0]}, "the setting rad must be hashable"),
    ],
)
def test_what_does_not_fit_is_told(id, options, message):
    with pytest.raises(ValueError, match=message):
        make_game(f"jaxmarl:{id}", **options)


def test_equal_games():
    assert jaxmarl_game("SMAX", num_allies=2, num_enemies=1) == jaxmarl_game("SMAX", num_enemies=1, num_allies=2)
    assert isinstance(make_game("jaxmarl:SMAX"), JaxmarlGame)


def test_jaxmarl_is_imported_late_quietly_and_not_into_a_trace():
    code = """
import sys, jax, gems_jax.games as games
assert "jaxmarl" not in sys.modules, "importing gems_jax.games loads jaxmarl"
out = sys.stdout
jax.jit(lambda key: games.make_game("jaxmarl:MPE_simple_v3").init(key).reward)(jax.random.key(0))
assert sys.stdout is out
env = games.make_game("jaxmarl:MPE_simple_v3").env
assert not any(isinstance(value, jax.core.Tracer) for value in vars(env).values()), "a tracer leaked"
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, timeout=600, capture_output=True, text=True)
    assert done.stdout == ""


def test_a_missing_extra_names_the_line():
    code = """
import sys
sys.modules["jaxmarl"] = None
from gems_jax.games import make_game
try:
    make_game("jaxmarl:SMAX")
except ImportError as error:
    assert 'pip install "gems_jax[jaxmarl]"' in str(error), error
else:
    raise SystemExit("no error")
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=600)
