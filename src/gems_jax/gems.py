"""The Generative Evolutionary Meta-Solver: Algorithm 1 as one pure step.

`gems_step(state, key, game, config)` estimates the meta-game, updates the meta-strategy, adds the oracle's anchor and
trains the generator. It nests in jit, scan, vmap over seeds and vmap over real-valued settings.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp

from gems_jax import best_response, distributions, oracle, simplex
from gems_jax.best_response import Experience, Learner, TrainMetrics
from gems_jax.config import GemsConfig
from gems_jax.estimate import Estimate, policy_returns, population_values
from gems_jax.evaluate.infosets import infoset_policy
from gems_jax.meta.omwu import omwu_update
from gems_jax.meta.schedules import step_size
from gems_jax.nets import Concatenated, Critic, Generator, Hypernetwork, MlpPolicy, PolicyNetwork, jacobian_norm
from gems_jax.population import Anchors, StackedPolicies, choose_slot, materialise
from gems_jax.roles import View, at, each_population, rotate
from gems_jax.streams import stream
from gems_jax.types import Array, Game, PolicyOutput, Profile, PyTree, num_populations, struct


@struct
class GemsState:
    """Everything that is carried from iteration to iteration. Its bytes never change."""

    generator: PyTree  # theta [P, ...]
    critic: PyTree  # [P, ...]
    opt_state: dict[str, PyTree]  # [P, ...] of "generator" and "critic"
    anchors: Array  # [P, K, D], latent codes z
    active: Array  # [P, K]
    anchor_id: Array  # [P, K] int32, counts insertions; -1 in empty slots
    log_sigma: Array  # [P, K], where the next meta update starts: newcomers have mass
    sigma: Array  # [P, K], the mixture that is played: this iteration's average of the meta iterates
    sigma_average: Array  # [P, K], its average over the run
    values: Array  # [P, K], v-hat of the step before, scaled returns
    mixture_value: Array  # [P]
    step: Array  # [] int32, iterations done


@struct
class GemsMetrics:
    """What one iteration measured; values and scores in scaled returns. f and v refer to the generator before ABR."""

    values: Array  # [P, K]
    variances: Array  # [P, K]
    widths: Array  # [P, K], empirical-Bernstein half-widths of the values at confidence 1 - delta
    mixture_value: Array  # [P]
    measured_sigma: Array  # [P, K], the mixture that `values` were measured against
    sigma: Array  # [P, K], the mixture after the update, before the newcomer
    pool: Array  # [P, C, D], the candidates
    parent: Array  # [P, C] int32, slot a candidate was mutated from, -1 for random ones
    scores: Array  # [P, C]
    pool_means: Array  # [P, C]
    chosen: Array  # [P] int32, the best candidate, -1 when the oracle added nothing
    slot: Array  # [P] int32, where it went, -1 likewise
    jacobian: Array  # [P], mean ||J G(z)||_F^2 over active anchors
    kl: Array  # [P], KL of the trained generator to the frozen one, mean over protected anchors
    forgetting: Array  # [P, K], the same per anchor
    entropy: Array  # [P]
    objective: Array  # [P]
    value_loss: Array  # [P]
    gradient_norm: Array  # [P]
    num_active: Array  # [P] int32
    episodes: Array  # [] int32, of this iteration
    env_steps: Array  # [] int32
    gradient_steps: Array  # [] int32


class Networks(NamedTuple):
    generator: Generator
    critic: Critic


def networks(game: Game, config: GemsConfig) -> Networks:
    """The networks that the config asks for on this game: static, equal for equal arguments."""
    observation_size = math.prod(game.observation_shape)
    policy: PolicyNetwork
    if config.policy == "tabular":
        policy = infoset_policy(game)
    else:
        policy = MlpPolicy(observation_size, game.num_actions, config.policy_hidden, game.continuous)
    generator: Generator
    if config.generator == "concatenated":
        assert isinstance(policy, MlpPolicy)  # config.validate() has said so
        generator = Concatenated(policy, config.latent_dim)
    else:
        generator = Hypernetwork(policy, config.latent_dim, config.generator_widths)
    return Networks(generator, Critic(observation_size, config.latent_dim, config.critic_hidden))


def init_gems(key: Array, game: Game, config: GemsConfig) -> GemsState:
    """Z_0 ~ N(0, I), sigma_0 uniform over it, fresh networks. Checks the config. key: consumed."""
    config.validate()
    _check_game(game)
    nets, num = networks(game, config), num_populations(game)
    key_generator, key_critic, key_anchors = jax.random.split(key, 3)
    generator = jax.vmap(lambda k: nets.generator.init(k, config.generator_scale))(jax.random.split(key_generator, num))
    critic = jax.vmap(nets.critic.init)(jax.random.split(key_critic, num))
    active = jnp.broadcast_to(jnp.arange(config.capacity) < config.initial_anchors, (num, config.capacity))
    codes = jax.random.normal(key_anchors, (num, config.capacity, config.latent_dim))
    sigma = jax.vmap(simplex.masked_uniform)(active)
    return GemsState(
        generator=generator,
        critic=critic,
        opt_state=_fresh_optimizer({"generator": generator, "critic": critic}, config),
        anchors=jnp.where(active[:, :, None], codes, 0.0),
        active=active,
        anchor_id=jnp.where(active, jnp.arange(config.capacity)[None, :], -1).astype(jnp.int32),
        log_sigma=jnp.log(sigma),
        sigma=sigma,
        sigma_average=sigma,
        values=jnp.zeros_like(sigma),
        mixture_value=jnp.zeros(num),
        step=jnp.int32(0),
    )


def population_of(state: GemsState, game: Game, config: GemsConfig) -> Anchors:
    """The generated population [P] of a state."""
    temperature = jnp.broadcast_to(jnp.asarray(config.temperature, jnp.float32), (num_populations(game),))
    return Anchors(state.generator, state.anchors, temperature, networks(game, config).generator)


def gems_profile(state: GemsState, game: Game, config: GemsConfig, which: str = "iterate") -> Profile:
    """The mixture to play: `iterate`, of the last iteration, or `average`, over the run."""
    if which not in ("iterate", "average"):
        raise ValueError(f"unknown profile {which!r}; known: 'iterate', 'average'")
    return Profile(population_of(state, game, config), state.sigma if which == "iterate" else state.sigma_average)


def gems_step(state: GemsState, key: Array, game: Game, config: GemsConfig) -> tuple[GemsState, GemsMetrics]:
    """One iteration of Algorithm 1. key: consumed."""
    key_value, key_oracle, key_train = jax.random.split(stream(key), 3)
    frozen = population_of(state, game, config)
    opponents = materialise(frozen, config.capacity)

    solution = solve_meta_game(key_value, state, opponents, game, config)  # phases 1 and 2
    found = expand(key_oracle, state, solution, frozen, opponents, game, config)  # phase 3
    response = respond(key_train, state, found, opponents, game, config)  # phase 4

    estimate, trained = solution.estimate, response.metrics
    before = state.step.astype(jnp.float32)
    average = (state.sigma_average * before + solution.sigma) / (before + 1.0)
    next_state = GemsState(
        generator=response.params["generator"],
        critic=response.params["critic"],
        opt_state=response.opt_state,
        anchors=found.anchors,
        active=found.active,
        anchor_id=found.anchor_id,
        log_sigma=found.log_sigma,
        sigma=found.sigma,
        sigma_average=_without(average, found.slot),
        values=found.values,
        mixture_value=estimate.mixture_value,
        step=state.step + 1,
    )
    samples = config.num_opponents * config.episodes
    metrics = GemsMetrics(
        values=estimate.values,
        variances=estimate.variances,
        widths=oracle.empirical_bernstein_width(estimate.variances, samples, config.delta),
        mixture_value=estimate.mixture_value,
        measured_sigma=solution.measured_sigma,
        sigma=solution.sigma,
        pool=found.pool,
        parent=found.parent,
        scores=found.scores,
        pool_means=found.pool_means,
        chosen=found.chosen,
        slot=found.slot[:, 0],
        jacobian=response.jacobian,
        kl=response.kl,
        forgetting=response.forgetting,
        entropy=trained.entropy,
        objective=trained.objective,
        value_loss=trained.value_loss,
        gradient_norm=trained.gradient_norm,
        num_active=jnp.sum(found.active, axis=1, dtype=jnp.int32),
        episodes=solution.episodes + found.episodes + response.episodes,
        env_steps=solution.env_steps + found.env_steps + response.env_steps,
        gradient_steps=jnp.int32(config.abr_steps * config.abr_epochs * len(trained.entropy)),
    )
    return next_state, metrics


class MetaSolution(NamedTuple):
    log_sigma: Array  # [P, K], the last iterate
    sigma: Array  # [P, K], the average of the iterates
    measured_sigma: Array  # [P, K]
    values: Array  # [P, K], after the moving average
    estimate: Estimate
    episodes: Array
    env_steps: Array


def solve_meta_game(
    key: Array, state: GemsState, opponents: StackedPolicies, game: Game, config: GemsConfig
) -> MetaSolution:
    """Phases 1 and 2: `meta_steps` rounds of estimating v-hat on fresh episodes and one OMWU update. key: consumed."""

    def update(carry: tuple[Array, Array, Array], inputs: tuple[Array, Array]) -> tuple[tuple, tuple]:
        log_sigma, previous, number = carry
        round_key, first = inputs
        estimate = population_values(
            round_key,
            game,
            opponents,
            log_sigma,
            state.active,
            num_opponents=config.num_opponents,
            episodes=config.episodes,
            mixture_samples=config.mixture_samples,
            sampling=config.opponents,
            common=config.common_random_numbers,
        )
        # Nothing has been measured before the very first round: 0 as printed, or no hint at all.
        unknown = first & (state.step == 0) & (config.new_value == "oracle_mean")
        previous = jnp.where(unknown, estimate.values, previous)
        weight = jnp.where((config.ema == 0.0) | (first & (state.step == 0)), 1.0, config.ema)
        values = weight * estimate.values + (1.0 - weight) * previous
        eta = step_size(config.schedule, config.eta, config.alpha, number, config.slowdown)
        rule = functools.partial(
            omwu_update,
            step_size=eta,
            optimistic=config.meta_rule == "omwu",
            gradient_cap=config.gradient_cap,
            logit_cap=config.logit_cap,
        )
        following = jax.vmap(lambda ls, v, pv, r, a: rule(ls, v, pv, r, active=a))(
            log_sigma, values, previous, estimate.mixture_value, state.active
        )
        return (following, values, number + 1), (log_sigma, following, estimate)

    start = jnp.log(jax.vmap(simplex.masked_uniform)(state.active)) if config.meta_restart else state.log_sigma
    carry = (start, state.values, state.step * config.meta_steps + 1)
    rounds = (jax.random.split(key, config.meta_steps), jnp.arange(config.meta_steps) == 0)
    (log_sigma, values, _), (measured, iterates, estimates) = jax.lax.scan(update, carry, rounds)
    return MetaSolution(
        log_sigma=log_sigma,
        sigma=jnp.mean(jnp.exp(iterates), axis=0),
        measured_sigma=jnp.exp(measured[-1]),
        values=values,
        estimate=jax.tree.map(lambda leaf: leaf[-1], estimates),
        episodes=jnp.sum(estimates.episodes),
        env_steps=jnp.sum(estimates.env_steps),
    )


class Expansion(NamedTuple):
    """The anchor set after the oracle, [P, ...] throughout."""

    anchors: Array
    active: Array
    anchor_id: Array
    log_sigma: Array
    sigma: Array  # the played mixture: newcomers have no mass yet
    values: Array
    pool: Array
    parent: Array
    scores: Array
    pool_means: Array
    chosen: Array
    slot: Array  # [P, anchors_per_call], -1 when nothing was added
    episodes: Array
    env_steps: Array


def expand(
    key: Array,
    state: GemsState,
    solution: MetaSolution,
    frozen: Anchors,
    opponents: StackedPolicies,
    game: Game,
    config: GemsConfig,
) -> Expansion:
    """Phase 3: candidates by mutation and at random, the best by EB-UCB against sigma' joins. key: consumed."""
    log_played = jnp.log(solution.sigma)

    def one(views: tuple[View, ...], p: Array | int, own_key: Array) -> Expansion:
        key_pool, key_oracle = jax.random.split(own_key)
        pool, parent = oracle.propose(
            key_pool,
            state.anchors[p],
            log_played[p],
            state.active[p],
            num_mutations=config.mutations,
            num_random=config.randoms,
            mutation_scale=config.mutation_scale,
            top_anchors=config.top_anchors,
        )
        base = Expansion(
            anchors=state.anchors[p],
            active=state.active[p],
            anchor_id=state.anchor_id[p],
            log_sigma=solution.log_sigma[p],
            sigma=solution.sigma[p],
            values=solution.values[p],
            pool=pool,
            parent=parent,
            scores=jnp.zeros(len(pool)),
            pool_means=jnp.zeros(len(pool)),
            chosen=jnp.int32(-1),
            slot=jnp.full(config.anchors_per_call, -1, jnp.int32),
            episodes=jnp.int32(0),
            env_steps=jnp.int32(0),
        )
        if len(pool) == 0:  # an ablation of the paper: the oracle adds nothing
            return base
        verdict = judge_pool(
            key_oracle, views, pool, at(rotate(frozen, p), 0), rotate(opponents, p), rotate(log_played, p),
            state.step + 1, config,
        )  # fmt: skip
        grown = base._replace(
            scores=verdict.scores,
            pool_means=verdict.stats.mean,
            chosen=verdict.selected[0],
            episodes=verdict.episodes,
            env_steps=verdict.env_steps,
        )
        for rank in range(config.anchors_per_call):
            best = verdict.selected[rank]
            grown = insert(grown, rank, pool[best], verdict.stats.mean[best], config)
        due = state.step % config.oracle_period == 0
        return grown if config.oracle_period == 1 else jax.tree.map(lambda n, o: jnp.where(due, n, o), grown, base)

    merged = each_population(game, one, jax.random.split(key, num_populations(game)))
    return merged._replace(episodes=merged.episodes.sum(), env_steps=merged.env_steps.sum())


