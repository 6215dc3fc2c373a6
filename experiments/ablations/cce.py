"""Coarse correlated equilibria: joint play over a run in three games, by two estimators at equal episodes.

Jordan's game has one Nash equilibrium, uniform play, which no uncoupled learner approaches: player 1 wants to match
player 2, player 2 wants to match player 3, and player 3 wants to differ from player 1. Joint play may
still become a CCE.
"""

from experiments.harness.spec import Arm, Check, Experiment
from gems_jax.presets import PUBLIC_GOODS_TUNED

WISHES = (lambda a, b, c: a == b, lambda a, b, c: b == c, lambda a, b, c: c != a)
JORDAN = [[[[float(wish(a, b, c)) for c in (0, 1)] for b in (0, 1)] for a in (0, 1)] for wish in WISHES]
CONFIG = PUBLIC_GOODS_TUNED.replace(
    initial_anchors=1,
    capacity=8,
    meta_steps=20,
    num_opponents=16,
    oracle_opponents=16,
    mutations=0,
    randoms=8,
    abr_steps=10,
    abr_opponents=128,
)
GAMES = {
    "prisoner's dilemma": {"game": "prisoners_dilemma"},
    "public goods": {"game": "public_goods"},
    "Jordan's game": {"game": "matrix", "options": {"payoffs": JORDAN}},
}
PLAYERS = {"prisoner's dilemma": 2, "public goods": 5, "Jordan's game": 3}


def shared(players: int) -> dict[str, object]:
    """Sets as many joint samples as the anchors would play in their own episodes at full capacity."""
    samples = players * CONFIG.capacity * CONFIG.num_opponents
    return {"estimator": "self_normalised", "mixture_samples": samples, "sigma_floor": 0.1}


EXPERIMENT = Experiment(
    name="cce",
    title="Joint play of GEMS as a coarse correlated equilibrium",
    game="matrix",
    arms=tuple(
        Arm(f"{name}{', shared play' * bool(own)}", config=CONFIG, overrides=own, **game)
        for name, game in GAMES.items()
        for own in ({}, shared(PLAYERS[name]))
    ),
    iterations=200,
    seeds=(0, 1, 2),
    chunk=20,
    metrics=("cce_gap", "cce_gap_ids", "nash_conv"),
    report=(50, 200),
    convention="CCE gap of a run's joint play",
    unit="reward per game",
    groups=tuple((name, (name, f"{name}, shared play")) for name in GAMES),
    checks=(Check("cce_gap", at_most=0.02, at_the_end=True),),
    notes=(
        "Arms without a suffix estimate each anchor from its own episodes. `shared play` weights joint samples "
        "(self-normalised, a floor of 0.1), as many as the other arms play once their slots are full.",
        "The gap is in rewards per game and refers to the policies at the time they were played. It averages over the "
        "whole run, so the first iterations alone keep it above 1 / T for some time.",
        "By anchor id, under the final generator, the same play is far from a CCE in Jordan's game: the ids no longer "
        "refer to the policies that were played.",
    ),
    quick={"iterations": 20, "seeds": (0,), "checks": ()},
)
