# SPDX-License-Identifier: Apache-2.0
"""Faults of links that are drawn, one at a time, and found by the probes of a path master that begins with them: a
link that is down silently, loses 1 % of packets one way, has half of its rate, or lets nothing through one way. Then
links that are mended, and a network without faults."""
import contextlib
import json
import os
import random
import subprocess
import threading
import time
import urllib.request

from fabric import Failed, Lab
from paths import TOKEN, Paths
from result import Row, spread

TITLE = "faults of links that are drawn, found by probes when a job begins"
LEAVES, SPINES, UPLINK, NIC = 4, 4, 10, 40  # Mbit/s
FAULTS, HEALTHY, MENDED, WITHIN, AFTER = 100, 10, 4, 30, 3  # the latter two in seconds
KINDS = ("down", "1% loss", "half rate", "one way")
LABS = 2  # at once
WATCH, SWEEP = 20, 600  # packets a second of each host: the defaults of docs/operate/pathmaster.md
OVER = threading.Event()  # somebody interrupts


def fabric(build):
    return Lab(build, {"hosts": LEAVES, "nics": 1, "leaves": LEAVES, "spines": SPINES, "rate": f"{UPLINK}mbit",
                       "links": [("h*.n*", f"{NIC}mbit")]}, True)


class Probing(Paths):
    """A path master, and an agent that probes in each host, from nothing."""

    def __init__(self, lab):
        super().__init__(lab, "prober", "probing.log")

    def begin(self):
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.path("probing.sqlite"))
        self.start_master("probing.sqlite")
        for host in range(LEAVES):
            self.start_agent(self.path(f"h{host}.sock"), "--probe", str(WATCH), "--probe-sweep", str(SWEEP),
                             "--probe-netns", f"/run/netns/{self.lab.name}-h{host}")

    def faults(self):
        """({names of links}, the catalogue)"""
        request = urllib.request.Request(self.url + "/probes.json", headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, timeout=30) as answer:
            found = json.load(answer)
        return {fault["uplink"] for fault in found["faults"]} | {part["part"] for part in found["others"]}, found


class Fault:
    """Of one uplink, while the block runs."""

    def __init__(self, lab, kind, leaf, uplink, up):
        self.lab, self.kind, self.name = lab, kind, f"l{leaf}.u{uplink}"
        self.node, self.port = (f"s{uplink}", f"l{leaf}u{uplink}") if up else (f"l{leaf}", f"u{uplink}")
        self.words = f"{self.name} {kind}" + (f" {'up' if up else 'down'}" if kind in KINDS[1::2] else "")

    def nft(self, words):
        subprocess.run([*self.lab.inside(self.node), "nft", words], check=True)

    def drop(self, what):
        self.nft("add table ip fault; add chain ip fault in { type filter hook prerouting priority -300; }; "
                 f'add rule ip fault in iifname "{self.port}" {what} drop')

    def rate(self, rate):
        subprocess.run([self.lab.build.lab, "rate", "-n", self.lab.name, self.name, f"{rate}mbit"], check=True,
                       stdout=subprocess.DEVNULL)

    def __enter__(self):
        if self.kind == "down":
            self.lab.link("down", self.name, "--silent")
        elif self.kind == "half rate":
            self.rate(UPLINK / 2)
        else:
            self.drop("numgen random mod 100 == 0" if self.kind == "1% loss" else "")
        return self

    def __exit__(self, *_):
        if self.kind == "down":
            self.lab.link("up", self.name)
        elif self.kind == "half rate":
            self.rate(UPLINK)
        else:
            self.nft("delete table ip fault")


def pause():
    if OVER.wait(0.1):
        raise Failed("interrupted")


def draw(number):
    """The same at each run."""
    drawn = random.Random(number)
    return KINDS[number % len(KINDS)], drawn.randrange(LEAVES), drawn.randrange(SPINES), drawn.random() < 0.5


