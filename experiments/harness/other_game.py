"""Moves an experiment to another implementation of its game: `--game pgx:connect_four`."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from experiments.harness.spec import Arm, Experiment
from gems_jax.games import make_game
from gems_jax.runner.directory import slug
from gems_jax.types import Game, num_players

_OWNERSHIP = ("teams", "shared")  # options that say which seats a player and a population have; defaults differ


def on_game(spec: Experiment, name: str) -> Experiment:
    """Moves an experiment to another game with the same players, such as the original of a library.

    Presets stay those of the experiment's own game. Pictures, which are drawn for that game, are left out, and so are
    arms of another game.

    Args:
      spec: the experiment.
      name: name of the game, as in `make_game`.

    Returns:
      The experiment, whose name and title name the game.

    Raises:
      ValueError: if the game does not exist, or has other players.
    """
    own = make_game(spec.game, **spec.options)
    options = {**spec.options, **ownership(own, make_game(name))}
    check_same_players(own, make_game(name, **options), spec, name)

    def move(fields: Mapping[str, Any]) -> dict[str, Any]:
        return {**fields, **({"arms": _move_arms(fields["arms"], spec.game)} if "arms" in fields else {})}

    return dataclasses.replace(
        spec,
        name=f"{spec.name}_{slug(name)}",
        title=f"{spec.title}, as {name}",
        game=name,
        options=options,
        arms=_move_arms(spec.arms, spec.game),
        pictures=(),
        quick=move(spec.quick),
        full=move(spec.full),
    )


def ownership(own: Game, other: Game) -> dict[str, Any]:
    """Returns the options by which seats belong to players and populations, where both games have them."""
    both = [option for option in _OWNERSHIP if hasattr(own, option) and hasattr(other, option)]
    return {option: getattr(own, option) for option in both}


def check_same_players(own: Game, other: Game, spec: Experiment, name: str) -> None:
    """Checks that two games have the same seats and players. Raises ValueError."""
    for what, here, there in (
        ("seats", own.num_seats, other.num_seats),
        ("players", num_players(own), num_players(other)),
    ):
        if here != there:
            raise ValueError(f"{spec.name} on {name}: expected {here} {what} as in {spec.game}, got {there}")


def _move_arms(arms: Sequence[Arm], game: str) -> tuple[Arm, ...]:
    """Names the game of the arms' presets, because the other game has none; arms of other games are left out."""
    return tuple(
        dataclasses.replace(arm, preset=f"{arm.preset}@{game}")
        if arm.preset not in (None, "auto") and "@" not in str(arm.preset)
        else arm
        for arm in arms
        if not arm.game
    )
