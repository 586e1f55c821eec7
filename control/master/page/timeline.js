// SPDX-License-Identifier: Apache-2.0
// The latest calls of a communicator, a row for each rank, on one axis of time. Close by, a call shows the rounds in which
// it was seen to wait, and a row what has happened to lanes.
import {bySize} from "./picture.js";
import {offer} from "./matrix.js";
import {bytes, colour, element, hint, plural, prepare, time} from "./words.js";

const LEFT = 78, TOP = 26, HIGH = 560, LOOKS = 120, ROUNDS_PX = 46, AGAIN_MS = 1000, AGAIN_MANY_MS = 3000, HELD_BELOW = 3, LANE_HIGH = 20;
const COLOURS = ["#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#76b7b2", "#9c755f", "#86bcb6", "#edc948", "#ff9da7", "#bab0ac",
  "#499894", "#d37295", "#8cd17d"];

// ---- What there is

function understand(answer, collectives) {
  const members = answer.members.map((member) => ({...member,
    calls: member.calls.map(([kind, seq, state, begin, end, size, since, awaited, round, rounds, slice, slices]) => ({
      kind, name: collectives[kind] ?? "?", seq, state, begin: begin ?? 0, end, size, since, awaited, round: round + 1, rounds,
      slice: slice + 1, slices})),
    events: member.events.map(([name, at, lane, peer, value]) => ({name, at, lane, peer, value}))}));
  return {time: answer.time, members: members.sort((a, b) => a.rank - b.rank)};
}

// In which round each rank waited at each look, since the page is open: a call keeps only the latest.
function noteRounds(view, picture) {
  for (const comm of picture.comms) {
    for (const {rank, op} of comm.members) {
      if (op && op.awaited >= 0) {
        const key = `${comm.id} ${rank} ${op.seq} ${op.name}`, seen = view.rounds.get(key) ?? [];
        seen.push({at: picture.time, round: op.round, rounds: op.rounds, slice: op.slice, awaited: op.awaited});
        view.rounds.delete(key);
        view.rounds.set(key, seen.slice(-LOOKS));
      }
    }
  }
  for (const key of view.rounds.keys()) {  // those that were not seen for longest first
    if (view.rounds.size <= 4 * picture.processes.length + LOOKS) {
      break;
    }
    view.rounds.delete(key);
  }
}

// ---- The lanes of one rank

const STATUS = {1: "under way", 2: "landed", 3: "lost with its lane", 4: "given up"};

async function loadLanes(view, page) {
  const member = view.member;
  if (!member) {
    return;
  }
  const answer = await page.ask(`lanes/${encodeURIComponent(member.host)}/${member.process}`);
  view.lanes = {time: answer.time, lanes: answer.lanes.map((lane) => ({...lane,
    segments: lane.segments.map(([comm, seq, peer, round, slice, length, status, ready, credit, posted, completed]) =>
      ({comm, seq, peer, round: round + 1, slice: slice + 1, length, status, ready, credit, posted, completed}))}))};
}

async function load(view, page) {
  if (view.loading || !view.comm || view.paused && view.data?.id === view.comm.id && (!view.member || view.lanes?.lanes.length)) {
    return;
  }
  const comm = view.comm, many = comm.members.length > 256;
  if (view.data?.id === comm.id && Date.now() < view.loaded + (many ? AGAIN_MANY_MS : AGAIN_MS) * 0.9) {
    return;
  }
  view.loading = true;
  try {
    const held = view.paused && view.data?.id === comm.id;
    const data = held ? view.data : understand(await page.ask(`calls/${comm.id}`), view.collectives);
    await loadLanes(view, page);
    view.data = {...data, id: comm.id};
    view.loaded = Date.now();
    view.failed = "";
  } catch (error) {
    view.failed = error.message;
  }
  view.loading = false;
  draw(view);
}

// ---- Drawing

function settle(view) {
  const rows = Math.max(1, view.data.members.length);
  view.span = Math.max(1e-6, Math.min(600, view.span));
  view.end = Math.max(-600, Math.min(view.span * 0.9, view.end));
  view.tall = Math.min(HIGH / 4, Math.min(36, HIGH / rows) * view.zoom);
  view.top = Math.max(0, Math.min(rows - HIGH / view.tall, view.top));
}

function across(view, at) {
  return LEFT + (at - (view.end - view.span)) / view.span * view.width;
}

