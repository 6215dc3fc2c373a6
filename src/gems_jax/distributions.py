"""Action distributions: the only module that uses distrax, so that an upgrade touches one file.

Sampling takes its noise as an argument instead of a key: one uniform per discrete action (inverse CDF), one normal
vector per continuous one. A whole episode's noise is then drawn in one call, and two policies that face the same
noise are coupled monotonically, which is what common random numbers are for.

Every function is written for one action; callers vmap.
"""

from __future__ import annotations

import chex
import distrax
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.types import Array, PolicyOutput

ILLEGAL = -1e9  # finite, so that gradients and 0 * log 0 stay finite; exp(ILLEGAL) is exactly 0 in float32
_EDGE = 1.0 - 1e-6  # a squashed action is kept off the box's edge, where atanh is infinite


def mask_logits(logits: Array, legal: Array) -> Array:
    """Logits [A] with illegal actions at ILLEGAL."""
    chex.assert_equal_shape([logits, legal])
    return jnp.where(legal, logits, ILLEGAL)


def draw_noise(key: Array, shape: tuple[int, ...], num_actions: int, continuous: bool) -> Array:
    """Noise for `shape` actions: uniforms [*shape], or standard normals [*shape, num_actions]. key: consumed."""
    if continuous:
        return jax.random.normal(key, (*shape, num_actions))
    return jax.random.uniform(key, shape)


def _base(output: PolicyOutput) -> distrax.MultivariateNormalDiag:
    assert output.mean is not None and output.log_std is not None
    return distrax.MultivariateNormalDiag(output.mean, jnp.exp(output.log_std))


def _squashed(output: PolicyOutput) -> distrax.Transformed:
    return distrax.Transformed(_base(output), distrax.Block(distrax.Tanh(), 1))


def cumulative(logits: Array) -> Array:
    """The CDF [A], not normalised: its last entry is the sum of all.

    For few actions as a masked sum, which fuses where XLA's own scan would be a kernel apart.
    """
    weights = jnp.exp(logits - jnp.max(logits))
    size = len(logits)
    if size > 32:
        return jnp.cumsum(weights)
    return jnp.sum(jnp.where(jnp.tril(jnp.ones((size, size), bool)), weights[None, :], 0.0), axis=1)


def sample(output: PolicyOutput, noise: Array) -> Array:
    """An action: int32 in [0, A), or a point of the box (-1, 1)^A."""
    if output.logits is None:
        base = _base(output)
        return jnp.clip(jnp.tanh(base.loc + base.scale_diag * noise), -_EDGE, _EDGE)
    if output.thresholds is not None:
        return jnp.sum(output.thresholds <= noise, dtype=jnp.int32)
    cdf = cumulative(output.logits)
    # Zero-probability actions repeat the CDF's value and are passed over by `<=`; scaling by the last entry keeps the
    # threshold strictly below it, whatever the rounding.
    return jnp.sum(cdf <= noise * cdf[-1], dtype=jnp.int32)


def tremble(output: PolicyOutput, legal: Array, share: ArrayLike) -> PolicyOutput:
    """The same distribution, but with probability `share` any legal action [A] alike: a trembling hand."""
    if output.logits is None:
        raise ValueError("only discrete actions can tremble: got a continuous distribution; set abr_tremble=0")
    alike = legal / jnp.maximum(jnp.sum(legal), 1)
    mixed = (1.0 - share) * jax.nn.softmax(output.logits) + share * alike
    return PolicyOutput(logits=mask_logits(jnp.log(jnp.maximum(mixed, 1e-30)), legal))


def log_prob(output: PolicyOutput, action: Array) -> Array:
    """log pi(action)."""
    if output.logits is None:
        return _squashed(output).log_prob(jnp.clip(action, -_EDGE, _EDGE))
    return distrax.Categorical(output.logits).log_prob(action)


def entropy(output: PolicyOutput) -> Array:
    """Entropy; for a squashed Gaussian that of its base, a proxy in closed form."""
    if output.logits is None:
        return _base(output).entropy()
    return distrax.Categorical(output.logits).entropy()


def kl(left: PolicyOutput, right: PolicyOutput) -> Array:
    """KL(left || right); for squashed Gaussians on the base, which equals it (tanh is a bijection)."""
    if left.logits is None:
        return _base(left).kl_divergence(_base(right))
    return distrax.Categorical(left.logits).kl_divergence(distrax.Categorical(right.logits))
