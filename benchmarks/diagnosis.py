#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Injects faults into real jobs and asks `tutti diagnose` who it was.

    diagnosis.py TUTTI FAULTY --each            every kind of fault once: exit status 1 if any verdict is wrong
    diagnosis.py TUTTI FAULTY --runs 60 --seed 1   kinds, culprits, transports drawn; prints a table of what was said

A job has 4 to 8 ranks and three communicators a rank: with a neighbour,
with the ranks at the same place of other pairs, with all.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

# fault: (kinds of finding that are right, is one rank the culprit?)
EXPECTED = {
    "absent": ({"joining"}, True),
    "stop": ({"stopped"}, True),
    "kill": ({"dead"}, True),
    "hang": ({"behind"}, True),
    "skip": ({"mismatch"}, True),
    "count": ({"mismatch"}, True),
    "type": ({"mismatch"}, True),
    "slow": ({"slow", "starved"}, True),
    "starve": ({"starved", "slow", "behind", "still", "unread"}, True),  # one that never runs also stands still
    "none": ({"nothing"}, False),
    "noise": ({"nothing"}, False),  # other programs take the processors, for moments
}
QUICK = ("stop", "kill", "hang", "count", "slow", "none")
HEALTHY = 4    # seconds of looking at a job without a fault
NOISE = ("import random, time\nwhile True:\n  end = time.time() + random.random() / 20\n"
         "  while time.time() < end: pass\n  time.sleep(random.random() / 10)")
PATIENCE = 60  # seconds for a verdict; all but slowness come in the first few


class Job:
    def __init__(self, faulty, ranks, fault, culprit, transport):
        self.folder = tempfile.mkdtemp(prefix="tutti-diagnosis-")
        self.fault, self.culprit, self.ranks = fault, culprit, ranks
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.others = []
        self.processes = []
        for rank in range(ranks):
            if fault == "absent" and rank == culprit:
                continue
            env = dict(os.environ, TUTTI_RANK=str(rank), TUTTI_SIZE=str(ranks), TUTTI_LOCAL_RANK=str(rank),
                       TUTTI_LOCAL_SIZE=str(ranks), TUTTI_ID=f"127.0.0.1:{port}", TUTTI_NONCE="%032x" % port,
                       TUTTI_TRANSPORT=transport, TUTTI_TRACE_DIR=self.folder, TUTTI_TIMEOUT="300s")
            self.processes.append(subprocess.Popen([faulty, fault, str(culprit), "30"], env=env, stdout=subprocess.PIPE,
                                                   stderr=subprocess.DEVNULL, text=True))
        for process in self.processes if fault != "absent" else ():
            process.stdout.readline()  # "at 30", or what failed

    def inject(self):
        if self.fault == "noise":
            self.others += [subprocess.Popen([sys.executable, "-c", NOISE]) for _ in range(2)]
        if self.fault not in ("stop", "kill", "starve"):
            return
        process = self.processes[self.culprit]
        if self.fault == "stop":
            process.send_signal(signal.SIGSTOP)
        elif self.fault == "kill":
            process.kill()
        elif self.fault == "starve":
            self.starve(process.pid)

    def starve(self, pid):
        """One processor, which others use: it gets a hundredth of it."""
        cpu = max(os.sched_getaffinity(0))
        for task in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(task), {cpu})
            os.setpriority(os.PRIO_PROCESS, int(task), 19)
        for _ in range(2):
            other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
            os.sched_setaffinity(other.pid, {cpu})
            self.others.append(other)

    def diagnose(self, tutti):
        done = subprocess.run([tutti, "diagnose", "--json", "--dead", "--dir", self.folder], capture_output=True,
                              text=True, timeout=120)
        try:
            return done.returncode, json.loads(done.stdout)["findings"]
        except (ValueError, KeyError):
            return done.returncode, [{"kind": "unreadable", "world_rank": None, "text": done.stdout + done.stderr}]

    def end(self):
        for process in self.processes + self.others:
            process.kill()
        for process in self.processes + self.others:
            process.wait()
            if process.stdout:
                process.stdout.close()
        shutil.rmtree(self.folder)