def watch(probing, wanted, seconds):
    """(seconds after which the wanted links were named, or None; all others that were)"""
    began, named, wrong = time.monotonic(), None, set()
    while time.monotonic() - began < seconds and (named is None or time.monotonic() - began < named + AFTER):
        names = probing.faults()[0]
        wrong |= names - wanted
        if wanted and wanted <= names and named is None:
            named = time.monotonic() - began
        pause()
    return named, wrong


def find(bench, lab, number):
    with Fault(lab, *draw(number)) as fault, Probing(lab) as probing:
        named, wrong = watch(probing, {fault.name}, WITHIN)
    when = "not found" if named is None else f"found after {named:.1f} s"
    bench.say(f"{number}: {fault.words}: {when}{f'; also named: {sorted(wrong)}' if wrong else ''}")
    return fault.kind, named, sorted(wrong)


def mend(bench, lab, number):
    """Seconds from the repair until the link counts as whole."""
    with Probing(lab) as probing:
        with Fault(lab, *draw(number)) as fault:
            if watch(probing, {fault.name}, 2 * WITHIN)[0] is None:
                raise Failed(f"{fault.words}: not found, so it cannot be mended")
        began = time.monotonic()
        while probing.faults()[0]:
            if time.monotonic() - began > 10 * WITHIN:
                raise Failed(f"{fault.words}: it is mended, and not whole again")
            pause()
        taken = time.monotonic() - began
    bench.say(f"{fault.words}, mended: whole after {taken:.1f} s")
    return taken


class Worker(threading.Thread):
    """Takes tasks in a lab of its own until there are none."""

    def __init__(self, bench, tasks):
        super().__init__(daemon=True)
        self.bench, self.tasks, self.done, self.failed = bench, tasks, [], None

    def run(self):
        try:
            with fabric(self.bench.build) as lab:
                while self.tasks:
                    task, number = self.tasks.pop(0)
                    self.done.append((task, task(self.bench, lab, number)))
        except BaseException as wrong:  # told by the thread that waits
            self.failed = wrong


def healthy(bench, lab, _):
    with Probing(lab) as probing:
        wrong = sorted(watch(probing, set(), WITHIN)[1])
    if wrong:
        bench.say(f"no fault: named: {wrong}")
    return wrong


def measure(bench):
    faults = int(os.environ.get("PROBE_FAULTS", FAULTS))
    tasks = [*((find, number) for number in range(faults)), *((healthy, 0) for _ in range(max(1, faults // HEALTHY))),
             *((mend, number) for number in range(MENDED))]
    workers = [Worker(bench, tasks) for _ in range(LABS)]
    for worker in workers:
        worker.start()
    try:
        for worker in workers:
            worker.join()
    except BaseException:  # labs are taken down by the threads that made them
        OVER.set()
        for worker in workers:
            worker.join()
        raise
    for worker in workers:
        if worker.failed:
            raise worker.failed
    done = [one for worker in workers for one in worker.done]
    found, whole, mended = ([result for task, result in done if task is wanted] for wanted in (find, healthy, mend))
    bench.keep(found=found, healthy=whole, mended=mended)
    rows = []
    for kind in KINDS:
        times = [named for which, named, _ in found if which == kind]
        got = [named for named in times if named is not None]
        rows.append(Row(f"{kind}: found within {WITHIN} s; seconds", "", "all",
                        f"{len(got)} of {len(times)}; {spread(got) if got else '-'}", len(got) == len(times)))
    wrong = [names for _, _, names in found if names]
    return [*rows,
            Row(f"{len(found)} faults: healthy parts named beside", "", "0", f"{sum(map(len, wrong))}", not wrong),
            Row(f"no fault, for {WITHIN} s each: parts named", "", "0",
                f"{sum(map(len, whole))} in {len(whole)} runs", not any(whole)),
            Row("mended: seconds until it is whole again", "", "", spread(mended), None)]
