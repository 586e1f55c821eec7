# SPDX-License-Identifier: Apache-2.0
"""Allreduce of 8 hosts over 2 leaves x 8 uplinks with 8 lanes: source ports by the plan (TUTTI_PATHS) against ECMP,
each with lanes in turn (TUTTI_STRIPE=turns, equal shares) and by arrival (the library's own choice)."""
import statistics

import clos
from fabric import Ports
from result import Row, middle, spread

TITLE = "allreduce, 8 hosts, 2 leaves x 8 uplinks, 8 lanes: steered against ECMP"
WAYS = (("ECMP", "turns"), ("steered", "turns"), ("ECMP", "arrival"), ("steered", "arrival"))


def once(bench, way, stripe):
    """(Mbit/s of bus bandwidth, bytes sent by each uplink) of one job."""
    times = max(2, round(bench.seconds / (2 * clos.BYTES * 7 / 8 * clos.MBIT / clos.NIC)))
    with clos.fabric(bench.build, way == "steered") as lab, Ports(lab, clos.LEAVES) as ports:
        before = ports.sent()
        with clos.ring(lab, stripe, ["-n", str(times), "-w", "1", "-c", "1"]) as job:
            rate = job.result(60 + 10 * bench.seconds)["average_busbw"] * 8000
        after = ports.sent()
        bench.say(f"{way}, {stripe}: {rate:.1f} Mbit/s, {lab.drops()} packets dropped")
    return rate, [after[port] - before[port] for port in clos.UP]


def share_variance(loads):
    """Of each uplink's share of its leaf, the mean of both leaves."""
    shares = [[load / sum(leaf) for load in leaf] for leaf in (loads[:clos.UPLINKS], loads[clos.UPLINKS:])]
    return statistics.fmean(statistics.pvariance(leaf) for leaf in shares)


def measure(bench):
    rates, variances, pictures = {}, {}, {}
    for _ in range(bench.turns):
        for way in WAYS:
            rate, loads = once(bench, *way)
            rates.setdefault(way, []).append(rate)
            variances.setdefault(way, []).append(share_variance(loads))
            pictures[f"{way[0]}, {way[1]}"] = [load / sum(loads[:clos.UPLINKS]) for load in loads[:clos.UPLINKS]]
    bench.bars("lab-uplinks", "Share of its leaf that each uplink of l0 carried (1/8 = all alike)", pictures)
    ecmp, even, weighed, own = (middle(rates[way]) for way in WAYS)
    turns, arrival = (middle(variances["steered", stripe]) / middle(variances["ECMP", "turns"])
                      for stripe in ("turns", "arrival"))
    bench.keep(rates={", ".join(way): rates[way] for way in WAYS},
               variances={", ".join(way): variances[way] for way in WAYS})
    return [Row("steered over ECMP, both with lanes in turn", "1.40x (CTCCL)", ">= 1.4x",
                f"{even / ecmp:.2f}x ({spread(rates[WAYS[1]])} against {spread(rates[WAYS[0]])} Mbit/s)",
                even / ecmp >= 1.4),
            Row("steered and by arrival over ECMP in turn", "", ">= 1.4x",
                f"{own / ecmp:.2f}x ({spread(rates[WAYS[3]])} Mbit/s)", own / ecmp >= 1.4),
            Row("ECMP by arrival over ECMP in turn: what weights alone do", "", "",
                f"{weighed / ecmp:.2f}x ({spread(rates[WAYS[2]])} Mbit/s)", None),
            Row("variance of the uplinks' shares, of ECMP's in turn", "", "< 0.001",
                f"{turns:.2g} in turn, {arrival:.2g} by arrival", turns < 0.001)]
