"""Does a step of GEMS get slower, or its state larger? Over 1,000 iterations, and with the number of anchors.

    python -m benchmarks.growth [--iterations 1000] [--anchors 8 32 256 2048] [--blocks 15]

Kuhn poker, the `paper` preset. First a run with room for 32 anchors, whose states at iterations 5, 50, 200 and 1,000
are then stepped in turns. Then populations with an anchor in every slot, and beside each PSRO with as many stored
policies: it learns its response from as many episodes (PPO), and plays 100 for every new entry of the payoff table.
Bytes are those of the state, and what is live on the device between two steps. A figure goes to runs/bench/growth.png.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.timing import HISTORY, Figure, interleaved, median, ratio, record
from gems_jax import gems_step, init_gems, make_game, make_solver, preset
from gems_jax.baselines.psro import PsroConfig
from gems_jax.compiling import program
from gems_jax.explicit.store import new_store
from gems_jax.run.machine import memory_bytes
from gems_jax.run.phase_times import all_active
from gems_jax.types import nbytes

MARKS = (5, 50, 200, 1000)
GAME = "kuhn_poker"


def live_bytes() -> int:
    """Of all arrays on the device."""
    gc.collect()
    return sum(array.nbytes for array in jax.live_arrays())


def over_iterations(iterations: int, blocks: int) -> list[Figure]:
    game, config = make_game(GAME), preset(GAME, "paper").replace(capacity=32)
    marks = [mark for mark in MARKS if mark <= iterations]
    state = init_gems(jax.random.key(0), game, config)
    step: Any = program(partial(gems_step, game=game, config=config)).lower(state, jax.random.key(0)).compile()
    kept, figures, live, resident = {}, [], {}, {}
    for done in range(1, iterations + 1):
        state, _ = step(state, jax.random.fold_in(jax.random.key(1), done))
        if done in marks:
            live[done] = live_bytes() - nbytes(tuple(kept.values()))
            resident[done] = memory_bytes() / 1e6
            kept[done] = jax.block_until_ready(jax.tree.map(jnp.copy, state))
    programs = {str(mark): partial(step, kept[mark], jax.random.key(2)) for mark in marks}
    seconds = interleaved(programs, blocks)
    for mark in marks:
        figures.append(median(f"iteration {mark}: a step", 1e3 * seconds[str(mark)], "ms"))
        figures.append(Figure(f"iteration {mark}: live on the device", live[mark] / 1e3, "kB"))
        figures.append(Figure(f"iteration {mark}: resident", resident[mark], "MB"))
    first, last = str(marks[0]), str(marks[-1])
    return [*figures, ratio(f"a step at iteration {last} / at {first}", seconds[last], seconds[first])]


def gems_of(anchors: int) -> tuple[Callable[[], Any], int]:
    """A step with so many active anchors, compiled, and the bytes of its state."""
    game, config = make_game(GAME), preset(GAME, "paper").replace(capacity=anchors)
    state = all_active(init_gems(jax.random.key(0), game, config), jax.random.key(1))
    step: Any = program(partial(gems_step, game=game, config=config)).lower(state, jax.random.key(0)).compile()
    return partial(step, state, jax.random.key(2)), nbytes(state)


def psro_of(policies: int) -> tuple[Callable[[], Any], int]:
    """An iteration of PSRO that adds the last of so many policies, and the bytes of its state."""
    game, config = make_game(GAME), preset(GAME, "paper")
    lanes = config.abr_anchors * config.abr_opponents * config.abr_episodes
    learning = PsroConfig(
        oracle="ppo", payoffs="episodes", entry_episodes=100, capacity=policies,
        rounds=config.abr_steps, opponents=lanes,
    )  # fmt: skip
    solver = make_solver("psro", game, learning)
    start = solver.init(jax.random.key(0))
    several = lambda leaf: jax.random.normal(jax.random.key(3), (leaf.shape[0], policies - 1, *leaf.shape[2:]))  # noqa: E731
    store = new_store(jax.tree.map(several, start.store.params), policies)
    payoffs = jax.random.uniform(jax.random.key(4), (policies, policies), minval=-1.0)
    sigma = store.active / jnp.sum(store.active, axis=1, keepdims=True)
    state = dataclasses.replace(
        start,
        store=store,
        table=dataclasses.replace(start.table, values=jnp.stack([payoffs, -payoffs])),
        sigma=sigma,
        sigma_average=sigma,
        step=jnp.int32(policies - 2),
    )
    return partial(solver.step, state, jax.random.key(5)), nbytes(state)


def over_anchors(sizes: list[int], blocks: int) -> list[Figure]:
    figures: list[Figure] = []
    medians: dict[str, list[float]] = {"gems": [], "psro": []}
    states: dict[str, list[float]] = {"gems": [], "psro": []}
    for size in sizes:
        made = {"gems": gems_of(size), "psro": psro_of(size)}
        for run, _ in made.values():
            jax.block_until_ready(run())
        turns = blocks if size <= 256 else max(3, blocks // 5)
        seconds = interleaved({name: run for name, (run, _) in made.items()}, turns)
        for name, (_, size_bytes) in made.items():
            figures.append(median(f"{size} policies: an iteration of {name}", 1e3 * seconds[name], "ms"))
            figures.append(Figure(f"{size} policies: state of {name}", size_bytes / 1e3, "kB"))
            medians[name].append(float(np.median(seconds[name])))
            states[name].append(size_bytes / 1e3)
        figures.append(ratio(f"{size} policies: psro / gems", seconds["psro"], seconds["gems"]))
    growth = np.diff(np.log(medians["gems"])) / np.diff(np.log(sizes))
    figures += [
        Figure(f"gems, {a} to {b} anchors: time grows as their power", float(power), "")
        for a, b, power in zip(sizes, sizes[1:], growth, strict=False)
    ]
    draw(sizes, medians, states)
    return figures


def draw(sizes: list[int], seconds: dict[str, list[float]], kilobytes: dict[str, list[float]]) -> Path:
    """Time and state of an iteration by the number of policies, beside the history."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    for axes, of, label in zip(panels, (seconds, kilobytes), ("seconds per iteration", "state in kB"), strict=True):
        for (name, values), marker, dash in zip(of.items(), "os", ("-", "--"), strict=True):
            axes.loglog(sizes, values, dash, marker=marker, label=name.upper())
        axes.set(xlabel="policies per population", ylabel=label)
        axes.set_xticks(sizes, [str(size) for size in sizes])
        axes.minorticks_off()
        axes.grid(alpha=0.3)
    panels[0].legend()
    figure.suptitle("Kuhn poker, one iteration with a policy in every slot")
    HISTORY.parent.mkdir(parents=True, exist_ok=True)
    path = HISTORY.parent / "growth.png"
    figure.savefig(path, dpi=150)
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--anchors", type=int, nargs="+", default=[8, 32, 256, 2048])
    parser.add_argument("--blocks", type=int, default=15)
    options = parser.parse_args()
    record("growth over iterations", over_iterations(options.iterations, options.blocks))
    record("growth with anchors", over_anchors(options.anchors, options.blocks))


if __name__ == "__main__":
    main()
