"""Lists the methods, what each one needs of a game, and how it responds: `gems methods`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from gems_jax.cli.parsing import parse

_LEGEND = """\
learned  responses by policy gradient, on any game that fits
exact    best responses on the game's tree
either   exact if the game can be enumerated, else learned; --oracle decides
none     no responses
docs/methods.md describes the methods, and what in them is ours. To run one:
gems train GAME --method NAME; gems train --method NAME --help lists its flags."""


@dataclasses.dataclass(frozen=True)
class Methods:
    """List the methods: what each one needs of a game, and whether its responses are learned or exact."""


def main(argv: Sequence[str]) -> int:
    """Runs `gems methods` and returns its exit code."""
    parse(Methods, argv, prog="gems methods")
    from gems_jax.games.requirements import CATALOG, describe_needs

    groups: dict[str, list[str]] = {}
    for name, facts in CATALOG.items():
        line = f"  {name:<13}  {facts.responses:<7}  {facts.summary:<38}  {facts.reference}"
        groups.setdefault(describe_needs(facts.needs), []).append(line)
    print("\n\n".join("\n".join([f"{needs}:", *lines]) for needs, lines in groups.items()))
    print(f"\n{_LEGEND}")
    return 0
