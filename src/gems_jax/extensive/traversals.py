"""Sampled counterfactual values with control variates: one traversal of Monte-Carlo CFR on the nodes of a deal.

With sigma the policy, xi the probability of sampling a slot of a node, and b any baseline, values are estimated from
the ends upward (Schmid et al. 2019, VR-MCCFR)

    u(h, a) = b(h, a) + [a was sampled] (u(ha) - b(h, a)) / xi(h, a),     u(h) = sum_a sigma(h, a) u(h, a),

and the counterfactual regrets of player i at its information set I are estimated by the sum over sampled h in I of

    w(h) (u(h, a) - u(h)),   w(h) = the others' and chance's reach of h / the probability of sampling h.

They are unbiased for every b that does not depend on the traversal: E[u(h, a) | h is sampled] is the exact value. With
b = 0 this is MCCFR as published (Lanctot et al. 2009).

- Outcome sampling samples one slot of every node. The player explores: xi = epsilon / |A(I)| + (1 - epsilon) sigma at
  its own nodes. The others and chance are sampled on-policy, xi = sigma.
- External sampling takes all slots of the player's own nodes, xi = 1, and samples one of every other node, xi = sigma.
  The others' actions are drawn once per information set.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from gems_jax.extensive.histories import Histories
from gems_jax.types import Array


class Traversal(NamedTuple):
    """Sampled regrets, baseline updates and counts of one traversal."""

    regrets: Array  # [I, A], unbiased estimates of the player's counterfactual regrets; 0 at the others' sets
    values: Array  # [M, K, C], u(ha) behind every slot; valid where `walked`
    walked: Array  # [M, K] bool, slots that were sampled
    env_steps: Array  # [] int32, steps of the game on all sampled edges
    episodes: Array  # [] int32, ends that were reached


def draw_deal(key: Array, probabilities: Array) -> Array:
    """Draws the index [] int32 of a deal from probabilities [D]. key: consumed."""
    mass = jnp.cumsum(probabilities)
    return jnp.argmax(mass > jax.random.uniform(key) * mass[-1]).astype(jnp.int32)


def sample_traversal(
    key: Array,
    deal: Histories,
    policy: Array,
    player: int | Array,
    exploration: float | Array | None,
    baseline: Array | None,
) -> Traversal:
    """Traverses one deal for a player and estimates its counterfactual regrets; the module docstring has the equations.

    Args:
      key: typed PRNG key; consumed.
      deal: nodes [M] of one deal.
      policy: the table that every player plays, [I, A].
      player: the player whose regrets are estimated.
      exploration: epsilon of outcome sampling; None for external sampling (static).
      baseline: values of the slots for every player, [M, K, players]; None for 0, and then only the player's own
        payoffs
        are followed.

    Returns:
      A `Traversal`, with C = players, or 1 without a baseline.
    """
    own = (deal.player == player)[:, None]
    played = _slot_probabilities(deal, policy)  # [M, K]
    sampled = played
    if exploration is not None:
        uniform = deal.open / jnp.maximum(deal.open.sum(axis=1, keepdims=True), 1)
        sampled = jnp.where(own, exploration * uniform + (1 - exploration) * played, played)
    walked = _draw_slots(key, sampled, deal.draw)
    inverse = jnp.where(walked, 1 / jnp.where(walked, sampled, 1.0), 0.0)
    if exploration is None:
        walked = jnp.where(own, deal.open, walked)
        inverse = jnp.where(own, deal.open, inverse)
    weight = _reach_weights(deal, inverse * jnp.where(own, 1.0, played))
    column = 0 if baseline is None else player
    payoff = deal.payoff[:, player][:, None] if baseline is None else deal.payoff
    behind, here = _sampled_values(deal, payoff, played, inverse, baseline)
    control = 0.0 if baseline is None else baseline[..., column]
    estimate = control + inverse * (behind[..., column] - control)
    gain = jnp.where(own & deal.open, weight[:, None] * (estimate - here[:, column][:, None]), 0.0)
    reached = weight > 0
    return Traversal(
        regrets=jnp.zeros_like(policy).at[deal.infoset].add(gain[:, : policy.shape[1]]),
        values=behind,
        walked=walked & reached[:, None],
        env_steps=jnp.where(reached, deal.steps, 0).sum(),
        episodes=(reached & deal.end).sum(dtype=jnp.int32),
    )


def _slot_probabilities(deal: Histories, policy: Array) -> Array:
    """Probabilities [M, K] of the slots of every node, by its player or by chance."""
    rows = jnp.pad(policy[deal.infoset], ((0, 0), (0, deal.open.shape[1] - policy.shape[1])))
    return jnp.where((deal.player >= 0)[:, None], rows, deal.chance)


def _draw_slots(key: Array, probabilities: Array, draw: Array) -> Array:
    """Draws one slot of every node as a mask [M, K], empty if there is none. Nodes with equal `draw` share noise."""
    mass = jnp.cumsum(probabilities, axis=1)
    noise = jax.random.uniform(key, draw.shape)[draw]
    above = mass > noise[:, None] * mass[:, -1:]  # the first one has positive probability
    first = jnp.concatenate([jnp.zeros_like(above[:, :1]), above[:, :-1]], axis=1)
    return above & ~first


def _reach_weights(deal: Histories, edges: Array) -> Array:
    """Computes w(h), [M]: the product of edges [M, K] from the root; 0 at nodes that were not sampled."""
    levels = [jnp.ones(deal.level_ends[0], edges.dtype)]
    for (above, _), (start, stop) in zip(deal.levels, deal.levels[1:], strict=False):
        parent = deal.parent[start:stop]
        levels.append(levels[-1][jnp.maximum(parent - above, 0)] * edges[parent, deal.slot[start:stop]])
    return jnp.where(deal.exists, jnp.concatenate(levels), 0.0)


def _sampled_values(
    deal: Histories, payoff: Array, played: Array, inverse: Array, baseline: Array | None
) -> tuple[Array, Array]:
    """Computes u(ha) behind every slot [M, K, C] and u(h) [M, C]; invalid at nodes that were not sampled."""
    slots = played.shape[1]
    below = payoff[deal.level_ends[-1] :]  # nothing is below the last level
    behind, here = [], []
    for start, stop in reversed(deal.levels):
        if stop == deal.level_ends[-1]:
            next_values = jnp.zeros((stop - start, slots, payoff.shape[1]), payoff.dtype)
        else:
            next_values = below[jnp.maximum(deal.child[start:stop] - stop, 0)]
        control = 0.0 if baseline is None else baseline[start:stop]
        estimate = control + inverse[start:stop, :, None] * (next_values - control)
        below = payoff[start:stop] + (played[start:stop, :, None] * estimate).sum(axis=1)
        behind.append(next_values)
        here.append(below)
    return jnp.concatenate(behind[::-1]), jnp.concatenate(here[::-1])
