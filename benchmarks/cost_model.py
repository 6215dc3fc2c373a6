"""The cost model against measurements: rates from small settings, predictions for larger ones.

    python -m benchmarks.cost_model [--games kuhn_poker connect_four simple_tag] [--blocks 9]
    python -m benchmarks.cost_model --predict [--seconds 100]      what the full chess run would take elsewhere

For every game two small settings give the rates: the meta-game's phase and the training's, the latter with no step and
with some. From these rates alone the seconds of a whole iteration at two other, larger settings are predicted, and then
measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import nnls

from benchmarks.predictions import MACHINES, at_best, carried_over, total
from benchmarks.timing import Figure, interleaved, median, record
from benchmarks.work_model import (
    Lengths,
    Work,
    env_steps,
    meta_work,
    seconds,
    traffic,
    training_work,
    work,
)
from gems_jax import init_gems, make_game, make_solver, preset
from gems_jax.accelerator.compile import program
from gems_jax.config import GemsConfig
from gems_jax.gems.meta_game import update_meta_strategy
from gems_jax.gems.response import respond
from gems_jax.gems.state import AnchorSet, GemsState, population_of
from gems_jax.policies.population import materialize
from gems_jax.profiling.peak_memory import peak_bytes
from gems_jax.profiling.phase_times import fill_slots
from gems_jax.types import Array, Game

STEPS = 4  # of the training, where rates are measured


class Case(NamedTuple):
    """Changes to the preset `tuned`: two settings that rates come from, two that they are tried on."""

    small: tuple[Mapping[str, Any], Mapping[str, Any]]
    large: tuple[Mapping[str, Any], Mapping[str, Any]]


CASES = {
    "kuhn_poker": Case(
        small=(
            {"capacity": 16, "num_opponents": 16, "meta_steps": 20, "abr_opponents": 64, "kl_opponents": 4},
            {"capacity": 32, "num_opponents": 32, "meta_steps": 20, "abr_opponents": 256, "kl_opponents": 16},
        ),
        large=({"meta_steps": 50, "abr_steps": 20}, {}),
    ),
    "connect_four": Case(
        small=(
            {"capacity": 4, "num_opponents": 8, "abr_opponents": 4, "abr_epochs": 1, "abr_minibatches": 2},
            {"capacity": 16, "num_opponents": 8, "abr_opponents": 8, "abr_epochs": 2, "kl_opponents": 4},
        ),
        large=({}, {"capacity": 32, "abr_opponents": 32, "num_opponents": 32, "abr_steps": 4}),
    ),
    "simple_tag": Case(
        small=(
            {"capacity": 4, "num_opponents": 8, "abr_opponents": 8, "abr_epochs": 1, "abr_minibatches": 2},
            {"capacity": 16, "num_opponents": 16, "abr_opponents": 16, "kl_opponents": 4},
        ),
        large=({"abr_steps": 16}, {"capacity": 32, "abr_opponents": 64, "abr_steps": 8, "mutations": 16}),
    ),
}


def full(game: Game, config: GemsConfig) -> GemsState:
    """A state with an anchor in every slot."""
    key_init, key_fill = jax.random.split(jax.random.key(0))
    return jax.jit(lambda k, f: fill_slots(init_gems(k, game, config), f))(key_init, key_fill)


def phases(game: Game, config: GemsConfig) -> list[tuple[Work, Any]]:
    """(work, compiled) of the meta-game, of the training without a step and with `STEPS` of them."""
    state, key = full(game, config), jax.random.key(1)
    lengths = Lengths(game.max_steps, game.max_steps)

    def opponents(state: GemsState) -> Any:
        return materialize(population_of(state, game, config), config.capacity)

    def meta(state: GemsState, key: Array) -> Any:
        return update_meta_strategy(key, state, opponents(state), game, config)

    def train(state: GemsState, key: Array, steps: Array) -> Any:
        held = AnchorSet(state.anchors, state.active, state.anchor_id, state.log_sigma, state.sigma, state.values)
        return respond(key, state, held, opponents(state), game, config, steps)

    solving = program(meta).lower(state, key).compile()
    training = program(train).lower(state, key, jnp.int32(0)).compile()
    return [
        (meta_work(game, config, lengths), lambda: solving(state, key)),
        (training_work(game, config, 0), lambda: training(state, key, jnp.int32(0))),
        (training_work(game, config, STEPS), lambda: training(state, key, jnp.int32(STEPS))),
    ]


def fitted(measured: list[tuple[Work, float]]) -> Work:
    """Rates, none below zero, whose relative errors are smallest."""
    table = np.asarray([amount for amount, _ in measured])
    taken = np.asarray([took for _, took in measured])
    scale = np.maximum(table.max(axis=0), 1e-30)
    found, _ = nnls(table / scale / taken[:, None], np.ones(len(taken)))
    return Work(*(found / scale))


def check(name: str, blocks: int) -> list[Figure]:
    """Everything is timed in turns, and every turn has its own rates: what disturbs the machine disturbs both sides."""
    game, base = make_game(name), preset(name, "tuned")
    small = [base.replace(**change).validate() for change in CASES[name].small]
    large = [base.replace(**change).validate() for change in CASES[name].large]
    parts = [part for config in small for part in phases(game, config)]
    steps = [whole_step(game, config) for config in large]
    programs = {f"part {n}": run for n, (_, run) in enumerate(parts)} | {
        f"size {n}": run for n, (run, _) in enumerate(steps)
    }
    taken = interleaved(programs, blocks)
    each = [
        fitted([(amount, float(taken[f"part {n}"][block])) for n, (amount, _) in enumerate(parts)])
        for block in range(blocks)
    ]
    rates = Work(*np.median(np.asarray(each), axis=0))
    figures = [
        Figure(f"{name}: a unit of {unit}", 1e6 * rate, "us") for unit, rate in zip(Work._fields, rates, strict=True)
    ]
    for number, (config, (step, compiled)) in enumerate(zip(large, steps, strict=True)):
        amount = work(game, config, Lengths(game.max_steps, game.max_steps))
        expected = np.asarray([seconds(amount, own) for own in each])
        measured = taken[f"size {number}"]
        held = compiled.memory_analysis()
        taken_bytes = held.temp_size_in_bytes + held.argument_size_in_bytes + held.output_size_in_bytes
        label = f"{name}, size {number + 1}"
        figures += [
            median(f"{label}: predicted", expected, "s"),
            median(f"{label}: measured", measured, "s"),
            median(f"{label}: predicted / measured", expected / measured, ""),
            Figure(f"{label}: memory, predicted / compiled", peak_bytes(game, config) / taken_bytes, ""),
            Figure(f"{label}: env steps", float(step()[1].env_steps), ""),
        ]
    return figures


def whole_step(game: Game, config: GemsConfig) -> tuple[Any, Any]:
    """An iteration to call, and its program."""
    state, key = full(game, config), jax.random.key(2)
    compiled = program(make_solver("gems", game, config).step).lower(state, key).compile()
    return lambda: compiled(state, key), compiled


def predict(seconds_here: float) -> None:
    """Chess with 1,001 anchors for each player, 1,000 iterations; `seconds_here`: of one with the preset `tuned`."""
    game, tuned = make_game("chess"), preset("chess", "tuned")
    config, lengths = tuned.replace(capacity=1001), Lengths(300.0, game.max_steps)
    source, target = np.ones(2**26, np.float32), np.empty(2**26, np.float32)
    copying = np.median(interleaved({"copy": lambda: np.copyto(target, source)}, 7)["copy"])
    bandwidth = 2.0 * source.nbytes / float(copying)
    amount, unit = work(game, config, lengths), traffic(game, config)
    # seconds here, at as many steps more as the larger run has
    small = work(game, tuned, lengths)
    here = seconds_here * (amount.played + amount.recorded) / (small.played + small.recorded)
    print(f"an iteration: {amount}")
    print(f"  env steps with all slots in use: {env_steps(game, config, lengths, config.capacity):.3g}")
    print(
        f"  {total(amount, unit.flops) / 1e12:.3g} TFLOP, {total(amount, unit.bytes) / 1e12:.3g} TB moved, "
        f"{peak_bytes(game, config) / 2**30:.3g} GB held; {here:.0f} s on one core, {bandwidth / 1e9:.1f} GB/s"
    )
    for machine in MACHINES:
        low, high = at_best(amount, unit, machine), carried_over(amount, here, bandwidth, machine)
        hours = [config.iterations * value / 3600 for value in (low, high)]
        print(f"  {machine.name}: {low:.2g} to {high:.2g} s an iteration, {hours[0]:.2g} to {hours[1]:.2g} hours")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--games", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--blocks", type=int, default=9)
    parser.add_argument("--predict", action="store_true")
    parser.add_argument("--seconds", type=float, default=100.0, help="of a chess iteration of the preset tuned, here")
    arguments = parser.parse_args()
    if arguments.predict:
        return predict(arguments.seconds)
    for name in arguments.games:
        record(f"cost model, {name}", check(name, arguments.blocks))


if __name__ == "__main__":
    main()
