// The page of a run: reads its data and draws its parts. What is missing is explained where it would be.
(function (gems) {
  "use strict";
  const { byId, make, replace, percent, format } = gems;
  const data = gems.readData(), { seeds, columns, headline, budget } = data.rows;
  const AXES = [["iteration", "iterations"], ["total_env_steps", "environment steps"], ["seconds", "seconds, without compilation"]];
  const say = (...text) => make("p", { class: "soft" }, text);
  const labelOf = (name) => columns[name].label + (columns[name].unit ? ` (${columns[name].unit})` : "");

  function showHead() {
    const { title, method, state, reason, iteration, planned } = data;
    byId("title").textContent = `${title}, ${method}`;
    const last = seeds.map((one) => (one.rows[headline.columns[0]] || []).filter((value) => value !== null).pop()).filter((value) => value !== undefined);
    const name = headline.columns[0], counted = seeds.length === 1 ? "" : `, ${seeds.length} seeds`;
    const reached = last.length ? ` Last measured ${columns[name].label}: ${last.map(format).join(", ")}${columns[name].unit ? ` ${columns[name].unit}` : ""}.` : "";
    byId("state").textContent = `${iteration} of ${planned} iterations${counted}, ${state}${reason ? ` (${reason})` : ""}.${reached}`;
  }

  function series(name, axis) {
    return seeds.filter((one) => one.rows[name] && one.rows[axis]).map((one, index) => ({
      name: seeds.length > 1 ? `${columns[name].label}, seed ${one.seed}` : columns[name].label,
      x: one.rows[axis], y: one.rows[name], color: gems.COLORS[index % gems.COLORS.length],
    }));
  }

  // The first chart: one color per column if there is one seed, otherwise per seed, with dashes for further columns.
  function showCurves() {
    if (!seeds.length) {
      replace(byId("curves"), make("h2", {}, "Curves"), say("No rows yet: the run has not finished an iteration, or metrics.csv is missing."));
      return;
    }
    const axis = byId("axis").value, x = AXES.find(([name]) => name === axis)[1], names = headline.columns;
    const shown = names.flatMap((name, place) => series(name, axis).map((one, index) => ({
      ...one, dashed: seeds.length > 1 && place > 0, color: seeds.length > 1 ? one.color : gems.COLORS[place % gems.COLORS.length] + (index ? "99" : ""),
    })));
    const units = names.length ? columns[names[0]].unit : "", first = names.length && columns[names[0]];
    const y = names.length === 1 ? labelOf(names[0]) : headline.log ? labelOf(names[0]) : units || "value";
    const values = shown.flatMap((one) => one.y.filter((value) => value > 0)), wide = Math.max(...values) > 3 * Math.min(...values);
    const chart = names.length ? gems.lineChart(shown, { x, y, log: headline.log && wide, zero: !headline.log && names[0].startsWith("score_") }) : null;
    replace(byId("headline"), chart || say("The headline was not measured: the run has neither an exact measurement nor episodes of measurement (--evaluation-episodes 0). All logged columns are below."),
      chart ? gems.legend(shown.map((one) => [one.name + (one.dashed ? " (dashed)" : ""), one.color])) : null,
      chart ? make("p", { class: "soft small" }, `${first.direction}. Hover, or focus a chart and press the arrow keys, to read values.`) : null);
    const column = byId("column").value, further = series(column, axis);
    byId("column").closest(".row").hidden = !column;
    if (!column) return;
    const second = gems.lineChart(further, { x, y: labelOf(column) });
    replace(byId("further"), second || say("This column has no measured values."), second && seeds.length > 1 ? gems.legend(further.map((one) => [one.name, one.color])) : null);
    if (data.rows.left) byId("further").append(say(`${data.rows.left} further seeds are not shown.`));
  }

  function fillSelects() {
    if (!seeds.length) return;
    const known = AXES.filter(([name]) => columns[name]);
    byId("axis").append(...known.map(([name, label]) => make("option", { value: name }, label)));
    const others = Object.keys(columns).filter((name) => !AXES.some(([axis]) => axis === name) && !headline.columns.includes(name));
    byId("column").append(...others.map((name) => make("option", { value: name }, labelOf(name))));
    const preferred = ["effective_policies", "cce_gap", "value_loss", "entropy"].find((name) => others.includes(name));
    if (preferred) byId("column").value = preferred;
    for (const id of ["axis", "column"]) byId(id).addEventListener("change", showCurves);
  }

  function showBudget() {
    const own = seeds.find((one) => one.seed === data.seed) || seeds[0];
    if (!own || !budget.length) {
      const why = data.method === "gems" ? "Its terms are computed exactly in every iteration of an enumerable game with perfect recall. For other games, “gems eval RUN --exploiter 200” measures them once."
        : "Its terms are those of GEMS: other methods have none.";
      replace(byId("budget-chart"), say("This run has no error budget over time. ", why));
      return;
    }
    const terms = budget.map((one) => ({ name: one.label, color: one.color, y: own.rows[one.column] }));
    const y = `gap to a best response (${data.unit} per game)`;
    const sums = own.rows.iteration.map((_, index) => terms.reduce((sum, term) => sum + (term.y[index] || 0), 0));
    const shares = terms.map((term) => ({ ...term, y: term.y.map((value, index) => (sums[index] > 0 ? (100 * value) / sums[index] : 0)) }));
    replace(byId("budget-chart"), gems.stackChart(own.rows.iteration, terms, own.rows.budget_total, { x: "iteration", y }),
      gems.stackChart(own.rows.iteration, shares, null, { x: "iteration", y: "fraction of the gap (%)", most: 100 }),
      gems.legend(terms.slice().reverse().map((term) => [term.name, term.color])),
      make("p", { class: "soft small" }, `Seed ${own.seed}; means over players, before the iteration's training. Terms are stacked: their sum is the gap.`));
  }

  function showMixture() {
    const { iterations, populations, source } = data.mixture;
    if (!iterations.length) {
      replace(byId("mixture-maps"), say("No mixture is stored. ", source || "The run has no checkpoint, and its folder has no mixtures.csv."));
      return;
    }
    const few = iterations.length < 6 && !source.includes("mixtures.csv") ? " Only these iterations are stored; runs write more into mixtures.csv while they are computed." : "";
    const told = make("p", { class: "soft small" }, `Seed ${data.seed}, ${iterations.length} ${iterations.length === 1 ? "iteration" : "iterations"}, ${source}. The darker, the larger the mass (square root).${few}`);
    replace(byId("mixture-maps"), told, populations.flatMap((one, index) => [
      make("h3", { class: "small" }, nameOf(index, populations.length)), gems.mixtureMap(iterations, one)]));
  }

  const nameOf = (index, count) => (count === 1 ? "all players" : `player ${index}`);

  function showAnchors() {
    const { populations, basis, why } = data.anchors;
    if (!populations.length) {
      replace(byId("anchor-maps"), say("Anchors are not shown: ", why || "the run has no checkpoint."));
      return;
    }
    const told = make("p", { class: "soft small" }, `Seed ${data.seed}, iteration ${data.at}. Principal components of the action probabilities ${basis}; `
      + "areas are masses. Choose an anchor to see what it does.");
    const panels = populations.map((one, index) => {
      const detail = make("div", {}), map = gems.anchorMap(one, (chosen) => replace(detail, describeAnchor(one, chosen)));
      map.pick(0);
      const left = one.left ? make("p", { class: "soft small" }, `${one.left} lighter anchors are left out.`) : null;
      return make("div", {}, [make("h3", {}, nameOf(index, populations.length)), map.box, left, detail]);
    });
    replace(byId("anchor-maps"), told, make("div", { class: "pair" }, panels));
  }

  function describeAnchor(one, chosen) {
    const head = make("p", {}, [make("strong", {}, `anchor ${one.slots[chosen]}`), `: ${percent(one.masses[chosen])} of the mixture`]);
    if (one.table) return [head, ...gems.behaviorTable(one.table, chosen)];
    if (one.games[chosen]) return [head, make("p", { class: "soft small" }, data.anchors.populations.length === 1 ? "A game in which all players play this anchor:" : "A game of this anchor against the heaviest anchors of the others:"), make("pre", { tabindex: 0 }, one.games[chosen])];
    return [head, say(`Games were played for the ${one.games.length} heaviest anchors only.`)];
  }

  function showReplays() {
    const { text, pictures, why } = data.replays;
    if (!text) {
      replace(byId("games"), say("No game was replayed: ", why));
      return;
    }
    const shown = pictures.map(({ name, source }) => make("img", { src: source, alt: `replay ${name}` }));
    replace(byId("games"), shown.length ? make("div", { class: "pictures" }, shown) : null, make("pre", { tabindex: 0 }, text));
  }

  function showSettings() {
    byId("facts").append(...data.facts.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]));
    byId("all-settings").append(...[...data.settings, ...data.options].map(([name, value]) => make("div", {}, [make("dt", {}, name), make("dd", {}, value)])));
  }

  function drawAll() {
    gems.setWidth(byId("curves").clientWidth - 30);
    showCurves();
    showBudget();
    showMixture();
  }

  let drawn = 0, width = window.innerWidth;
  showHead();
  fillSelects();
  drawAll();
  showAnchors();
  showReplays();
  showSettings();
  window.addEventListener("resize", () => {
    if (window.innerWidth === width) return; // a phone's address bar: a chart in use stays
    width = window.innerWidth;
    clearTimeout(drawn);
    drawn = setTimeout(drawAll, 150);
  });
})((globalThis.gems = globalThis.gems || {}));
