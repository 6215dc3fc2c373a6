"""Two-player turn-based games of pgx behind the `Game` protocol, as pgx has them: `pgx:<id>`.

Poker observations of pgx hide the seat and forget the betting, so the policies best for them are exploitable by
construction; `gems_jax.games.poker` appends both (perfect recall).
"""

from __future__ import annotations

from dataclasses import dataclass

import jax

from gems_jax.games.turns import TurnGame, TurnRules

# Games that have a name of their own in `gems_jax.games.GAMES`; the others are called pgx:<id>.
NAMED = ("tic_tac_toe", "connect_four", "go_9x9", "chess")
RULES: dict[str, TurnRules] = {
    "kuhn_poker": TurnRules(3, (-2.0, 2.0), chance=True),
    "leduc_holdem": TurnRules(8, (-13.0, 13.0), chance=True),
    "tic_tac_toe": TurnRules(9),
    "connect_four": TurnRules(42),
    "go_9x9": TurnRules(162),
    "go_19x19": TurnRules(722),
    "chess": TurnRules(512, turns=3),
    "gardner_chess": TurnRules(256, turns=3),
    "animal_shogi": TurnRules(256),
    "shogi": TurnRules(512),
    "hex": TurnRules(122),  # 121 fields, and the swap of the first stone
    "othello": TurnRules(119),  # 60 stones, at most one pass between two of them
    "backgammon": TurnRules(0, (-3.0, 3.0), chance=True),
}


@jax.tree_util.register_static
@dataclass(frozen=True)
class PgxGame(TurnGame):
    """A two-player game of pgx: `id` as pgx spells it. Options: see `TurnGame`."""

    id: str

    @property
    def rules(self) -> TurnRules:
        return RULES.get(self.id, TurnRules(0))

    @property
    def name(self) -> str:
        return self.id if self.id in NAMED else f"pgx:{self.id}"
