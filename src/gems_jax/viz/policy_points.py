"""Policies as points: what they do in the same positions, and the principal components of that.

`probe` collects positions from the play of a mixture, `choices` evaluates policies there.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.estimation.monte_carlo import draw_opponents
from gems_jax.host.stages import compile_play
from gems_jax.policies.population import materialize
from gems_jax.rollout.episode import unroll
from gems_jax.rollout.groups import play_joint
from gems_jax.types import Array, Game, Population, Profile

PROBE_GAMES, PROBE_FLOATS = 16, 2**25  # games that are probed; fewer where what is seen in them is more than this


class Probes(NamedTuple):
    """Positions of one player, as observed by the seat to move."""

    observation: Array  # [n, *observation_shape]
    legal: Array  # [n, A]


def probe(key: Array, game: Game, profile: Profile, player: int, count: int) -> Probes:
    """Draws positions of a player from games of the mixture, with repetition if there are too few.

    Positions with a single legal action are left out, because all policies agree there.

    Args:
      key: consumed.
      game: the game.
      profile: the mixture.
      player: the player.
      count: number of positions n.

    Returns:
      What the seat to move sees, and its legal actions.

    Raises:
      ValueError: if the player never had a choice.
    """
    key_play, key_pick = jax.random.split(key)
    observation, legal, acted = _gathered(key_play, game, profile)
    seats = [seat for seat, owner in enumerate(game.player_of_seat) if owner == player]
    mine = np.isin(np.arange(game.num_seats), seats)
    open_ = np.argwhere(np.asarray(acted) & mine & (np.asarray(legal).sum(axis=-1) > 1))
    if not len(open_):
        raise ValueError(f"{game.name}: in {_probe_games(game)} games player {player} never had a choice")
    order = np.asarray(jax.random.permutation(key_pick, len(open_)))
    place = tuple(open_[np.resize(order, count)].T)
    return Probes(observation[place], legal[place])


def _probe_games(game: Game) -> int:
    seen = game.max_steps * game.num_seats * int(np.prod(game.observation_shape))
    return int(np.clip(PROBE_FLOATS // seen, 1, PROBE_GAMES))


@compile_play(static_argnames=("game",))
def _gathered(key: Array, game: Game, profile: Profile) -> tuple[Array, Array, Array]:
    """Collects observations, legal actions and the acting seats in games of the mixture, [games, 1, T, S, ...]."""
    key_draw, key_play = jax.random.split(key)
    slots = draw_opponents(key_draw, game, jnp.log(profile.sigma), (_probe_games(game),), stratified=True)
    stacked = materialize(profile.population, profile.sigma.shape[1])
    played = play_joint(unroll, key_play, game, stacked, slots, 1)
    return played.observation, played.legal, played.acted


@jax.jit
def choices(population: Population, slots: Array, probes: Probes) -> Array:
    """Computes the action probabilities [slots, n, A] of policies of ONE population in the probed positions."""

    def of_slot(slot: Array) -> Array:
        params = population.select(slot)
        logits = jax.vmap(lambda seen, legal: population.apply(params, seen, legal).logits)(*probes)
        assert logits is not None, "continuous actions have no probabilities"
        return jax.nn.softmax(logits, axis=-1)

    return jax.lax.map(of_slot, slots)  # one policy after the other: all at once may not fit


def features(probabilities: np.ndarray, legal: np.ndarray) -> np.ndarray:
    """Converts [k, n, A] to points [k, d]: legal actions of all n positions, divided by sqrt(n).

    The distance of two points is then the root mean square, over positions, of the distance of two distributions.
    """
    return np.asarray(probabilities, np.float64)[:, np.asarray(legal)] / np.sqrt(legal.shape[0])


class Components(NamedTuple):
    """Principal components of points."""

    scores: np.ndarray  # [n, r], all of them: distances are those of the points
    shares: np.ndarray  # [r], of the variance, falling


def principal(points: np.ndarray) -> Components:
    """Computes principal components of points [n, d]; r = min(n, d). If all points coincide, every fraction is zero."""
    centred = points - points.mean(axis=0, keepdims=True)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    total = (values**2).sum()
    return Components(left * values, values**2 / total if total > 1e-12 else np.zeros_like(values))
