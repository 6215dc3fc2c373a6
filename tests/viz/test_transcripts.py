"""Replays: games that follow the rules, the same ones for the same seed, in words and as SVG that a browser reads."""

import re
from pathlib import Path
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cli import SMALL, assert_one_line, call, untrained_run
from gems_jax.games import GAMES, make_game
from gems_jax.runner.directory import RunDirectory
from gems_jax.runner.load import load
from gems_jax.viz.animation import MARK, board_of, draw_animation
from gems_jax.viz.animation import _style as animation_style
from gems_jax.viz.transcripts import (
    GameRecord,
    GameTable,
    Turn,
    choose_action,
    game_transcript,
    play_game,
    write_replays,
)
from gems_jax.viz.words import legal_actions, words_of

ORANGE, SVG = MARK["stroke"], "{http://www.w3.org/2000/svg}"
RESULTS = {  # what the betting pays to the player with the better card, and to whom it pays when somebody folds
    ("check", "check"): 1,
    ("bet", "call"): 2,
    ("check", "bet", "call"): 2,
    ("bet", "fold"): "seat 0",
    ("check", "bet", "fold"): "seat 1",
}


def test_kuhn_games_pay_what_the_words_say(kuhn_run: RunDirectory) -> None:
    policy = load(kuhn_run.shared)
    table, words, seen = GameTable(policy.game), words_of(policy.game), set()
    for key in jax.random.split(jax.random.key(0), 40):
        record = play_game(table, policy, key)
        text = game_transcript(words, record, 1)
        cards = re.search("seat 0 holds (.), seat 1 holds (.)", text)
        line = tuple(re.findall(r"seat \d: (\w+)", text))
        assert cards is not None and cards[1] != cards[2]
        pays = RESULTS[line]
        seen.add(line)
        if isinstance(pays, str):
            expected = 1 if pays == "seat 0" else -1
        else:
            expected = pays if "JQK".index(cards[1]) > "JQK".index(cards[2]) else -pays
        np.testing.assert_array_equal(record.returns, [expected, -expected])
        assert f"result: seat 0 {expected:+d}, seat 1 {-expected:+d} chips" in text
    assert len(seen) >= 4  # of five; the seed is fixed


def test_moves_follow_the_policy(kuhn_run: RunDirectory) -> None:
    policy = load(kuhn_run.shared)
    state = policy.game.init(jax.random.key(2))
    expected = np.asarray(policy.probabilities(state.observation[0], state.legal[0]))
    chosen = [choose_action(policy, state, 0, key) for key in jax.random.split(jax.random.key(1), 200)]
    np.testing.assert_allclose(chosen[0][1], expected, atol=1e-6)
    share = np.mean([action == 0 for action, _ in chosen])
    assert abs(share - expected[0]) < 5 * np.sqrt(0.25 / 200)  # five standard errors: below 1e-6 by chance


