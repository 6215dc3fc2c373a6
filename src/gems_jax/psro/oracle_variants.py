"""Responses of PSRO other than a best response from scratch to the mixture: oracles that wrap another one.

Advantage V (A-PSRO): the response that most improves the worst case of the mixture, instead of the one that beats it.
V_p(pi) = min over the opponent's replies of u_p(pi, reply). From the mixture theta, search the direction Delta and the
step l with the highest V((1 - l) theta + l Delta); Delta joins the population. If V rises by less than `acceptance`,
and with probability `ordinary`, the ordinary response joins. Without ordinary responses such steps stall, because V is
piecewise linear. The original is for normal-form games and scans all pure strategies. It is reconstructed in two forms:

    exact     directions are best responses to random mixtures of the opponents, and V is exact
    learned   directions are a few learned responses, the first to the mixture, the others to random ones; replies are
              the opponent's stored policies, with measured payoffs

Warm starts: a learned response starts from an average of the parameters of the population's policies, with weights w
over its slots,

    newest     only the last one
    fusion     w = the population's own mixture sigma                                (Fusion-PSRO: Lian et al. 2024)
    transfer   w_{j+1} = the opponents' mixture sigma_j: slot j + 1 learned to answer when their slot j was the newest,
               so it represents the response to it                  (Strategic Knowledge Transfer: Smith et al. 2023)

and with one policy each of them is that policy. Optimizer and critic are fresh. Averages of parameters are meaningful
only if policies descend from one another, which these rules ensure.

Single-opponent iterated best response (the scheme of Smith et al. 2021) trains only against the opponents' newest
policies, whatever the mixture. The original then builds the response to the mixture from the Q-values of such
responses. Both that and transfer are reconstructions: there are no Q-values here, so parameters are mixed instead, and
then trained.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.config import FRACTION, NON_NEGATIVE, real, size
from gems_jax.extensive.infosets import tables_of
from gems_jax.extensive.values import GameTree, best_response_values, build_tree, mixture_to_behavior
from gems_jax.meta.simplex import masked_normalize
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.base import Cost, stack_slots
from gems_jax.psro.payoffs import fill, meta_game
from gems_jax.psro.ppo import Student
from gems_jax.psro.responses import Mixture, Oracle, Respond, Response, lowest_replies, policy_params
from gems_jax.psro.settings import ExplicitSettings, count_new_payoffs
from gems_jax.types import Array, Game, PyTree, require_two_player_zero_sum


class AdvantageSettings(ExplicitSettings):
    """Settings of the look-ahead by advantage."""

    ordinary: float = real(1.0, FRACTION)
    """Probability of the ordinary response instead of the one by advantage (A-PSRO: below 1)."""
    candidates: int = size(64)
    """Candidate directions: best responses to random mixtures of the opponents (exact responses)."""
    directions: int = size(3)
    """Candidate directions with learned responses, between which the rounds of learning are divided."""
    lookahead_steps: int = size(10)
    """Step lengths to try towards each direction, up to `lookahead_rate`."""
    lookahead_rate: float = real(0.5, FRACTION)
    """Longest step: the weight of the new direction in the mixture."""
    acceptance: float = real(0.01, NON_NEGATIVE)
    """Gain in advantage below which the ordinary response is used."""

    @property
    def least_rounds(self) -> int:
        """Minimum rounds per iteration: one per direction with look-ahead, else one."""
        return self.directions if self.ordinary < 1 else 1

    def measured_payoffs(self, players: int, iterations: int) -> float:
        """Counts the payoffs of one newcomer per iteration, and those of the candidate directions."""
        ahead = sum(count_new_payoffs(players, t + 1, self.directions) for t in range(iterations))
        return (iterations + 1) ** players + (1.0 - float(self.ordinary)) * ahead


def lookahead_oracle(game: Game, config: AdvantageSettings, oracle: Oracle) -> Oracle:
    """Wraps an oracle to respond by advantage. config: settings without `auto`."""
    require_two_player_zero_sum(game, "look-ahead by advantage")
    look = look_ahead_exactly if config.oracle == "exact" else look_ahead_by_learning
    return oracle._replace(respond=look(game, config, oracle.respond))


def _step_lengths(config: AdvantageSettings) -> Array:
    return config.lookahead_rate * jnp.arange(1, config.lookahead_steps + 1) / config.lookahead_steps


def _random_mixtures(key: Array, active: Array, count: int) -> Array:
    """Draws mixtures [count, P, K] over the active slots. key: consumed."""
    draws = jax.random.gamma(key, 0.5, (count, *active.shape)) * active[None]
    return draws / jnp.maximum(draws.sum(axis=2, keepdims=True), 1e-30)


def advantage(tree: GameTree, theta: Array, direction: Array, weight: Array) -> Array:
    """Computes V_p(pi) = min over the opponent's replies of u_p(pi, reply), [P], of a two-player zero-sum game.

    pi plays theta [P, I, A], or with probability `weight` its direction [P, I, A], drawn once per game.
    """
    weights = jnp.broadcast_to(jnp.stack([1.0 - weight, weight]), (tree.num_populations, 2))
    replies = best_response_values(tree, jnp.stack([theta, direction], axis=1), weights)  # to the other player
    return -replies[::-1] if tree.num_populations == 2 else -replies.mean(keepdims=True)


def look_ahead_exactly(game: Game, config: AdvantageSettings, ordinary: Respond) -> Respond:
    """Makes responses by exact advantage on the tree; `ordinary` is the fallback."""
    tree = build_tree(game)

    @jax.jit
    def look_ahead(key: Array, tables: Array, active: Array, sigma: Array) -> tuple[Array, Array]:
        """Finds the best direction of every population [P, I, A], and its gain in advantage [P]."""
        mixtures = _random_mixtures(key, active, config.candidates)
        found = jax.vmap(partial(lowest_replies, tree, tables))(mixtures)  # [C, I, A]
        theta = jax.vmap(mixture_to_behavior, in_axes=(None, 0, 0))(tree, tables, sigma)
        each = jnp.broadcast_to(found[:, None], (config.candidates, *theta.shape))
        over_steps = jax.vmap(partial(advantage, tree), in_axes=(None, None, 0))
        best = jax.vmap(over_steps, in_axes=(None, 0, None))(theta, each, _step_lengths(config)).max(axis=1)  # [C, P]
        return found[best.argmax(axis=0)], best.max(axis=0) - advantage(tree, theta, theta, jnp.float32(0.0))

    def respond(key: Array, mixture: Mixture, start: PyTree = None, rounds: int = 1) -> Response:
        key_ordinary, key_coin, key_look = jax.random.split(key, 3)
        response = ordinary(key_ordinary, mixture, start, rounds=rounds)
        tables = tables_of(game, mixture.policies)
        directions, rise = look_ahead(key_look, tables, mixture.active, mixture.sigma)
        ahead = (jax.random.uniform(key_coin, rise.shape) >= config.ordinary) & (rise >= config.acceptance)
        params = policy_params(game, directions)
        chosen = jnp.where(ahead[:, None, None], params, response.params)
        walks = config.candidates * (1 + config.lookahead_steps)
        return response._replace(params=chosen, cost=response.cost.plus(Cost(tree_walks=walks * tree.num_players)))

    return respond


def worst_cases(payoffs: Array, theta: Array, rows: Array, steps: Array, replies: Array) -> tuple[Array, Array]:
    """Computes the worst-case values V of mixtures towards C directions.

    Args:
      payoffs: payoffs [K, J] of the population's policies against the opponent's.
      theta: the population's mixture [K].
      rows: payoffs [C, J] of the directions.
      steps: weights [L] of a direction to try.
      replies: the opponent's active policies, [J] bool.

    Returns:
      V [C] at the best step of each direction, and V [] of theta.
    """
    now = jnp.einsum("k,kj->j", theta, payoffs, precision="highest")
    ahead = (1 - steps)[None, :, None] * now[None, None] + steps[None, :, None] * rows[:, None]  # [C, L, J]
    worst = partial(jnp.min, axis=-1, initial=jnp.inf)
    return worst(ahead, where=replies[None, None]).max(axis=1), worst(now, where=replies)


def look_ahead_by_learning(game: Game, config: AdvantageSettings, ordinary: Respond) -> Respond:
    """Makes responses by measured advantage: all directions play all of the opponents' policies."""

    def choose(key: Array, mixture: Mixture, found: list[Response]) -> tuple[np.ndarray, Cost]:
        """Chooses the direction of every population [P]; returns it with its cost. key: consumed."""
        assert mixture.table is not None
        slots, active = mixture.active.shape[1], np.asarray(mixture.active)
        new = stack_slots(*[response.params for response in found])
        params = jax.tree.map(lambda *parts: jnp.concatenate(parts, axis=1), mixture.policies.params, new)
        everyone = np.pad(active, ((0, 0), (0, len(found))), constant_values=True)
        fresh = everyone & (np.arange(slots + len(found))[None] >= slots)
        policies = StackedPolicies(params, mixture.policies.apply)
        table, cost = fill(key, game, config, mixture.table, policies, everyone, fresh)
        payoffs, _ = meta_game(game, table, jnp.asarray(everyone))
        chosen = []
        for population in range(len(active)):
            own, others = (payoffs[0], active[-1]) if population == 0 else (payoffs[1].T, active[0])
            ahead, now = worst_cases(
                own[:slots, :slots],
                mixture.sigma[population],
                own[slots:, :slots],
                _step_lengths(config),
                jnp.asarray(others),
            )
            best = int(jnp.argmax(ahead))
            chosen.append(best if float(ahead[best] - now) >= config.acceptance else 0)
        return np.asarray(chosen), cost

    def respond(key: Array, mixture: Mixture, start: PyTree = None, rounds: int = 1) -> Response:
        key_coin, key_draw, key_measure, key_learn = jax.random.split(key, 4)
        alone = int(np.asarray(mixture.active).sum(axis=1).max()) < 2  # then all mixtures are equal
        if alone or float(jax.random.uniform(key_coin)) < config.ordinary:
            return ordinary(key_learn, mixture, start, rounds=rounds)
        sigmas = _random_mixtures(key_draw, mixture.active, config.directions).at[0].set(mixture.sigma)
        each = max(rounds // config.directions, 1)
        found = [
            ordinary(k, mixture._replace(sigma=sigma), start, rounds=each)
            for k, sigma in zip(jax.random.split(key_learn, config.directions), sigmas, strict=True)
        ]
        chosen, cost = choose(key_measure, mixture, found)
        params = jax.tree.map(
            lambda *leaves: jnp.stack([leaves[c][population] for population, c in enumerate(chosen)]),
            *[response.params for response in found],
        )
        return found[0]._replace(params=params, cost=cost.plus(*(response.cost for response in found)))

    return respond


# --- warm starts


def fuse_parameters(params: PyTree, weights: Array) -> PyTree:
    """Averages parameters [P, K, ...] with weights [P, K]: sum_j w_j theta_j, [P, ...]."""
    return jax.tree.map(lambda leaf: jnp.einsum("pk,pk...->p...", weights, leaf, precision="highest"), params)


def newest_slot(active: Array) -> Array:
    """Returns weights [P, K] with all mass on the last active slot; slots fill in order."""
    return jax.nn.one_hot(active.sum(axis=1) - 1, active.shape[1])


def _transfer_weights(mixture: Mixture) -> Array:
    """Shifts the opponents' mixture by one slot, without the slots that have no response yet."""
    populations, slots = mixture.sigma.shape
    others = (mixture.sigma.sum(axis=0, keepdims=True) - mixture.sigma) if populations > 1 else mixture.sigma
    later = jnp.pad(others, ((0, 0), (1, 0)))[:, :slots]
    known = jnp.where(mixture.active, later, 0.0)
    some = known.sum(axis=1, keepdims=True) > 1e-6
    return jnp.where(some, jax.vmap(masked_normalize)(known, mixture.active), newest_slot(mixture.active))


STARTS: dict[str, Callable[[Mixture], Array]] = {
    "newest": lambda mixture: newest_slot(mixture.active),
    "fusion": lambda mixture: mixture.sigma,
    "transfer": _transfer_weights,
}


def warm_oracle(oracle: Oracle, how: str) -> Oracle:
    """Wraps an oracle of learned responses to start from averaged parameters by the rule STARTS[how].

    An explicit `start` overrides the rule. "fresh" returns the oracle itself.
    """
    if how == "fresh":
        return oracle

    def respond(key: Array, mixture: Mixture, start: PyTree = None, rounds: int = 1) -> Response:
        key_first, key_learn = jax.random.split(key)
        if start is None:
            fresh: Student = oracle.first(key_first)
            policy = fuse_parameters(mixture.policies.params, STARTS[how](mixture))
            start = fresh.replace(params={**fresh.params, "policy": policy})
        return oracle.respond(key_learn, mixture, start, rounds=rounds)

    return oracle._replace(respond=respond)


def single_opponent_oracle(oracle: Oracle) -> Oracle:
    """Wraps an oracle to respond to the others' newest policies instead of their mixture."""

    def respond(key: Array, mixture: Mixture, start: PyTree = None, rounds: int = 1) -> Response:
        return oracle.respond(key, mixture._replace(sigma=newest_slot(mixture.active)), start, rounds=rounds)

    return oracle._replace(respond=respond)