def right(fault, culprit, findings):
    kinds, named = EXPECTED[fault]
    if not findings:
        return not EXPECTED[fault][1]
    if len(findings) > 1 or findings[0]["kind"] not in kinds:
        return False
    return not named or findings[0]["world_rank"] == culprit


def said(findings):
    return findings[0]["kind"] if findings else "nothing"


def one(tutti, faulty, ranks, fault, culprit, transport):
    """What was said, whether it is right, seconds until it was, and the findings."""
    job = Job(faulty, ranks, fault, culprit, transport)
    try:
        job.inject()
        begin = time.monotonic()
        while True:
            _, findings = job.diagnose(tutti)
            waited = time.monotonic() - begin
            if findings or waited > (HEALTHY if fault in ("none", "noise") else PATIENCE):
                return said(findings), right(fault, culprit, findings), waited, findings
    finally:
        job.end()


def attempt(arguments, fault, culprit, transport):
    """What depends on the machine's other work has a second chance: chance does not strike twice."""
    case = one(arguments.tutti, arguments.faulty, 4, fault, culprit, transport)
    if not case[1] and fault in ("slow", "starve", "none", "noise"):
        print(f"again, as this was said of {fault} of rank {culprit}:",
              *(finding["text"] for finding in case[3]), sep="\n    ")
        case = one(arguments.tutti, arguments.faulty, 4, fault, culprit, transport)
    return case


def each(arguments):
    """Three jobs at a time: some wait most of their time, and noise must not matter. TUTTI_TEST_QUICK:
    some kinds only."""
    draw = random.Random(arguments.seed)
    names = arguments.faults or (QUICK if os.environ.get("TUTTI_TEST_QUICK") else EXPECTED)
    cases = [(fault, draw.randrange(4), ("shm", "tcp")[number % 2]) for number, fault in enumerate(names)]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        work = [pool.submit(attempt, arguments, *case) for case in cases]
        for (fault, culprit, transport), case in zip(cases, work):
            what, good, seconds, findings = case.result()
            print(f"{fault} of rank {culprit} over {transport}: {'right' if good else 'WRONG'}, {what} after "
                  f"{seconds:.1f} s")
            for finding in findings:
                print("   ", finding["text"])
            failed += not good
    return failed != 0


def table(counts, kinds):
    width = max(map(len, kinds)) + 2
    print("fault".ljust(8), *(kind.ljust(width) for kind in kinds), "right culprit")
    for fault in EXPECTED:
        row = counts[fault]
        total = sum(row["said"].values())
        if total:
            print(fault.ljust(8), *(str(row["said"][kind] or ".").ljust(width) for kind in kinds),
                  f"{row['right']} of {total}")


def runs(arguments):
    draw = random.Random(arguments.seed)
    counts = {fault: {"said": collections.Counter(), "right": 0, "seconds": []} for fault in EXPECTED}
    names = arguments.faults or list(EXPECTED)
    for number in range(arguments.runs):
        fault, ranks, transport = names[number % len(names)], draw.choice((4, 6, 8)), draw.choice(("shm", "tcp"))
        culprit = draw.randrange(ranks)
        what, good, seconds, findings = one(arguments.tutti, arguments.faulty, ranks, fault, culprit, transport)
        counts[fault]["said"][what] += 1
        counts[fault]["right"] += good
        counts[fault]["seconds"].append(seconds)
        if not good:
            print(f"run {number}: {fault} of rank {culprit} of {ranks} over {transport}: {what}",
                  *(f["text"] for f in findings), sep="\n    ")
            sys.stdout.flush()
    table(counts, sorted({kind for row in counts.values() for kind in row["said"]}))
    faults = sorted(s for fault, row in counts.items() if EXPECTED[fault][1] for s in row["seconds"])
    good = sum(row["right"] for row in counts.values())
    print(f"{good} of {arguments.runs} right, seed {arguments.seed}", end="")
    print(f"; time to the verdict: median {faults[len(faults) // 2]:.1f} s, longest {faults[-1]:.1f} s"
          if faults else "")
    return 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tutti")
    parser.add_argument("faulty")
    parser.add_argument("--each", action="store_true")
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--faults", nargs="*")
    arguments = parser.parse_args()
    return each(arguments) if arguments.each else runs(arguments)


if __name__ == "__main__":
    sys.exit(main())
