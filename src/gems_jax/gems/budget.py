"""Episodes that an iteration of GEMS plays, counted beforehand."""

from __future__ import annotations

from typing import Any, NamedTuple

from gems_jax.config import GemsConfig
from gems_jax.types import Game, num_players

Count = Any  # an int, or a traced [] int32


class PhaseEpisodes(NamedTuple):
    """Episodes of one unit of each phase; traced where the number of anchors is."""

    meta_update: Count  # one estimate of the meta-game
    oracle_call: Count  # all rounds of the oracle
    oracle_round: int  # one of its rounds beyond the first
    protection: int  # states of the trust region
    abr_step: int  # one ABR step; with `abr_segment` ongoing games instead, which all take a segment's steps

    def besides_training(self, config: GemsConfig, oracle: bool = True) -> Count:
        """Sums an iteration without its ABR steps, in which the oracle is called or not."""
        return config.num_estimates * self.meta_update + oracle * self.oracle_call + self.protection


def phase_episodes(config: GemsConfig, players: int, anchors: Count) -> PhaseEpisodes:
    """Counts the episodes of one unit of each phase.

    Args:
      config: settings.
      players: number of players.
      anchors: anchors of every player's population, summed over players; static, or [] traced.

    Returns:
      Episodes as `GemsMetrics.episodes` counts them, up to the pulls that `run_oracle` loses to rounding.
    """
    per_anchor = anchors * config.num_opponents * config.episodes * (config.estimator == "per_anchor")
    candidates = players * config.pool_size(0) + anchors * config.pool_anchors
    in_round = config.oracle_opponents // config.oracle_rounds
    return PhaseEpisodes(
        meta_update=per_anchor + config.joint_episodes,
        oracle_call=candidates * config.oracle_opponents * config.oracle_episodes,
        oracle_round=players * config.pool_size() * in_round * config.oracle_episodes,
        protection=players * config.capacity * config.kl_opponents,
        abr_step=players * config.abr_anchors * config.abr_opponents * config.abr_episodes,
    )


def episodes_with(game: Game, config: GemsConfig, anchors: int) -> PhaseEpisodes:
    """Counts the episodes of each phase where every population has the same number of anchors."""
    return phase_episodes(config, num_players(game), num_players(game) * anchors)
