"""Small settings of GEMS, and runs of them: real-valued settings are arguments, so runs that differ in these share one
program.
"""

import functools
import typing
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax import GemsConfig, gems_step, init_gems, make_game
from gems_jax.games.matrix import matrix_game
from toy_games import TeamGame, team_game

RPS = make_game("biased_rps", a=1, b=2, c=3)
STEPS = 8

TINY = GemsConfig(
    capacity=3,
    latent_dim=2,
    generator_widths=(4,),
    critic_hidden=(4,),
    num_opponents=3,
    episodes=2,
    mixture_samples=4,
    mutations=2,
    randoms=2,
    top_anchors=2,
    oracle_opponents=2,
    oracle_episodes=1,
    abr_steps=2,
    abr_anchors=2,
    abr_opponents=2,
    abr_episodes=2,
    kl_opponents=2,
    eta=0.5,
    learning_rate=0.02,
)
CONFIGS = {
    "plain": TINY,
    "other": TINY.replace(
        replacement="worst_ev", new_value="zero", policy="mlp", opponents="shared", meta_rule="mwu",
        schedule="sqrt", index="ucb_v", delta_rule="decaying", range_term=False, jacobian="exact", surrogate="a2c",
        kl_protects="batch", reset_optimizer=True, normalise_advantages=True, estimator="importance", sigma_floor=0.1,
        precision="bfloat16",
    ),
    "rich": TINY.replace(
        policy="mlp", policy_hidden=(4,), opponents="stratified",
        schedule="harmonic", meta_steps=3, index="thompson", common_random_numbers=True,
        jacobian="hutchinson", kl_protects="others", oracle_rounds=2, abr_epochs=2, estimator="self_normalised",
        adaptive=True,
    ),
    "untrained": TINY.replace(abr_steps=0, jacobian="none", index="ucb1"),
    "no_pool": TINY.replace(mutations=0, randoms=0, initial_anchors=2, estimator="exact"),
    "two_at_once": TINY.replace(
        anchors_per_call=2, oracle_period=2, capacity=4, index="thompson_nig", abr_steps=0, jacobian="none"
    ),
}  # fmt: skip
# Of other kinds of players: three with a population each; a team of two seats and a single player that share one.
OTHER_GAMES = {
    "three": (
        matrix_game(np.random.default_rng(0).uniform(-1, 1, (3, 2, 2, 2))),
        TINY.replace(index="greedy", mixture_samples=0, abr_steps=1, jacobian="none", capacity=2),
    ),
    "team_shares": (
        TeamGame(team_game().base, population_of_player=(0, 0)),
        TINY.replace(mixture_samples=0, jacobian="none", capacity=2),
    ),
}


class Trail(NamedTuple):
    """A run: the state before, and states and metrics of every iteration [T, ...]."""

    config: GemsConfig
    start: typing.Any
    states: typing.Any
    metrics: typing.Any

    def before(self, step):
        """The state that iteration `step` started from."""
        return self.start if step == 0 else jax.tree.map(lambda leaf: leaf[step - 1], self.states)

    def after(self, step):
        return jax.tree.map(lambda leaf: leaf[step], self.states)

    def measured(self, step):
        return jax.tree.map(lambda leaf: leaf[step], self.metrics)


class Program(NamedTuple):
    """gems_step on one game, compiled once, and how often it was traced."""

    step: typing.Any  # (state, key, config) -> (state, metrics)
    traces: list


@functools.cache
def program(game, structure):
    """`structure` is that of the config: settings that differ in real values only share one program."""
    del structure
    traces = []

    @jax.jit
    def step(state, key, config):
        traces.append(1)
        return gems_step(state, key, game, config)

    return Program(step, traces)


def keys_of(seed, steps):
    key_start, key_steps = jax.random.split(jax.random.key(seed))
    return key_start, jax.random.split(key_steps, steps)


def play(game, config, seed=0, steps=STEPS):
    """The whole run, step by step."""
    step = program(game, jax.tree.structure(config)).step
    key_start, keys = keys_of(seed, steps)
    state = start = init_gems(key_start, game, config)
    rows = []
    for key in keys:
        state, metrics = step(state, key, config)
        rows.append((state, metrics))
    return Trail(config, *jax.device_get((start, *jax.tree.map(lambda *leaves: jnp.stack(leaves), *rows))))


def trail(name, seed=0, **reals):
    config = CONFIGS[name].replace(**reals)
    assert jax.tree.structure(config) == jax.tree.structure(CONFIGS[name])  # only reals: nothing compiles anew
    return play(RPS, config, seed)
