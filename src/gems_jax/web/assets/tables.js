// Kuhn and Leduc on the page: names of actions, and the table with cards and chips.
(function (gems) {
  "use strict";
  const RANKS = ["J", "Q", "K"], { make } = gems;

  function card(rank, state) {
    if (state === "none") return make("div", { class: "playing-card none" }, "not yet");
    const hidden = state === "hidden";
    const label = hidden ? "a hidden card" : `card ${RANKS[rank]}`;
    return make("div", { class: hidden ? "playing-card back" : "playing-card", role: "img", "aria-label": label },
      hidden ? "?" : RANKS[rank]);
  }

  // Hands of both seats, `bottom` below. `open[seat]`: whether its card is shown.
  function drawTable(state, rules, view, chips, shared) {
    const mover = rules.mover(state);
    const hand = (seat) => make("div", { class: mover === seat ? "hand moves" : "hand" }, [
      make("div", { class: "who" }, view.names[seat]),
      card(state.cards[seat], view.open[seat] ? "open" : "hidden"),
      make("div", { class: "chips" }, `${chips[seat]} ${chips[seat] === 1 ? "chip" : "chips"}`),
    ]);
    const total = chips[0] + chips[1];
    const middle = make("div", { class: "middle" }, [
      shared ? card(state.cards[2], state.round > 0 && !(state.folded && state.round < 2) ? "open" : "none") : null,
      make("span", {}, `pot: ${total} chips`),
    ]);
    return make("div", { class: "table" }, [hand(1 - view.bottom), middle, hand(view.bottom)]);
  }

  const kuhn = {
    hidden: true,
    unit: "chips",
    action: (state, action) => (state.last === 0 ? ["call", "fold"] : ["bet", "check"])[action],
    draw: (state, rules, view) => drawTable(state, rules, view, state.bets.map((bet) => bet + 1), false),
  };

  const leduc = {
    hidden: true,
    unit: "chips",
    action: (state, action) => [state.chips[0] === state.chips[1] ? "check" : "call", "raise", "fold"][action],
    draw: (state, rules, view) => drawTable(state, rules, view, state.chips, true),
  };

  gems.views = { ...gems.views, kuhn_poker: kuhn, leduc_holdem: leduc };
})((globalThis.gems = globalThis.gems || {}));
