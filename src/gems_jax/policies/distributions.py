"""Action distributions: the only module that uses distrax, so that an upgrade touches one file.

Sampling takes its noise as an argument instead of a key: one uniform per discrete action (inverse CDF), one normal
vector per continuous action. The noise of a whole episode is then drawn in one call. Two policies that get the same
noise are coupled monotonically, as common random numbers require.

Every function is written for one action; callers vmap.
"""

from __future__ import annotations

import functools
import math
from types import ModuleType
from typing import TYPE_CHECKING

import chex
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike

from gems_jax.accelerator.prng import draw_uniform
from gems_jax.types import Array, PolicyOutput

if TYPE_CHECKING:
    import distrax

ILLEGAL = -1e9  # finite, so that gradients and 0 * log 0 stay finite; exp(ILLEGAL) is exactly 0 in float32
_EDGE = 1.0 - 1e-6  # largest squashed action: atanh is infinite at the edge of the box
_NEVER = -80.0  # an action this far below the highest logit is not sampled: well before exp underflows to zero
_UNIFORM_LOG_STD = 0.5 * math.log(math.pi**2 / 12)
_BLOCK = 8  # actions per block of the hierarchical inverse CDF; measured


def mask_logits(logits: Array, legal: Array) -> Array:
    """Replaces the logits [A] of illegal actions by ILLEGAL."""
    chex.assert_equal_shape([logits, legal])
    return jnp.where(legal, logits, ILLEGAL)


def make_output(outputs: Array, legal: Array, continuous: bool = False) -> PolicyOutput:
    """Converts a network's outputs to an action distribution.

    Args:
      outputs: logits [A], or for continuous actions means and log-deviations [2 A].
      legal: [A] bool.
      continuous: whether the actions are continuous.

    Returns:
      Masked logits, or the base of a squashed Gaussian with log-deviations clipped to [-5, 2].
    """
    if not continuous:
        return PolicyOutput(logits=mask_logits(outputs, legal))
    mean, log_std = jnp.split(outputs, 2)
    return PolicyOutput(mean=mean, log_std=jnp.clip(log_std, -5.0, 2.0))


def draw_noise(key: Array, shape: tuple[int, ...], num_actions: int, continuous: bool) -> Array:
    """Draws the noise that `sample_action` takes.

    Args:
      key: typed PRNG key; consumed.
      shape: shape of the batch of actions.
      num_actions: A.
      continuous: whether the actions are continuous.

    Returns:
      Uniforms [*shape], or standard normals [*shape, A] for continuous actions.
    """
    if continuous:
        return jax.random.normal(key, (*shape, num_actions))
    return draw_uniform(key, shape)


@functools.cache
def _distrax() -> ModuleType:
    """Imports distrax at the first use: it takes longer than everything else, and a stored program needs none."""
    import distrax

    return distrax


def _base_gaussian(output: PolicyOutput) -> distrax.MultivariateNormalDiag:
    assert output.mean is not None and output.log_std is not None
    return _distrax().MultivariateNormalDiag(output.mean, jnp.exp(output.log_std))


def _squashed_gaussian(output: PolicyOutput) -> distrax.Transformed:
    distrax = _distrax()
    return distrax.Transformed(_base_gaussian(output), distrax.Block(distrax.Tanh(), 1))


def _max_logit(logits: Array) -> Array:
    """max [A] -> [], by halves: XLA:CPU vectorizes this, but compares pair by pair in a plain maximum."""
    while logits.shape[0] > _BLOCK:
        half = (logits.shape[0] + 1) // 2
        logits = jnp.maximum(logits[:half], logits[-half:])  # the middle one may be in both halves
    return jnp.max(logits)


def relative_masses(logits: Array) -> Array:
    """Computes the probabilities [A] divided by the highest one, which needs no sum."""
    below = logits - _max_logit(logits)
    return jnp.where(below > _NEVER, jnp.exp(below), 0.0)


def _block_sums(masses: Array) -> Array:
    """Sums [ceil(A / _BLOCK)] of blocks of masses [A]; the last block may be short, because padding costs more."""
    whole = masses.shape[0] // _BLOCK * _BLOCK
    sums = jnp.sum(masses[:whole].reshape(-1, _BLOCK), axis=1)
    return sums if whole == masses.shape[0] else jnp.append(sums, jnp.sum(masses[whole:]))


def _take_block(masses: Array, index: Array) -> tuple[Array, Array]:
    """The masses of one block [_BLOCK], and its first index; a short last block is padded in front with zeros."""
    size = masses.shape[0]
    start = jnp.minimum(index * _BLOCK, size - _BLOCK)
    block = jax.lax.dynamic_slice(masses, (start,), (_BLOCK,))
    if size % _BLOCK:
        block = jnp.where(start + jnp.arange(_BLOCK) >= index * _BLOCK, block, 0.0)
    return block, start


def sum_cumulatively(masses: Array) -> Array:
    """Computes the cumulative sum [A] of a few masses as a masked sum, which XLA fuses, unlike a scan."""
    size = len(masses)
    return jnp.sum(jnp.where(np.tril(np.ones((size, size), bool)), masses[None, :], 0.0), axis=1)


