# SPDX-License-Identifier: Apache-2.0
"""Two jobs of four hosts at once with everything on: planned source ports, places, windows, segments by distance,
weights and backups. An uplink fails silently, then a host's port goes down, while every result is checked. Segments,
slices and algorithms are the library's own."""
import statistics
import time

import clos
from fabric import Failed, Job, Lab, Ports
from result import Row, middle, spread

TITLE = "two jobs with planned ports, places, windows, weights, backups and faults"
NIC, UPLINKS, LANES, BYTES = 10, 4, 4, 512 << 10
RINGS = [clos.across(first=first, count=4) for first in (0, 2)]
ALL = [host for ring in RINGS for host in ring]
CALLS = ["-n", "1", "-w", "0", "-c", "1", "-N", "0"]  # until the job is ended, each row checked


def leaf(host):
    return clos.LEAVES[2 * int(host[1:]) // clos.HOSTS]


def start(lab):
    told = {host: {**settings, "TUTTI_PLACE": f"zone=z,rack={leaf(host)}"}
            for host, settings in lab.plan(LANES).items()}
    settings = {"TUTTI_IB_LANES": str(LANES), "TUTTI_BACKUP": "soft_n1", "TUTTI_SEGMENT": None, "TUTTI_ALGO": None,
                "TUTTI_STRIPE": "arrival"}
    return [Job(lab, ring, ["allreduce", "-b", str(BYTES), "-e", str(BYTES), *CALLS], settings, told)
            for ring in RINGS]


def rates(seconds, ports, jobs):
    """Mbit/s that come to a host of each job, by both NICs: what is lost and sent again counts once."""
    sent = ports.window(seconds, jobs)
    return [clos.MBIT * statistics.fmean(sent[f"{leaf(host)}.{host}n{nic}"] for nic in (0, 1) for host in ring) * 2
            for ring in RINGS]


def checked(jobs):
    """(rows that the jobs have printed, wrong elements in them)"""
    rows = []
    for job in jobs:
        with open(job.log_name, encoding="utf-8") as log:
            rows += [line.split() for line in log if line.startswith(f" {BYTES:>11} ") and line.endswith("\n")]
    return len(rows), sum(int(word) for row in rows for word in (row[-5], row[-1]))


def settle(ports, jobs):
    """Seconds until both jobs go on."""
    began = time.monotonic()
    while min(rates(0.5, ports, jobs)) < NIC / 2:
        if time.monotonic() > began + 60:
            raise Failed(f"a job does not go on: {jobs[0].said()}")
    return time.monotonic() - began


def once(bench):
    """[rates of both jobs] while all is well, with an uplink less, and with a port less, too; rows, wrong elements;
    seconds until both went on after the two faults."""
    keys = {"hosts": clos.HOSTS, "nics": 2, "leaves": 2, "spines": UPLINKS, "rate": f"{NIC}mbit"}
    with Lab(bench.build, keys, steered=True) as lab, Ports(lab, [*clos.LEAVES, *ALL]) as ports:
        jobs = start(lab)
        try:
            ports.flows(jobs, [f"{host}.n0" for host in ALL], 2 * BYTES, 180)
            found, pauses = [rates(bench.seconds, ports, jobs)], []
            for link, how in (("l0.u0", ["--silent"]), (f"{ALL[0]}.n0", [])):
                lab.link("down", link, *how)
                pauses.append(settle(ports, jobs))
                found.append(rates(bench.seconds, ports, jobs))
        finally:
            for job in jobs:
                job.__exit__()
        rows, wrong = checked(jobs)
    bench.say("; ".join(" ".join(f"{rate:.1f}" for rate in pair) for pair in found)
              + f" Mbit/s, went on after {pauses[0]:.1f}, {pauses[1]:.1f} s, {wrong} wrong in {rows}")
    return found, rows, wrong, pauses


def measure(bench):
    turns = [once(bench) for _ in range(bench.turns)]
    wrong, rows = sum(turn[2] for turn in turns), sum(turn[1] for turn in turns)
    means = [[statistics.fmean(turn[0][step]) for turn in turns] for step in range(3)]
    apart = [max(turn[0][0]) / min(turn[0][0]) - 1 for turn in turns]
    bench.keep(turns=turns)
    left = NIC * (UPLINKS - 1) / UPLINKS
    names = ("all is well: of a NIC's rate", "an uplink fails silently: of what is left",
             "and a host's port goes down, whose backup stands in")
    out = [Row(name, "", ">= 80%", f"{spread([100 * one / most for one in found], '.0f')}%",
               middle(found) >= 0.8 * most) for name, found, most in zip(names, means, (NIC, left, left))]
    pauses = zip(("the uplink", "the port"), zip(*(turn[3] for turn in turns)))
    out += [Row(f"{name} fails: until both jobs have half of their rate", "", "", f"{spread(found)} s", None)
            for name, found in pauses]
    return [*out, Row("the two jobs are apart by", "", "<= 5%", f"{100 * middle(apart):.0f}%", middle(apart) <= 0.05),
            Row("wrong elements in the results", "", "0", f"{wrong} in {rows} rows", rows > 0 and wrong == 0)]
