"""docs/add_a_game.md: its games are sound, its table is true, and ten mistakes in its game are named."""

import re
from pathlib import Path

import pytest

from cli import assert_one_line, call
from gems_jax import make_game
from gems_jax.games.adapters import hosted as python_game

PAGE = (Path(__file__).parents[2] / "docs" / "add_a_game.md").read_text()
NIM, PENNIES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)

# Lines of the page's game, and what a mistake makes of them. The check has to name it.
SEEN = "seen = (jnp.arange(self.stones + 1) == heap).astype(jnp.float32)"
PLANTED = {
    "wrong_shape": (
        SEEN,
        SEEN.replace("jnp.arange(self.stones + 1)", "jnp.arange(self.stones)"),
        "init gives observation as float32[2, 9], declared is float32[2, 10]",
    ),
    "wrong_dtype": (
        "to_move, reward, heap == 0",
        "to_move, reward.astype(jnp.int32), heap == 0",
        "init gives reward as int32[2], declared is float32[2]",
    ),
    "no_legal_action": (
        "(jnp.arange(3) < heap)",
        "(jnp.arange(3) + 1 < heap)",
        "a seat is to move but has no legal action",
    ),
    "wrong_seat": (
        "jnp.where(jnp.arange(2) == turn, 1.0, -1.0)",
        "jnp.where(jnp.arange(2) == turn, -1.0, 1.0)",
        "the reward looks as if it went to the wrong seat: in all 32 games",
    ),
    "always_seat_0": (
        "jnp.where(jnp.arange(2) == turn, 1.0, -1.0)",
        "jnp.where(jnp.arange(2) == 0, 1.0, -1.0)",
        "the reward looks as if it went to the wrong seat: seat 0 won all 32 games",
    ),
    "never_ends": (
        "left = jnp.maximum(heap - 1 - actions[turn], 0)",
        "left = jnp.maximum(heap - 1 - actions[turn], 1)",
        "32 of 32 episodes still run after max_steps = 9",
    ),
    "not_zero_sum": (
        "jnp.where(jnp.arange(2) == turn, 1.0, -1.0)",
        "jnp.where(jnp.arange(2) == turn, 1.0, 0.0)",
        "zero_sum is claimed, but the players' returns add up to 1",
    ),
    "impure_step": (
        "heap, turn = state.inner",
        "heap, turn = state.inner; TURNS.append(1); heap = heap - len(TURNS) % 2",
        "step 1 is not pure: the same input twice gave different",
    ),
    "random_later": (
        "won = jnp.where((left == 0) & ~state.done, 1.0, 0.0)",
        "won = jnp.where((left == 0) & ~state.done, random.choice([1.0, 0.5, 0.25, 0.125]) + random.random() / 9, 0.0)",
        "step 1 is not pure: compiled twice, step became two different programs",
    ),
    "python_branch": (
        "left = jnp.maximum(heap - 1 - actions[turn], 0)",
        "left = heap - 1 - actions[turn] if heap > actions[turn] else jnp.int32(0)",
        "jit(step) branches in Python on a traced value, at own_nim_python_branch.py:",
    ),
    "mutable_state": (
        "return self.position(jnp.where(state.done",
        "object.__setattr__(self, 'last', 1); return self.position(jnp.where(state.done",
        "step 1 changed the game itself (last)",
    ),
    "mutable_inner": (
        "heap, turn = state.inner",
        "(heap, turn), _ = state.inner[-2:], state.inner.append(0)",
        "step 1 changed the state that it was given",
    ),
    "wrong_hash": (
        "    def init(self, key):",
        "    def __hash__(self):\n        return id(self)\n\n    def init(self, key):",
        "the hash is wrong: an exact copy of the game is equal to it but hashes differently",
    ),
    "forgotten_option": (
        "stones: int = 9",
        "stones: int = dataclasses.field(default=9, compare=False)",
        "the hash is wrong: it leaves out stones",
    ),
    "raises": (
        "heap, turn = state.inner",
        "heap, turn = state.outer",
        "step 1 raised AttributeError, at own_nim_raises.py:",
    ),
}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """A module of a user's own; gives its name."""
    monkeypatch.syspath_prepend(tmp_path)

    def written(name: str, text: str) -> str:
        (tmp_path / f"{name}.py").write_text(text)
        return name

    return written


def test_the_game_is_30_lines():
    assert len([line for line in NIM.partition("class Nim:")[2].splitlines() if line.strip()]) <= 30


def test_the_game_is_sound(write):
    name = f"{write('own_nim', NIM)}:Nim"
    done = call("games", "--check", name)
    assert done.code == 0 and f"{name}: valid. 2 seats, 3 actions, observations of 10" in done.out, done
    assert make_game(name, stones=4).observation_shape == (5,)


@pytest.mark.parametrize("mistake", PLANTED)
def test_planted_mistakes_are_named(write, mistake):
    line, broken, said = PLANTED[mistake]
    assert NIM.count(line) == 1
    text = NIM.replace(line, broken).replace("@jax.tree_util", "import random\n\nTURNS = []\n\n\n@jax.tree_util")
    if mistake == "mutable_inner":
        text = text.replace("GameState((heap, turn),", "GameState([heap, turn],")
    name = write(f"own_nim_{mistake}", text)
    assert_one_line(call("games", "--check", f"{name}:Nim"), 1, f"{name}:Nim is not a valid game: nim: ", said)


def test_the_environment_is_sound(write, monkeypatch):
    monkeypatch.setenv("GEMS_WORKERS", "0")
    done = call("games", "--check", f"{write('own_pennies', PENNIES)}:Pennies")
    python_game.close_all()
    assert done.code == 0 and "valid. 2 seats, 2 actions" in done.out, done
