"""Exact evaluation where observations forget: against plain recursions over the rules, and values known by hand."""

import dataclasses
import functools
import itertools
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gems_jax import exploitability, nash_conv
from gems_jax.extensive.cfr import TabularConfig, cfr_solver
from gems_jax.extensive.recall import build_history_tree, evaluate_memoryless, evaluation_tree, has_exact_evaluation
from gems_jax.extensive.tree import build_tree, is_enumerable
from gems_jax.extensive.values import player_gains, player_values
from gems_jax.games import make_game, with_history
from gems_jax.policies.population import StackedPolicies
from gems_jax.types import GameState, ImperfectRecallError, NotEnumerableError, PolicyOutput, Profile

HEAPS = (1, 2, 2)
SIZES = tuple(heap + 1 for heap in HEAPS)
POSITIONS = list(itertools.product(*map(range, SIZES)))
NEVER = -1e4


def nim_apply(params, observation, legal):
    """A table of logits [positions, actions] as a policy."""
    ends = np.cumsum((0, *SIZES))
    stones = [jnp.argmax(observation[start:stop]) for start, stop in itertools.pairwise(ends)]
    row = functools.reduce(lambda code, digit: code * digit[0] + digit[1], zip(SIZES, stones, strict=True), 0)
    return PolicyOutput(logits=jnp.where(legal, params[row], -1e9))


def nim_moves(heaps):
    """Action and position behind it."""
    for heap, stones in enumerate(heaps):
        for less in range(stones):
            yield heap * max(HEAPS) + less, (*heaps[:heap], stones - less - 1, *heaps[heap + 1 :])


def nim_table(rule):
    """Logits of the policy that plays action `rule(heaps)`, or uniformly where it returns None."""
    logits = np.zeros((len(POSITIONS), len(HEAPS) * max(HEAPS)), np.float32)
    for row, heaps in enumerate(POSITIONS):
        if any(heaps) and (action := rule(heaps)) is not None:
            logits[row] = NEVER
            logits[row, action] = 0.0
    return logits


def winning_move(misere):
    """Bouton's theorem: leave nim-sum 0, under the misère rule an odd number of ones if no larger heap is left."""

    def good(heaps):
        balanced = functools.reduce(operator.xor, heaps) == 0
        return balanced if max(heaps) >= 2 or not misere else not balanced

    return lambda heaps: next((action for action, after in nim_moves(heaps) if good(after)), None)


def nim_values(tables, sigma, misere, responder=None):
    """Returns of seat 0, with a best response of one seat: recursion over histories with the masses of all pairs."""
    probs = np.exp(tables - tables.max(axis=-1, keepdims=True))  # [P, K, positions, actions]

    def value(heaps, seat, masses):
        """masses: of every pair of policies, [K, K]."""
        if not any(heaps):
            return masses.sum() * (1 - 2 * ((seat == 1) == misere))
        row, moves = POSITIONS.index(heaps), list(nim_moves(heaps))
        if seat == responder:
            return (max, min)[seat](value(after, 1 - seat, masses) for _, after in moves)
        played = probs[seat, :, row] / probs[seat, :, row][:, [action for action, _ in moves]].sum(
            axis=1, keepdims=True
        )
        shape = (-1, 1) if seat == 0 else (1, -1)
        return sum(value(after, 1 - seat, masses * played[:, action].reshape(shape)) for action, after in moves)

    masses = sigma[0][:, None] * sigma[1][None, :]
    return value(HEAPS, 0, masses)


@pytest.mark.parametrize("misere", [False, True])
def test_mixtures_in_nim_against_a_recursion_over_histories(misere):
    """Random mixtures, then uniform and winning play: one program for all."""
    game = make_game("nim", heaps=HEAPS, misere=misere)
    rng = np.random.default_rng(0)
    random = rng.normal(0, 2, (2, 3, len(POSITIONS), len(HEAPS) * max(HEAPS))).astype(np.float32)
    solved = nim_table(winning_move(misere))
    tables = np.concatenate([random, np.stack([[np.zeros_like(solved), solved]] * 2)], axis=1)
    sigma = np.array([[[0.2, 0.5, 0.3, 0, 0], [0.6, 0, 0.4, 0, 0]], [[0, 0, 0, 1, 0]] * 2, [[0, 0, 0, 0, 1]] * 2])
    tree, population = build_history_tree(game), StackedPolicies(jnp.asarray(tables), nim_apply)
    outcome = evaluate_memoryless(tree, population, jnp.asarray(sigma, jnp.float32))
    for number, mixture in enumerate(sigma):
        first = nim_values(tables, mixture, misere)
        best = nim_values(tables, mixture, misere, 0), -nim_values(tables, mixture, misere, 1)
        np.testing.assert_allclose(outcome.values[number], [first, -first], atol=2e-6)
        np.testing.assert_allclose(outcome.gains[number], [best[0] - first, best[1] + first], atol=2e-6)
    assert not outcome.gains[2].any()  # winning play cannot be exploited, exactly
    wins = functools.reduce(operator.xor, HEAPS) != 0
    np.testing.assert_allclose(outcome.values[2, 0], 1.0 if wins else -1.0)


