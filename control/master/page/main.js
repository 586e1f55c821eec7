// SPDX-License-Identifier: Apache-2.0
// Asks the master once a second, and gives what it answers to the view that is open.
import {element, plural, time} from "./words.js";
import {understand} from "./picture.js";
import {makeMap} from "./map.js";
import {makeMatrix} from "./matrix.js";
import {makeGraph} from "./graph.js";
import {makeTimeline} from "./timeline.js";
import {makeHistory} from "./history.js";

const EVERY_MS = 1000, PATIENCE_MS = 10000;

// The address of the page may hold a name and a password, which fetch refuses.
const base = location.origin + location.pathname.replace(/[^/]*$/, "");

async function ask(path) {
  const answer = await fetch(base + path, {cache: "no-store", signal: AbortSignal.timeout(PATIENCE_MS)});
  if (!answer.ok) {
    throw new Error((await answer.text()).trim() || `status ${answer.status}`);
  }
  return answer.json();
}

// ---- Views

const page = {views: [], open: 0, picture: null, rank: null, ask};
page.choose = (process) => {
  page.rank = process;
  show();
};
page.views = [makeMap(page), makeGraph(page), makeMatrix(page), makeTimeline(page), makeHistory(page)];

function select(number, focus) {
  page.open = number;
  page.views.forEach((view, i) => {
    view.tab.setAttribute("aria-selected", i === number);
    view.tab.tabIndex = i === number ? 0 : -1;
    view.panel.hidden = i !== number;
  });
  history.replaceState(null, "", `#${page.views[number].id}`);
  if (focus) {
    page.views[number].tab.focus();
  }
  show();
}

function show() {
  if (page.picture) {
    page.views[page.open].show(page.picture);
  }
}

function makeTabs() {
  const tabs = document.getElementById("tabs"), main = document.getElementById("views");
  page.views.forEach((view, i) => {
    view.tab = element("button", {id: `tab-${view.id}`, role: "tab", onclick: () => select(i, false)}, view.title);
    view.tab.setAttribute("aria-controls", view.id);
    view.panel.id = view.id;
    view.panel.setAttribute("role", "tabpanel");
    view.panel.setAttribute("aria-labelledby", view.tab.id);
    tabs.append(view.tab);
    main.append(view.panel);
  });
  tabs.addEventListener("keydown", (event) => {
    const step = {ArrowRight: 1, ArrowLeft: -1}[event.key];
    if (step) {
      event.preventDefault();
      select((page.open + step + page.views.length) % page.views.length, true);
    }
  });
  const wanted = page.views.findIndex((view) => `#${view.id}` === location.hash);
  select(wanted < 0 ? 0 : wanted, false);
}

// ---- Verdicts

let shown = "";

function verdictCard(verdict, now) {
  const evidence = element("ul", {}, ...verdict.evidence.map((line) => element("li", {}, line)));
  const details = element("details", {open: true},
    element("summary", {}, `verdict ${verdict.number}, ${verdict.class}: ${verdict.kind} (${verdict.confidence}), since ` +
      new Date(verdict.began * 1000).toLocaleTimeString()),
    evidence, element("div", {}, `What to do: ${verdict.remedy}`));
  return element("article", {className: `verdict ${verdict.class.endsWith("slow") ? "slow" : "hang"}`},
    element("strong", {}, verdict.text), details);
}

// Only what has changed is made anew, so that a text stays where it is while one reads it.
function showVerdicts(state) {
  const text = JSON.stringify(state.verdicts);
  if (text === shown) {
    return;
  }
  shown = text;
  const cards = state.verdicts.map((verdict) => verdictCard(verdict));
  document.getElementById("verdicts").replaceChildren(...(cards.length ? cards : [
    element("p", {className: "verdict none"}, state.total
      ? `Nothing is wrong now; ${plural(state.total, "verdict")} so far.` : "Nothing was found to be wrong so far.")]));
}

// ---- The clockwork

function say(text, lost) {
  const link = document.getElementById("link");
  link.textContent = text;
  link.classList.toggle("lost", lost);
}

let heard = 0;

async function tick() {
  try {
    const picture = understand(await ask("picture"));
    heard = Date.now();
    page.picture = picture;
    showVerdicts(picture.state);
    document.getElementById("summary").textContent = `${plural(picture.processes.length, "process")} on ` +
      `${plural(picture.hosts.length, "host")}, ${plural(picture.comms.length, "communicator")}`;
    document.title = picture.state.verdicts.length ? `(${picture.state.verdicts.length}) tutti` : "tutti";
    say(`as of ${new Date(picture.time * 1000).toLocaleTimeString()}`, false);
    page.views.forEach((view) => view.note?.(picture));
    show();
  } catch (error) {
    say(`No answer${heard ? ` for ${time((Date.now() - heard) / 1000)}` : ""}: ${error.message}`, true);
  }
  setTimeout(tick, EVERY_MS);
}

makeTabs();
addEventListener("resize", show);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
tick();
