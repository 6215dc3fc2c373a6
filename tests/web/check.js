// Compares rules and inference with records of JAX. Runs in Node and in a browser: gems.check(records) -> counts.
(function (gems) {
  "use strict";
  const same = (left, right) => left.length === right.length && left.every((value, index) => value === right[index]);

  function bits(text, count) {
    const raw = typeof Buffer === "undefined" ? Uint8Array.from(atob(text), (c) => c.charCodeAt(0)) : Buffer.from(text, "base64");
    return Array.from({ length: count }, (_, index) => (raw[index >> 3] >> (7 - (index & 7))) & 1);
  }

  // Replays the games of a record; counts positions, and what differs from JAX at them.
  function checkRules({ game, games, inputs, actions }) {
    const rules = gems.rules[game.name](game.options), found = { positions: 0, mover: 0, legal: 0, observation: 0, returns: 0 };
    for (const one of games) {
      const seen = bits(one.observation, inputs * one.actions.length), legal = bits(one.legal, actions * one.actions.length);
      let state = one.cards ? rules.deal(one.cards) : rules.start(() => 0.5);
      one.actions.forEach((action, index) => {
        const may = rules.legal(state).map(Number);
        found.positions += 1;
        found.mover += rules.mover(state) !== one.movers[index];
        found.legal += !same(may, legal.slice(index * actions, (index + 1) * actions));
        found.observation += !same(Array.from(rules.observe(state)), seen.slice(index * inputs, (index + 1) * inputs));
        state = rules.step(state, action);
      });
      found.returns += rules.mover(state) !== -1 || !same(rules.returns(state).map(Number), one.returns);
    }
    return found;
  }

  // The largest difference of probabilities, anchor by anchor and of the mixture, and the number of positions.
  function checkInference({ policy, inputs, actions, positions, probabilities, mixed }) {
    const own = gems.readPolicy(policy), counts = { positions: 0, anchors: 0, mixed: 0 };
    const seen = bits(positions.observation, inputs * positions.seats.length);
    const legal = bits(positions.legal, actions * positions.seats.length).map(Boolean);
    const largest = (ours, theirs) => Math.max(...ours.map((value, index) => Math.abs(value - theirs[index])));
    positions.seats.forEach((seat, index) => {
      const observation = Float32Array.from(seen.slice(index * inputs, (index + 1) * inputs));
      const may = legal.slice(index * actions, (index + 1) * actions), anchor = positions.anchors[index];
      counts.positions += 1;
      counts.anchors = Math.max(counts.anchors, largest(own.play(seat, anchor, observation, may), probabilities[index]));
    });
    for (const one of mixed || []) {
      const rules = gems.rules[one.game.name](one.game.options), decisions = [[], []];
      let state = rules.deal(one.cards);
      one.actions.forEach((action, index) => {
        const seat = rules.mover(state), observation = rules.observe(state), may = rules.legal(state);
        const ours = own.mixed(seat, decisions[seat], observation, may);
        counts.mixed = Math.max(counts.mixed, largest(ours, one.probabilities[index]));
        decisions[seat].push({ observation, legal: may, action });
        state = rules.step(state, action);
      });
    }
    return counts;
  }

  gems.check = ({ rules = [], inference = [] }) => ({ rules: rules.map(checkRules), inference: inference.map(checkInference) });
})((globalThis.gems = globalThis.gems || {}));
