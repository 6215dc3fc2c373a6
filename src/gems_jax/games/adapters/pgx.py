"""Two-player turn-based games of pgx with pgx's own observations: `pgx:<id>`.

Poker observations of pgx hide the seat and forget the betting, so even the best policies on them are exploitable;
`gems_jax.games.poker` appends both (perfect recall).
"""

from __future__ import annotations

from dataclasses import dataclass

import jax

from gems_jax.games.turns import TurnGame, TurnRules

# Games with their own name in `gems_jax.games.GAMES`; the others are called pgx:<id>.
NAMED = ("tic_tac_toe", "connect_four", "go_9x9", "chess")
# Numbers of positions, without histories: published counts and orders of magnitude.
RULES: dict[str, TurnRules] = {
    "kuhn_poker": TurnRules(3, (-2.0, 2.0), chance=True),
    "leduc_holdem": TurnRules(8, (-13.0, 13.0), chance=True),
    "tic_tac_toe": TurnRules(9, positions=5478),
    "connect_four": TurnRules(42, positions=4.5e12),
    "go_9x9": TurnRules(162, positions=1e38),
    "go_19x19": TurnRules(722, positions=2e170),
    "chess": TurnRules(512, turns=3, positions=5e44),
    "gardner_chess": TurnRules(256, turns=3, positions=9e18),
    "animal_shogi": TurnRules(256, positions=1.6e9),
    "shogi": TurnRules(512, positions=1e71),
    "hex": TurnRules(122, positions=2e56),  # 121 fields, and the swap of the first stone
    "othello": TurnRules(119, positions=1e28),  # 60 stones, at most one pass between two of them
    "backgammon": TurnRules(0, (-3.0, 3.0), chance=True, positions=1e20),
}


def approximate_positions(name: str) -> float:
    """Returns the order of magnitude of a game's positions without making it; 0 if unknown. name: as in `make_game`."""
    rules = RULES.get(name.removeprefix("pgx:"))
    return rules.positions if rules and (name in NAMED or name.startswith("pgx:")) else 0.0


@jax.tree_util.register_static
@dataclass(frozen=True)
class PgxGame(TurnGame):
    """A two-player game of pgx; `id` as pgx spells it. Options: see `TurnGame`."""

    id: str

    @property
    def rules(self) -> TurnRules:
        return RULES.get(self.id, TurnRules(0))

    @property
    def name(self) -> str:
        return self.id if self.id in NAMED else f"pgx:{self.id}"
