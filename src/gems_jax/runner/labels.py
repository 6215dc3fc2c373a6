"""Columns in words, for tables and figures."""

from __future__ import annotations

_NAMES = {
    "nash_conv": "NashConv",
    "value_loss": "value loss",
    "value_error": "standard error of the values",
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
_PREFIXES = {
    "value": "{owner} value",
    "return": "{owner} return",
    "regret": "{owner} regret",
    "score": "score against {rest}",
    "win": "wins against {rest}",
    "draw": "draws against {rest}",
}
_SUFFIXES = {"auc": "area", "interval": "±"}  # area: under the curve


def readable(column: str) -> str:
    """`nash_conv` -> NashConv, `value_sender` -> sender's value, `win_random` -> wins against random."""
    if column in _NAMES:
        return _NAMES[column]
    stem, _, suffix = column.rpartition("_")
    if stem and suffix in _SUFFIXES:
        return f"{readable(stem)}, {_SUFFIXES[suffix]}"
    first, _, rest = column.partition("_")
    if not rest or first not in _PREFIXES:
        return column.replace("_vs_", " against ").replace("_", " ")
    rest = rest.replace("_", " ")
    possessive = "'" if rest.endswith("s") else "'s"
    return _PREFIXES[first].format(rest=rest, owner=f"{rest}{possessive}")
