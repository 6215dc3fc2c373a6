// Rules of Kuhn poker and Leduc hold'em, for two players.
//
// Every game of this folder has the same functions. A state is a plain object that is never changed.
//   start(random) -> state        random() draws a number in [0, 1)
//   mover(state) -> seat          -1 at the end
//   legal(state) -> [bool]        by action
//   observe(state) -> Float32Array  what the seat to move sees, as the network gets it
//   step(state, action) -> state
//   returns(state) -> [number]    by seat, at the end
(function (gems) {
  "use strict";
  const RANKS = 3;

  function drawDeal(deals, random) {
    const total = deals.reduce((sum, [, weight]) => sum + weight, 0);
    let left = random() * total;
    for (const [cards, weight] of deals) {
      left -= weight;
      if (left < 0) return cards;
    }
    return deals[deals.length - 1][0];
  }

  // One-hot vectors [size, index] one after the other (all zero for a negative index), the history, and the seat.
  function encode(shown, history, seat) {
    const size = shown.reduce((sum, [width]) => sum + width, 0);
    const seen = new Float32Array(size + history.length + 2);
    let first = 0;
    for (const [width, index] of shown) {
      if (index >= 0) seen[first + index] = 1;
      first += width;
    }
    history.forEach((bit, place) => { if (bit) seen[first + place] = 1; });
    seen[first + history.length + seat] = 1;
    return seen;
  }

  function oneHot(size, index) {
    const seen = new Float32Array(size);
    seen[index] = 1;
    return seen;
  }

  function withBit(history, place) {
    return history.map((bit, index) => (index === place ? 1 : bit));
  }

  const KUHN_DEALS = [];
  for (let first = 0; first < RANKS; first++) {
    for (let second = 0; second < RANKS; second++) if (first !== second) KUHN_DEALS.push([[first, second], 1]);
  }

  // Actions: 0 bets or calls, 1 checks or folds.
  function kuhn(options) {
    const asInfoset = options.observation === "infoset";

    function deal(cards) {
      return { cards, seat: 0, last: -1, bets: [0, 0], history: [0, 0, 0, 0], moves: 0, ends: null };
    }

    function step(state, action) {
      const { seat, cards } = state, other = 1 - seat;
      const bet = action === 0, facing = state.last === 0, passed = state.last === 1;
      const folds = facing && !bet, shows = (facing && bet) || (passed && !bet);
      const bets = state.bets.map((chips, each) => chips + (each === seat && bet ? 1 : 0));
      let ends = null;
      if (folds || shows) {
        const wins = shows && cards[seat] > cards[other], stake = facing && bet ? 2 : 1;
        ends = [0, 1].map((each) => ((each === seat) === wins ? stake : -stake));
      }
      const history = withBit(state.history, 2 * state.moves + action);
      return { ...state, seat: other, last: action, bets, history, moves: state.moves + 1, ends };
    }

    function observe(state) {
      const { seat, cards, bets } = state, facing = state.last === 0 ? 1 : 0;
      if (asInfoset) return oneHot(12, 6 * seat + 3 * facing + cards[seat]);
      return encode([[RANKS, cards[seat]], [2, bets[seat]], [2, bets[1 - seat]]], state.history, seat);
    }

    return {
      numActions: 2,
      start: (random) => deal(drawDeal(KUHN_DEALS, random)),
      deal,
      mover: (state) => (state.ends ? -1 : state.seat),
      legal: () => [true, true],
      observe,
      step,
      returns: (state) => state.ends,
    };
  }

  const LEDUC_DEALS = [];
  for (let first = 0; first < RANKS; first++) {
    for (let second = 0; second < RANKS; second++) {
      for (let shared = 0; shared < RANKS; shared++) {
        const different = new Set([first, second, shared]).size;  // two cards of each rank
        if (different > 1) LEDUC_DEALS.push([[first, second, shared], different === 2 ? 4 : 8]);
      }
    }
  }
  const CALL = 0, RAISE = 1, FOLD = 2;

  function leduc(options) {
    const asInfoset = options.observation === "infoset";

    function deal(cards) {
      return {
        cards, seat: 0, last: -1, chips: [1, 1], round: 0, raises: 0, history: new Array(16).fill(0),
        legal: [true, true, false], ends: null,
      };
    }

    // Who wins at the showdown, by seat: 1, -1, or 0 for both.
    function showdown({ cards: [first, second, shared] }) {
      if (first === second) return [0, 0];
      const firstWins = first === shared || (second !== shared && first > second);
      return firstWins ? [1, -1] : [-1, 1];
    }

    function step(state, action) {
      const { seat } = state, other = 1 - seat, chips = state.chips.slice();
      if (action === CALL) chips[seat] = chips[other];
      if (action === RAISE) chips[seat] = Math.max(...chips) + 2 * (state.round + 1);
      const fold = action === FOLD, closes = state.last !== -1 && action === CALL;
      const over = fold || closes, done = fold || (closes && state.round > 0);
      let ends = null;
      if (done) {
        const signs = fold ? [0, 1].map((each) => (each === seat ? -1 : 1)) : showdown(state);
        ends = signs.map((sign) => sign * Math.min(...chips));
      }
      const raises = over ? 0 : state.raises + (action === RAISE ? 1 : 0);
      const second = state.round > 0 ? 1 : 0;
      const played = state.history.slice(8 * second, 8 * second + 8).reduce((sum, bit) => sum + bit, 0);
      const history = fold ? state.history : withBit(state.history, 8 * second + 2 * played + action);
      return {
        ...state, seat: over ? 0 : other, last: over ? -1 : action, chips, raises, history, ends, folded: fold,
        round: state.round + (over ? 1 : 0), legal: [true, raises < 2, action === RAISE],
      };
    }

    function infoset(state) {
      const { cards, seat, history, raises } = state;
      const sum = (from, to, by) => { let all = 0; for (let i = from; i < to; i += by) all += history[i]; return all; };
      const line = sum(0, 8, 1) - 2 + sum(1, 8, 2);
      const pair = 3 * cards[2] + cards[seat];
      const own = state.round > 0 ? 9 + 9 * (3 * line + raises) + pair : 3 * raises + cards[seat];
      return (9 + 15 * 9) * seat + own;
    }

    function observe(state) {
      const { seat, cards, chips } = state;
      if (asInfoset) return oneHot(288, infoset(state));
      const shared = state.round === 1 ? cards[2] : -1;
      return encode([[3, cards[seat]], [3, shared], [14, chips[seat]], [14, chips[1 - seat]]], state.history, seat);
    }

    return {
      numActions: 3,
      start: (random) => deal(drawDeal(LEDUC_DEALS, random)),
      deal,
      mover: (state) => (state.ends ? -1 : state.seat),
      legal: (state) => state.legal,
      observe,
      step,
      returns: (state) => state.ends,
    };
  }

  gems.rules = { ...gems.rules, kuhn_poker: kuhn, leduc_holdem: leduc };
})((globalThis.gems = globalThis.gems || {}));
