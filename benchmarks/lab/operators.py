# SPDX-License-Identifier: Apache-2.0
"""Collectives of 8 hosts over 2 leaves x 8 uplinks with 8 lanes of each two hosts (CTCCL's figure 6d), with algorithms
of the library's own choice. Source ports by the plan against ECMP: first as the library cuts and deals segments by
itself, then with short segments and lanes in turn. Each job draws new source ports."""
import clos
from fabric import Job
from result import Row, middle, spread
from steering import both

TITLE = "collectives of 8 hosts, 2 leaves x 8 uplinks, 8 lanes: steered against ECMP"
OPERATORS = ("allreduce", "allgather", "reduce_scatter", "broadcast", "reduce", "alltoall")
BYTES = 1 << 20
WAYS = {"": {**clos.LEFT, "TUTTI_STRIPE": None},
        ", segments of 16 KiB in turn": {"TUTTI_ALGO": None, "TUTTI_STRIPE": "turns"}}


def rate(bench, lab, operator, settings):
    """Mbit/s of a host, as busbw has it."""
    times = max(2, round(bench.seconds))  # one takes half a second, or two
    words = [operator, "-b", str(BYTES), "-e", str(BYTES), "-n", str(times), "-w", "2", "-c", "0"]
    settings = {**settings, "TUTTI_IB_LANES": str(clos.LANES)}
    with Job(lab, clos.across(), words, settings, lab.plan(clos.LANES) if lab.steered else None) as job:
        return job.result(120 + 20 * bench.seconds)["rows"][0]["out_of_place"]["busbw"] * 8000


def measure(bench):
    found = {(operator, how): {"ECMP": [], "steered": []} for how in WAYS for operator in OPERATORS}
    with both(bench) as labs:
        for (operator, how), rates in found.items():
            for way in [way for _ in range(bench.turns) for way in labs]:
                rates[way].append(rate(bench, labs[way][0], operator, WAYS[how]))
            bench.say(f"{operator}{how}: ECMP {spread(rates['ECMP'])}, steered {spread(rates['steered'])} Mbit/s")
    bench.keep(operators={operator + how: rates for (operator, how), rates in found.items()})
    rows = []
    for (operator, how), rates in found.items():
        ratio = middle(rates["steered"]) / middle(rates["ECMP"])
        rows.append(Row(f"{operator} of {BYTES >> 20} MiB{how}: steered over ECMP",
                        "1.40x (CTCCL)" if operator == "allreduce" else "", ">= 1x",
                        f"{ratio:.2f}x ({spread(rates['steered'])} against {spread(rates['ECMP'])} Mbit/s)",
                        ratio >= 1))
    return rows
