"""Arms that show which ingredient of the preset `replay` helps: reused returns, control variates, responses.

All arms of an experiment play the same environment steps in 40 iterations. An arm on fresh episodes differs in one
ingredient from the arm before it, an arm of `replay` in one from the complete preset.
"""

from __future__ import annotations

from typing import Any

from experiments.harness.spec import Arm, Experiment

# ABR-TR on fresh episodes, with the step size and the trust region that are best at these budgets.
FRESH = {
    "mutations": 0, "randoms": 8, "oracle_opponents": 32, "abr_steps": 30, "abr_opponents": 128,
    "learning_rate": 0.01, "beta_kl": 3.0, "replay_steps": 0, "estimator": "per_anchor", "meta_rule": "omwu",
    "learning_rate_decay": 0.0, "entropy_weight": 0.0, "live_opponents": False, "self_play_fraction": 0.0,
    "exploration": 0.0,
}  # fmt: skip
PAIRS = {
    **FRESH, "estimator": "pairs", "mixture_samples": 2500, "sigma_floor": 0.5, "meta_rule": "rm_plus",
    "meta_steps": 300,
}  # fmt: skip
TRAJECTORIES = {**PAIRS, "estimator": "trajectories", "buffer_episodes": 65_536}


def reuse_experiment(
    name: str, title: str, game: str, total: int, base: str, whole: dict[str, dict[str, Any]], trials: int
) -> Experiment:
    """Makes the ablation of one game at one budget.

    Args:
      name: name of the experiment.
      title: title of its tables and figures.
      game: name of the game.
      total: environment steps of a run.
      base: preset that the arms on fresh episodes change.
      whole: overrides of further arms of the preset `replay`, by label.
      trials: number of settings that were tried on this game.

    Returns:
      The experiment.
    """
    iterations = 40

    def arm(label: str, preset: str, **overrides: Any) -> Arm:
        return Arm(label, preset=preset, overrides=overrides, budget=total // iterations)

    arms = (
        arm("nothing reused", base, **FRESH),
        arm("pairs", base, **PAIRS),
        arm("pairs, control variate", base, **PAIRS, control_variate="critic"),
        arm("trajectories", base, **TRAJECTORIES),
        arm("trajectories, OMWU", base, **{**TRAJECTORIES, "meta_rule": "omwu"}),
        arm("replay", "replay"),
        arm("replay, no entropy", "replay", entropy_weight=0.0),
        *(arm(f"replay, {label}", "replay", **overrides) for label, overrides in whole.items()),
    )
    fresh = tuple(one.label for one in arms if not one.label.startswith("replay"))
    changed = tuple(one.label for one in arms if one.label.startswith("replay"))
    return Experiment(
        name=name,
        title=title,
        game=game,
        arms=arms,
        groups=(("fresh episodes, one more each", fresh), ("`replay`, one change each", changed)),
        iterations=iterations,
        seeds=(0, 1, 2, 3, 4),
        chunk=10,
        metrics=("exploitability", "exploitability_average", "budget_meta_regret", "budget_best_response"),
        panels=("monte_carlo_error",),
        report=(5, 10, 20, 40),
        convention="exploitability = NashConv / 2, in chips per game",
        unit="chips per game",
        notes=(
            f"Settings were chosen with seeds 1000 and higher, from about {trials} on this game.",
            "`nothing reused` estimates every anchor from new episodes before each meta update, as Algorithm 1 does.",
        ),
        quick={"iterations": 5, "seeds": (0,), "report": (5,)},
    )
