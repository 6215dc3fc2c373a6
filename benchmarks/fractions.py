"""How close a step of GEMS comes to the machine's limit: T_floor / T(gems_step) of every native game, by phase.

    python -m benchmarks.fractions [--games kuhn_poker leduc_holdem connect_four ...] [--blocks 5] [--abr-steps 4]

T_floor is what the step's env steps would take as random play of the original (pgx, JaxMARL) and nothing else, plus the
learning's floating-point operations at the rate of a large matrix product; all measured in the same run, in turns. For
the poker games play by one shared MLP stands in for random play. Where our own form of a game plays faster than the
original, the stricter fraction of that is given as well. Settings: the `tuned` preset, an anchor in every slot; with
--abr-steps a training of fewer rounds, where a step would take minutes (chess).
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.flops import learning_flops
from benchmarks.timing import Figure, interleaved, median, record
from benchmarks.worlds import WORLDS, of_ours
from gems_jax import init_gems, make_game, preset
from gems_jax.accelerator.compile import program
from gems_jax.policies.distributions import draw_noise, sample_action
from gems_jax.policies.mlp import MlpPolicy
from gems_jax.profiling.phase_times import PHASES, TRAINING, fill_slots, measure_phases
from gems_jax.types import Array, GameState, PyTree

POKER = ("kuhn_poker", "leduc_holdem")
GAMES = (*POKER, *WORLDS)
OPTIONS = {"go_9x9": {"shared": True}, "chess": {"shared": True}, "connect_four": {"shared": True}}  # as their targets
REACH = {"go_9x9": 0.7, "chess": 0.7, "connect_four": 0.5, "hanabi": 0.5, "simple_tag": 0.4, "simple_spread": 0.4}
_SIZE = 1024  # of the square matrices whose product gives the matrix rate


def shared_mlp(name: str, batch: int = 4096) -> Callable[[Array], tuple[Array, Array]]:
    """One MLP plays for whoever is to move in `batch` games: useful steps, and a sum for which everything counts."""
    game = make_game(name)
    network = MlpPolicy(math.prod(game.observation_shape), game.num_actions, (64, 64), False)

    def act(phi: PyTree, state: GameState, noise: Array) -> Array:
        mover = jnp.argmax(state.to_move)
        action = sample_action(network(phi, state.observation[mover], state.legal[mover]), noise)
        return jnp.broadcast_to(action, (game.num_seats,))

    def play(key: Array) -> tuple[Array, Array]:
        key_net, key_deal, key_act, key_step = jax.random.split(key, 4)
        phi = network.init(key_net)
        state = jax.vmap(game.init)(jax.random.split(key_deal, batch))
        steps, used = jnp.int32(0), jnp.zeros(())
        for noise in draw_noise(key_act, (game.max_steps, batch), game.num_actions, False):
            steps = steps + jnp.sum(~state.done)
            actions = jax.vmap(act, in_axes=(None, 0, 0))(phi, state, noise)
            state = jax.vmap(game.step, in_axes=(0, 0, None))(state, actions, key_step)
            used = used + jnp.sum(state.reward)
        return steps, used

    return play


def floor_rates(name: str, blocks: int) -> tuple[dict[str, float], float]:
    """Env steps per second of each bare play, and floating-point operations per second of a matrix product."""
    plays = {"shared MLP": shared_mlp(name)} if name in POKER else {
        "original": WORLDS[name].original(name), "ours": of_ours(name),
    }  # fmt: skip
    key = jax.random.key(0)
    compiled = {label: program(play).lower(key).compile() for label, play in plays.items()}
    steps = {label: int(play(key)[0]) for label, play in compiled.items()}
    square = jnp.ones((_SIZE, _SIZE))
    product = jax.jit(lambda a: a @ a).lower(square).compile()
    programs: dict[str, Callable[[], Any]] = {label: (lambda play=play: play(key)) for label, play in compiled.items()}
    seconds = interleaved(programs | {"product": lambda: product(square)}, max(blocks, 3))
    rates = {label: steps[label] / float(np.median(seconds[label])) for label in steps}
    return rates, 2.0 * _SIZE**3 / float(np.median(seconds["product"]))


def fractions(name: str, blocks: int, settings: dict[str, Any]) -> list[Figure]:
    game, config = make_game(name, **OPTIONS.get(name, {})), preset(name, "tuned").replace(**settings).validate()
    key_init, key_fill, key_run = jax.random.split(jax.random.key(0), 3)
    state = jax.jit(lambda k, f: fill_slots(init_gems(k, game, config), f))(key_init, key_fill)
    rates, matrix_rate = floor_rates(name, blocks)
    times = measure_phases(game, config, state, key_run, blocks)
    learning = learning_flops(game, config, state, key_run) / matrix_rate
    figures = [Figure(f"{name}: bare play, {label}", rate / 1e3, "k steps/s") for label, rate in rates.items()]
    figures.append(Figure(f"{name}: matrix products", matrix_rate / 1e9, "GFLOP/s"))
    figures.append(Figure(f"{name}: learning's floor", learning, "s"))
    figures.append(median(f"{name}: gems_step", times.whole, "s"))
    figures += [median(f"{name}: {phase}", times.seconds[phase], "s") for phase in PHASES]
    for label, rate in rates.items():
        floors = {phase: times.env_steps[phase] / rate + learning * (phase == TRAINING) for phase in PHASES}
        for phase in PHASES:
            figures.append(median(f"{name}: fraction, {label}, {phase}", floors[phase] / times.seconds[phase], ""))
        goal = f" (to reach: {REACH.get(name, 0.5)})" if label != "ours" else ""
        figures.append(median(f"{name}: fraction, {label}, the step{goal}", sum(floors.values()) / times.whole, ""))
    figures.append(Figure(f"{name}: compiling phases and step, apart", times.compiling, "s"))
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", nargs="+", default=list(GAMES), choices=list(GAMES))
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--abr-steps", type=int, help="rounds of training, instead of the preset's")
    arguments = parser.parse_args()
    settings = {} if arguments.abr_steps is None else {"abr_steps": arguments.abr_steps}
    for name in arguments.games:
        record(f"fractions, {name}", fractions(name, arguments.blocks, settings))


if __name__ == "__main__":
    main()
