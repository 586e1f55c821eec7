// SPDX-License-Identifier: Apache-2.0
// Who waits for whom: at the left those that wait for nobody, to their right those that wait for them. Long rows and wide
// fans are shortened, so that a thousand ranks that wait for one are a picture of a few.
import {called, describe, STATES} from "./picture.js";
import {element, hint, plural, time} from "./words.js";

const WIDE = 168, HIGH = 40, ACROSS = 282, DOWN = 52, FAN = 9, DEEP = 6, RUN = 4, ROOTS = 12;

// ---- What hangs together

// Each process knows who waits for it. Of a circle, the wait of its lowest process is cut.
function forest(processes) {
  const waiters = new Map(), size = new Map(), mark = new Map(), circles = new Set();
  for (const start of processes) {
    let at = start;
    while (at && !mark.has(at)) {
      mark.set(at, start);
      at = processes[at.next];
    }
    if (at && mark.get(at) === start) {
      let low = at;
      for (let one = processes[at.next]; one !== at; one = processes[one.next]) {
        low = one.number < low.number ? one : low;
      }
      circles.add(low);
    }
  }
  const next = (process) => circles.has(process) ? undefined : processes[process.next];
  for (const process of processes) {
    if (next(process)) {
      waiters.set(next(process), [...waiters.get(next(process)) ?? [], process]);
    }
  }
  const roots = processes.filter((process) => !next(process) && (waiters.has(process) || process.comm >= 0));
  for (const order = [...roots]; order.length;) {  // from the ends to the roots, without a deep stack
    const at = order.at(-1), missing = (waiters.get(at) ?? []).filter((one) => !size.has(one));
    if (missing.length) {
      order.push(...missing);
    } else {
      size.set(order.pop(), 1 + (waiters.get(at) ?? []).reduce((sum, one) => sum + size.get(one), 0));
    }
  }
  waiters.forEach((list) => list.sort((a, b) => size.get(b) - size.get(a) || a.number - b.number));
  roots.sort((a, b) => size.get(b) - size.get(a) || a.number - b.number);
  return {waiters, size, roots, circles};
}

// ---- Where it is drawn

function place(trees, root) {
  const items = [];
  let row = 0;
  const add = (item, depth, parent) => {
    items.push(Object.assign(item, {depth, parent, row}));
    return item;
  };
  const sizeOf = (list) => list.reduce((sum, one) => sum + trees.size.get(one), 0);
  const after = (process) => trees.waiters.get(process) ?? [];
  const leaf = (item, depth, parent) => {
    add(item, depth, parent);
    row++;
  };
  const visit = (process, depth, parent) => {
    const item = add({process}, depth, parent), first = row;
    let waiters = after(process), from = item, column = depth + 1;
    const run = [];
    for (let at = waiters; at.length === 1; at = after(at[0])) {
      run.push(at[0]);
    }
    if (run.length > RUN) {
      from = add({process: run[0]}, column++, item);
      from = add({text: `${run.length - 2} in a row`, list: run.slice(1, -1)}, column++, from);
      waiters = [run.at(-1)];
    }
    if (waiters.length && column > DEEP) {
      leaf({text: `${sizeOf(waiters)} more behind`, list: waiters}, column, from);
    } else {
      waiters.slice(0, FAN).forEach((one) => visit(one, column, from));
      if (waiters.length > FAN) {
        leaf({text: `and ${sizeOf(waiters.slice(FAN))} more`, list: waiters.slice(FAN)}, column, from);
      }
    }
    row = Math.max(row, first + 1);
  };
  visit(root, 0, null);
  return {items, rows: row};
}

// ---- How

function svg(name, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
  made.append(...children);
  return made;
}

