"""Common parts of the specs that compare GEMS with self-play by the same learner at equal environment steps."""

from typing import Any

from experiments.harness.spec import Arm, Experiment
from gems_jax.psro.self_play import SELF_PLAY_OF


def against_self_play(game: str, steps: int, **fields: Any) -> Experiment:
    """Makes an experiment of three seeds of GEMS (preset `joint`) and of `self_play` with the same learner.

    Args:
      game: the game.
      steps: environment steps of an iteration of GEMS, which self-play gets, too.
      **fields: further fields of the experiment.
    """
    arms = (
        Arm("gems", preset="joint"),
        Arm("self-play", method="self_play", config=SELF_PLAY_OF[game], budget=steps),
        Arm("random", method="random", iterations=1),
    )
    notes = (
        f"Self-play gets {steps:,} environment steps an iteration, the mean of GEMS on seed 1000. Settings were chosen "
        "on seed 1000 (docs/methods.md); the table shows what was played.",
        "The profile `iterate` is measured: sigma of GEMS, the last policy of self-play.",
        "Other jobs ran on the two cores at the same time, and paused some of these: the seconds are upper bounds.",
    )
    return Experiment(
        game=game,
        arms=arms,
        seeds=(0, 1, 2),
        exact=False,
        **{"notes": notes, "quick": {"iterations": 2, "seeds": (0,)}, **fields},
    )
