# SPDX-License-Identifier: Apache-2.0
"""Traces that processes of two hosts play (flows_bench.c), each with an interface that it owns or with all of them."""
import os
import subprocess
import time

from fabric import Failed, Job

NICS = 6
RATE = 5  # Mbit/s of each: two processors carry all at once
SEGMENT = 4096  # bytes: 6.6 ms, as 512 KiB take 10 us at 400 Gbit/s
BOUND = 2
POLICIES = {"own": {}, "all": {"TUTTI_BORROW": "0"}, "borrow": {"TUTTI_BORROW": str(BOUND)}}


BURST = 2 * (SEGMENT + 200)  # bytes that a shaper lets pass at once: the lab's own 72 KiB would be 18 segments


def limit(lab, node, port, rate):
    subprocess.run([*lab.inside(node), "tc", "qdisc", "replace", "dev", port, "root", "tbf", "rate", f"{rate}mbit",
                    "burst", str(BURST), "limit", "8m"], check=True)


def shape(lab):
    for host in ("h0", "h1"):
        for nic in range(lab.keys["nics"]):
            limit(lab, host, f"n{nic}", RATE)
            limit(lab, "l0", f"{host}n{nic}", RATE)


class Play:
    """Jobs that play traces at once. traces: for each job (hosts of its ranks, lines of its trace). bound: jobs that
    have one interface alone, whatever the policy. gpus: job i is of GPU i of each host."""

    def __init__(self, lab, policy, traces, settings=None, bound=(), gpus=False):
        self.lab, self.jobs = lab, []
        self.stem = os.path.join(lab.folder.name, f"play-{lab.port()}")
        self.go = f"{self.stem}.go"
        count = {}  # processes of a host, so far
        for number, (hosts, lines) in enumerate(traces):
            with open(f"{self.stem}.{number}.trace", "w", encoding="utf-8") as file:
                file.writelines(" ".join(str(round(word)) for word in line) + "\n" for line in lines)
            ranks = []
            for host in hosts:
                nic = {"TUTTI_IB_HCA": f"=soft_n{count.get(host, 0)}"}
                ranks.append({"TUTTI_LOCAL_RANK": str(hosts[:len(ranks)].count(host)),
                              "TUTTI_LOCAL_SIZE": str(hosts.count(host)),
                              **(nic if policy == "own" or number in bound else {})})
                count[host] = count.get(host, 0) + 1
            words = [f"{self.stem}.{number}.trace", self.go, f"{self.stem}.{number}"]
            program = [lab.build.softverbs, "run", "--", lab.build.flows] if gpus else lab.build.flows
            self.jobs.append(Job(lab, hosts, words + [str(number)] * gpus,
                                 {"TUTTI_SEGMENT": str(SEGMENT), "TUTTI_EAGER": "1024", **POLICIES[policy],
                                  **(settings or {})}, ranks=ranks, program=program))

    def wait_ready(self, patience=120):
        end = time.monotonic() + patience
        for number, job in enumerate(self.jobs):
            while "ready" not in self.text(number, 0):
                job.lives()
                if time.monotonic() > end:
                    raise Failed(f"not ready after {patience} s: {job.said()}")
                time.sleep(0.02)

    def text(self, number, rank):
        try:
            with open(f"{self.stem}.{number}.{rank}", encoding="utf-8") as file:
                return file.read()
        except FileNotFoundError:
            return ""

    def steps(self, number, rank):
        """[(step, begun, done)] in s."""
        rows = [line.split() for line in self.text(number, rank).splitlines() if line != "ready"]
        return [(int(step), int(begun) / 1e6, int(done) / 1e6) for step, begun, done in rows]

    def begin(self):
        with open(f"{self.go}.new", "w", encoding="utf-8") as file:
            file.write(f"{time.monotonic_ns() + 500_000_000}\n")
        os.rename(f"{self.go}.new", self.go)

    def run(self, patience, wanted=None):
        """Plays until the first `wanted` jobs are done, or all. [for each job [for each rank its steps]]"""
        try:
            self.wait_ready()
            self.begin()
            end = time.monotonic() + patience
            for job in self.jobs[:wanted]:
                for rank in job.ranks:
                    while rank.poll() is None and time.monotonic() < end:
                        time.sleep(0.02)
                    if rank.poll() != 0:
                        raise Failed(f"a rank ended with {rank.poll()} (None: not done): {job.said()}")
            return [[self.steps(number, rank) for rank in range(len(job.ranks))] for number, job in
                    enumerate(self.jobs)]
        finally:
            for job in self.jobs:
                job.__exit__()


BYTES_A_SECOND = RATE * 1e6 / 8


def pairs(flows):
    """A job for each interface: rank 0 on h0 sends to rank 1 on h1 what `flows` says, [(at, bytes)]."""
    return [(["h0", "h1"], [(step, at, 0, 1, size) for step, (at, size) in enumerate(one)]) for one in flows]


IDLE = [(0, 8), (1e9, 8)]  # a process that owns its interface and does nothing, until the play is over


def took(steps):
    return [done - begun for _, begun, done in steps]
