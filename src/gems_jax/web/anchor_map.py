"""Anchors of a mixture as points, and what each of them does, as data of a page."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.evaluate.loaded_policy import LoadedPolicy
from gems_jax.extensive.tables import behavior_table, policy_tables
from gems_jax.extensive.tables import reach as sequence_reach
from gems_jax.extensive.tree import GameTree, build_tree, is_enumerable
from gems_jax.host.stages import on_host
from gems_jax.rollout.views import take_population
from gems_jax.types import Game, GameState, num_populations
from gems_jax.viz.policy_points import Probes, choices, features, principal, probe
from gems_jax.viz.transcripts import GameTable, game_transcript, movers, play_game
from gems_jax.viz.words import Words, legal_actions, words_of

PROBED = 256  # sampled positions of a population
MAX_ROWS = 60  # information sets of a table; those that the mixture reaches most
MAX_NAMED = 3000  # positions that are visited to describe information sets
MAX_ANCHORS = 48  # of a population, the heaviest
MAX_GAMES = 8  # anchors of a population with a transcript, the heaviest


class Probed(NamedTuple):
    """Behavior of the anchors of one population."""

    slots: np.ndarray  # [n] int, heaviest first
    probabilities: np.ndarray  # [n, positions, A]
    legal: np.ndarray  # [positions, A]


def describe_anchors(policy: LoadedPolicy) -> dict[str, Any]:
    """Places the anchors of a mixture by what they do, and describes each of them.

    Positions are the principal components of the probabilities at the information sets of the population's seats, or at
    positions of games of the mixture if the game cannot be enumerated.

    Args:
      policy: the mixture.

    Returns:
      Points, masses and descriptions by population.

    Raises:
      ValueError: if the game has continuous actions.
    """
    game = policy.game
    if game.continuous:
        raise ValueError(f"{game.name} has continuous actions, so its anchors have no probabilities to compare")
    if is_enumerable(game):
        tree, words = build_tree(game), words_of(game)
        named = name_infosets(game, tree, words)
        populations = [_population_of_tree(policy, tree, words, named, index) for index in range(num_populations(game))]
        return {"basis": "at all information sets of its seats", "populations": populations}
    populations = [_population_of_games(policy, index) for index in range(num_populations(game))]
    return {"basis": f"at {PROBED} positions of games of the mixture", "populations": populations}


def _heaviest(policy: LoadedPolicy, population: int) -> np.ndarray:
    sigma = np.asarray(policy.profile.sigma[population])
    order = np.argsort(-sigma, kind="stable")[:MAX_ANCHORS]
    return order[sigma[order] > 0]


def _place(policy: LoadedPolicy, population: int, probed: Probed) -> dict[str, Any]:
    """Computes the points of a population."""
    sigma = np.asarray(policy.profile.sigma[population], float)
    found = principal(features(probed.probabilities, probed.legal))
    scores = np.pad(found.scores, ((0, 0), (0, 2)))[:, :2]
    return {
        "seats": _seats_of(policy.game, population),
        "slots": probed.slots.tolist(),
        "masses": sigma[probed.slots].tolist(),
        "left": int((sigma > 0).sum()) - len(probed.slots),
        "points": np.round(scores, 5).tolist(),
        "shares": np.pad(found.shares, (0, 2))[:2].tolist(),
    }


def _seats_of(game: Game, population: int) -> list[int]:
    owners = game.population_of_player
    return [seat for seat, player in enumerate(game.player_of_seat) if owners[player] == population]


# --- enumerable games


def _population_of_tree(
    policy: LoadedPolicy, tree: GameTree, words: Words, named: dict[int, tuple[str, list[str]]], population: int
) -> dict[str, Any]:
    slots = _heaviest(policy, population)
    one = take_population(policy.profile.population, population)
    tables = np.asarray(jax.lax.map(lambda slot: behavior_table(tree, one.apply, one.select(slot)), jnp.asarray(slots)))
    mine = np.isin(np.asarray(tree.seat), _seats_of(policy.game, population))
    rows = np.flatnonzero(mine)
    legal = np.asarray(tree.legal)
    placed = _place(policy, population, Probed(slots, tables[:, rows], legal[rows]))
    shown = rows[np.argsort(-_reach_of_sets(tree, policy)[rows], kind="stable")][:MAX_ROWS]
    shown = np.sort(shown)
    listed = [named.get(int(row), (f"information set {row}", [])) for row in shown]
    return {
        **placed,
        "table": {
            "rows": [label for label, _ in listed],
            "actions": [_names(names, legal[row], words) for row, (_, names) in zip(shown, listed, strict=True)],
            "probabilities": np.round(tables[:, shown], 4).tolist(),
            "left": len(rows) - len(shown),
        },
    }


def _names(names: list[str], legal: np.ndarray, words: Words) -> list[str]:
    """Names the actions of an information set; "" for illegal ones."""
    return [(names[action] if names else f"action {action}") if may else "" for action, may in enumerate(legal)]


def _reach_of_sets(tree: GameTree, policy: LoadedPolicy) -> np.ndarray:
    """Computes how often the mixture's own moves lead to each information set [I]; 1 where its seat has not moved."""
    sigma = policy.profile.sigma
    tables = policy_tables(tree, policy.profile.population, sigma.shape[1])
    weights = jax.vmap(jax.vmap(lambda table: sequence_reach(tree, table)))(tables)  # [P, K, Q]
    owner = np.asarray(tree.population_of_player)[np.asarray(tree.player_of_seat)[np.asarray(tree.seat)]]
    mixed = np.asarray(jnp.einsum("pk,pkq->pq", sigma, weights))
    return mixed[owner, np.asarray(tree.parent)]


