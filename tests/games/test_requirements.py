"""Which methods fit which games, by what the games declare."""

import pytest

from gems_jax import make_game, make_solver
from gems_jax.games.adapters.pgx import RULES, approximate_positions
from gems_jax.games.requirements import CATALOG, check_fit, check_name, check_size
from gems_jax.psro.psro import PsroConfig
from gems_jax.solvers import METHODS
from gems_jax.types import NotEnumerableError

LEARNERS = {"gems", "self_play", "mmd", "nash_pg", "fxp", "random"}
STORES = {"psro", "alpha_psro", "fusion_psro", "jpsro", "neupl_jpsro", "p2sro"}
TREES = {"cfr", "cfr_plus", "xfp", "os_mccfr", "es_mccfr"}


@pytest.mark.parametrize(
    ("game", "options", "fitting"),
    [
        ("rock_paper_scissors", {}, set(METHODS)),
        ("prisoners_dilemma", {}, LEARNERS | STORES | TREES),
        ("kuhn_poker_3p", {}, LEARNERS | STORES | TREES),
        ("public_goods", {"shared": True}, LEARNERS | TREES),
        ("simple_tag", {}, LEARNERS | STORES),
    ],
)
def test_methods_that_fit(game: str, options: dict, fitting: set[str]) -> None:
    made, found = make_game(game, **options), set()
    for name in CATALOG:
        try:
            check_fit(name, made)
            found.add(name)
        except ValueError as error:
            assert f"method {name}" in str(error) and game in str(error)
    assert found == fitting


def test_a_meta_solver_has_needs_of_its_own() -> None:
    with pytest.raises(ValueError, match="meta_solver='nash_lp' is for two-player zero-sum games.*use nash, omwu or"):
        make_solver("psro", make_game("prisoners_dilemma"), PsroConfig(meta_solver="nash_lp"))


def test_trees_that_are_far_too_large_are_refused_by_name() -> None:
    assert approximate_positions("connect_four") == approximate_positions("pgx:connect_four") == 4.5e12
    assert approximate_positions("go_9x9") == make_game("go_9x9").approximate_positions
    assert approximate_positions("othello") == approximate_positions("kuhn_poker") == 0.0
    assert make_game("connect_four", max_steps=4).approximate_positions == 0.0  # a truncated game may be small
    with pytest.raises(NotEnumerableError, match="the game, and 'chess' has more than 10\\^44 positions"):
        check_size("cfr", "chess", RULES["chess"].positions)
    check_size("psro", "chess", RULES["chess"].positions)
    check_size("cfr", "tic_tac_toe", RULES["tic_tac_toe"].positions)


def test_names() -> None:
    assert list(CATALOG) == sorted(METHODS, key=list(CATALOG).index) and set(CATALOG) == set(METHODS)
    with pytest.raises(ValueError, match="unknown method 'prso'; did you mean 'psro'.*`gems methods` describes them"):
        check_name("prso")
