"""Steps per second of simple_tag, simple_spread and Hanabi: JaxMARL's code, ours, and ours with policies in the loop.

    python -m benchmarks.worlds [--games simple_tag simple_spread hanabi] [--blocks 7]

Random legal play in all of the first two; the third is `play_groups`, as `gems_step` plays: 8 generated policies, each
against 8 others, the same number of episodes in all. Useful steps are counted, not those of finished games. Blocks are
interleaved; printed are medians, the share of JaxMARL's rate and the compile times. Pin it to one core for rates per
core (taskset -c 0).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax import make_game
from gems_jax.config import GemsConfig
from gems_jax.phases.state import init_gems, population_of
from gems_jax.population import materialise
from gems_jax.roles import at, view
from gems_jax.rollout import play_episode, play_groups
from gems_jax.types import Array, Game

IDS = {"simple_tag": "jaxmarl:MPE_simple_tag_v3", "simple_spread": "jaxmarl:MPE_simple_spread_v3", "hanabi": "hanabi"}
BATCH = {"simple_tag": 4096, "simple_spread": 4096, "hanabi": 1024}
LENGTH = {"simple_tag": 25, "simple_spread": 25, "hanabi": 20}  # of the raw scans
HIDDEN = {"simple_tag": (64, 64), "simple_spread": (64, 64), "hanabi": (128, 128)}
GROUPS = 8
Program = Callable[[Array], tuple[Array, Array]]


def of_jaxmarl(name: str) -> Program:
    """Random play by JaxMARL's step_env and legal moves: useful steps, and a sum for which every observation counts."""
    import jaxmarl

    env = jaxmarl.make(IDS[name].removeprefix("jaxmarl:"))
    batch, hanabi = BATCH[name], name == "hanabi"

    def play(key: Array) -> tuple[Array, Array]:
        key_start, key = jax.random.split(key)
        _, state = jax.vmap(env.reset)(jax.random.split(key_start, batch))

        def advance(carry: tuple, _: None) -> tuple[tuple, None]:
            state, key, steps, used = carry
            key, key_act, key_step = jax.random.split(key, 3)
            noise = jax.random.uniform(key_act, (batch, len(env.agents), int(env.action_space(env.agents[0]).n)))
            if hanabi:
                legal = jax.vmap(env.get_legal_moves)(state)
                noise = jnp.where(jnp.stack([legal[agent] for agent in env.agents], axis=1) > 0, noise, -1.0)
            chosen = jnp.argmax(noise, axis=-1)
            actions = {agent: chosen[:, seat] for seat, agent in enumerate(env.agents)}
            seen, after, _, _, _ = jax.vmap(env.step_env)(jax.random.split(key_step, batch), state, actions)
            over = state.done
            steps = steps + jnp.sum(~over)
            used = used + sum(jnp.sum(rows) for rows in seen.values())
            return (after.replace(done=after.done | over), key, steps, used), None

        carry = (state, key, jnp.int32(0), jnp.float32(0.0))
        (_, _, steps, used), _ = jax.lax.scan(advance, carry, None, length=LENGTH[name])
        return steps, used

    return play


def of_ours(name: str) -> Program:
    """The same of this package's game."""
    game, batch = make_game(name), BATCH[name]

    def play(key: Array) -> tuple[Array, Array]:
        key_start, key = jax.random.split(key)
        state = jax.vmap(game.init)(jax.random.split(key_start, batch))

        def advance(carry: tuple, _: None) -> tuple[tuple, None]:
            state, key, steps, used = carry
            key, key_act = jax.random.split(key)
            chosen = jnp.argmax(jnp.where(state.legal, jax.random.uniform(key_act, state.legal.shape), -1.0), axis=-1)
            after = jax.vmap(game.step, in_axes=(0, 0, None))(state, chosen, key)
            return (after, key, steps + jnp.sum(~state.done), used + jnp.sum(after.observation)), None

        carry = (state, key, jnp.int32(0), jnp.float32(0.0))
        (_, _, steps, used), _ = jax.lax.scan(advance, carry, None, length=LENGTH[name])
        return steps, used

    return play


def with_policies(name: str, policy: str) -> Program:
    """Whole episodes of generated policies (near-uniform, as at the start of a run) against each other."""
    game: Game = make_game(name)
    config = GemsConfig(
        policy=policy, policy_hidden=HIDDEN[name], generator_scale=0.01, capacity=GROUPS, initial_anchors=GROUPS
    )
    start = jax.jit(lambda key: init_gems(key, game, config))(jax.random.key(0))
    stacked = materialise(population_of(start, game, config), GROUPS)
    own = at(stacked, 0)
    seat = view(game, 0)
    players = max(game.player_of_seat) + 1
    indices = jnp.broadcast_to(jnp.arange(GROUPS)[None, :, None], (GROUPS, GROUPS, players))
    episodes = BATCH[name] // GROUPS**2

    def play(key: Array) -> tuple[Array, Array]:
        outcome = play_groups(play_episode, key, seat, own.params, stacked.apply, stacked, indices, episodes)
        return jnp.sum(outcome.length), jnp.sum(outcome.returns)

    return play


def measure(functions: dict[str, Program], blocks: int) -> dict[str, tuple[float, float]]:
    """name -> (median steps per second, seconds of tracing and compiling); blocks are interleaved."""
    compiled, seconds, rates = {}, {}, {label: [] for label in functions}  # type: ignore[var-annotated]
    for label, function in functions.items():
        start = time.perf_counter()
        compiled[label] = jax.jit(function).lower(jax.random.key(0)).compile()
        seconds[label] = time.perf_counter() - start
        jax.block_until_ready(compiled[label](jax.random.key(0)))
    for block in range(blocks):
        for label, program in compiled.items():
            start = time.perf_counter()
            steps = int(jax.block_until_ready(program(jax.random.key(block)))[0])
            rates[label].append(steps / (time.perf_counter() - start))
    return {label: (float(np.median(rates[label])), seconds[label]) for label in functions}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--games", nargs="+", default=list(IDS), choices=list(IDS))
    parser.add_argument("--blocks", type=int, default=7)
    arguments: Any = parser.parse_args()
    for name in arguments.games:
        functions = {"JaxMARL": of_jaxmarl(name), "ours": of_ours(name)}
        functions |= {f"ours, {policy} policies": with_policies(name, policy) for policy in ("mlp", "film")}
        found = measure(functions, arguments.blocks)
        for label, (rate, seconds) in found.items():
            share = f"{rate / found['JaxMARL'][0]:5.2f} of JaxMARL"
            print(
                f"{name:<14} {label:<20} {rate / 1e3:8.0f} k steps/s {share}  compiled in {seconds:.1f} s", flush=True
            )


if __name__ == "__main__":
    main()
