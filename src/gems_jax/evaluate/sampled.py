"""One row of scalars per iteration for games that cannot be walked: whole episodes of the played mixture.

`sampled_monitor(game, solver, episodes)` gives the pair `(init_monitor, measure)` that a driver scans along with the
step. Everything is a mean over at least `episodes` episodes with fresh random numbers, which are not part of the
solver's budget; `<column>_interval` is half of its 95 % interval.

    column                      meaning
    return_<player>             return of the player when everybody is drawn from the mixture, in games that are not
                                zero-sum or whose players have names
    score_<opponent>            against a fixed opponent, in all places: wins + draws / 2 (two players, zero-sum)
    win_<opponent>, draw_<opponent>
                                shares of episodes won and drawn
    <player>_vs_<opponent>, <opponent>_vs_<player>
                                return of the player with everybody else that opponent, and what such an opponent
                                earns there (other games; not where all are on one side)
    length                      mean number of steps of the measured episodes
    first_wins, second_wins, self_draws, decisive
                                shares of the games that the mixture plays against itself, on boards (two players,
                                zero-sum, in turn, won by 1): won by who begins (white in chess), won by the other,
                                drawn, and not drawn. A quarter of the episodes; 64 where games have over 256 steps
    centre                      chess, in those games: share of d4, d5, e4, e5 with a piece on it, mean over the
                                positions after 16 to 40 moves (both sides counted)
    captures                    simple_tag, all drawn from the mixture: how often in an episode the evader comes to be
                                touched, by any pursuer, who was touched by none a step before
    encirclement                the largest gap between pursuers as seen from the evader, in degrees, mean over the
                                steps of the episode: 120 is an equal-sided triangle, 360 one direction
    pursuer_spread              mean distance between two pursuers, over the steps of the episode
    covered                     simple_spread, all drawn from the mixture: share of landmarks with an agent within 0.1
                                in the end
    collisions                  how often in an episode two agents come to touch each other
    distinct                    share of episodes in whose end no two agents have the same nearest landmark

Opponents are those of `opponents_of(game)`: whoever plays at random, and what the game has besides.
"""

from __future__ import annotations

import itertools
from functools import partial

import jax
import jax.numpy as jnp

from gems_jax.estimation.monte_carlo import draw_opponents, player_return
from gems_jax.evaluate.behaviour import behaviour_columns, watch_of
from gems_jax.evaluate.head_to_head import DRAWS, Results, against, half_interval, head_to_head
from gems_jax.evaluate.monitor import InitMonitor, Measure, Row, training_columns
from gems_jax.evaluate.opponents import opponents_of, random_policy
from gems_jax.evaluate.statistics import normal_half_width
from gems_jax.host.stages import stage_play
from gems_jax.policies.population import StackedPolicies, materialise
from gems_jax.rollout.episode import watch_episode
from gems_jax.rollout.groups import play_joint
from gems_jax.types import (
    Array,
    Cooperative,
    Episode,
    Game,
    Profile,
    PyTree,
    Solver,
    is_two_player_zero_sum,
    num_players,
    num_populations,
    player_names,
    supports,
)

LONG_GAME = 256  # steps


def sampled_monitor(
    game: Game, solver: Solver, episodes: int = 256, every: int = 1, seed: int = 0
) -> tuple[InitMonitor, Measure]:
    """Measures the first iteration and every `every`-th; the rows between repeat the last one.

    The monitor carries that row. Episodes are seeded by iteration.
    """

    def init_monitor(state: PyTree) -> PyTree:
        shapes = jax.eval_shape(lambda s: sampled_row(jax.random.key(seed), game, solver.profile(s), episodes), state)
        return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)

    def measure(
        monitor: PyTree, before: PyTree, metrics: PyTree, after: PyTree, iteration: Array
    ) -> tuple[PyTree, Row]:
        del before
        key = jax.random.fold_in(jax.random.key(seed), iteration)

        def fresh() -> Row:
            return sampled_row(key, game, solver.profile(after), episodes)

        # all seeds of a batch are in the same iteration, so this stays a branch under vmap
        due = (iteration % every == 0) | (iteration == 1)
        row = fresh() if every == 1 else jax.lax.cond(due, fresh, lambda: monitor)
        return row, row | training_columns(metrics)

    return init_monitor, measure


@stage_play(static_argnames=("game", "episodes"))
def sampled_row(key: Array, game: Game, profile: Profile, episodes: int) -> Row:
    """All columns of one profile, [] each. key: consumed."""
    key_joint, key_fixed = jax.random.split(key)
    row = _own_columns(key_joint, game, profile, episodes)
    opponents = opponents_of(game)
    for opponent_key, label in zip(jax.random.split(key_fixed, len(opponents)), opponents, strict=True):
        if _scored(game):
            row |= _score_columns(label, against(opponent_key, game, profile, opponents[label], episodes))
        elif not _cooperative(game):
            row |= _contest_columns(opponent_key, game, profile, label, episodes)
    return row