def test_uniform_play_of_a_heap_of_two_by_hand():
    """Half of the time the first player takes both stones and wins, else the second takes the last: u = 0.

    The first player's best response takes both: gain 1. The second player has no choice: gain 0.
    """
    game = make_game("nim", heaps=(2,))
    profile = Profile(StackedPolicies(jnp.zeros((2, 1, 1)), uniform_apply), jnp.ones((2, 1)))
    np.testing.assert_allclose(player_values(game, profile), [0, 0], atol=1e-7)
    np.testing.assert_allclose(player_gains(game, profile), [1, 0], atol=1e-7)
    assert float(exploitability(game, profile)) == 0.5


def uniform_apply(params, observation, legal):
    return PolicyOutput(logits=jnp.where(legal, 0.0, -1e9))


# --- what a best response remembers


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class Pennies:
    """Matching pennies twice. Observations do not contain the own moves; `open` shows the opponent's last one."""

    open: bool = False
    name, num_seats, num_actions, max_steps = "pennies", 2, 2, 2
    observation_shape = (3,)
    simultaneous, continuous, zero_sum = True, False, True
    player_of_seat, population_of_player, return_bounds = (0, 1), (0, 1), (-2.0, 2.0)

    def state(self, turn, last, reward):
        seen = jax.nn.one_hot(jnp.where(turn > 0, last, -1), 2) * self.open
        observation = jnp.concatenate([jnp.eye(2)[:, :1], seen], axis=1)
        moves = jnp.full(2, turn < 2)
        return GameState((turn, last), observation, moves[:, None] & jnp.ones((2, 2), bool), moves, reward, turn > 1,
                         jnp.bool_(False))  # fmt: skip

    def init(self, key):
        return self.state(jnp.int32(0), jnp.zeros(2, jnp.int32), jnp.zeros(2))

    def step(self, state, actions, key):
        won = jnp.where(actions[0] == actions[1], 1.0, -1.0)
        return self.state(state.inner[0] + 1, actions[::-1], jnp.stack([won, -won]))

    def deals(self):
        return jax.tree.map(lambda leaf: leaf[None], self.init(None)), jnp.ones(1)


@pytest.mark.parametrize(("open_hands", "gain"), [(False, 0.0), (True, 1.0)])
def test_best_responses_use_what_they_saw_and_nothing_else(open_hands, gain):
    """Everybody draws "always heads" or "always tails": whoever sees the first coin wins the second round."""
    game = Pennies(open_hands)
    same = StackedPolicies(
        NEVER * jnp.eye(2)[None, :, :].repeat(2, axis=0), lambda params, seen, legal: PolicyOutput(params)
    )
    profile = Profile(same, jnp.full((2, 2), 0.5))
    with pytest.raises(ImperfectRecallError, match=r"imperfect recall: seat 0 forgets.*gems_jax.games.with_history"):
        build_tree(game)
    np.testing.assert_allclose(player_values(game, profile), [0, 0], atol=1e-6)
    np.testing.assert_allclose(player_gains(game, profile), [gain, gain], atol=1e-6)


def test_the_wrapper_gives_the_tree_that_evaluation_adds_behind_the_scenes():
    game = make_game("nim", heaps=(1, 2))
    assert not is_enumerable(game) and has_exact_evaluation(game) and is_enumerable(with_history(game))
    hidden, wrapped = evaluation_tree(game).sequences, evaluation_tree(with_history(game))
    for field in ("legal", "seat", "parent", "chance", "payoff", "leaf_sequence"):
        np.testing.assert_array_equal(getattr(hidden, field), getattr(wrapped, field))
    assert hidden.level_ends == wrapped.level_ends and make_game("history:nim", heaps=(1, 2)) == with_history(game)
    with pytest.raises(NotEnumerableError, match="with_history"):
        cfr_solver(game, TabularConfig(), plus=True)


def test_cfr_solves_a_game_with_history():
    """Nim-sum 3: the first player wins, so uniform play loses 2/3 and CFR+ finds the winning move."""
    game = with_history(make_game("nim", heaps=(1, 2)))
    solver = cfr_solver(game, TabularConfig(), plus=True)
    state = solver.init(jax.random.key(0))
    step = jax.jit(solver.step)
    for _ in range(20):
        state, _ = step(state, jax.random.key(0))
    assert float(exploitability(game, solver.profile(state, which="current"))) < 1e-6


