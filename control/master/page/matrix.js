// SPDX-License-Identifier: Apache-2.0
// The matrix of delays: a point is a link, a row the one that sends or is waited for, a column the one that receives or
// waits. So a rank that is late makes a row, one that takes late a column.
import {bySize} from "./picture.js";
import {bytes, colour, element, hint, plural, prepare, time} from "./words.js";

const LOOKS = 60, HIGHEST = 14, LEFT = 64, TOP = 34, STRIP = 12, GAP = 6, MOST = 760;
const SCALES = {
  light: ["#cfe0f0", "#9ecae1", "#4292c6", "#08519c", "#041f45"],
  dark: ["#2b4257", "#2a5f8f", "#3d8fbe", "#8fd0e0", "#f6fcff"],
};

// ---- What is drawn

// The process that each waits for, whatever the communicator: rows of numbers.
function nextOf(picture) {
  const next = new Map();
  for (const comm of picture.comms) {
    const places = new Map(comm.members.map((member) => [member.rank, member.process]));
    for (const {process, op} of comm.members) {
      const other = op && op.awaited >= 0 ? places.get(op.awaited) : undefined;
      if (other !== undefined && other !== process && !next.has(process)) {
        next.set(process, other);
      }
    }
  }
  return next;
}

// The process that each waits for in the end: one that is waited for may wait itself. In a circle, the neighbour.
function endsOf(picture) {
  const next = nextOf(picture), known = new Map();
  for (const start of next.keys()) {
    const path = new Set();
    let at = start;
    while (next.has(at) && !known.has(at) && !path.has(at)) {
      path.add(at);
      at = next.get(at);
    }
    const end = path.has(at) ? null : known.has(at) ? known.get(at) : at;
    path.forEach((one) => known.set(one, end));
  }
  return new Map([...next].map(([one, neighbour]) => [one, known.get(one) ?? neighbour]));
}

// Of the latest looks, in how many a rank waited for another.
function noteWaits(view, picture) {
  const ends = endsOf(picture);
  for (const comm of picture.comms) {
    let seen = view.seen.get(comm.id);
    if (!seen) {
      view.seen.set(comm.id, seen = {looks: [], counts: new Map()});
    }
    const places = new Map(comm.members.map((member) => [member.process, member.rank]));
    const look = comm.members.filter((member) => places.has(ends.get(member.process)))
      .map((member) => places.get(ends.get(member.process)) * comm.ranks + member.rank);
    look.forEach((key) => seen.counts.set(key, (seen.counts.get(key) ?? 0) + 1));
    seen.looks.push(look);
    for (const key of seen.looks.length > LOOKS ? seen.looks.shift() : []) {
      const left = seen.counts.get(key) - 1;
      left ? seen.counts.set(key, left) : seen.counts.delete(key);
    }
  }
  const known = new Set(picture.comms.map((comm) => comm.id));
  [...view.seen.keys()].filter((id) => !known.has(id)).forEach((id) => view.seen.delete(id));
}

function waitCells(view, comm) {
  const seen = view.seen.get(comm.id), looks = seen?.looks.length ?? 0;
  return [...seen?.counts ?? []].map(([key, count]) => ({
    from: Math.floor(key / comm.ranks), to: key % comm.ranks, value: count / looks, level: count / looks,
    slow: view.blamed.has(Math.floor(key / comm.ranks)),
    text: `waited in ${count} of the last ${plural(looks, "look")}`,
  }));
}

function messageCells(comm) {
  const values = comm.delays.map((cell) => cell[2]), low = Math.max(1e-9, Math.min(...values)), high = Math.max(...values);
  return comm.delays.map(([from, to, value, count, slow]) => ({
    from, to, value, slow: slow === 1, level: high > low ? Math.log(Math.max(value, low) / low) / Math.log(high / low) : 0.4,
    text: `median ${time(value)} of ${plural(count, "message")} of ${bytes(comm.bytes)}` +
      (slow ? `: slow, the median of all is ${time(comm.median)}` : ""),
  }));
}

// ---- Drawing

function scale() {
  const stops = SCALES[matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light"]
    .map((text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16)));
  return (level) => {
    const place = Math.max(0, Math.min(1, level)) * (stops.length - 1), at = Math.min(stops.length - 2, Math.floor(place));
    return `rgb(${stops[at].map((from, i) => Math.round(from + (stops[at + 1][i] - from) * (place - at))).join(",")})`;
  };
}

function stepOf(pixels) {
  for (let step = 1; ; step *= 10) {
    for (const times of [1, 2, 5]) {
      if (step * times * pixels >= 34) {
        return step * times;
      }
    }
  }
}

