"""Declares the needs of every method, and the catalog of the methods: what they are and how they respond.

The module imports no networks, so that `gems methods` and the refusal of a method that does not fit a game are quick.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from gems_jax.types import (
    Game,
    NotEnumerableError,
    RoughlySized,
    did_you_mean,
    num_players,
    num_populations,
    require_two_player_zero_sum,
    supports,
)


class Needs(NamedTuple):
    """Properties that a game must have. JAX and Python games, and continuous actions, fit unless a tree is needed."""

    zero_sum: bool = False  # two players whose returns sum to zero
    tree: bool = False  # the game can be enumerated
    own_populations: bool = False  # a population per player, or two players that share one
    no_teams: bool = False  # one seat per player


class MethodFacts(NamedTuple):
    """A method's line in the catalog."""

    summary: str
    responses: str  # learned, exact, either, or none
    reference: str  # first author and year; docs/methods.md describes what is ours
    needs: Needs = Needs()


_VAST = 1e8  # positions that nobody enumerates here
_TABLE = Needs(own_populations=True)  # of payoffs between stored policies
_DUEL = Needs(zero_sum=True)
_TREE_DUEL = Needs(zero_sum=True, tree=True, no_teams=True)
_TREE = Needs(tree=True, no_teams=True)

CATALOG: dict[str, MethodFacts] = {
    "gems": MethodFacts("anchors of a generator, OMWU, a bandit", "learned", "Algorithm 1"),
    "self_play": MethodFacts("PPO against the current policies", "learned", "Schulman 2017"),
    "mmd": MethodFacts("self-play with magnetic mirror descent", "learned", "Sokota 2023"),
    "nash_pg": MethodFacts("self-play towards a copied reference", "learned", "Yu 2025"),
    "fxp": MethodFacts("a main policy, its past and counters", "either", "Xu 2023"),
    "random": MethodFacts("uniformly random play, learns nothing", "none", "reference"),
    "psro": MethodFacts("responses to the Nash mixture so far", "either", "Lanctot 2017", _TABLE),
    "alpha_psro": MethodFacts("PSRO, mixed by alpha-Rank", "either", "Muller 2019", _TABLE),
    "fusion_psro": MethodFacts("PSRO, responses start at merged ones", "either", "Lian 2024", _TABLE),
    "jpsro": MethodFacts("PSRO to a correlated equilibrium (CCE)", "either", "Marris 2021", _TABLE),
    "neupl_jpsro": MethodFacts("Joint PSRO, all policies in a network", "either", "Liu 2024", _TABLE),
    "double_oracle": MethodFacts("PSRO, mixed by a linear program", "either", "McMahan 2003", _DUEL),
    "a_psro": MethodFacts("PSRO, looks ahead by advantage", "either", "Hu 2023", _DUEL),
    "apsro": MethodFacts("anytime PSRO: a no-regret mixture", "either", "McAleer 2022", _DUEL),
    "epsro": MethodFacts("efficient PSRO: no payoff table", "either", "Zhou 2022", _DUEL),
    "p2sro": MethodFacts("PSRO by a pipeline of learners", "either", "McAleer 2020", _TABLE),
    "sp_psro": MethodFacts("PSRO, adds averages of self-play", "either", "McAleer 2022", _DUEL),
    "neupl": MethodFacts("one network, conditioned on opponents", "either", "Liu 2022", _DUEL),
    "simplex_neupl": MethodFacts("NeuPL conditioned on any mixture", "learned", "Liu 2022", _DUEL),
    "xdo": MethodFacts("double oracle at every information set", "either", "McAleer 2021", _TREE_DUEL),
    "pdo": MethodFacts("XDO with periods of regret matching", "either", "Tang 2023", _TREE_DUEL),
    "edo": MethodFacts("XDO that adds fewer actions (EDO-like)", "either", "Huang 2022", _TREE_DUEL),
    "cfr": MethodFacts("counterfactual regret minimization", "none", "Zinkevich 2007", _TREE),
    "cfr_plus": MethodFacts("CFR+ with linear averaging", "none", "Tammelin 2014", _TREE),
    "xfp": MethodFacts("extensive-form fictitious play", "exact", "Heinrich 2015", _TREE),
    "os_mccfr": MethodFacts("Monte-Carlo CFR, outcome sampling", "none", "Lanctot 2009", _TREE),
    "es_mccfr": MethodFacts("Monte-Carlo CFR, external sampling", "none", "Lanctot 2009", _TREE),
}


def check_name(name: str) -> None:
    """Raises ValueError unless `name` is a method; the message suggests the closest names and lists all of them."""
    if name not in CATALOG:
        raise ValueError(
            f"unknown method {name!r}; {did_you_mean(name, CATALOG, 3)}known: {', '.join(CATALOG)}. "
            "`gems methods` describes them"
        )


def check_fit(name: str, game: Game, config: Any = None) -> None:
    """Checks what a game declares against the needs of a method. Whether it can be enumerated is found by trying.

    Args:
      name: a method; one that is not in the catalog fits every game.
      game: the game.
      config: settings of the method; None checks the method alone.

    Raises:
      ValueError: if the game lacks a property that the method, or its meta-solver, needs.
      NotEnumerableError: if the method needs the game's tree, and the game has teams or is far too large.
    """
    needs = CATALOG[name].needs if name in CATALOG else Needs()  # a method of the user's declares nothing
    if needs.zero_sum:
        require_two_player_zero_sum(game, f"the method {name}")
    if getattr(config, "meta_solver", "") == "nash_lp":
        require_two_player_zero_sum(game, "meta_solver='nash_lp'", "nash, omwu or cce")
    if needs.own_populations:
        _check_populations(name, game)
    if needs.no_teams and num_players(game) < game.num_seats:
        raise NotEnumerableError(
            f"the method {name} cannot solve {game.name!r}: expected one player per seat, got teams "
            f"(player_of_seat={game.player_of_seat}). Use another method, such as psro"
        )
    if needs.tree:
        check_size(name, game.name, game.approximate_positions if supports(game, RoughlySized) else 0.0)


def check_size(name: str, game: str, positions: float) -> None:
    """Refuses a method on trees for a game whose declared size is far too large to enumerate.

    Args:
      name: a method of the catalog.
      game: name of the game, for the message.
      positions: order of magnitude of the game's positions; 0 if unknown.

    Raises:
      NotEnumerableError: if the method needs the tree and it has more positions than can be enumerated.
    """
    if CATALOG[name].needs.tree and positions > _VAST:
        raise NotEnumerableError(
            f"the method {name} enumerates the game, and {game!r} has more than 10^{int(math.log10(positions))} "
            "positions. Use a method that learns from episodes, such as self_play"
        )


def _check_populations(name: str, game: Game) -> None:
    players, populations = num_players(game), num_populations(game)
    if populations != players and (players, populations) != (2, 1):
        raise ValueError(
            f"the method {name} needs one population per player, or two players that share one, got "
            f"population_of_player={game.population_of_player} in {game.name!r}. Use another method, such as self_play"
        )


def describe_needs(needs: Needs) -> str:
    """Describes the games that fit, as a heading: `two-player zero-sum games that can be enumerated`."""
    if needs.own_populations:
        return "any game with one population per player, or two players that share one"
    kind = "two-player zero-sum games" if needs.zero_sum else "games" if needs.tree else "any game"
    return kind + " that can be enumerated, one seat per player" * needs.tree
