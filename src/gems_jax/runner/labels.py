"""Columns in words, for tables and figures."""

from __future__ import annotations

_NAMES = {
    "nash_conv": "NashConv",
    "nash_conv_average": "NashConv, run average",
    "exploitability_average": "exploitability, run average",
    "coop": "cooperation",
    "share_meta": "share of meta updates",
    "share_oracle": "share of later oracle rounds",
    "share_abr": "share of ABR steps",
    "exploit_restricted": "restricted exploitability",
    "cce_gap": "CCE gap",
    "cce_gap_anchors": "CCE gap, anchors only",
    "cce_gap_ids": "CCE gap by anchor",
    "cce_gap_ids_anchors": "CCE gap by anchor, anchors only",
    "captures": "captures per episode",
    "encirclement": "largest gap around the evader (degrees)",
    "pursuer_spread": "distance between pursuers",
    "covered": "share of landmarks covered at the end",
    "collisions": "collisions per episode",
    "distinct": "share of ends with distinct landmarks",
    "first_wins": "first player's wins in self-play",
    "second_wins": "second player's wins in self-play",
    "self_draws": "draws in self-play",
    "decisive": "decisive share of self-play",
    "centre": "share of central squares occupied",
}
_AGAINST = {"score": "score", "win": "wins", "draw": "draws"}


def readable(column: str) -> str:
    """`nash_conv` -> NashConv, `value_sender` -> sender's value, `win_random` -> wins against random."""
    if column in _NAMES:
        return _NAMES[column]
    if column.endswith("_auc"):
        return f"{readable(column.removesuffix('_auc'))}, area"  # under the curve
    if column.endswith("_interval"):
        return f"{readable(column.removesuffix('_interval'))}, ±"
    first, _, rest = column.partition("_")
    if first in ("value", "return", "regret") and rest and column != "value_loss":
        owner = rest.replace("_", " ")
        return f"{owner}' {first}" if owner.endswith("s") else f"{owner}'s {first}"
    if first in _AGAINST and rest:
        return f"{_AGAINST[first]} against {rest.replace('_', ' ')}"
    return column.replace("_vs_", " against ").replace("_", " ")