function drawAxes(view, context, comm) {
  const {size, x, y, side} = view, step = stepOf(side);
  context.fillStyle = colour("soft");
  context.strokeStyle = colour("line");
  context.textBaseline = "middle";
  for (let rank = 0; rank < comm.ranks; rank += step) {
    const across = (rank - x + 0.5) * side, down = (rank - y + 0.5) * side;
    context.textAlign = "center";
    if (across >= 0 && across <= size) {
      context.fillText(rank, LEFT + across, TOP - 9);
    }
    context.textAlign = "right";
    if (down >= 0 && down <= size) {
      context.fillText(rank, LEFT - 7, TOP + down);
    }
  }
  context.textAlign = "left";
  context.fillText(view.mode.value === "waits" ? "who waits →" : "receives →", LEFT, 9);
  context.save();
  context.translate(9, TOP + size);
  context.rotate(-Math.PI / 2);
  context.fillText(view.mode.value === "waits" ? "who is waited for →" : "sends →", 0, 0);
  context.restore();
  context.strokeRect(LEFT - 0.5, TOP - 0.5, size + 1, size + 1);
}

// At the ends of rows and columns: the highest in each, so that a single point in a large matrix is found.
function drawEnds(view, context, paint) {
  const {size, x, y, side} = view, rows = new Map(), columns = new Map();
  for (const cell of view.cells) {
    rows.set(cell.from, Math.max(rows.get(cell.from) ?? 0, cell.level));
    columns.set(cell.to, Math.max(columns.get(cell.to) ?? 0, cell.level));
  }
  const thick = Math.max(side, 2);
  for (const [rank, level] of [...rows].sort((a, b) => a[1] - b[1])) {
    context.fillStyle = paint(level);
    context.fillRect(LEFT + size + GAP, TOP + (rank - y) * side, STRIP, thick);
  }
  for (const [rank, level] of [...columns].sort((a, b) => a[1] - b[1])) {
    context.fillStyle = paint(level);
    context.fillRect(LEFT + (rank - x) * side, TOP + size + GAP, thick, STRIP);
  }
}

function drawCells(view, context, paint) {
  const {x, y, side} = view, thick = Math.max(side, 2);
  for (const cell of view.cells) {
    context.fillStyle = paint(cell.level);
    context.fillRect(LEFT + (cell.to - x) * side, TOP + (cell.from - y) * side, thick, thick);
  }
  context.strokeStyle = colour("late");
  context.lineWidth = 2;
  for (const cell of view.cells.filter((one) => one.slow)) {
    context.strokeRect(LEFT + (cell.to - x) * side, TOP + (cell.from - y) * side, thick, thick);
  }
  context.lineWidth = 1;
}

function drawCursor(view, context) {
  if (!view.cursor || document.activeElement !== view.canvas) {
    return;
  }
  context.strokeStyle = colour("focus");
  context.lineWidth = 2;
  context.strokeRect(LEFT + (view.cursor.to - view.x) * view.side - 2, TOP + (view.cursor.from - view.y) * view.side - 2,
    Math.max(view.side, 2) + 4, Math.max(view.side, 2) + 4);
  context.lineWidth = 1;
}

function clip(context, x, y, wide, high, draw) {
  context.save();
  context.beginPath();
  context.rect(x, y, wide, high);
  context.clip();
  draw();
  context.restore();
}

// What is seen is a part of the whole that has the whole's form.
function settle(view, comm) {
  view.side = view.size / comm.ranks * view.zoom;
  const most = comm.ranks - comm.ranks / view.zoom;
  view.x = Math.max(0, Math.min(most, view.x));
  view.y = Math.max(0, Math.min(most, view.y));
}

function draw(view) {
  const comm = view.comm;
  if (!comm) {
    return;
  }
  const width = Math.min(view.canvas.parentElement.clientWidth, MOST + LEFT + GAP + STRIP + 8);
  view.size = Math.max(160, Math.min(MOST, width - LEFT - GAP - STRIP - 8, innerHeight - 130));
  const [context] = prepare(view.canvas, TOP + view.size + GAP + STRIP + 6), paint = scale();
  settle(view, comm);
  context.fillStyle = colour("ground");
  context.fillRect(LEFT, TOP, view.size, view.size);
  clip(context, LEFT, TOP, view.size, view.size, () => drawCells(view, context, paint));
  clip(context, LEFT, TOP, view.size + GAP + STRIP, view.size + GAP + STRIP, () => drawEnds(view, context, paint));
  drawAxes(view, context, comm);
  drawCursor(view, context);
}

