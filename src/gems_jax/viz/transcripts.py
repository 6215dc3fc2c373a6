"""Replays of a trained policy against itself: a transcript of every game, and pictures.

Boards of pgx have SVG animations, particle worlds have GIFs and stills.

    paths = write_replays(gems_jax.load(RUN), folder, episodes=3, seed=0)

Equal policies and seeds give equal games.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from gems_jax.evaluate.loaded_policy import LoadedPolicy
from gems_jax.games.hanabi.game import Hanabi
from gems_jax.games.particles import ParticleGame
from gems_jax.host.stages import on_host
from gems_jax.runner.errors import report_write_errors
from gems_jax.runner.files import replace_text
from gems_jax.types import Array, Game, GameState
from gems_jax.viz import hanabi_text
from gems_jax.viz.animation import board_of, can_draw, draw_animation
from gems_jax.viz.words import Words, legal_actions, words_of


class Turn(NamedTuple):
    """One move, of one seat or of several at once."""

    state: GameState  # before the move
    actions: dict[int, int]  # seat -> action, of the seats that were to move
    probabilities: dict[int, np.ndarray]  # seat -> [A]


class GameRecord(NamedTuple):
    """Record of a complete game."""

    turns: list[Turn]
    final: GameState
    returns: np.ndarray  # [S]


class GameTable:
    """Game with compiled functions, for play move by move."""

    def __init__(self, game: Game):
        self.game = game
        hosted = on_host(game)  # not compiled
        self.init: Callable[[Array], GameState] = game.init if hosted else jax.jit(game.init)
        self.step: Callable[[GameState, Array, Array], GameState] = game.step if hosted else jax.jit(game.step)

    def advance(self, state: GameState, actions: dict[int, int], key: Array) -> GameState:
        """Plays the actions of the seats to move. key: consumed."""
        joint = jnp.asarray([actions.get(seat, 0) for seat in range(self.game.num_seats)], jnp.int32)
        return self.step(state, joint, key)


def check_discrete(game: Game) -> None:
    """Checks that a game can be described or drawn. Raises ValueError."""
    if game.continuous and not isinstance(game, ParticleGame):
        raise ValueError(f"{game.name} has continuous actions, which replays do not support")


def movers(state: GameState) -> list[int]:
    """Lists the seats to move."""
    return [int(seat) for seat in np.nonzero(np.asarray(state.to_move))[0]]


def choose_action(policy: LoadedPolicy, state: GameState, seat: int, key: Array) -> tuple[int, np.ndarray]:
    """Samples the policy's action for a seat; returns it with its probabilities [A]. key: consumed."""
    probs = np.asarray(policy.probabilities(state.observation[seat], state.legal[seat], seat), np.float64)
    legal = legal_actions(state, seat)
    weights = probs[legal] / probs[legal].sum()
    return legal[
        int(np.searchsorted(np.cumsum(weights), float(jax.random.uniform(key))).clip(0, len(legal) - 1))
    ], probs


def play_game(table: GameTable, policy: LoadedPolicy, key: Array, slots: tuple[int, ...] | None = None) -> GameRecord:
    """Plays one game of the policy's mixture.

    Args:
      table: the game.
      policy: the mixture.
      key: consumed.
      slots: policy that plays for each population; by default drawn from the mixture.

    Returns:
      The record of the game.
    """
    key_slots, key_deal, key_play = jax.random.split(key, 3)
    policy = policy.episode(key_slots) if slots is None else dataclasses.replace(policy, slots=slots)
    state, turns, returns = table.init(key_deal), list[Turn](), np.zeros(table.game.num_seats)
    while len(turns) < table.game.max_steps and not bool(state.done):
        key_act, key_step = jax.random.split(jax.random.fold_in(key_play, len(turns)))
        chosen = {seat: choose_action(policy, state, seat, jax.random.fold_in(key_act, seat)) for seat in movers(state)}
        actions = {seat: action for seat, (action, _) in chosen.items()}
        turns.append(Turn(state, actions, {seat: probs for seat, (_, probs) in chosen.items()}))
        state = table.advance(state, actions, key_step)
        returns = returns + np.asarray(state.reward)
    return GameRecord(turns, state, returns)


def game_transcript(words: Words, record: GameRecord, number: int) -> str:
    """Formats one game: positions, every move with its probabilities, the result."""
    lines, shown = [f"game {number}"], ""
    for index, turn in enumerate(record.turns):
        if index % words.shown_every == 0:
            lines += _changes(words, turn.state, shown)
            shown = words.shown(turn.state)
        count = f"{index + 1:>3}. " * (words.shown_every > 1)
        for seat, action in turn.actions.items():
            name = words.action(turn.state, action)
            lines.append(f"  {count}{words.seat(seat)}: {name:<10} ({_odds(words, turn, seat)})")
    if record.turns:
        lines += _changes(words, record.final, shown)
    if words.ending:
        lines.append(f"  {words.ending(record.final)}")
    lines.append(f"  result: {words.returns(record.returns)} {words.unit}")
    return "\n".join(lines)


