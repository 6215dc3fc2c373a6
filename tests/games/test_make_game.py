"""make_game: names, options, a user's own game, and messages that help."""

import pytest

from gems_jax.games import GAMES, game_options, make_game
from gems_jax.types import Game

OWN_GAME = """
from gems_jax.games import matrix_game

class MyGame:
    simultaneous, continuous, zero_sum, name = True, False, False, "my_game"
    num_seats, num_actions, max_steps, observation_shape = 2, 2, 1, (2,)
    player_of_seat, population_of_player = (0, 1), (0, 1)

    def __init__(self, prize: float, shared: bool = False):
        self.return_bounds = (-prize, prize)

    def init(self, key): ...
    def step(self, state, actions, key): ...

class Anything(MyGame):
    def __init__(self, **options):
        super().__init__(**options)

ready = matrix_game([[2.0, 0.0], [0.0, 2.0]], name="ready")
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
    assert make_game(f"{own_module}:Anything", prize=2.0).return_bounds == (-2.0, 2.0)
    assert make_game(f"{own_module}:ready").name == "ready" and game_options(f"{own_module}:ready") == ()
    assert game_options(f"{own_module}:MyGame") == ("prize", "shared")


def test_options():
    assert game_options("kuhn_poker") == ("observation", "shared", "max_steps", "suits")
    with pytest.raises(ValueError, match="no option 'colour'. Known options: observation, shared, max_steps"):
        make_game("kuhn_poker", colour="red")
    with pytest.raises(ValueError, match="needs payoffs"):
        make_game("matrix")


def test_unknown_names_list_the_known_ones(own_module):
    with pytest.raises(ValueError, match="known games: ") as error:
        make_game("no such game")
    assert all(name in str(error.value) for name in GAMES)
    for typed, meant in (("khun_poker", "kuhn_poker"), ("kuhn", "kuhn_poker"), ("othello", "pgx:othello")):
        with pytest.raises(ValueError, match=f"did you mean '{meant}'.*`gems games` lists"):
            make_game(typed)
    with pytest.raises(ValueError, match="has no option 'shard'. Did you mean 'shared'. Known options"):
        make_game("kuhn_poker", shard=True)
    with pytest.raises(ValueError, match="Known games: kuhn_poker"):
        make_game("no_module_of_that_name:Game")
    with pytest.raises(ValueError, match="has no 'YourGame'"):
        make_game(f"{own_module}:YourGame")
    with pytest.raises(ValueError, match="is a int: expected a class with the attributes of gems_jax.Game"):
        make_game(f"{own_module}:number")
    with pytest.raises(ValueError, match="name is a string"):
        make_game(make_game("rock_paper_scissors"))


def test_a_gap_in_the_users_module_is_reported_as_such(own_module):
    with pytest.raises(ModuleNotFoundError, match="a_library_that_is_not_there"):
        make_game("own_module_with_a_gap:Game")
