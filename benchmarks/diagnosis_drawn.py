#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws jobs and faults by a seed, runs them, and asks `tutti diagnose`, as it is by default, who it was.

    diagnosis_drawn.py BUILD [--cases 600] [--seed 1] [--at-once 4] [--only NAME...] [--where shm|tcp|...]
                       [--ranks 16] [--numbers N...] [--seconds N] [--results FILE [--again]] [--keep FOLDER]
                       [--check] [--table FILE... [--first]]

Each number is a case of its own: it is drawn from the seed and the number alone. A case that is not right is run once
more when all others are over, alone. --results adds a line of JSON for each case. What FILE has so far is not run
again, so that a campaign may stop at any time (--seconds: it begins no case after that) and go on later; with --again
those run that were not right. --table reads these files and prints the tables without running anything; with --first
no second run counts. Cases that need root, or libfaketime, are left out where those lack.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import random
import re
import shutil
import subprocess
import sys
import threading
import time

from drawn_case import BEGIN, NOTES, Case, Job
from drawn_faults import ANY, FAKETIME, KINDS
from drawn_jobs import Plan

PRINT = threading.Lock()
LOOKS_APART = 0.2  # seconds


# ---- Drawing ----

def draw_kind(draw):
    return draw.choices(list(KINDS.values()), [kind.weight for kind in KINDS.values()])[0]


def is_wanted(arguments, number):
    if draw_kind(random.Random(f"{arguments.seed} {number}")).name not in arguments.kinds:
        return False
    case = draw_case(arguments.seed, number)
    return case.where in arguments.where and case.plan.ranks <= arguments.ranks


def numbers_of(arguments):
    """Those of the kinds that are wanted, and possible here."""
    number = arguments.first
    for _ in range(arguments.cases):
        while not is_wanted(arguments, number):
            number += 1
        yield number
        number += 1


def draw_case(seed, number):
    draw = random.Random(f"{seed} {number}")
    kind = draw_kind(draw)
    while True:
        where = draw.choices(kind.where, [3 if one in ("shm", "tcp") else 2 for one in kind.where])[0]
        most = min(kind.most, {"gpu": 4, "lab-verbs": 8}.get(where, 16))
        sizes = [n for n in (2, 3, 4, 5, 6, 8, 9, 12, 16) if kind.least <= n <= most]
        plan = Plan(draw, draw.choice(sizes), network=kind.whom == "host" or kind.name == "busy_network")
        case = Case(draw, kind, plan, where)
        if where.startswith("lab"):
            case.hosts = draw.choice([n for n in (2, 3, 4) if n <= plan.ranks])
            case.nics = draw.choice((1, 1, 2))
        case.culprit = draw.randrange(plan.ranks)
        case.at = max(3, int(draw.uniform(*kind.warm) / plan.seconds()))
        try:
            if kind.make(case) is not False:
                return case
        except IndexError:  # this plan has no place for the fault: the next one
            continue


# ---- What is right ----

def fits(case, job, finding):
    """True, False, or None: the kind is right, and nobody is named."""
    if finding["kind"] not in case.kind.said:
        return False
    if case.launched:
        return finding["pid"] == job.launcher
    if case.culprit is None and case.host is None:
        return True  # of all ranks
    if case.host is None:
        return None if finding["world_rank"] in (None, -1) else finding["world_rank"] == case.culprit
    if finding["kind"] == "slowed":
        return True
    text = finding["text"].split("; it is waited for")[0]
    ranks = re.findall(r"ranks? ((?:\d+ ?)+)of world-" if " of world-" in text else r"ranks? ((?:\d+ ?)+)", text)
    hosts = {case.host_of(int(rank)) for some in ranks for rank in some.split()} | \
        {int(host) for host in re.findall(r"\bh(\d+)\b", text)}
    if len(hosts) > 2:  # of a path between two hosts both are named
        return None
    return finding["host"] == f"h{case.host}" or case.host in hosts


