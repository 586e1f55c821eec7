#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Injects faults into real jobs and asks `tutti diagnose` who it was.

    diagnosis.py TUTTI FAULTY --each            every kind of fault once: exit status 1 if any verdict is wrong
    diagnosis.py TUTTI FAULTY --runs 60 --seed 1   kinds, culprits, transports drawn; prints a table of what was said
    diagnosis.py TUTTI FAULTY_GPU --gpus FOLDER ...   faults of GPUs, on the stand-in driver that lies in FOLDER

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
import subprocess
import sys
import tempfile
import threading
import time

from held_port import hold_port

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
# fault of a GPU: the driver's call that fails, as TUTTI_EMULATED_FAULT tells; what the verdict must say of it
LAUNCH = "cuLaunchKernel:{n}:{error},cuLaunchKernelEx:{n}:{error}"
DRIVER = {"ecc": (LAUNCH, "214:sticky", "CUDA_ERROR_ECC_UNCORRECTABLE"),
          "nvlink": (LAUNCH, "220:sticky", "CUDA_ERROR_NVLINK_UNCORRECTABLE"),
          "launch": (LAUNCH, "719:sticky", "CUDA_ERROR_LAUNCH_FAILED")}
EXPECTED_OF_GPUS = {
    **{fault: ({"failed"}, True) for fault in DRIVER},
    "never": ({"still", "behind"}, True),  # nothing begins on its stream any more
    "memory": ({"behind"}, True),          # the program has caught the error, and calls no more
    # The program's own work on its stream takes longer than the others'. Where the processors lack, it has none, too.
    "late": ({"slow", "starved"}, True),
    "none": ({"nothing"}, False),
}
QUICK = ("stop", "kill", "hang", "count", "slow", "none")
HEALTHY = 4    # seconds of looking at a job without a fault
NOISE = ("import random, time\nwhile True:\n  end = time.time() + random.random() / 20\n"
         "  while time.time() < end: pass\n  time.sleep(random.random() / 10)")
PATIENCE = 60  # seconds for a verdict; all but slowness come in the first few
LOADED = ("slow", "late", "starve", "none", "noise")  # whose verdicts depend on the machine's other work: they have
CHANCES = 3    # at most, the last one with no other job of this program beside it


def settings_of_gpus(folder, ranks, fault, mine):
    """The environment of one rank. Its driver's calls are counted from the start: some hundred come before step 30."""
    env = {"TUTTI_TEST_GPU": "1", "TUTTI_EMULATED_GPUS": str(ranks), "TUTTI_EMULATED_MEMORY": "256M",
           "LD_LIBRARY_PATH": os.pathsep.join(filter(None, (folder, os.environ.get("LD_LIBRARY_PATH"))))}
    if mine and fault in DRIVER:
        call, error, _ = DRIVER[fault]
        env["TUTTI_EMULATED_FAULT"] = call.format(n=150, error=error)
    return env


def verdicts_of(answer):
    """All findings that are no notes: a note says why ranks wait, or what was once, and nobody is to blame."""
    return [finding for finding in answer["findings"] if finding["class"] != "no fault"]


class Job:
    def __init__(self, faulty, ranks, fault, culprit, transport, gpus=None):
        self.folder = tempfile.mkdtemp(prefix="tutti-diagnosis-")
        self.fault, self.culprit, self.ranks = fault, culprit, ranks
        self.held, port = hold_port()
        self.others = []
        self.processes = []
        for rank in range(ranks):
            if fault == "absent" and rank == culprit:
                continue
            env = dict(os.environ, TUTTI_RANK=str(rank), TUTTI_SIZE=str(ranks), TUTTI_LOCAL_RANK=str(rank),
                       TUTTI_LOCAL_SIZE=str(ranks), TUTTI_ID=f"127.0.0.1:{port}", TUTTI_NONCE="%032x" % port,
                       TUTTI_TRANSPORT=transport, TUTTI_TRACE_DIR=self.folder, TUTTI_TIMEOUT="300s",
                       **(settings_of_gpus(gpus, ranks, fault, rank == culprit) if gpus else {}))
            self.processes.append(subprocess.Popen([faulty, fault, str(culprit), "30"], env=env, stdout=subprocess.PIPE,
                                                   stderr=subprocess.DEVNULL, text=True))
        self.said = []

    def begin(self, tutti):
        """Waits for what each rank says first: "at 30", or what failed."""
        if self.fault == "absent":
            return
        watch = threading.Timer(PATIENCE, self.give_up, [tutti])
        watch.start()
        self.said = [process.stdout.readline() for process in self.processes]
        watch.cancel()
        if not all(self.said):
            raise RuntimeError(f"{self.fault}: not all ranks came so far: {self.said}")

    def give_up(self, tutti):
        """A job that does not come to its fault is ended; what is known of it is told."""
        print(f"{self.fault}: silent for {PATIENCE} s:", subprocess.run(
            [tutti, "trace", "--dir", self.folder], capture_output=True, text=True, check=False).stdout, flush=True)
        for process in self.processes:
            process.kill()

    def inject(self):
        if self.fault == "noise":
            self.others += [subprocess.Popen([sys.executable, "-c", NOISE]) for _ in range(2)]
        if self.fault in DRIVER and self.said[self.culprit].startswith("at"):
            self.processes[self.culprit].stdout.readline()  # the call comes some steps later
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
            return verdicts_of(json.loads(done.stdout))
        except (ValueError, KeyError):
            return [{"kind": "unreadable", "world_rank": None, "text": done.stdout + done.stderr}]

    def end(self):
        for process in self.processes + self.others:
            process.kill()
        for process in self.processes + self.others:
            process.wait()
            if process.stdout:
                process.stdout.close()
        shutil.rmtree(self.folder)
        self.held.close()