def _own_columns(key: Array, game: Game, profile: Profile, episodes: int) -> Row:
    """Measures play in which every player is drawn from the mixture."""
    if not _scored(game):
        return _joint_columns(key, game, profile, episodes, player_labels(game))
    return _self_play_columns(key, game, profile, episodes) if _board(game) else {}


def _contest_columns(key: Array, game: Game, profile: Profile, label: str, episodes: int) -> Row:
    """Every player alone against the opponent called `label` in all other places."""
    names, opponent = player_labels(game), opponents_of(game)[label]
    row: Row = {}
    for player, player_key in enumerate(jax.random.split(key, len(names))):
        found = head_to_head(player_key, game, profile, opponent, player, episodes)
        column, reverse = f"{names[player]}_vs_{label}", f"{label}_vs_{names[player]}"
        row |= {column: found.mean, f"{column}_interval": found.interval}
        row |= {reverse: found.opponent, f"{reverse}_interval": found.opponent_interval}
    return row


def headlines(game: Game) -> tuple[str, ...]:
    """The columns that say how good a mixture is, higher is better: the first is what "best" means.

    Against the last, hardest, of the fixed opponents; what a team earns together where there is nobody else.
    """
    names, opponents = player_labels(game), tuple(opponents_of(game))
    if _scored(game):
        return tuple(f"score_{label}" for label in reversed(opponents))
    if _cooperative(game):
        return tuple(map("return_{}".format, names))
    return tuple(f"{name}_vs_{label}" for label, name in itertools.product(opponents, names))


def random_profile(game: Game) -> Profile:
    """Everybody takes any legal action: what a mixture's own figures stand beside."""
    chance = random_policy(game)
    populations = num_populations(game)
    return Profile(StackedPolicies(jnp.zeros((populations, 1, 1)), chance.apply), jnp.ones((populations, 1)))


def _scored(game: Game) -> bool:
    """Games that are won, drawn or lost."""
    return is_two_player_zero_sum(game) and player_names(game) is None


def _board(game: Game) -> bool:
    """Scored games that are won, drawn or lost by one, move by move."""
    return not game.simultaneous and game.return_bounds == (-1.0, 1.0)


def _cooperative(game: Game) -> bool:
    """Nobody plays against anybody: there is only what all earn together."""
    return num_populations(game) == 1 or (supports(game, Cooperative) and game.cooperative)


def player_labels(game: Game) -> tuple[str, ...]:
    """The game's own names for its players, or their numbers."""
    return player_names(game) or tuple(f"player_{p}" for p in range(num_players(game)))


def _score_columns(label: str, found: Results) -> Row:
    return {
        f"score_{label}": found.win + found.draw / 2,
        # a score is (return + 1) / 2 where a game is won, drawn or lost by 1
        f"score_{label}_interval": found.interval / 2,
        f"win_{label}": found.win,
        f"win_{label}_interval": normal_half_width(jnp.sqrt(found.win * (1.0 - found.win) / found.episodes)),
        f"draw_{label}": found.draw,
        "length": found.length,
    }


def _joint_columns(key: Array, game: Game, profile: Profile, episodes: int, names: tuple[str, ...]) -> Row:
    played, row = _together(key, game, profile, episodes)
    row["length"] = played.length.mean()
    for player, name in enumerate(names):
        returns = player_return(game, player, played.returns)
        row[f"return_{name}"] = returns.mean()
        row[f"return_{name}_interval"] = half_interval(returns)
    return row


def _self_play_columns(key: Array, game: Game, profile: Profile, episodes: int) -> Row:
    played, row = _together(key, game, profile, min(episodes, _self_play_games(game, episodes)))
    earned = player_return(game, 0, played.returns)
    shares = {"first_wins": earned > 0, "second_wins": earned < 0, "self_draws": earned == 0, "decisive": earned != 0}
    for column, held in shares.items():
        row |= {column: held.mean(), f"{column}_interval": half_interval(held.astype(jnp.float32))}
    return row


def _self_play_games(game: Game, episodes: int) -> int:
    """A quarter of the episodes: what is measured against others stays most of the cost. Few where games are long."""
    return DRAWS if game.max_steps > LONG_GAME else max(DRAWS, episodes // 4)


def _together(key: Array, game: Game, profile: Profile, episodes: int) -> tuple[Episode, Row]:
    """Episodes [n] with everybody drawn from the mixture, and the columns of what they were watched for."""
    key_draw, key_play = jax.random.split(key)
    stacked = materialise(profile.population, profile.sigma.shape[1])
    draws = min(DRAWS, episodes)
    indices = draw_opponents(key_draw, game, jnp.log(profile.sigma), (draws,), stratified=True)
    watch = watch_of(game)
    play = partial(watch_episode, start=watch.start, add=watch.add)
    played, seen = play_joint(play, key_play, game, stacked, indices, -(-episodes // draws))
    played, seen = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), (played, seen))
    return played, behaviour_columns(watch, seen, played.length)