function drawLegend(view) {
  const [context, width] = prepare(view.bar, 30), paint = scale();
  const values = view.cells.map((cell) => cell.value);
  for (let i = 0; i < width; i++) {
    context.fillStyle = paint(i / width);
    context.fillRect(i, 0, 1, 10);
  }
  context.fillStyle = colour("soft");
  context.textBaseline = "top";
  context.textAlign = "left";
  const waits = view.mode.value === "waits";
  context.fillText(waits ? "0 % of looks" : values.length ? time(Math.min(...values)) : "", 0, 14);
  context.textAlign = "right";
  context.fillText(waits ? "100 %" : values.length ? time(Math.max(...values)) : "", width, 14);
}

// ---- Hands

// The highest cells in words, for those who do not see the drawing, or have no pointer.
function list(view) {
  const waits = view.mode.value === "waits";
  const blamed = (cell) => waits && view.blamed.has(cell.from);
  const highest = [...view.cells].sort((a, b) => blamed(b) - blamed(a) || b.value - a.value || a.from - b.from || a.to - b.to)
    .slice(0, HIGHEST);
  const rows = highest.map((cell) => element("tr", {}, element("td", {}, String(waits ? cell.to : cell.from)),
    element("td", {}, String(waits ? cell.from : cell.to) + (blamed(cell) ? ", to blame" : "")),
    element("td", {}, waits ? `${Math.round(100 * cell.value)} %` : time(cell.value) + (cell.slow ? ", slow" : ""))));
  const words = waits ? ["Rank", "waits for", "share of looks"] : ["From", "to", "takes"];
  const looks = waits ? ` in ${plural(view.seen.get(view.comm?.id)?.looks.length ?? 0, "look")}` : "";
  view.list.replaceChildren(...(rows.length ? [element("h2", {}, `The highest of ${plural(view.cells.length, "cell")}${looks}`),
    element("table", {}, element("tr", {}, ...words.map((word) => element("th", {}, word))), ...rows)] : []));
}

function textOf(view, from, to) {
  const cell = view.cells.find((one) => one.from === from && one.to === to), waits = view.mode.value === "waits";
  const link = waits ? `rank ${to} for rank ${from}: ` : `from rank ${from} to rank ${to}: `;
  return link + (cell ? cell.text : waits ? "did not wait in any look" : "no messages to compare");
}

function under(view, event) {
  const box = view.canvas.getBoundingClientRect();
  const to = (event.clientX - box.left - LEFT) / view.side + view.x, from = (event.clientY - box.top - TOP) / view.side + view.y;
  const inside = view.comm && to >= 0 && from >= 0 && to < view.comm.ranks && from < view.comm.ranks &&
    event.clientX - box.left < LEFT + view.size && event.clientY - box.top < TOP + view.size;
  return inside ? {from, to} : null;
}

// Where cells are small, the highest one near by.
function near(view, place) {
  const exact = {from: Math.floor(place.from), to: Math.floor(place.to)}, reach = 3 / view.side;
  const around = view.side >= 4 ? [] : view.cells.filter((cell) =>
    Math.abs(cell.from + 0.5 - place.from) < reach && Math.abs(cell.to + 0.5 - place.to) < reach);
  return around.reduce((best, cell) => cell.level > (best.level ?? -1) ? cell : best, exact);
}

function zoom(view, times, place) {
  const at = place ?? {from: view.y + view.comm.ranks / view.zoom / 2, to: view.x + view.comm.ranks / view.zoom / 2};
  const next = Math.max(1, Math.min(Math.max(1, view.comm.ranks / 4), view.zoom * times)), part = view.zoom / next;
  view.x = at.to - (at.to - view.x) * part;
  view.y = at.from - (at.from - view.y) * part;
  view.zoom = next;
  draw(view);
}

function follow(view) {
  const seen = view.comm.ranks / view.zoom, {from, to} = view.cursor;
  view.x = to < view.x ? to : to + 1 > view.x + seen ? to + 1 - seen : view.x;
  view.y = from < view.y ? from : from + 1 > view.y + seen ? from + 1 - seen : view.y;
}

function press(view, event) {
  const moves = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[event.key];
  const times = {"+": 1.5, "=": 1.5, "-": 1 / 1.5, 0: 1e-9}[event.key];
  if (!view.comm || !(moves || times)) {
    return;
  }
  event.preventDefault();
  const middle = {from: Math.floor(view.y + view.comm.ranks / view.zoom / 2), to: Math.floor(view.x + view.comm.ranks / view.zoom / 2)};
  view.cursor ??= middle;
  if (moves) {
    const keep = (rank) => Math.max(0, Math.min(view.comm.ranks - 1, rank)), far = event.shiftKey ? 10 : 1;
    view.cursor = {from: keep(view.cursor.from + moves[0] * far), to: keep(view.cursor.to + moves[1] * far)};
    follow(view);
    view.status.textContent = textOf(view, view.cursor.from, view.cursor.to);
  }
  zoom(view, times ?? 1, {from: view.cursor.from + 0.5, to: view.cursor.to + 0.5});
}

