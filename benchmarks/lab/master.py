# SPDX-License-Identifier: Apache-2.0
"""Eight jobs of two hosts at once, one host of each at either leaf, with source ports of the path master, against ECMP
and against CTCCL's equation. The jobs have each second host of a leaf: the equation counts NICs, and cannot know which
of them send. Then one uplink fails while all run, and the master is told."""
import contextlib
import statistics
import subprocess
import time

from fabric import FOREVER, Job, Lab, Ports
from paths import Paths
from result import Row, spread

TITLE = "8 jobs of 2 hosts at once: paths by a master against ECMP and the equation"
JOBS, UPLINK, LANES = 8, 10, 2  # Mbit/s, of NICs, too
HOSTS = [(f"h{2 * job}", f"h{2 * (JOBS + job)}") for job in range(JOBS)]
NICS = [f"{host}.n0" for pair in HOSTS for host in pair]
FAILED, WITHIN, AFTER = "l0.u1", 2, 4  # seconds from the failure on; windows then
VECTOR = "4M"  # of its part of that a lane has a sixteenth under way, of 512K a half: far less on real links
SETTLE = 5  # seconds until the master has planned, and lanes have moved
PARTS = 12  # windows one after the other, of which rates are the means
LONG = 24  # with a master: in 12 windows go some 2,000 segments of a job, whose chance alone is some percent
IDLE = []  # of the processors, in percent, while rates were measured


def fabric(build, steered, spines):
    return Lab(build, {"hosts": 4 * JOBS, "nics": 1, "leaves": 2, "spines": spines, "rate": f"{UPLINK}mbit"}, steered)


class Master(Paths):
    """`tutti pathmaster` of a lab, and the agent of all its hosts, which share a machine."""

    def __init__(self, lab):
        super().__init__(lab)
        self.socket = self.path("paths")

    def begin(self):
        self.start_master("paths.sqlite")
        self.start_agent(self.socket)

    def link(self, uplink, percent):
        subprocess.run([self.agent(), "--master", self.url, "--token", self.path("operator"), "--link",
                        f"{uplink}={percent}"], check=True)


def start(lab, master):
    """All jobs, begun."""
    settings = {"TUTTI_IB_LANES": str(LANES), "TUTTI_IB_TIMEOUT": "16"}
    if master:
        settings["TUTTI_PATH_AGENT"] = master.socket
        settings["LD_PRELOAD"] = lab.build.path("emulation", "verbs", "libmlx5.so.1")  # it moves living lanes
    told, jobs = lab.plan(LANES) if lab.steered and not master else None, []
    try:
        for pair in HOSTS:
            jobs.append(Job(lab, list(pair), ["allreduce", "-b", VECTOR, "-e", VECTOR, *FOREVER], settings, told))
    except BaseException:
        end(jobs)
        raise
    return jobs


def end(jobs):
    for job in jobs:
        job.__exit__()


def rates_of(sent):
    return [8e-6 * (sent[f"{one}.n0"] + sent[f"{other}.n0"]) / 2 for one, other in HOSTS]


def once(bench, lab, ports, master, what, count=PARTS):
    """Mbit/s that each job's hosts sent, over all windows."""
    jobs, parts = start(lab, master), []
    try:
        ports.flows(jobs, NICS, 1 << 20)
        time.sleep(SETTLE)
        for _ in range(count):
            parts.append(rates_of(ports.window(bench.seconds, jobs)))
            IDLE.append(ports.idle)
    finally:
        end(jobs)
    found = [statistics.fmean(rates) for rates in zip(*parts)]
    bench.say(f"{what}: {' '.join(f'{rate:.1f}' for rate in found)} Mbit/s a job, {100 * apart(found):.1f} % apart, in "
              f"windows {' '.join(f'{100 * apart(part):.1f}' for part in parts)} %; {lab.drops()} packets dropped, "
              f"processors {min(IDLE[-count:]):.0f} % idle")
    return found


