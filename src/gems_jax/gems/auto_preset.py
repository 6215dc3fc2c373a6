"""Settings of GEMS for any game: the tuned settings of a game of the same class, scaled to the game's declared sizes.

    class          games                                                    derived from
    one_shot       one move, all at once: matrix games                      KUHN_REPLAY
    small          enumerable, at most 200 information sets                 KUHN_REPLAY, KUHN_3P_REPLAY
    large          enumerable, more information sets                        LEDUC_REPLAY, LIARS_DICE_REPLAY
    positions      a small board whose positions can be listed              TIC_TAC_TOE_TUNED
    turn_based     not enumerable, one seat moves at a time: boards         CONNECT_FOUR_TUNED, GO_TUNED, CHESS_TUNED
    simultaneous   not enumerable, several seats at once, or real actions   MPE_TUNED
    python         runs in Python                                           those of Python's Leduc and Connect Four

`make defaults` measures what these settings reach.
"""

from __future__ import annotations

import math

from gems_jax.config import GemsConfig
from gems_jax.extensive.state_graph import build_state_graph
from gems_jax.extensive.tree import build_tree, is_enumerable
from gems_jax.gems.env_steps import fit_budget
from gems_jax.gems.tuned_presets import (
    CHESS_TUNED,
    CONNECT_FOUR_TUNED,
    GO_TUNED,
    KUHN_3P_REPLAY,
    KUHN_REPLAY,
    LEDUC_REPLAY,
    LIARS_DICE_REPLAY,
    MPE_TUNED,
    PYTHON_CONNECT_FOUR_TUNED,
    PYTHON_LEDUC_TUNED,
    TIC_TAC_TOE_TUNED,
)
from gems_jax.host.stages import on_host
from gems_jax.types import Bounded, Game, InfosetTable, NotEnumerableError, num_players, supports

SMALL, LARGE = 200, 10_000  # information sets up to which a game is small, and tables have a wide generator
LONG = 64  # plies from which settings of long games apply
MANY_ACTIONS = 512  # actions of a board from which every square emits its own logits
SMALL_OBSERVATION = 128  # numbers per observation above which codes share a torso
MAX_MOVES = 2**16  # moves of all positions up to which a table of positions is generated
_UPDATES = KUHN_3P_REPLAY.meta_steps


def auto_preset(game: Game, env_steps: int | None = None) -> GemsConfig:
    """Derives settings of GEMS from the declared sizes of a game.

    The class of the game (`class_of_game`) selects tuned settings of another game. With A actions, n players, T =
    `max_steps` and I information sets, these fields are scaled:

        one_shot       iterations = capacity = 24 + A, at most 64; buffer_episodes = 8,192 if n > 2
        small          those of Kuhn poker for n = 2 and n > 2
        large          those of Leduc poker, above I = 10,000 those of Liar's Dice
        these three    meta_steps = 60 if n > 2, because every update of the mixtures then reads all stored episodes
        positions      those of tic-tac-toe
        turn_based     T < 64: Connect Four, otherwise Go, and chess for boards of A > 512; abr_segment = min(T, 64)
        simultaneous   those of simple_spread; a shared torso for observations of more than 128 numbers; no discount if
                       no time limit ends episodes
        python         a table if enumerable, otherwise the smaller batches of Python's Connect Four

    Everything else is scaled by one number, the environment steps per iteration.

    >>> from gems_jax import make_game
    >>> config = auto_preset(make_game("rock_paper_scissors"))
    >>> config.policy, config.iterations, config.capacity
    ('tabular', 27, 27)

    Args:
      game: the game. It may be traced only if it lists its information sets, as matrix games do.
      env_steps: environment steps per iteration, to which all phases are fitted (`fit_budget`, which compiles a few
        episodes); None for the sizes of the class.

    Returns:
      Settings that are valid for the game.

    Raises:
      ValueError: if the budget is too small.
    """
    config = _DERIVE[class_of_game(game)](game).validate()
    return config if env_steps is None else fit_budget(game, config, env_steps)