function listen(view) {
  let held = null;
  const canvas = view.canvas;
  canvas.addEventListener("wheel", (event) => {
    const place = under(view, event);
    if (place) {
      event.preventDefault();
      zoom(view, event.deltaY < 0 ? 1.25 : 0.8, place);
    }
  }, {passive: false});
  canvas.addEventListener("pointerdown", (event) => {
    held = {x: event.clientX, y: event.clientY};
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointerup", () => {
    held = null;
  });
  canvas.addEventListener("pointermove", (event) => {
    if (held) {
      view.x -= (event.clientX - held.x) / view.side;
      view.y -= (event.clientY - held.y) / view.side;
      held = {x: event.clientX, y: event.clientY};
      draw(view);
    }
    const place = under(view, event), cell = place && near(view, place);
    hint(event, cell && !held ? textOf(view, cell.from, cell.to) : "");
  });
  canvas.addEventListener("pointerleave", (event) => hint(event, ""));
  canvas.addEventListener("keydown", (event) => press(view, event));
  canvas.addEventListener("focus", () => draw(view));
  canvas.addEventListener("blur", () => draw(view));
}

// ---- The view

// The list of communicators stays as it is while it holds the same.
export function offer(select, comms) {
  const order = comms.map((comm) => `${comm.id} ${comm.name}`).join("\n");
  if (select.order !== order) {
    const chosen = select.value;
    select.order = order;
    select.replaceChildren(...comms.map((comm) =>
      element("option", {value: comm.id}, `${comm.name} (${plural(comm.ranks, "rank")})`)));
    select.value = comms.some((comm) => comm.id === chosen) ? chosen : comms[0]?.id;
  }
  return comms.find((comm) => comm.id === select.value);
}

export function makeMatrix(page) {
  const view = {id: "delays", title: "Delays", seen: new Map(), cells: [], blamed: new Set(), zoom: 1, x: 0, y: 0};
  view.select = element("select", {onchange: () => (Object.assign(view, {zoom: 1, cursor: null}), view.show(page.picture))});
  view.mode = element("select", {onchange: () => view.show(page.picture)},
    element("option", {value: "waits"}, "who waits for whom in the end, last minute"),
    element("option", {value: "messages"}, "how long messages take"));
  view.bar = element("canvas");
  view.canvas = element("canvas", {tabIndex: 0});
  view.canvas.setAttribute("role", "img");
  view.list = element("div", {className: "side"});
  view.status = element("p", {className: "note"});
  view.status.setAttribute("role", "status");
  view.panel = element("section", {},
    element("div", {className: "bar"}, element("label", {}, "Communicator ", view.select), element("label", {}, "Show ", view.mode),
      element("button", {onclick: () => view.comm && zoom(view, 1.5)}, "+"),
      element("button", {onclick: () => view.comm && zoom(view, 1 / 1.5)}, "−"),
      element("button", {onclick: () => view.comm && zoom(view, 1e-9)}, "All"),
      element("span", {className: "legend"}, view.bar)),
    element("div", {className: "beside"}, element("div", {className: "drawing"}, view.canvas), view.list), view.status,
    element("p", {className: "note"}, "Wheel, + and − zoom; drag moves; arrows go from cell to cell (with Shift by ten), 0 shows all. " +
      "The strips at the right and below hold the highest of each row and column. Frames: slow links, or the rows of those who are to blame."));
  listen(view);
  view.note = (picture) => noteWaits(view, picture);
  view.show = (picture) => {
    view.comm = offer(view.select, bySize(picture.comms));
    view.blamed = new Set(view.comm?.members.filter((member) => picture.processes[member.process]?.blamed)
      .map((member) => member.rank));
    view.cells = !view.comm ? [] : view.mode.value === "waits" ? waitCells(view, view.comm) : messageCells(view.comm);
    const most = view.cells.reduce((a, b) => !a || b.slow - a.slow > 0 || (b.slow === a.slow && b.value > a.value) ? b : a, null);
    const text = !view.comm ? "There is no communicator." : !most ? view.mode.value === "waits" ? "Nobody waited in any look."
      : "No rank has received as many messages of one size from another as can be compared." :
      `Highest of ${plural(view.cells.length, "cell")}: ${textOf(view, most.from, most.to)}`;
    view.canvas.setAttribute("aria-label", text);
    view.status.textContent = view.cursor ? textOf(view, view.cursor.from, view.cursor.to) : text;
    list(view);
    draw(view);
    drawLegend(view);
  };
  return view;
}
