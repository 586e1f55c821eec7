// SPDX-License-Identifier: Apache-2.0
// What has been: how many calls and bytes a rank made in the last hour, when verdicts stood, and which.
import {bytes, colour, element, plural, prepare, time} from "./words.js";

const AGAIN_MS = 5000, DAYS_SHOWN = 100, HIGH = 150, LEFT = 84, TOP = 22, LOW = 22;

function understand(answer) {
  return {
    samples: answer.samples.map(([at, calls, size, verdicts]) => ({at, calls, bytes: size, verdicts})),
    verdicts: answer.verdicts.map(([number, began, ended, kind, group, text]) => ({number, began, ended, kind, group, text})),
  };
}

function clock(seconds) {
  return new Date(seconds * 1000).toLocaleTimeString();
}

// When verdicts stood: a band behind the curve, grave or mild.
function drawVerdicts(view, context, across, wide) {
  for (const verdict of view.data.verdicts) {
    const from = Math.max(LEFT, across(verdict.began)), to = Math.min(LEFT + wide, across(verdict.ended ?? view.to));
    context.globalAlpha = 0.25;
    context.fillStyle = colour(verdict.group.endsWith("slow") ? "mild" : "grave");
    if (to >= LEFT) {
      context.fillRect(from, TOP, Math.max(2, to - from), HIGH);
    }
    context.globalAlpha = 1;
  }
}

function drawAxes(view, context, wide, most, spell) {
  context.fillStyle = colour("soft");
  context.strokeStyle = colour("line");
  for (let part = 0; part <= 4; part++) {
    const y = TOP + HIGH - HIGH * part / 4;
    context.beginPath();
    context.moveTo(LEFT, y + 0.5);
    context.lineTo(LEFT + wide, y + 0.5);
    context.stroke();
    context.textAlign = "right";
    context.textBaseline = "middle";
    context.fillText(spell(most * part / 4), LEFT - 7, y);
  }
  context.textBaseline = "top";
  context.textAlign = "left";
  context.fillText(clock(view.from), LEFT, TOP + HIGH + 6);
  context.textAlign = "right";
  context.fillText(clock(view.to), LEFT + wide, TOP + HIGH + 6);
}

function drawCurve(view, canvas, title, value, spell) {
  const [context, width] = prepare(canvas, TOP + HIGH + LOW), wide = width - LEFT - 8;
  const most = Math.max(...view.data.samples.map(value), 1e-9), span = Math.max(view.to - view.from, 1);
  const across = (at) => LEFT + (at - view.from) / span * wide;
  drawVerdicts(view, context, across, wide);
  drawAxes(view, context, wide, most, spell);
  context.strokeStyle = colour("focus");
  context.lineWidth = 2;
  context.beginPath();
  view.data.samples.forEach((sample, i) => {
    const y = TOP + HIGH - HIGH * value(sample) / most;
    i ? context.lineTo(across(sample.at), y) : context.moveTo(across(sample.at), y);
  });
  context.stroke();
  context.lineWidth = 1;
  context.fillStyle = colour("ink");
  context.textAlign = "left";
  context.textBaseline = "top";
  context.fillText(title, LEFT, 2);
}

function list(view) {
  const rows = [...view.data.verdicts].reverse().map((verdict) => element("tr", {},
    element("td", {}, clock(verdict.began)),
    element("td", {}, verdict.ended ? time(verdict.ended - verdict.began) : "stands"),
    element("td", {}, verdict.kind), element("td", {}, verdict.text)));
  const heads = ["Began", "Lasted", "Kind", "What was found"].map((word) => element("th", {}, word));
  view.list.replaceChildren(...(rows.length ? [element("table", {}, element("tr", {}, ...heads), ...rows)]
    : [element("p", {className: "note"}, "No verdict so far.")]));
}

// What hosts went through, by day, the newest first.
function listDays(view) {
  const total = (kinds) => Object.values(kinds).reduce((sum, one) => sum + one, 0);
  const rows = view.days.slice(0, DAYS_SHOWN).map(([day, host, lanes, pauses, slow, kinds]) => element("tr", {},
    ...[day, host, lanes, pauses, slow].map((value) => element("td", {}, String(value))),
    element("td", {}, total(kinds) ? Object.entries(kinds).map(([kind, count]) => `${kind} ${count}`).join(", ") : "")));
  const heads = ["Day", "Host", "Lanes down", "Pauses", "Slow minutes", "Verdicts"].map((word) => element("th", {}, word));
  view.hosts.replaceChildren(...(rows.length ? [element("table", {}, element("tr", {}, ...heads), ...rows)]
    : [element("p", {className: "note"}, "No host has lost a lane, paused, been slow or had a verdict.")]));
}

function draw(view) {
  if (!view.data) {
    return;
  }
  const samples = view.data.samples;
  view.from = samples[0]?.at ?? 0;
  view.to = samples.at(-1)?.at ?? 0;
  const last = samples.at(-1);
  const text = !last ? "The first numbers come after ten seconds." : `Now ${last.calls.toFixed(1)} calls and about ` +
    `${bytes(Math.round(last.bytes))} a second of each rank; ${plural(view.data.verdicts.length, "verdict")} since the master began.`;
  view.status.textContent = text;
  view.calls.setAttribute("aria-label", text);
  if (last) {
    drawCurve(view, view.calls, "Calls a second of a rank, on average", (one) => one.calls, (value) => value.toPrecision(3));
    drawCurve(view, view.bytes, "Bytes of these calls a second, about", (one) => one.bytes, (value) => bytes(Math.round(value)));
  }
  list(view);
  listDays(view);
}

export function makeHistory(page) {
  const view = {id: "history", title: "History", data: null, asked: 0};
  view.calls = element("canvas");
  view.calls.setAttribute("role", "img");
  view.bytes = element("canvas");
  view.status = element("p", {className: "note"});
  view.status.setAttribute("role", "status");
  view.list = element("div", {className: "past"});
  view.hosts = element("div", {className: "past"});
  view.days = [];
  view.panel = element("section", {}, view.status, element("div", {className: "drawing"}, view.calls),
    element("div", {className: "drawing"}, view.bytes), view.list, view.hosts,
    element("p", {className: "note"}, "The last hour, as this master has seen it. Bands are times in which a verdict stood: red for a " +
      "hang or a failure, yellow for something slow."));
  view.show = async () => {
    draw(view);
    if (Date.now() < view.asked + AGAIN_MS) {
      return;
    }
    view.asked = Date.now();
    try {
      view.data = understand(await page.ask("past"));
      view.days = (await page.ask("days")).rows;
      draw(view);
    } catch (error) {
      view.status.textContent = `No answer: ${error.message}`;
    }
  };
  return view;
}
