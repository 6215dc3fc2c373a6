"""The registry of games by name. Making a game loads the library it needs."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from gems_jax.games.adapters.jaxmarl import jaxmarl_game
from gems_jax.games.adapters.nashbench import nashbench_game
from gems_jax.games.adapters.openspiel import openspiel_game
from gems_jax.games.adapters.own import check_made, find_own
from gems_jax.games.adapters.pettingzoo import environment_game, pettingzoo_game
from gems_jax.games.adapters.pgx import RULES, PgxGame
from gems_jax.games.boards.games import Chess, ConnectFour, Go
from gems_jax.games.deceptive import DeceptiveMessages
from gems_jax.games.hanabi.game import Hanabi
from gems_jax.games.history import WithHistory, with_history
from gems_jax.games.liars_dice import LiarsDice
from gems_jax.games.matrix import (
    MatrixGame,
    biased_matching_pennies,
    biased_rps,
    matching_pennies,
    matrix_game,
    prisoners_dilemma,
    rock_paper_scissors,
)
from gems_jax.games.multiplayer_kuhn import MultiplayerKuhn
from gems_jax.games.multiplayer_leduc import MultiplayerLeduc
from gems_jax.games.nim import Nim
from gems_jax.games.particles import SimpleSpread, SimpleTag
from gems_jax.games.poker import KuhnPoker, LeducHoldem
from gems_jax.games.public_goods import PublicGoods
from gems_jax.games.tabulated import goofspiel, tabulated_game
from gems_jax.host.own import UnknownNameError
from gems_jax.host.pettingzoo import is_environment
from gems_jax.types import Game, did_you_mean, expect


class GameEntry(NamedTuple):
    """A row of the registry: the factory, whose keyword arguments are the options, and a description."""

    factory: Callable[..., Game]
    description: str
    library: str = ""  # library that making the game loads besides gems_jax; empty for none
    extra: str = ""  # gems_jax[extra] installs the library; empty if it comes with gems_jax


def history_game(name: str, **options: Any) -> WithHistory:
    """Makes a game by name and adds the history to its observations.

    Args:
      name: the game without the prefix. Your own games are not imported here: that needs a name that states it.
      **options: keyword arguments of the game.

    Returns:
      The game with history.

    Raises:
      ValueError: for a game of your own, or one that runs in Python or has continuous actions.
    """
    expect(
        not is_own(name),
        f"history:<id> is for the games of gems_jax, got {name!r}. Put `remembering = with_history(MyGame())` into "
        "your own module and name it as package.module:remembering.",
    )
    return with_history(make_game(name, **options))


# name -> how to make it, and its description
GAMES: dict[str, GameEntry] = {
    "kuhn_poker": GameEntry(KuhnPoker, "Kuhn poker: 3 cards, 12 information sets", "pgx"),
    "leduc_holdem": GameEntry(LeducHoldem, "Leduc hold'em: 6 cards, 2 betting rounds", "pgx"),
    "kuhn_poker_3p": GameEntry(
        partial(MultiplayerKuhn, 3), "Kuhn poker for three players: 4 cards, 48 information sets"
    ),
    "leduc_poker_3p": GameEntry(
        partial(MultiplayerLeduc, 3), "Leduc poker for three players: 4 ranks, 7,428 information sets"
    ),
    "liars_dice": GameEntry(LiarsDice, "Liar's Dice, one die each: 24,576 information sets, exact exploitability"),
    "goofspiel": GameEntry(
        goofspiel, "Goofspiel, 4 cards, imperfect information: 3,608 information sets", "open_spiel", "openspiel"
    ),
    "nim": GameEntry(Nim, "Nim with any heaps, normal or misère: exact exploitability of small heaps"),
    "tic_tac_toe": GameEntry(
        partial(PgxGame, "tic_tac_toe"), "noughts and crosses, a draw with best play, exact exploitability", "pgx"
    ),
    "connect_four": GameEntry(
        ConnectFour, "four in a row on 7 columns of 6, or smaller: exact exploitability with 3 in a row on 3x4", "pgx"
    ),
    "go_9x9": GameEntry(Go, "Go on 9x9 points, komi 7.5, at most 162 moves", "pgx"),
    "chess": GameEntry(Chess, "chess, 4672 moves, a draw after 512 plies", "pgx"),
    "simple_tag": GameEntry(SimpleTag, "MPE: three pursuers and a faster evader among two obstacles"),
    "simple_spread": GameEntry(SimpleSpread, "MPE: three agents cover three landmarks without touching"),
    "hanabi": GameEntry(Hanabi, "Hanabi, 2 to 5 players: cooperative, players see all cards but their own"),
    "rock_paper_scissors": GameEntry(rock_paper_scissors, "matrix game, Nash (1/3, 1/3, 1/3)"),
    "biased_rps": GameEntry(biased_rps, "rock-paper-scissors with wins of a, b, c, Nash proportional to (b, c, a)"),
    "matching_pennies": GameEntry(matching_pennies, "matrix game, Nash (1/2, 1/2)"),
    "biased_matching_pennies": GameEntry(biased_matching_pennies, "matrix game, Nash (2/5, 3/5), value 1/5"),
    "prisoners_dilemma": GameEntry(prisoners_dilemma, "two players, general-sum, one dominant action"),
    "deceptive_messages": GameEntry(DeceptiveMessages, "a Sender and a Receiver: 2 moves, general-sum or zero-sum"),
    "public_goods": GameEntry(PublicGoods, "n players contribute or not: a social dilemma while r / n < c < r"),
    "matrix": GameEntry(matrix_game, "your own payoffs: a matrix, a pair of matrices, or a tensor for n players"),
}
# Families of names, as they are written.
KINDS: dict[str, GameEntry] = {
    "pgx:<id>": GameEntry(PgxGame, "any two-player game of pgx: pgx:hex, pgx:othello, pgx:go_19x19, ...", "pgx"),
    "jaxmarl:<id>": GameEntry(
        jaxmarl_game,
        "any environment of JaxMARL with step_env: jaxmarl:MPE_simple_push_v3, jaxmarl:SMAX, ...",
        "jaxmarl",
        "jaxmarl",
    ),
    "pz:<id>": GameEntry(
        pettingzoo_game,
        "PettingZoo, mpe2, in Python: pz:connect_four_v3, pz:hanabi_v5 (truncated upstream), ...",
        "pettingzoo",
        "pettingzoo",
    ),
    "openspiel:<id>": GameEntry(
        openspiel_game,
        "OpenSpiel, in Python: openspiel:leduc_poker, openspiel:goofspiel(num_cards=4), ...",
        "open_spiel",
        "openspiel",
    ),
    "tabulated:<id>": GameEntry(
        tabulated_game,
        "small games of OpenSpiel as arrays, compiled: tabulated:openspiel:leduc_poker, ...",
        "open_spiel",
        "openspiel",
    ),
    "history:<id>": GameEntry(
        history_game, "another game with each seat's past observations and moves in its observation: history:nim, ..."
    ),
    "nashbench:<id>": GameEntry(
        nashbench_game,
        "exact exploitability of large games, Python 3.12: nashbench:phantom_ttt, ...",
        "nashbench",
        "nashbench",
    ),
}


_MADE: dict[Game, tuple[str, dict[str, Any]]] = {}  # how the games of this process were made


def make_game(name: str, **options: Any) -> Game:
    """Makes a game by name.

    A user-defined name, `package.module:MyGame`, is imported, which runs code: pass only names that you trust. For
    names in files use `gems_jax.load`, which imports nothing unless `trust=True`.

    >>> from gems_jax import make_game
    >>> game = make_game("biased_rps", a=1.0, b=2.0, c=3.0)
    >>> game.num_seats, game.num_actions, game.zero_sum
    (2, 3, True)

    Args:
      name: a key of `GAMES`, a name such as `pgx:<id>` of a provider in `KINDS`, or `package.module:MyGame` of your
        own: a class or an instance with the attributes of `Game`, or an environment class of PettingZoo (AEC or
        parallel).
      **options: keyword arguments of the game; `game_options(name)` lists them.

    Returns:
      A `Game`.

    Raises:
      NotAGameError: if a user-defined name refers to anything else, such as a function. It is not called.
      ValueError: if the name or an option is unknown, or a required option is missing.
      ImportError: if the library that the game needs is not installed.
    """
    game = _make(name, _factory(name), options)
    with contextlib.suppress(TypeError):  # a game that is not hashable
        _MADE[game] = (name, options)
    return game


def _make(name: str, factory: Any, options: dict[str, Any]) -> Game:
    if is_own(name) and is_environment(factory):
        return environment_game(name, **options)
    if isinstance(factory, Game) and not isinstance(factory, type):  # a user's own instance
        got = ", ".join(options)
        expect(not options, f"The game {name!r} is an instance: expected no options, got {got}.")
        return check_made(name, factory)
    _check_options(name, _options(factory), options)
    made = factory(**options)
    return check_made(name, made) if is_own(name) else made


def describe_game(game: Game) -> tuple[str, dict[str, Any]] | None:
    """Finds a name and options with which `make_game` makes an equal game.

    Args:
      game: a game of `make_game` or `matrix_game`, or an instance of a user's own class.

    Returns:
      The name and the options; None if there are none, such as for a class that is defined inside a function.
    """
    with contextlib.suppress(TypeError):
        if game in _MADE:
            return _MADE[game]
    if isinstance(game, MatrixGame):
        return "matrix", {
            "payoffs": np.asarray(game.payoffs).tolist(),
            **{name: getattr(game, name) for name in ("shared", "return_bounds", "zero_sum")},
        }
    kind: Any = type(game)
    fields = dataclasses.fields(kind) if dataclasses.is_dataclass(kind) else ()
    options: dict[str, Any] = {field.name: getattr(game, field.name) for field in fields if field.init}
    name = f"{kind.__module__}:{kind.__qualname__}"
    try:
        return (name, options) if make_game(name, **options) == game else None
    except (ValueError, TypeError, ImportError):
        return None


def _check_options(name: str, known: dict[str, bool] | None, options: dict[str, Any]) -> None:
    if known is None:  # accepts any option
        return
    unknown = sorted(options.keys() - known.keys())
    allowed = f"Known options: {', '.join(known)}." if known else "It takes none."
    hint = did_you_mean(unknown[0], known).replace("did", "Did", 1) if unknown else ""
    expect(not unknown, f"The game {name!r} has no option {', '.join(map(repr, unknown))}. {hint}{allowed}")
    missing = sorted({option for option, required in known.items() if required} - options.keys())
    how = f"make_game({name!r}, {''.join(missing[:1])}=...)"
    expect(not missing, f"The game {name!r} needs {', '.join(missing)}: {how}.")


def game_options(name: str) -> tuple[str, ...]:
    """Returns the names of the options that `make_game(name, ...)` takes."""
    return tuple(_options(_factory(name)) or ())


def is_own(name: str) -> bool:
    """Returns whether `make_game(name)` would import a user's own class, `package.module:MyGame`."""
    provider, separator, _ = name.partition(":")
    return bool(separator) and name not in GAMES and f"{provider}:<id>" not in KINDS


