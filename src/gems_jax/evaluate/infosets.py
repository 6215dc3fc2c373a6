"""The information sets of an enumerable game as a lookup table for tabular policies."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from gems_jax.evaluate.game_tree import build_tree
from gems_jax.nets import TabularPolicy
from gems_jax.types import Game


def infoset_policy(game: Game) -> TabularPolicy:
    """The policy network with one row of logits per information set of `game`. Works inside a trace.

    A game may list its information sets itself, `infosets() -> (observation [I, ...], legal [I, A])`; otherwise they
    are read off the tree. Raises NotEnumerableError for games that are too large.
    """
    if hasattr(game, "infosets"):
        return TabularPolicy(*game.infosets())
    hashable: Any = game  # value-hashed by contract, which a Protocol cannot say
    return _from_tree(hashable)


@functools.lru_cache(maxsize=64)
def _from_tree(game: Any) -> TabularPolicy:
    tree = build_tree(game)
    # Information sets of different seats that look alike are one row: a policy could not tell them apart.
    rows = np.unique(np.asarray(tree.twin))
    return TabularPolicy(np.asarray(tree.observation)[rows], np.asarray(tree.legal)[rows])
