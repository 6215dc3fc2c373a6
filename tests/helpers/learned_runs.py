"""Runs of methods with learned responses, and how exploitable the profiles are that they report."""

import jax

from gems_jax import make_solver, nash_conv
from gems_jax.solvers import DEFAULTS


def solve_learned(method, game, seed, iterations=20, rounds=100, episodes=128, **overrides):
    """Run a method whose responses are learned by PPO with tables of logits.

    Args:
        method: a name in `DEFAULTS`.
        game: an enumerable `Game`.
        seed: of the whole run.
        iterations: outer iterations.
        rounds: rounds of learning per iteration.
        episodes: episodes per round and population.
        **overrides: other settings of the method.

    Returns:
        NashConv of both reported profiles after the last iteration: {"iterate": float, "average": float}.
    """
    wanted = {"oracle": "ppo", "rounds": rounds, "opponents": episodes, "policy": "tabular", **overrides}
    known = {name: value for name, value in wanted.items() if name in overrides or hasattr(DEFAULTS[method], name)}
    solver = make_solver(method, game, DEFAULTS[method].replace(**known))
    step = jax.jit(solver.step) if solver.jittable else solver.step
    key_init, *keys = jax.random.split(jax.random.key(seed), 1 + iterations)
    state = solver.init(key_init)
    for key in keys:
        state, _ = step(state, key)
    return {which: float(nash_conv(game, solver.profile(state, which))) for which in ("iterate", "average")}
