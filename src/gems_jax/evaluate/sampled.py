"""One row of scalars per iteration for games that cannot be walked: whole episodes of the played mixture.

`sampled_monitor(game, solver, episodes)` gives the pair `(init_monitor, measure)` that a driver scans along with the
step. Everything is a mean over at least `episodes` episodes of fresh random play, whose number is not part of the
solver's budget; `<column>_interval` is half of its 95 % interval.

    column                      meaning
    return_<player>             return of the player when everybody is drawn from the mixture, in games that are not
                                zero-sum or whose players have names
    score_<opponent>            against a fixed opponent, in all places: wins + draws / 2 (two players, zero-sum)
    win_<opponent>, draw_<opponent>
                                shares of episodes won and drawn
    <player>_vs_<opponent>      return of the player with everybody else that opponent (other games)
    length                      mean number of steps of an episode of the mixture

Opponents are those of `opponents_of(game)`: whoever plays at random, and what the game has besides.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from gems_jax.estimate import draw_opponents, player_return
from gems_jax.evaluate.head_to_head import DRAWS, Results, against, half_interval, head_to_head
from gems_jax.evaluate.monitor import InitMonitor, Measure, Row, training_columns
from gems_jax.evaluate.opponents import opponents_of
from gems_jax.population import materialise
from gems_jax.rollout import play_episode, play_joint
from gems_jax.types import Array, Game, Profile, PyTree, Solver, num_players


def sampled_monitor(
    game: Game, solver: Solver, episodes: int = 256, every: int = 1, seed: int = 0
) -> tuple[InitMonitor, Measure]:
    """Measures every `every`-th iteration; the rows between repeat the last one. Episodes are seeded by iteration."""

    def init_monitor(state: PyTree) -> PyTree:
        shapes = jax.eval_shape(lambda s: sampled_row(jax.random.key(seed), game, solver.profile(s), episodes), state)
        zeros = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return {"row": zeros, "time": jnp.int32(0)}

    def measure(monitor: PyTree, before: PyTree, metrics: PyTree, after: PyTree) -> tuple[PyTree, Row]:
        time = monitor["time"]
        key = jax.random.fold_in(jax.random.key(seed), time)

        def fresh() -> Row:
            return sampled_row(key, game, solver.profile(after), episodes)

        row = fresh() if every == 1 else jax.lax.cond(time % every == 0, fresh, lambda: monitor["row"])
        return {"row": row, "time": time + 1}, row | training_columns(metrics)

    return init_monitor, measure


def sampled_row(key: Array, game: Game, profile: Profile, episodes: int) -> Row:
    """All columns of one profile, [] each. key: consumed."""
    names = player_names(game)
    key_joint, key_fixed = jax.random.split(key)
    row = _joint_columns(key_joint, game, profile, episodes, names)
    opponents = opponents_of(game)
    for opponent_key, (label, opponent) in zip(
        jax.random.split(key_fixed, len(opponents)), opponents.items(), strict=True
    ):
        if num_players(game) == 2 and game.zero_sum:
            row |= _score_columns(label, against(opponent_key, game, profile, opponent, episodes))
        elif num_players(game) > 1:
            for player_key, (player, name) in zip(
                jax.random.split(opponent_key, len(names)), enumerate(names), strict=True
            ):
                found = head_to_head(player_key, game, profile, opponent, player, episodes)
                row |= {f"{name}_vs_{label}": found.mean, f"{name}_vs_{label}_interval": found.interval}
    return row


def player_names(game: Game) -> tuple[str, ...]:
    """The game's own names for its players, or their numbers."""
    return tuple(getattr(game, "player_names", None) or (f"player_{p}" for p in range(num_players(game))))


def _score_columns(label: str, found: Results) -> Row:
    return {
        f"score_{label}": found.win + found.draw / 2,
        # a score is (return + 1) / 2 where a game is won, drawn or lost by 1
        f"score_{label}_interval": found.interval / 2,
        f"win_{label}": found.win,
        f"draw_{label}": found.draw,
    }


def _joint_columns(key: Array, game: Game, profile: Profile, episodes: int, names: tuple[str, ...]) -> Row:
    key_draw, key_play = jax.random.split(key)
    stacked = materialise(profile.population, profile.sigma.shape[1])
    draws = min(DRAWS, episodes)
    indices = draw_opponents(key_draw, game, jnp.log(profile.sigma), (draws,), stratified=True)
    played = play_joint(play_episode, key_play, game, stacked, indices, -(-episodes // draws))
    row: Row = {"length": played.length.mean()}
    if game.zero_sum and getattr(game, "player_names", None) is None:
        return row
    for player, name in enumerate(names):
        returns = player_return(game, player, played.returns)
        row[f"return_{name}"] = returns.mean()
        row[f"return_{name}_interval"] = half_interval(returns)
    return row