def judge_pool(
    key: Array,
    views: tuple[View, ...],
    pool: Array,
    frozen: Anchors,
    opponents: StackedPolicies,
    log_sigma: Array,
    time: Array,
    config: GemsConfig,
) -> oracle.OracleResult:
    """Play every candidate of one population against sigma' and score it (eq:ucb-jac). key: consumed."""
    key_play, key_jacobian = jax.random.split(key)
    candidates = jax.vmap(frozen.generate)(pool)

    def evaluate(round_key: Array, indices: Array, num_opponents: int) -> tuple[Array, Array]:
        returns, lengths = policy_returns(
            round_key,
            views,
            jax.tree.map(lambda leaf: leaf[indices], candidates),
            frozen.apply,
            opponents,
            log_sigma,
            num_opponents=num_opponents,
            episodes=config.oracle_episodes,
            sampling=config.opponents,
            common=config.common_random_numbers,
        )
        return returns, lengths.sum()

    if config.jacobian == "none":
        norms = jnp.zeros(len(pool))
    else:
        keys = jax.random.split(key_jacobian, len(pool))
        norms = jax.vmap(lambda z, k: jacobian_norm(frozen.generator, frozen.theta, z, config.jacobian, k))(pool, keys)

    def score(score_key: Array, stats: oracle.Pulls) -> Array:
        return oracle.index_scores(
            config.index,
            score_key,
            stats,
            t=jnp.sum(stats.count),
            delta=oracle.delta_at(config.delta_rule, config.delta, time),
            jacobian=norms,
            lambda_jacobian=jacobian_weight(config, time),
            range_term=config.range_term,
        )

    return oracle.run_oracle(
        key_play,
        evaluate,
        len(pool),
        score=score,
        pulls_per_candidate=config.oracle_opponents,
        rounds=config.oracle_rounds,
        num_selected=config.anchors_per_call,
    )


