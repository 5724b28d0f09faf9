"use strict";
// The page of the service: search, teach, undo, and see what changes.

const $ = (id) => document.getElementById(id);
const state = { model: null, mode: "id", query: null, before: [], after: null, marks: new Map(), map: null, seen: -1 };

function token() {
  return sessionStorage.getItem("rankfold-token");
}

async function call(method, path, body) {
  const headers = {};
  if (body !== undefined) headers["Content-Type"] = "application/json";
  if (token()) headers["Authorization"] = "Bearer " + token();
  const answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const found = await answer.json().catch(() => ({}));
  if (!answer.ok) {
    const error = new Error(found.error ? found.error.message : "the service answers " + answer.status);
    error.status = answer.status;
    throw error;
  }
  return found;
}

function say(text, isError) {
  $("status").textContent = text;
  $("status").classList.toggle("error", Boolean(isError));
}

function element(name, attributes, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "class") node.className = value;
    else node.setAttribute(key, value);
  }
  node.append(...children);
  return node;
}

const short = (value) => {
  const size = Math.abs(value);
  if (value === 0) return "0";
  return size >= 1e4 || size < 1e-3 ? value.toExponential(2) : value.toFixed(size < 1 ? 3 : 2);
};

// ---- What can be asked, by the task of the model.

const TASKS = {
  similarity: { path: "/v1/neighbors", noun: "Item" },
  metric: { path: "/v1/neighbors", noun: "Item" },
  pairs: { path: "/v1/neighbors", noun: "Item" },
  ranking: { path: "/v1/rank", noun: "Row" },
  completion: { path: "/v1/recommend", noun: "User" },
  recommend: { path: "/v1/recommend", noun: "User" },
  multitask: { path: "/v1/predict", noun: "Task" },
};

async function begin() {
  let model;
  try {
    model = await call("GET", "v1/model");
  } catch (error) {
    $("about").textContent = error.message;
    $("token-form").hidden = error.status !== 401 && error.status !== 403;
    return;
  }
  state.model = model;
  $("token-form").hidden = true;
  const parts = [model.task, model.learner, "rank " + model.rank, model.rows.toLocaleString("en") + " rows"];
  if (model.index !== "exact") parts.push("index with recall " + model.recall.toFixed(2));
  if (!model.learning) parts.push("does not learn");
  $("about").textContent = parts.join(" · ");
  const task = TASKS[model.task];
  $("id-label").textContent = task.noun;
  const modes = [["id", task.noun]];
  const ofRows = ["similarity", "metric", "pairs", "ranking"].includes(model.task);
  if (model.drawings) modes.unshift(["draw", "Drawing"]);
  if (model.text) modes.unshift(["text", "Text"]);
  if (ofRows && !model.drawings) modes.push(["row", "Features"]);
  for (const [mode, name] of modes) {
    const radio = element("input", { type: "radio", name: "mode", value: mode });
    radio.addEventListener("change", () => choose(mode));
    $("modes").append(element("label", {}, radio, name));
  }
  $("modes").hidden = modes.length < 2;
  choose(modes[0][0]);
  $("map-section").hidden = !["similarity", "metric", "pairs", "completion", "recommend"].includes(model.task);
  suggest();
  watch();
}

function choose(mode) {
  state.mode = mode;
  const multitask = state.model.task === "multitask";
  for (const radio of document.querySelectorAll("input[name=mode]")) radio.checked = radio.value === mode;
  $("by-id").hidden = mode !== "id";
  $("by-text").hidden = mode !== "text";
  $("by-row").hidden = mode !== "row" && !multitask;
  $("by-draw").hidden = mode !== "draw";
  $("by-task").hidden = !multitask || !state.model.learning;
}

async function suggest() {
  const prefix = encodeURIComponent($("id").value);
  const found = await call("GET", "v1/rows?limit=20&prefix=" + prefix).catch(() => ({ rows: [] }));
  $("ids").replaceChildren(...found.rows.map((row) => {
    const about = [row.title, row.label].filter(Boolean).join(", ");
    return element("option", about ? { value: row.id, label: about } : { value: row.id });
  }));
  if (!$("id").value && found.rows.length) $("id").placeholder = found.rows[0].id;
}

// ---- Asking.