def judge(case, job, status, findings):
    """Of the first verdict that is none of notes only."""
    faults = [finding for finding in findings if finding["kind"] not in NOTES]
    if case.kind.healthy:
        return "accused"
    if case.room and status == 4:
        return "right"
    marks = [fits(case, job, finding) for finding in faults]
    if all(mark is True for mark in marks):
        return "right"
    return "part" if all(mark in (True, None) for mark in marks) else "wrong"


def notes_right(case, job, findings):
    return any(finding["kind"] in case.kind.said and fits(case, job, finding) for finding in findings)


# ---- One case ----

def rate(job, seconds):
    before, begin = job.steps(), time.monotonic()
    time.sleep(seconds)
    return max(b - a for a, b in zip(before, job.steps())) / (time.monotonic() - begin)


def come_to_fault(case, job):
    """The time of the fault, and steps a second before. None: the job did not come so far."""
    whose = case.culprit if case.culprit is not None else 0
    if case.absent is not None:
        return job.first, 0.0
    before = None
    if case.kind.within == 30:
        if not job.wait_steps(lambda steps: steps[whose] >= 0.8 * case.at or
                              time.monotonic() > job.began + 0.8 * case.at * case.plan.seconds(), BEGIN):
            return None
        before = rate(job, 2)
    if not case.kind.healthy or case.inject:
        warm = job.began + case.at * case.plan.seconds()  # what is done from outside may come at any step

        def come(steps):
            return steps[whose] >= case.at or (case.inject and steps[whose] >= 3 and time.monotonic() > warm)
        if not job.wait_steps(come, BEGIN):
            return None
    begin = time.monotonic()
    told = case.inject(job) if case.inject else None
    return (told if isinstance(told, float) else begin), before


def watch(case, job):
    """Looks until there is a verdict, or the time is over."""
    came = come_to_fault(case, job)
    if not came:
        return {"outcome": "no job", "findings": [], "seconds": 0}
    begin, before = came
    patience = case.looking if case.kind.healthy else case.kind.within + (30 if case.kind.name == "spins" else 8)
    steps, last, note, looks, said = job.steps(), [], None, 0, set()
    while True:
        status, findings = job.diagnose()
        looks, seconds = looks + 1, time.monotonic() - begin
        said |= {finding["kind"] for finding in findings if finding["kind"] in NOTES}
        if note is None and notes_right(case, job, findings) and status == 0:
            note = seconds
        done = status in (5, 6) or (case.room and status == 4)
        if done or seconds > patience:
            break
        time.sleep(LOOKS_APART)
    pace = max(b - a for a, b in zip(steps, job.steps())) / seconds
    outcome = judge(case, job, status, findings) if done else "quiet" if case.kind.healthy else "silent"
    if outcome == "right" and seconds > case.kind.within:
        outcome = "noted" if note is not None and note <= case.kind.within else "late"
    if outcome == "silent" and case.kind.within == 30 and before and pace >= before / 2:
        outcome = "mild"  # the job has more than half of its speed
    if outcome == "silent" and case.kind.within == 10 and pace >= 1:
        outcome = "no fault"  # calls that the others do not miss
    return {"outcome": outcome, "seconds": round(seconds, 1), "status": status, "findings": findings, "looks": looks,
            "notes": sorted(said), "note_after": note, "before": before, "pace": round(pace, 2)}