def jacobian_weight(config: GemsConfig, time: Array) -> Array:
    """lambda_J, annealed."""
    return config.lambda_jacobian / (1.0 + config.lambda_decay * time)


def insert(grown: Expansion, rank: int, code: Array, mean: Array, config: GemsConfig) -> Expansion:
    """One newcomer into one population: a slot, an id, mass for the next update, none in the played mixture."""
    # An earlier newcomer of the same call has no mass yet and must not give way to this one.
    settled = grown.active & ~jnp.any(jnp.arange(len(grown.active))[None, :] == grown.slot[:, None], axis=0)
    sigma, values = (jnp.where(settled, of, jnp.inf) for of in (grown.sigma, grown.values))
    slot = choose_slot(grown.active, sigma, values, config.replacement)
    active = grown.active.at[slot].set(True)
    mass = 1.0 / jnp.sum(active) if config.new_mass == "uniform" else jnp.float32(config.mass_floor)
    others = simplex.masked_log_softmax(grown.log_sigma.at[slot].set(-jnp.inf), active)
    # The very first newcomer may replace the only anchor: then it has all the mass.
    alone = jnp.all(others == -jnp.inf)
    log_sigma = jnp.where(alone, others, others + jnp.log1p(-jnp.where(alone, 0.0, mass)))
    log_sigma = log_sigma.at[slot].set(jnp.where(alone, 0.0, jnp.log(mass)))
    return grown._replace(
        anchors=grown.anchors.at[slot].set(code),
        active=active,
        anchor_id=grown.anchor_id.at[slot].set(jnp.max(grown.anchor_id) + 1),
        log_sigma=log_sigma,
        sigma=_without(grown.sigma[None], slot[None, None])[0],
        values=grown.values.at[slot].set(mean if config.new_value == "oracle_mean" else 0.0),
        slot=grown.slot.at[rank].set(slot.astype(jnp.int32)),
    )


