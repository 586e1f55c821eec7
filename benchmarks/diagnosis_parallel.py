#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Injects faults, drawn by seed, into jobs of 16 ranks in three parallel dimensions, and asks `tutti diagnose` who
it was.

    diagnosis_parallel.py TUTTI PARALLEL LAB [--runs 60] [--seed 1] [--ranks 16|32|64] [--faults NAME...] [--check]
                          [--transport verbs] [--keep FOLDER]

A job has parts of a tensor x stages of a pipeline x copies of the data, a communicator for each dimension, and one
of all. Faults of the network want root: each host is a namespace of a lab (`tutti-lab`), whose links are
shaped or cut; --transport verbs takes the library that TUTTI_IBVERBS_LIBRARY names. With --check a verdict that is
wrong three times makes exit status 1. --keep copies the black boxes of wrong runs, as they are after the verdict:
`tutti diagnose` reads them.
"""
import argparse
import collections
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from diagnosis import CHANCES, NOISE, verdicts_of
from held_port import hold_port

SHAPES = {16: ("2x4x2", "2x2x4", "4x2x2"), 32: ("4x4x2", "2x4x4"), 64: ("4x4x4", "8x4x2")}
EACH = 4  # ranks of a host, where there are several
SHARED = "/dev/shm"  # where black boxes are memory
HANGS = {"stop": {"stopped"}, "kill": {"dead"}, "hang": {"behind"}, "skip": {"mismatch"}, "count": {"mismatch"}}
SLOWS = {"slow": {"slow", "starved"}, "loader": {"slow", "starved"}, "quota": {"starved", "slow"}}
NETWORK = {"nic": {"interface"},                        # everything to and from a host is slow
           "out": {"interface"},                        # what leaves it alone
           "in": {"interface"},                         # what comes to it alone
           "uplink": {"link"},                          # of two uplinks of a leaf one is slow
           # one loses what goes into it: hangs, until lanes move
           "blackhole": {"unread", "ahead", "circle", "link", "cut"}}
SLOW_NETWORK = ("nic", "out", "in", "uplink")
WAYS = {"out": "what goes out of it is slow", "in": "what comes into it is slow"}
HEALTHY = ("none", "noise", "fabric", "pause")          # over hosts with noise; over hosts, and one was stopped before
FAULTS = (*HANGS, *SLOWS, *NETWORK, "two", *HEALTHY)
HOSTED = (*NETWORK, "fabric", "pause")  # over hosts of a lab
IN_PROGRAM = ("hang", "skip", "count", "slow", "loader")
PATIENCE, LOOKING = 30, 10  # seconds for a verdict, and of looking at a healthy job
PROMISED = {"hang": 10, "slow": 30}
QUOTA = "/sys/fs/cgroup/cpu"  # of the first version of control groups; else the second's
RATE, SLOW = "400mbit", {"rate": "20mbit"}  # of interfaces, and of a slow one
QUEUE = ("burst", "72kb", "limit", "512kb")  # of a shaped port, as the lab's
ELEMENTS = 40960  # between stages over hosts: more than a message of TCP holds, as of real jobs, so that it is recorded
DEVICE = "soft_"  # so the names of softverbs' devices begin
PAUSE = 5  # seconds; then the job goes on
LITTLE = 500_000  # bytes: three messages from stage to stage
AT, AT_HOSTS = 30, 10  # steps before the fault; fewer where each takes longer


def within(name):
    """Seconds that are promised for a verdict on this fault."""
    return PROMISED["slow" if name in SLOWS or name in SLOW_NETWORK else "hang"]


class Lab:
    """Hosts, two below each leaf, and two spines."""

    def __init__(self, program, hosts):
        self.program, self.name = program, f"tuttidiag{os.getpid() % 10000}"
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="ascii") as file:
            file.write(f"name: {self.name}\nhosts: {hosts}\nnics: 1\nleaves: {hosts // 2}\nspines: 2\nuplinks: 1\n"
                       "wiring: rack\n"
                       f"rate: {RATE}\nmtu: 4200\nhash_seed: 1\n")
            file.flush()
            self.run("up", file.name)
        self.addresses = [host["ipv4"] for host in json.loads(self.run("hosts", "--json"))]

    def run(self, *words):
        named = () if words[0] == "up" else ("--name", self.name)
        return subprocess.run([self.program, words[0], *named, *words[1:]], check=True, capture_output=True, text=True,
                              timeout=60).stdout

    def inside(self, host, words):
        return [self.program, "run", "--name", self.name, f"h{host}", "--", *words]

    def shape(self, node, port, rate):
        """One end of a link: what leaves by this port."""
        self.run("run", node, "--", "tc", "qdisc", "replace", "dev", port, "root", "handle", "1:", "tbf", "rate", rate,
                 *QUEUE)

    def carried(self, node, port):
        """Bytes of both ways so far."""
        files = [f"/sys/class/net/{port}/statistics/{way}_bytes" for way in ("rx", "tx")]
        return sum(map(int, self.run("run", node, "--", "cat", *files).split()))

    def end(self):
        self.run("down")


class Job:
    def __init__(self, arguments, shape, faults, transport, lab=None):
        self.folder = tempfile.mkdtemp(prefix="tutti-diagnosis-", dir=SHARED if os.path.isdir(SHARED) else None)
        self.faults, self.lab, self.others, self.groups, self.processes = faults, lab, [], [], []
        size = arguments.ranks
        held, port = hold_port()
        words = [arguments.parallel, f"{shape}x{ELEMENTS}" if lab else shape, str(AT_HOSTS if lab else AT),
                 *(f"{n}:{rank}" for n, rank in faults if n in IN_PROGRAM)]
        for rank in range(size):
            host, local = divmod(rank, EACH)
            env = dict(os.environ, TUTTI_RANK=str(rank), TUTTI_SIZE=str(size), TUTTI_NONCE="%032x" % port,
                       TUTTI_LOCAL_RANK=str(local if lab else rank),
                       TUTTI_LOCAL_SIZE=str(EACH if lab else size),
                       TUTTI_ID=f"{lab.addresses[0] if lab else '127.0.0.1'}:{port}", TUTTI_TIMEOUT="300s",
                       TUTTI_TRANSPORT=transport, TUTTI_TRACE_DIR=self.folder, TUTTI_SPIN="0")
            self.processes.append(subprocess.Popen(lab.inside(host, words) if lab else words, env=env, text=True,
                                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                                   start_new_session=True))
        before = self.uplinks()
        watch = threading.Timer(PATIENCE * size / EACH, self.kill)  # the more ranks, the longer
        watch.start()
        with held:
            self.said = [process.stdout.readline() for process in self.processes]
        watch.cancel()
        self.choose_uplink(before)

    # ---- A fault that nothing meets is none: of the two uplinks of a leaf one that carries something is taken

    def uplinks(self):
        drawn = [culprit for name, culprit in self.faults if name in ("uplink", "blackhole")]
        return {one: self.lab.carried(f"l{one // 2}", f"u{one % 2}") for at in drawn for one in (at, at ^ 1)}

    def choose_uplink(self, before):
        carried = {one: after - before[one] for one, after in self.uplinks().items()}
        for i, (name, culprit) in enumerate(self.faults):
            if culprit in carried and carried[culprit] < LITTLE < carried[culprit ^ 1]:
                print(f"l{culprit // 2}.u{culprit % 2} carries nothing: {name} of the other one", flush=True)
                self.faults[i] = (name, culprit ^ 1)

    # ---- The fault

    def inject(self):
        for name, culprit in self.faults:
            process = self.processes[culprit] if culprit is not None and culprit < len(self.processes) else None
            if name == "stop":
                process.send_signal(signal.SIGSTOP)
            elif name == "kill":
                process.kill()
            elif name == "pause":
                process.send_signal(signal.SIGSTOP)
                time.sleep(PAUSE)
                process.send_signal(signal.SIGCONT)
                time.sleep(1)
            elif name == "quota":
                self.limit(process.pid)
            elif name in ("noise", "fabric"):
                self.others += [subprocess.Popen([sys.executable, "-c", NOISE]) for _ in range(2)]
            elif name == "nic":
                self.lab.run("rate", f"h{culprit}.n0", SLOW["rate"])
            elif name == "out":
                self.lab.shape(f"h{culprit}", "n0", SLOW["rate"])
            elif name == "in":
                self.lab.shape(f"l{culprit // 2}", f"h{culprit}n0", SLOW["rate"])
            elif name == "uplink":
                self.lab.run("rate", f"l{culprit // 2}.u{culprit % 2}", SLOW["rate"])
            elif name == "blackhole":
                self.lab.run("link", "down", f"l{culprit // 2}.u{culprit % 2}", "--silent")

    def limit(self, pid):
        """A control group gives it 2 ms of a processor in 500."""
        old = os.path.isdir(QUOTA)
        group = os.path.join(QUOTA if old else "/sys/fs/cgroup", f"tutti-diagnosis-{os.getpid()}-{pid}")
        os.mkdir(group)
        self.groups.append(group)
        for name, value in ((("cpu.cfs_period_us", "500000"), ("cpu.cfs_quota_us", "2000")) if old else
                            (("cpu.max", "2000 500000"),)):
            with open(os.path.join(group, name), "w", encoding="ascii") as file:
                file.write(value)
        with open(os.path.join(group, "cgroup.procs"), "w", encoding="ascii") as file:
            file.write(str(pid))

    def diagnose(self, tutti):
        done = subprocess.run([tutti, "diagnose", "--json", "--dead", "--dir", self.folder], capture_output=True,
                              text=True, timeout=120)
        try:
            return verdicts_of(json.loads(done.stdout))
        except (ValueError, KeyError):
            return [{"kind": "unreadable", "world_rank": None, "peer": None, "text": done.stdout + done.stderr}]

    def calls(self, tutti):
        """How many calls of all ranks its first process remembers to have made."""
        done = subprocess.run([tutti, "trace", "--dir", self.folder], capture_output=True, text=True, timeout=120)
        numbers = re.findall(r"^ +(\d+) allreduce +1 float", done.stdout.split("\nprocess ")[0], re.M)
        return max(map(int, numbers), default=0)

    def kill(self):
        for process in self.processes:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def end(self):
        self.kill()
        for process in self.processes + self.others:
            process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()
        for group in self.groups:
            with contextlib.suppress(OSError):
                time.sleep(0.1)
                os.rmdir(group)
        if self.lab:
            for name, culprit in self.faults:
                if name in ("nic", "out", "in"):
                    self.lab.run("rate", f"h{culprit}.n0", RATE)
                elif name in ("uplink", "blackhole"):
                    link = f"l{culprit // 2}.u{culprit % 2}"
                    self.lab.run("rate", link, RATE) if name == "uplink" else self.lab.run("link", "up", link)
        shutil.rmtree(self.folder)


# ---- What is right ----

def hosts_of(finding, shape, ranks):
    """Those of the two ranks that it names. That of a communicator within the world is a pipeline, whose stages are
    blocks of ranks."""
    named, block = [finding["world_rank"], finding["peer"]], ranks // int(shape.split("x")[1])
    if "/" in finding["name"]:
        named[1] = named[1] * block + named[0] % block
    return [rank // EACH for rank in named]


def fits(finding, fault, shape, ranks):
    name, culprit = fault
    if name in HANGS or name in SLOWS:
        return finding["kind"] in {**HANGS, **SLOWS}[name] and finding["world_rank"] == culprit
    if finding["kind"] not in NETWORK.get(name, ()):
        return False
    if name in ("nic", "out", "in"):
        return finding["host"] == f"h{culprit}" and WAYS.get(name, "") in finding["text"]
    if name == "blackhole" and finding["kind"] != "link":
        return True
    hosts = hosts_of(finding, shape, ranks)
    return hosts[0] // 2 != hosts[1] // 2  # between the leaves, where every second flow is hit


def right(case, findings, ranks):
    """All that is named was injected, and something is. What lanes over RDMA told is of an RDMA device."""
    shape, faults, transport = case
    if faults[0][0] in HEALTHY:
        return not findings
    if any(finding["kind"] == "interface" and (f"interface {DEVICE}" in finding["text"]) != (transport == "verbs")
           for finding in findings):
        return False
    return bool(findings) and all(any(fits(finding, fault, shape, ranks) for fault in faults) for finding in findings)


def draw_case(draw, name, ranks, transport):
    shape = draw.choice(SHAPES[ranks])
    if name in HOSTED:
        culprit = draw.randrange(ranks if name == "pause" else ranks // EACH)
        return shape, [(name, None if name == "fabric" else culprit)], transport
    if name == "two":
        kinds = draw.sample(("stop", "kill", "hang"), 2)
        return shape, list(zip(kinds, draw.sample(range(ranks), 2))), draw.choice(("shm", "tcp"))
    return shape, [(name, draw.randrange(ranks))], draw.choice(("shm", "tcp"))


def gets_on(job, tutti):
    """Lanes have left the black hole: ten more steps, within as long as a verdict may take."""
    begin, before = time.monotonic(), job.calls(tutti)
    while time.monotonic() < begin + PATIENCE:
        if job.calls(tutti) >= before + 10:
            return True
        time.sleep(0.5)
    return False


def keep(arguments, number, job):
    """The black boxes of a wrong run, to be looked at again."""
    if arguments.keep:
        to = os.path.join(arguments.keep, f"seed{arguments.seed}-run{number}")
        shutil.copytree(job.folder, to, dirs_exist_ok=True)


def one(arguments, name, number, case, lab):
    """What was said, whether it is right, seconds until it was said, and the findings."""
    shape, faults, transport = case
    job = Job(arguments, shape, faults, transport, lab if name in HOSTED else None)
    try:
        if any(not re.match("at ", said) for said in job.said):
            return "no job", False, 0.0, [{"text": "not all ranks came to the fault in time: " + " ".join(job.said)}]
        job.inject()
        begin = time.monotonic()
        while True:
            findings = job.diagnose(arguments.tutti)
            waited = time.monotonic() - begin
            if findings or waited > (LOOKING if name in HEALTHY else PATIENCE):
                said = findings[0]["kind"] if findings else "nothing"
                good = right(case, findings, arguments.ranks)
                if name == "blackhole" and not findings:
                    good = gets_on(job, arguments.tutti)
                if not good:
                    keep(arguments, number, job)
                return said, good, waited, findings
    finally:
        job.end()


# ---- Many ----

def table(rows):
    kinds = sorted({kind for row in rows.values() for kind in row["said"]})
    widths = [max(len(kind), 2) + 2 for kind in kinds]
    print("fault".ljust(11) + "".join(kind.ljust(width) for kind, width in zip(kinds, widths)) +
          "right      in time    median s  longest s")
    for name, row in rows.items():
        total = sum(row["said"].values())
        if total:
            seconds = sorted(row["seconds"])
            print(name.ljust(11) + "".join(str(row["said"][kind] or ".").ljust(width)
                                           for kind, width in zip(kinds, widths)) +
                  f"{row['right']} of {total}".ljust(11) + f"{row['in_time']} of {total}".ljust(11) +
                  f"{seconds[len(seconds) // 2]:<10.1f}{seconds[-1]:.1f}")


def judged(arguments, name, number, case, lab):
    """With --check, what is wrong is tried again: the machine's other work makes one run wrong, and not three."""
    for _ in range(CHANCES if arguments.check else 1):
        said, good, seconds, findings = one(arguments, name, number, case, lab)
        print(f"run {number}: {case}: {'right' if good else 'WRONG'}, {said} after {seconds:.1f} s",
              *(() if good else [finding["text"] for finding in findings]), sep="\n    ", flush=True)
        if good:
            break
    return said, good, seconds


