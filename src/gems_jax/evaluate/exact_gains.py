"""Exact best-response gains from the game tree or, if it is too large, from states or the game's own evaluation."""

from __future__ import annotations

import numpy as np

from gems_jax.evaluate.certificates import Certificate, certify_bounds, certify_exact
from gems_jax.extensive.state_graph import state_gain_bounds
from gems_jax.extensive.values import player_gains
from gems_jax.types import Evaluating, Game, NotEnumerableError, Profile, is_two_player_zero_sum, supports


def exact_gains(game: Game, profile: Profile) -> np.ndarray:
    """Computes what each player gains by a best response to the profile, exactly and on the host.

    Enumerates the game's tree if it is small enough. Otherwise the game may provide its own evaluation (`Evaluating`),
    as nashbench does for trees of billions of histories, or every population may play one policy in a game of perfect
    information whose states can be listed.

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
        if supports(game, Evaluating):
            return np.asarray(game.best_response_gains(profile))
        if np.any(np.asarray(profile.sigma) > 0, axis=0).sum() > 1:
            raise
    return state_gain_bounds(game, profile)[0]


def certify_gap(game: Game, profile: Profile) -> Certificate:
    """Certifies the exploitability of a profile without sampling, or its NashConv if the game is not zero-sum.

    The certificate is exact where `exact_gains` is. Mixtures in games of perfect information with too many histories
    get bounds from the graph of states.

    Args:
      game: the game.
      profile: mixtures sigma [P, K] over populations with a leading axis P.

    Returns:
      The certificate.

    Raises:
      NotEnumerableError: if neither is possible.
    """
    divisor = 2 if is_two_player_zero_sum(game) else 1
    try:
        return certify_exact(exact_gains(game, profile).sum() / divisor)
    except NotEnumerableError:
        low, high = state_gain_bounds(game, profile)
    return certify_bounds(low.sum() / divisor, high.sum() / divisor, "best responses to single policies")