function drawAxis(view, context) {
  const steps = [1, 2, 5];
  let step = 1e-7;
  for (let i = 0; step * view.width / view.span < 90; i++) {
    step = 1e-7 * 10 ** Math.floor(i / 3) * steps[i % 3];
  }
  context.fillStyle = colour("soft");
  context.strokeStyle = colour("line");
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (let at = Math.ceil((view.end - view.span) / step) * step; at <= view.end; at += step) {
    const x = across(view, at), far = Math.abs(at) < step / 2 ? 0 : at;
    context.fillText(far === 0 ? "now" : `${far < 0 ? "−" : "+"}${label(Math.abs(far), step)}`, x, 12);
    context.beginPath();
    context.moveTo(x, TOP);
    context.lineTo(x, TOP + view.high);
    context.stroke();
  }
}

// As many digits as tell two neighbours apart.
function label(seconds, step) {
  const [times, unit] = step >= 0.1 ? [1, "s"] : step >= 1e-4 ? [1e3, "ms"] : [1e6, "µs"];
  return `${+(seconds * times).toFixed(2)} ${unit}`;
}

// A mark for each look; a word where it is another round, or another rank, than at the look before.
function drawRounds(view, context, member, call, y, high, from, to) {
  const seen = view.rounds.get(`${view.data.id} ${member.rank} ${call.seq} ${call.name}`) ?? [];
  let free = from, before = null;
  for (const look of seen) {
    const x = across(view, look.at - view.data.time), same = before?.round === look.round && before.awaited === look.awaited;
    before = look;
    if (x < from || x > to) {
      continue;
    }
    context.fillRect(x, same ? y + high * 0.75 : y, 1, same ? high * 0.25 : high);
    if (!same && x >= free && high >= 14) {
      const text = `round ${look.round}${look.rounds ? ` of ${look.rounds}` : ""} ← ${look.awaited}`;
      context.fillText(text, x + 4, y + high / 2);
      free = x + 12 + context.measureText(text).width;
    }
  }
}

function drawCall(view, context, member, call, y, high) {
  const end = call.end ?? 0, from = Math.max(LEFT, across(view, call.begin)), to = Math.min(LEFT + view.width, across(view, end));
  if (to < LEFT || from > LEFT + view.width) {
    return;
  }
  context.fillStyle = COLOURS[call.kind] ?? "#888888";
  context.globalAlpha = call.state === "queued" || call.state === "called" ? 0.4 : 1;
  context.fillRect(from, y, Math.max(1, to - from), high);
  context.globalAlpha = 1;
  if (call.end === null && call.since !== null) {
    const since = Math.max(from, across(view, call.since));
    context.fillStyle = view.waits;
    context.fillRect(since, y, Math.max(1, to - since), high);
  }
  context.textAlign = "left";
  if (to - from > ROUNDS_PX && high >= 9) {
    context.save();
    context.beginPath();
    context.rect(from, y, to - from, high);
    context.clip();
    context.fillStyle = call.end === null && call.since !== null ? view.ink : "#ffffff";
    if (high >= 14) {
      context.fillText(`${call.name} #${call.seq}`, from + 4, y + high / 2 - (high > 30 ? high / 4 : 0));
    }
    drawRounds(view, context, member, call, high > 30 ? y + high / 2 : y, high > 30 ? high / 2 : high,
      from + (high > 30 ? 0 : 110), to);
    context.restore();
  }
}

// A lane that came up or back, or is quick again, is no trouble.
const WELL = new Set(["lane_up", "lane_back", "lane_moved", "link_up", "lane_slow_over"]);

function drawEvents(view, context, member, y, high) {
  for (const event of member.events.filter((one) => one.lane >= 0)) {
    const x = across(view, event.at);
    context.fillStyle = colour(WELL.has(event.name) ? "fine" : "grave");
    if (x >= LEFT && x <= LEFT + view.width && high >= 5) {
      context.beginPath();
      context.moveTo(x - 4, y);
      context.lineTo(x + 4, y);
      context.lineTo(x, y + Math.min(8, high));
      context.fill();
    }
  }
}

function drawRows(view, context) {
  const every = Math.max(1, Math.ceil(13 / view.tall));
  view.data.members.forEach((member, row) => {
    const y = TOP + (row - view.top) * view.tall, high = Math.max(1, view.tall - (view.tall > 4 ? 2 : 0));
    if (y + high < TOP || y > TOP + view.high) {
      return;
    }
    if (row % every === 0 && y + 6 >= TOP) {
      context.fillStyle = colour("soft");
      context.textAlign = "right";
      context.fillText(`rank ${member.rank}`, LEFT - 8, y + high / 2);
    }
    member.calls.forEach((call) => drawCall(view, context, member, call, y, high));
    drawEvents(view, context, member, y, high);
  });
}

