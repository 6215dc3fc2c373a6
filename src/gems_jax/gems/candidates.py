"""The oracle's candidates: a pool of latent codes, episodes that measure them, and the choice (sec:bandit-oracle)."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
from jax.typing import ArrayLike

from gems_jax.config import GemsConfig
from gems_jax.meta.bandit import Pulls
from gems_jax.types import Array, Struct


class CandidatePool(NamedTuple):
    """Candidates of one population: new codes, then with `pool_anchors` the anchors [K] themselves."""

    codes: Array  # [C, D]
    parent: Array  # [C] int32, slot of the mutated anchor or of the anchor itself, -1 for random codes
    valid: Array  # [C] bool, False for slots without an anchor
    num_fresh: int  # number of candidates that are not anchors yet


def propose_candidates(
    key: Array, anchors: Array, log_sigma: Array, active: Array, config: GemsConfig
) -> CandidatePool:
    """Proposes the candidate pool Lambda_t of one population (sec:bandit-oracle).

    Args:
      key: typed PRNG key; consumed.
      anchors: latent codes, [K, D].
      log_sigma: logarithms of the mixture, [K].
      active: which slots hold an anchor, [K] bool.
      config: sizes and scale of the pool.

    Returns:
      The pool of C candidates; see `propose_codes`.
    """
    codes, parent = propose_codes(
        key,
        anchors,
        log_sigma,
        active,
        num_mutations=config.mutations,
        num_random=config.randoms,
        mutation_scale=config.mutation_scale,
        top_anchors=config.top_anchors,
    )
    fresh = len(codes)
    if not config.pool_anchors:
        return CandidatePool(codes, parent, jnp.ones(fresh, bool), fresh)
    # Empty slots repeat an anchor, so that every row of the pool is a playable candidate.
    held = jnp.where(active[:, None], anchors, anchors[jnp.argmax(active)][None])
    return CandidatePool(
        codes=jnp.concatenate([codes, held]),
        parent=jnp.concatenate([parent, jnp.arange(config.capacity, dtype=jnp.int32)]),
        valid=jnp.concatenate([jnp.ones(fresh, bool), active]),
        num_fresh=fresh,
    )


def propose_codes(
    key: Array,
    anchors: Array,
    log_sigma: Array,
    active: Array,
    *,
    num_mutations: int,
    num_random: int,
    mutation_scale: ArrayLike,
    top_anchors: int,
) -> tuple[Array, Array]:
    """Proposes codes for one population: mutations of the heaviest anchors, then draws from N(0, I).

        z_c = z_parent(c) + mutation_scale * N(0, I)  for mutations,    z_c = N(0, I)  for random codes

    The parents cycle through the `top_anchors` heaviest active anchors (fewer if fewer are active).

    Args:
      key: typed PRNG key; consumed.
      anchors: latent codes, [K, D].
      log_sigma: logarithms of the mixture, [K].
      active: which slots hold an anchor, [K] bool.
      num_mutations: number of mutations, static, may be 0.
      num_random: number of random codes, static, may be 0.
      mutation_scale: standard deviation of a mutation, [].
      top_anchors: number of parents.

    Returns:
      Codes [C, D] with C = num_mutations + num_random, and their parents [C] int32, a slot or -1.

    Raises:
      ValueError: if a number is out of range.
    """
    chex.assert_rank([anchors, log_sigma, active], [2, 1, 1])
    chex.assert_equal_shape_prefix([anchors, log_sigma, active], 1)
    if min(num_mutations, num_random) < 0 or top_anchors < 1:
        raise ValueError(
            "propose_codes: expected num_mutations and num_random of at least 0 and top_anchors of at least 1, got "
            f"num_mutations={num_mutations}, num_random={num_random}, top_anchors={top_anchors}."
        )
    slots, latent = anchors.shape
    # An active anchor without mass still ranks before every inactive slot.
    weight = jnp.where(active, jnp.maximum(log_sigma, jnp.finfo(jnp.float32).min), -jnp.inf)
    _, heaviest = jax.lax.top_k(weight, min(top_anchors, slots))
    num_parents = jnp.clip(jnp.sum(active), 1, heaviest.shape[0])
    parent = heaviest[jnp.arange(num_mutations) % num_parents].astype(jnp.int32)
    key_mutation, key_random = jax.random.split(key)
    mutated = anchors[parent] + mutation_scale * jax.random.normal(key_mutation, (num_mutations, latent))
    fresh = jax.random.normal(key_random, (num_random, latent))
    no_parent = jnp.full(num_random, -1, dtype=jnp.int32)
    return jnp.concatenate([mutated, fresh]), jnp.concatenate([parent, no_parent])


class OracleResult(Struct):
    """Measurements of C candidates, and the selected candidates."""

    stats: Pulls
    scores: Array  # [C], the index after the last round
    selected: Array  # [min(num_selected, C)] int32, best first
    env_steps: Array  # [] int32, environment steps of all pulls

    @property
    def episodes(self) -> Array:
        """Number of measured returns, [] int32."""
        return self.stats.count.sum()


def run_oracle(
    key: Array,
    evaluate: Callable[[Array, Array, int], tuple[Array, Array]],
    num_candidates: int,
    *,
    score: Callable[[Array, Pulls], Array],
    pulls_per_candidate: int,
    rounds: int = 1,
    num_selected: int = 1,
    later_rounds: Array | None = None,
) -> OracleResult:
    """Measures C candidates with C * pulls_per_candidate pulls in total, and selects the best (sec:bandit-oracle).

        z* = argmax_{z in Lambda_t} score(z)

    With one round all candidates get equal pulls, as in the paper. With more rounds every candidate first gets
    pulls_per_candidate // rounds pulls (and the remainder). Each later round divides as many pulls among the
    F = max(1, C // 4) candidates of the highest scores; rounding loses up to F - 1 pulls. Selected are the candidates
    with the most pulls, ordered by score: after equal pulls that is the argmax of the score, and after unequal pulls a
    candidate with few pulls is not selected for its bonus.

    Args:
      key: typed PRNG key; consumed.
      evaluate: (key, indices [F], num) -> (returns [F, n], environment steps []), where `num` is a static number of
        pulls per candidate (such as opponents) and n a fixed multiple of it. Traced once, or twice if rounds > 1.
      num_candidates: C; 0 selects nothing.
      score: (key, stats) -> [C].
      pulls_per_candidate: mean number of pulls.
      rounds: number of rounds, static.
      num_selected: number of candidates to select.
      later_rounds: a traced number of later rounds that replaces rounds - 1; read if rounds > 1.

    Returns:
      Statistics, scores after the last round, the selected candidates and the environment steps of all pulls.

    Raises:
      ValueError: if there are more rounds than pulls.
    """
    if not 1 <= rounds <= pulls_per_candidate:
        raise ValueError(
            "run_oracle: expected 1 <= rounds <= pulls_per_candidate, got "
            f"rounds={rounds} and pulls_per_candidate={pulls_per_candidate}. Use fewer rounds or more pulls."
        )
    stats = Pulls.empty(num_candidates)
    if num_candidates == 0:
        return OracleResult(stats, stats.mean, jnp.zeros(0, dtype=jnp.int32), jnp.int32(0))
    key, key_first, key_last = jax.random.split(key, 3)
    base_pulls = pulls_per_candidate // rounds
    everyone = jnp.arange(num_candidates)
    returns, env_steps = evaluate(key_first, everyone, pulls_per_candidate - (rounds - 1) * base_pulls)
    stats = stats.add(everyone, returns)

    num_favored = max(1, num_candidates // 4)
    pulls_each = num_candidates * base_pulls // num_favored

    def adaptive_round(_: Array, carry: tuple[Pulls, Array, Array]) -> tuple[Pulls, Array, Array]:
        stats, key, env_steps = carry
        key, key_score, key_evaluate = jax.random.split(key, 3)
        favored = jax.lax.top_k(score(key_score, stats), num_favored)[1]
        returns, steps = evaluate(key_evaluate, favored, pulls_each)
        return stats.add(favored, returns), key, env_steps + steps

    count = rounds - 1 if later_rounds is None else later_rounds
    if rounds > 1:
        stats, _, env_steps = jax.lax.fori_loop(0, count, adaptive_round, (stats, key, env_steps))
    scores = score(key_last, stats)
    chex.assert_shape(scores, (num_candidates,))
    order = jnp.lexsort((-scores, -stats.count))
    return OracleResult(stats, scores, order[:num_selected].astype(jnp.int32), env_steps)
