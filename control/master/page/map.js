// SPDX-License-Identifier: Apache-2.0
// The job: a frame for each host, a cell for each process, coloured and lettered by how it is.
import {callOf, called, describe, STATES} from "./picture.js";
import {element, hint, time} from "./words.js";

function legend(count, blamed) {
  const frame = blamed ? [element("span", {className: "key"}, element("span", {className: "sample blamed"}, " "),
    `to blame by a verdict: ${blamed}`)] : [];
  return [...frame, ...Object.entries(STATES).filter(([state]) => count[state]).map(([state, [letter, words]]) =>
    element("span", {className: "key"}, element("span", {className: `sample ${state}`}, letter), `${words}: ${count[state]}`))];
}

function detail(page, process) {
  if (!process) {
    return [];
  }
  const rows = process.members.filter((member) => member.comm.open).map((member) => element("tr", {},
    element("td", {}, member.comm.name), element("td", {}, `rank ${member.rank} of ${member.comm.ranks}`),
    element("td", {}, member.op ? callOf(member) : `last call #${member.newest}`)));
  const next = page.picture.processes[process.next];
  return [element("h2", {}, `${called(process)}, process ${process.pid} on ${process.host.name}: ${STATES[process.state][1]}` +
      (next ? `, waits for ${called(next)} on ${next.host.name}, ${time(process.waited)}` : "")),
    element("table", {}, element("tr", {}, ...["Communicator", "Is there", "Is in"].map((word) => element("th", {}, word))),
      ...rows)];
}

function cell(page, view, process) {
  const made = element("button", {type: "button"});
  made.addEventListener("pointermove", (event) => hint(event, describe(page.picture.processes[made.number])));
  made.addEventListener("pointerleave", (event) => hint(event, ""));
  made.addEventListener("click", () => page.choose(made.key));
  made.addEventListener("focus", () => page.choose(made.key));
  view.cells.set(process.key, made);
  return made;
}

function update(page, cell, process) {
  const name = `rank ${process.state}${page.rank === process.key ? " chosen" : ""}${process.blamed ? " blamed" : ""}`;
  const text = `${process.rank >= 0 ? process.rank : "–"}${STATES[process.state][0].trim()}`;
  cell.number = process.number;
  cell.key = process.key;
  if (cell.className !== name) {
    cell.className = name;
  }
  if (cell.textContent !== text) {
    cell.textContent = text;
  }
  const words = `${called(process)} on ${process.host.name}, ${STATES[process.state][1]}` +
    (process.blamed ? `, to blame: ${process.blamed.kind}` : "");
  if (cell.ariaLabel !== words) {
    cell.setAttribute("aria-label", words);
  }
}

// What stays the same stays in its place: only new processes are laid out anew.
function lay(page, view, picture) {
  const order = picture.processes.map((process) => process.key).join(" ");
  if (order === view.order) {
    return;
  }
  view.order = order;
  const old = view.cells;
  view.cells = new Map();
  view.hosts.classList.toggle("many", picture.processes.length > 512);
  view.hosts.replaceChildren(...picture.hosts.map((host) => {
    const frame = element("section", {className: "host"},
      element("h2", {}, element("span", {title: host.name}, host.name), element("span")),
      element("div", {className: "ranks"}, ...host.processes.map((process) => {
        const made = old.get(process.key) ?? cell(page, view, process);
        view.cells.set(process.key, made);
        return made;
      })));
    return frame;
  }));
}

function noteHosts(view, picture) {
  picture.hosts.forEach((host, i) => {
    const frame = view.hosts.children[i], note = frame.querySelector("h2").lastChild;
    const text = !host.told ? "forgotten" : host.told.silent ? `silent for ${time(host.told.heard_seconds)}`
      : `${host.processes.length}`;
    frame.classList.toggle("silent", !host.told || host.told.silent);
    if (note.textContent !== text) {
      note.textContent = text;
    }
  });
}

// From cell to cell by arrows; only one of them is reached by Tab.
function walk(event, view) {
  const cells = [...view.cells.values()], at = cells.indexOf(document.activeElement);
  const across = at < 0 ? 0 : cells.findIndex((cell, i) => i > at && cell.offsetLeft === cells[at].offsetLeft) - at;
  const step = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: Math.max(1, across), ArrowUp: -Math.max(1, across)}[event.key];
  if (at < 0 || !step) {
    return;
  }
  event.preventDefault();
  cells[Math.max(0, Math.min(cells.length - 1, at + step))].focus();
}

export function makeMap(page) {
  const view = {id: "job", title: "Job", cells: new Map(), order: ""};
  view.legend = element("div", {className: "bar"});
  view.hosts = element("div", {className: "hosts"});
  view.detail = element("div", {className: "detail", hidden: true});
  view.panel = element("section", {}, view.legend, view.hosts, view.detail);
  view.hosts.addEventListener("keydown", (event) => walk(event, view));
  view.show = (picture) => {
    const count = {};
    picture.processes.forEach((process) => {
      count[process.state] = (count[process.state] ?? 0) + 1;
    });
    lay(page, view, picture);
    picture.processes.forEach((process) => update(page, view.cells.get(process.key), process));
    const first = view.cells.get(page.rank) ?? view.cells.values().next().value;
    view.cells.forEach((cell) => {
      cell.tabIndex = cell === first ? 0 : -1;
    });
    noteHosts(view, picture);
    view.legend.replaceChildren(...legend(count, picture.processes.filter((process) => process.blamed).length));
    const chosen = picture.processes.find((process) => process.key === page.rank);
    view.detail.hidden = !chosen;
    view.detail.replaceChildren(...detail(page, chosen));
  };
  return view;
}
