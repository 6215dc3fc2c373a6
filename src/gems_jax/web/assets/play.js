// The page: reads its data, and shows one match at a time.
(function (gems) {
  "use strict";
  const { byId, make, replace, percent } = gems;
  const data = gems.readData(), rules = gems.rules[data.game.name](data.game.options), view = gems.views[data.game.name];
  const policies = data.policies.map(gems.readPolicy), names = data.policies.map((record) => record.name);
  const given = /seed=(\d+)/.exec(location.hash);
  const random = gems.makeRandom(given ? Number(given[1]) : crypto.getRandomValues(new Uint32Array(1))[0]);
  const THINKING = given ? 0 : 700;  // milliseconds before a policy moves
  const selects = [0, 1].map((seat) => byId(`seat-${seat}`));
  let match, cursor, timer = 0, paused = false, focus = 0, earned = 0, games = 0, counted = false;

  const seatName = (seat) => (view.seats ? view.seats[seat] : `seat ${seat}`);
  const isPerson = (seat) => seat >= 0 && !match.players[seat];
  const persons = () => [0, 1].filter(isPerson);
  const over = (index) => match.mover(index) < 0;
  const atEnd = () => cursor === match.length();

  function playerName(seat) {
    if (isPerson(seat)) return persons().length === 2 ? `you (${seatName(seat)})` : "you";
    return `${names[policies.indexOf(match.players[seat])]}`;
  }

  function newGame() {
    clearTimeout(timer);
    const players = selects.map((select) => policies[Number(select.value)] || null);
    match = gems.startMatch(rules, players, random);
    cursor = 0;
    paused = false;
    counted = false;
    focus = Math.floor((rules.rows * rules.columns) / 2) || 0;
    show();
  }

  function play(action) {
    paused = false;
    match.play(cursor, action);
    cursor += 1;
    count();
    show();
  }

  // Adds a finished game to the tally, once.
  function count() {
    const [person, other] = persons();
    if (!over(cursor) || counted || person === undefined || other !== undefined) return;
    counted = true;
    games += 1;
    earned += rules.returns(match.positions[cursor])[person];
  }

  function goTo(index) {
    cursor = Math.min(Math.max(index, 0), match.length());
    paused = !atEnd();
    show();
  }

  // Lets a policy move after a moment, if it is to move in the newest position.
  function schedule() {
    clearTimeout(timer);
    const decision = atEnd() && !paused && match.decision(cursor);
    if (decision) timer = setTimeout(() => play(match.drawAction(decision)), THINKING);
  }

  // --- what is shown

  const opened = () => byId("open").checked || over(match.length()) || persons().length !== 1;
  const isSecret = (seat) => view.hidden && !isPerson(seat) && !opened();

  function advice() {
    const mine = isPerson(match.mover(cursor)) && byId("advice").checked;
    return mine ? match.advise(cursor, match.players.find(Boolean) || policies[0]) : null;
  }

  function showStatus() {
    const state = match.positions[cursor], seat = match.mover(cursor);
    let text;
    if (seat >= 0) text = isPerson(seat) ? `Your move (${seatName(seat)})` : `${playerName(seat)} is to move (${seatName(seat)})`;
    else {
      const returns = rules.returns(state), winner = returns[0] > 0 ? 0 : 1, worth = Math.abs(returns[0]);
      const who = isPerson(winner) && persons().length === 1 ? "You win" : `${playerName(winner)} wins`;
      const stake = view.hidden ? ` ${worth} ${worth === 1 ? "chip" : "chips"}` : ` (${seatName(winner)})`;
      text = worth === 0 ? "Game over: a draw" : `Game over: ${who}${stake}`;
      if (view.ending) text += `; ${view.ending(state, rules)}`;
    }
    if (!atEnd()) text += `, position ${cursor} of ${match.length()}`;
    byId("status").textContent = text;
    const mean = games && view.hidden ? `, ${(earned / games).toFixed(2)} per game` : "";
    byId("tally").textContent = games ? `You: ${earned > 0 ? "+" : ""}${earned} in ${games} ${games === 1 ? "game" : "games"}${mean}` : "";
  }

  function showStage(advised) {
    const state = match.positions[cursor], seat = match.mover(cursor), bottom = persons().length === 1 ? persons()[0] : 0;
    const decision = seat < 0 ? null : match.decision(cursor), shown = decision && !isSecret(seat) ? decision : advised;
    const heat = shown && (shown.own || shown.mixed), mine = isPerson(seat);
    const kept = document.activeElement && document.activeElement.dataset.place;
    const asked = {
      heat, focus, bottom, play: mine ? (action) => play(action) : null,
      names: [0, 1].map(playerName), open: [0, 1].map((each) => opened() || isPerson(each)),
    };
    const board = view.draw(state, rules, asked);
    replace(byId("stage"), board);
    if (kept !== undefined && board.querySelector) {
      const cell = board.querySelector(`[data-place="${kept}"]`);
      if (cell) {
        focus = Number(kept);
        board.querySelectorAll("[tabindex='0']").forEach((other) => other.setAttribute("tabindex", -1));
        cell.setAttribute("tabindex", 0);
        cell.focus();
      }
    }
    showActions(state, mine, heat);
  }

  function showActions(state, mine, heat) {
    const listed = view.hidden ? rules.legal(state).map((_, action) => action) : view.extra || [];
    const legal = rules.legal(state), active = document.activeElement && document.activeElement.dataset.action;
    replace(byId("actions"), match.mover(cursor) < 0 ? [] : listed.filter((action) => legal[action]).map((action) => {
      const chance = heat ? make("span", { class: "chance" }, percent(heat[action])) : null;
      return make("button", { type: "button", "data-action": action, disabled: !mine, on: { click: () => play(action) } },
        [view.action(state, action), chance]);
    }));
    if (active) {
      const again = byId("actions").querySelector(`[data-action="${active}"]`) || byId("actions").querySelector("button");
      (again && !again.disabled ? again : byId("new")).focus();
    }
  }

  // The decision in the panel: of the policy to move, advice, or the last one of a policy.
  function shownDecision(advised) {
    if (advised) return { decision: advised, index: cursor, title: "The policy in your place" };
    const now = match.mover(cursor) >= 0 && match.decision(cursor);
    if (now) return { decision: { ...now, action: (match.decisions[cursor] || {}).action }, index: cursor, title: "Probabilities of this move" };
    for (let index = Math.min(cursor, match.decisions.length) - 1; index >= 0; index--) {
      if (match.decisions[index].own) return { decision: match.decisions[index], index, title: `Its last move (move ${index + 1})` };
    }
    return null;
  }

  function showDecision(advised) {
    const found = shownDecision(advised), box = byId("decision");
    byId("decision-title").textContent = found ? found.title : "Probabilities";
    if (!found) return replace(box, make("p", { class: "soft" }, "The policy has not moved yet."));
    const { decision, index } = found, state = match.positions[index];
    if (!advised && isSecret(decision.seat)) {
      const why = "Hidden until the game ends, because they depend on its card. “Open cards” shows them at once.";
      return replace(box, make("p", { class: "soft" }, why));
    }
    const { own, mixed, legal, action: chosen } = decision, ranked = own || mixed;
    const listed = legal.map((_, action) => action).filter((action) => legal[action]).sort((a, b) => ranked[b] - ranked[a]);
    const cells = listed.slice(0, 7).flatMap((action) => {
      const name = view.action(state, action), mark = action === chosen ? "chosen" : "";
      return [
        make("span", { class: mark }, action === chosen ? `▸ ${name}` : name),
        make("span", { class: "bar" }, [
          make("span", { style: { width: `${100 * ranked[action]}%` } }),
          own ? make("i", { style: { left: `calc(${100 * mixed[action]}% - 1px)` } }) : null,
        ]),
        make("span", { class: `value ${mark}` }, percent(ranked[action])),
      ];
    });
    const rest = listed.length > 7 ? make("p", { class: "soft small" }, `and ${listed.length - 7} other moves`) : null;
    const legend = own ? [make("span", { class: "key" }), " the drawn anchor, ", make("span", { class: "key tick" }), "the mixture, given its moves so far"]
      : [make("span", { class: "key" }), " the mixture, given your moves so far"];
    return replace(box, make("div", { class: "bars" }, cells), rest, make("p", { class: "soft small" }, legend));
  }

  function showAnchors() {
    const parts = [0, 1].filter((seat) => match.players[seat]).map((seat) => {
      const policy = match.players[seat], anchors = policy.anchors(seat), drawn = match.anchors[seat], anchor = anchors[drawn];
      const told = !isSecret(seat), posterior = told ? match.posterior(cursor, seat) : null;
      const top = Math.max(...anchors.map((one) => one.mass), ...(posterior || []));
      const bars = anchors.map((one, index) => make("span", { title: `anchor ${one.slot}: ${percent(one.mass)}` }, [
        make("b", { class: index === drawn ? "drawn" : null, style: { height: `${(100 * one.mass) / top}%` } }),
        posterior ? make("i", { style: { bottom: `calc(${(100 * posterior[index]) / top}% - 2px)` } }) : null,
      ]));
      const place = anchors.length === 1 ? "its only anchor" : `anchor ${anchor.slot}, one of ${anchors.length}`;
      const given = posterior ? `, ${percent(posterior[drawn])} given its moves` : "";
      const text = `${playerName(seat)} (${seatName(seat)}) drew ${place}: ${percent(anchor.mass)} of the mixture${given}`;
      return make("div", {}, [make("p", { class: "small" }, text), make("div", { class: "strip", role: "img", "aria-label": "masses of the anchors" }, bars)]);
    });
    const legend = make("p", { class: "soft small" }, [make("span", { class: "key" }),
      " the drawn anchor; bars: mass before the game; lines: mass given its moves"]);
    replace(byId("anchors"), parts.length ? [...parts, legend] : make("p", { class: "soft" }, "No policy plays."));
  }

  function showMoves() {
    const entries = match.decisions.map((decision, index) => {
      const name = view.action(match.positions[index], decision.action);
      const odds = decision.own && !isSecret(decision.seat) ? ` (${percent(decision.own[decision.action])})` : "";
      return make("li", {}, make("button", {
        type: "button", "aria-current": index + 1 === cursor ? "step" : null, on: { click: () => goTo(index + 1) },
      }, `${index + 1}. ${playerName(decision.seat)}: ${name}${odds}`));
    });
    replace(byId("moves"), entries.length ? entries : make("li", { class: "soft" }, "none yet"));
    const current = byId("moves").querySelector("[aria-current]");
    if (current) byId("moves").scrollTop = current.offsetTop - byId("moves").offsetTop - 60;
  }

  function show() {
    const advised = advice();
    showStatus();
    showStage(advised);
    showDecision(advised);
    showAnchors();
    showMoves();
    byId("back").disabled = byId("first").disabled = cursor === 0;
    byId("forth").disabled = byId("last").disabled = atEnd();
    const automatic = persons().length < 2;
    byId("pause").disabled = !automatic || over(match.length());
    byId("pause").textContent = paused ? "Continue" : "Pause";
    schedule();
  }

  function describe(record) {
    const measured = Object.entries(record.measured).map(([name, value]) => `${name.replace("_", " against ")} ${value.toPrecision(3)}`);
    const counts = record.populations.map((one) => one.slots.length).join(" and ");
    const dropped = record.dropped ? `; the lightest anchors, ${record.dropped < 0.0005 ? "less than 0.1 %" : percent(record.dropped)} of the mass, were left out to fit the page` : "";
    const facts = [record.method, `iteration ${record.iteration}`, `seed ${record.seed}`, `${counts} anchors`, ...measured];
    return `${record.name}: ${facts.join(", ")}${dropped}.`;
  }

  function start() {
    byId("title").textContent = data.game.title;
    byId("about").textContent = data.policies.map(describe).join(" ");
    selects.forEach((select, seat) => {
      const called = view.seats ? ` (${view.seats[seat]})` : "";
      select.append(make("option", { value: -1 }, `you${called}`), ...names.map((name, index) => make("option", { value: index }, name)));
      select.value = seat === 0 ? -1 : 0;
      select.addEventListener("change", newGame);
    });
    byId("open-label").hidden = !view.hidden;
    byId("new").addEventListener("click", newGame);
    byId("first").addEventListener("click", () => goTo(0));
    byId("back").addEventListener("click", () => goTo(cursor - 1));
    byId("forth").addEventListener("click", () => goTo(cursor + 1));
    byId("last").addEventListener("click", () => goTo(match.length()));
    byId("pause").addEventListener("click", () => { paused = !paused; if (!paused) cursor = match.length(); show(); });
    for (const id of ["advice", "open"]) byId(id).addEventListener("change", show);
    byId("help").textContent = "Keys: Tab and arrows select, Enter plays, N starts a new game, comma and period step back and "
      + "forward. After a step back you can play another move from there; the policy keeps its anchor.";
    document.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.tagName === "SELECT") return;
      const call = { n: newGame, ",": () => goTo(cursor - 1), ".": () => goTo(cursor + 1) }[event.key];
      if (call) call();
    });
    newGame();
  }

  start();
})((globalThis.gems = globalThis.gems || {}));