def _without(sigma: Array, slots: Array) -> Array:
    """sigma [P, K] with no mass on `slots` [P, n] (those >= 0), renormalised; untouched if nothing else has mass."""
    taken = jnp.any(jnp.arange(sigma.shape[1])[None, None, :] == slots[:, :, None], axis=1)
    rest = jnp.where(taken, 0.0, sigma)
    total = jnp.sum(rest, axis=1, keepdims=True)
    return jnp.where(total > 0.0, rest / jnp.where(total > 0.0, total, 1.0), sigma)


class Response(NamedTuple):
    params: dict[str, PyTree]
    opt_state: dict[str, PyTree]
    metrics: TrainMetrics
    kl: Array
    forgetting: Array
    jacobian: Array
    episodes: Array
    env_steps: Array


def respond(
    key: Array, state: GemsState, found: Expansion, opponents: StackedPolicies, game: Game, config: GemsConfig
) -> Response:
    """Phase 4, ABR-TR: each population's generator against the others' frozen sigma'. key: consumed."""
    params = {"generator": state.generator, "critic": state.critic}
    opt_state = _fresh_optimizer(params, config) if config.reset_optimizer else state.opt_state

    def one(views: tuple[View, ...], p: Array | int, own_key: Array) -> Response:
        own_params, own_opt_state = jax.tree.map(lambda leaf: leaf[p], (params, opt_state))
        return _respond_one(
            own_key,
            views,
            own_params,
            own_opt_state,
            found.anchors[p],
            found.active[p],
            found.anchor_id[p],
            rotate(opponents, p),
            jnp.log(rotate(found.sigma, p)),
            state.step + 1,
            config,
        )

    merged = each_population(game, one, jax.random.split(key, num_populations(game)))
    return merged._replace(episodes=merged.episodes.sum(), env_steps=merged.env_steps.sum())


