"""Experiments as specs: which game, which arms, what to report. A new experiment is one `Experiment(...)`."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from experiments.pictures import check_pictures
from gems_jax.games import make_game
from gems_jax.gems.paper_presets import paper_game_options
from gems_jax.presets import preset
from gems_jax.runner.directory import slug
from gems_jax.runner.files import resolve
from gems_jax.solvers import DEFAULTS, apply_budget, make_solver
from gems_jax.sweep.points import traced_fields
from gems_jax.types import Game, Solver


@dataclasses.dataclass(frozen=True)
class Arm:
    """One arm of the comparison: a method with the settings of a preset or a config, and changes to them."""

    label: str
    method: str = "gems"
    preset: str | None = None
    config: Any = None  # instead of a preset; None and no preset: the method's default
    game: str = ""  # instead of the experiment's and its options
    overrides: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # of the game, over the experiment's
    quick: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # further changes for the quick version
    iterations: int | None = None  # instead of the experiment's
    budget: int = 0  # env steps per iteration that the settings are made to take; 0 leaves them as they are


@dataclasses.dataclass(frozen=True)
class Check:
    """Bounds on a column, for every seed of the named arms, or of all arms that log it."""

    column: str
    at_most: float = math.inf
    at_least: float = -math.inf
    arms: tuple[str, ...] = ()
    at_the_end: bool = False  # in the last iteration only; otherwise in every one

    @property
    def bounds(self) -> tuple[tuple[str, float], ...]:
        """Finite bounds with their words."""
        both = (("at most", self.at_most), ("at least", self.at_least))
        return tuple((word, bound) for word, bound in both if math.isfinite(bound))


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Specification of an experiment.

    The first of `metrics` is the headline: it is shown in the progress line and the figures and selects the best
    checkpoint. Enumerable games are measured exactly, and the headline is a gap: lower is better. Other games (`exact`
    is False) are measured by playing, and the headline is a score or a return: higher is better.
    """

    name: str
    title: str
    game: str
    arms: tuple[Arm, ...]
    iterations: int
    seeds: tuple[int, ...]
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # of the game
    metrics: tuple[str, ...] = ("exploitability", "nash_conv")
    panels: tuple[str, ...] = ()  # columns for a figure of their own, a linear axis each
    pictures: tuple[str, ...] = ()  # of what was learned, by their names in `experiments/pictures`
    report: tuple[int, ...] = (1, 10, 20, 40)
    convention: str = ""  # what the headline is, with its unit: on the figures
    unit: str = "return"  # of the game's returns
    references: tuple[tuple[str, float], ...] = ()  # (label, headline value), lines in the figure
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()  # what a reader of the results must know, such as how settings were chosen
    exact: bool = True  # measure exactly: enumerable games
    evaluation_episodes: int = 1000  # otherwise: that many episodes
    evaluation_every: int = 1  # after the first iteration and every that many
    # (title, arms), where arms compete: a panel and a ranking each
    groups: tuple[tuple[str, tuple[str, ...]], ...] = ()
    ablation: bool = False  # groups are factors, and the first arm of each is the base that the others change
    # (what, a number for each arm): a figure of the headline and its causes at the end against that number
    against: tuple[str, tuple[float, ...]] | None = None
    over_time: bool = False  # panels against minutes instead of iterations
    chunk: int = 1  # iterations per compiled call: more where an iteration takes milliseconds
    quick: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # fields to change for the quick version
    full: Mapping[str, Any] = dataclasses.field(default_factory=dict)  # and for the full one, where there is one


