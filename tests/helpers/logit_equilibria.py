"""Logit quantal response equilibria of matrix games."""

import numpy as np


def quantal_response(payoffs, temperature, reference):
    """x = reference exp(A y / T) / Z for both players of a zero-sum game, by damped iteration in float64."""
    x = y = np.full(len(payoffs), 1 / len(payoffs))
    for _ in range(3000):
        rows, columns = reference * np.exp(payoffs @ y / temperature), reference * np.exp(-payoffs.T @ x / temperature)
        x, y = 0.99 * x + 0.01 * rows / rows.sum(), 0.99 * y + 0.01 * columns / columns.sum()
    return np.stack([x, y])
