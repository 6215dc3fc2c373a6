"""Action distributions: the only module that uses distrax, so that an upgrade touches one file.

Sampling takes its noise as an argument instead of a key: one uniform per discrete action (inverse CDF), one normal
vector per continuous one. A whole episode's noise is then drawn in one call, and two policies that face the same
noise are coupled monotonically, which is what common random numbers are for.

Every function is written for one action; callers vmap.
"""

from __future__ import annotations

import math

import chex
import distrax
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.types import Array, PolicyOutput

ILLEGAL = -1e9  # finite, so that gradients and 0 * log 0 stay finite; exp(ILLEGAL) is exactly 0 in float32
_EDGE = 1.0 - 1e-6  # a squashed action is kept off the box's edge, where atanh is infinite
_NEVER = -80.0  # this far below the highest logit an action is not sampled: well before exp fades out to zero
_UNIFORM_LOG_STD = 0.5 * math.log(math.pi**2 / 12)
_BLOCK = 8  # actions sampled among at a time; measured


def mask_logits(logits: Array, legal: Array) -> Array:
    """Replaces the logits [A] of illegal actions by ILLEGAL."""
    chex.assert_equal_shape([logits, legal])
    return jnp.where(legal, logits, ILLEGAL)


def make_output(outputs: Array, legal: Array, continuous: bool = False) -> PolicyOutput:
    """Reads an action distribution from a network's outputs.

    Args:
      outputs: logits [A], or for continuous actions means and log-deviations [2 A].
      legal: [A] bool.
      continuous: whether the actions are.

    Returns:
      Masked logits, or the base of a squashed Gaussian with log-deviations clipped to [-5, 2].
    """
    if not continuous:
        return PolicyOutput(logits=mask_logits(outputs, legal))
    mean, log_std = jnp.split(outputs, 2)
    return PolicyOutput(mean=mean, log_std=jnp.clip(log_std, -5.0, 2.0))


def draw_noise(key: Array, shape: tuple[int, ...], num_actions: int, continuous: bool) -> Array:
    """Draws noise for `shape` actions: uniforms [*shape], or standard normals [*shape, num_actions]. key: consumed."""
    if continuous:
        return jax.random.normal(key, (*shape, num_actions))
    return jax.random.uniform(key, shape)


def _base(output: PolicyOutput) -> distrax.MultivariateNormalDiag:
    assert output.mean is not None and output.log_std is not None
    return distrax.MultivariateNormalDiag(output.mean, jnp.exp(output.log_std))


def _squashed(output: PolicyOutput) -> distrax.Transformed:
    return distrax.Transformed(_base(output), distrax.Block(distrax.Tanh(), 1))


def _highest(logits: Array) -> Array:
    """max [A] -> []; by halves, which XLA:CPU vectorizes where it would compare one pair after another."""
    while logits.shape[0] > _BLOCK:
        half = (logits.shape[0] + 1) // 2
        logits = jnp.maximum(logits[:half], logits[-half:])  # the one in the middle may be on both sides
    return jnp.max(logits)


def relative_masses(logits: Array) -> Array:
    """Returns the probabilities [A] divided by the highest one, which takes no sum."""
    below = logits - _highest(logits)
    return jnp.where(below > _NEVER, jnp.exp(below), 0.0)


def _block_sums(masses: Array) -> Array:
    """Sums [ceil(A / _BLOCK)] of neighboring masses [A]; the last block may be short, as padding costs more."""
    whole = masses.shape[0] // _BLOCK * _BLOCK
    sums = jnp.sum(masses[:whole].reshape(-1, _BLOCK), axis=1)
    return sums if whole == masses.shape[0] else jnp.append(sums, jnp.sum(masses[whole:]))


def _block(masses: Array, index: Array) -> tuple[Array, Array]:
    """The masses of one block [_BLOCK], and where they start; before a short last block come others, as zeros."""
    size = masses.shape[0]
    start = jnp.minimum(index * _BLOCK, size - _BLOCK)
    block = jax.lax.dynamic_slice(masses, (start,), (_BLOCK,))
    if size % _BLOCK:
        block = jnp.where(start + jnp.arange(_BLOCK) >= index * _BLOCK, block, 0.0)
    return block, start


def sum_cumulatively(masses: Array) -> Array:
    """Returns the cumulative sum [A] of a few masses, as a masked sum, which fuses where XLA's scan does not."""
    size = len(masses)
    return jnp.sum(jnp.where(jnp.tril(jnp.ones((size, size), bool)), masses[None, :], 0.0), axis=1)


