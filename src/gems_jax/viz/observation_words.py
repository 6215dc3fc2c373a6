"""Descriptions of games that have none of their own: observations as text, and actions by number.

A game that implements `ActionNaming` or `Described` (`gems_jax.types`) is described by these instead.
"""

from __future__ import annotations

import numpy as np

from gems_jax.types import ActionNaming, Array, Described, Game, GameState, supports

_MARKS = "xoabcdefghijklmnpqrstuvwyz"  # of the planes of a board
_LISTED = 24  # entries of a flat observation


def name_action(game: Game, state: GameState, action: int) -> str:
    """Names an action: as the game does, or by its number."""
    return str(game.action_name(state, action)) if supports(game, ActionNaming) else f"action {action}"


def see_position(game: Game, state: GameState, seat: int) -> str:
    """Describes a position as a seat sees it: as the game does, or by the seat's observation."""
    if supports(game, Described):
        return str(game.describe(state, seat))
    if game.simultaneous and game.max_steps == 1:
        return f"you sit in seat {seat}"
    return describe_observation(state.observation[seat])


def show_position(game: Game, state: GameState) -> str:
    """Describes a position to a spectator; "" if the game does not."""
    return str(game.describe(state, None)) if supports(game, Described) else ""


def describe_observation(observation: Array) -> str:
    """Describes an observation: a board of bits as a drawing, any other array by its entries that are not zero.

    Args:
      observation: one seat's observation, of any shape.

    Returns:
      The text, of several lines for a board.
    """
    values = np.asarray(observation, np.float64)
    bits = bool(np.isin(values, (0.0, 1.0)).all())
    if bits and values.ndim in (2, 3) and min(values.shape[:2]) > 1 and values[0, 0].size <= len(_MARKS):
        return _draw_board(values.reshape(*values.shape[:2], -1) > 0)
    flat = values.ravel()
    indices = np.flatnonzero(flat)
    parts = [str(index) if bits else f"[{index}] = {flat[index]:.4g}" for index in indices[:_LISTED]]
    more = f", and {len(indices) - _LISTED} more" if len(indices) > _LISTED else ""
    what = "entries that are 1" if bits else "entries that are not 0"
    return f"you observe {flat.size} numbers; {what}: {', '.join(parts) or 'none'}{more}"


def _draw_board(planes: np.ndarray) -> str:
    """Draws planes [height, width, planes] with one mark each; planes that are constant are left out."""
    varied = [index for index in range(planes.shape[2]) if planes[:, :, index].any() and not planes[:, :, index].all()]
    rows = np.full(planes.shape[:2], ".", dtype="<U1")
    for index in reversed(varied):
        rows[planes[:, :, index]] = _MARKS[index]
    legend = ", ".join(f"{_MARKS[index]} is plane {index}" for index in varied)
    return "\n".join([*(" ".join(row) for row in rows), *([legend] if legend else [])])
