"""Number of episodes of an iteration of GEMS, computed from the settings."""

from __future__ import annotations

from typing import Any, NamedTuple

from gems_jax.config import GemsConfig
from gems_jax.types import Game, num_players

Count = Any  # an int, or a traced [] int32


class PhaseEpisodes(NamedTuple):
    """Episodes of one unit of each phase; traced if the number of anchors is traced."""

    meta_update: Count  # one estimate of the meta-game
    oracle_call: Count  # all rounds of the oracle
    oracle_round: int  # one oracle round beyond the first
    protection: int  # states of the trust region
    abr_step: int  # one ABR step; with `abr_segment` the number of ongoing games, each of which takes a segment

    def sum_without_training(self, config: GemsConfig, oracle: bool = True) -> Count:
        """Sums the episodes of an iteration without its ABR steps; `oracle`: whether the oracle is called."""
        return config.num_estimates * self.meta_update + oracle * self.oracle_call + self.protection


def phase_episodes(config: GemsConfig, players: int, anchors: Count) -> PhaseEpisodes:
    """Counts the episodes of one unit of each phase.

    Args:
      config: settings.
      players: number of players.
      anchors: number of anchors of every player's population, summed over players; static, or [] traced.

    Returns:
      Episodes as `GemsMetrics.episodes` counts them, up to pulls that `run_oracle` loses to rounding.
    """
    per_anchor = anchors * config.num_opponents * config.episodes * (config.estimator == "per_anchor")
    candidates = players * config.pool_size(0) + anchors * config.pool_anchors
    joint = config.joint_opponents
    in_round = config.oracle_opponents // config.oracle_rounds
    return PhaseEpisodes(
        meta_update=per_anchor + config.joint_episodes,
        oracle_call=candidates * config.oracle_opponents * config.oracle_episodes,
        oracle_round=players * config.pool_size() * in_round * config.oracle_episodes,
        protection=players * config.capacity * config.kl_opponents,
        abr_step=(players * config.abr_anchors * (config.abr_opponents - joint) + joint) * config.abr_episodes,
    )


def episodes_per_phase(game: Game, config: GemsConfig, anchors: int) -> PhaseEpisodes:
    """Counts the episodes of each phase if every population has `anchors` anchors; see `phase_episodes`."""
    return phase_episodes(config, num_players(game), num_players(game) * anchors)
