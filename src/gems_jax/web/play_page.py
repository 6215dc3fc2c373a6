"""The page in which a person plays against a mixture, or two mixtures play each other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gems_jax.evaluate.loaded_policy import LoadedPolicy
from gems_jax.games.boards.games import ConnectFour
from gems_jax.games.turns import TurnGame
from gems_jax.runner.errors import RunError
from gems_jax.types import Game
from gems_jax.web.page import make_page, write_page
from gems_jax.web.policies import PolicyData, read_policy

MAX_BYTES = 3_000_000  # of a page
MAX_DROPPED = 0.05  # largest mass that may be cut from a mixture to fit
PLAYABLE = {
    "kuhn_poker": "Kuhn poker",
    "leduc_holdem": "Leduc hold'em",
    "tic_tac_toe": "Tic-tac-toe",
    "connect_four": "Connect Four",
    "go_9x9": "Go on 9x9",
}
RULES = ("rules/poker.js", "rules/lines.js", "rules/go.js")
INFERENCE = ("networks.js", "mixture.js")
_SCRIPTS = (*RULES, *INFERENCE, "dom.js", "tables.js", "boards.js", "match.js", "play.js")


class NotPlayableError(RunError):
    """Raised if a policy cannot be put into a page."""

    exit_code = 2


def write_play_page(
    policy: LoadedPolicy, path: Path | str, second: LoadedPolicy | None = None, *, names: Sequence[str] = ()
) -> Path:
    """Writes a self-contained page in which a person plays against a mixture.

    >>> import tempfile
    >>> from gems_jax import load
    >>> from gems_jax.web import write_play_page
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     page = write_play_page(load("kuhn"), f"{folder}/play.html")
    ...     "<script" in page.read_text()
    True

    Args:
      policy: the mixture, of one of the games of `PLAYABLE`.
      path: HTML file to write.
      second: another mixture of the same game, which can play as well.
      names: how the page calls the policies, by default the last part of their sources.

    Returns:
      The path.

    Raises:
      RunError: if the game or a policy does not fit a page, or the file cannot be written.
    """
    return write_page(path, make_play_page(policy, second, names))


def make_play_page(policy: LoadedPolicy, second: LoadedPolicy | None = None, names: Sequence[str] = ()) -> str:
    """Makes the HTML text of `write_play_page`, whose arguments it takes."""
    policies = [policy] if second is None else [policy, second]
    games = [describe_rules(one.game) for one in policies]
    if games[0] != games[-1]:
        raise NotPlayableError(
            f"two policies: expected one game, got {policy.game.name} and {policies[-1].game.name}. Choose policies "
            "of one game and with equal options"
        )
    called = _distinct(
        [*names, *(Path(one.source).name.removesuffix(".safetensors") for one in policies[len(names) :])]
    )
    whole = [read_policy(one) for one in policies]

    def render(parts: list[PolicyData]) -> str:
        records = [make_record(*each) for each in zip(policies, parts, called, strict=True)]
        data = {"game": games[0], "policies": records}
        return make_page(f"{games[0]['title']}: play", "play.html", ("base.css", "play.css"), _SCRIPTS, data)

    text = render(whole)
    size = len(text.encode())
    if size <= MAX_BYTES:
        return text
    besides = size - sum(one.count_bytes() for one in whole)
    return render(fit(whole, MAX_BYTES - besides))


def describe_rules(game: Game) -> dict[str, Any]:
    """Describes a game for the page: its name, title and options.

    Raises:
      NotPlayableError: if the page does not know the rules.
    """
    options = _OPTIONS.get(getattr(game, "id", ""), _no_options)(game)
    if options is None:
        raise NotPlayableError(
            f"{game.name}: expected one of {', '.join(PLAYABLE)} with its usual length and cards, got another game or "
            "other options. `gems play` plays it in the terminal"
        )
    return {"name": game.id, "title": PLAYABLE[game.id], "options": options}  # type: ignore[attr-defined]


def _no_options(game: Game) -> None:
    return None


def _turn_options(game: Any) -> dict[str, Any] | None:
    known = isinstance(game, TurnGame) and not game.truncates and not game.suits
    own_name = game.name.split(":")[0] != "pgx"  # pgx's poker shows other observations
    return {"observation": game.observation} if known and own_name else None


def _connect_four_options(game: ConnectFour) -> dict[str, Any] | None:
    options = _turn_options(game)
    size = {name: getattr(game, name, usual) for name, usual in (("rows", 6), ("columns", 7), ("connect", 4))}
    return options if options is None else {**options, **size}


_OPTIONS: dict[str, Any] = {**dict.fromkeys(PLAYABLE, _turn_options), "connect_four": _connect_four_options}


def fit(policies: list[PolicyData], room: int) -> list[PolicyData]:
    """Removes the lightest anchors until all policies fit together.

    Args:
      policies: the policies.
      room: bytes for all of them.

    Returns:
      The policies that fit.

    Raises:
      NotPlayableError: if more than `MAX_DROPPED` of a population's mass would be removed.
    """
    while (size := sum(one.count_bytes() for one in policies)) > room:
        largest = max(range(len(policies)), key=lambda index: policies[index].count_bytes())
        smaller = policies[largest].drop_lightest()
        if smaller is None or smaller.dropped_mass() > MAX_DROPPED:
            raise NotPlayableError(
                f"the page would be too large: expected at most {room:,} bytes of parameters, got {size:,} after "
                f"removing anchors of at most {MAX_DROPPED:.0%} of the mass. Use a smaller network or fewer anchors"
            )
        policies = [smaller if index == largest else one for index, one in enumerate(policies)]
    return policies


def make_record(policy: LoadedPolicy, data: PolicyData, name: str) -> dict[str, Any]:
    """Makes the record of a policy that `mixture.js` reads.

    Args:
      policy: the mixture.
      data: its networks and parameters, which may have been cut.
      name: how the page calls it.

    Returns:
      Plain data.
    """
    game = policy.game
    row = policy.last_row
    return {
        **data.record(),
        "name": name,
        "method": policy.method,
        "seed": policy.seed,
        "iteration": policy.iteration,
        "populationOf": [game.population_of_player[player] for player in game.player_of_seat],
        "dropped": data.dropped_mass(),
        "measured": {key: float(row[key]) for key in ("exploitability", "score_random") if key in row},
    }


def _distinct(names: Sequence[str]) -> list[str]:
    """Numbers repeated names."""
    return [name if names.count(name) == 1 else f"{name} ({index + 1})" for index, name in enumerate(names)]
