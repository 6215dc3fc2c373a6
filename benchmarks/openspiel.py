"""Seconds beside OpenSpiel in one run, with the same work on both sides: Leduc by CFR+, Kuhn by PSRO.

    pip install "gems_jax[compare]"; python -m benchmarks.openspiel [--blocks 9] [--quick]

Leduc poker by CFR+ (OpenSpiel's in C++), twice: without suits (288 information sets on both sides) and with suits (936
on both sides), for the iterations that bring the exploitability to 0.05. The benchmark fails unless the number of
information sets and the exploitability at the end agree. Kuhn poker by PSRO with exact best responses and a linear
program as meta-solver, twice: with exact payoffs to an exploitability of 0.01, and with 100 sampled episodes per entry
for 20 iterations. Solvers are made and compiled before the clock starts, and nothing is evaluated while it runs.
`--quick` is a short version that checks everything and records nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.timing import HISTORY, Figure, interleaved, median, ratio, record
from gems_jax import exploitability, make_game, make_solver
from gems_jax.extensive.values import build_tree
from gems_jax.psro.psro import PsroConfig
from gems_jax.types import Game, PyTree, Solver

KUHN, LEDUC = 0.01, 0.05
SIMULATIONS = 100  # episodes per entry of a sampled table
_AGREE = 1e-6  # exploitability of both sides: ours is evaluated in float32
_MOST = 300  # iterations after which a method is given up


def needed(advance: Callable[[], None], distance: Callable[[], float], goal: float) -> int:
    """Returns the iterations until the distance is at most `goal`."""
    for count in range(1, _MOST + 1):
        advance()
        if distance() <= goal:
            return count
    raise RuntimeError(f"{goal} is not reached within {_MOST} iterations: {distance()}")


class Ours:
    """A method of this package, stepped one iteration at a time."""

    def __init__(self, game: Game, solver: Solver):
        self.game, self.solver = game, solver
        self.step = jax.jit(solver.step) if solver.jittable else solver.step
        self.state = solver.init(jax.random.key(0))
        self.count = 0

    def advance(self) -> None:
        self.state, _ = self.step(self.state, jax.random.fold_in(jax.random.key(1), self.count))
        self.count += 1

    def distance(self) -> float:
        return float(exploitability(self.game, self.solver.profile(self.state)))


def iterate(solver: Solver, seed: int, count: int) -> PyTree:
    """Runs `count` iterations from the start, the loop in Python."""
    state = solver.init(jax.random.key(seed))
    for number in range(count):
        state, _ = solver.step(state, jax.random.fold_in(jax.random.key(seed + 1), number))
    return state


def compiled(solver: Solver, count: int) -> tuple[Callable[[], Any], float]:
    """Returns `count` iterations as one program, and the seconds it took to compile."""
    keys = jax.vmap(lambda n: jax.random.fold_in(jax.random.key(1), n))(jnp.arange(count))
    begin = time.perf_counter()
    start = jax.jit(solver.init)(jax.random.key(0))
    scan = jax.jit(lambda state: jax.lax.scan(lambda s, k: (solver.step(s, k)[0], None), state, keys)[0])
    program = scan.lower(start).compile()
    return lambda: program(start), time.perf_counter() - begin


# --- Leduc poker by CFR+


def leduc(suits: bool, blocks: int) -> list[Figure]:
    """CFR+ of both on the same game, for the same iterations. Raises RuntimeError if the games or results differ."""
    import pyspiel

    game = make_game("leduc_holdem", suits=suits)
    theirs = pyspiel.load_game("leduc_poker" if suits else "leduc_poker(suit_isomorphism=True)")
    ours = Ours(game, make_solver("cfr_plus", game))
    count = needed(ours.advance, ours.distance, LEDUC)

    def make() -> Any:
        return pyspiel.CFRPlusSolver(theirs)

    def advance(solver: Any) -> None:
        for _ in range(count):
            solver.evaluate_and_update_policy()

    solver = make()
    advance(solver)
    reached = pyspiel.exploitability(theirs, solver.average_policy())
    infosets = build_tree(game).num_infosets
    check_equal("information sets", infosets, len(solver.tabular_average_policy().policy_table()), 0)
    check_equal(f"exploitability after {count} iterations", ours.distance(), reached, _AGREE)
    program, compiling = compiled(ours.solver, count)
    seconds = interleaved({"ours": program, "theirs": advance}, blocks, {"theirs": make})
    label = f"leduc with{'' if suits else 'out'} suits, CFR+"
    equal = (
        f"{infosets} information sets, {count} iterations, exploitability {reached:.6f} on both sides (difference "
        f"{abs(ours.distance() - reached):.0e}); making the solvers and compiling excluded"
    )
    return [
        median(f"{label}: ours", 1e3 * seconds["ours"], "ms"),
        median(f"{label}: OpenSpiel in C++", 1e3 * seconds["theirs"], "ms"),
        ratio(f"{label}: OpenSpiel in C++ / ours", seconds["theirs"], seconds["ours"], equal=equal),
        Figure(f"{label}: compiling ours, not counted", compiling, "s"),
    ]


def check_equal(what: str, ours: float, theirs: float, tolerance: float) -> None:
    """Raises RuntimeError where both sides differ by more than `tolerance`."""
    if abs(ours - theirs) > tolerance:
        raise RuntimeError(f"not like for like: {what} is {ours} here and {theirs} in OpenSpiel")


# --- Kuhn poker by PSRO


def their_psro(game: Any, exact: bool) -> Any:
    """OpenSpiel's PSRO with exact best responses and its linear program; the table exact, or by simulation."""
    from open_spiel.python import policy
    from open_spiel.python.algorithms import expected_game_score
    from open_spiel.python.algorithms.psro_v2 import best_response_oracle, psro_v2

    class ExactPayoffs(psro_v2.PSROSolver):
        """Every entry of the table is the expected return."""

        def sample_episodes(self, policies: Any, num_episodes: int) -> np.ndarray:
            del num_episodes
            return np.asarray(expected_game_score.policy_value(self._game.new_initial_state(), policies))

    uniform = policy.TabularPolicy(game)
    with contextlib.redirect_stdout(io.StringIO()):  # it prints its settings
        return (ExactPayoffs if exact else psro_v2.PSROSolver)(
            game,
            best_response_oracle.BestResponseOracle(game=game, policy=uniform),
            initial_policies=[uniform.__copy__() for _ in range(2)],
            training_strategy_selector="probabilistic",
            rectifier="",
            sims_per_entry=SIMULATIONS,
            number_policies_selected=1,
            meta_strategy_method="nash",
            sample_from_marginals=True,
            symmetric_game=False,
        )