function draw(view) {
  if (!view.data || view.panel.hidden) {
    return;
  }
  const rows = view.data.members.length;
  settle(view);
  view.high = Math.min(HIGH, rows * view.tall);
  const [context, width] = prepare(view.canvas, TOP + view.high + 8);
  Object.assign(view, {waits: colour("waits"), ink: colour("ink")});
  view.width = width - LEFT - 10;
  drawAxis(view, context);
  context.save();
  context.beginPath();
  context.rect(0, TOP - 6, width, view.high + 10);
  context.clip();
  drawRows(view, context);
  context.restore();
  drawLanes(view);
  const calls = view.data.members.reduce((sum, member) => sum + member.calls.length, 0);
  const text = `${plural(calls, "call")} of ${plural(rows, "rank")}` + (view.failed ? `; no answer: ${view.failed}` : "");
  view.canvas.setAttribute("aria-label", text);
  view.status.textContent = view.chosen || text;
}

// What lanes remember of the last hour: when they were slow.
function slowText(view) {
  const lanes = (view.member && view.lanes?.lanes) || [], seconds = (at) => view.data.time - view.lanes.time - at;
  return lanes.flatMap((lane) => lane.slow.map(([begin, end, rate, usual, cause]) =>
    `lane ${lane.index}${lane.interface ? ` over ${lane.interface}` : ""} was slow for ${time(end - begin)}, ` +
    `${time(Math.max(0, seconds(end)))} ago: ${bytes(Math.round(rate))}/s, usual ${bytes(usual)}/s, ${cause}`)).join("\n");
}

// A row for each lane that has carried something, on the same axis: from when a segment was put until it had landed.
function drawLanes(view) {
  const rows = (view.member && view.lanes?.lanes.filter((lane) => lane.segments.length)) || [];
  const shift = view.lanes ? view.lanes.time - view.data.time : 0;
  view.laneBox.hidden = !view.member;
  view.laneHead.textContent = !view.member ? "" : `Lanes of rank ${view.member.rank} on ${view.member.host}` +
    (rows.length ? "" : ": its agent tells of them in a moment, if they have carried anything");
  view.laneSlow.textContent = slowText(view);
  view.shown = [];
  const [context] = prepare(view.laneCanvas, rows.length * LANE_HIGH + 4);
  context.textBaseline = "middle";
  rows.forEach((lane, row) => {
    const y = row * LANE_HIGH + 2;
    context.fillStyle = colour("soft");
    context.textAlign = "right";
    context.fillText(`${lane.index} → ${lane.segments.at(-1).peer}`, LEFT - 8, y + LANE_HIGH / 2);
    context.textAlign = "left";
    for (const segment of lane.segments) {
      const from = across(view, segment.posted + shift), to = across(view, (segment.completed ?? 0) + shift);
      if (to < LEFT || from > LEFT + view.width) {
        continue;
      }
      const x = Math.max(LEFT, from), wide = Math.max(1, Math.min(LEFT + view.width, to) - x);
      context.fillStyle = segment.status > 2 ? colour("grave") : COLOURS[segment.round % COLOURS.length];
      context.fillRect(x, y, wide, LANE_HIGH - 3);
      if (wide > ROUNDS_PX) {
        context.fillStyle = "#ffffff";
        context.fillText(`round ${segment.round}`, x + 3, y + LANE_HIGH / 2 - 1);
      }
      view.shown.push({x, to: x + wide, row, segment, lane});
    }
  });
}

// ---- Hands

function segmentText(view, {segment, lane}) {
  const lines = [`lane ${lane.index} to rank ${segment.peer}, ${lane.transport}${lane.interface ? ` over ${lane.interface}` : ""}: ` +
    `round ${segment.round}, slice ${segment.slice} of call #${segment.seq} of ${view.names.get(segment.comm) ?? "a communicator"}, ${bytes(segment.length)}, ${STATUS[segment.status]}`];
  if (segment.ready !== null && segment.credit !== null) {
    lines.push(segment.credit > segment.ready ? `ready ${time(segment.credit - segment.ready)} before its peer`
      : `its peer was ready ${time(segment.ready - segment.credit)} before it`);
  }
  if (segment.completed !== null) {
    lines.push(`took ${time(segment.completed - segment.posted)}`);
  }
  return lines.join("\n");
}

