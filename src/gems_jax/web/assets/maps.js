// The mixture as a heat map over anchors and iterations, and the anchors as points.
(function (gems) {
  "use strict";
  const { make, draw, replace, percent } = gems;

  // Square roots make small masses visible.
  const strength = (mass) => Math.sqrt(mass);

  gems.mixtureMap = function (iterations, { slots, masses }) {
    const width = gems.getWidth(), left = 60, right = 14, top = 8, row = Math.max(7, Math.min(22, Math.round(420 / slots.length)));
    const height = top + row * slots.length + 44, step = (width - left - right) / iterations.length;
    const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "mass of every anchor over iterations" });
    svg.append(draw("rect", { x: left, y: top, width: width - left - right, height: row * slots.length, fill: "var(--board)" }));
    masses.forEach((column, index) => column.forEach((mass, place) => {
      if (mass < 0.0005) return;
      svg.append(draw("rect", {
        x: left + index * step, y: top + place * row, width: step + 0.3, height: row + 0.3, fill: `rgba(var(--heat), ${strength(mass).toFixed(3)})`,
      }));
    }));
    const every = Math.ceil(slots.length / (row * slots.length / 18)), wide = Math.ceil(iterations.length / (width / 60));
    slots.forEach((slot, place) => {
      if (place % every === 0) svg.append(draw("text", { x: left - 8, y: top + (place + 0.5) * row + 4, "text-anchor": "end" }, String(slot)));
    });
    iterations.forEach((iteration, index) => {
      if (index % wide) return;
      svg.append(draw("text", { x: left + (index + 0.5) * step, y: height - 26, "text-anchor": "middle" }, String(iteration)));
    });
    svg.append(draw("text", { class: "axis-label", x: (left + width) / 2, y: height - 6, "text-anchor": "middle" }, "iteration"),
      draw("text", { class: "axis-label", transform: `translate(20 ${top + (row * slots.length) / 2}) rotate(-90)`, "text-anchor": "middle" }, "slot"));
    const tip = make("div", { class: "tip", hidden: true }), box = make("div", { class: "chart" }, [svg, tip]);
    svg.addEventListener("pointermove", (event) => {
      const bounds = svg.getBoundingClientRect(), scale = width / bounds.width;
      const index = Math.floor(((event.clientX - bounds.left) * scale - left) / step);
      const place = Math.floor(((event.clientY - bounds.top) * scale - top) / row);
      tip.hidden = !(masses[index] && place >= 0 && place < slots.length);
      if (tip.hidden) return;
      tip.textContent = `iteration ${iterations[index]}, anchor ${slots[place]}: ${percent(masses[index][place])}`;
      const share = (event.clientX - bounds.left) / bounds.width;
      Object.assign(tip.style, share > 0.5 ? { right: `${100 * (1 - share) + 2}%`, left: "" } : { left: `${100 * share + 2}%`, right: "" });
      tip.style.top = `${event.clientY - bounds.top + 8}px`;
    });
    svg.addEventListener("pointerleave", () => { tip.hidden = true; });
    return box;
  };

  // Points whose areas are masses; choose(index) is called for the chosen one.
  gems.anchorMap = function ({ points, masses, slots, shares }, choose) {
    const size = 420, margin = 66;
    const extent = Math.max(...[0, 1].map((axis) => Math.max(...points.map((point) => point[axis])) - Math.min(...points.map((point) => point[axis])))) || 1;
    const middle = [0, 1].map((axis) => (Math.max(...points.map((point) => point[axis])) + Math.min(...points.map((point) => point[axis]))) / 2);
    const place = (value, axis) => size / 2 + ((axis ? -1 : 1) * (value - middle[axis]) * (size - 2 * margin)) / extent;
    const svg = draw("svg", { viewBox: `0 0 ${size} ${size}`, role: "group", "aria-label": "anchors as points" });
    svg.append(draw("rect", { x: 1, y: 1, width: size - 2, height: size - 2, fill: "none", stroke: "var(--line)" }),
      draw("text", { class: "axis-label", x: size / 2, y: size - 10, "text-anchor": "middle" }, `component 1: ${percent(shares[0])} of the variance`),
      draw("text", { class: "axis-label", transform: `translate(18 ${size / 2}) rotate(-90)`, "text-anchor": "middle" }, `component 2: ${percent(shares[1])}`));
    const dots = points.map(([x, y], index) => {
      const label = `anchor ${slots[index]}, ${percent(masses[index])} of the mixture`;
      const pick = () => {
        dots.forEach((dot) => dot.setAttribute("aria-pressed", String(dot === dots[index])));
        choose(index);
      };
      const on = { click: pick, keydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); pick(); } } };
      return draw("circle", {
        class: "anchor", cx: place(x, 0), cy: place(y, 1), r: 4 + 34 * Math.sqrt(masses[index]), fill: "rgba(var(--heat), 0.45)",
        stroke: "rgb(var(--heat))", "stroke-width": 1.2, tabindex: 0, role: "button", "aria-pressed": "false", "aria-label": label, on,
      }, draw("title", {}, label));
    });
    svg.append(...dots);
    const box = make("div", { class: "chart" }, svg);
    return { box, pick: (index) => dots[index].dispatchEvent(new Event("click")) };
  };

  // What an anchor does at every listed information set.
  gems.behaviorTable = function ({ rows, actions, probabilities, left }, index) {
    const body = rows.map((label, row) => make("tr", {}, [make("th", { scope: "row" }, label), make("td", {},
      actions[row].map((name, action) => (name ? make("span", { class: "cell" }, [
        name, make("span", { class: "meter" }, make("span", { style: { width: `${100 * probabilities[index][row][action]}%` } })),
        percent(probabilities[index][row][action]),
      ]) : null)))]));
    const head = make("thead", {}, make("tr", {}, [make("th", { scope: "col" }, "what it sees"), make("th", { scope: "col" }, "what it does")]));
    const note = left ? make("p", { class: "soft small" }, `${left} information sets that the mixture reaches less often are left out.`) : null;
    return [make("div", { class: "detail", tabindex: 0 }, make("table", {}, [head, make("tbody", {}, body)])), note];
  };
})((globalThis.gems = globalThis.gems || {}));
