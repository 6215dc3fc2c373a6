"""Named settings per game: `paper` as the paper prints them, `tuned` the best that this project knows.

The presets called `paper`, and every departure from the printed numbers, are in `gems/paper_presets.py`, the tuned ones
in `gems/tuned_presets.py`, those for one accelerator in `gems/gpu_presets.py`. `gems/auto_preset.py` derives settings
of any other game.
"""

from __future__ import annotations

from gems_jax.config import GemsConfig
from gems_jax.gems.gpu_presets import GPU
from gems_jax.gems.joint_presets import CONNECT_FOUR_JOINT, SPREAD_JOINT, TAG_JOINT
from gems_jax.gems.paper_presets import PAPER
from gems_jax.gems.tuned_presets import (
    CHESS_TUNED,
    CONNECT_FOUR_TUNED,
    DECEPTIVE_TUNED,
    GO_TUNED,
    HANABI_TUNED,
    KUHN_3P_REPLAY,
    KUHN_REPLAY,
    KUHN_REPLAY_MLP,
    KUHN_TUNED,
    KUHN_TUNED_MLP,
    LEDUC_REPLAY,
    LEDUC_TUNED,
    LIARS_DICE_REPLAY,
    MPE_TUNED,
    PUBLIC_GOODS_TUNED,
    PYTHON_CONNECT_FOUR_TUNED,
    PYTHON_LEDUC_TUNED,
    RPS_TUNED,
    TAG_TUNED,
    TIC_TAC_TOE_TUNED,
)
from gems_jax.types import Game, did_you_mean

# game -> preset -> settings
PRESETS: dict[str, dict[str, GemsConfig]] = {
    "pz:connect_four_v3": {"tuned": PYTHON_CONNECT_FOUR_TUNED},
    "openspiel:leduc_poker": {"tuned": PYTHON_LEDUC_TUNED},
    "simple_tag": {"paper": PAPER["simple_tag"], "tuned": TAG_TUNED, "joint": TAG_JOINT},
    "simple_spread": {"paper": PAPER["simple_spread"], "tuned": MPE_TUNED, "joint": SPREAD_JOINT},
    "hanabi": {"paper": PAPER["hanabi"], "tuned": HANABI_TUNED},
    "chess": {"paper": PAPER["chess"], "tuned": CHESS_TUNED},
    "connect_four": {"paper": PAPER["connect_four"], "tuned": CONNECT_FOUR_TUNED, "joint": CONNECT_FOUR_JOINT},
    "go_9x9": {"paper": PAPER["go_9x9"], "tuned": GO_TUNED},
    "tic_tac_toe": {"paper": PAPER["tic_tac_toe"], "tuned": TIC_TAC_TOE_TUNED},
    "biased_rps": {"tuned": RPS_TUNED},
    "kuhn_poker": {
        "paper": PAPER["kuhn_poker"],
        "tuned": KUHN_TUNED,
        "tuned-mlp": KUHN_TUNED_MLP,
        "replay": KUHN_REPLAY,
        "replay-mlp": KUHN_REPLAY_MLP,
    },
    "kuhn_poker_3p": {"replay": KUHN_3P_REPLAY},
    "liars_dice": {"replay": LIARS_DICE_REPLAY},
    "leduc_holdem": {"paper": PAPER["leduc_holdem"], "tuned": LEDUC_TUNED, "replay": LEDUC_REPLAY},
    "deceptive_messages": {"paper": PAPER["deceptive_messages"], "tuned": DECEPTIVE_TUNED},
    "public_goods": {"paper": PAPER["public_goods"], "tuned": PUBLIC_GOODS_TUNED},
}
for _game, _config in GPU.items():
    PRESETS[_game]["gpu"] = _config


# Presets that a game gets without asking for one, best first; games without them get `auto`.
BEST = ("replay", "joint", "tuned")
AUTO = "auto"


def preset(game: str | Game, which: str = "paper") -> GemsConfig:
    """Returns named settings of GEMS for a game.

    >>> from gems_jax import make_game, preset
    >>> preset("kuhn_poker").eta
    0.03
    >>> preset("kuhn_poker", "tuned").capacity
    41
    >>> preset("rock_paper_scissors", "tuned@biased_rps").eta
    2.0
    >>> preset(make_game("rock_paper_scissors"), "auto").policy
    'tabular'

    Args:
      game: the name of a game in `PRESETS`, or the game itself.
      which: "paper", "tuned" or another preset of the game; "NAME@GAME" for the preset NAME of another game; "auto" for
        settings derived from the game itself (`gems_jax.gems.auto_preset`).

    Returns:
      A `GemsConfig`.

    Raises:
      ValueError: if the game has no such preset; the message lists the existing ones.
    """
    name = game if isinstance(game, str) else str(getattr(game, "name", game))
    if which == AUTO:
        if isinstance(game, str):
            raise ValueError(
                f"preset 'auto' is derived from the game itself: expected a game, got its name {game!r}. "
                f"Use preset(make_game({game!r}), 'auto')"
            )
        from gems_jax.gems.auto_preset import auto_preset  # imports networks, which a refused command does without

        return auto_preset(game)
    own, at, other = which.partition("@")
    return _look_up(other if at else name, own)


def _look_up(name: str, which: str) -> GemsConfig:
    if name not in PRESETS:
        hint = did_you_mean(name, PRESETS)
        raise ValueError(
            f"no presets for the game {name!r}; {hint}games with presets: {', '.join(sorted(PRESETS))}; use 'auto', or "
            "NAME@GAME for those of another game"
        )
    if which not in PRESETS[name]:
        known = (*PRESETS[name], AUTO)
        raise ValueError(f"{name} has no preset {which!r}; {did_you_mean(which, known)}known: {', '.join(known)}")
    return PRESETS[name][which]


def best_preset(name: str) -> str:
    """Returns the name of the preset that a game gets by default: the first of `BEST` that it has, otherwise "auto"."""
    return next((which for which in BEST if which in PRESETS.get(name, {})), AUTO)


def default_config(game: Game) -> GemsConfig:
    """Returns the settings that a game gets by default: those of `best_preset`.

    Args:
      game: the game.

    Returns:
      A `GemsConfig`.
    """
    return preset(game, best_preset(game.name))
