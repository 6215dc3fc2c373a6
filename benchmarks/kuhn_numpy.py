"""One iteration of the `paper` preset on Kuhn for 5 seeds: gems_jax against NumPy playing the same episodes.

The NumPy side is what a careful NumPy programmer writes: arrays over the episodes of a batch, policies as tables of
logits per information set, the softmax of every decision, one uniform per decision. It plays as many episodes as the
iteration does, in batches of the same sizes (a batch cannot be larger than what one phase may play before the next
policy update), and does no learning at all, so the comparison favours it. Seeds are looped over, and, for a second
figure, batched together.

    python -m benchmarks.kuhn_numpy

Blocks are interleaved; printed are medians and the bootstrap interval of the ratio. Compilation is apart.
"""

from __future__ import annotations

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.timing import median, ratio, record
from gems_jax import init_gems, make_game, make_solver, preset

SEEDS = 5


def play(rng: np.random.Generator, logits_0: np.ndarray, logits_1: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns [n] of seat 0 and lengths [n]: logits [n, 6, 2] per seat, rows (first-in J Q K, facing a bet J Q K)."""
    count = len(logits_0)
    rows = np.arange(count)
    deals = np.asarray([(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)])
    cards = deals[rng.integers(0, 6, count)]

    def bets(logits: np.ndarray, infoset: np.ndarray) -> np.ndarray:
        chosen = logits[rows, infoset]
        chosen = np.exp(chosen - chosen.max(axis=1, keepdims=True))
        return rng.random(count) < chosen[:, 0] / chosen.sum(axis=1)

    first = bets(logits_0, cards[:, 0])
    second = bets(logits_1, cards[:, 1] + 3 * first)
    third = bets(logits_0, cards[:, 0] + 3)
    showdown = np.where(cards[:, 0] > cards[:, 1], 1.0, -1.0)
    after_bet = np.where(second, 2.0 * showdown, 1.0)
    after_pass = np.where(second, np.where(third, 2.0 * showdown, -1.0), showdown)
    return np.where(first, after_bet, after_pass), 2 + (~first & second)


def numpy_iteration(rng: np.random.Generator, anchors: np.ndarray, sizes: list[tuple[int, int]], copies: int) -> int:
    """Play `sizes` = (number of batches, episodes per batch), each episode between random anchors [K, 6, 2]."""
    played = 0
    for batches, episodes in sizes:
        for _ in range(batches):
            pair = rng.integers(0, len(anchors), (2, episodes * copies))
            returns, _ = play(rng, anchors[pair[0]], anchors[pair[1]])
            played += len(returns)
    return played


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=15)
    blocks = parser.parse_args().blocks
    game, config = make_game("kuhn_poker"), preset("kuhn_poker", "paper")
    keys = jax.vmap(jax.random.key)(jnp.arange(SEEDS))
    states = jax.vmap(lambda key: init_gems(key, game, config))(keys)
    step = jax.jit(jax.vmap(make_solver("gems", game, config).step))
    started = time.perf_counter()
    compiled = step.lower(states, keys).compile()
    compile_seconds = time.perf_counter() - started
    for number in range(config.capacity):  # a full population: the largest iteration
        states, metrics = compiled(states, jax.vmap(lambda k, n=number: jax.random.fold_in(k, n))(keys))
    jax.block_until_ready(states)

    per_match = config.num_opponents * config.episodes
    sizes = [
        (2, config.capacity * per_match),
        (1, config.mixture_samples * config.episodes),
        (2, (config.mutations + config.randoms) * config.oracle_opponents * config.oracle_episodes),
        (2, config.capacity * config.kl_opponents),
        (2 * config.abr_steps, config.abr_anchors * config.abr_opponents * config.abr_episodes),
    ]
    rng = np.random.default_rng(0)
    anchors = rng.normal(size=(config.capacity, 6, 2)).astype(np.float32)
    times: dict[str, list[float]] = {"gems_jax": [], "numpy": [], "numpy, seeds batched": []}
    played = numpy_iteration(rng, anchors, sizes, 1)
    assert played == int(metrics.episodes[0]), (played, metrics.episodes)
    for number in range(blocks):
        block_keys = jax.vmap(lambda k, n=number: jax.random.fold_in(k, 1000 + n))(keys)
        started = time.perf_counter()
        jax.block_until_ready(compiled(states, block_keys))
        times["gems_jax"].append(time.perf_counter() - started)
        started = time.perf_counter()
        for _ in range(SEEDS):
            numpy_iteration(rng, anchors, sizes, 1)
        times["numpy"].append(time.perf_counter() - started)
        started = time.perf_counter()
        numpy_iteration(rng, anchors, sizes, SEEDS)
        times["numpy, seeds batched"].append(time.perf_counter() - started)
    print(f"{played} episodes per seed and iteration, {SEEDS} seeds; compile {compile_seconds:.1f} s apart")
    seconds = {name: np.asarray(values) for name, values in times.items()}
    figures = [median(f"an iteration: {name}", 1e3 * values, "ms") for name, values in seconds.items()]
    record("kuhn_numpy", figures + [ratio(f"{n} / gems_jax", seconds[n], seconds["gems_jax"]) for n in list(times)[1:]])


if __name__ == "__main__":
    main()
