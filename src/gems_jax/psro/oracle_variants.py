"""Responses of PSRO other than a best response from scratch to the mixture: oracles that wrap another one.

Advantage V (A-PSRO): what raises the worst case of the mixture most, not what beats it. V_p(pi) = min over the
opponent's replies of u_p(pi, reply). From the mixture theta the direction Delta and the step l with the highest
V((1 - l) theta + l Delta) are looked for, and Delta joins the population, which then holds that mixture among others;
where V rises by less than `acceptance`, and with probability `ordinary`, it is the ordinary response. Without a
population to fall back on such steps stall, as V is piecewise linear. The original is for normal-form games and scans
all pure strategies. Reconstructed here, in two forms:

    exact     directions are best responses to random mixtures of the opponents, and V is exact
    learned   directions are a few learned responses, the first to the mixture, the others to random ones; replies are
              those that the opponent holds, as measured

Warm starts: a learned response starts from an average of the parameters of policies that the population holds, with
weights w over its slots,

    newest     the last one alone
    fusion     w = the population's own mixture sigma                                (Fusion-PSRO: Lian et al. 2024)
    transfer   w_{j+1} = the opponents' mixture sigma_j: slot j + 1 learned to answer when their slot j was the newest,
               so it stands for the answer to it                    (Strategic Knowledge Transfer: Smith et al. 2023)

and with one policy each of them is that policy. Optimizer and critic are fresh. Averages of parameters only make sense
where policies descend from one another, which these rules see to.

Single-opponent iterated best response (the scheme of Smith et al. 2021) trains against the opponents' newest policies
alone, whatever the mixture: one opponent instead of a population. The original then builds the answer to the mixture
from such responses' Q-values. Both that and transfer are reconstructions: there are no Q-values here, and what the
original mixes as values is mixed as parameters, and trained on.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.config import NON_NEGATIVE, SHARE, real, size
from gems_jax.extensive.infosets import tables_of
from gems_jax.extensive.values import GameTree, best_response_values, build_tree, mixture_to_behaviour
from gems_jax.meta.simplex import masked_normalise
from gems_jax.policies.population import StackedPolicies
from gems_jax.psro.base import Cost, stack_slots
from gems_jax.psro.payoffs import fill, meta_game
from gems_jax.psro.ppo import Student
from gems_jax.psro.responses import Mixture, Oracle, Respond, Response, lowest_replies, policy_params
from gems_jax.psro.settings import ExplicitSettings, count_new_payoffs
from gems_jax.types import Array, Game, PyTree, require_two_player_zero_sum


class AdvantageSettings(ExplicitSettings):
    """How far ahead is looked."""

    ordinary: float = real(1.0, SHARE)
    """How often the response is an ordinary one instead of the one with the best advantage ahead (A-PSRO)."""
    candidates: int = size(64)
    """Directions that are looked at: best responses to random mixtures of the opponents (exact responses)."""
    directions: int = size(3)
    """Directions that are looked at with learned responses, which share the rounds of learning."""
    lookahead_steps: int = size(10)
    """Steps that are tried towards each of them, up to `lookahead_rate`."""
    lookahead_rate: float = real(0.5, SHARE)
    """The longest step, as a share of the new direction in the mixture."""
    acceptance: float = real(0.01, NON_NEGATIVE)
    """Gain in advantage below which the ordinary response is taken after all."""

    @property
    def least_rounds(self) -> int:
        """Rounds of learning that an iteration takes at least: one per direction where these are looked at."""
        return self.directions if self.ordinary < 1 else 1

    def measured_payoffs(self, players: int, iterations: int) -> float:
        """Counts the payoffs of one newcomer per iteration, and those of the directions that are looked at."""
        ahead = sum(count_new_payoffs(players, t + 1, self.directions) for t in range(iterations))
        return (iterations + 1) ** players + (1.0 - float(self.ordinary)) * ahead


def lookahead_oracle(game: Game, config: AdvantageSettings, oracle: Oracle) -> Oracle:
    """An oracle whose responses are by advantage, `oracle` being the ordinary one. config: settled for the game."""
    require_two_player_zero_sum(game, "look-ahead by advantage")
    look = look_ahead_exactly if config.oracle == "exact" else look_ahead_by_learning
    return oracle._replace(respond=look(game, config, oracle.respond))


def _step_lengths(config: AdvantageSettings) -> Array:
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

    @jax.jit
    def look_ahead(key: Array, tables: Array, active: Array, sigma: Array) -> tuple[Array, Array]:
        """The best direction of every population [P, I, A], and by how much the advantage rises towards it [P]."""
        mixtures = _random_mixtures(key, active, config.candidates)
        found = jax.vmap(partial(lowest_replies, tree, tables))(mixtures)  # [C, I, A]
        theta = jax.vmap(mixture_to_behaviour, in_axes=(None, 0, 0))(tree, tables, sigma)
        each = jnp.broadcast_to(found[:, None], (config.candidates, *theta.shape))
        over_shares = jax.vmap(partial(advantage, tree), in_axes=(None, None, 0))
        best = jax.vmap(over_shares, in_axes=(None, 0, None))(theta, each, _step_lengths(config)).max(axis=1)  # [C, P]
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

    def choose(key: Array, mixture: Mixture, found: list[Response]) -> tuple[np.ndarray, Cost]:
        """Which direction every population takes [P], and what it cost to know. key: consumed."""
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
        alone = int(np.asarray(mixture.active).sum(axis=1).max()) < 2  # then all mixtures are the same
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
    """sum_j w_j theta_j, [P, ...], of parameters [P, K, ...] and weights [P, K]."""
    return jax.tree.map(lambda leaf: jnp.einsum("pk,pk...->p...", weights, leaf, precision="highest"), params)


def newest_slot(active: Array) -> Array:
    """[P, K], all weight on the last active slot; slots fill in order."""
    return jax.nn.one_hot(active.sum(axis=1) - 1, active.shape[1])


def _transfer_weights(mixture: Mixture) -> Array:
    """The opponents' mixture, one slot later; what has no answer yet is left out."""
    populations, slots = mixture.sigma.shape
    others = (mixture.sigma.sum(axis=0, keepdims=True) - mixture.sigma) if populations > 1 else mixture.sigma
    later = jnp.pad(others, ((0, 0), (1, 0)))[:, :slots]
    known = jnp.where(mixture.active, later, 0.0)
    some = known.sum(axis=1, keepdims=True) > 1e-6
    return jnp.where(some, jax.vmap(masked_normalise)(known, mixture.active), newest_slot(mixture.active))


STARTS: dict[str, Callable[[Mixture], Array]] = {
    "newest": lambda mixture: newest_slot(mixture.active),
    "fusion": lambda mixture: mixture.sigma,
    "transfer": _transfer_weights,
}


def warm_oracle(oracle: Oracle, how: str) -> Oracle:
    """An oracle of learned responses that start as STARTS[how] says, where no learner is given to go on from.

    With "fresh" networks it is `oracle` itself.
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


def single_opponent(oracle: Oracle) -> Oracle:
    """An oracle that answers the others' newest policies instead of their mixture."""

    def respond(key: Array, mixture: Mixture, start: PyTree = None, rounds: int = 1) -> Response:
        return oracle.respond(key, mixture._replace(sigma=newest_slot(mixture.active)), start, rounds=rounds)

    return oracle._replace(respond=respond)