def failure(bench, lab, ports, master):
    """(Mbit/s that all uplinks of l0 that are left sent, from WITHIN s after one failed; the same before)"""
    jobs = start(lab, master)
    left = [f"l0.u{uplink}" for uplink in range(JOBS)]
    try:
        ports.flows(jobs, NICS, 1 << 20)
        time.sleep(SETTLE)
        before = [ports.window(bench.seconds, jobs)]
        lab.link("down", FAILED, "--silent")
        if master:
            master.link(FAILED, 0)
        time.sleep(WITHIN)
        after = [ports.window(bench.seconds, jobs) for _ in range(AFTER)]
    finally:
        end(jobs)
        lab.link("up", FAILED)
        if master:
            master.link(FAILED, 100)
    sums = [[8e-6 * sum(sent[port] for port in left if parts is before or port != FAILED) for sent in parts]
            for parts in (after, before)]
    jobs_left = [statistics.fmean(rates) for rates in zip(*map(rates_of, after))]
    one, up = (" ".join(f"{rate:.1f}" for rate in rates) for rates in (jobs_left, sums[0]))
    bench.say(f"{FAILED} failed {'with' if master else 'without'} a master: {sums[1][0]:.1f}, then {up} "
              f"Mbit/s up; jobs {one}; processors {ports.idle:.0f} % idle")
    return statistics.fmean(sums[0]), jobs_left


def apart(rates):
    """Greatest less least, of the mean."""
    return (max(rates) - min(rates)) / statistics.fmean(rates)


def rows_of(name, paper, found, bound):
    mean = {way: statistics.fmean(statistics.fmean(rates) for rates in runs) for way, runs in found.items()}
    most = max(map(apart, found["master"]))
    part = mean["master"] / bound
    return [Row(f"{name}: mean of the jobs' rates, master over ECMP; over the equation", paper[0], "",
                f"{mean['master'] / mean['ECMP']:.2f}x; {mean['master'] / mean['equation']:.2f}x "
                f"({spread([statistics.fmean(rates) for rates in found['master']])} against "
                f"{mean['ECMP']:.1f} and {mean['equation']:.1f} Mbit/s)", None),
            Row(f"{name}: the same, of the bound", "", ">= 95%", f"{100 * part:.1f}%", part >= 0.95),
            Row(f"{name}: spread between jobs (greatest less least, of the mean)", paper[1], "< 5%",
                f"{100 * most:.1f}%; equation {100 * statistics.fmean(map(apart, found['equation'])):.0f}%, ECMP "
                f"{100 * statistics.fmean(map(apart, found['ECMP'])):.0f}%; processors {min(IDLE):.0f} % idle at least",
                most < 0.05)]


def compare(bench, spines):
    """{way: rates in each turn}, and what came of a failed uplink with a master and without; None if not tried."""
    found, failed = {"ECMP": [], "equation": [], "master": []}, None
    with contextlib.ExitStack() as stack:
        labs = [stack.enter_context(fabric(bench.build, steered, spines)) for steered in (False, True)]
        nodes = ["l0", *(name.split(".")[0] for name in NICS)]
        ports = [stack.enter_context(Ports(lab, nodes)) for lab in labs]
        master = stack.enter_context(Master(labs[1]))
        for _ in range(bench.turns):
            found["ECMP"].append(once(bench, labs[0], ports[0], None, f"{spines} spines, ECMP"))
            found["equation"].append(once(bench, labs[1], ports[1], None, f"{spines} spines, equation"))
            found["master"].append(once(bench, labs[1], ports[1], master, f"{spines} spines, master", LONG))
        if spines == JOBS:
            failed = [failure(bench, labs[1], ports[1], which) for which in (master, None)]
    return found, failed


def measure(bench):
    even, failed = compare(bench, JOBS)
    half, _ = compare(bench, JOBS // 2)
    bench.bars("lab-master", "Mbit/s of each of 8 jobs; 2:1: half the uplinks",
               {f"{way}{after}": runs[-1] for after, found in (("", even), (", 2:1", half))
                for way, runs in found.items()})
    bench.keep(even=even, oversubscribed=half, failed=failed)
    left = UPLINK * (JOBS - 1)
    kept = failed[0][0] / left
    return [*rows_of("1:1", ("1.70x (C4P)", "43%, then 2% (C4P)"), even, UPLINK),
            *rows_of("2:1 oversubscribed", ("1.66x (C4P)", "11.27 Gbit/s (C4P)"), half, UPLINK / 2),
            Row(f"{FAILED} fails silently: from {WITHIN} s on, of what is left", "301 of 315 (C4P)", ">= 96%",
                f"{100 * kept:.1f}% with a master ({failed[0][0]:.1f} Mbit/s), {100 * failed[1][0] / left:.1f}% "
                f"without", kept >= 0.96)]