function question() {
  const task = state.model.task;
  if (task === "completion" || task === "recommend") {
    const user = $("id").value || $("id").placeholder;
    return { ask: { user }, ref: user, name: user };
  }
  if (state.mode === "text") {
    return { ask: { text: $("text").value }, ref: null, name: "the text" };
  }
  if (state.mode === "draw") {
    const stroke = drawn();
    if (!stroke) throw new Error("Draw a digit first.");
    return { ask: { stroke }, ref: null, name: "the drawing" };
  }
  if (state.mode === "row") {
    const row = JSON.parse($("row").value);
    return { ask: { row }, ref: row, name: "the row" };
  }
  const id = $("id").value || $("id").placeholder;
  return { ask: { id }, ref: id, name: id };
}

async function fetchResults(query, after) {
  const ask = Object.assign({ k: Number($("k").value) || 8 }, query.ask);
  if (after !== undefined) ask.after = after;
  const found = await call("POST", TASKS[state.model.task].path.slice(1), ask);
  if (query.ref === null && found.row) query.ref = found.row;
  return found.results;
}

async function search(event) {
  event.preventDefault();
  try {
    if (state.model.task === "multitask") return await predictTarget();
    const query = question();
    const results = await fetchResults(query);
    Object.assign(state, { query, before: results, after: null, marks: new Map() });
    show();
    say(results.length ? results.length + " results for " + query.name + "." : "Nothing was found.");
    $("results").focus({ preventScroll: true });
  } catch (error) {
    say(error instanceof SyntaxError ? "The features are not JSON: " + error.message : error.message, true);
  }
}

async function predictTarget() {
  const task = $("id").value || $("id").placeholder;
  const row = JSON.parse($("row").value || "{}");
  const before = (await call("POST", "v1/predict", { inputs: [{ task, row }] })).results[0];
  state.before = [{ id: "Predicted for " + task, score: before.score }];
  state.after = null;
  const target = $("target").value.trim();
  if (target) {
    const taught = await call("POST", "v1/feedback", { task, row, target: Number(target) });
    const after = await call("POST", "v1/predict", { inputs: [{ task, row }], after: taught.sequence });
    state.after = [{ id: "Predicted for " + task, score: after.results[0].score }];
  }
  state.query = { name: task };
  show();
  say(target ? "Learned." : "Predicted.");
}

// ---- Teaching.

// What a click on a card teaches; nothing where the task has no such example.
function lesson(card, liked) {
  const { task, scale } = state.model;
  const query = state.query.ref;
  if (task === "completion") {
    const [low, high] = scale || [0, 1];
    return { user: query, item: card.id, rating: liked ? high : low };
  }
  if (task === "recommend") return liked ? { user: query, item: card.id } : null;
  if (query === null || query === undefined) return null;
  if (task === "ranking") return liked ? { row: query, labels: [card.id] } : null;
  if (task === "metric") return { left: query, right: card.id, same: liked };
  const list = state.after || state.before;
  if (task === "pairs") {
    const scores = list.map((one) => one.score);
    const spread = (Math.max(...scores) - Math.min(...scores)) || 1;
    return { left: query, right: card.id, value: card.score + (liked ? spread : -spread) };
  }
  const others = list.filter((one) => one.id !== card.id && state.marks.get(one.id) !== liked);
  if (!others.length) return null;
  // What is liked belongs above the best of the list, what is refused below the worst of it.
  return liked
    ? { query, positive: card.id, negative: others[0].id }
    : { query, positive: others[others.length - 1].id, negative: card.id };
}

function canTeach(liked) {
  if (!state.model.learning || !state.query) return false;
  return liked || !["ranking", "recommend", "multitask"].includes(state.model.task);
}

async function teach(card, liked) {
  const example = lesson(card, liked);
  if (!example) return say("There is nothing to compare it with: ask for more results.", true);
  try {
    const taught = await call("POST", "v1/feedback", example);
    state.marks.set(card.id, liked);
    const after = await fetchResults(state.query, taught.sequence);
    if (state.after) state.before = state.after;
    state.after = after;
    show();
    const place = after.findIndex((one) => one.id === card.id);
    const where = place < 0 ? "left the list" : "is now number " + (place + 1);
    say("Learned example " + taught.sequence + ": " + title(card) + " " + where + ".");
    poll();
    const list = $("after").querySelectorAll(".card");
    const again = list[Math.max(place, 0)];
    if (again && again.querySelector("button")) again.querySelector("button").focus();
  } catch (error) {
    say(error.message, true);
  }
}

async function undo() {
  $("undo").disabled = true;
  try {
    const undone = await call("POST", "v1/undo", {});
    await seen(undone.sequence);
    if (state.query && state.query.ask) {
      state.before = state.after || state.before;
      state.after = await fetchResults(state.query);
      state.marks = new Map();
      show();
    }
    say("Undone: the model is that of example " + undone.sequence + ".");
  } catch (error) {
    say(error.message, true);
  }
  poll();
}

