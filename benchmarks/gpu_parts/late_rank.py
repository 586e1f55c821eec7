# SPDX-License-Identifier: Apache-2.0
"""late: what long calls cost in PyTorch when the host of one rank comes late, and when all are in step; loops of calls,
random data, a process for each GPU."""
import statistics

from . import ranks
from .run import Budget, size_name, table, versus

WORKER = ["-m", "gpu_parts.torch_late_rank"]
MIB = 1 << 20
NAMES = {"allreduce": "allreduce in place", "allgather": "allgather in place", "alltoall": "alltoall",
         "ring": "send/recv ring"}
# OPERATION:BYTES; an allgather's are those of all ranks
ROWS = tuple(f"{name}:{mib * MIB}" for name, mib in (
    ("allreduce", 256), ("allreduce", 1024), ("allgather", 256), ("allgather", 1024), ("alltoall", 256),
    ("ring", 64), ("ring", 256)))
QUICK = 256 * MIB  # the rows that --quick leaves
LIBRARIES = ("nccl", "tutti")
HOSTS = ("in step", "late")


def parts_of(row):
    """(operation, bytes)"""
    name, _, nbytes = row.partition(":")
    if name not in NAMES:
        raise ValueError(row)
    return name, int(nbytes)


def checked(row):
    parts_of(row)
    return row


def add_arguments(parser):
    parser.add_argument("--rows", nargs="+", type=checked, default=list(ROWS), metavar="OPERATION:BYTES",
                        help=f"what is called: {', '.join(NAMES)} (each of 256 MiB, allreduce and allgather of "
                        "1 GiB, too, the ring of 64 MiB)")
    parser.add_argument("--share", type=float, default=0.55,
                        help="part of a call's time in step for which the host of rank 1 spins behind each call (0.55)")
    parser.add_argument("--calls", type=int, default=20, help="calls of a loop (20)")
    parser.add_argument("--rounds", type=int, default=3, help="loops of each kind; the median counts (3)")


def program(options):
    words = [word for name in ("share", "calls", "rounds") for word in (f"--{name}", str(getattr(options, name)))]
    return [*WORKER, "--rows", *options.rows, *words]


def summary(outs):
    """{row: {hosts: us of a call, by the median of the rounds of the worst rank}}"""
    return {row: {hosts: max(statistics.median(out["calls"][row][hosts]) for out in outs) for hosts in HOSTS}
            for row in outs[0]["calls"]}


def show(found):
    """found: {library: summary}"""
    rows, names = [], [library for library in LIBRARIES if found.get(library)]
    for row in found[names[0]] if names else ():
        name, nbytes = parts_of(row)
        cells = [f"{NAMES[name]}, {size_name(nbytes)}"]
        for hosts in HOSTS:
            cells += versus(*(found.get(library, {}).get(row, {}).get(hosts) for library in LIBRARIES), ".0f")
        rows.append(cells)
    heads = [head for hosts in HOSTS for head in (f"NCCL {hosts} (us)", f"tutti {hosts} (us)", "NCCL / tutti")]
    return table(["operation", *heads], rows)


def main(options, results):
    budget = Budget(options.budget)
    if options.quick:
        options.rows = [row for row in options.rows if parts_of(row)[1] == QUICK] or options.rows
        options.rounds = min(options.rounds, 2)
    results.data.update(summary={}, complaints=[], raw={}, share=options.share)
    for library, outs in ranks.in_turns(options, results, budget, ranks.VARIANTS[:2], program(options)):
        results.data["raw"][library] = outs
        results.data["summary"][library] = summary(outs)
    print(show(results.data["summary"]))
    return results.end(budget)
