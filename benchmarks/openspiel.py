"""Seconds to a given exploitability, side by side with OpenSpiel in one run: Kuhn by Double Oracle, Leduc by CFR+.

    pip install "gems_jax[compare]"; python -m benchmarks.openspiel [--blocks 7]

Kuhn poker to 0.01: our Double Oracle with exact responses and payoffs, OpenSpiel's PSRO with exact responses and 100
simulated games per payoff, its defaults. Leduc poker to 0.05: CFR+ of both, OpenSpiel's in C++ and in Python. The
number of iterations that is needed is found first; then those iterations alone are timed, without any evaluation.
Ours are compiled before, and how long that takes is printed.
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

from benchmarks.timing import Figure, interleaved, median, ratio, record
from gems_jax import exploitability, make_game, make_solver
from gems_jax.types import Game, Solver

KUHN, LEDUC = 0.01, 0.05
_MOST = 300  # iterations after which a method is given up


def needed(advance: Callable[[], None], distance: Callable[[], float], goal: float) -> int:
    """Iterations until the distance is at most `goal`."""
    for count in range(1, _MOST + 1):
        advance()
        if distance() <= goal:
            return count
    raise RuntimeError(f"{goal} is not reached within {_MOST} iterations: {distance()}")


class Ours:
    """A method of this package, stepped one iteration at a time."""

    def __init__(self, game: Game, method: str, **settings: Any):
        self.game, self.solver = game, make_solver(method, game, **settings)
        self.step = jax.jit(self.solver.step) if self.solver.jittable else self.solver.step
        self.state = self.solver.init(jax.random.key(0))
        self.count = 0

    def advance(self) -> None:
        self.state, _ = self.step(self.state, jax.random.fold_in(jax.random.key(1), self.count))
        self.count += 1

    def distance(self) -> float:
        return float(exploitability(self.game, self.solver.profile(self.state)))


def looped(solver: Solver, count: int) -> Callable[[], Any]:
    """`count` iterations from the start, the loop in Python: of methods that leave the device between iterations."""

    def program() -> Any:
        state = solver.init(jax.random.key(0))
        for number in range(count):
            state, _ = solver.step(state, jax.random.fold_in(jax.random.key(1), number))
        return state

    return program


def compiled(solver: Solver, count: int) -> tuple[Callable[[], Any], float]:
    """The same as one program, and the seconds it took to compile."""
    keys = jax.vmap(lambda n: jax.random.fold_in(jax.random.key(1), n))(jnp.arange(count))
    begin = time.perf_counter()
    start = jax.jit(solver.init)(jax.random.key(0))
    scan = jax.jit(lambda state: jax.lax.scan(lambda s, k: (solver.step(s, k)[0], None), state, keys)[0])
    program = scan.lower(start).compile()
    return lambda: program(start), time.perf_counter() - begin


def their_psro(game: Any) -> Any:
    """OpenSpiel's PSRO with exact best responses, as its own example sets it up."""
    from open_spiel.python import policy
    from open_spiel.python.algorithms.psro_v2 import best_response_oracle, psro_v2

    uniform = policy.TabularPolicy(game)
    with contextlib.redirect_stdout(io.StringIO()):  # it prints its settings
        return psro_v2.PSROSolver(
            game,
            best_response_oracle.BestResponseOracle(game=game, policy=uniform),
            initial_policies=[uniform.__copy__() for _ in range(2)],
            training_strategy_selector="probabilistic",
            rectifier="",
            sims_per_entry=100,
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


def kuhn(blocks: int) -> list[Figure]:
    import numpy as np
    import pyspiel

    game = make_game("kuhn_poker")
    ours = Ours(game, "double_oracle")
    count = needed(ours.advance, ours.distance, KUHN)
    theirs = pyspiel.load_game("kuhn_poker")
    np.random.seed(0)  # noqa: NPY002, OpenSpiel draws its simulations from the global generator
    psro = their_psro(theirs)
    rounds = needed(psro.iteration, lambda: their_distance(theirs, psro), KUHN)

    def again() -> None:
        solver = their_psro(theirs)
        for _ in range(rounds):
            solver.iteration()

    seconds = interleaved({"ours": looped(ours.solver, count), "theirs": again}, blocks)
    return [
        median(f"kuhn to {KUHN}: Double Oracle, {count} iterations", seconds["ours"], "s"),
        median(f"kuhn to {KUHN}: OpenSpiel PSRO, {rounds} iterations", seconds["theirs"], "s"),
        ratio(f"kuhn to {KUHN}: OpenSpiel PSRO / ours", seconds["theirs"], seconds["ours"]),
    ]


def leduc(blocks: int) -> list[Figure]:
    import pyspiel
    from open_spiel.python.algorithms import cfr

    game = make_game("leduc_holdem")
    ours = Ours(game, "cfr_plus")
    count = needed(ours.advance, ours.distance, LEDUC)
    program, compiling = compiled(ours.solver, count)
    theirs = pyspiel.load_game("leduc_poker")
    fast = pyspiel.CFRPlusSolver(theirs)
    rounds = needed(
        fast.evaluate_and_update_policy, lambda: pyspiel.exploitability(theirs, fast.average_policy()), LEDUC
    )

    def in_cpp() -> None:
        solver = pyspiel.CFRPlusSolver(theirs)
        for _ in range(rounds):
            solver.evaluate_and_update_policy()

    def one_in_python() -> None:
        slow.evaluate_and_update_policy()

    slow = cfr.CFRPlusSolver(theirs)
    seconds = interleaved({"ours": program, "C++": in_cpp, "Python": one_in_python}, blocks)
    python = rounds * seconds["Python"]
    return [
        median(f"leduc to {LEDUC}: CFR+, {count} iterations", seconds["ours"], "s"),
        Figure("leduc: compiling it, apart", compiling, "s"),
        median(f"leduc to {LEDUC}: OpenSpiel CFR+ in C++, {rounds} iterations", seconds["C++"], "s"),
        median(f"leduc to {LEDUC}: OpenSpiel CFR+ in Python, as many", python, "s"),
        ratio(f"leduc to {LEDUC}: OpenSpiel C++ / ours", seconds["C++"], seconds["ours"]),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=7)
    blocks = parser.parse_args().blocks
    try:
        import open_spiel.python.algorithms.psro_v2.psro_v2  # noqa: F401
    except ImportError as missing:
        raise SystemExit(f'{missing}: OpenSpiel\'s PSRO needs more; pip install "gems_jax[compare]"') from None
    record("openspiel", kuhn(blocks) + leduc(blocks))


if __name__ == "__main__":
    main()