// Waits until answers come from the model of this sequence.
async function seen(sequence) {
  for (let i = 0; i < 40; i++) {
    const status = await call("GET", "v1/status");
    if (status.visible_sequence === sequence) return;
    await new Promise((done) => setTimeout(done, 50));
  }
}

// ---- Results.

const title = (card) => card.title || card.id;

function stroke(points) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "-8 -8 116 116");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(svg.namespaceURI, "path");
  let d = "";
  for (let i = 0; i < points.length; i += 2) d += (i ? "L" : "M") + points[i] + " " + (100 - points[i + 1]);
  path.setAttribute("d", d);
  const dot = document.createElementNS(svg.namespaceURI, "circle");
  dot.setAttribute("cx", points[0]);
  dot.setAttribute("cy", 100 - points[1]);
  dot.setAttribute("r", 6);
  svg.append(path, dot);
  return svg;
}

function cardOf(card, place, list, teaches, old) {
  const head = element("div", { class: "head" }, element("span", { class: "place" }, place + 1 + "."));
  if (card.stroke) head.append(stroke(card.stroke));
  head.append(element("span", { class: "name" }, title(card)));
  if (card.label !== undefined) head.append(element("span", { class: "tag" }, card.label));
  if (old) {
    const was = old.findIndex((one) => one.id === card.id);
    const by = was - place;
    if (was < 0) head.append(element("span", { class: "moved up" }, "new"));
    else if (by) {
      const arrow = by > 0 ? "▲ " + by : "▼ " + -by;
      const words = "moved " + (by > 0 ? "up " : "down ") + Math.abs(by);
      head.append(element("span", { class: "moved " + (by > 0 ? "up" : "down"), "aria-label": words, role: "img" }, arrow));
    }
  }
  const sd = card.sd === undefined ? "" : " ± " + short(card.sd);
  const name = state.model.score === "distance" ? "distance " : "score ";
  const node = element("li", { class: "card" }, head, meter(card, list),
    element("div", { class: "score" }, name + short(card.score) + sd));
  const mark = state.marks.get(card.id);
  if (mark !== undefined) node.classList.add(mark ? "taught" : "refused");
  if (teaches && canTeach(true)) {
    const row = element("div", { class: "teach" });
    for (const [liked, words] of [[true, "More like this"], [false, "Not this"]]) {
      if (!canTeach(liked)) continue;
      const button = element("button", { type: "button", "aria-label": words + ": " + title(card) }, words);
      button.addEventListener("click", () => teach(card, liked));
      row.append(button);
    }
    node.append(row);
  }
  return node;
}

function meter(card, list) {
  const scores = list.map((one) => one.score);
  const low = Math.min(0, ...scores), high = Math.max(...scores, 1e-12);
  const part = (value) => 100 * Math.min(1, Math.max(0, (value - low) / (high - low)));
  const bar = element("span");
  bar.style.width = part(card.score) + "%";
  const node = element("div", { class: "meter", "aria-hidden": "true" }, bar);
  if (card.sd !== undefined) {
    const range = element("i");
    range.style.left = part(card.score - card.sd) + "%";
    range.style.right = 100 - part(card.score + card.sd) + "%";
    node.append(range);
  }
  return node;
}

function show() {
  const { before, after } = state;
  $("empty").hidden = true;
  $("before-title").textContent = after ? "Before" : "Now";
  $("before").replaceChildren(...before.map((card, i) => cardOf(card, i, before, !after)));
  $("after-side").hidden = !after;
  $("after").replaceChildren(...(after || []).map((card, i) => cardOf(card, i, after, true, before)));
  drawMap();
}

// ---- The live part.

