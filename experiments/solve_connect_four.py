"""Solves late positions of Connect Four exactly: `python -m experiments.solve_connect_four`.

Writes src/gems_jax/opponents/data/connect_four.txt, positions of 20 to 35 stones with the value of every legal move.
Nothing is random but a generator of fixed seed, so the file is the same on every machine. Positions come from games of
players that move at random but win where they can and avoid moves that lose at once. Kept are positions in which nobody
can win at once and moves differ in value, so that a player can go wrong; a position and its mirror image count as one.

The solver is alpha-beta on bitboards with a transposition table. It looks for wins, draws and losses, not for their
distance. Column c takes bits 7 c to 7 c + 5, from the bottom up; bit 7 c + 6 is always empty.
"""

from __future__ import annotations

import random
import sys
import time

from gems_jax.opponents.solved import SOLVED_FILE, format_position
from gems_jax.runner.files import replace_text

ROWS, COLUMNS, HEIGHT = 6, 7, 7
BOTTOM = sum(1 << HEIGHT * column for column in range(COLUMNS))
BOARD = BOTTOM * ((1 << ROWS) - 1)
COLUMN = [((1 << ROWS) - 1) << HEIGHT * column for column in range(COLUMNS)]
ORDER = (3, 2, 4, 1, 5, 0, 6)
COUNT, SEED, STONES = 960, 0, range(20, 36)


def winning_spots(stones: int, filled: int) -> int:
    """Returns the empty squares where one more stone completes four."""
    found = (stones << 1) & (stones << 2) & (stones << 3)
    for step in (HEIGHT, HEIGHT - 1, HEIGHT + 1):
        up, down = (stones << step) & (stones << 2 * step), (stones >> step) & (stones >> 2 * step)
        found |= up & (stones << 3 * step) | up & (stones >> step)
        found |= down & (stones << step) | down & (stones >> 3 * step)
    return found & (BOARD ^ filled)


def safe_moves(own: int, filled: int) -> int:
    """Returns the moves after which the opponent cannot win at once."""
    moves, targets = (filled + BOTTOM) & BOARD, winning_spots(filled ^ own, filled)
    if forced := moves & targets:
        if forced & (forced - 1):
            return 0
        moves = forced
    return moves & ~(targets >> 1)


class Solver:
    """Computes values of positions: 1 if the mover wins, 0 for a draw, -1 if the mover loses."""

    def __init__(self) -> None:
        self.table: dict[int, tuple[int, int]] = {}  # lowest and highest possible value
        self.nodes = 0

    def value(self, own: int, filled: int) -> int:
        """Solves a position that nobody has won."""
        if winning_spots(own, filled) & (filled + BOTTOM):
            return 1
        return self._search(own, filled, -1, 1)

    def _search(self, own: int, filled: int, alpha: int, beta: int) -> int:
        """Solves a position in which the mover cannot win at once."""
        self.nodes += 1
        if filled == BOARD:
            return 0
        moves = safe_moves(own, filled)
        if not moves:
            return -1
        if filled.bit_count() >= ROWS * COLUMNS - 2:
            return 0
        low, high = self.table.get(own + filled + BOTTOM, (-1, 1))
        alpha, beta = max(alpha, low), min(beta, high)
        if alpha >= beta:
            return alpha
        before, best = alpha, -1
        for move in self._ordered(own, filled, moves):
            best = max(best, -self._search(own ^ filled, filled | move, -beta, -max(alpha, best)))
            if best >= beta:
                break
        low, high = (best, high) if best >= beta else (low, best) if best <= before else (best, best)
        self.table[own + filled + BOTTOM] = low, high
        return best

    @staticmethod
    def _ordered(own: int, filled: int, moves: int) -> list[int]:
        """Lists moves that make the most winning spots first, then central ones."""
        listed = [moves & COLUMN[column] for column in ORDER if moves & COLUMN[column]]
        return sorted(listed, key=lambda move: -winning_spots(own | move, filled | move).bit_count())

    def move_values(self, own: int, filled: int) -> tuple[int | None, ...]:
        """Returns the value of every move for the mover, None for full columns."""
        spots, free = winning_spots(own, filled), (filled + BOTTOM) & BOARD
        moves = [free & COLUMN[column] for column in range(COLUMNS)]
        return tuple(
            None if not move else 1 if move & spots else -self.value(own ^ filled, filled | move) for move in moves
        )


def draw_position(generator: random.Random, stones: int) -> tuple[str, int, int] | None:
    """Plays the first `stones` moves of a game; None if somebody wins before."""
    own, filled, columns = 0, 0, ""
    for _ in range(stones):
        moves = safe_moves(own, filled) or (filled + BOTTOM) & BOARD
        if winning_spots(own, filled) & (filled + BOTTOM):
            return None
        column = generator.choice([column for column in range(COLUMNS) if moves & COLUMN[column]])
        own, filled = own ^ filled, filled | (filled + BOTTOM) & BOARD & COLUMN[column]
        columns += str(column)
    return columns, own, filled


def mirror(board: int) -> int:
    """Returns the board seen from behind."""
    return sum((board >> HEIGHT * column & 127) << HEIGHT * (6 - column) for column in range(COLUMNS))


def solve_positions(count: int = COUNT, seed: int = SEED) -> list[str]:
    """Draws and solves positions; returns a line for each."""
    generator, solver, seen, lines = random.Random(seed), Solver(), set(), []
    while len(lines) < count:
        drawn = draw_position(generator, STONES[len(lines) % len(STONES)])
        if drawn is None:
            continue
        columns, own, filled = drawn
        name = min((own, filled), (mirror(own), mirror(filled)))
        if name in seen or winning_spots(own, filled) & (filled + BOTTOM):
            continue
        seen.add(name)
        values = solver.move_values(own, filled)
        if len({value for value in values if value is not None}) > 1:
            lines.append(format_position(columns, values))
            if len(lines) % 100 == 0:
                print(f"{len(lines)} positions, {solver.nodes:,} nodes", file=sys.stderr, flush=True)
    return lines


def main() -> int:
    start = time.perf_counter()
    lines = solve_positions()
    header = (
        "# Connect Four: moves (columns from 0) that lead to a position, and the value of each column for the mover:\n"
        "# w wins, d draws, l loses, . is full. Written by python -m experiments.solve_connect_four\n"
    )
    replace_text(SOLVED_FILE, header + "\n".join(lines) + "\n")
    print(f"written: {SOLVED_FILE} in {time.perf_counter() - start:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
