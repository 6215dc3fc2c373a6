"""Results of a picture, and the trained mixtures that pictures are made from."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np

from gems_jax.evaluate.loaded_policy import LoadedPolicy
from gems_jax.runner.directory import slug
from gems_jax.runner.load import RunState, load_state, make_policy
from gems_jax.types import Game

if TYPE_CHECKING:
    from experiments.harness.spec import Plan


class Drawn(NamedTuple):
    files: Mapping[str, Any]  # name with .png: a matplotlib figure or bytes; with .gif, .svg: bytes
    numbers: Mapping[str, Any] = {}


class Trained(NamedTuple):
    """One seed of an arm after its last iteration."""

    policy: LoadedPolicy
    active: np.ndarray  # [P, K] bool: the slots that hold a policy


def trained(plan: Plan, folder: Path) -> dict[str, list[Trained]]:
    """Loads the last checkpoint of every seed, by label of the arm, without random play."""
    found = {
        arm.label: [_trained(folder / slug(arm.label), seed, plan.games[arm.label]) for seed in plan.spec.seeds]
        for arm, *_ in plan.arms
        if arm.method != "random"
    }
    if not found:
        raise ValueError("no arm of the experiment learns anything: there is nothing to draw")
    return found


def _trained(path: Path, seed: int, game: Game) -> Trained:
    found = load_state(path, seed=seed, game=game)
    return _seen(found)


def untrained(path: Path, member: Trained) -> Trained | None:
    """Restores the generator before its first iteration, at the final codes of the same seed.

    This is a control for pictures: as many anchors as after training, from an untrained generator. The initial
    population would not do, because it has one or two anchors.

    Args:
        path: folder of the arm.
        member: one seed of it after its last iteration.

    Returns:
        The same seed with the initial parameters; None for a method without codes.
    """
    ended = member.policy.profile
    codes = getattr(ended.population, "codes", None)
    if codes is None:
        return None
    found = load_state(path, seed=member.policy.seed, game=member.policy.game)
    key = jax.random.fold_in(jax.random.key(member.policy.seed), 0)  # as the engines begin
    start: Any = make_policy(found._replace(state=found.problem.solver.init(key), iteration=0)).profile.population
    profile = dataclasses.replace(ended, population=dataclasses.replace(start, codes=codes))
    return member._replace(policy=dataclasses.replace(member.policy, profile=profile))


def _seen(found: RunState) -> Trained:
    policy, state = make_policy(found), found.state
    holder = state if hasattr(state, "active") else getattr(state, "store", None)
    sigma = np.asarray(policy.profile.sigma)
    return Trained(policy, sigma > 0 if holder is None else np.asarray(holder.active))
