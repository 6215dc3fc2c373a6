"""Every game keeps the promises of the `Game` protocol (`check_game`), in all its options.

The first row of a game is a cheap one of the default suite; longer ones are marked slow.
"""

import jax
import numpy as np
import pytest

from gems_jax.games import GAMES, make_game
from gems_jax.testing import check_game

slow = pytest.mark.slow
SMALL_HANABI = {"colors": 2, "ranks": 3, "hand_size": 2, "information_tokens": 3, "life_tokens": 2}
THREE_PLAYERS = np.arange(3 * 2 * 3 * 4).reshape(3, 2, 3, 4)
EIGHT, FOUR, TWO = 8, 4, 2  # episodes: where steps are costly a few must do

ROWS = [
    ("kuhn_poker", {}, 32),
    ("kuhn_poker", {"observation": "infoset", "shared": True}, 32, slow),
    ("leduc_holdem", {"observation": "infoset"}, 32),
    ("leduc_holdem", {}, 32, slow),
    ("kuhn_poker_3p", {}, 32),
    ("leduc_poker_3p", {}, 32),
    ("liars_dice", {}, 32),
    ("goofspiel", {"num_cards": 3}, 32),
    ("goofspiel", {}, 32, slow),
    ("nim", {}, 32),
    ("nim", {"heaps": (2, 4), "misere": True, "shared": True}, 32, slow),
    ("history:nim", {"heaps": (1, 2)}, EIGHT),
    ("tic_tac_toe", {}, EIGHT),
    ("tic_tac_toe", {"max_steps": 4}, EIGHT, slow),
    ("connect_four", {}, EIGHT),
    ("connect_four", {"rows": 3, "columns": 4, "connect": 3}, EIGHT, slow),
    ("connect_four", {"shared": True, "max_steps": 10}, EIGHT, slow),
    ("go_9x9", {}, TWO),
    ("go_9x9", {"max_steps": 20}, FOUR, slow),
    ("chess", {}, 1),
    ("chess", {"max_steps": 20}, FOUR, slow),
    ("simple_tag", {}, EIGHT),
    ("simple_tag", {"continuous": True, "teams": False}, EIGHT, slow),
    ("simple_tag", {"teams": False, "shared": True}, EIGHT, slow),
    ("simple_tag", {"continuous": True, "max_steps": 50}, FOUR, slow),
    ("simple_spread", {"continuous": True, "max_steps": 7}, EIGHT),
    ("simple_spread", {"teams": False}, EIGHT, slow),
    ("simple_spread", {"teams": False, "continuous": True}, EIGHT, slow),
    ("simple_spread", {"agents": 5, "teams": False, "shared": True}, EIGHT, slow),
    ("hanabi", SMALL_HANABI, EIGHT),
    ("hanabi", {}, EIGHT, slow),
    ("hanabi", {"players": 4, "credit": True, "shared": True}, EIGHT, slow),
    ("hanabi", {"players": 3, "teams": True}, FOUR, slow),
    ("rock_paper_scissors", {}, EIGHT),
    ("biased_rps", {"shared": True}, EIGHT),
    ("matching_pennies", {}, EIGHT),
    ("biased_matching_pennies", {}, EIGHT),
    ("prisoners_dilemma", {"shared": True}, EIGHT),
    ("deceptive_messages", {"reward_mode": "zero_sum"}, 32),
    ("deceptive_messages", {"mode": "random", "arms": 3, "means": (0.8, 0.3, 0.1)}, 32, slow),
    ("deceptive_messages", {}, 32, slow),
    ("deceptive_messages", {"mode": "random", "reward_mode": "zero_sum"}, 32, slow),
    ("public_goods", {}, EIGHT),
    ("public_goods", {"n": 3, "shared": True}, EIGHT, slow),
    ("public_goods", {"c": (0.0, 0.5, 1.0, 2.0, 3.0)}, EIGHT, slow),
    ("matrix", {"payoffs": THREE_PLAYERS}, EIGHT),
    ("tabulated:openspiel:kuhn_poker", {}, 32, slow),
    ("tabulated:openspiel:leduc_poker", {}, 32, slow),
    ("pgx:hex", {"max_steps": 4}, TWO),
    ("pgx:othello", {}, FOUR, slow),
    ("pgx:gardner_chess", {}, FOUR, slow),
    ("pgx:go_19x19", {"max_steps": 20}, TWO, slow),
    ("pgx:backgammon", {"max_steps": 20}, FOUR, slow),
    ("jaxmarl:MPE_simple_adversary_v3", {"max_steps": 3}, FOUR),
    ("jaxmarl:MPE_simple_world_comm_v3", {"max_steps": 20}, FOUR, slow),
    ("jaxmarl:MPE_simple_push_v3", {"action_type": "Continuous", "teams": True}, FOUR, slow),
    ("jaxmarl:MPE_simple_facmac_6a_v1", {"max_steps": 20}, FOUR, slow),
    ("jaxmarl:SMAX", {"max_steps": 20}, FOUR, slow),
    ("jaxmarl:HeuristicEnemySMAX", {"max_steps": 20}, FOUR, slow),
    ("jaxmarl:overcooked_v2", {"max_steps": 20}, FOUR, slow),
    ("jaxmarl:hanabi", {"max_steps": 20}, FOUR, slow),
]


def _name(name, options):
    told = ",".join(f"{key}={'...' if np.ndim(value) else value}" for key, value in options.items())
    return f"{name}({told})" if told else name


@pytest.mark.parametrize(
    ("name", "options", "episodes"),
    [pytest.param(*row[:3], marks=row[3:], id=_name(*row[:2])) for row in ROWS],
)
def test_conformance(name, options, episodes):
    game = make_game(name, **options)
    if name.startswith("jaxmarl") or name == "pgx:backgammon":
        # Some of JaxMARL's broadcast between ranks and split a key twice, theirs to mend; and vmap makes a select of a
        # `cond` over a key, which the checker takes for a second use.
        with jax.numpy_rank_promotion("allow"), jax.debug_key_reuse(False):
            check_game(game, episodes=episodes)
    else:
        check_game(game, episodes=episodes)


def test_no_game_is_left_out():
    """Each id, and each kind of id, has a row that the default suite runs."""
    default = {row[0] for row in ROWS if len(row) == 3}
    assert set(GAMES) <= default
    assert {"pgx", "jaxmarl"} <= {name.partition(":")[0] for name in default if ":" in name}