def class_of_game(game: Game) -> str:
    """Finds the class of a game: one of those of the module's table.

    Args:
      game: the game.

    Returns:
      "one_shot", "small", "large", "positions", "turn_based", "simultaneous" or "python".
    """
    if on_host(game):
        return "python"
    if game.max_steps == 1 and game.simultaneous and not game.continuous and _has_table(game):
        return "one_shot"
    if is_enumerable(game):
        return "small" if build_tree(game).num_infosets <= SMALL else "large"
    if game.simultaneous or game.continuous:
        return "simultaneous"
    return "positions" if _lists_positions(game) else "turn_based"


def _has_table(game: Game) -> bool:
    return supports(game, InfosetTable) or is_enumerable(game)


def _lists_positions(game: Game) -> bool:
    try:
        build_state_graph(game, MAX_MOVES)
    except NotEnumerableError:
        return False
    return True


# A return of a one-shot game is hardly random given the actions, so that a weak prior suffices, and a fifth of the
# stored decisions explore. The newest anchor learns from fresh episodes of one step, which are cheap.
ONE_SHOT = KUHN_REPLAY.replace(
    mixture_samples=2_000,
    buffer_episodes=32_768,
    prior_count=0.1,
    exploration=0.2,
    latent_dim=16,
    replay_steps=0,
    abr_steps=100,
    abr_opponents=512,
    learning_rate=0.005,
    learning_rate_decay=0.0,
    beta_kl=10.0,
    entropy_weight=0.003,
    entropy_decay=0.0,
)


def _one_shot(game: Game) -> GemsConfig:
    slots = min(24 + game.num_actions, 64)
    config = ONE_SHOT.replace(iterations=slots, capacity=slots)
    return config if num_players(game) == 2 else config.replace(buffer_episodes=8_192, meta_steps=_UPDATES)


def _small(game: Game) -> GemsConfig:
    return KUHN_REPLAY if num_players(game) == 2 else KUHN_3P_REPLAY


def _large(game: Game) -> GemsConfig:
    config = LEDUC_REPLAY if build_tree(game).num_infosets <= LARGE else LIARS_DICE_REPLAY
    return config if num_players(game) == 2 else config.replace(meta_steps=_UPDATES)


def _positions(game: Game) -> GemsConfig:
    del game
    return TIC_TAC_TOE_TUNED


def _turn_based(game: Game) -> GemsConfig:
    board = len(game.observation_shape) == 3
    base = CONNECT_FOUR_TUNED.replace(iterations=200) if game.max_steps < LONG else GO_TUNED
    if board and game.num_actions > MANY_ACTIONS:
        base = CHESS_TUNED.replace(iterations=200)
    channels = base.critic_channels if board else 0
    return base.replace(abr_segment=min(game.max_steps, LONG), critic_channels=channels)


def _simultaneous(game: Game) -> GemsConfig:
    large = math.prod(game.observation_shape) > SMALL_OBSERVATION
    endless = not supports(game, Bounded) or game.truncates
    torso = {"policy": "film", "policy_hidden": (64, 64), "output_rate": 0.03} if large else {}
    return MPE_TUNED.replace(discount=0.95 if endless else 1.0, **torso)


def _python(game: Game) -> GemsConfig:
    if is_enumerable(game):
        return PYTHON_LEDUC_TUNED
    small = PYTHON_CONNECT_FOUR_TUNED
    if not (game.simultaneous or game.continuous):
        return small.replace(abr_segment=min(game.max_steps, LONG))
    sizes = ("iterations", "capacity", "num_opponents", "meta_steps", "oracle_opponents", "mutations", "randoms")
    batch = {"abr_steps": 8, "abr_opponents": small.abr_opponents, "abr_episodes": small.abr_episodes}
    return _simultaneous(game).replace(**{name: getattr(small, name) for name in sizes}, **batch)


_DERIVE = {
    "one_shot": _one_shot,
    "small": _small,
    "large": _large,
    "positions": _positions,
    "turn_based": _turn_based,
    "simultaneous": _simultaneous,
    "python": _python,
}