def _find_quantile(masses: Array, cdf: Array, threshold: Array) -> tuple[Array, Array]:
    """The first positive mass whose cumulative sum exceeds the threshold, and the threshold minus the masses before it.

    Rounding may leave no such sum, or make equal sums differ. Only positive masses are considered, and the last of them
    is the fallback, so that the index is monotone in the threshold.
    """
    size = masses.shape[0]
    indices = jnp.arange(size)
    first = jnp.min(jnp.where((masses > 0.0) & (cdf > threshold), indices, size))
    last = jnp.max(jnp.where(masses > 0.0, indices, 0))
    index = jnp.minimum(first, last)
    return index, threshold - jnp.sum(jnp.where(indices < index, masses, 0.0))


def _inverse_cdf(masses: Array, noise: Array) -> Array:
    """Index of the mass [A] at the quantile `noise`: first among sums of blocks of blocks, then within a block."""
    levels = [masses]
    while levels[-1].shape[0] > _BLOCK:
        levels.append(_block_sums(levels[-1]))
    cdf = sum_cumulatively(levels[-1])
    index, rest = _find_quantile(levels[-1], cdf, noise * cdf[-1])
    for level in reversed(levels[:-1]):
        block, start = _take_block(level, index)
        offset, rest = _find_quantile(block, sum_cumulatively(block), rest)
        index = start + offset
    return index


def sample_action(output: PolicyOutput, noise: Array) -> Array:
    """Samples an action by inverse CDF, or by the reparameterized squashed Gaussian.

    Args:
      output: distribution over A actions.
      noise: uniform [] for discrete actions, standard normal [A] for continuous ones (see `draw_noise`).

    Returns:
      The action: [] int32 in [0, A), or [A] in (-1, 1).
    """
    if output.logits is None:
        base = _base_gaussian(output)
        return jnp.clip(jnp.tanh(base.loc + base.scale_diag * noise), -_EDGE, _EDGE)
    if output.cdf is not None:
        return jnp.sum(output.cdf <= noise, dtype=jnp.int32)
    masses = relative_masses(output.logits)
    if len(masses) > _BLOCK:
        return _inverse_cdf(masses, noise).astype(jnp.int32)
    cdf = sum_cumulatively(masses)
    # Actions of probability zero repeat the CDF's value, so `<=` skips them. The threshold is scaled by the last entry
    # and therefore stays strictly below it, whatever the rounding.
    return jnp.sum(cdf <= noise * cdf[-1], dtype=jnp.int32)


def tremble(output: PolicyOutput, legal: Array, probability: ArrayLike) -> PolicyOutput:
    """Mixes a distribution with uniform play over the legal actions.

    Args:
      output: distribution over A discrete actions.
      legal: [A] bool.
      probability: probability of a uniformly drawn legal action, [].

    Returns:
      The mixed distribution.

    Raises:
      ValueError: if the actions are continuous.
    """
    if output.logits is None:
        raise ValueError("tremble: expected discrete actions, got a continuous distribution. Set abr_tremble=0.")
    uniform = legal / jnp.maximum(jnp.sum(legal), 1)
    mixed = (1.0 - probability) * jax.nn.softmax(output.logits) + probability * uniform
    return PolicyOutput(logits=mask_logits(jnp.log(jnp.maximum(mixed, 1e-30)), legal))


def uniform_like(output: PolicyOutput, legal: Array) -> PolicyOutput:
    """Makes the uniform distribution over the legal actions [A], of the same type as `output`.

    A squashed Gaussian cannot be uniform. Its base gets the mean and the variance of the logistic variable whose tanh
    is uniform on (-1, 1): 0 and pi^2 / 12.
    """
    if output.logits is None:
        assert output.mean is not None
        return PolicyOutput(mean=jnp.zeros_like(output.mean), log_std=jnp.full_like(output.mean, _UNIFORM_LOG_STD))
    return PolicyOutput(logits=mask_logits(jnp.zeros_like(output.logits), legal))


def log_prob(output: PolicyOutput, action: Array) -> Array:
    """Computes log pi(action) [] of an action as `sample_action` returns it."""
    if output.logits is None:
        return _squashed_gaussian(output).log_prob(jnp.clip(action, -_EDGE, _EDGE))
    return _distrax().Categorical(output.logits).log_prob(action)


def action_entropy(output: PolicyOutput) -> Array:
    """Computes the entropy []; for a squashed Gaussian that of its base, a proxy in closed form."""
    if output.logits is None:
        return _base_gaussian(output).entropy()
    return _distrax().Categorical(output.logits).entropy()


def action_kl(left: PolicyOutput, right: PolicyOutput) -> Array:
    """Computes KL(left || right) []; for squashed Gaussians on their bases, which is equal (tanh is a bijection)."""
    if left.logits is None:
        return _base_gaussian(left).kl_divergence(_base_gaussian(right))
    categorical = _distrax().Categorical
    return categorical(left.logits).kl_divergence(categorical(right.logits))
