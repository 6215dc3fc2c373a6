// Tic-tac-toe, Connect Four and Go on the page: a grid of buttons, one of which is in the order of the Tab key.
(function (gems) {
  "use strict";
  const { make, draw, percent } = gems, COLUMNS = "ABCDEFGHJ";

  // view.heat: probabilities by action, or null; view.play(action): called for a legal action, or null.
  function grid(state, rules, view, { className, fields, stone, actionAt, brief = false, decorate = () => {} }) {
    const { rows, columns } = rules, legal = rules.legal(state), highest = view.heat ? Math.max(...view.heat) : 0;
    const board = make("div", {
      class: `board ${className}`, role: "group", "aria-label": "board",
      style: { gridTemplateColumns: `repeat(${columns}, minmax(0, 1fr))` },
    });
    for (let place = 0; place < rows * columns; place++) {
      const action = actionAt(place), may = view.play && legal[action];
      const on = { click: () => may && view.play(action), keydown: (event) => move(event, board, place, rows, columns) };
      const cell = make("button", {
        type: "button", "data-place": place, "data-legal": may ? "" : null, "aria-label": fields(place, state),
        "aria-disabled": may ? null : "true", tabindex: place === view.focus ? 0 : -1, on,
        class: place === state.last ? "newest" : null,
      }, stone(state, place));
      const chance = view.heat && view.heatAt(place, action);
      if (chance > 0.004) {
        const strength = 0.15 + 0.75 * (chance / highest);
        cell.prepend(make("span", { class: "heat", style: { background: `rgba(var(--heat), ${strength})` } }));
        const told = brief ? `${Math.round(100 * chance)}` : percent(chance).replace("\u00a0", "\u200a");
        if (!brief || chance >= 0.02) cell.append(make("span", { class: "percent" }, told));
      }
      decorate(cell, place);
      board.append(cell);
    }
    return board;
  }

  function move(event, board, place, rows, columns) {
    const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
    if (!steps) return;
    event.preventDefault();
    event.stopPropagation();
    const row = Math.floor(place / columns) + steps[0], column = (place % columns) + steps[1];
    if (row < 0 || row >= rows || column < 0 || column >= columns) return;
    const next = board.querySelector(`[data-place="${row * columns + column}"]`);
    board.querySelectorAll("[tabindex='0']").forEach((cell) => cell.setAttribute("tabindex", -1));
    next.setAttribute("tabindex", 0);
    next.focus();
  }

  const disc = (seat) => (seat < 0 ? null : make("span", { class: `disc seat-${seat}` }));

  function mark(seat) {
    if (seat < 0) return null;
    const line = { stroke: seat === 0 ? "var(--first)" : "var(--second)", "stroke-width": 12, fill: "none", "stroke-linecap": "round" };
    const shape = seat === 0 ? draw("path", { d: "M15 15 L85 85 M85 15 L15 85", ...line })
      : draw("circle", { cx: 50, cy: 50, r: 38, ...line });
    return draw("svg", { viewBox: "0 0 100 100", "aria-hidden": "true" }, shape);
  }

  const what = (state, place, names) => { const stone = state.board[place]; return stone < 0 ? "empty" : names[stone]; };

  const ticTacToe = {
    unit: "points",
    seats: ["X", "O"],
    action: (state, action) => `field ${action + 1}`,
    draw: (state, rules, view) => grid(state, rules, { ...view, heatAt: (place) => view.heat[place] }, {
      className: "lines", actionAt: (place) => place, stone: (now, place) => mark(now.board[place]),
      fields: (place, now) => `field ${place + 1}, ${what(now, place, ["X", "O"])}`,
    }),
  };

  const connectFour = {
    unit: "points",
    seats: ["red", "yellow"],
    action: (state, action) => `column ${action + 1}`,
    draw(state, rules, view) {
      const heatAt = (place, action) => (rules.placeOf(state.board, action) === place ? view.heat[action] : 0);
      return grid(state, rules, { ...view, heatAt }, {
        className: "drop", actionAt: (place) => place % rules.columns, stone: (now, place) => disc(now.board[place]),
        fields: (place, now) => `column ${(place % rules.columns) + 1}, row ${rules.rows - Math.floor(place / rules.columns)}, `
          + what(now, place, ["red", "yellow"]),
      });
    },
  };

  const pointName = (point) => COLUMNS[point % 9] + (9 - Math.floor(point / 9));
  const stoneOf = (value) => (value === 0 ? -1 : value === 1 ? 0 : 1);

  const go = {
    unit: "points",
    seats: ["black", "white"],
    extra: [81],
    action: (state, action) => (action === 81 ? "pass" : pointName(action)),
    draw(state, rules, view) {
      return grid(state, rules, { ...view, heatAt: (place) => view.heat[place] }, {
        className: "go", brief: true, actionAt: (place) => place, stone: (now, place) => disc(stoneOf(now.board[place])),
        fields: (place, now) => `${pointName(place)}, ${["empty", "black", "white"][stoneOf(now.board[place]) + 1]}`,
        decorate(cell, place) {
          const row = Math.floor(place / 9), column = place % 9, label = (text, style) =>
            cell.append(make("span", { class: "label", "aria-hidden": "true", style }, text));
          cell.classList.toggle("at-left", column === 0);
          cell.classList.toggle("at-right", column === 8);
          cell.classList.toggle("at-top", row === 0);
          cell.classList.toggle("at-bottom", row === 8);
          if (column === 0) label(String(9 - row), { left: "-0.85rem", top: "calc(50% - 0.6em)" });
          if (row === 0) label(COLUMNS[column], { top: "-1.15rem", left: "calc(50% - 0.3em)" });
        },
      });
    },
    ending(state, rules) {
      if (state.repeated) return "the last move repeated a position, which loses";
      const [black, white] = rules.area(state.board);
      return `black ${black} points, white ${white} and komi ${rules.komi}`;
    },
  };

  gems.views = { ...gems.views, tic_tac_toe: ticTacToe, connect_four: connectFour, go_9x9: go };
})((globalThis.gems = globalThis.gems || {}));
