// Line charts and stacked areas in SVG, with values under the pointer.
(function (gems) {
  "use strict";
  const { make, draw, replace } = gems;
  const HEIGHT = 300, LEFT = 76, RIGHT = 14, TOP = 14, BOTTOM = 44;
  let WIDTH = 860;

  // Charts are as wide as the page allows, so that their text has its size on a phone, too.
  gems.setWidth = function (pixels) { WIDTH = Math.max(280, Math.min(1000, Math.floor(pixels))); };
  gems.getWidth = () => WIDTH;
  gems.COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8a6d00", "#7a5195"];

  gems.format = function (value) {
    if (value === null || value === undefined) return "not measured";
    const size = Math.abs(value);
    if (size >= 1e4) return value.toLocaleString("en-US", { notation: "compact", maximumSignificantDigits: 4 });
    return String(Number(value.toPrecision(size >= 100 ? 5 : 3)));
  };

  function ticksOf(low, high, log) {
    if (log) {
      const found = [];
      for (let power = Math.floor(Math.log10(low)); power <= Math.ceil(Math.log10(high)); power++) {
        for (const factor of [1, 2, 5]) {
          const tick = Number((factor * 10 ** power).toPrecision(6));
          if (tick >= low * 0.999 && tick <= high * 1.001) found.push(tick);
        }
      }
      const decades = found.filter((tick) => Number.isInteger(Math.log10(tick)) || Math.abs(Math.log10(tick) % 1) < 1e-9);
      return found.length > 9 && decades.length > 2 ? decades : found;
    }
    const rough = (high - low) / 5, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) || rough;
    const found = [];
    for (let tick = Math.ceil(low / step) * step; tick <= high + step * 1e-9; tick += step) found.push(Number(tick.toPrecision(10)));
    return found;
  }

  // The scale of an axis: value -> pixel, with its ticks.
  function scaleOf(values, from, to, { log = false, zero = false } = {}) {
    let low = Math.min(...values), high = Math.max(...values);
    if (zero) low = Math.min(low, 0);
    if (log) { low *= 0.9; high *= 1.1; } else if (low === high) { low -= 0.5; high += 0.5; } else if (!zero) { const pad = 0.04 * (high - low); low -= pad; high += pad; }
    const shape = log ? Math.log10 : (value) => value;
    const place = (value) => from + ((shape(value) - shape(low)) / (shape(high) - shape(low))) * (to - from);
    return { place, ticks: ticksOf(low, high, log) };
  }

  function axes(svg, x, y, labels) {
    for (const tick of y.ticks) {
      svg.append(draw("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: y.place(tick), y2: y.place(tick) }),
        draw("text", { x: LEFT - 8, y: y.place(tick) + 4, "text-anchor": "end" }, gems.format(tick)));
    }
    const room = Math.max(1, Math.ceil(x.ticks.length / ((WIDTH - LEFT) / 62)));
    for (const tick of x.ticks.filter((_, index) => index % room === 0)) {
      svg.append(draw("text", { x: x.place(tick), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle" }, gems.format(tick)));
    }
    svg.append(draw("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: HEIGHT - BOTTOM, y2: HEIGHT - BOTTOM }),
      draw("text", { class: "axis-label", x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, labels.x),
      draw("text", { class: "axis-label", transform: `translate(15 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)`, "text-anchor": "middle" }, labels.y));
  }

  function frame(label) {
    const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label, tabindex: 0 });
    return { svg, box: make("div", { class: "chart" }, svg) };
  }

  // Shows a line and a box with values at the point nearest to the pointer; arrow keys move it.
  function follow({ svg, box }, xs, place, describe) {
    const cursor = draw("line", { class: "cursor", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
    const tip = make("div", { class: "tip", hidden: true });
    svg.append(cursor);
    box.append(tip);
    let at = xs.length - 1;
    function show(index) {
      at = Math.min(Math.max(index, 0), xs.length - 1);
      const x = place(xs[at]), share = x / WIDTH;
      for (const side of ["x1", "x2"]) cursor.setAttribute(side, x);
      cursor.setAttribute("visibility", "visible");
      replace(tip, describe(at).map((line) => make("p", {}, line)));
      tip.hidden = false;
      Object.assign(tip.style, share > 0.55 ? { right: `${100 * (1 - share) + 1.5}%`, left: "" } : { left: `${100 * share + 1.5}%`, right: "" });
      tip.style.top = "6%";
    }
    function hide() {
      cursor.setAttribute("visibility", "hidden");
      tip.hidden = true;
    }
    svg.addEventListener("pointermove", (event) => {
      const bounds = svg.getBoundingClientRect(), x = ((event.clientX - bounds.left) / bounds.width) * WIDTH;
      let nearest = 0;
      xs.forEach((value, index) => { if (Math.abs(place(value) - x) < Math.abs(place(xs[nearest]) - x)) nearest = index; });
      show(nearest);
    });
    svg.addEventListener("pointerleave", hide);
    svg.addEventListener("blur", hide);
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (step) { event.preventDefault(); show(at + step); }
    });
  }

  const swatch = (color) => make("span", { class: "swatch", style: { background: color } });
  gems.legend = (entries) => make("div", { class: "legend" }, entries.map(([name, color]) => make("span", {}, [swatch(color), name])));

  function path(points) {
    let text = "", open = false;
    for (const [x, y] of points) {
      if (y === null) continue;
      text += `${open ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
      open = true;
    }
    return text;
  }

  // series: [{name, color, x: [numbers], y: [numbers or null], dashed}]; every series may have its own x.
  gems.lineChart = function (series, { x, y, log = false, zero = false }) {
    const usable = (value) => value !== null && value !== undefined && (!log || value > 0);
    const shown = series.filter((one) => one.y.some(usable));
    if (!shown.length) return null;
    const values = shown.flatMap((one) => one.y.filter(usable));
    const xs = [...new Set(shown.flatMap((one) => one.x))].sort((left, right) => left - right);
    const across = scaleOf(xs, LEFT, WIDTH - RIGHT), up = scaleOf(values, HEIGHT - BOTTOM, TOP, { log, zero });
    const parts = frame(`${y} against ${x}`), { svg } = parts;
    axes(svg, across, up, { x, y: log ? (y + " (log scale)").replace(") (", ", ") : y });
    for (const one of shown) {
      const points = one.x.map((value, index) => [across.place(value), usable(one.y[index]) ? up.place(one.y[index]) : null]);
      const known = points.filter((point) => point[1] !== null);
      svg.append(draw("path", { d: path(points), fill: "none", stroke: one.color, "stroke-width": 2, "stroke-dasharray": one.dashed ? "6 4" : null }));
      if (known.length <= 60) known.forEach(([cx, cy]) => svg.append(draw("circle", { cx, cy, r: 2.6, fill: one.color })));
    }
    follow(parts, xs, across.place, (index) => [`${x}: ${gems.format(xs[index])}`, ...shown.map((one) => {
      const there = one.x.indexOf(xs[index]);
      return there < 0 ? null : [swatch(one.color), `${one.name}: ${gems.format(one.y[there])}`];
    }).filter(Boolean)]);
    return parts.box;
  };

  // terms: [{name, color, y: [numbers]}], stacked from the bottom.
  gems.stackChart = function (xs, terms, total, { x, y, most }) {
    const sums = xs.map((_, index) => terms.reduce((sum, term) => sum + (term.y[index] || 0), 0));
    const across = scaleOf(xs, LEFT, WIDTH - RIGHT), up = scaleOf([0, ...(most ? [most] : sums)], HEIGHT - BOTTOM, TOP, { zero: true });
    const parts = frame(`${y} against ${x}`), { svg } = parts;
    let floor = xs.map(() => 0);
    for (const term of terms) {
      const top = floor.map((value, index) => value + (term.y[index] || 0));
      const upper = xs.map((value, index) => `${across.place(value).toFixed(1)} ${up.place(top[index]).toFixed(1)}`);
      const lower = xs.map((value, index) => `${across.place(value).toFixed(1)} ${up.place(floor[index]).toFixed(1)}`).reverse();
      svg.append(draw("path", { d: `M${[...upper, ...lower].join("L")}Z`, fill: term.color, stroke: "none" }));
      floor = top;
    }
    axes(svg, across, up, { x, y });
    follow(parts, xs, across.place, (index) => [`${x}: ${gems.format(xs[index])}`,
      ...terms.slice().reverse().map((term) => [swatch(term.color), `${term.name.split(":")[0]}: ${gems.format(term.y[index])}`]),
      total ? `sum, computed independently: ${gems.format(total[index])}` : null].filter(Boolean));
    return parts.box;
  };

  gems.scaleOf = scaleOf;
})((globalThis.gems = globalThis.gems || {}));