def their_distance(game: Any, solver: Any) -> float:
    from open_spiel.python.algorithms import exploitability as spiel
    from open_spiel.python.algorithms import policy_aggregator

    whole = policy_aggregator.PolicyAggregator(game).aggregate(
        range(2), solver.get_policies(), solver.get_meta_strategies()
    )
    return float(spiel.nash_conv(game, whole)) / 2


def kuhn_exact(blocks: int) -> list[Figure]:
    """PSRO of both with exact payoffs, until an exploitability of 0.01."""
    import pyspiel

    game, theirs = make_game("kuhn_poker"), pyspiel.load_game("kuhn_poker")
    ours = Ours(game, make_solver("psro", game, PsroConfig(meta_solver="nash_lp")))
    count = needed(ours.advance, ours.distance, KUHN)
    psro = their_psro(theirs, exact=True)
    rounds = needed(psro.iteration, lambda: their_distance(theirs, psro), KUHN)

    def advance(solver: Any) -> None:
        for _ in range(rounds):
            solver.iteration()

    seconds = interleaved(
        {"ours": lambda: iterate(ours.solver, 0, count), "theirs": advance},
        blocks,
        {"theirs": lambda: their_psro(theirs, exact=True)},
    )
    label = f"kuhn to {KUHN}, PSRO, exact payoffs"
    equal = (
        f"exact payoffs, exact best responses, linear program, exploitability {KUHN} reached; best responses that tie "
        f"are chosen differently, so ours takes {count} iterations and OpenSpiel's {rounds}"
    )
    each = [seconds["theirs"] / rounds, seconds["ours"] / count]
    return [
        median(f"{label}: ours", 1e3 * seconds["ours"], "ms"),
        median(f"{label}: OpenSpiel", 1e3 * seconds["theirs"], "ms"),
        ratio(f"{label}: OpenSpiel / ours", seconds["theirs"], seconds["ours"], equal=equal),
        ratio(f"{label}: OpenSpiel / ours, per iteration", *each, equal="as above, and one iteration on both sides"),
    ]


