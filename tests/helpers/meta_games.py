"""Meta-games of small matrix games, by summing their tensors."""

import itertools

import jax
import numpy as np

from gems_jax.types import num_populations


def exact(game, logits, sigma):
    """Scaled values [P, K] and variances, mixture values [P] and variances [players], by summing the tensor."""
    payoffs = np.asarray(game.payoffs, np.float64)
    low, high = game.return_bounds
    scaled, players = (payoffs - low) / (high - low), game.num_seats
    owner, slots = game.population_of_player, range(sigma.shape[1])
    play = np.asarray(jax.nn.softmax(logits), np.float64)  # [P, K, A]
    mixed = np.einsum("pk,pka->pa", sigma, play)

    def moments(strategies, player):
        weight = np.ones(())
        for strategy in strategies:
            weight = np.multiply.outer(weight, strategy)
        first, second = (weight * scaled[player]).sum(), (weight * scaled[player] ** 2).sum()
        return first, second

    values = np.zeros((num_populations(game), len(slots), 2))
    for player, slot in itertools.product(range(players), slots):
        own = [play[owner[p], slot] if p == player else mixed[owner[p]] for p in range(players)]
        values[owner[player], slot] += np.asarray(moments(own, player)) / owner.count(owner[player])
    joint = np.asarray([moments([mixed[p] for p in owner], player) for player in range(players)])
    mixture = np.asarray([joint[[o == p for o in owner]].mean(axis=0) for p in range(num_populations(game))])
    return values[..., 0], values[..., 1] - values[..., 0] ** 2, mixture[:, 0], joint[:, 1] - joint[:, 0] ** 2