def name_infosets(game: Any, tree: GameTree, words: Words) -> dict[int, tuple[str, list[str]]]:
    """Describes information sets as the seat to move sees them, with the names of its actions.

    Args:
      game: an enumerable game.
      tree: its tree.
      words: its descriptions.

    Returns:
      Label and names of all actions ("" for illegal ones) by information set; those of at most `MAX_NAMED` positions,
      and none of a game that runs in Python.
    """
    if on_host(game):  # its positions are in Python, and cannot be copied
        return {}
    table = GameTable(game)
    seats, observations, legal = (np.asarray(part) for part in (tree.seat, tree.observation, tree.legal))
    index = {
        _key(seat, seen, may): row for row, (seat, seen, may) in enumerate(zip(seats, observations, legal, strict=True))
    }
    deals, masses = jax.device_get(game.deals())
    waiting = [jax.tree.map(lambda leaf, one=one: leaf[one], deals) for one in range(len(masses))]
    found: dict[int, tuple[str, list[str]]] = {}
    key, visited = jax.random.key(0), 0
    while waiting and visited < MAX_NAMED and len(found) < len(seats):
        state = waiting.pop(0)
        visited += 1
        moving = movers(state)
        for seat in moving:
            row = index.get(_key(seat, np.asarray(state.observation[seat]), np.asarray(state.legal[seat])))
            if row is not None and row not in found:
                found[row] = _describe_infoset(game, words, state, seat)
        waiting += _next_states(table, state, moving, key)
    return found


def _next_states(table: GameTable, state: GameState, moving: list[int], key: Any) -> list[GameState]:
    """Lists the positions after every joint action, without ends of the game. key: not consumed."""
    joint = itertools.product(*(legal_actions(state, seat) for seat in moving))
    after = [table.advance(state, dict(zip(moving, actions, strict=True)), key) for actions in joint]
    return [one for one in map(jax.device_get, after) if not one.done]


def _describe_infoset(game: Game, words: Words, state: GameState, seat: int) -> tuple[str, list[str]]:
    may = legal_actions(state, seat)
    names = [words.action(state, action) if action in may else "" for action in range(game.num_actions)]
    who = f"seat {seat}, " * (len(set(game.population_of_player)) < game.num_seats)
    return f"{who}{words.seen(state, seat)}".replace("   ", ", ").removeprefix("your "), names


def _key(seat: int, observation: np.ndarray, legal: np.ndarray) -> tuple[int, bytes, bytes]:
    return int(seat), np.asarray(observation, np.float32).tobytes(), np.asarray(legal, bool).tobytes()


# --- other games


def _population_of_games(policy: LoadedPolicy, population: int) -> dict[str, Any]:
    game = policy.game
    player = game.population_of_player.index(population)
    slots = _heaviest(policy, population)
    probes: Probes = probe(jax.random.key(0), game, policy.profile, player, PROBED)
    one = take_population(policy.profile.population, population)
    probabilities = choices(one, jnp.asarray(slots), probes)
    placed = _place(policy, population, Probed(slots, np.asarray(probabilities), np.asarray(probes.legal)))
    return {**placed, "games": _games(policy, population, slots[:MAX_GAMES])}


def _games(policy: LoadedPolicy, population: int, slots: np.ndarray) -> list[str]:
    """Plays one game of each anchor against the heaviest anchors of the others; returns their transcripts."""
    table, words = GameTable(policy.game), words_of(policy.game)
    texts = []
    for slot in slots:
        chosen = tuple(int(slot) if index == population else own for index, own in enumerate(policy.slots))
        record = play_game(table, policy, jax.random.key(0), chosen)
        texts.append(game_transcript(words, record, 1).partition("\n")[2])
    return texts