def right(arguments, fault, culprit, findings):
    kinds, named = arguments.expected[fault]
    if not findings:
        return not named
    if fault in DRIVER and (DRIVER[fault][2] not in findings[0]["text"] or "Xid" not in findings[0]["remedy"]):
        return False
    if len(findings) > 1 or findings[0]["kind"] not in kinds:
        return False
    return not named or findings[0]["world_rank"] == culprit


def said(findings):
    return findings[0]["kind"] if findings else "nothing"


def one(arguments, ranks, fault, culprit, transport):
    """What was said, whether it is right, seconds until it was, and the findings."""
    job = Job(arguments.faulty, ranks, fault, culprit, transport, arguments.gpus)
    try:
        job.begin(arguments.tutti)
        job.inject()
        begin = time.monotonic()
        while True:
            findings = job.diagnose(arguments.tutti)
            waited = time.monotonic() - begin
            if findings or waited > (HEALTHY if fault in ("none", "noise") else PATIENCE):
                return said(findings), right(arguments, fault, culprit, findings), waited, findings
    finally:
        job.end()


def tell(case, findings, good, seconds):
    fault, culprit, transport = case
    print(f"{fault} of rank {culprit} over {transport}: {'right' if good else 'WRONG'}, {said(findings)} after "
          f"{seconds:.1f} s", *(finding["text"] for finding in findings), sep="\n    ", flush=True)


def attempt(arguments, case):
    _, good, seconds, findings = one(arguments, 4, *case)
    tell(case, findings, good, seconds)
    return good


def each(arguments):
    """Three jobs at a time, as some wait most of their time; of GPUs two, as each stand-in has many threads. What is
    wrong and depends on the machine's other work is tried again, at last alone: chance does not strike three times."""
    draw = random.Random(arguments.seed)
    names = arguments.faults or \
        (QUICK if os.environ.get("TUTTI_TEST_QUICK") and not arguments.gpus else list(arguments.expected))
    cases = [(fault, draw.randrange(4), ("shm", "tcp")[number % 2])
             for number, fault in enumerate(name for name in names for _ in range(2 if arguments.gpus else 1))]
    failed = 0
    for chance in range(CHANCES):
        with concurrent.futures.ThreadPoolExecutor(1 if chance == CHANCES - 1 else 2 if arguments.gpus else 3) as pool:
            wrong = [case for case, good in zip(cases, pool.map(lambda case: attempt(arguments, case), cases))
                     if not good]
        cases = [case for case in wrong if case[0] in LOADED]
        failed += len(wrong) - len(cases)
        if not cases:
            break
        print(f"{len(cases)} of these depend on the machine's other work", flush=True)
    return failed + len(cases) != 0


def table(arguments, counts, kinds):
    width = max(map(len, kinds)) + 2
    print("fault".ljust(8), *(kind.ljust(width) for kind in kinds), "right culprit")
    for fault in arguments.expected:
        row = counts[fault]
        total = sum(row["said"].values())
        if total:
            print(fault.ljust(8), *(str(row["said"][kind] or ".").ljust(width) for kind in kinds),
                  f"{row['right']} of {total}")


def runs(arguments):
    draw = random.Random(arguments.seed)
    counts = {fault: {"said": collections.Counter(), "right": 0, "seconds": []} for fault in arguments.expected}
    names = arguments.faults or list(arguments.expected)
    for number in range(arguments.runs):
        sizes = (2, 4) if arguments.gpus else (4, 6, 8)  # each emulated GPU has many threads
        fault, ranks, transport = names[number % len(names)], draw.choice(sizes), draw.choice(("shm", "tcp"))
        culprit = draw.randrange(ranks)
        what, good, seconds, findings = one(arguments, ranks, fault, culprit, transport)
        counts[fault]["said"][what] += 1
        counts[fault]["right"] += good
        counts[fault]["seconds"].append(seconds)
        if not good:
            print(f"run {number}: {fault} of rank {culprit} of {ranks} over {transport}: {what}",
                  *(f["text"] for f in findings), sep="\n    ")
            sys.stdout.flush()
    table(arguments, counts, sorted({kind for row in counts.values() for kind in row["said"]}))
    faults = sorted(s for fault, row in counts.items() if arguments.expected[fault][1] for s in row["seconds"])
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
    parser.add_argument("--gpus", help="the folder of the stand-in for the CUDA driver; FAULTY is faulty_gpu")
    arguments = parser.parse_args()
    arguments.expected = EXPECTED_OF_GPUS if arguments.gpus else EXPECTED
    return each(arguments) if arguments.each else runs(arguments)


if __name__ == "__main__":
    sys.exit(main())
