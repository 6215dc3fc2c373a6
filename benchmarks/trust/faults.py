"""Faults planted in the core by `benchmarks.trust.mutation`: one line of the source each, and tests that should fail.

A fault is a mistake that a programmer could make: a wrong sign, constant, mask, index, key or order. It leaves the
shapes as they are, so that the program runs. The tests are the files of the default suite that test the same module;
these files are run, not the whole suite, so a fault that is found here is found by `make test` too. Of long files
the tests that are nearest to the fault run first, and the others if these pass.
"""

from __future__ import annotations

from typing import NamedTuple


class Fault(NamedTuple):
    """A fault: `new` replaces `old`, which occurs once in `file`."""

    name: str
    file: str  # below src/gems_jax
    old: str
    new: str
    tests: tuple[str, ...]  # below tests
    first: str = ""  # names of the tests of these files that run first, as pytest's -k selects them


_OMWU, _SIMPLEX = ("meta/test_omwu.py",), ("meta/test_simplex.py",)
_INDICES, _NASH = ("meta/test_indices.py",), ("meta/test_nash.py", "meta/test_matrix.py")
_GENERATOR = ("policies/test_generator.py",)
_GAE, _PPO = ("learning/test_gae.py", "learning/test_action_values.py"), ("learning/test_ppo.py",)
_LOSS = ("gems/test_response.py", "gems/test_phases.py")
_VALUES = ("estimation/test_monte_carlo.py",)
_WEIGHTS = ("estimation/test_importance.py",)
_REPLAY = ("estimation/test_replay.py",)
_CONTROL = ("estimation/test_control_variates.py",)
_STEP = ("gems/test_step.py",)
_CFR = ("extensive/test_cfr.py",)
_SAMPLED = ("extensive/test_traversals.py", "extensive/test_mccfr.py")

