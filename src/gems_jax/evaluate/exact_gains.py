"""Exact best-response gains, by the tree of a game or, where that is too large, by the game's own evaluation."""

from __future__ import annotations

import numpy as np

from gems_jax.extensive.values import player_gains
from gems_jax.types import Evaluating, Game, NotEnumerableError, Profile, supports


def exact_gains(game: Game, profile: Profile) -> np.ndarray:
    """Computes what each player wins by a best response to the profile, exactly and on the host.

    The game's tree is walked where it is small enough. Otherwise a game may bring an evaluation of its own
    (`Evaluating`), such as nashbench's for trees of billions of histories.

    Args:
      game: the game.
      profile: mixtures sigma [P, K] over populations with a leading axis P.

    Returns:
      BR_p - u_p, [players]: the sum is NashConv, half of it the exploitability of two-player zero-sum games.

    Raises:
      NotEnumerableError: if the tree is too large and the game has no evaluation of its own, or if players are teams.
    """
    try:
        return np.asarray(player_gains(game, profile))
    except NotEnumerableError:
        if not supports(game, Evaluating):
            raise
    return np.asarray(game.best_response_gains(profile))
