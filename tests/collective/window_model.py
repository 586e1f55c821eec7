#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A model of windows between two ranks, of which every state is looked at (docs/understand/window.md).

Rank A puts and signals, rank B owns the window and waits. Requests go in order, each once; payloads go as segments over
two lanes, in any order. A lane that dies takes its segments with it, and they go again over the other one. Either rank
may abort at any moment, and A may be killed. The rules of the protocol are the names in RULES: without any one of them
the model must find a fault, or the model proves nothing.
"""
import sys
from typing import NamedTuple

# What A and B call. Each put has two segments, a put_signal ends with a signal.
PROGRAMS = [
    (("put", "put_signal", "close"), ("wait", "close")),
    (("put_signal", "put_signal", "signal", "close"), ("wait", "wait", "wait", "close")),
    (("put", "flush", "signal", "put", "close"), ("wait", "close")),
]
RULES = {
    "in order": "a signal is raised when all earlier puts of the pair have landed",
    "answer behind": "the answer to a flush goes behind all earlier puts of the pair",
    "flush first": "a rank closes a window when what it has put has landed",
    "meet to close": "a rank closes a window when all ranks have come to close it",
    "withdraw": "a rank that tells its user of a failure has withdrawn its receives before",
    "refuse": "a rank that has failed posts no receives",
    "say why": "a rank that fails tells the other one",
    "again": "what a dead lane carried goes again over another one",
}


class State(NamedTuple):
    """Both ranks, and what is under way between them."""
    a_at: int = 0  # in its program
    a_asked: bool = False  # A waits for an answer
    a_met: bool = False  # A has said that it closes
    a_end: str = ""  # "done", "told" of a failure, "dead"
    b_at: int = 0
    b_met: bool = False
    b_failed: bool = False
    b_end: str = ""
    to_b: tuple = ()
    to_a: tuple = ()
    under_way: frozenset = frozenset()  # (put, half, lane)
    lane_died: bool = False
    posted: frozenset = frozenset()  # puts whose receives are there
    landed: frozenset = frozenset()  # (put, half)
    queue: tuple = ()  # requests of A that B has, in order
    raised: int = 0
    taken: int = 0
    puts: int = 0  # that A has begun
    trouble: bool = False  # somebody has aborted, or was killed: once is enough


class Fault(Exception):
    """What must never be."""


def retire(state, rules):
    """What has come to its turn at B."""
    queue, raised, to_a = list(state.queue), state.raised, list(state.to_a)
    kept = []
    for kind, number in queue:
        waits = kind == "put" and not {(number, 0), (number, 1)} <= state.landed
        held = waits or bool(kept)
        if kind == "signal" and (not held or "in order" not in rules):
            raised += 1
            if not all({(p, 0), (p, 1)} <= state.landed for p in range(number)):
                raise Fault("a signal was raised before the data of an earlier put was there")
        elif kind == "flush" and (not held or "answer behind" not in rules):
            to_a.append("landed")
            if not all({(p, 0), (p, 1)} <= state.landed for p in range(number)):
                raise Fault("a flush was answered before an earlier put had landed")
        elif held:
            kept.append((kind, number))
    return state._replace(queue=tuple(kept), raised=raised, to_a=tuple(to_a))


def fail_b(state, rules, tells):
    said = ("failed",) if tells and "say why" in rules else ()
    return state._replace(b_failed=True, to_a=state.to_a + said)


def steps_of_a(state, program, rules):
    if state.a_end:
        return
    said = ("failed",) if "say why" in rules else ()
    # killed: what it has said arrives up to some message, then B hears that it is gone
    for heard in range(len(state.to_b) + 1 if not state.trouble else 0):
        dead = state._replace(a_end="dead", to_b=state.to_b[:heard] + ("gone",), trouble=True)
        yield dead
        yield dead._replace(under_way=frozenset())
    if not state.trouble:
        yield state._replace(a_end="told", to_b=state.to_b + said, trouble=True)  # aborted
    if state.to_a:
        word, rest = state.to_a[0], state.to_a[1:]
        if word == "failed":
            yield state._replace(a_end="told", to_a=rest)
        elif word == "closes" and state.a_met:
            yield state._replace(a_end="done", to_a=rest)
        elif word == "landed":
            closes = program[state.a_at] == "close"
            yield state._replace(a_asked=False, to_a=rest, a_at=state.a_at + (not closes), a_met=closes,
                                 to_b=state.to_b + ((("closes", 0),) if closes else ()))
    if state.a_asked or state.a_met or state.a_at == len(program):
        return
    call = program[state.a_at]
    if call in ("flush", "close"):
        if call == "close" and "flush first" not in rules:
            yield state._replace(a_met=True, to_b=state.to_b + (("closes", 0),))
        else:
            yield state._replace(a_asked=True, to_b=state.to_b + (("flush", state.puts),))
        return
    requests, under_way, puts = [], set(state.under_way), state.puts
    if call.startswith("put"):
        requests.append(("put", puts))
        under_way |= {(puts, 0, 0), (puts, 1, 1)} if not state.lane_died else {(puts, 0, 1), (puts, 1, 1)}
        puts += 1
    if call.endswith("signal"):
        requests.append(("signal", puts))
    yield state._replace(a_at=state.a_at + 1, to_b=state.to_b + tuple(requests), under_way=frozenset(under_way),
                         puts=puts)


def hear_b(state, rules):
    word, rest = state.to_b[0], state.to_b[1:]
    state = state._replace(to_b=rest)
    if word in ("failed", "gone"):
        return fail_b(state, rules, False)
    if state.b_failed and "refuse" in rules:
        return state
    if word[0] == "closes":
        return state._replace(b_met=True)
    if word[0] == "put":
        state = state._replace(posted=state.posted | {word[1]})
    return retire(state._replace(queue=state.queue + (word,)), rules)


def steps_of_b(state, program, rules):
    if state.to_b:
        yield hear_b(state, rules)
    if state.b_end:
        return
    if not state.b_failed and not state.trouble:
        yield fail_b(state, rules, True)._replace(trouble=True)  # aborted
    if state.b_failed:
        posted = frozenset() if "withdraw" in rules else state.posted
        yield state._replace(b_end="told", posted=posted)
        return
    if state.b_at == len(program):
        return
    if program[state.b_at] == "wait" and state.raised > state.taken:
        yield state._replace(taken=state.taken + 1, b_at=state.b_at + 1)
    if program[state.b_at] == "close" and (state.b_met or "meet to close" not in rules):
        yield state._replace(b_end="done", b_at=state.b_at + 1, to_a=state.to_a + ("closes",))


def steps_of_lanes(state, rules):
    for put, half, lane in state.under_way:
        rest = state.under_way - {(put, half, lane)}
        if put in state.posted:
            if state.b_end:
                raise Fault("memory was written after its user was told that it is his again")
            yield retire(state._replace(under_way=rest, landed=state.landed | {(put, half)}), rules)
        elif state.b_end or state.b_failed:
            yield state._replace(under_way=rest)  # nothing is posted: it is dropped
    if not state.lane_died and not state.a_end and state.under_way:
        moved = {(put, half, 1) for put, half, lane in state.under_way if lane == 1 or "again" in rules}
        yield state._replace(lane_died=True, under_way=frozenset(moved))


def look_at_all(programs, rules, trouble):
    """The number of states, with trouble or in a world without; a Fault says what is wrong in one of them."""
    seen, todo = set(), [State(trouble=not trouble)]
    while todo:
        state = todo.pop()
        if state in seen:
            continue
        seen.add(state)
        after = [*steps_of_a(state, programs[0], rules), *steps_of_b(state, programs[1], rules),
                 *steps_of_lanes(state, rules)]
        if not after and not (state.a_end and state.b_end):
            raise Fault("a rank waits for ever")
        todo += after
    return len(seen)


def look_at_programs(rules):
    return sum(look_at_all(programs, rules, trouble) for programs in PROGRAMS for trouble in (False, True))


def find_fault(rules):
    try:
        look_at_programs(rules)
    except Fault as fault:
        return str(fault)
    return None


def main():
    print(f"{look_at_programs(set(RULES))} states, no fault")
    for rule in RULES:
        fault = find_fault(set(RULES) - {rule})
        if not fault:
            sys.exit(f"the model finds nothing wrong without the rule '{rule}': {RULES[rule]}")
        print(f"without '{rule}': {fault}")


if __name__ == "__main__":
    main()