function callText(view, member, call) {
  const lines = [`rank ${member.rank} on ${member.host}: ${call.name} #${call.seq}, ${call.state}, ${bytes(call.size)}`];
  lines.push(call.end === null ? `for ${time(-call.begin)} so far` : `took ${time(call.end - call.begin)}, over ${time(Math.max(0, -call.end))} ago`);
  if (call.end === null && call.awaited >= 0 && call.since !== null) {
    lines.push(`waits for rank ${call.awaited} for ${time(Math.max(0, -call.since))}` +
      `, in round ${call.round}${call.rounds ? ` of ${call.rounds}` : ""}` +
      (call.slices > 1 ? `, slice ${call.slice} of ${call.slices}` : ""));
  } else if (call.rounds) {
    lines.push(plural(call.rounds, "round"));
  }
  return lines.join("\n");
}

function under(view, event) {
  const box = view.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
  const row = Math.floor((y - TOP) / view.tall + view.top), at = view.end - view.span + (x - LEFT) / view.width * view.span;
  const member = y >= TOP && view.data?.members[row];
  if (!member || x < LEFT) {
    return {at, row: row + 0.5, text: ""};
  }
  const near = view.span / view.width * 4;
  const event_ = member.events.find((one) => one.lane >= 0 && Math.abs(one.at - at) < near);
  const call = member.calls.findLast((one) => one.begin <= at + near / 2 && at - near / 2 <= (one.end ?? 0));
  const text = event_ ? `rank ${member.rank}: ${event_.name}, lane ${event_.lane} to rank ${event_.peer}, ${time(-event_.at)} ago`
    : call ? callText(view, member, call) : `rank ${member.rank} on ${member.host}, process ${member.process}: in no call`;
  return {at, row: row + 0.5, text, member};
}

// What is seen close by would be gone with the next answer: it is held.
function hold(view, paused) {
  view.paused = paused;
  view.pause.textContent = paused ? "Go on" : "Hold";
}

// The end of the latest call that is over, where that is in sight.
function latest(view) {
  const from = view.end - view.span;
  return view.data.members.flatMap((member) => member.calls.map((call) => call.end ?? -Infinity))
    .reduce((last, end) => end > last && end <= view.end && end >= from ? end : last, -Infinity);
}

function zoomTime(view, times, at) {
  const end = at ?? latest(view), place = Number.isFinite(end) ? end : view.end - view.span / 2;
  const span = Math.max(1e-6, Math.min(600, view.span * times));
  view.end = place + (view.end - place) * span / view.span;
  view.span = span;
  if (span < HELD_BELOW) {
    hold(view, true);
  }
  draw(view);
}

function zoomRows(view, times, row) {
  const before = view.tall, middle = row ?? view.top + view.high / view.tall / 2;
  view.zoom = Math.max(1, Math.min(Math.max(4, view.data.members.length / 4), view.zoom * times));
  settle(view);
  view.top = middle - (middle - view.top) * before / view.tall;
  draw(view);
}

function press(view, event) {
  const hands = {
    ArrowLeft: () => { view.end -= view.span / 8; }, ArrowRight: () => { view.end += view.span / 8; },
    ArrowUp: () => { view.top -= 1; }, ArrowDown: () => { view.top += 1; },
    "+": () => zoomTime(view, 0.7), "=": () => zoomTime(view, 0.7), "-": () => zoomTime(view, 1 / 0.7),
    "[": () => zoomRows(view, 1 / 1.5, view.row), "]": () => zoomRows(view, 1.5, view.row), 0: () => reset(view),
  };
  if (view.data && event.key in hands) {
    event.preventDefault();
    hands[event.key]();
    draw(view);
  }
}

function reset(view) {
  Object.assign(view, {span: 30, end: 1, zoom: 1, top: 0, row: undefined, chosen: "", member: null, lanes: null});
  hold(view, false);
  draw(view);
}

