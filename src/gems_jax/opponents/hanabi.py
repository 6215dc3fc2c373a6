"""A rule-based Hanabi player that takes no risk; two of them understand each other without an agreement.

In this order it

1. plays its oldest card that hints prove to be playable,
2. discards its oldest card that is proved to be useless: played already, or out of reach,
3. gives the hint that tells most about playable cards of others which they do not know to be playable: a card counts 1
   if the hint names something new about it, and 3 if the hint completes what is known of it,
4. discards its oldest card,
5. gives any hint, when all information tokens are there and nothing may be discarded.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from gems_jax.games.hanabi.table import HanabiSizes
from gems_jax.policies.distributions import mask_logits
from gems_jax.types import Array, Policy, PolicyOutput, PyTree

_SURE = 1.0 - 1e-4  # probabilities in observations are rounded


class SeenTable(NamedTuple):
    """The parts of an observation that the rules need. Seats are ordered by distance from the observer.

    Attributes:
      hands: cards of the other seats, [S - 1, H, C, R].
      fireworks: height of the firework of every color, [C] int32.
      gone: cards of which all copies are discarded, [C, R] bool.
      chances: probabilities of every card given hints and discards, [S, H, C, R].
      told: whether a hint named color and rank of a card, [S, H] bool each.
    """

    hands: Array
    fireworks: Array
    gone: Array
    chances: Array
    told: tuple[Array, Array]


def read_table(sizes: HanabiSizes, observation: Array) -> SeenTable:
    """Decodes an observation of `games.hanabi`.

    Args:
      sizes: sizes of the game.
      observation: of one seat, one axis.

    Returns:
      What the seat sees.
    """
    seats, hand, colors, ranks = sizes[:4]
    kinds = colors * ranks
    lengths = {
        "hands": (seats - 1) * hand * kinds,
        "missing and deck": seats + sizes.deck_size - seats * hand,
        "fireworks": kinds,
        "tokens": sizes.information_tokens + sizes.life_tokens,
        "discards": sizes.deck_size,
        "last move": 2 * seats + 4 + colors + ranks + 2 * hand + kinds + 2,
        "knowledge": seats * hand * (kinds + colors + ranks),
    }
    parts = np.split(np.arange(observation.shape[0]), list(itertools.accumulate(lengths.values())))
    part = {name: observation[rows[0] : rows[-1] + 1] for name, rows in zip(lengths, parts, strict=False)}
    tops = part["fireworks"].reshape(colors, ranks)
    piles = part["discards"].reshape(colors, -1) > 0
    known = part["knowledge"].reshape(seats, hand, -1)
    return SeenTable(
        hands=part["hands"].reshape(seats - 1, hand, colors, ranks),
        fireworks=jnp.sum(jnp.where(tops > 0, jnp.arange(1, ranks + 1)[None, :], 0), axis=1),
        gone=jnp.stack([piles[:, end - 1] for end in itertools.accumulate(sizes.copies)], axis=1),  # the last copy
        chances=known[..., :kinds].reshape(seats, hand, colors, ranks),
        told=(known[..., kinds : kinds + colors].any(axis=-1), known[..., kinds + colors :].any(axis=-1)),
    )


def playable_and_useless(table: SeenTable) -> tuple[Array, Array]:
    """Finds the cards that can be played now, and those that never can again, [C, R] bool each."""
    rank, top = jnp.arange(table.gone.shape[1])[None, :], table.fireworks[:, None]
    blocked = jnp.cumsum(table.gone & (rank >= top), axis=1) > 0
    return (rank == top) & ~blocked, (rank < top) | blocked


def hint_scores(table: SeenTable, playable: Array) -> Array:
    """Scores all hints, (S - 1) C colors and then (S - 1) R ranks, by what they tell about playable cards.

    Args:
      table: what the seat sees.
      playable: cards that can be played now, [C, R] bool.

    Returns:
      [(S - 1) (C + R)] int32.
    """
    told_color, told_rank = (told[1:] for told in table.told)
    sure = jnp.sum(table.chances[1:] * playable[None, None], axis=(2, 3)) > _SURE
    helped = (table.hands > 0) & playable[None, None] & ~sure[:, :, None, None]
    color = jnp.where(told_color, 0, jnp.where(told_rank, 3, 1))  # [S - 1, H], worth of naming the color
    rank = jnp.where(told_rank, 0, jnp.where(told_color, 3, 1))
    by_color = jnp.sum(helped.any(axis=3) * color[:, :, None], axis=1)
    by_rank = jnp.sum(helped.any(axis=2) * rank[:, :, None], axis=1)
    return jnp.concatenate([by_color.reshape(-1), by_rank.reshape(-1)])


@dataclasses.dataclass(frozen=True)
class HanabiRules:
    """Plays by the rules of the module docstring.

    Args:
      sizes: sizes of the game.
    """

    sizes: HanabiSizes

    def __call__(self, phi: PyTree, observation: Array, legal: Array) -> PolicyOutput:
        del phi
        hand = self.sizes.hand_size
        table = read_table(self.sizes, observation)
        playable, useless = playable_and_useless(table)
        sure = [jnp.sum(table.chances[0] * kind[None], axis=(1, 2)) > _SURE for kind in (playable, useless)]
        scores = hint_scores(table, playable)
        none, any_hint = jnp.zeros(hand, bool), jnp.zeros(scores.shape, bool)
        best = (scores == jnp.max(scores)) & (scores > 0)
        rules = [  # from the last rule to the first; each is a mask over discards, plays and hints
            (none, none, ~any_hint),
            (jnp.arange(hand) == 0, none, any_hint),
            (none, none, best),
            (_first(sure[1]), none, any_hint),
            (none, _first(sure[0]), any_hint),
        ]
        wanted = legal
        for parts in rules:
            allowed = legal & jnp.concatenate(parts)
            wanted = jnp.where(allowed.any(), allowed, wanted)
        return PolicyOutput(logits=mask_logits(jnp.zeros(len(legal)), wanted))


def _first(mask: Array) -> Array:
    """Keeps the first True of a mask [H]."""
    return mask & (jnp.cumsum(mask) == 1)


def hanabi_rules(sizes: HanabiSizes) -> Policy:
    """Makes the rule-based player for Hanabi of any size.

    Args:
      sizes: `game.sizes`.

    Returns:
      A policy without parameters.
    """
    return Policy((), HanabiRules(sizes))
