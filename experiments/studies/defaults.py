"""Measures GEMS without a single setting: the defaults on eight games and on ten random matrix games.

A game gets the settings that `gems train GAME` gives it: its best known preset, otherwise `auto`, which is derived from
its sizes. The measure is what the run logs after its last iteration: NashConv of the mixture that it plays, and for
random games that are not zero-sum the CCE gap of the joint play of all iterations. Seconds exclude compilation.

Settings were chosen on seeds 1000 and up, and on other random games.
"""

from __future__ import annotations

import itertools
import time
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments.harness.study import Findings, Study
from gems_jax import make_game, make_solver, matrix_game
from gems_jax.evaluate.exact_gains import exact_gains
from gems_jax.evaluate.joint_play import MeanPlay, add_play, regrets, sum_positive_regrets
from gems_jax.evaluate.sampled import random_profile
from gems_jax.extensive.tables import policy_tables
from gems_jax.extensive.tree import GameTree, build_tree
from gems_jax.extensive.values import player_gains_of_mixture
from gems_jax.games.matrix import MatrixGame
from gems_jax.gems.auto_preset import auto_preset
from gems_jax.runner.driver import RunResult, run
from gems_jax.runner.measuring import make_monitor
from gems_jax.runner.rebuild import starting_settings
from gems_jax.types import Array, Game, PyTree
from gems_jax.viz.plotting import choose_styles, draw_grid, draw_reference, label_iterations, make_panels
from gems_jax.viz.tables import TextTable

SEEDS, QUICK_SEEDS = tuple(range(5)), (0,)
MATRIX = ("rock_paper_scissors", "biased_rps", "matching_pennies", "prisoners_dilemma")
BLOTTO = "blotto"
SEQUENTIAL = ("tic_tac_toe", "kuhn_poker", "leduc_holdem")
RANDOM = (((8, 8), True, 3), ((4, 6), True, 2), ((8, 8), False, 2), ((6, 6, 6), False, 3))  # actions, zero-sum, games
OF_UNIFORM, OF_RANGE, OF_RANGE_RANDOM = 0.05, 0.02, 0.05  # bars, as fractions
OF_UNIFORM_LEDUC = 0.10
SECONDS, SECONDS_LEDUC = 60.0, 300.0


class Measured(NamedTuple):
    """Result of one game over all seeds."""

    name: str
    preset: str
    gap: str  # the measure
    values: np.ndarray  # [seeds], after the last iteration
    curve: np.ndarray  # [iterations], mean over seeds; NaN where it was not measured
    uniform: float  # NashConv of uniform play
    width: float  # of the interval of returns
    seconds: float
    cpu_seconds: float
    env_steps: float  # per seed


def blotto(fields: int = 3, soldiers: int = 5) -> MatrixGame:
    """Makes Colonel Blotto: both sides divide their soldiers, and whoever wins more fields wins 1."""
    plans = [plan for plan in itertools.product(range(soldiers + 1), repeat=fields) if sum(plan) == soldiers]
    won = [[np.sign(np.subtract(mine, theirs)).sum() for theirs in plans] for mine in plans]
    return matrix_game(np.sign(won), name=BLOTTO)


def random_games(counts: tuple[int, ...], zero_sum: bool, number: int) -> list[MatrixGame]:
    """Makes games of one shape, payoffs independent and uniform on [-1, 1]."""
    draw = np.random.default_rng((100, *counts, zero_sum))
    kind = "x".join(map(str, counts)) + (" zero-sum" if zero_sum else " general-sum")
    games = []
    for index in range(number):
        payoffs = draw.uniform(-1.0, 1.0, counts if zero_sum else (len(counts), *counts))
        games.append(matrix_game(payoffs, name=f"random {kind} {index + 1}", return_bounds=(-1.0, 1.0)))
    return games


def uniform_gap(game: Game) -> float:
    """Computes NashConv of uniform play."""
    return float(exact_gains(game, random_profile(game)).sum())


class Trained(NamedTuple):
    """A run with the settings that the command line starts from."""

    result: RunResult
    preset: str
    cpu_seconds: float  # of all seeds, excluding compilation


def train(game: Game, seeds: tuple[int, ...], quick: bool) -> Trained:
    """Trains GEMS with the settings that the command line starts from.

    Processor time is divided between compilation and the rest in proportion to their wall time.
    """
    config, preset = starting_settings("gems", game.name, game, "")
    if quick:
        config = config.replace(iterations=2)
    solver = make_solver("gems", game, config)
    start = time.process_time()
    result = run(solver, iterations=config.iterations, seeds=seeds, monitor=make_monitor(game, solver))
    spent = time.process_time() - start
    fraction = result.seconds / (result.seconds + result.compile_seconds)
    return Trained(result, preset, spent * fraction)