def test_seeds_batch_and_trace():
    game = make_game("nim", heaps=HEAPS)
    tables = jax.random.normal(jax.random.key(0), (3, 2, 2, len(POSITIONS), len(HEAPS) * max(HEAPS)))
    sigma = jax.random.dirichlet(jax.random.key(1), jnp.ones(2), (3, 2))
    profiles = Profile(StackedPolicies(tables, nim_apply), sigma)
    together = jax.jit(jax.vmap(lambda profile: nash_conv(game, profile)))(profiles)
    alone = [nash_conv(game, jax.tree.map(lambda leaf, i=i: leaf[i], profiles)) for i in range(3)]
    np.testing.assert_allclose(together, alone, atol=1e-5)


# --- boards

LINES = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]


@functools.cache
def noughts(board, how):
    """Return of the first player: `how` the seats play, "uniform" or "best" each."""
    seat = board.count(" ") % 2 == 0
    for line in LINES:
        stones = {board[square] for square in line}
        if len(stones) == 1 and stones != {" "}:
            return 1.0 if stones == {"X"} else -1.0
    if " " not in board:
        return 0.0
    values = [noughts(board[:at] + "XO"[seat] + board[at + 1 :], how) for at in range(9) if board[at] == " "]
    return sum(values) / len(values) if how[seat] == "uniform" else (max, min)[seat](values)


def best_field(board):
    seat = board.count(" ") % 2 == 0
    free = [at for at in range(9) if board[at] == " "]
    values = [noughts(board[:at] + "XO"[seat] + board[at + 1 :], ("best", "best")) for at in free]
    return free[values.index((max, min)[seat](values))]


def board_apply(params, observation, legal):
    """A table of logits [3^9, 9] as a policy; own stones are digit 1, the opponent's 2."""
    stones = observation.reshape(9, 2) @ jnp.array([1.0, 2.0])
    row = jnp.sum(stones * 3.0 ** jnp.arange(9)).astype(jnp.int32)
    return PolicyOutput(logits=jnp.where(legal, params[row], -1e9))


@functools.cache
def minimax_table():
    logits = np.zeros((3**9, 9), np.float32)
    for code in range(3**9):
        digits = [code // 3**at % 3 for at in range(9)]
        own, theirs = digits.count(1), digits.count(2)
        if own + theirs < 9 and theirs - own in (0, 1):
            board = "".join(" XO"[digit if own == theirs else -digit] for digit in digits)
            logits[code] = NEVER
            logits[code, best_field(board)] = 0.0
    return logits


def test_tic_tac_toe_has_its_known_values():
    """Against uniform play the best first player scores 191/192 wins and draws: .9948; perfect play is worth 0."""
    assert noughts(" " * 9, ("best", "best")) == 0.0
    game = make_game("tic_tac_toe")
    tree = build_history_tree(game)
    assert tree.sequences.num_leaves == 255_168 and tree.sequences.num_infosets == 549_946 - 255_168
    uniform = np.zeros((3**9, 9), np.float32)
    tables = jnp.asarray(np.stack([[uniform, minimax_table()]] * 2))
    sigma = jnp.array([[[1.0, 0.0]] * 2, [[0.0, 1.0]] * 2])
    outcome = evaluate_memoryless(tree, StackedPolicies(tables, board_apply), sigma)
    value = noughts(" " * 9, ("uniform", "uniform"))
    best = noughts(" " * 9, ("best", "uniform")), -noughts(" " * 9, ("uniform", "best"))
    np.testing.assert_allclose(best[0], 0.9947, atol=1e-4)
    np.testing.assert_allclose(outcome.values[0], [value, -value], atol=1e-5)
    np.testing.assert_allclose(outcome.gains[0], [best[0] - value, best[1] + value], atol=1e-5)
    np.testing.assert_array_equal(outcome.values[1], 0)
    np.testing.assert_array_equal(outcome.gains[1], 0)


def test_boards_have_as_many_histories_as_counted_by_hand():
    """3 in a row on 3x3 with gravity: 3278 histories, 505 boards; and Connect Four is refused before it is listed."""
    tree = build_history_tree(make_game("connect_four", rows=3, columns=3, connect=3))
    assert tree.sequences.num_leaves + tree.sequences.num_infosets == 3278
    with pytest.raises(NotEnumerableError, match="137,257 positions down to depth 6 of 42 and grows 7.0 times"):
        build_history_tree(make_game("connect_four"))
    with pytest.raises(NotEnumerableError, match=r"10 positions down to depth 1 of 9.*limit 100 \(max_nodes\)"):
        build_history_tree(make_game("nim"), max_nodes=100)
