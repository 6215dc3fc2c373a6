// Rules of Go on 9x9: area scoring, komi 7.5, at most 162 moves; whoever repeats a position loses.
// The functions are those of poker.js. A stone is 1 (black, seat 0) or -1 (white); action 81 passes.
(function (gems) {
  "use strict";
  const SIZE = 9, POINTS = SIZE * SIZE, PASS = POINTS, KOMI = 7.5, LONGEST = 2 * POINTS, REMEMBERED = 8;

  const NEIGHBORS = Array.from({ length: POINTS }, (_, point) => {
    const row = Math.floor(point / SIZE), column = point % SIZE, found = [];
    if (row > 0) found.push(point - SIZE);
    if (row < SIZE - 1) found.push(point + SIZE);
    if (column > 0) found.push(point - 1);
    if (column < SIZE - 1) found.push(point + 1);
    return found;
  });

  // The chain of the stone at `point`, and the set of its liberties.
  function chainAt(board, point) {
    const stones = [point], seen = new Set(stones), liberties = new Set();
    for (let next = 0; next < stones.length; next++) {
      for (const near of NEIGHBORS[stones[next]]) {
        if (board[near] === 0) liberties.add(near);
        else if (board[near] === board[point] && !seen.has(near)) {
          seen.add(near);
          stones.push(near);
        }
      }
    }
    return { stones, liberties };
  }

  function place(board, point, color) {
    const after = board.slice();
    after[point] = color;
    const captured = [];
    for (const near of NEIGHBORS[point]) {
      if (after[near] !== -color) continue;
      const chain = chainAt(after, near);
      if (chain.liberties.size > 0) continue;
      for (const stone of chain.stones) {
        after[stone] = 0;
        captured.push(stone);
      }
    }
    // A single stone that was captured by a stone without own or empty neighbors cannot be retaken at once.
    const enclosed = NEIGHBORS[point].every((near) => board[near] === -color);
    return { after, captured, ko: enclosed && captured.length === 1 ? captured[0] : -1 };
  }

  // Marks the points that stones of `color` reach over empty points.
  function reach(board, color) {
    const open = [];
    const reached = board.map((stone, point) => {
      if (stone === color) open.push(point);
      return stone === color;
    });
    while (open.length) {
      for (const near of NEIGHBORS[open.pop()]) {
        if (board[near] === 0 && !reached[near]) {
          reached[near] = true;
          open.push(near);
        }
      }
    }
    return reached;
  }

  // Points of each seat: its stones, and the empty points that the other one does not reach.
  function area(board) {
    const reached = [reach(board, 1), reach(board, -1)];
    return [1, -1].map((color, seat) =>
      board.filter((stone, point) => stone === color || (stone === 0 && !reached[1 - seat][point])).length);
  }

  function legal(state) {
    const may = new Array(POINTS + 1).fill(false), color = state.seat === 0 ? 1 : -1;
    const chains = new Map();
    const inAtari = (point) => {
      if (!chains.has(point)) {
        const chain = chainAt(state.board, point);
        chain.stones.forEach((stone) => chains.set(stone, chain.liberties.size === 1));
      }
      return chains.get(point);
    };
    for (let point = 0; point < POINTS; point++) {
      if (state.board[point] !== 0 || point === state.ko) continue;
      may[point] = NEIGHBORS[point].some((near) => {
        const stone = state.board[near];
        return stone === 0 || (stone === color ? !inAtari(near) : inAtari(near));
      });
    }
    may[PASS] = true;
    return may;
  }

  function finish(state) {
    const { board, repeated, moves, passes, seat } = state;
    if (passes < 2 && !repeated && moves < LONGEST) return null;
    if (repeated) return seat === 0 ? [1, -1] : [-1, 1];  // the one to move next wins
    const [black, white] = area(board);
    return black - KOMI > white ? [1, -1] : [-1, 1];
  }

  function step(state, action) {
    const color = state.seat === 0 ? 1 : -1;
    let { board } = state, ko = -1, captured = 0;
    if (action !== PASS) {
      const placed = place(board, action, color);
      board = placed.after;
      ko = placed.ko;
      captured = placed.captured.length;
    }
    const key = board.join(), moves = state.moves + 1;
    const after = {
      board, ko, moves, seat: 1 - state.seat, last: action === PASS ? -1 : action,
      passes: action === PASS ? state.passes + 1 : 0,
      past: [board, ...state.past].slice(0, REMEMBERED),
      keys: [...state.keys, key],
      repeated: action !== PASS && state.keys.includes(key),
      captures: state.captures.map((count, seat) => count + (seat === state.seat ? captured : 0)),
    };
    after.ends = finish(after);
    return after;
  }

  // 17 planes per point: for each of the last eight positions own and other stones, then the color to move.
  function observe(state) {
    const planes = 2 * REMEMBERED + 1, seen = new Float32Array(POINTS * planes), color = state.seat === 0 ? 1 : -1;
    for (let point = 0; point < POINTS; point++) {
      state.past.forEach((board, back) => {
        if (board[point] === color) seen[point * planes + 2 * back] = 1;
        if (board[point] === -color) seen[point * planes + 2 * back + 1] = 1;
      });
      seen[point * planes + planes - 1] = state.seat;
    }
    return seen;
  }

  function go() {
    return {
      numActions: POINTS + 1, rows: SIZE, columns: SIZE, komi: KOMI, area,
      start: () => ({
        board: new Array(POINTS).fill(0), ko: -1, moves: 0, seat: 0, last: -1, passes: 0, past: [], keys: [],
        repeated: false, captures: [0, 0], ends: null,
      }),
      mover: (state) => (state.ends ? -1 : state.seat),
      legal,
      observe,
      step,
      returns: (state) => state.ends,
    };
  }

  gems.rules = { ...gems.rules, go_9x9: go };
})((globalThis.gems = globalThis.gems || {}));
