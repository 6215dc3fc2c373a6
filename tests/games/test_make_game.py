"""make_game: names, options, a user's own game, and messages that help."""

import pytest

from gems_jax.games import GAMES, game_options, make_game
from gems_jax.types import Game

OWN_GAME = """
from gems_jax.games import matrix_game

def MyGame(prize: float, shared: bool = False):
    return matrix_game([[prize, 0.0], [0.0, prize]], shared=shared, name="my_game")

def anything(**options):
    return MyGame(options["prize"])

number = 3
"""


@pytest.fixture
def own_module(tmp_path, monkeypatch):
    (tmp_path / "own_module_for_test.py").write_text(OWN_GAME)
    (tmp_path / "own_module_with_a_gap.py").write_text("import a_library_that_is_not_there\n")
    monkeypatch.syspath_prepend(tmp_path)
    return "own_module_for_test"


def test_every_row_makes_a_game_of_its_name():
    for name, entry in GAMES.items():
        options = {"payoffs": [[1.0, 0.0], [0.0, 1.0]]} if name == "matrix" else {}
        game = make_game(name, **options)
        assert isinstance(game, Game) and game.name == name and entry.description


def test_own_game(own_module):
    game = make_game(f"{own_module}:MyGame", prize=2.0)
    assert game.name == "my_game" and game.return_bounds == (-2.0, 2.0)
    assert make_game(f"{own_module}:anything", prize=2.0) == game
    assert game_options(f"{own_module}:MyGame") == ("prize", "shared")


def test_options():
    assert game_options("kuhn_poker") == ("observation", "shared", "max_steps")
    with pytest.raises(ValueError, match="no option 'colour'. Known options: observation, shared, max_steps"):
        make_game("kuhn_poker", colour="red")
    with pytest.raises(ValueError, match="needs payoffs"):
        make_game("matrix")


def test_unknown_names_list_the_known_ones(own_module):
    with pytest.raises(ValueError, match="Did you mean kuhn_poker") as error:
        make_game("khun_poker")
    assert all(name in str(error.value) for name in GAMES)
    with pytest.raises(ValueError, match="Known games: kuhn_poker"):
        make_game("no_module_of_that_name:Game")
    with pytest.raises(ValueError, match="has no 'YourGame'"):
        make_game(f"{own_module}:YourGame")
    with pytest.raises(ValueError, match="expected a class or function"):
        make_game(f"{own_module}:number")
    with pytest.raises(ValueError, match="name is a string"):
        make_game(make_game("rock_paper_scissors"))


def test_a_gap_in_the_users_module_is_reported_as_such(own_module):
    with pytest.raises(ModuleNotFoundError, match="a_library_that_is_not_there"):
        make_game("own_module_with_a_gap:Game")
