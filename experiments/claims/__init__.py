"""Every claim of the paper that can be checked, as data: its quote, its figure, and the numbers that decide.

The rules are in `experiments.reporting`, and numbers are read when the report is written.
"""

from collections.abc import Mapping

from experiments.claims import boards, costs, kuhn, particles, small_games, theory
from experiments.reporting.claims import Claim

CLAIMS: Mapping[str, tuple[Claim, ...]] = {
    "Time and memory": costs.CLAIMS,
    "Deceptive Messages": small_games.DECEPTIVE,
    "Kuhn poker": kuhn.CLAIMS,
    "Tag and Spread": particles.CLAIMS,
    "Connect Four, Hanabi, Go, chess": boards.CLAIMS,
    "The oracle": theory.ORACLE,
    "The meta-strategy, estimators and bounds": theory.CLAIMS,
    "Public goods and joint play": small_games.PUBLIC_GOODS,
}
COLUMNS = frozenset(column for group in CLAIMS.values() for claim in group for column in claim.rule.columns)
