"""Batches that learners take gradient steps on: rows of experience, and the interface that every batch has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.policies import distributions
from gems_jax.policies.tabular import TabularPolicy
from gems_jax.types import Apply, Array, PolicyOutput, PyTree, Struct

# A surrogate maps (log_prob, behaviour_log_prob, advantage, clip) to an objective per decision, to be maximized. It is
# proportional to the advantage on either side of zero.
Surrogate = Callable[[Array, Array, Array, ArrayLike], Array]


class Learner(NamedTuple):
    """policy(params, code) -> policy_params; value(params, code, observation) -> []; apply runs the policy."""

    policy: Callable[[PyTree, Array], PyTree]
    value: Callable[[PyTree, Array, Array], Array]
    apply: Apply


class LossParts(NamedTuple):
    """Means over the decisions of a batch, [] each."""

    objective: Array  # of the surrogate, to be maximized
    value_loss: Array  # squared error of the critic
    entropy: Array


class Batch(Protocol):
    """Decisions of G codes: rows (`Experience`), or sums over rows (`TabularStatistics`)."""

    @property
    def code(self) -> Array:
        """[G, D]."""
        ...

    def loss_parts(self, learner: Learner, params: PyTree, surrogate: Surrogate, clip: ArrayLike) -> LossParts:
        """Evaluates the parts of a policy-gradient loss."""
        ...

    def behaviour(self, learner: Learner, params: PyTree) -> PyTree:
        """Evaluates the policies of `params` on the batch, in the form that `kl_per_code` compares."""
        ...

    def uniform_behaviour(self, learner: Learner, behaviour: PyTree) -> PyTree:
        """Uniform play on the batch, in the form of `behaviour`."""
        ...

    def kl_per_code(self, left: PyTree, right: PyTree) -> Array:
        """KL(left || right) [G] of two behaviours, the mean over the decisions of each code."""
        ...


class Experience(Struct):
    """What one player saw and did: G codes, E episodes each, R rows of these, one per step and seat of the player.

    Rows are one axis: XLA's CPU kernels take several times as long for the same numbers in seven axes.
    """

    code: Array  # [G, D]
    observation: Array  # [G, R, *obs]
    legal: Array  # [G, R, A]
    action: Array  # [G, R, ...]
    log_prob: Array  # [G, R]
    acted: Array  # [G, R], decisions to learn from
    advantage: Array  # [G, R]
    target: Array  # [G, R], of the critic
    episodes: Array  # [] int32
    env_steps: Array  # [] int32
    earned: Array  # [G, E], what the player's rewards come to, in units of the scaled return
    faced: Array  # [G, E, players], the slots of the others
    row: Array | None = None  # [G, R] int32, of the table that a tabular policy looked up

    def loss_parts(self, learner: Learner, params: PyTree, surrogate: Surrogate, clip: ArrayLike) -> LossParts:
        outputs = self.behaviour(learner, params)
        log_prob = over_rows(distributions.log_prob)(outputs, self.action)
        objective = masked_mean(surrogate(log_prob, self.log_prob, self.advantage, clip), self.acted)
        error = values_on(learner, params, self.code, self.observation) - self.target
        spread = masked_mean(over_rows(distributions.action_entropy)(outputs), self.acted)
        return LossParts(objective, masked_mean(error**2, self.acted), spread)

    def behaviour(self, learner: Learner, params: PyTree) -> PolicyOutput:
        """Action distributions of `params` on every row [G, R, ...]."""

        def group(code: Array, observation: Array, legal: Array) -> PolicyOutput:
            phi = learner.policy(params, code)
            return jax.vmap(lambda seen, may: learner.apply(phi, seen, may))(observation, legal)

        rows = (self.code, self.observation, self.legal)
        if len(self.code) == 1:  # without an axis for it: XLA would transpose what it sums over two axes in a gradient
            return jax.tree.map(lambda leaf: leaf[None], group(*(leaf[0] for leaf in rows)))
        return jax.vmap(group)(*rows)

    def uniform_behaviour(self, learner: Learner, behaviour: PyTree) -> PolicyOutput:
        del learner
        return over_rows(distributions.uniform_like)(behaviour, self.legal)

    def kl_per_code(self, left: PyTree, right: PyTree) -> Array:
        return jax.vmap(masked_mean)(over_rows(distributions.action_kl)(left, right), self.acted)

    def normalize_advantages(self) -> Experience:
        """Shifts and scales the advantages of the decisions to mean 0 and deviation 1."""
        mean = masked_mean(self.advantage, self.acted)
        deviation = jnp.sqrt(masked_mean((self.advantage - mean) ** 2, self.acted))
        return self.replace(advantage=(self.advantage - mean) / (deviation + 1e-6))


def masked_mean(values: Array, mask: Array) -> Array:
    """Averages over True entries; 0 when there are none."""
    return jnp.sum(jnp.where(mask, values, 0.0)) / jnp.maximum(jnp.sum(mask), 1)


def over_rows(function: Callable[..., Any]) -> Callable[..., Any]:
    """Maps a function of one row over all rows [G, R, ...] of a batch."""
    return jax.vmap(jax.vmap(function))


def mean_loss_parts(
    learner: Learner, params: PyTree, batches: Sequence[Batch], surrogate: Surrogate, clip: ArrayLike
) -> LossParts:
    """Averages the parts of the loss over batches."""
    parts = [batch.loss_parts(learner, params, surrogate, clip) for batch in batches]
    return jax.tree.map(lambda *leaves: jnp.mean(jnp.stack(leaves)), *parts)


def values_on(learner: Learner, params: PyTree, codes: Array, observation: Array, rank: int = 2) -> Array:
    """Evaluates the critic on observations whose first `rank` axes are rows, the first of them the codes' [G]."""
    shape = observation.shape[:rank]
    rows = observation.reshape(len(codes), -1, *observation.shape[rank:])
    of_code = jax.vmap(learner.value, in_axes=(None, None, 0))
    return jax.vmap(of_code, in_axes=(None, 0, 0))(params, codes, rows).reshape(shape)


def values_of_table(learner: Learner, params: PyTree, codes: Array, table: TabularPolicy) -> Array:
    """Evaluates the critic [G, I] on all rows of a table, for every code."""
    of_code = jax.vmap(learner.value, in_axes=(None, None, 0))
    return jax.vmap(of_code, in_axes=(None, 0, None))(params, codes, jnp.asarray(table.observations))


def table_of(learner: Learner, rows: int) -> TabularPolicy | None:
    """The table of a tabular learner, where `rows` rows of experience per code are more than it has; None elsewhere."""
    table = learner.apply
    return table if isinstance(table, TabularPolicy) and table.distinct and len(table.legal) < rows else None