function curve(points) {
  const svg = $("curve");
  const [w, h, left, bottom] = [320, 110, 34, 16];
  const ns = "http://www.w3.org/2000/svg";
  const add = (name, attributes, text) => {
    const node = document.createElementNS(ns, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    svg.append(node);
  };
  svg.replaceChildren();
  add("line", { x1: left, y1: h - bottom, x2: w, y2: h - bottom, class: "axis" });
  add("line", { x1: left, y1: 4, x2: left, y2: h - bottom, class: "axis" });
  if (!points.length) {
    add("text", { x: (w + left) / 2, y: h / 2, "text-anchor": "middle" }, "no feedback yet");
    return;
  }
  const most = Math.max(...points.map((p) => p.loss), 1e-9);
  const first = points[0].sequence, last = points[points.length - 1].sequence;
  const x = (s) => left + 4 + (w - left - 10) * (last > first ? (s - first) / (last - first) : 1);
  const y = (v) => h - bottom - (h - bottom - 8) * Math.min(1, v / most);
  const path = (value) => points.map((p, i) => (i ? "L" : "M") + x(p.sequence).toFixed(1) + " " + y(value(p, i)).toFixed(1)).join("");
  add("path", { d: path((p) => p.loss), class: "faint" });
  let mean = points[0].loss;
  const smooth = points.map((p) => (mean += (p.loss - mean) * 0.15));
  add("path", { d: path((p, i) => smooth[i]), class: "line" });
  if (points.length === 1) add("circle", { cx: x(last), cy: y(points[0].loss), r: 3, fill: "currentColor" });
  add("text", { x: left - 4, y: 12, "text-anchor": "end" }, short(most));
  add("text", { x: left - 4, y: h - bottom, "text-anchor": "end" }, "0");
  add("text", { x: left, y: h - 3 }, first);
  add("text", { x: w - 2, y: h - 3, "text-anchor": "end" }, last + " examples");
  svg.setAttribute("aria-label", "Progressive error, now " + short(smooth[smooth.length - 1]) + ", of " + last + " examples");
}

let polling = false;
async function poll() {
  if (polling) return;
  polling = true;
  try {
    const status = await call("GET", "v1/status");
    $("sequence").textContent = status.sequence.toLocaleString("en");
    $("rate").textContent = status.feedback_per_second.toFixed(1);
    $("lag").textContent = status.visible_after_ms ? Math.round(status.visible_after_ms) + " ms" : "–";
    $("undo").disabled = !state.model.learning || status.sequence === 0;
    curve(status.curve);
    if (status.visible_sequence !== state.seen && !$("map-section").hidden) {
      state.seen = status.visible_sequence;
      await loadMap();
    }
  } catch (error) {
    $("about").textContent = "The service does not answer: " + error.message;
  }
  polling = false;
}

function watch() {
  poll();
  setInterval(() => { if (!document.hidden) poll(); }, 1000);
}

// ---- The map.

const HUES = [211, 28, 145, 351, 265, 52, 185, 320, 95, 0]; // the last one is gray
const dark = () => matchMedia("(prefers-color-scheme: dark)").matches;
function color(label) {
  const labels = state.labels || [];
  const at = labels.indexOf(label);
  if (at === 9) return dark() ? "hsl(0 0% 75%)" : "hsl(0 0% 38%)";
  if (at < 0) return dark() ? "hsl(211 20% 60%)" : "hsl(211 20% 50%)";
  return "hsl(" + HUES[at % HUES.length] + (dark() ? " 75% 68%)" : " 65% 42%)");
}

// Turns and mirrors a map so that it lies on the one before: directions mean nothing.
function aligned(points, old) {
  const places = new Map(old.map((p) => [p.id, p]));
  let best = null;
  for (const mirror of [1, -1]) {
    let dot = 0, cross = 0;
    for (const p of points) {
      const o = places.get(p.id);
      if (!o) continue;
      const y = mirror * p.y;
      dot += p.x * o.x + y * o.y;
      cross += p.x * o.y - y * o.x;
    }
    const size = Math.hypot(dot, cross);
    if (!best || size > best.size) best = { size, mirror, angle: Math.atan2(cross, dot) };
  }
  const [c, s] = [Math.cos(best.angle), Math.sin(best.angle)];
  return points.map((p) => Object.assign({}, p, { x: c * p.x - s * best.mirror * p.y, y: s * p.x + c * best.mirror * p.y }));
}

async function loadMap() {
  let found;
  try {
    found = await call("GET", "v1/map?limit=600");
  } catch (error) {
    $("map-section").hidden = true;
    return;
  }
  let points = found.points;
  if (!points.length) return;
  const labels = [...new Set(points.map((p) => p.label).filter((l) => l !== undefined))].sort();
  state.labels = labels.length <= HUES.length ? labels : [];
  if (state.map) points = aligned(points, state.map.points);
  const from = state.map ? new Map(state.map.points.map((p) => [p.id, p])) : new Map();
  state.map = { points, from, start: performance.now() };
  $("legend").replaceChildren(...state.labels.map((label) => {
    const dot = element("canvas", { width: 12, height: 12, "aria-hidden": "true" });
    const pen = dot.getContext("2d");
    pen.fillStyle = color(label);
    pen.fillRect(0, 0, 12, 12);
    return element("li", {}, dot, label);
  }));
  $("map").setAttribute("aria-label", "Map of " + points.length + " rows after " + found.sequence + " examples");
  const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
  const step = () => {
    if (!drawMap(still) && !document.hidden) requestAnimationFrame(step);
  };
  step();
}

// Draws the map on its way from the old places to the new; true at the end of the way.
function drawMap(still) {
  if (!state.map) return true;
  const { points, from, start } = state.map;
  const canvas = $("map"), pen = canvas.getContext("2d");
  const t = still ? 1 : Math.min(1, (performance.now() - start) / 700);
  const ease = t * t * (3 - 2 * t);
  const size = Math.max(...points.map((p) => Math.max(Math.abs(p.x) / 1.45, Math.abs(p.y))), 1e-9);
  const [w, h] = [canvas.width, canvas.height];
  const scale = (h / 2 - 24) / size;
  const found = new Set((state.after || state.before).map((one) => one.id));
  const asked = state.query && typeof state.query.ref === "string" ? state.query.ref : null;
  pen.clearRect(0, 0, w, h);
  const place = (p) => {
    const old = from.get(p.id) || p;
    return [w / 2 + scale * (old.x + (p.x - old.x) * ease), h / 2 - scale * (old.y + (p.y - old.y) * ease)];
  };
  pen.globalAlpha = 0.75;
  for (const p of points) {
    const [x, y] = place(p);
    pen.fillStyle = color(p.label);
    pen.beginPath();
    pen.arc(x, y, 5, 0, 7);
    pen.fill();
  }
  pen.globalAlpha = 1;
  pen.lineWidth = 3;
  pen.strokeStyle = dark() ? "#fff" : "#000";
  for (const p of points) {
    if (!found.has(p.id) && p.id !== asked) continue;
    const [x, y] = place(p);
    pen.beginPath();
    pen.arc(x, y, p.id === asked ? 12 : 8, 0, 7);
    pen.stroke();
  }
  return t >= 1;
}

// ---- Drawing a digit.

const pad = { path: [], down: false };

function penColor() {
  return getComputedStyle(document.body).color;
}

function padPoint(event) {
  const canvas = $("pad"), box = canvas.getBoundingClientRect();
  return [(event.clientX - box.left) * canvas.width / box.width, (event.clientY - box.top) * canvas.height / box.height];
}

function drawPad() {
  const canvas = $("pad"), pen = canvas.getContext("2d");
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.lineWidth = 22;
  pen.lineCap = pen.lineJoin = "round";
  pen.strokeStyle = penColor();
  pen.beginPath();
  pad.path.forEach(([x, y], i) => (i ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.stroke();
}

// Eight positions at equal distances along the path, in a box from 0 to 100, y upwards.
function drawn() {
  const path = pad.path;
  let length = 0;
  const along = path.map((p, i) => (i ? (length += Math.hypot(p[0] - path[i - 1][0], p[1] - path[i - 1][1])) : 0));
  if (path.length < 2 || length < 40) return null;
  const points = [];
  for (let i = 0, at = 0; i < 8; i++) {
    const want = (length * i) / 7;
    while (at < path.length - 2 && along[at + 1] < want) at++;
    const part = (want - along[at]) / Math.max(along[at + 1] - along[at], 1e-9);
    points.push(path[at].map((v, j) => v + (path[at + 1][j] - v) * Math.min(1, Math.max(0, part))));
  }
  const xs = points.map((p) => p[0]), ys = points.map((p) => -p[1]);
  const [x0, y0] = [Math.min(...xs), Math.min(...ys)];
  const high = Math.max(...ys) - y0, wide = Math.max(...xs) - x0;
  const size = Math.max(high, wide, 1e-9);
  // The longer side fills the box, as in the data; the other keeps its share.
  const shift = (100 - (100 * wide) / size) / 2;
  return points.flatMap((p, i) => [shift + (100 * (xs[i] - x0)) / size, (100 * (ys[i] - y0)) / size]);
}

$("pad").addEventListener("pointerdown", (event) => {
  $("pad").setPointerCapture(event.pointerId);
  pad.down = true;
  pad.path = [padPoint(event)];
  drawPad();
  event.preventDefault();
});
$("pad").addEventListener("pointermove", (event) => {
  if (!pad.down) return;
  pad.path.push(padPoint(event));
  drawPad();
});
$("pad").addEventListener("pointerup", () => {
  pad.down = false;
  if (drawn()) $("search").requestSubmit();
});
$("clear").addEventListener("click", () => {
  pad.path = [];
  drawPad();
});

$("search").addEventListener("submit", search);
$("undo").addEventListener("click", undo);
$("id").addEventListener("input", suggest);
$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem("rankfold-token", $("token").value);
  begin();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { drawPad(); state.seen = -1; });
begin();