FAULTS = (
    Fault(
        "OMWU: half of the optimistic hint",
        "meta/omwu.py",
        "2.0 * values - previous_values",
        "1.5 * values - 0.5 * previous_values",
        _OMWU,
    ),
    Fault(
        "OMWU: the gradient cap holds on one side only",
        "meta/omwu.py",
        "bracket, 0.0), -jnp.asarray(gradient_cap), jnp.asarray",
        "bracket, 0.0), -jnp.inf, jnp.asarray",
        _OMWU,
    ),
    Fault(
        "OMWU: logits are capped below zero instead of below the largest",
        "meta/omwu.py",
        "relative = logits - jnp.where(top == -jnp.inf, 0.0, top)",
        "relative = logits + 0.0 * top",
        _OMWU,
    ),
    Fault(
        "mixtures: stratified draws without a random offset",
        "meta/simplex.py",
        "(jnp.arange(num_draws) + jax.random.uniform(key_offset))",
        "(jnp.arange(num_draws) + 0.5)",
        _SIMPLEX,
        "stratified",
    ),
    Fault(
        "mixtures: stratified draws in the order of the slots",
        "meta/simplex.py",
        "return jax.random.permutation(key_order, _inverse_cdf(log_sigma, points))",
        "return _inverse_cdf(log_sigma, points)",
        _SIMPLEX,
        "stratified",
    ),
    Fault(
        "oracle: the distance between means is no deviation",
        "meta/bandit.py",
        " + old_count * weight * shift**2",
        "",
        _INDICES,
        "numpy",
    ),
    Fault(
        "oracle: range term over n instead of n - 1",
        "meta/bandit.py",
        "3.0 * log_term / jnp.maximum(pulls - 1.0, 1.0)",
        "3.0 * log_term / pulls",
        _INDICES,
        "eb_ucb or width",
    ),
    Fault("oracle: ln(2 / delta) in EB-UCB", "meta/bandit.py", "jnp.log(3.0 / ", "jnp.log(2.0 / ", _INDICES, "eb_ucb"),
    Fault(
        "oracle: the Jacobian term is a bonus",
        "meta/bandit.py",
        "score - jnp.asarray(lambda_jacobian)",
        "score + jnp.asarray(lambda_jacobian)",
        _INDICES,
        "eb_ucb",
    ),
    Fault(
        "oracle: the most pulled candidates in order of the lowest score",
        "gems/candidates.py",
        "jnp.lexsort((-scores, -stats.count))",
        "jnp.lexsort((scores, -stats.count))",
        ("gems/test_candidates.py",),
        "pick_the_argmax or adaptive_pulls",
    ),
    Fault(
        "insertion: a new anchor's mass counts empty slots",
        "gems/oracle.py",
        "mass = 1.0 / jnp.sum(active)",
        "mass = 1.0 / len(active)",
        _STEP,
        "newcomers",
    ),
    Fault(
        "insertion: the run average keeps the mass of a replaced anchor",
        "gems/step.py",
        "remove_mass(_average_sigma(state, solution.sigma), expansion.slots)",
        "_average_sigma(state, solution.sigma)",
        _STEP,
        "average or given_away",
    ),
    Fault(
        "Jacobian: slope 1 - f in the closed form",
        "policies/generator.py",
        "slope = 1.0 - self.features(theta, z) ** 2",
        "slope = 1.0 - self.features(theta, z)",
        _GENERATOR,
        "jacobian",
    ),
    Fault(
        "Jacobian: the norm instead of its square",
        "policies/generator.py",
        "return jnp.sum(jax.jacfwd(_flat_output(generator, theta))(z) ** 2)",
        "return jnp.sqrt(jnp.sum(jax.jacfwd(_flat_output(generator, theta))(z) ** 2))",
        _GENERATOR,
        "jacobian",
    ),
    Fault(
        "GAE: the decay without the discount",
        "learning/gae.py",
        "delta + discount * decay * next_advantage",
        "delta + decay * next_advantage",
        _GAE,
        "gae",
    ),
    Fault(
        "GAE: advantages flow across a time limit",
        "learning/gae.py",
        "_select(ended | cut, over, carry)",
        "_select(ended, over, carry)",
        _GAE,
    ),
    Fault(
        "advantages: doubly robust weights correct by the mean",
        "learning/gae.py",
        "taken * (target[..., None] - action_values)",
        "taken * (target[..., None] - value)",
        _GAE,
        "weights_by_hand",
    ),
    Fault(
        "PPO: no clipping from below",
        "learning/ppo.py",
        "jnp.clip(ratio, 1.0 - clip, 1.0 + clip)",
        "jnp.clip(ratio, 0.0, 1.0 + clip)",
        _PPO,
        "by_hand",
    ),
    Fault(
        "PPO: entropy is punished",
        "learning/ppo.py",
        "- settings.entropy_weight * parts.entropy",
        "+ settings.entropy_weight * parts.entropy",
        _PPO,
        "by_hand",
    ),
    Fault(
        "trust region: KL of the frozen policy from the new one",
        "learning/trust_region.py",
        "batch.kl_per_code(batch.behavior(learner, params), then)",
        "batch.kl_per_code(then, batch.behavior(learner, params))",
        _LOSS,
        "by_hand or terms",
    ),
    Fault(
        "ABR-TR: the slowdown does not weigh the trust region",
        "gems/response.py",
        "penalty = config.beta_kl * config.slowdown * kl",
        "penalty = config.beta_kl * kl",
        (*_LOSS, *_STEP),
        "terms or slowdown",
    ),
    Fault(
        "estimators: the biased variance",
        "estimation/monte_carlo.py",
        "jnp.var(returns, axis=-1) * (count / max(count - 1, 1))",
        "jnp.var(returns, axis=-1)",
        _VALUES,
        "variances_are_unbiased",
    ),
    Fault(
        "estimators: opponents are drawn from the own mixture",
        "estimation/monte_carlo.py",
        "policy_returns(own_key, views, own, others, rotate(log_sigma, p), sampling, wanted)",
        "policy_returns(own_key, views, own, others, log_sigma, sampling, wanted)",
        _VALUES,
        "values_by_hand or own_populations or known_value",
    ),
    Fault(
        "estimators: weights of the others include the player's own",
        "estimation/importance.py",
        "(others / chance[:, player])[:, None]",
        "(profile_weight / chance[:, player])[:, None]",
        _WEIGHTS,
        "floor or formula",
    ),
    Fault(
        "estimators: the delta method without its factor B",
        "estimation/importance.py",
        "jnp.where(met, len(earned) * square",
        "jnp.where(met, square",
        _WEIGHTS,
        "self_normalised",
    ),
    Fault(
        "replay: returns of a replaced anchor stay",
        "estimation/replay.py",
        "return jnp.where(replaced, 0.0, factor)",
        "return jnp.where(replaced, discount, factor)",
        _REPLAY,
        "moved_anchor or discount",
    ),
    Fault(
        "replay: pairs are drawn by 1 / (1 + N) instead of its root",
        "estimation/replay.py",
        "- 0.5 * jnp.log1p(counts)",
        "- 1.0 * jnp.log1p(counts)",
        _REPLAY,
        "drawn_where",
    ),
    Fault(
        "control variates: final positions have a value",
        "estimation/control_variates.py",
        "return jnp.where(state.done, 0.0, self.to_view(found))",
        "return self.to_view(found)",
        _CONTROL,
        "no_variance",
    ),
    Fault(
        "CFR+: every iteration weighs the same",
        "extensive/counterfactual.py",
        "weight = 2.0 / (step + 1.0) if plus else 1.0 / step",
        "weight = 1.0 / step",
        _CFR,
        "open_spiel",
    ),
    Fault(
        "CFR: counterfactual values include the player's own reach",
        "extensive/sequence_form.py",
        "gain = gain if other == player else gain * reaches[other]",
        "gain = gain * reaches[other]",
        _CFR,
        "by_the_definition or open_spiel",
    ),
    Fault(
        "MCCFR: the sampling probability of own actions is not divided out",
        "extensive/traversals.py",
        "inverse * jnp.where(own, 1.0, played)",
        "inverse * played",
        _SAMPLED,
        "unbiased",
    ),
    Fault(
        "Nash: the tolerance does not scale with the payoffs",
        "meta/nash.py",
        "carry[1] > tolerance * largest",
        "carry[1] > tolerance",
        _NASH,
        "tolerance",
    ),
    Fault(
        "Nash: regrets are not clipped",
        "meta/nash.py",
        "regrets.at[player].set(jnp.maximum(regrets[player] + regret, 0.0))",
        "regrets.at[player].set(regrets[player] + regret)",
        _NASH,
        "gap_of_random or regret_matching_plus",
    ),
    Fault(
        "Nash: the gap counts empty slots",
        "meta/matrix.py",
        "best = jnp.max(values, axis=1, initial=-jnp.inf, where=active)",
        "best = jnp.max(values, axis=1)",
        _NASH,
        "unequal or padding",
    ),
)
