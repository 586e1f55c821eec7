// SPDX-License-Identifier: Apache-2.0
// What the master answers has rows; here they become things that know each other.
import {plural, time} from "./words.js";

// A letter; of which a cell says that it is so; of which a sentence says that it does so.
export const STATES = {
  outside: [" ", "in no operation", "is in no operation"], inside: ["·", "in an operation", "is in an operation"],
  waits: ["W", "waits", "waits itself"], ended: ["–", "ended", "has ended"],
  silent: ["?", "its agent is silent", "has a silent agent"],
  failed: ["F", "a communicator failed", "has a communicator that failed"],
  traced: ["T", "held by a debugger", "is held by a debugger"], stopped: ["S", "stopped", "is stopped"],
  dead: ["X", "dead", "is dead"],
};

function process(row, host, number) {
  const [pid, state, rank, comm, awaited, next, waited, holdsUp] = row;
  return {number, host, pid, state: state in STATES ? state : "outside", rank, comm, awaited, next, waited, holdsUp, members: [],
    blamed: null};
}

// A name that stays the same from answer to answer; a process may have several boxes.
function name(process, keys) {
  for (let box = 0; !process.key || keys.has(process.key); box++) {
    process.key = `${process.host.name}/${process.pid}/${box}`;
  }
  keys.add(process.key);
  return process;
}

function member(row, comm, collectives) {
  const [rank, process, newest, collective, seq, state, inside, waited, awaited, round, rounds, slice, slices] = row;
  const made = {rank, process, comm, newest, op: null};
  if (row.length > 3) {
    made.op = {name: collectives[collective] ?? "?", seq, state, inside, waited, awaited, round: round + 1, rounds,
      slice: slice + 1, slices};
  }
  return made;
}

// Who is to blame, as the verdicts that stand say.
function blame(hosts, verdicts) {
  for (const verdict of verdicts.filter((one) => one.pid)) {
    const host = hosts.find((one) => one.name === verdict.host);
    host?.processes.filter((one) => one.pid === verdict.pid).forEach((one) => {
      one.blamed ??= verdict;
    });
  }
}

export function understand(answer) {
  const processes = [];
  const keys = new Set();
  const hosts = answer.hosts.map((host) => ({name: host.name, processes: []}));
  hosts.forEach((host, i) => answer.hosts[i].processes.forEach((row) => {
    host.processes.push(process(row, host, processes.length));
    processes.push(name(host.processes.at(-1), keys));
  }));
  const comms = answer.comms.map((comm, number) => ({...comm, number, members: []}));
  comms.forEach((comm, i) => answer.comms[i].members.forEach((row) => {
    comm.members.push(member(row, comm, answer.collectives));
    processes[row[1]]?.members.push(comm.members.at(-1));
  }));
  const known = new Map(answer.state.hosts.map((host) => [host.name, host]));
  hosts.forEach((host) => Object.assign(host, {told: known.get(host.name)}));
  blame(hosts, answer.state.verdicts);
  hosts.sort((a, b) => a.name.localeCompare(b.name, "en", {numeric: true}));
  return {time: answer.time, stands: answer.stands, state: answer.state, collectives: answer.collectives,
    hosts, processes, comms};
}

export function called(process) {
  return process.rank >= 0 ? `rank ${process.rank}` : `process ${process.pid}`;
}

export function callOf(member) {
  const op = member.op;
  let text = `${op.name} #${op.seq}, ${op.state} for ${time(op.inside)}`;
  if (op.awaited >= 0) {
    text += `; waits for rank ${op.awaited}${op.rounds ? ` in round ${op.round} of ${op.rounds}` : ""}, ${time(op.waited)}`;
  }
  return text;
}

// A few lines about a process.
export function describe(process) {
  const lines = [`${called(process)}, process ${process.pid} on ${process.host.name}: ${STATES[process.state][1]}`];
  if (process.blamed) {
    lines.push(`to blame, by verdict ${process.blamed.number}: ${process.blamed.kind}`);
  }
  if (process.holdsUp >= 0.05) {
    lines.push(`others waited for it ${Math.round(100 * process.holdsUp)} % of the time of the latest calls`);
  }
  const busy = process.members.filter((member) => member.op);
  for (const member of busy.slice(0, 4)) {
    lines.push(`${member.comm.name}: ${callOf(member)}`);
  }
  if (busy.length > 4) {
    lines.push(`and ${plural(busy.length - 4, "more call")}`);
  }
  return lines.join("\n");
}

// The communicators, the largest one first.
export function bySize(comms) {
  return comms.filter((comm) => comm.open).sort((a, b) => b.ranks - a.ranks || (a.id < b.id ? -1 : 1));
}
