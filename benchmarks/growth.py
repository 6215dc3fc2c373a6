"""Does a step of GEMS get slower, or its state larger? Over 1,000 iterations, and with the number of anchors.

    python -m benchmarks.growth [--iterations 1000] [--anchors 8 32 256 2048] [--blocks 15] [--quick]

Kuhn poker, the `paper` preset. First a run with room for 32 anchors, whose states at iterations 5, 50, 200 and 1,000
are then stepped in turns. Then populations with an anchor in every slot, and beside each PSRO with as many stored
policies: it learns its response from as many episodes (PPO), and plays 100 for every new entry of the payoff table,
whose other entries are exact values with the noise that 100 episodes leave. Its meta-solver starts from the solution of
the game without the newcomer and stops at a gap of 0.001 of the largest payoff; its time is given separately.
Bytes are those of the state, and what is live on the device between two steps. A figure goes to runs/bench/growth.png.
`--quick` is a short version that records nothing.
"""

from __future__ import annotations

import argparse
import dataclasses
import gc
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.timing import HISTORY, Figure, interleaved, median, ratio, record
from gems_jax import init_gems, make_game, make_solver, preset
from gems_jax.accelerator.cache import enable_compilation_cache
from gems_jax.accelerator.compile import program
from gems_jax.extensive.infosets import tables_of
from gems_jax.extensive.values import GameTree, build_tree
from gems_jax.meta import regret_matching_plus
from gems_jax.profiling.phase_times import fill_slots
from gems_jax.psro.base import Store
from gems_jax.psro.payoffs import exact_payoffs, meta_game, solve_payoffs
from gems_jax.psro.psro import PsroConfig
from gems_jax.runner.machine import memory_bytes
from gems_jax.types import Array, nbytes

MARKS = (5, 50, 200, 1000)
GAME = "kuhn_poker"
EPISODES = 100  # behind an entry of PSRO's table
TOLERANCE = 1e-3  # of PSRO's meta-solver: far below the error of an entry
EQUAL = "number of policies, episodes that a response is learned from"


def live_bytes() -> int:
    """Sums the bytes of all arrays on the device."""
    gc.collect()
    return sum(array.nbytes for array in jax.live_arrays())


def over_iterations(iterations: int, blocks: int) -> list[Figure]:
    game, config = make_game(GAME), preset(GAME, "paper").replace(capacity=32)
    marks = [mark for mark in MARKS if mark <= iterations]
    state = init_gems(jax.random.key(0), game, config)
    step: Any = program(make_solver("gems", game, config).step).lower(state, jax.random.key(0)).compile()
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
    state = fill_slots(init_gems(jax.random.key(0), game, config), jax.random.key(1))
    step: Any = program(make_solver("gems", game, config).step).lower(state, jax.random.key(0)).compile()
    return partial(step, state, jax.random.key(2)), nbytes(state)


def sampled_table(tree: GameTree, tables: Array, key: Array) -> Array:
    """Payoffs [2, K, K] as `EPISODES` episodes per entry would leave them: exact values and normal noise.

    tables: [2, K, I, A], the policies of both players. The noise has the variance of a mean of so many episodes.
    """
    mean = exact_payoffs(tree, tuple(tables))[0]
    square = exact_payoffs(tree.replace(payoff=tree.payoff**2), tuple(tables))[0]  # type: ignore[attr-defined]
    noise = jax.random.normal(key, mean.shape) * jnp.sqrt(jnp.maximum(square - mean**2, 0.0) / EPISODES)
    return jnp.stack([mean + noise, -mean - noise])


class Explicit(NamedTuple):
    """An iteration of PSRO, and the part of it that solves the meta-game."""

    step: Callable[[], Any]
    solve: Callable[[], Any]
    solver_steps: int  # of regret matching+, until its gap is small enough
    state_bytes: int