def measure_game(game: Game, seeds: tuple[int, ...], quick: bool) -> Measured:
    """Measures NashConv of a game that has an exact evaluation."""
    result, preset, cpu_seconds = train(game, seeds, quick)
    measured = result.rows
    rows = np.asarray(measured["nash_conv"] if "nash_conv" in measured else 2.0 * measured["exploitability"])
    return Measured(
        game.name, preset, "nash_conv", rows[:, -1], rows.mean(axis=0), uniform_gap(game), _width(game),
        result.seconds, cpu_seconds, _mean_steps(result),
    )  # fmt: skip


def measure_shape(games: list[MatrixGame], seeds: tuple[int, ...], quick: bool) -> list[Measured]:
    """Measures games of one shape in one compiled program: NashConv if they are zero-sum, otherwise the CCE gap."""
    config, zero_sum = auto_preset(games[0]), games[0].zero_sum
    iterations = 2 if quick else config.iterations
    trees = jax.tree.map(lambda *leaves: jnp.stack(leaves), *map(build_tree, games))

    def solve(tree: GameTree, payoffs: Array, seed: Array) -> tuple[Array, Array]:
        game = matrix_game(payoffs, return_bounds=games[0].return_bounds, zero_sum=zero_sum)
        solver = make_solver("gems", game, config)
        key_init, key = jax.random.split(jax.random.key(seed))

        def step(carry: tuple[PyTree, MeanPlay], k: Array) -> tuple[tuple[PyTree, MeanPlay], tuple[Array, Array]]:
            state, metrics = solver.step(carry[0], k)
            profile = solver.profile(state)
            tables = policy_tables(tree, profile.population, config.capacity)
            play = add_play(tree, carry[1], tables, profile.sigma)
            gains = player_gains_of_mixture(tree, tables, profile.sigma).sum()
            gap = gains if zero_sum else sum_positive_regrets(regrets(tree, play))
            return (state, play), (gap, metrics.env_steps)

        start = (solver.init(key_init), MeanPlay.zeros(tree))
        return jax.lax.scan(step, start, jax.random.split(key, iterations))[1]

    each = jax.vmap(jax.vmap(solve, in_axes=(None, None, 0)), in_axes=(0, 0, None))
    inputs = (trees, jnp.stack([game.payoffs for game in games]), jnp.asarray(seeds))
    compiled = jax.jit(each).lower(*inputs).compile()
    start, spent = time.perf_counter(), time.process_time()
    gaps, steps = map(np.asarray, jax.block_until_ready(compiled(*inputs)))  # [games, seeds, iterations]
    seconds = ((time.perf_counter() - start) / len(games), (time.process_time() - spent) / len(games))
    gap = "nash_conv" if zero_sum else "cce_gap"
    return [
        Measured(game.name, "auto", gap, own[:, -1], own.mean(axis=0), uniform_gap(game), _width(game), *seconds,
                 float(taken.sum(axis=1).mean()))
        for game, own, taken in zip(games, gaps, steps, strict=True)
    ]  # fmt: skip


def _mean_steps(result: RunResult) -> float:
    """Environment steps of a run, mean over seeds."""
    return float(np.asarray(result.rows["env_steps"]).sum(axis=1).mean())


def _width(game: Game) -> float:
    low, high = game.return_bounds
    return high - low


def bars_of(found: Measured) -> tuple[float, float]:
    """Returns the largest accepted gap of a game, and the largest accepted seconds."""
    if found.name.startswith("random"):
        return OF_RANGE_RANDOM * found.width, SECONDS
    leduc = found.name == "leduc_holdem"
    of_uniform = (OF_UNIFORM_LEDUC if leduc else OF_UNIFORM) * found.uniform
    return (of_uniform if leduc else max(of_uniform, OF_RANGE * found.width)), SECONDS_LEDUC if leduc else SECONDS