function listen(view) {
  let held = null;
  const canvas = view.canvas;
  canvas.addEventListener("wheel", (event) => {
    if (!view.data) {
      return;
    }
    event.preventDefault();
    const {at, row} = under(view, event);
    event.shiftKey ? zoomRows(view, event.deltaX + event.deltaY < 0 ? 1.3 : 1 / 1.3, row)
      : zoomTime(view, event.deltaY < 0 ? 0.8 : 1.25, at);
  }, {passive: false});
  canvas.addEventListener("pointerdown", (event) => {
    held = {x: event.clientX, y: event.clientY};
    canvas.setPointerCapture(event.pointerId);
    const place = view.data ? under(view, event) : {text: ""};
    view.row = place.row;
    if (place.member) {
      Object.assign(view, {member: place.member, lanes: null, loaded: 0});
    }
    view.chosen = place.text.replaceAll("\n", "; ");
    draw(view);
  });
  canvas.addEventListener("pointerup", () => {
    held = null;
  });
  canvas.addEventListener("pointermove", (event) => {
    if (held && view.data) {
      view.end -= (event.clientX - held.x) / view.width * view.span;
      view.top -= (event.clientY - held.y) / view.tall;
      held = {x: event.clientX, y: event.clientY};
      draw(view);
    }
    hint(event, view.data && !held ? under(view, event).text : "");
  });
  canvas.addEventListener("pointerleave", (event) => hint(event, ""));
  canvas.addEventListener("keydown", (event) => press(view, event));
  view.laneCanvas.addEventListener("pointermove", (event) => {
    const box = view.laneCanvas.getBoundingClientRect(), x = event.clientX - box.left, row = Math.floor((event.clientY - box.top) / LANE_HIGH);
    const found = view.shown.find((one) => one.row === row && x >= one.x - 2 && x <= one.to + 2);
    hint(event, found ? segmentText(view, found) : "");
  });
  view.laneCanvas.addEventListener("pointerleave", (event) => hint(event, ""));
}

// ---- The view

function legend(view) {
  const kinds = new Set(view.data?.members.flatMap((member) => member.calls.map((call) => call.kind)) ?? []);
  const text = [...kinds].sort((a, b) => a - b).join(" ");
  if (view.kinds === text) {
    return;
  }
  view.kinds = text;
  view.key.replaceChildren(...[...kinds].sort((a, b) => a - b).map((kind) => {
    const sample = element("span", {className: "sample"});
    sample.style.background = COLOURS[kind] ?? "#888888";
    return element("span", {className: "key"}, sample, view.collectives[kind] ?? "?");
  }));
}

export function makeTimeline(page) {
  const view = {id: "timeline", title: "Timeline", rounds: new Map(), collectives: [], loaded: 0, failed: "", paused: false};
  Object.assign(view, {span: 30, end: 1, zoom: 1, top: 0, chosen: "", data: null, tall: 1, width: 1, high: 1, shown: []});
  view.select = element("select", {onchange: () => (reset(view), view.show(page.picture))});
  view.pause = element("button", {onclick: () => hold(view, !view.paused)}, "Hold");
  view.key = element("span", {className: "bar keys"});
  view.canvas = element("canvas", {tabIndex: 0});
  view.canvas.setAttribute("role", "img");
  view.laneHead = element("h2");
  view.laneCanvas = element("canvas");
  view.laneSlow = element("pre");
  view.laneBox = element("div", {className: "lanes", hidden: true}, view.laneHead, view.laneSlow,
    element("div", {className: "drawing"}, view.laneCanvas));
  view.status = element("p", {className: "note"});
  view.status.setAttribute("role", "status");
  view.panel = element("section", {},
    element("div", {className: "bar"}, element("label", {}, "Communicator ", view.select), view.pause,
      element("button", {onclick: () => view.data && zoomTime(view, 0.5)}, "+"),
      element("button", {onclick: () => view.data && zoomTime(view, 2)}, "−"),
      element("button", {onclick: () => view.data && reset(view)}, "All"), view.key),
    element("div", {className: "drawing"}, view.canvas), view.laneBox, view.status,
    element("p", {className: "note"}, "Wheel, + and − zoom time; with Shift, [ and ] zoom ranks; drag and arrows move; 0 shows all. Yellow: " +
      "waits. Numbers in a call, close by: at that moment it waited in this round ← for this rank. Triangles: " +
      "something happened to a lane. A click on a rank shows what its lanes carry: a row for each lane → rank, a colour " +
      "for each round. Hosts' clocks are brought together by the quickest report of each agent; over hosts, compare no " +
      "less than milliseconds."));
  listen(view);
  view.note = (picture) => noteRounds(view, picture);
  view.show = (picture) => {
    view.collectives = picture.collectives;
    view.names = new Map(picture.comms.map((comm) => [comm.id, comm.name]));
    view.comm = offer(view.select, bySize(picture.comms));
    if (view.data?.id !== view.comm?.id) {
      view.data = null;
    }
    load(view, page);
    legend(view);
    draw(view);
  };
  return view;
}
