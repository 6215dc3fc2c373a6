"""A step whose estimator reuses returns, against one whose anchors play for themselves, at equal episodes.

    python -m benchmarks.reuse [--blocks 9] [--steps 5] [--episodes 48] [--abr-steps 60] [--buffer 16384] [--quick]

Kuhn poker at the settings of `tuned` with one meta update, an anchor in every slot. `per_anchor` plays --episodes
opponents of each anchor; `pairs` and `trajectories` play as many joint episodes in all, and everything else is equal.
Their stores are full before the clock starts. Compilation comes before it as well, and the arms take turns.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import jax

from benchmarks.timing import HISTORY, interleaved, median, ratio, record
from gems_jax import GemsConfig, GemsState, gems_step, init_gems, make_game, preset
from gems_jax.accelerator.compile import program
from gems_jax.gems.budget import episodes_per_phase
from gems_jax.profiling.phase_times import fill_slots
from gems_jax.types import Array

GAME = make_game("kuhn_poker")
QUICK = {
    "capacity": 4, "num_opponents": 4, "abr_steps": 2, "abr_opponents": 8, "oracle_opponents": 8, "buffer_episodes": 64,
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=9)
    parser.add_argument("--steps", type=int, default=5, help="iterations of one block")
    parser.add_argument("--episodes", type=int, default=48, help="opponents of an anchor")
    parser.add_argument("--abr-steps", type=int, default=60)
    parser.add_argument("--buffer", type=int, default=16384, help="episodes that are stored")
    parser.add_argument("--quick", action="store_true", help="a small size, to see that it runs; nothing is kept")
    options = parser.parse_args()
    config = preset("kuhn_poker", "tuned").replace(
        meta_steps=1, num_opponents=options.episodes, abr_steps=options.abr_steps, buffer_episodes=options.buffer
    )
    if options.quick:
        config = config.replace(**QUICK)
    played = episodes_per_phase(GAME, config, config.capacity)
    arms = make_arms(config, played.meta_update)
    blocks, steps = (2, 1) if options.quick else (options.blocks, options.steps)
    seconds = interleaved({name: make_block(arm, steps) for name, arm in arms.items()}, blocks)
    what = f"{played.meta_update} episodes of the estimate, {config.capacity} anchors each"
    figures = [median(f"{name}, a step: {what}", values / steps, "s") for name, values in seconds.items()]
    figures += [
        ratio(f"{name} / per_anchor, a step", seconds[name], seconds["per_anchor"], equal=what)
        for name in arms
        if name != "per_anchor"
    ]
    record("reuse", figures, None if options.quick else HISTORY)


def make_arms(config: GemsConfig, episodes: int) -> dict[str, GemsConfig]:
    """The settings of each estimator, which plays `episodes` in an iteration."""
    reused = config.replace(mixture_samples=episodes, episodes=1, buffer_episodes=max(config.buffer_episodes, episodes))
    arms = {"per_anchor": config} | {name: reused.replace(estimator=name) for name in ("pairs", "trajectories")}
    for name, arm in arms.items():
        if episodes_per_phase(GAME, arm, arm.capacity).meta_update != episodes:
            raise RuntimeError(f"{name} does not play {episodes} episodes")
    return arms


def make_block(config: GemsConfig, steps: int) -> Callable[[], GemsState]:
    """Makes `steps` iterations of one compiled program, from a state with an anchor in every slot and a full store."""

    def several(word: Array, state: GemsState) -> GemsState:
        keys = jax.random.split(jax.random.wrap_key_data(word), steps)
        return jax.lax.scan(lambda s, k: (gems_step(s, k, GAME, config)[0], None), state, keys)[0]

    word = jax.random.key_data(jax.random.key(1))
    state = fill_slots(init_gems(jax.random.key(0), GAME, config), jax.random.key(2))
    compiled = program(several).lower(word, state).compile()
    rounds = -(-config.buffer_episodes // (config.joint_episodes * steps)) if config.estimator == "trajectories" else 1
    for _ in range(rounds):
        state = compiled(word, state)
    return lambda: compiled(word, jax.block_until_ready(state))


if __name__ == "__main__":
    main()