def psro_of(policies: int) -> Explicit:
    """Returns an iteration of PSRO that adds the last of so many policies."""
    game, config = make_game(GAME), preset(GAME, "paper")
    lanes = config.abr_anchors * config.abr_opponents * config.abr_episodes
    learning = PsroConfig(
        oracle="ppo", payoffs="episodes", entry_episodes=EPISODES, capacity=policies, meta_tolerance=TOLERANCE,
        rounds=config.abr_steps, opponents=lanes,
    )  # fmt: skip
    solver = make_solver("psro", game, learning)
    start = solver.init(jax.random.key(0))
    several = lambda leaf: jax.random.normal(jax.random.key(3), (leaf.shape[0], policies - 1, *leaf.shape[2:]))  # noqa: E731
    store = Store.create(jax.tree.map(several, start.store.params), policies)
    profile = solver.profile(dataclasses.replace(start, store=store))
    tables = tables_of(game, profile.population)
    table = dataclasses.replace(start.table, values=sampled_table(build_tree(game), tables, jax.random.key(4)))
    sigma, _ = solve_payoffs(game, "nash", table, store.active, TOLERANCE)
    state = dataclasses.replace(
        start, store=store, table=table, sigma=sigma, sigma_average=sigma, step=jnp.int32(policies - 2)
    )
    step = partial(solver.step, state, jax.random.key(5))
    after, _ = step()
    solve = partial(solve_payoffs, game, "nash", after.table, after.store.active, TOLERANCE, sigma)
    payoffs, active = meta_game(game, after.table, after.store.active)
    solved = jax.jit(regret_matching_plus)(payoffs, active, tolerance=TOLERANCE, start=sigma)
    return Explicit(step, solve, int(solved.steps), nbytes(state))


def over_anchors(sizes: list[int], blocks: int) -> list[Figure]:
    figures: list[Figure] = []
    medians: dict[str, list[float]] = {"gems": [], "psro": []}
    states: dict[str, list[float]] = {"gems": [], "psro": []}
    for size in sizes:
        (gems, gems_bytes), psro = gems_of(size), psro_of(size)
        programs = {"gems": gems, "psro": psro.step, "psro's meta-solver": psro.solve}
        for run in programs.values():
            jax.block_until_ready(run())
        seconds = interleaved(programs, blocks if size <= 256 else max(3, blocks // 3))
        for name, size_bytes in (("gems", gems_bytes), ("psro", psro.state_bytes)):
            figures.append(median(f"{size} policies: an iteration of {name}", 1e3 * seconds[name], "ms"))
            figures.append(Figure(f"{size} policies: state of {name}", size_bytes / 1e3, "kB"))
            medians[name].append(float(np.median(seconds[name])))
            states[name].append(size_bytes / 1e3)
        solving = seconds["psro's meta-solver"]
        rest = np.maximum(seconds["psro"] - solving, 1e-9)
        figures += [
            median(f"{size} policies: psro's meta-solver", 1e3 * solving, "ms"),
            Figure(f"{size} policies: steps of the meta-solver", psro.solver_steps, ""),
            median(f"{size} policies: fraction in the meta-solver", np.minimum(solving / seconds["psro"], 1.0), ""),
            ratio(f"{size} policies: psro / gems", seconds["psro"], seconds["gems"], equal=EQUAL),
            ratio(f"{size} policies: psro without its meta-solver / gems", rest, seconds["gems"], equal=EQUAL),
        ]
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
    parser.add_argument("--quick", action="store_true", help="50 iterations, 8 and 32 anchors; nothing is recorded")
    options = parser.parse_args()
    iterations, sizes, blocks, history = options.iterations, options.anchors, options.blocks, HISTORY
    if options.quick:
        iterations, sizes, blocks, history = 50, [8, 32], 3, None
    enable_compilation_cache()  # nothing that is timed compiles
    record("growth over iterations", over_iterations(iterations, blocks), history)
    record("growth with anchors", over_anchors(sizes, blocks), history)


if __name__ == "__main__":
    main()