function shorten(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function node(page, item, x, y) {
  const process = item.process, width = WIDE;
  const group = svg("g", {class: `node ${process ? process.state : "more"}`, transform: `translate(${x},${y})`, tabindex: 0});
  const text = process ? describe(process) : `${item.text}: ${item.list.slice(0, 12).map(called).join(", ")}` +
    (item.list.length > 12 ? " …" : "");
  group.append(svg("rect", {width, height: HIGH, rx: 7}));
  group.append(svg("text", {x: 11, y: 17, class: "name"}, process ? `${called(process)}  ${STATES[process.state][0]}` : item.text));
  if (process) {
    group.append(svg("text", {x: 11, y: 32}, shorten(`${process.host.name}, ${STATES[process.state][1]}`, 27)));
    group.addEventListener("click", () => page.choose(process.key));
  }
  group.setAttribute("aria-label", text);
  group.addEventListener("pointermove", (event) => hint(event, text));
  group.addEventListener("pointerleave", (event) => hint(event, ""));
  return group;
}

// From the one that waits to the one that it waits for, with what it waits in.
function edge(page, item, at) {
  const [x, y] = at(item), [fromX, fromY] = at(item.parent), start = fromX + WIDE, middle = (start + x) / 2;
  const member = item.process?.members.find((one) => one.op && one.comm.number === item.process.comm);
  const line = svg("path", {class: "wait", "marker-end": "url(#arrow)",
    d: `M${x},${y + HIGH / 2} C${middle},${y + HIGH / 2} ${middle},${fromY + HIGH / 2} ${start + 7},${fromY + HIGH / 2}`});
  const label = member ? `${member.op.name} #${member.op.seq}` : "";
  return [line, svg("text", {class: "label", x: x - 8, y: y + HIGH / 2 - 6, "text-anchor": "end"}, shorten(label, 15))];
}

function drawTree(page, trees, root) {
  const {items, rows} = place(trees, root), deepest = Math.max(...items.map((item) => item.depth));
  const at = (item) => [6 + item.depth * ACROSS, 6 + item.row * DOWN];
  const width = deepest * ACROSS + WIDE + 14, height = rows * DOWN + 4;
  const arrow = svg("marker", {id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto"},
    svg("path", {d: "M0,0 L8,4 L0,8 z", class: "head"}));
  return svg("svg", {width, height, viewBox: `0 0 ${width} ${height}`, role: "group"}, svg("defs", {}, arrow),
    ...items.filter((item) => item.parent).flatMap((item) => edge(page, item, at)),
    ...items.map((item) => node(page, item, ...at(item))));
}

function head(trees, root, processes) {
  const waiting = trees.size.get(root) - 1;
  const next = trees.circles.has(root) ? ` It waits for ${called(processes[root.next])} itself: a circle.`
    : root.comm >= 0 ? ` It waits for rank ${root.awaited} of its communicator, of which nothing is known.` : "";
  return element("h2", {}, `${plural(waiting, "process")} ${waiting === 1 ? "waits" : "wait"} for ${called(root)} on ` +
    `${root.host.name}, which ${STATES[root.state][2]}.${next}`);
}

export function makeGraph(page) {
  const view = {id: "waits", title: "Waits", shown: ""};
  view.trees = element("div");
  view.panel = element("section", {}, view.trees, element("p", {className: "note"},
    "An arrow points at the one that is waited for. What waits for nobody is at the left: that is where to look."));
  view.show = (picture) => {
    const text = JSON.stringify(picture.processes.map((one) => [one.key, one.state, one.next, one.comm]));
    if (text === view.shown) {
      return;  // what one looks at stays
    }
    view.shown = text;
    const trees = forest(picture.processes), many = trees.roots.length - ROOTS;
    view.trees.replaceChildren(...(trees.roots.length ? trees.roots.slice(0, ROOTS).map((root) =>
      element("div", {className: "tree"}, head(trees, root, picture.processes), drawTree(page, trees, root))) : [
      element("p", {}, `Nobody has stood in one step for ${time(picture.stands)}.`)]),
      ...(many > 0 ? [element("p", {}, `${many} more are waited for.`)] : []));
  };
  return view;
}