def make_learner(nets: Networks, temperature: Array | float) -> Learner:
    """phi = G_theta(z) and V(o, z) as the trainer sees them."""

    def policy(params: PyTree, code: Array) -> PyTree:
        return nets.generator.policy.temper(nets.generator(params["generator"], code), temperature)

    def value(params: PyTree, code: Array, observation: Array) -> Array:
        return nets.critic(params["critic"], observation, code)

    return Learner(policy, value, nets.generator.policy)


def _respond_one(
    key: Array,
    views: tuple[View, ...],
    params: dict[str, PyTree],
    opt_state: dict[str, PyTree],
    codes: Array,
    active: Array,
    anchor_id: Array,
    opponents: StackedPolicies,
    log_sigma: Array,
    time: Array,
    config: GemsConfig,
) -> Response:
    """ABR-TR of one population: codes [K, D]; opponents and log_sigma in the order of the views. key: consumed."""
    key_protect, key_train = jax.random.split(key)
    nets = networks(views[0].base, config)
    learner = make_learner(nets, config.temperature)
    newest = jnp.argmax(anchor_id)

    def gather(gather_key: Array, current: PyTree, batch_codes: Array, count: int, episodes: int) -> list[Experience]:
        return [
            best_response.collect(
                k,
                view,
                learner,
                current,
                batch_codes,
                opponents,
                log_sigma,
                num_opponents=count,
                episodes=episodes,
                discount=config.discount,
                decay=config.gae_lambda,
                stratified=config.opponents == "stratified",
            )
            for k, view in zip(jax.random.split(gather_key, len(views)), views, strict=True)
        ]

    def experience(step_key: Array, current: PyTree) -> list[Experience]:
        key_code, key_play = jax.random.split(step_key)
        drawn = simplex.sample(key_code, log_sigma[0], (config.abr_anchors,))
        is_new = (jnp.arange(config.abr_anchors) + 0.5) / config.abr_anchors < config.q_new
        return gather(
            key_play, current, codes[jnp.where(is_new, newest, drawn)], config.abr_opponents, config.abr_episodes
        )

    protected = gather(key_protect, params, codes, config.kl_opponents, 1)
    as_before = [best_response.outputs_on(learner, params, batch) for batch in protected]
    held = active & ((jnp.arange(len(codes)) != newest) | (config.kl_protects != "others"))

    def penalty(current: PyTree, batches: list[Experience], penalty_key: Array) -> Array:
        if config.kl_protects == "batch":
            then = [best_response.outputs_on(learner, params, batch) for batch in batches]
            drift = jnp.mean(_drift(learner, current, batches, then))
        else:
            drift = best_response.masked_mean(_drift(learner, current, protected, as_before), held)
        loss = config.beta_kl * config.slowdown * drift
        if config.jacobian != "none":
            z = batches[0].code
            keys = jax.random.split(penalty_key, len(z))
            norms = jax.vmap(lambda c, k: jacobian_norm(nets.generator, current["generator"], c, config.jacobian, k))(
                z, keys
            )
            loss = loss + jacobian_weight(config, time) * norms.mean()
        return loss

    trained, opt_state, metrics = best_response.train(
        key_train,
        params,
        opt_state,
        experience=experience,
        learner=learner,
        surrogate=best_response.SURROGATES[config.surrogate],
        penalty=penalty,
        steps=config.abr_steps,
        epochs=config.abr_epochs,
        learning_rate={
            "generator": config.learning_rate / config.slowdown,
            "critic": config.critic_learning_rate / config.slowdown,
        },
        gradient_clip=config.gradient_clip,
        clip=config.ppo_clip,
        value_weight=config.value_weight,
        entropy_weight=config.entropy_weight,
        normalise=config.normalise_advantages,
    )
    forgetting = jnp.where(held, _drift(learner, trained, protected, as_before), 0.0)
    norms = jax.vmap(lambda z: jacobian_norm(nets.generator, trained["generator"], z, "gram"))(codes)
    seen = sum(batch.acted.shape[0] * batch.acted.shape[1] for batch in protected)
    protected_steps = jnp.sum(jnp.stack([batch.env_steps for batch in protected]))
    return Response(
        trained,
        opt_state,
        metrics,
        kl=best_response.masked_mean(forgetting, held),
        forgetting=forgetting,
        jacobian=best_response.masked_mean(norms, active),
        episodes=metrics.episodes + seen,
        env_steps=metrics.env_steps + protected_steps,
    )