def defaults_study(quick: bool = False) -> Findings:
    """Measures all games."""
    seeds = QUICK_SEEDS if quick else SEEDS
    names = MATRIX if quick else (*MATRIX, *SEQUENTIAL)
    games = [*map(make_game, names[: len(MATRIX)]), blotto(), *map(make_game, names[len(MATRIX) :])]
    found = [measure_game(game, seeds, quick) for game in games]
    for shape in RANDOM[-1:] if quick else RANDOM:
        found += measure_shape(random_games(*shape), seeds, quick)
    checks = [_check_gap(one) for one in found]
    slow = [one.name for one in found if one.cpu_seconds > bars_of(one)[1]]
    checks.append((f"processor time is within the bounds, except in: {', '.join(slow) or 'none'}", not slow))
    numbers = [_numbers(one) for one in found]
    return Findings(_table(found, numbers), {"defaults": _figure(found)}, numbers, checks)


def _check_gap(found: Measured) -> tuple[str, bool]:
    bar, _ = bars_of(found)
    worst = float(found.values.max())
    return f"{found.name}: the worst seed ends at {worst:.3g}, the bar is {bar:.3g}", worst < bar


def _numbers(found: Measured) -> dict[str, Any]:
    bar, seconds = bars_of(found)
    return {
        "game": found.name, "preset": found.preset, "measure": found.gap, "values": found.values.tolist(),
        "uniform": found.uniform, "range": found.width, "bar": bar, "seconds": found.seconds,
        "cpu_seconds": found.cpu_seconds, "allowed_seconds": seconds, "env_steps": found.env_steps,
    }  # fmt: skip


def _table(found: list[Measured], numbers: list[dict[str, Any]]) -> TextTable:
    header = ("", "preset", "measure", "worst seed", "mean", "bar", "uniform play", "range", "env steps", "s", "CPU s")
    rows = []
    for one in numbers:
        values = np.asarray(one["values"])
        of_game = [f"{one[name]:.3g}" if name in one else "–" for name in ("bar", "uniform", "range")]
        costs = (f"{one['env_steps']:.3g}", f"{one['seconds']:.0f}", f"{one['cpu_seconds']:.0f}")
        cells = (f"{values.max():.3g}", f"{values.mean():.3g}", *of_game, *costs)
        rows.append((one["game"], one["preset"], one["measure"].replace("_", " "), *cells))
    caption = (
        f"{len(found[0].values)} seeds after the last iteration; bars: {OF_UNIFORM:.0%} of uniform play or "
        f"{OF_RANGE:.0%} of the range of returns, the larger one, {OF_UNIFORM_LEDUC:.0%} of uniform play for Leduc, "
        f"{OF_RANGE_RANDOM:.0%} of the range for random games; env steps per seed; seconds and processor seconds of "
        "all seeds together, excluding compilation"
    )
    return TextTable(header, tuple(rows), (len(rows) - 1,), caption)


def _figure(found: list[Measured]) -> Any:
    """Draws gaps as multiples of their bars: named games in one panel with a legend each, random games by shape."""
    named = [one for one in found if not one.name.startswith("random")]
    panels = {"named games": named, "random matrix games": [one for one in found if one.name.startswith("random")]}
    figure, (axes,) = make_panels(1, len(panels), width=10.0, height=4.2, sharey=True)
    for axis, (title, games) in zip(axes, panels.items(), strict=True):
        kinds = list(dict.fromkeys(map(_kind, games)))
        for kind, style in zip(kinds, choose_styles(kinds), strict=True):
            for index, one in enumerate(game for game in games if _kind(game) == kind):
                (measured,) = np.nonzero(np.isfinite(one.curve))
                axis.plot(
                    measured + 1, np.maximum(one.curve[measured] / bars_of(one)[0], 1e-3), linewidth=1.4,
                    color=style.color, linestyle=style.line, label=None if index else kind,
                )  # fmt: skip
        draw_reference(axis, 1.0, "bar")
        axis.set_yscale("log")
        axis.set_title(title)
        axis.legend(fontsize=8, frameon=False)
        label_iterations(axis)
        draw_grid(axis)
    axes[0].set_ylabel(f"gap / bar of the game, mean over {len(found[0].values)} seeds")
    return figure


def _kind(found: Measured) -> str:
    """Names the line of a game: random games of one shape share one."""
    return found.name.removeprefix("random ").rpartition(" ")[0] if found.name.startswith("random") else found.name


EXPERIMENT = Study(
    name="defaults",
    title="GEMS with default settings",
    measure=defaults_study,
    convention="NashConv (sum over players) of the mixture that is played; CCE gap of the joint play of all iterations",
    notes=(
        "A row is `gems train GAME --seeds 5`; blotto and the random games are the matrix games of "
        "experiments/studies/defaults.py.",
    ),
)