def one(arguments, number, attempt):
    """None: it is too late to begin."""
    if arguments.seconds and time.monotonic() > arguments.began + arguments.seconds:
        return None
    case = draw_case(arguments.seed, number)
    job = Job(arguments.build, arguments.tutti, case, f"dr{os.getpid() % 10000}n{number}")
    for rank in getattr(case, "pipes", []):
        os.mkfifo(f"{job.folder}/pipe-{rank}")
    for rank in range(case.plan.ranks):
        with open(f"{job.folder}/clock-{rank}", "w", encoding="ascii") as file:
            file.write("+0")
    try:
        if hasattr(case, "begin"):
            case.begin(job)
        job.start()
        result = watch(case, job)
        if result["outcome"] not in ("right", "quiet") and arguments.keep:
            shutil.copytree(job.boxes, f"{arguments.keep}/seed{arguments.seed}-{number}-{attempt}", dirs_exist_ok=True)
            with open(f"{arguments.keep}/seed{arguments.seed}-{number}-{attempt}/case", "w", encoding="utf-8") as file:
                file.write(case.words() + "\n" + json.dumps(result, indent=1) + "\n" +
                           "".join(f"---- {rank}\n{case.plan.script(rank)}" for rank in range(case.plan.ranks)))
    except (OSError, RuntimeError, IndexError, ValueError, subprocess.SubprocessError) as error:
        result = {"outcome": "no job", "seconds": 0,
                  "findings": [{"kind": "none", "text": f"{type(error).__name__}: {error}"}]}
    finally:
        job.end()
    result.update(seed=arguments.seed, number=number, kind=case.kind.name, healthy=case.kind.healthy, where=case.where,
                  ranks=case.plan.ranks, shape=case.plan.shape, culprit=case.culprit, host=case.host, attempt=attempt,
                  words=case.words(), load=round(os.getloadavg()[0], 1))
    tell(arguments, result)
    return result


def tell(arguments, result):
    with PRINT:
        print(f"{result['number']}: {result['outcome']} after {result['seconds']} s, load {result['load']}: " +
              result["words"],
              *([] if result["outcome"] in ("right", "quiet") else
                [f"{f['kind']}: {f['text']}" for f in result["findings"]]), sep="\n    ", flush=True)
        if arguments.results:
            with open(arguments.results, "a", encoding="utf-8") as file:
                file.write(json.dumps(result) + "\n")


# ---- Many ----

GOOD = ("right", "quiet", "noted")
NONE = ("no fault", "mild", "no job")  # nothing that a verdict could be about


def said(result):
    """The kind of the first verdict."""
    faults = [finding["kind"] for finding in result["findings"] if finding["kind"] not in NOTES]
    if result["outcome"] == "noted":
        return "note"
    return faults[0] if faults and result["outcome"] not in ("silent", "quiet") else \
        "exit 4" if result.get("status") == 4 else "note" if result.get("notes") else "nothing"


def latest_of(results):
    """The last attempt of each case counts. How many attempts there were, and the first one, are told, too."""
    latest, first, attempts = {}, {}, collections.Counter()
    for result in results:
        key = result["seed"], result["number"]
        latest[key] = result
        first.setdefault(key, result)
        attempts[key] += 1
    return latest, first, attempts


def row_of(kind, mine, first):
    good = [result for result in mine if result["outcome"] in GOOD]
    at_once = sum(first[result["seed"], result["number"]]["outcome"] in GOOD for result in mine)
    late = sum(result["outcome"] == "late" for result in mine)
    words = collections.Counter(map(said, mine))
    seconds = sorted(result["seconds"] for result in good) or [0]
    print(f"| {kind.name.replace('_', ' ')} | {len(mine)} | {len(good)} ({at_once}) | {late or ''} | " +
          ", ".join(f"{word} {count}" for word, count in words.most_common()) + " | " +
          ("" if kind.healthy else f"{seconds[len(seconds) // 2]:.1f}, {seconds[-1]:.1f}") + " |")
    return len(good), at_once