def kuhn_sampled(blocks: int, iterations: int) -> list[Figure]:
    """PSRO of both with 100 episodes per entry, for the same iterations; another seed in every block."""
    import pyspiel

    game, theirs = make_game("kuhn_poker"), pyspiel.load_game("kuhn_poker")
    config = PsroConfig(meta_solver="nash_lp", payoffs="episodes", entry_episodes=SIMULATIONS)
    solver = make_solver("psro", game, config)
    reached: dict[str, list[float]] = {"ours": [], "theirs": []}
    kept: dict[str, Any] = {}

    def run_ours() -> Any:
        kept["ours"] = iterate(solver, len(reached["ours"]), iterations)
        return kept["ours"]

    def run_theirs(psro: Any) -> None:
        for _ in range(iterations):
            psro.iteration()
        kept["theirs"] = psro

    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    run_ours()  # compiles
    for seed in range(blocks):
        np.random.seed(seed)  # noqa: NPY002, OpenSpiel draws its simulations from the global generator
        programs = {"ours": run_ours, "theirs": run_theirs}
        taken = interleaved(programs, 1, {"theirs": lambda: their_psro(theirs, exact=False)})
        for name in seconds:
            seconds[name].append(float(taken[name][0]))
        reached["ours"].append(float(exploitability(game, solver.profile(kept["ours"]))))
        reached["theirs"].append(their_distance(theirs, kept["theirs"]))
    label = f"kuhn, {iterations} iterations of PSRO, sampled payoffs"
    slow, fast = np.asarray(seconds["theirs"]), np.asarray(seconds["ours"])
    ends = {name: np.asarray(values) for name, values in reached.items()}
    equal = (
        f"{SIMULATIONS} episodes per entry, exact best responses, linear program, {iterations} iterations; mean "
        f"exploitability at the end {ends['ours'].mean():.3f} (ours) and {ends['theirs'].mean():.3f}"
    )
    return [
        median(f"{label}: ours", 1e3 * fast, "ms"),
        median(f"{label}: OpenSpiel", 1e3 * slow, "ms"),
        ratio(f"{label}: OpenSpiel / ours", slow, fast, equal=equal),
        median(f"{label}: exploitability of ours", ends["ours"], ""),
        median(f"{label}: exploitability of OpenSpiel", ends["theirs"], ""),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=9)
    parser.add_argument("--quick", action="store_true", help="two blocks, five sampled iterations; nothing is recorded")
    options = parser.parse_args()
    try:
        import open_spiel.python.algorithms.psro_v2.psro_v2  # noqa: F401
    except ImportError as missing:
        raise SystemExit(f'{missing}: OpenSpiel\'s PSRO needs more; pip install "gems_jax[compare]"') from None
    blocks, iterations, history = (2, 5, None) if options.quick else (options.blocks, 20, HISTORY)
    record("openspiel, leduc", leduc(False, blocks) + leduc(True, blocks), history)
    record("openspiel, kuhn", kuhn_exact(blocks) + kuhn_sampled(blocks, iterations), history)


if __name__ == "__main__":
    main()
