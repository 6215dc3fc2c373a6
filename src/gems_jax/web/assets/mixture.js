// Mixtures of policies, read from the data of the page.
(function (gems) {
  "use strict";

  function bytesOf(text) {
    if (typeof Buffer !== "undefined") return new Uint8Array(Buffer.from(text, "base64"));
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  }

  function unpackBits(text, count) {
    const bytes = bytesOf(text), bits = new Uint8Array(count);
    for (let index = 0; index < count; index++) bits[index] = (bytes[index >> 3] >> (7 - (index & 7))) & 1;
    return bits;
  }

  gems.keyOf = (observation) => observation.join("");

  // Rows of a table by what the policy sees, and where the logits of each row's legal actions begin.
  function readTable(kind) {
    const seen = unpackBits(kind.observations, kind.count * kind.inputs);
    const legal = unpackBits(kind.legal, kind.count * kind.actions);
    const rows = new Map(), starts = new Uint32Array(kind.count);
    let place = 0;
    for (let row = 0; row < kind.count; row++) {
      rows.set(seen.subarray(row * kind.inputs, (row + 1) * kind.inputs).join(""), row);
      starts[row] = place;
      for (let action = 0; action < kind.actions; action++) place += legal[row * kind.actions + action];
    }
    return { ...kind, rows, starts, legal };
  }

  function readPopulation(record, kind) {
    const bytes = bytesOf(record.numbers), numbers = new Float32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
    let place = 0;
    const take = (layout) => {
      const arrays = {};
      for (const [name, size] of layout) arrays[name] = numbers.subarray(place, (place += size));
      return arrays;
    };
    const shared = take(record.shared);
    const anchors = record.slots.map((slot, index) => ({
      slot, mass: record.masses[index], arrays: { ...shared, ...take(record.own) },
    }));
    return { kind, anchors };
  }

  function drawIndex(masses, random) {
    let left = random() * masses.reduce((sum, mass) => sum + mass, 0);
    for (let index = 0; index < masses.length; index++) {
      left -= masses[index];
      if (left < 0) return index;
    }
    return masses.findLastIndex((mass) => mass > 0);
  }

  // The policy of a page. `populationOf[seat]` is the population that plays a seat.
  gems.readPolicy = function (record) {
    const kind = record.kind.name === "table" ? readTable(record.kind) : record.kind;
    const populations = record.populations.map((one) => readPopulation(one, kind));
    const of = (seat) => populations[record.populationOf[seat]];

    function play(seat, index, observation, legal) {
      return gems.probabilities(of(seat).kind, of(seat).anchors[index].arrays, observation, legal);
    }

    // Probabilities of a decision's action under all anchors, computed once for each decision.
    const known = new WeakMap();
    function likelihoods(seat, decision) {
      if (!known.has(decision)) {
        const { observation, legal, action } = decision;
        known.set(decision, of(seat).anchors.map((_, index) => play(seat, index, observation, legal)[action]));
      }
      return known.get(decision);
    }

    // Masses of the anchors given the moves of a seat: those of the mixture times the likelihood of the moves.
    function posterior(seat, decisions) {
      const masses = of(seat).anchors.map((anchor) => anchor.mass);
      for (const decision of decisions) {
        likelihoods(seat, decision).forEach((likelihood, index) => { masses[index] *= likelihood; });
      }
      const total = masses.reduce((sum, mass) => sum + mass, 0);
      return total > 0 ? masses.map((mass) => mass / total) : masses;
    }

    // Action probabilities of the mixture at an observation, after earlier decisions of the seat.
    function mixed(seat, decisions, observation, legal) {
      const weights = posterior(seat, decisions), sums = legal.map(() => 0);
      const total = weights.reduce((sum, mass) => sum + mass, 0);
      if (!total) return legal.map((may) => (may ? 1 / legal.filter(Boolean).length : 0));
      weights.forEach((weight, index) => {
        if (weight > 0) play(seat, index, observation, legal).forEach((p, action) => { sums[action] += weight * p; });
      });
      return sums;
    }

    const draw = (seat, random) => drawIndex(of(seat).anchors.map((anchor) => anchor.mass), random);
    return { record, play, posterior, mixed, draw, anchors: (seat) => of(seat).anchors };
  };

  gems.drawIndex = drawIndex;

  // A generator of numbers in [0, 1) from a seed (mulberry32).
  gems.makeRandom = function (seed) {
    let state = seed >>> 0;
    return function () {
      state = (state + 0x6d2b79f5) >>> 0;
      let mixed = Math.imul(state ^ (state >>> 15), state | 1);
      mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
    };
  };
})((globalThis.gems = globalThis.gems || {}));