def table(results):
    """A line for each kind, then what stays wrong. The number of cases that are wrong."""
    latest, first, _ = latest_of(results)
    print("| Kind | Cases | Right (first run) | Late | Verdicts | Median, longest s |\n|---|---:|---:|---:|---|---:|")
    sums = collections.Counter()
    for name, kind in KINDS.items():
        mine = [result for result in latest.values() if result["kind"] == name and result["outcome"] not in NONE]
        void = sum(result["kind"] == name and result["outcome"] in NONE for result in latest.values())
        good, at_once = row_of(kind, mine, first) if mine else (0, 0)
        group = "healthy" if kind.healthy else "faults"
        sums.update({group: len(mine), f"{group} right": good, f"{group} first": at_once, f"{group} void": void})
    wrong = [result for result in latest.values() if result["outcome"] not in GOOD + NONE]
    for result in sorted(wrong, key=lambda result: (result["outcome"], result["kind"], result["number"])):
        print(f"{result['outcome']}: seed {result['seed']} number {result['number']}, said {said(result)} after "
              f"{result['seconds']} s at load {result['load']}: {result['words'][:150]}")
    for group in ("faults", "healthy"):
        print(f"{group}: {sums[group + ' right']} of {sums[group]} right, {sums[group + ' first']} at the first run; "
              f"{sums[group + ' void']} drawn cases were none")
    under = [result for result in latest.values() if result["outcome"] == "silent"]
    loads = sorted(result["load"] for result in latest.values()) or [0]
    print(f"exit status 0 for a job that stands still or is below half of its speed: {len(under)}; load of the "
          f"machine: {loads[len(loads) // 2]} (median), {loads[-1]} at most")
    return len(wrong)


def read(names):
    return [json.loads(line) for name in names if os.path.exists(name) for line in open(name, encoding="utf-8")]


def campaign(arguments, results):
    """Runs what `results` does not have so far, and adds that."""
    latest, _, attempts = latest_of(result for result in results if result["seed"] == arguments.seed)

    def is_left(number):
        before = latest.get((arguments.seed, number))
        return before is None or (arguments.again and before["outcome"] not in GOOD + ("no fault", "mild"))

    def run(number):
        return one(arguments, number, attempts[arguments.seed, number])
    numbers = [number for number in arguments.numbers or numbers_of(arguments) if is_left(number)]
    with concurrent.futures.ThreadPoolExecutor(arguments.at_once) as pool:
        results += filter(None, pool.map(run, numbers))
    latest, _, attempts = latest_of(result for result in results if result["seed"] == arguments.seed)
    again = [number for (_, number), result in latest.items()
             if attempts[arguments.seed, number] == 1 and result["outcome"] not in GOOD + ("no fault", "mild")]
    results += filter(None, map(run, again))


def kinds_here(names):
    """Those that this machine allows."""
    root = os.geteuid() == 0
    kept = [name for name in names or KINDS
            if (root or not (set(KINDS[name].where) <= {"lab-tcp", "lab-verbs"} or
                             name in ("frozen", "quota", "no_room", "in_time_namespace", "time_namespaces",
                                      "user_namespaces", "process_namespaces", "traced")))
            and (os.path.exists(FAKETIME) or "clock" not in name)]
    left = [name for name in names or KINDS if name not in kept]
    if left:
        print(f"NOT tried here: {' '.join(left)}")
    return kept


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--tutti", help="another program than that of BUILD")
    parser.add_argument("--cases", type=int, default=600)
    parser.add_argument("--from", dest="first", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--at-once", type=int, default=4)
    parser.add_argument("--only", "--kinds", dest="kinds", nargs="*", choices=list(KINDS))
    parser.add_argument("--where", nargs="*", choices=ANY, default=ANY)
    parser.add_argument("--ranks", type=int, default=16, help="at most")
    parser.add_argument("--numbers", nargs="*", type=int)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--results")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--keep")
    parser.add_argument("--check", action="store_true", help="exit status 1 if a case is not right, alone neither")
    parser.add_argument("--table", nargs="*")
    parser.add_argument("--first", action="store_true")
    arguments = parser.parse_args()
    arguments.build = os.path.abspath(arguments.build)
    arguments.tutti = os.path.abspath(arguments.tutti or f"{arguments.build}/cli/tutti")
    if arguments.table:
        table([result for result in read(arguments.table) if not (arguments.first and result["attempt"])])
        return 0
    arguments.kinds, arguments.began = kinds_here(arguments.kinds), time.monotonic()
    results = read([arguments.results] if arguments.results else [])
    campaign(arguments, results)
    wrong = table(results)
    return arguments.check and wrong > 0


if __name__ == "__main__":
    sys.exit(main())