def runs(arguments, names, lab):
    rows = {name: {"said": collections.Counter(), "right": 0, "in_time": 0, "seconds": []} for name in names}
    draw = random.Random(arguments.seed)
    begin = time.monotonic()
    done = 0
    for number in range(arguments.runs):
        name = names[number % len(names)]
        case = draw_case(draw, name, arguments.ranks, arguments.transport)
        if arguments.seconds and time.monotonic() - begin > arguments.seconds:
            break
        said, good, seconds = judged(arguments, name, number, case, lab)
        done += 1
        row = rows[name]
        row["said"][said] += 1
        row["right"] += good
        row["in_time"] += good and (name in HEALTHY or seconds <= within(name))
        row["seconds"].append(seconds)
    table(rows)
    good = sum(row["right"] for row in rows.values())
    print(f"{good} of {done} right, seed {arguments.seed}, {arguments.ranks} ranks, load {os.getloadavg()[0]:.0f} on "
          f"{os.cpu_count()} processors")
    return arguments.check and good < done


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tutti")
    parser.add_argument("parallel")
    parser.add_argument("lab")
    parser.add_argument("--runs", type=int, default=60)
    parser.add_argument("--seconds", type=float, help="begin no run after this time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--ranks", type=int, choices=sorted(SHAPES), default=16)
    parser.add_argument("--slow-rate", default=SLOW["rate"], help="of a slow interface (%(default)s)")
    parser.add_argument("--transport", choices=("tcp", "verbs"), default="tcp", help="between hosts")
    parser.add_argument("--keep", help="a folder for the black boxes of wrong runs")
    parser.add_argument("--faults", nargs="*", choices=FAULTS, default=FAULTS)
    arguments = parser.parse_args()
    SLOW["rate"] = arguments.slow_rate
    names = list(arguments.faults)
    lab = None
    if os.geteuid() != 0:
        left = [name for name in names if name in HOSTED or name == "quota"]
        names = [name for name in names if name not in left]
        print(f"not root: {' '.join(left)} NOT tried")
        if not names:
            return 77
    if any(name in HOSTED for name in names):
        lab = Lab(arguments.lab, arguments.ranks // EACH)
    try:
        return runs(arguments, names, lab)
    finally:
        if lab:
            lab.end()


if __name__ == "__main__":
    sys.exit(main())
