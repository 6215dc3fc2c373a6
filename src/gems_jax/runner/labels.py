"""Labels and directions of metric columns, for tables, figures, rankings and comparisons."""

from __future__ import annotations

_NAMES = {
    "nash_conv": "NashConv",
    "value_loss": "value loss",
    "value_error": "standard error of the values",
    "nash_conv_average": "NashConv, run average",
    "exploitability_average": "exploitability, run average",
    "coop": "cooperation",
    "share_meta": "fraction of meta updates",
    "share_oracle": "fraction of later oracle rounds",
    "share_abr": "fraction of ABR steps",
    "exploit_restricted": "restricted exploitability",
    "cce_gap": "CCE gap",
    "cce_gap_anchors": "CCE gap, anchors only",
    "cce_gap_ids": "CCE gap by anchor",
    "cce_gap_ids_anchors": "CCE gap by anchor, anchors only",
    "captures": "captures per episode",
    "encirclement": "largest gap around the evader (degrees)",
    "pursuer_spread": "distance between pursuers",
    "covered": "fraction of landmarks covered at the end",
    "collisions": "collisions per episode",
    "distinct": "fraction of ends with distinct landmarks",
    "first_wins": "first player's wins in self-play",
    "second_wins": "second player's wins in self-play",
    "self_draws": "draws in self-play",
    "decisive": "decisive fraction of self-play",
    "centre": "fraction of central squares occupied",
    "solved_move_rate": "moves that keep the value of solved positions",
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
# Columns by the direction in which they improve, as exact names or, with a final underscore, prefixes. Columns that
# are not listed, such as `length` or `entropy`, have no direction.
_HIGHER = ("score_", "win_", "return_", "coop", "welfare", "covered", "distinct", "solved_move_rate")
_LOWER = (
    "exploitability", "exploitability_average", "nash_conv", "nash_conv_average", "exploit_restricted", "regret_",
    "cce_gap", "cce_gap_", "budget_", "monte_carlo_error", "meta_regret_estimated", "value_error", "abr_gap",
    "forgetting_kl", "collisions", "value_loss",
)  # fmt: skip
_OPPONENTS = ("random", "tactician", "script")  # labels of `opponents.registry`


def column_label(column: str) -> str:
    """Formats the label of a column: `nash_conv` -> NashConv, `value_sender` -> sender's value."""
    if column in _NAMES:
        return _NAMES[column]
    stem, _, suffix = column.rpartition("_")
    if stem and suffix in _SUFFIXES:
        return f"{column_label(stem)}, {_SUFFIXES[suffix]}"
    first, _, rest = column.partition("_")
    if not rest or first not in _PREFIXES:
        return column.replace("_vs_", " against ").replace("_", " ")
    rest = rest.replace("_", " ")
    possessive = "'" if rest.endswith("s") else "'s"
    return _PREFIXES[first].format(rest=rest, owner=f"{rest}{possessive}")


def higher_is_better(column: str) -> bool | None:
    """Returns whether a higher value of the column is better; None if the column has no direction.

    `<player>_vs_<opponent>` is the return of a trained player against a fixed opponent, so higher is better; the
    opponent's own return, `random_vs_<player>`, has no direction because the game may be cooperative.
    """
    stem = column.removesuffix("_auc")
    if stem.endswith("_interval"):
        return None
    if any(_is_listed(stem, name) for name in _LOWER):
        return False
    player, versus, _ = stem.partition("_vs_")
    if any(_is_listed(stem, name) for name in _HIGHER) or (versus and player not in _OPPONENTS):
        return True
    return None


def describe_direction(column: str) -> str:
    """Describes the direction of a column: higher is better, lower is better, or neither."""
    return {True: "higher is better", False: "lower is better"}.get(higher_is_better(column), "no direction")  # type: ignore[arg-type]


def _is_listed(column: str, name: str) -> bool:
    return column.startswith(name) if name.endswith("_") else column == name
