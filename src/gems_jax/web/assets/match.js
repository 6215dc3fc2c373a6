// One game: its positions and decisions, which player has each seat, and which anchor each policy has drawn.
(function (gems) {
  "use strict";

  // players[seat]: a policy, or null for a person.
  gems.startMatch = function (rules, players, random) {
    const anchors = players.map((policy, seat) => (policy ? policy.draw(seat, random) : -1));
    const positions = [rules.start(random)], decisions = [];
    const considered = [];  // by position: what each policy does there, computed once

    // Earlier decisions of a seat before a position: what it saw, what was legal, what it did.
    function earlier(index, seat) {
      return decisions.slice(0, index).filter((decision) => decision.seat === seat);
    }

    // What a policy does at a position: probabilities of its drawn anchor (null for advice) and of its mixture.
    function consider(index, policy, seat, anchor) {
      const there = (considered[index] = considered[index] || new Map()), key = anchor < 0 ? policy : policy.record;
      if (!there.has(key)) there.set(key, compute(index, policy, seat, anchor));
      return there.get(key);
    }

    function compute(index, policy, seat, anchor) {
      const state = positions[index], observation = rules.observe(state), legal = rules.legal(state);
      const mixed = policy.mixed(seat, earlier(index, seat), observation, legal);
      const own = anchor < 0 ? null : policy.play(seat, anchor, observation, legal);
      return { seat, observation, legal, own, mixed };
    }

    return {
      rules, players, anchors, positions, decisions,
      length: () => positions.length - 1,
      mover: (index) => rules.mover(positions[index]),

      // The decision of the policy to move at a position; null for a person, and at the end.
      decision(index) {
        const seat = rules.mover(positions[index]), policy = players[seat];
        if (!policy) return null;
        const made = decisions[index];
        return made && made.own ? made : consider(index, policy, seat, anchors[seat]);
      },

      advise: (index, policy) => consider(index, policy, rules.mover(positions[index]), -1),

      posterior: (index, seat) => players[seat].posterior(seat, earlier(index, seat)),

      // Plays an action at a position; later positions are taken back.
      play(index, action) {
        const state = positions[index], seat = rules.mover(state);
        const decision = this.decision(index) || { seat, observation: rules.observe(state), legal: rules.legal(state) };
        positions.length = index + 1;
        decisions.length = index;
        considered.length = Math.min(considered.length, index + 1);
        decisions.push({ ...decision, action });
        positions.push(rules.step(state, action));
      },

      drawAction: (decision) => gems.drawIndex(decision.own, random),
    };
  };
})((globalThis.gems = globalThis.gems || {}));
