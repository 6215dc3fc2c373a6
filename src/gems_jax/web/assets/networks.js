// Inference of the five kinds of policies, from float32 arrays, in double precision.
//
// A policy has `shared` and `own` arrays by name: those of a population, and those of one anchor.
(function (gems) {
  "use strict";

  // inputs [n] times kernel [n, m], plus a bias [m].
  function dense(inputs, kernel, bias, outputs) {
    const sums = new Float64Array(outputs);
    for (let j = 0; j < outputs; j++) sums[j] = bias ? bias[j] : 0;
    for (let i = 0; i < inputs.length; i++) {
      const value = inputs[i], row = i * outputs;
      if (value !== 0) for (let j = 0; j < outputs; j++) sums[j] += value * kernel[row + j];
    }
    return sums;
  }

  // relu(x (1 + scale) + shift); x is [squares, features] or [features].
  function modulate(values, scale, shift) {
    const width = scale.length;
    return values.map((value, index) => Math.max(0, value * (1 + scale[index % width]) + shift[index % width]));
  }

  // A dense layer on every row of [rows, width], joined into [rows, outputs].
  function denseRows(values, rows, kernel, bias, outputs) {
    const width = values.length / rows, joined = new Float64Array(rows * outputs);
    for (let row = 0; row < rows; row++) {
      joined.set(dense(values.subarray(row * width, (row + 1) * width), kernel, bias, outputs), row * outputs);
    }
    return joined;
  }

  // Every square of a board [height, width, planes] with its neighbors, padded with zeros.
  function patches(board, [height, width, planes], side) {
    const before = Math.floor((side - 1) / 2), joined = new Float64Array(height * width * side * side * planes);
    let place = 0;
    for (let x = 0; x < height; x++) {
      for (let y = 0; y < width; y++) {
        for (let dx = 0; dx < side; dx++) {
          for (let dy = 0; dy < side; dy++, place += planes) {
            const row = x + dx - before, column = y + dy - before;
            if (row < 0 || row >= height || column < 0 || column >= width) continue;
            const from = (row * width + column) * planes;
            for (let plane = 0; plane < planes; plane++) joined[place + plane] = board[from + plane];
          }
        }
      }
    }
    return joined;
  }

  function table(kind, arrays, observation) {
    const row = kind.rows.get(gems.keyOf(observation));
    const logits = new Float64Array(kind.actions);
    if (row === undefined) return logits;
    let place = kind.starts[row];
    for (let action = 0; action < kind.actions; action++) {
      if (kind.legal[row * kind.actions + action]) logits[action] = arrays.logits[place++];
    }
    return logits;
  }

  function mlp(kind, arrays, observation) {
    let values = observation;
    kind.hidden.forEach((width, layer) => {
      values = dense(values, arrays[`layer_${layer}.kernel`], arrays[`layer_${layer}.bias`], width).map(Math.tanh);
    });
    return dense(values, arrays["head.kernel"], arrays["head.bias"], kind.actions);
  }

  function film(kind, arrays, observation) {
    let values = Float64Array.from(observation), rows = 1;
    const widths = kind.channels ? [kind.channels, ...kind.hidden] : kind.hidden;
    if (kind.channels) {
      values = patches(observation, kind.board, kind.kernel);
      rows = kind.board[0] * kind.board[1];
    }
    widths.forEach((width, layer) => {
      const [kernel, bias] = ["kernel", "bias"].map((name) => arrays[`torso.${layer}.${name}`]);
      values = denseRows(values, layer === 0 ? rows : 1, kernel, bias, width);
      values = modulate(values, arrays[`film.${layer}.scale`], arrays[`film.${layer}.shift`]);
    });
    return dense(values, arrays["head.kernel"], arrays["head.bias"], kind.actions);
  }

  // numpy.rot90: the square at (x, y) of the turned board is the one at (y, width - 1 - x) of the board.
  function quarterTurn(board, [height, width, planes]) {
    const turned = new Float64Array(board.length);
    for (let x = 0; x < width; x++) {
      for (let y = 0; y < height; y++) {
        const from = (y * width + (width - 1 - x)) * planes, to = (x * height + y) * planes;
        for (let plane = 0; plane < planes; plane++) turned[to + plane] = board[from + plane];
      }
    }
    return turned;
  }

  function board(kind, arrays, observation) {
    let seen = Float64Array.from(observation), [height, width, planes] = kind.board;
    for (let turn = 0; turn < kind.turns; turn++) {
      seen = quarterTurn(seen, [height, width, planes]);
      [height, width] = [width, height];
    }
    const squares = height * width, channels = kind.channels;
    const layer = (name, values) =>
      denseRows(values, squares, arrays[`torso.${name}.kernel`], arrays[`torso.${name}.bias`], channels);
    const own = modulate(layer("embed", seen), arrays["film.0.scale"], arrays["film.0.shift"]);
    const joined = new Float64Array(2 * squares * channels);
    for (let square = 0; square < squares; square++) {
      joined.set(own.subarray(square * channels, (square + 1) * channels), 2 * square * channels);
      const mixed = new Float64Array(channels).fill(arrays["torso.mix.bias"][square]);
      for (let other = 0; other < squares; other++) {
        const weight = arrays["torso.mix.kernel"][square * squares + other];
        for (let c = 0; c < channels; c++) mixed[c] += weight * own[other * channels + c];
      }
      joined.set(mixed.map((value) => Math.max(0, value)), (2 * square + 1) * channels);
    }
    const features = modulate(layer("join", joined), arrays["film.1.scale"], arrays["film.1.shift"]);
    const perSquare = Math.floor(kind.actions / squares), rest = kind.actions % squares;
    const logits = new Float64Array(kind.actions);
    logits.set(denseRows(features, squares, arrays["head.kernel"], arrays["head.bias"], perSquare));
    if (rest) {
      const mean = new Float64Array(channels);
      features.forEach((value, index) => { mean[index % channels] += value / squares; });
      logits.set(dense(mean, arrays["head.rest"], arrays["head.rest_bias"], rest), squares * perSquare);
    }
    return logits;
  }

  const KINDS = { table, mlp, film, conv: film, board };

  // Probabilities of all actions, 0 for illegal ones.
  gems.probabilities = function (kind, arrays, observation, legal) {
    const logits = KINDS[kind.name](kind, arrays, observation);
    const highest = Math.max(...logits.filter((_, action) => legal[action]));
    const masses = Array.from(logits, (logit, action) => (legal[action] ? Math.exp(logit - highest) : 0));
    const total = masses.reduce((sum, mass) => sum + mass, 0);
    return masses.map((mass) => mass / total);
  };
})((globalThis.gems = globalThis.gems || {}));
