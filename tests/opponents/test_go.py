"""The scripted Go player: hand-made positions, chains against a flood fill, and play against random moves."""

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax import make_game
from gems_jax.evaluate.head_to_head import head_to_head
from gems_jax.opponents.go import chain_liberties, go_tactician
from gems_jax.opponents.profiles import fixed_profile
from gems_jax.opponents.registry import cheap_opponents, opponents_of
from gems_jax.opponents.uniform import random_policy

GAME = make_game("go_9x9")
_WANTED = jax.jit(lambda seen, legal: go_tactician().apply((), seen, legal).logits > -1.0)


def wanted(text, illegal=()):
    """The points (row, column) that the player chooses among; x are its stones, o the other's, in the top left."""
    seen = np.zeros((9, 9, 17), np.float32)
    for row, line in enumerate(text.split()):
        for column, stone in enumerate(line):
            if stone != ".":
                seen[row, column, "xo".index(stone)] = 1.0
    legal = np.append((seen[:, :, :2].sum(axis=2) == 0).reshape(-1), True)
    for row, column in illegal:
        legal[9 * row + column] = False
    found = np.flatnonzero(np.asarray(_WANTED(jnp.asarray(seen), jnp.asarray(legal)))).tolist()
    return "pass" if found == [81] else {divmod(point, 9) for point in found}


def test_it_captures_the_largest_chain():
    assert wanted("o........ x........") == {(0, 1)}  # one stone in the corner
    assert wanted("o..xoo... x...xx...") == {(0, 6)}  # two stones rather than one
    assert wanted("o..xoo... x...xx...", illegal=[(0, 6)]) == {(0, 1)}  # such as ko


def test_it_extends_a_chain_in_atari():
    assert wanted(".o....... oxo......") == {(2, 1)}
    found = wanted(".o....... oxo...... o.o......")  # the extension has one liberty: it plays elsewhere
    assert (2, 1) not in found and len(found) > 60
    assert wanted("ox....... .oo......") == {(1, 0)}  # a capture comes first


def test_it_keeps_its_eyes_and_avoids_self_atari():
    found = wanted(".x....... xx.......")
    assert (0, 0) not in found and (0, 2) in found and len(found) == 81 - 4
    found = wanted("..o...... .o.......")
    assert (0, 1) not in found and {(0, 0), (1, 0)} <= found


def test_it_passes_when_only_eyes_are_left():
    rows = [".x.xxxxxx", "xxxxxxxxx"] + ["xxxxxxxxx"] * 7
    assert wanted(" ".join(rows)) == "pass"


def test_chains_and_liberties_are_those_of_a_flood_fill():
    generator = np.random.default_rng(0)
    boards = generator.choice(3, (20, 9, 9), p=[0.4, 0.3, 0.3])
    stones = jnp.stack([boards == 1, boards == 2], axis=1)
    found = jax.jit(jax.vmap(chain_liberties))(stones)
    chains, liberties = (np.asarray(each) for each in found)

    def points(bits):
        return {27 * word + bit for word in range(3) for bit in range(27) if int(bits[word]) >> bit & 1}

    for number, board in enumerate(boards):
        for row, column in np.ndindex(9, 9):
            color = board[row, column]
            for side in (0, 1):
                if color != side + 1:
                    assert not chains[number, side, row, column].any()
                    continue
                chain, free, edge = {(row, column)}, set(), [(row, column)]
                while edge:
                    r, c = edge.pop()
                    for near in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1)):
                        if not (0 <= near[0] < 9 and 0 <= near[1] < 9):
                            continue
                        if board[near] == 0:
                            free.add(near)
                        elif board[near] == color and near not in chain:
                            chain.add(near)
                            edge.append(near)
                assert points(chains[number, side, row, column]) == {9 * r + c for r, c in chain}
                assert points(liberties[number, side, row, column]) == {9 * r + c for r, c in free}


def test_it_beats_random_play():
    found = head_to_head(jax.random.key(0), GAME, fixed_profile(GAME, go_tactician()), random_policy(GAME), episodes=32)
    assert found.win > 0.8
    assert list(cheap_opponents(GAME)) == ["random"] and list(opponents_of(GAME)) == ["random", "tactician"]