def _first_beyond(masses: Array, cdf: Array, threshold: Array) -> tuple[Array, Array]:
    """The first positive mass with a cumulative sum beyond the threshold, and what of the threshold is left for it.

    Rounding may leave no such sum, or let equal ones differ. Only positive masses are considered, and the last of
    them if need be, so that nothing else is chosen and a higher threshold never leads to an earlier one.
    """
    size = masses.shape[0]
    places = jnp.arange(size)
    first = jnp.min(jnp.where((masses > 0.0) & (cdf > threshold), places, size))
    last = jnp.max(jnp.where(masses > 0.0, places, 0))
    index = jnp.minimum(first, last)
    return index, threshold - jnp.sum(jnp.where(places < index, masses, 0.0))


def _inverse_cdf(masses: Array, noise: Array) -> Array:
    """Index of the mass [A] on which the quantile `noise` falls: first among sums of blocks of blocks, then within."""
    levels = [masses]
    while levels[-1].shape[0] > _BLOCK:
        levels.append(_block_sums(levels[-1]))
    cdf = sum_cumulatively(levels[-1])
    index, rest = _first_beyond(levels[-1], cdf, noise * cdf[-1])
    for level in reversed(levels[:-1]):
        block, start = _block(level, index)
        place, rest = _first_beyond(block, sum_cumulatively(block), rest)
        index = start + place
    return index


def sample_action(output: PolicyOutput, noise: Array) -> Array:
    """Returns the action at the quantile `noise`: int32 in [0, A), or a point of the box (-1, 1)^A."""
    if output.logits is None:
        base = _base(output)
        return jnp.clip(jnp.tanh(base.loc + base.scale_diag * noise), -_EDGE, _EDGE)
    if output.cdf is not None:
        return jnp.sum(output.cdf <= noise, dtype=jnp.int32)
    masses = relative_masses(output.logits)
    if len(masses) > _BLOCK:
        return _inverse_cdf(masses, noise).astype(jnp.int32)
    cdf = sum_cumulatively(masses)
    # Zero-probability actions repeat the CDF's value and are passed over by `<=`; scaling by the last entry keeps the
    # threshold strictly below it, whatever the rounding.
    return jnp.sum(cdf <= noise * cdf[-1], dtype=jnp.int32)


def tremble(output: PolicyOutput, legal: Array, share: ArrayLike) -> PolicyOutput:
    """Mixes a distribution with uniform play over the legal actions [A], which has probability `share`."""
    if output.logits is None:
        raise ValueError("only discrete actions can tremble: got a continuous distribution; set abr_tremble=0")
    uniform = legal / jnp.maximum(jnp.sum(legal), 1)
    mixed = (1.0 - share) * jax.nn.softmax(output.logits) + share * uniform
    return PolicyOutput(logits=mask_logits(jnp.log(jnp.maximum(mixed, 1e-30)), legal))


def uniform_like(output: PolicyOutput, legal: Array) -> PolicyOutput:
    """Uniform play over the legal actions [A], in the form of `output`.

    A squashed Gaussian cannot be uniform. Its base gets the mean and the variance of the logistic variable whose tanh
    is uniform on (-1, 1): 0 and pi^2 / 12.
    """
    if output.logits is None:
        assert output.mean is not None
        return PolicyOutput(mean=jnp.zeros_like(output.mean), log_std=jnp.full_like(output.mean, _UNIFORM_LOG_STD))
    return PolicyOutput(logits=mask_logits(jnp.zeros_like(output.logits), legal))


def log_prob(output: PolicyOutput, action: Array) -> Array:
    """Returns log pi(action)."""
    if output.logits is None:
        return _squashed(output).log_prob(jnp.clip(action, -_EDGE, _EDGE))
    return distrax.Categorical(output.logits).log_prob(action)


def action_entropy(output: PolicyOutput) -> Array:
    """Returns the entropy; for a squashed Gaussian that of its base, a proxy in closed form."""
    if output.logits is None:
        return _base(output).entropy()
    return distrax.Categorical(output.logits).entropy()


def action_kl(left: PolicyOutput, right: PolicyOutput) -> Array:
    """Returns KL(left || right); for squashed Gaussians on the base, which equals it (tanh is a bijection)."""
    if left.logits is None:
        return _base(left).kl_divergence(_base(right))
    return distrax.Categorical(left.logits).kl_divergence(distrax.Categorical(right.logits))
