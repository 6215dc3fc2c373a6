"""Responses by advantage V (A-PSRO): what raises the worst case of the mixture most, not what beats it.

V_p(pi) = min over the opponent's replies of u_p(pi, reply). From the mixture theta the direction Delta and the step l
with the highest V((1 - l) theta + l Delta) are looked for, and Delta joins the population, which then holds that
mixture among others; where V rises by less than `acceptance`, and with probability `ordinary`, it is the ordinary
response. Without a population to fall back on such steps stall, as V is piecewise linear.

The original is for normal-form games and scans all pure strategies. Reconstructed here, in two forms:

    exact     directions are best responses to random mixtures of the opponents, and V is exact
    learned   directions are a few learned responses, the first to the mixture, the others to random ones; replies are
              those that the opponent holds, as measured
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.config import NON_NEGATIVE, SHARE, real, size
from gems_jax.extensive.infosets import tables_of
from gems_jax.extensive.values import GameTree, best_response_values, build_tree, mixture_to_behaviour, tied_actions
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.cost import Cost
from gems_jax.psro.payoffs import fill, meta_game, widen_table
from gems_jax.psro.responses import Mixture, Oracle, Respond, Response, policy_params
from gems_jax.psro.settings import ExplicitSettings
from gems_jax.types import Array, Game, PyTree, num_players


class AdvantageSettings(ExplicitSettings):
    """How far ahead is looked."""

    ordinary: float = real(1.0, SHARE)
    """How often the response is an ordinary one instead of the one with the best advantage ahead (A-PSRO)."""
    candidates: int = size(64)
    """Directions that are looked at: best responses to random mixtures of the opponents (exact responses)."""
    directions: int = size(3)
    """The same of learned responses, which share the rounds of learning."""
    lookahead_steps: int = size(10)
    """Steps that are tried towards each of them, up to `lookahead_rate`."""
    lookahead_rate: float = real(0.5, SHARE)
    """The longest step, as a share of the new direction in the mixture."""
    acceptance: float = real(0.01, NON_NEGATIVE)
    """Gain in advantage below which the ordinary response is taken after all."""


def lookahead_oracle(game: Game, config: AdvantageSettings, oracle: Oracle) -> Oracle:
    """An oracle whose responses are by advantage, `oracle` being the ordinary one. config: settled for the game."""
    if num_players(game) != 2 or not game.zero_sum:
        raise ValueError(f"look-ahead by advantage is for two-player zero-sum games: {game.name!r} is not one")
    look = look_ahead_exactly if config.oracle == "exact" else look_ahead_by_learning
    return oracle._replace(respond=look(game, config, oracle.respond))


def _steps(config: AdvantageSettings) -> Array:
    return config.lookahead_rate * jnp.arange(1, config.lookahead_steps + 1) / config.lookahead_steps


def _random_mixtures(key: Array, active: Array, count: int) -> Array:
    """[count, P, K], each over the active slots. key: consumed."""
    draws = jax.random.gamma(key, 0.5, (count, *active.shape)) * active[None]
    return draws / jnp.maximum(draws.sum(axis=2, keepdims=True), 1e-30)


def advantage(tree: GameTree, theta: Array, direction: Array, share: Array) -> Array:
    """V_p(pi) = min over the opponent's replies of u_p(pi, reply), [P], of a two-player zero-sum game.

    pi plays theta [P, I, A], or with probability `share` its direction [P, I, A], drawn once per game.
    """
    weights = jnp.broadcast_to(jnp.stack([1.0 - share, share]), (tree.num_populations, 2))
    replies = best_response_values(tree, jnp.stack([theta, direction], axis=1), weights)  # to the other player
    return -replies[::-1] if tree.num_populations == 2 else -replies.mean(keepdims=True)


def look_ahead_exactly(game: Game, config: AdvantageSettings, ordinary: Respond) -> Respond:
    """The exact form."""
    tree = build_tree(game)

    def replies(tables: Array, sigma: Array) -> Array:
        """Best responses [I, A] of all seats to the mixture: the lowest action of those that tie."""
        return jax.nn.one_hot(jnp.argmax(tied_actions(tree, tables, sigma), axis=1), tree.num_actions)

    @jax.jit
    def look_ahead(key: Array, tables: Array, active: Array, sigma: Array) -> tuple[Array, Array]:
        """The best direction of every population [P, I, A], and by how much the advantage rises towards it [P]."""
        mixtures = _random_mixtures(key, active, config.candidates)
        found = jax.vmap(replies, in_axes=(None, 0))(tables, mixtures)  # [C, I, A]
        theta = jax.vmap(mixture_to_behaviour, in_axes=(None, 0, 0))(tree, tables, sigma)
        each = jnp.broadcast_to(found[:, None], (config.candidates, *theta.shape))
        over_shares = jax.vmap(partial(advantage, tree), in_axes=(None, None, 0))
        best = jax.vmap(over_shares, in_axes=(None, 0, None))(theta, each, _steps(config)).max(axis=1)  # [C, P]
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


def worst_cases(payoffs: Array, theta: Array, rows: Array, shares: Array, replies: Array) -> tuple[Array, Array]:
    """V [C] of the mixtures towards C directions, at the best of `shares` [L], and V [] of theta itself.

    payoffs [K, J]: what the population's policies earn from the opponent's; theta [K]; rows [C, J]: what the
    directions earn; replies [J] bool: those that the opponent holds.
    """
    now = jnp.einsum("k,kj->j", theta, payoffs, precision="highest")
    ahead = (1 - shares)[None, :, None] * now[None, None] + shares[None, :, None] * rows[:, None]  # [C, L, J]
    worst = partial(jnp.min, axis=-1, initial=jnp.inf)
    return worst(ahead, where=replies[None, None]).max(axis=1), worst(now, where=replies)


def look_ahead_by_learning(game: Game, config: AdvantageSettings, ordinary: Respond) -> Respond:
    """The learned form. All directions are measured against everything that the opponents hold."""

    def measured(key: Array, mixture: Mixture, found: list[Response]) -> tuple[np.ndarray, Cost]:
        """Which direction every population takes [P], and what it cost to know. key: consumed."""
        assert mixture.table is not None
        slots, count, active = mixture.active.shape[1], len(found), np.asarray(mixture.active)
        params = jax.tree.map(
            lambda held, *new: jnp.concatenate([held, jnp.stack(new, axis=1)], axis=1),
            mixture.policies.params,
            *[response.params for response in found],
        )
        everyone = np.pad(active, ((0, 0), (0, count)), constant_values=True)
        fresh = everyone & (np.arange(slots + count)[None] >= slots)
        table, cost = fill(
            key, game, config, widen_table(mixture.table, slots + count),
            StackedPolicies(params, mixture.policies.apply), everyone, fresh,
        )  # fmt: skip
        payoffs, _ = meta_game(game, table, jnp.asarray(everyone))
        chosen = []
        for population in range(len(active)):
            own, others = (payoffs[0], active[-1]) if population == 0 else (payoffs[1].T, active[0])
            ahead, now = worst_cases(
                own[:slots, :slots], mixture.sigma[population], own[slots:, :slots], _steps(config), jnp.asarray(others)
            )
            best = int(jnp.argmax(ahead))
            chosen.append(best if float(ahead[best] - now) >= config.acceptance else 0)
        return np.asarray(chosen), cost

    def respond(key: Array, mixture: Mixture, start: PyTree = None, rounds: int = 1) -> Response:
        key_coin, key_draw, key_measure, key_learn = jax.random.split(key, 4)
        alone = int(np.asarray(mixture.active).sum(axis=1).max()) < 2  # then all mixtures are the same
        if alone or float(jax.random.uniform(key_coin)) < config.ordinary:
            return ordinary(key_learn, mixture, start, rounds=rounds)
        sigmas = _random_mixtures(key_draw, mixture.active, config.directions).at[0].set(mixture.sigma)
        each = max(rounds // config.directions, 1)
        found = [
            ordinary(k, mixture._replace(sigma=sigma), start, rounds=each)
            for k, sigma in zip(jax.random.split(key_learn, config.directions), sigmas, strict=True)
        ]
        chosen, cost = measured(key_measure, mixture, found)
        for response in found:
            cost = cost.plus(response.cost)
        params = jax.tree.map(
            lambda *leaves: jnp.stack([leaves[c][population] for population, c in enumerate(chosen)]),
            *[response.params for response in found],
        )
        return found[0]._replace(params=params, cost=cost)

    return respond