def _changes(words: Words, state: GameState, before: str) -> list[str]:
    """Formats the position if it differs from `before`."""
    now = words.shown(state)
    return [f"  {line}" for line in now.splitlines()] if now != before else []


def _odds(words: Words, turn: Turn, seat: int) -> str:
    """Formats the probabilities of legal actions; of many, the chosen one and the likeliest others."""
    chosen, probs = turn.actions[seat], turn.probabilities[seat]
    ranked = sorted(legal_actions(turn.state, seat), key=lambda action: -probs[action])
    few = len(ranked) <= 3
    if not few:
        ranked = [action for action in ranked if action != chosen and probs[action] >= 0.005][:4]
    others = ", ".join(f"{words.action(turn.state, action)} {probs[action]:.2f}" for action in ranked)
    return others if few else "; ".join(filter(None, [f"{probs[chosen]:.2f}", others]))


class _Games(NamedTuple):
    """Transcripts, returns and picture files of games."""

    texts: list[str]
    returns: list[np.ndarray]
    pictures: list[Path]


def write_replays(policy: LoadedPolicy, folder: Path, *, episodes: int = 3, seed: int = 0) -> list[Path]:
    """Plays games of a policy against itself and writes them.

    Args:
      policy: the mixture.
      folder: folder to write to.
      episodes: number of games.
      seed: seed of the games.

    Returns:
      The files, the text first.
    """
    check_discrete(policy.game)
    words = words_of(policy.game)
    keys = jax.random.split(jax.random.key(seed), episodes)
    stem = f"iteration-{policy.iteration}-seed-{policy.seed}-games-{seed}"
    with report_write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    play = _play_particles if isinstance(policy.game, ParticleGame) else _play_turns
    texts, returns, pictures = play(policy, words, keys, folder, stem)
    head = f"{words.title}: {policy.method}, seed {policy.seed}, iteration {policy.iteration}"
    head += f"; {words.legend}" if words.legend else ""
    games = "1 game" if episodes == 1 else f"{episodes} games"
    tail = f"mean of {games}: {words.returns(np.round(np.mean(returns, axis=0), 4))} {words.unit}"
    text = folder / f"{stem}.txt"
    replace_text(text, "\n\n".join([head, *texts, tail]) + "\n")
    return [text, *pictures]


def _play_particles(policy: LoadedPolicy, words: Words, keys: Array, folder: Path, stem: str) -> _Games:
    from gems_jax.viz import particles

    game: Any = policy.game
    table = GameTable(game)
    tracks = [particles.play_track(table, policy, key) for key in keys]
    texts = [particles.describe_track(game, words, track, number) for number, track in enumerate(tracks, 1)]
    returns = [track.reward.sum(axis=0) for track in tracks]
    return _Games(texts, returns, particles.write_pictures(game, tracks, folder, stem))


def _play_turns(policy: LoadedPolicy, words: Words, keys: Array, folder: Path, stem: str) -> _Games:
    table = GameTable(policy.game)
    records = [play_game(table, policy, key) for key in keys]
    describe: Callable[[GameRecord, int], str] = partial(game_transcript, words)
    if isinstance(policy.game, Hanabi):
        describe = partial(hanabi_text.hanabi_transcript, policy.game)
    texts = [describe(record, number) for number, record in enumerate(records, 1)]
    return _Games(texts, [record.returns for record in records], _animations(words, records, folder, stem))


def make_captions(words: Words, record: GameRecord) -> list[list[str]]:
    """Makes the caption of each position: the last move with its probability; at the end the result."""
    lines = [["the start", ""]]
    for number, turn in enumerate(record.turns, 1):
        moves = [
            f"{words.seat(seat)}: {words.action(turn.state, action)} (probability {probs[action]:.2f})"
            for (seat, action), probs in zip(turn.actions.items(), turn.probabilities.values(), strict=True)
        ]
        lines.append([", ".join(moves), f"move {number} of {len(record.turns)}"])
    ending = [words.ending(record.final)] if words.ending else []
    lines[-1][1:] = [*ending, f"result: {words.returns(record.returns)} {words.unit}"]
    return lines


def _animations(words: Words, records: list[GameRecord], folder: Path, stem: str) -> list[Path]:
    """Writes one SVG animation per game, if pgx has drawings of it."""
    if not can_draw(getattr(records[0].final.inner, "state", None)):
        return []
    paths = []
    for number, record in enumerate(records, 1):
        paths.append(folder / f"{stem}-game-{number}.svg")
        replace_text(paths[-1], animate_game(words, record))
    return paths


def animate_game(words: Words, record: GameRecord) -> str:
    """Draws a game of pgx as an animated SVG and returns its text."""
    positions = [turn.state.inner.state for turn in record.turns] + [record.final.inner.state]
    board = board_of(positions[0])
    moved = [board.moved(turn.state, *turn.actions.values()) for turn in record.turns] if board else []
    return draw_animation(positions, make_captions(words, record), board, [[], *moved])