def test_files_of_a_pgx_game(board_run: RunDirectory, tmp_path: Path) -> None:
    policy = load(board_run.shared)
    text, *pictures = write_replays(policy, tmp_path / "a", episodes=2, seed=3)
    again = write_replays(policy, tmp_path / "b", episodes=2, seed=3)
    other = write_replays(policy, tmp_path / "c", episodes=2, seed=4)
    assert text.read_text() == again[0].read_text() != other[0].read_text()
    assert len(pictures) == 2 and text.read_text().startswith("tic-tac-toe: gems, seed 0, iteration 1")
    games = text.read_text().split("game ")[1:3]
    for path, game in zip(pictures, games, strict=True):
        frames = [g for g in ElementTree.parse(path).iter("{http://www.w3.org/2000/svg}g") if g.get("class") == "frame"]
        moves = re.findall("field (\\d) ", re.sub(r"\(.*\)", "", game))
        assert len(frames) == len(moves) + 1 and len(set(moves)) == len(moves)  # a field is taken once
        told = ["".join(frame.itertext()) for frame in frames]
        assert [re.search(r"field (\d)", text)[1] for text in told[1:]] == moves  # type: ignore[index]
        assert "result: X " in told[-1] and not any("result" in text for text in told[:-1])
        for frame, move in zip(frames[1:], moves, strict=True):  # the field that was just taken is framed
            (mark,) = [part for part in frame.iter("{http://www.w3.org/2000/svg}rect") if part.get("stroke") == ORANGE]
            corner = [float(mark.get(name)) + float(mark.get("width")) / 2 for name in ("x", "y")]
            assert corner == [60 + 60 * ((int(move) - 1) % 3), 60 + 60 * ((int(move) - 1) // 3)]
        # what a viewer without animations shows is the final position, and nothing else
        assert [frame.get("visibility") for frame in frames] == ["hidden"] * len(moves) + [None]


def test_every_frame_has_its_own_part_of_the_loop() -> None:
    style = animation_style(3)
    parts = [
        re.findall(r"([\d.]+)%\{visibility:(\w+)\}", style.split(f"@keyframes k{n}")[1].split("#")[0]) for n in range(3)
    ]
    for moment, shown in ((0, 0), (19, 0), (21, 1), (39, 1), (41, 2), (99, 2)):  # 1 s, 1 s and 3 s of 5 s
        now = [[state for begin, state in steps if float(begin) <= moment][-1] for steps in parts]
        assert now == ["visible" if frame == shown else "hidden" for frame in range(3)]


def test_captions_must_fit_the_positions() -> None:
    with pytest.raises(ValueError, match="one caption per position, got 1 positions and 0 captions"):
        draw_animation([None], [])


def test_words_of_boards_and_leduc(tmp_path: Path) -> None:
    game = make_game("connect_four")
    words, table = words_of(game), GameTable(game)
    state = table.advance(table.init(jax.random.key(0)), {0: 3}, jax.random.key(0))
    state = table.advance(state, {1: 3}, jax.random.key(0))
    rows = words.shown(state).splitlines()
    assert rows[-2].split("|")[3].strip() == "X" and rows[-4].split("|")[3].strip() == "O"
    assert words.of_text(state, "7") == 6 and words.of_text(state, "8") is None and words.of_text(state, "x") is None
    assert "you are white (O)" in words.seen(state, 1)
    game = make_game("leduc_holdem")
    words, table = words_of(game), GameTable(game)
    state = table.init(jax.random.key(0))
    assert [words.action(state, action) for action in legal_actions(state, 0)] == ["check", "raise"]
    assert words.of_text(state, "r") == 1 and words.of_text(state, "f") is None and "not yet" in words.seen(state, 0)
    raised = table.advance(state, {0: 1}, jax.random.key(0))
    assert [words.action(raised, action) for action in legal_actions(raised, 1)] == ["call", "raise", "fold"]
    folded = table.advance(raised, {1: 2}, jax.random.key(0))
    assert bool(folded.terminated) and "the table" not in words.shown(folded)  # the card was never turned
    second = table.advance(raised, {1: 0}, jax.random.key(0))
    late = table.advance(table.advance(second, {0: 1}, jax.random.key(0)), {1: 2}, jax.random.key(0))
    assert bool(late.terminated) and re.search("the table shows [JQK]", words.shown(late))
    assert re.search("on the table: [JQK]", words.seen(second, 0)) and "3 of yours, 3 of theirs" in words.seen(
        second, 0
    )


def test_words_of_games_around_a_table() -> None:
    """Poker for three and Liar's Dice: actions by what they do here, what a seat sees, and what everybody holds."""

    def play(game, *moves):
        state = jax.jit(game.init)(jax.random.key(0))
        for move in moves:
            state = jax.jit(game.step)(state, jnp.full(game.num_seats, move, jnp.int32), jax.random.key(0))
        return state

    kuhn = make_game("kuhn_poker_3p")
    words, state = words_of(kuhn), play(kuhn, 0, 1)
    assert [words.action(state, action) for action in (0, 1)] == ["fold", "call"]
    assert re.fullmatch("your card: [JQKA]   so far: seat 0 checks, seat 1 bets", words.seen(state, 2))
    assert words.of_text(state, "c") == 1 and words.shown(state).count("holds") == 3
    leduc = make_game("leduc_poker_3p")
    words, state = words_of(leduc), play(leduc, 2)
    assert [words.action(state, action) for action in (0, 1, 2)] == ["fold", "call", "raise"]
    assert "not yet" in words.seen(state, 1) and "1 of yours, 3 of seat 0, 1 of seat 2" in words.seen(state, 1)
    state = play(leduc, 1, 1, 1)
    assert words.action(state, 1) == "check" and re.search("the table shows [JQKA]", words.shown(state))
    dice = make_game("liars_dice")
    words, state = words_of(dice), play(dice, 10)
    assert words.action(state, 11) == "2x6" and words.action(state, 12) == "liar" and words.of_text(state, "l") == 12
    assert re.fullmatch(r"your die: [1-6] \(6 is wild\)   the last bid: 2x5", words.seen(state, 1))


def test_a_matrix_game_has_words_and_no_pictures(matrix_run: RunDirectory, tmp_path: Path) -> None:
    paths = write_replays(load(matrix_run.shared), tmp_path, episodes=2)
    assert len(paths) == 1
    choice = "(rock|paper|scissors)"
    assert re.search(rf"seat 0: {choice} .*\n  seat 1: {choice} ", paths[0].read_text())


def test_every_game_has_a_title_and_names_for_its_moves() -> None:
    """Games that people read have words of their own; those that come from elsewhere have numbers."""
    for name in GAMES:
        game = make_game(name, **({"payoffs": [[1.0, 0.0], [0.0, 1.0]]} if name == "matrix" else {}))
        words = words_of(game)
        assert words.title and len(words.seats) in (0, game.num_seats)
        state = jax.jit(game.init)(jax.random.key(0)) if game.num_actions < 50 else None
        if state is not None and name not in ("matrix", "simple_tag", "simple_spread"):
            seat = int(np.argmax(np.asarray(state.to_move)))
            named = [words.action(state, action) for action in legal_actions(state, seat)]
            assert len(set(named)) == len(named) and not any("action" in each for each in named), name
    assert words_of(make_game("pgx:hex")).action(None, 3) == "action 3"  # type: ignore[arg-type]


def test_the_chosen_move_is_told_with_its_probability_and_the_likeliest_others() -> None:
    words, game = words_of(make_game("connect_four")), make_game("connect_four")
    state = jax.jit(game.init)(jax.random.key(0))
    probs = np.array([0.3, 0.2, 0.15, 0.14, 0.12, 0.089, 0.001])
    record = GameRecord([Turn(state, {0: 5}, {0: probs})], state, np.zeros(2))
    line = next(line for line in game_transcript(words, record, 1).splitlines() if "black:" in line)
    assert line == "  black: column 6   (0.09; column 1 0.30, column 2 0.20, column 3 0.15, column 4 0.14)"


def test_what_frames_share_is_there_once() -> None:
    """A game of chess repeats neither the board nor the pieces in full."""
    game = make_game("chess")
    start, step = jax.jit(game.init)(jax.random.key(0)), jax.jit(game.step)
    moved = step(start, np.array([32 * 73 + 73 + 17, 0]), jax.random.key(0))  # e2e4
    board, positions = board_of(start.inner.state), [start.inner.state, moved.inner.state]
    text = draw_animation(positions, [["the start"], ["e2e4"]], board, [[], [(4, 6), (4, 4)]])
    root = ElementTree.fromstring(text)
    assert len(list(root.iter(f"{SVG}image"))) == 12 and text.count("base64") == 12
    uses = [part for part in root.iter(f"{SVG}use")]
    assert len(uses) == 2 * (32 + 1) and text.count('fill="gray"') == 32
    named = {part.get("id") for part in root.iter() if part.get("id")}
    assert {part.get("{http://www.w3.org/1999/xlink}href", "")[1:] for part in uses} <= named


def test_command(kuhn_run: RunDirectory, tmp_path: Path) -> None:
    done = call("replay", kuhn_run.shared, "--episodes", 2, "--output", tmp_path / "out", "--seed", 4)
    assert done.code == 0 and done.err == "" and "Kuhn poker: gems, seed 4" in done.out
    assert sorted(path.suffix for path in (tmp_path / "out").iterdir()) == [".txt"]
    assert_one_line(call("replay", kuhn_run.shared, "--episodes", 0), 2, "--episodes must be at least 1")
    assert_one_line(call("replay", kuhn_run.shared, "--seed", 7), 1, "seeds 3, 4, got seed 7")


def test_an_empty_game_is_told() -> None:
    record = GameRecord([], None, np.zeros(2))  # type: ignore[arg-type]
    plain = words_of(untrained_game())
    assert game_transcript(plain, record, 1) == "game 1\n  result: seat 0 +0, seat 1 +0 points"


def untrained_game():
    return make_game("biased_rps")


@pytest.mark.slow
def test_leduc_end_to_end(tmp_path: Path) -> None:
    run = untrained_run(tmp_path / "run", "leduc_holdem", SMALL)
    text = write_replays(load(run.shared), tmp_path / "replays", episodes=4)[0].read_text()
    assert "the table shows" in text