def _factory(name: str) -> Any:
    """Returns the factory of a name, or the imported and checked class or instance of a user's own."""
    if not isinstance(name, str):
        raise ValueError(f"A game's name is a string, got {name!r}. A game object needs no make_game.")
    if name in GAMES:
        return GAMES[name].factory
    if is_own(name):
        try:
            return find_own(name)
        except UnknownNameError as error:
            known = ", ".join([*GAMES, *KINDS])
            raise UnknownNameError(f"Unknown game {name!r}: {error}. Known games: {known}.") from None
    provider, separator, rest = name.partition(":")
    if not separator:
        hint = did_you_mean(name, [*GAMES, *(f"pgx:{id}" for id in RULES if id not in GAMES)], 3)
        expect(not hint, f"Unknown game {name!r}; {hint}`gems games` lists all games.")
        raise ValueError(
            f"Unknown game {name!r}; known games: {', '.join(GAMES)}; besides pgx:<id> for a two-player game of "
            "pgx, jaxmarl:<id> for an environment of JaxMARL, pz:<id> for one of PettingZoo, openspiel:<id> for one of "
            "OpenSpiel, tabulated:openspiel:<id> for a small one as arrays, nashbench:<id> for one of nashbench, "
            "history:<id> for a game that remembers and package.module:MyGame for your own."
        )
    return partial(KINDS[f"{provider}:<id>"].factory, rest)


def _options(factory: Any) -> dict[str, bool] | None:
    """Returns the keyword arguments of a factory and whether each is required; None if it accepts any."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return {p.name: p.default is p.empty for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
