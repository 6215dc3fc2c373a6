// Rules of tic-tac-toe and Connect Four. The functions are those of poker.js; seat 0 moves first.
(function (gems) {
  "use strict";

  // Whether a stone of `seat` at `place` completes a line of `length` on a board of rows x columns.
  function completesLine(board, rows, columns, place, length) {
    const row = Math.floor(place / columns), column = place % columns, seat = board[place];
    for (const [down, right] of [[0, 1], [1, 0], [1, 1], [1, -1]]) {
      let count = 1;
      for (const sign of [1, -1]) {
        let r = row + sign * down, c = column + sign * right;
        while (r >= 0 && r < rows && c >= 0 && c < columns && board[r * columns + c] === seat) {
          count++;
          r += sign * down;
          c += sign * right;
        }
      }
      if (count >= length) return true;
    }
    return false;
  }

  // Two planes, row by row: own stones, then those of the other seat.
  function observe(state) {
    const seen = new Float32Array(2 * state.board.length);
    state.board.forEach((stone, place) => {
      if (stone >= 0) seen[2 * place + (stone === state.seat ? 0 : 1)] = 1;
    });
    return seen;
  }

  function game(rows, columns, length, numActions, placeOf) {
    const legal = (state) => Array.from({ length: numActions }, (_, action) => placeOf(state.board, action) >= 0);
    return {
      numActions, rows, columns, placeOf,
      start: () => ({ board: new Array(rows * columns).fill(-1), seat: 0, last: -1, ends: null }),
      mover: (state) => (state.ends ? -1 : state.seat),
      legal,
      observe,
      step(state, action) {
        const board = state.board.slice(), place = placeOf(board, action), { seat } = state;
        board[place] = seat;
        let ends = null;
        if (completesLine(board, rows, columns, place, length)) ends = seat === 0 ? [1, -1] : [-1, 1];
        else if (board.every((stone) => stone >= 0)) ends = [0, 0];
        return { board, seat: 1 - seat, last: place, ends };
      },
      returns: (state) => state.ends,
    };
  }

  function ticTacToe() {
    return game(3, 3, 3, 9, (board, action) => (board[action] < 0 ? action : -1));
  }

  function connectFour({ rows = 6, columns = 7, connect = 4 }) {
    function placeOf(board, column) {
      for (let row = rows - 1; row >= 0; row--) {
        if (board[row * columns + column] < 0) return row * columns + column;
      }
      return -1;
    }
    return game(rows, columns, connect, columns, placeOf);
  }

  gems.rules = { ...gems.rules, tic_tac_toe: ticTacToe, connect_four: connectFour };
})((globalThis.gems = globalThis.gems || {}));
