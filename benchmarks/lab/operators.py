# SPDX-License-Identifier: Apache-2.0
"""Collectives of 8 hosts over 2 leaves x 8 uplinks with 8 lanes of each two hosts, as the library carries them out by
itself: source ports by the plan against ECMP, lanes in turn (CTCCL's figure 6d). Each job draws new source ports."""
import clos
from fabric import Job
from result import Row, middle, spread
from steering import both

TITLE = "collectives of 8 hosts, 2 leaves x 8 uplinks, 8 lanes: steered against ECMP"
OPERATORS = ("allreduce", "allgather", "reduce_scatter", "broadcast", "reduce", "alltoall")
BYTES = 1 << 20


def rate(bench, lab, operator):
    """Mbit/s of a host, as busbw has it."""
    times = max(2, round(bench.seconds))  # one takes half a second, or two
    words = [operator, "-b", str(BYTES), "-e", str(BYTES), "-n", str(times), "-w", "2", "-c", "0"]
    settings = {"TUTTI_ALGO": "", "TUTTI_IB_LANES": str(clos.LANES), "TUTTI_STRIPE": "turns"}
    with Job(lab, clos.across(), words, settings, lab.plan(clos.LANES) if lab.steered else None) as job:
        return job.result(120 + 20 * bench.seconds)["rows"][0]["out_of_place"]["busbw"] * 8000


def measure(bench):
    found = {operator: {"ECMP": [], "steered": []} for operator in OPERATORS}
    with both(bench) as labs:
        for operator in OPERATORS:
            for way in [way for _ in range(bench.turns) for way in labs]:
                found[operator][way].append(rate(bench, labs[way][0], operator))
            bench.say(f"{operator}: ECMP {spread(found[operator]['ECMP'])}, "
                      f"steered {spread(found[operator]['steered'])} Mbit/s")
    bench.keep(operators=found)
    rows = []
    for operator, rates in found.items():
        ratio = middle(rates["steered"]) / middle(rates["ECMP"])
        rows.append(Row(f"{operator} of {BYTES >> 20} MiB: steered over ECMP, both with lanes in turn",
                        "1.40x (CTCCL)" if operator == "allreduce" else "", ">= 1x",
                        f"{ratio:.2f}x ({spread(rates['steered'])} against {spread(rates['ECMP'])} Mbit/s)",
                        ratio >= 1))
    return rows
