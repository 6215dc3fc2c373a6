"""Minibatches hold the rows they should: every row once, decisions first, and bits as they were."""

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.accelerator.cpu import VARIABLE
from gems_jax.accelerator.packing import PackedBits
from gems_jax.learning.batches import Experience
from gems_jax.learning.minibatches import gather_rows, pack_observations, sample_decisions, shuffle_rows

ROWS = 48


def batch_of(observation):
    """One code; of 48 rows every third is a decision, and the target of a row is its number."""
    none = jnp.zeros((1, ROWS))
    number = jnp.arange(ROWS, dtype=jnp.float32)[None]
    return Experience(
        code=jnp.zeros((1, 2)), observation=observation, legal=jnp.ones((1, ROWS, 3), bool),
        action=number.astype(jnp.int32), log_prob=none, acted=jnp.arange(ROWS)[None] % 3 == 0, advantage=none,
        target=number, episodes=jnp.int32(0), env_steps=jnp.int32(0), earned=none[:, :1], faced=none[:, :1, None],
    )  # fmt: skip


def numbers(part):
    return list(np.asarray(part.target).reshape(-1))


def test_decisions_come_first_and_each_row_once():
    batch = batch_of(jnp.zeros((1, ROWS, 5)))
    picked = sample_decisions(jax.random.key(2), batch, 16)
    assert picked.acted.shape == (1, 16) and picked.acted.all()
    assert sorted(numbers(picked)) == list(range(0, ROWS, 3)) != numbers(picked)
    places = shuffle_rows(jax.random.key(3), batch, 4, 1.0)
    assert places.shape == (4, 1, 12)
    assert sorted(sum((numbers(gather_rows(batch, part)) for part in places), [])) == list(range(ROWS))
    assert shuffle_rows(jax.random.key(3), batch, 4, 0.5).shape == (4, 1, 6)


def test_every_minibatch_gets_as_many_decisions():
    """16 decisions among 24 of 48 rows: four in each of four minibatches of six, not six, six, four and none."""
    batch = batch_of(jnp.zeros((1, ROWS, 5)))
    places = shuffle_rows(jax.random.key(4), batch, 4, 0.5)
    assert [int(gather_rows(batch, part).acted.sum()) for part in places] == [4, 4, 4, 4]


def test_rows_of_bits_are_the_rows(monkeypatch):
    """Shuffled as words or as they are, a minibatch is the same; what are no bits is left alone."""
    flags = jax.random.bernoulli(jax.random.key(1), 0.5, (1, ROWS, 6, 7, 2))
    batch, places = batch_of(flags), jnp.asarray([[5, 40, 0, 5]])
    stored = pack_observations(batch)
    assert isinstance(stored.observation, PackedBits)
    for one, other in zip(
        *map(jax.tree.leaves, (gather_rows(batch, places), gather_rows(stored, places))), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    plain = batch_of(jnp.zeros((1, ROWS, 5)))
    assert pack_observations(plain) is plain
    monkeypatch.setenv(VARIABLE, "off")
    assert pack_observations(batch) is batch
