"""The methods by name, each as a `Solver`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax

from gems_jax.accelerator.prng import fused_key
from gems_jax.config import GemsConfig
from gems_jax.extensive.cfr import TabularConfig, cfr_solver, xfp_solver
from gems_jax.extensive.mccfr import McCfrConfig, OutcomeSamplingConfig, mccfr_solver
from gems_jax.games.requirements import check_fit, check_name
from gems_jax.gems.env_steps import fit_budget
from gems_jax.gems.step import gems_profile, gems_step, init_gems
from gems_jax.host.stages import on_host, stage
from gems_jax.presets import default_config
from gems_jax.psro.anytime import APSRO, EPSRO, anytime_solver
from gems_jax.psro.base import fit_settings
from gems_jax.psro.fxp import FxpConfig, fxp_solver
from gems_jax.psro.jpsro import JpsroConfig, NeuplJpsroConfig, jpsro_solver
from gems_jax.psro.neupl import SIMPLEX_NEUPL, NeuplConfig, neupl_solver
from gems_jax.psro.p2sro import P2sroConfig, p2sro_solver
from gems_jax.psro.psro import A_PSRO, ALPHA_PSRO, DOUBLE_ORACLE, FUSION_PSRO, PsroConfig, psro_solver
from gems_jax.psro.self_play import MMD, NASH_PG, SELF_PLAY, SELF_PLAY_OF, RandomConfig, random_solver, self_play_solver
from gems_jax.psro.settings import Budgeted
from gems_jax.psro.sp_psro import SP_PSRO, sp_psro_solver
from gems_jax.psro.xdo import EDO, PDO, XDO, xdo_solver
from gems_jax.types import Array, Game, PyTree, Solver


def _gems(game: Game, config: GemsConfig) -> Solver:
    init = functools.partial(init_gems, game=game, config=config)

    def step(state: PyTree, key: Array) -> tuple[PyTree, Any]:
        return gems_step(state, fused_key(key), game, config)  # on a CPU, draws of this PRNG fuse with their consumers

    return Solver(
        init=jax.jit(init) if on_host(game) else init,
        step=stage(step) if on_host(game) else step,
        profile=lambda state, which="iterate": gems_profile(state, game, config, which),
        jittable=not on_host(game),
        columns=("episodes", "env_steps", "gradient_steps", "parameter_bytes", "payoff_bytes", "meta_bytes"),
    )


# Default settings of each method. A method accepts settings of the same class only. Those of GEMS are the paper's Kuhn
# table; without settings, `make_solver` takes those that fit the game.
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


def settings_of(name: str, game: str) -> Any:
    """Returns the default settings of a method without presets: those for the game called `game`, or for all games."""
    return SELF_PLAY_OF.get(game, SELF_PLAY) if name == "self_play" else DEFAULTS[name]


def _settings_for(name: str, game: Game) -> Any:
    """Default settings of a method for a game: for GEMS those of its best preset."""
    return default_config(game) if name == "gems" else settings_of(name, game.name)


def _method(name: str, make: Callable[[Game, Any], Solver]) -> Callable[[Game, Any], Solver]:
    """Wraps `make` so that it validates its config first; None stands for the method's default for the game."""

    def validate_and_make(game: Game, config: Any = None) -> Solver:
        kind = type(DEFAULTS[name])
        if config is not None and not isinstance(config, kind):
            where = "gems_jax.preset" if name == "gems" else f"gems_jax.solvers.DEFAULTS[{name!r}]"
            raise ValueError(f"the method {name} takes a {kind.__name__}: got {type(config).__name__}; see {where}")
        settings = (_settings_for(name, game) if config is None else config).validate()
        check_fit(name, game, settings)
        return make(game, settings)

    return validate_and_make


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
# name -> make(game, config or None) -> Solver
METHODS: dict[str, Callable[[Game, Any], Solver]] = {name: _method(name, make) for name, make in _MAKE.items()}


# Profiles that methods are ranked by, if not the last iterate. The average is the published output of Monte-Carlo CFR,
# and the profile that the guarantees of self-play are about.
REPORTED_PROFILE: dict[str, str] = dict.fromkeys(("self_play", "mmd", "nash_pg", "os_mccfr", "es_mccfr"), "average")


def reported_profile(name: str) -> str:
    """Returns the profile that tables rank the method `name` by: "iterate" or "average"."""
    return REPORTED_PROFILE.get(name, "iterate")


def apply_budget(name: str, game: Game, config: Any, env_steps: int, iterations: int | None = None) -> Any:
    """Fits the settings of a method to a budget of environment steps per iteration, averaged over a run.

    GEMS divides the steps between its four phases (`gems/env_steps.py`). Methods with a field `env_steps` learn their
    responses and train for as many rounds as the budget allows. If estimating payoffs or a single round would exceed
    their part of the budget, the number of episodes is reduced (`fit_settings` in `psro/base.py`).

    Args:
      name: a method of `METHODS`.
      game: the game to solve.
      config: settings of the method.
      env_steps: environment steps per iteration.
      iterations: length of the run; by default the config's.

    Returns:
      Settings of the same class.

    Raises:
      ValueError: if the method does not learn from episodes, or the budget is too small. The message has the smallest
        budget that is possible.
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
    """Makes a solver of a game.

    >>> import jax
    >>> from gems_jax import exploitability, make_game, make_solver
    >>> game = make_game("rock_paper_scissors")
    >>> solver = make_solver("cfr_plus", game)
    >>> state, metrics = solver.step(solver.init(jax.random.key(0)), jax.random.key(1))
    >>> float(exploitability(game, solver.profile(state)))
    0.0

    Args:
      name: a method of `METHODS`, such as "gems" or "psro".
      game: the game to solve, implemented in JAX or in Python.
      config: settings; None for the method's defaults. For GEMS these fit the game: its best known preset, otherwise
        "auto" (see `preset`).
      budget: environment steps per iteration; the settings are fitted to it (`apply_budget`). 0 leaves them unchanged.

    Returns:
      A `Solver`. Its `step` may be compiled if `jittable`.

    Raises:
      ValueError: if the name is unknown, the settings are of another method, or the budget does not apply or is too
        small.
    """
    if name not in METHODS:
        check_name(name)
    if budget:
        config = apply_budget(name, game, _settings_for(name, game) if config is None else config, budget)
    return METHODS[name](game, config)
