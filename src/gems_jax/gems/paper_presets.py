"""The presets called `paper`: the printed settings of the paper, and every departure from them with its reason.

The paper prints three kinds of numbers. tab:gems_default_params has the settings of Kuhn poker only.
tab:gems_master_suite has T, d_z, |Z_T| and the kind of actions of nine games. The text has rules for all games:
eta_0 = 0.08, delta_t = t^-2, v-hat_0 = 0, the estimators, Algorithm 1. A game uses the numbers of its own row, then the
text, then the Kuhn table. Settings that are not printed (network widths, lambda_J, episodes of an ABR batch) are ours,
and `config.py` marks them. `tests/data/paper_tables.toml` has the printed values with their labels, and a test compares
every preset with them: it fails for a departure that DEPARTURES does not list, and for a listed one that does not
exist.

Where the text allows two readings, the presets use these (docs/paper.md has the others):
- B counts joint profiles (eq:mc-estimators_revised, Algorithm 1). The Kuhn table calls it "Bootstrap samples".
- q_new is the fraction of opponents that are the newest anchor ("New-opponent fraction"), and a batch's anchors are
  uniform draws of Z_t ("Sample batch of anchors z ~ Z_t").
- The trust region is over the batch's anchors: eq:abr-tr_revised has one expectation over z ~ q_t.
- The pool holds mutations and random codes (Algorithm 1, both tables). The proof of the overall bound also has the
  anchors in it (`pool_anchors`).
- v-hat_0 = 0 applies to the first iteration, to the first iteration of every later anchor, and to the averages of EMA.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gems_jax.config import GemsConfig

KUHN_PAPER = GemsConfig(new_value="zero", ema_scope="both", q_new_applies="opponents", kl_protects="batch")
# All other games: eq:eta-schedules has "default eta_0 = 0.08", eq:ucb-jac has delta_t = t^-2.
GENERAL_PAPER = KUHN_PAPER.replace(eta=0.08, delta_rule="decaying")

# |Z_T| of the suite is over all players: capacity = |Z_T| / players, and k_0 = (|Z_T| - players T) / players.
DECEPTIVE_PAPER = GENERAL_PAPER.replace(iterations=6, capacity=7)
PUBLIC_GOODS_PAPER = GENERAL_PAPER.replace(iterations=10, initial_anchors=2, capacity=12, estimator="importance")

# The networks, and one episode per anchor that measures forgetting, are ours: neither is printed.
_BOARD: Mapping[str, Any] = {"policy": "film", "policy_hidden": (64, 64), "generator_scale": 0.1, "kl_opponents": 1}
BOARD_PAPER = GENERAL_PAPER.replace(iterations=200, capacity=201, **_BOARD)
CHESS_PAPER = BOARD_PAPER.replace(iterations=1000, capacity=32, policy="board", critic_channels=8)
TIC_TAC_TOE_PAPER = GENERAL_PAPER.replace(**_BOARD)  # not in the paper
MPE_PAPER = GENERAL_PAPER.replace(iterations=100, capacity=101, policy="mlp", policy_hidden=(64,), kl_opponents=1)
HANABI_PAPER = MPE_PAPER.replace(iterations=200, capacity=201)

PAPER: Mapping[str, GemsConfig] = {
    "kuhn_poker": KUHN_PAPER,
    "leduc_holdem": GENERAL_PAPER,  # not in the paper
    "deceptive_messages": DECEPTIVE_PAPER,
    "public_goods": PUBLIC_GOODS_PAPER,
    "connect_four": BOARD_PAPER,
    "go_9x9": BOARD_PAPER,
    "chess": CHESS_PAPER,
    "tic_tac_toe": TIC_TAC_TOE_PAPER,
    "simple_tag": MPE_PAPER,
    "simple_spread": MPE_PAPER,
    "hanabi": HANABI_PAPER,
}

# Options of the presets' games that are not the defaults. Arms of experiments and `gems train --preset paper` use them
# unless other options are given.
PAPER_GAMES: Mapping[str, Mapping[str, Any]] = {
    "simple_tag": {"continuous": True},
    "simple_spread": {"continuous": True},
}

# game -> departing quantity (a field of the config, or `policies` |Z_T|, `players`, `continuous`, `zero_sum`) -> reason
DEPARTURES: Mapping[str, Mapping[str, str]] = {
    "kuhn_poker": {
        "policies": "the same table caps a role at k_max = 32 and implies 41 anchors a role (82 in all): the preset "
        "uses the cap, so that a run ends with 64 anchors",
    },
    "deceptive_messages": {
        "continuous": "the suite prints continuous actions, the text a message and a choice among K arms: the preset "
        "follows the text",
        "zero_sum": "the suite prints zero-sum, the text rewards the Sender for the target arm and the Receiver for "
        "the best one, and reports both averages: the preset follows the text (reward_mode='zero_sum' is the other)",
    },
    "public_goods": {
        "continuous": "the suite prints continuous actions, the text a_i in {0, 1} and a generator that outputs the "
        "probability of cooperation: the preset follows the text",
    },
    "chess": {
        "capacity": "2,002 anchors take about 171 GiB by the cost model, with 8 opponents, 2 episodes and one episode "
        "each to measure forgetting; 32, the cap of the Kuhn table, takes 21 GiB",
        "policies": "follows from capacity",
    },
    "simple_spread": {
        "players": "202 = 2 + 2 x 100 counts two players, and three agents cooperate: they are one team, one player",
        "policies": "follows from players: 101 anchors",
    },
}


def paper_game_options(game: str, preset: str | None) -> dict[str, Any]:
    """Returns the options of a game for a preset: those of PAPER_GAMES for `paper`, none for other presets.

    Args:
      game: registered name of the game.
      preset: name of the preset, or None.

    Returns:
      Keyword arguments of `make_game`; options of the user override them.
    """
    return dict(PAPER_GAMES.get(game, {})) if preset == "paper" else {}