@dataclasses.dataclass(frozen=True)
class Plan:
    """A spec with all names resolved and validated."""

    spec: Experiment
    games: Mapping[str, Game]  # by the label of the arm
    arms: tuple[tuple[Arm, Any, Solver], ...]  # with config and solver

    def iterations(self, arm: Arm) -> int:
        return self.spec.iterations if arm.iterations is None else arm.iterations

    def game_options(self, arm: Arm) -> dict[str, Any]:
        return game_options(self.spec, arm)

    def program(self, label: str) -> Hashable:
        """Identifies the program of an arm, equal for arms that differ in traced numbers only; None if unshared."""
        arm, config, solver = next(found for found in self.arms if found[0].label == label)
        if not (names := traced_fields(config, solver)):
            return None
        static = json.dumps(resolve((static_part(config, names), self.game_options(arm))), sort_keys=True)
        spec = self.spec
        return arm.game or spec.game, arm.method, static, spec.exact, spec.evaluation_episodes, spec.evaluation_every

    def identity(self) -> dict[str, Any]:
        """Returns what must be unchanged for an experiment to be resumed in its folder."""
        arms = {
            arm.label: {
                "game": arm.game or self.spec.game,
                "method": arm.method,
                "config": resolve(config),
                "options": resolve(self.game_options(arm)),
                "iterations": self.iterations(arm),
            }
            for arm, config, _ in self.arms
        }
        names = ("name", "game", "options", "seeds", "iterations", "evaluation_episodes", "evaluation_every")
        return {name: resolve(getattr(self.spec, name)) for name in names} | {"arms": arms}


def game_options(spec: Experiment, arm: Arm) -> dict[str, Any]:
    """Merges the options of the arm's game from the preset `paper`, the experiment and the arm."""
    own = paper_game_options(arm.game or spec.game, arm.preset)
    return {**own, **({} if arm.game else spec.options), **arm.options}


def make_plan(spec: Experiment, quick: bool = False) -> Plan:
    """Resolves all names of a spec. Raises ValueError for unknown games, presets, methods and settings."""
    spec = changed(spec, spec.quick) if quick else spec
    labels = [arm.label for arm in spec.arms]
    if not labels or len({slug(label) for label in labels}) != len(labels):
        raise ValueError(f"an experiment needs arms with different labels, got {labels}")
    for check in spec.checks:
        unknown = [label for label in check.arms if label not in labels]
        if unknown or not check.bounds:
            raise ValueError(f"a check needs a bound and arms of the experiment ({', '.join(labels)}), got {check}")
    for title, members in spec.groups:
        if not members or not set(members) <= set(labels):
            raise ValueError(
                f"the group {title!r} names no arms, or other ones than {', '.join(labels)}: got {members}"
            )
    check_pictures(spec.pictures)
    if spec.against is not None and len(spec.against[1]) != len(labels):
        raise ValueError(f"against needs a number for each of {', '.join(labels)}: got {spec.against[1]}")
    arms, games = [], {}
    for arm in spec.arms:
        name = arm.game or spec.game
        game = games[arm.label] = make_game(name, **game_options(spec, arm))
        if arm.preset is not None and arm.config is not None:
            raise ValueError(f"the arm {arm.label!r} has both a preset and a config: give one of them")
        config = preset(name, arm.preset) if arm.preset is not None else arm.config
        if config is None and arm.method in DEFAULTS and arm.method != "gems":
            config = DEFAULTS[arm.method]
        changes = {**arm.overrides, **(arm.quick if quick else {})}
        if changes:
            if config is None:
                raise ValueError(f"the arm {arm.label!r} changes {', '.join(changes)} of no config: name a preset")
            config = config.replace(**changes)
        if arm.budget:
            iterations = spec.iterations if arm.iterations is None else arm.iterations
            config = apply_budget(arm.method, game, config, arm.budget, iterations)
        arms.append((arm, config, make_solver(arm.method, game, config)))
    return Plan(spec, games, tuple(arms))


def changed(spec: Experiment, changes: Mapping[str, Any]) -> Experiment:
    """Returns the spec with some fields changed. Raises ValueError for unknown names."""
    known = [field.name for field in dataclasses.fields(Experiment)]
    unknown = [name for name in changes if name not in known]
    if unknown:
        raise ValueError(f"an experiment has no field {', '.join(unknown)}; known: {', '.join(known)}")
    return dataclasses.replace(spec, **changes)


def static_part(config: Any, traced: Sequence[str]) -> Any:
    """Replaces all `traced` fields by 1; the result is equal for configs that share a program."""
    return config.replace(**dict.fromkeys(traced, 1.0))