def _kl_per_code(learner: Learner, current: PyTree, batch: Experience, frozen: PolicyOutput) -> Array:
    """KL(current || frozen outputs) [G], the mean over the decisions of each code's episodes."""
    now = best_response.outputs_on(learner, current, batch)
    kl = jax.vmap(jax.vmap(jax.vmap(jax.vmap(distributions.kl))))(now, frozen)
    return jax.vmap(best_response.masked_mean)(kl, batch.acted)


def _drift(learner: Learner, current: PyTree, batches: list[Experience], frozen: list[PolicyOutput]) -> Array:
    """KL per anchor [K], averaged over the players that share the population."""
    rows = [_kl_per_code(learner, current, b, f) for b, f in zip(batches, frozen, strict=True)]
    return jnp.mean(jnp.stack(rows), axis=0)


def _fresh_optimizer(params: dict[str, PyTree], config: GemsConfig) -> dict[str, PyTree]:
    optimizer = best_response.make_optimizer(config.gradient_clip)
    return {name: jax.vmap(optimizer.init)(part) for name, part in params.items()}


def _check_game(game: Game) -> None:
    if not hasattr(game, "init") or not hasattr(game, "step"):
        raise ValueError(f"expected a Game with init and step: got {game!r}; see gems_jax.make_game")
    if len(game.player_of_seat) != game.num_seats:
        raise ValueError(
            f"{game.name}: player_of_seat has {len(game.player_of_seat)} entries for {game.num_seats} seats"
        )
