# SPDX-License-Identifier: Apache-2.0
"""Allreduce of 8 hosts over 2 leaves with the library's own settings: segments, slices and lanes as nobody has set
them, but for how many lanes there are. ECMP with lanes in turn and by arrival, and steered (TUTTI_PATHS) by arrival.
Each job draws new source ports."""
import statistics

import clos
from fabric import FOREVER, Job, Lab, Ports
from result import Row, middle, spread

TITLE = "allreduce, 8 hosts, 2 leaves, default segments: steered against ECMP"
NIC = 10  # Mbit/s: two processors carry this beside eight ranks
WAYS = (("ECMP", "turns"), ("ECMP", "arrival"), ("steered", "arrival"))
MIB = 1 << 20
# Uplinks of a leaf, lanes, MiB, jobs: these as often as is wished, the others once.
OFTEN = ((4, 4, 8, 1), (8, 4, 8, 1))
ONCE = ((4, 2, 8, 1), (4, 3, 8, 1), (4, 8, 8, 1), (4, 4, 8, 2), (4, 4, 1, 1), (4, 4, 64, 1), (8, 8, 8, 1), (8, 8, 8, 2))


def fabric(build, uplinks, steered):
    """NICs send as much as the uplinks of their leaf carry."""
    return Lab(build, {"hosts": clos.HOSTS, "nics": 1, "leaves": 2, "spines": uplinks,
                       "rate": f"{NIC * 4 // uplinks}mbit", "links": [("h*.n*", f"{NIC}mbit")]}, steered)


def rings_of(jobs):
    count = clos.HOSTS // jobs
    return [clos.across(first=job * count // 2, count=count) for job in range(jobs)]


def once(bench, lab, ports, cell, stripe):
    """(Mbit/s of a host, variance of the shares of each leaf's uplinks)"""
    uplinks, lanes, mib, jobs = cell
    running, rings = [], rings_of(jobs)
    told = lab.plan(lanes) if lab.steered else None
    try:
        for hosts in rings:
            running.append(Job(lab, hosts, ["allreduce", "-b", str(mib * MIB), "-e", str(mib * MIB), *FOREVER],
                               {"TUTTI_IB_LANES": str(lanes), "TUTTI_STRIPE": stripe, "TUTTI_SEGMENT": None}, told))
        ports.flows(running, [f"{host}.n0" for hosts in rings for host in hosts], 2 * MIB)
        sent = ports.window(bench.seconds, running)
    finally:
        for job in running:
            job.__exit__()
    leaves = [[sent[f"{leaf}.u{uplink}"] for uplink in range(uplinks)] for leaf in clos.LEAVES]
    variance = statistics.fmean(statistics.pvariance([one / sum(leaf) for one in leaf]) for leaf in leaves)
    return statistics.fmean(sent[f"h{host}.n0"] for host in range(clos.HOSTS)) * clos.MBIT, variance


def name_of(cell):
    uplinks, lanes, mib, jobs = cell
    return f"{uplinks} uplinks, {lanes} lanes, {mib} MiB" + (f", {jobs} jobs" if jobs > 1 else "")


def measure_cell(bench, cell, turns):
    """{way: ([Mbit/s], [variance])}"""
    found = {way: ([], []) for way in WAYS}
    for steered in (False, True):
        with fabric(bench.build, cell[0], steered) as lab, \
                Ports(lab, [*clos.LEAVES, *(f"h{host}" for host in range(clos.HOSTS))]) as ports:
            for way in WAYS:
                for _ in range(turns if (way[0] == "steered") == steered else 0):
                    rate, variance = once(bench, lab, ports, cell, way[1])
                    found[way][0].append(rate)
                    found[way][1].append(variance)
                    bench.say(f"{name_of(cell)}, {', '.join(way)}: {rate:.1f} Mbit/s, variance {variance:.2g}, "
                              f"{lab.drops()} packets dropped")
    return found


def row_of(cell, found):
    turns, arrival, steered = (middle(found[way][0]) for way in WAYS)
    variance = middle(found[WAYS[2]][1]) / middle(found[WAYS[0]][1])
    return Row(f"{name_of(cell)}: steered over ECMP in turn / by arrival", "1.40x (CTCCL)", ">= 1.4x / 1x",
               f"{steered / turns:.2f}x / {steered / arrival:.2f}x ({spread(found[WAYS[2]][0])} of {NIC} Mbit/s, "
               f"ECMP {spread(found[WAYS[0]][0])} / {spread(found[WAYS[1]][0])}; variance of shares {variance:.2g} of "
               "ECMP's)", steered >= 1.4 * turns and steered >= arrival)


def measure(bench):
    rows, kept = [], {}
    for cell in (*OFTEN, *ONCE):
        found = measure_cell(bench, cell, bench.turns if cell in OFTEN else 1)
        kept[name_of(cell)] = {", ".join(way): figures for way, figures in found.items()}
        rows.append(row_of(cell, found))
    bench.keep(**kept)
    return rows
