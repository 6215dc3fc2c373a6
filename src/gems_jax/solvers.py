"""Every method as a `Solver`: (init, step, profile, jittable)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax

from gems_jax.accelerator.prng import fused_key
from gems_jax.config import GemsConfig
from gems_jax.extensive.cfr import TabularConfig, cfr_solver, xfp_solver
from gems_jax.extensive.mccfr import McCfrConfig, OutcomeSamplingConfig, mccfr_solver
from gems_jax.gems.env_steps import fit_budget
from gems_jax.gems.step import gems_profile, gems_step, init_gems
from gems_jax.host.stages import on_host, staged
from gems_jax.psro.anytime import APSRO, EPSRO, anytime_solver
from gems_jax.psro.base import fit_settings
from gems_jax.psro.fxp import FxpConfig, fxp_solver
from gems_jax.psro.jpsro import JpsroConfig, NeuplJpsroConfig, jpsro_solver
from gems_jax.psro.neupl import SIMPLEX_NEUPL, NeuplConfig, neupl_solver
from gems_jax.psro.p2sro import P2sroConfig, p2sro_solver
from gems_jax.psro.psro import A_PSRO, ALPHA_PSRO, DOUBLE_ORACLE, FUSION_PSRO, PsroConfig, psro_solver
from gems_jax.psro.self_play import MMD, NASH_PG, SELF_PLAY, RandomConfig, random_solver, self_play_solver
from gems_jax.psro.settings import Budgeted
from gems_jax.psro.sp_psro import SP_PSRO, sp_psro_solver
from gems_jax.psro.xdo import EDO, PDO, XDO, xdo_solver
from gems_jax.types import Array, Game, PyTree, Solver, did_you_mean


def _gems(game: Game, config: GemsConfig) -> Solver:
    init = functools.partial(init_gems, game=game, config=config)

    def step(state: PyTree, key: Array) -> tuple[PyTree, Any]:
        return gems_step(state, fused_key(key), game, config)  # runs on a CPU draw from the PRNG that fuses

    return Solver(
        init=jax.jit(init) if on_host(game) else init,
        step=staged(step) if on_host(game) else step,
        profile=lambda state, which="iterate": gems_profile(state, game, config, which),
        jittable=not on_host(game),
        columns=("episodes", "env_steps", "gradient_steps", "parameter_bytes", "payoff_bytes", "meta_bytes"),
    )


# The settings that a method has by default; it takes no others than those of the same class.
DEFAULTS: dict[str, Any] = {
    "gems": GemsConfig(),
    "psro": PsroConfig(),
    "double_oracle": DOUBLE_ORACLE,
    "alpha_psro": ALPHA_PSRO,
    "a_psro": A_PSRO,
    "apsro": APSRO,
    "epsro": EPSRO,
    "p2sro": P2sroConfig(),
    "neupl": NeuplConfig(),
    "sp_psro": SP_PSRO,
    "fusion_psro": FUSION_PSRO,
    "simplex_neupl": SIMPLEX_NEUPL,
    "jpsro": JpsroConfig(),
    "neupl_jpsro": NeuplJpsroConfig(),
    "xdo": XDO,
    "pdo": PDO,
    "edo": EDO,
    "fxp": FxpConfig(),
    "self_play": SELF_PLAY,
    "mmd": MMD,
    "nash_pg": NASH_PG,
    "cfr": TabularConfig(),
    "cfr_plus": TabularConfig(),
    "xfp": TabularConfig(),
    "os_mccfr": OutcomeSamplingConfig(),
    "es_mccfr": McCfrConfig(),
    "random": RandomConfig(),
}


def _method(name: str, make: Callable[[Game, Any], Solver]) -> Callable[[Game, Any], Solver]:
    """`make` with a config that is checked first; None for the default one."""

    def checked(game: Game, config: Any = None) -> Solver:
        kind = type(DEFAULTS[name])
        if config is not None and not isinstance(config, kind):
            where = "gems_jax.preset" if name == "gems" else f"gems_jax.solvers.DEFAULTS[{name!r}]"
            raise ValueError(f"the method {name} takes a {kind.__name__}: got {type(config).__name__}; see {where}")
        return make(game, (DEFAULTS[name] if config is None else config).validate())

    return checked


_MAKE: dict[str, Callable[[Game, Any], Solver]] = {
    "gems": _gems,
    "psro": psro_solver,
    "double_oracle": psro_solver,
    "alpha_psro": psro_solver,
    "a_psro": psro_solver,
    "apsro": anytime_solver,
    "epsro": anytime_solver,
    "p2sro": p2sro_solver,
    "neupl": neupl_solver,
    "sp_psro": sp_psro_solver,
    "fusion_psro": psro_solver,
    "simplex_neupl": neupl_solver,
    "jpsro": jpsro_solver,
    "neupl_jpsro": jpsro_solver,
    "xdo": xdo_solver,
    "pdo": xdo_solver,
    "edo": xdo_solver,
    "fxp": fxp_solver,
    "self_play": self_play_solver,
    "mmd": self_play_solver,
    "nash_pg": self_play_solver,
    "cfr": functools.partial(cfr_solver, plus=False),
    "cfr_plus": functools.partial(cfr_solver, plus=True),
    "xfp": xfp_solver,
    "os_mccfr": functools.partial(mccfr_solver, external=False),
    "es_mccfr": functools.partial(mccfr_solver, external=True),
    "random": random_solver,
}
METHODS: dict[str, Callable[[Game, Any], Solver]] = {name: _method(name, make) for name, make in _MAKE.items()}


# The profile that a method is judged by, where it is not the last mixture: the average is the published output of
# Monte-Carlo CFR, and what self-play has a guarantee for.
PUT_FORWARD: dict[str, str] = dict.fromkeys(("self_play", "mmd", "nash_pg", "os_mccfr", "es_mccfr"), "average")


def put_forward(name: str) -> str:
    """The profile by which tables rank the method `name`: "iterate" or "average"."""
    return PUT_FORWARD.get(name, "iterate")


def with_budget(name: str, game: Game, config: Any, env_steps: int, iterations: int | None = None) -> Any:
    """Fits the settings of a method to a number of environment steps per iteration, the mean over a run.

    GEMS divides the steps between its four phases (`gems/env_steps.py`). Methods with a field `env_steps` count what
    they play, with learned responses, and take as many rounds of learning as the budget leaves; where measuring payoffs
    or a single round would take too much of it, there are fewer episodes (`fit_settings` in `psro/base.py`).

    Args:
      name: a method of `METHODS`.
      game: the game that is played.
      config: settings of the method.
      env_steps: environment steps per iteration.
      iterations: of the run; by default the config's.

    Returns:
      Settings of the same class.

    Raises:
      ValueError: for methods that do not learn from episodes, and for budgets that are too small; the message has the
        least one.
    """
    if env_steps < 1:
        raise ValueError(f"a budget must be a positive number of env steps per iteration: got {env_steps}")
    if isinstance(config, GemsConfig):
        return fit_budget(game, config, env_steps, iterations)
    if not hasattr(config, "env_steps"):
        raise ValueError(f"method {name} does not learn from episodes, so a budget of env steps does not apply to it")
    if getattr(config, "oracle", "ppo") == "exact":
        raise ValueError("exact responses take no env steps, so a budget does not apply to them: use oracle='ppo'")
    fitted = config.replace(env_steps=env_steps, **({"oracle": "ppo"} if hasattr(config, "oracle") else {}))
    return fit_settings(game, fitted, iterations) if isinstance(fitted, Budgeted) else fitted


def make_solver(name: str, game: Game, config: Any = None, budget: int = 0) -> Solver:
    """Makes the solver of the method `name` on `game`.

    Args:
      name: a method of `METHODS`.
      game: the game that is played.
      config: settings; None for the method's default ones.
      budget: environment steps per iteration that the settings are fitted to by `with_budget`; 0 leaves them as they
        are.

    Returns:
      The solver.

    Raises:
      ValueError: for unknown names, settings of another method, and budgets that do not apply or are too small.
    """
    if name not in METHODS:
        raise ValueError(f"unknown method {name!r}; {did_you_mean(name, METHODS)}known: {', '.join(sorted(METHODS))}")
    if budget:
        config = with_budget(name, game, DEFAULTS[name] if config is None else config, budget)
    return METHODS[name](game, config)
