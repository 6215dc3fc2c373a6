"""Named settings per game. `paper` prints what the paper prints; `tuned` is the best this project knows.

For games that have no table in the paper, `paper` is the Kuhn table with the game's own T, d_z and k_0.
"""

from __future__ import annotations

import difflib

from gems_jax.config import GemsConfig

PAPER = GemsConfig()

PRESETS: dict[str, dict[str, GemsConfig]] = {
    "kuhn_poker": {"paper": PAPER},
}


def preset(game: str, which: str = "paper") -> GemsConfig:
    """The settings `which` for a game. Raises ValueError that lists what there is."""
    name = game if isinstance(game, str) else getattr(game, "name", game)
    if name not in PRESETS:
        close = difflib.get_close_matches(str(name), PRESETS, 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"no presets for the game {name!r}; {hint}games with presets: {', '.join(sorted(PRESETS))}")
    if which not in PRESETS[name]:
        close = difflib.get_close_matches(str(which), PRESETS[name], 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"{name} has no preset {which!r}; {hint}known: {', '.join(PRESETS[name])}")
    return PRESETS[name][which]
