# SPDX-License-Identifier: Apache-2.0
"""groups: what a group of so many small calls takes: allreduces, allgathers, reduce-scatters, and messages of one pair;
called and in CUDA graphs, a process for each GPU; by NCCL's interface, and by PyTorch's coalescing manager."""
import tempfile

from . import ranks
from .run import Budget, say, size_name, table, tail, versus

K, M = 1 << 10, 1 << 20
WORKER = ["-m", "gpu_parts.torch_groups"]
NAMES = ("allreduce", "allgather", "reduce-scatter", "messages")
# OPERATION:CALLS:BYTES; an allgather's and a reduce-scatter's are those of a rank
ROWS = tuple(f"{name}:{count}:{nbytes}" for name in NAMES for count in (1, 4, 16, 64) for nbytes in (4 * K, 64 * K, M))
KINDS = ("called", "in a graph")
LIBRARIES = ("nccl", "tutti")
WAYS = ("calls", "torch")


def parts_of(row):
    """(operation, calls, bytes)"""
    name, count, nbytes = row.split(":")
    if name not in NAMES or int(count) < 1 or int(nbytes) < 4 or int(nbytes) % 4:
        raise ValueError(row)
    return name, int(count), int(nbytes)


def checked(row):
    parts_of(row)
    return row


def add_arguments(parser):
    parser.add_argument("--rows", nargs="+", type=checked, default=list(ROWS), metavar="OPERATION:CALLS:BYTES",
                        help=f"what a group holds: {', '.join(NAMES)} (1, 4, 16 and 64 of 4 KiB, 64 KiB and 1 MiB)")
    parser.add_argument("--by", nargs="+", choices=WAYS, default=["calls"],
                        help="NCCL's interface, PyTorch's coalescing manager, or both (calls)")
    parser.add_argument("--times", type=int, default=50, help="groups of a loop (50)")
    parser.add_argument("--rounds", type=int, default=3, help="loops; the median counts (3)")


def settings(options):
    return ["--rows", *options.rows, "--times", str(options.times), "--rounds", str(options.rounds)]


def one(options, folder, limit):
    """([output of each rank] or None, complaint)"""
    with tempfile.TemporaryDirectory() as place:
        jobs = ranks.start(options, folder, "groups", settings(options), place)
        ranks.wait(jobs, limit)
        if any(job.status for job in jobs):
            return None, (f"exit statuses {[job.status for job in jobs]}\n"
                          + tail("".join(job.text() for job in jobs), 2500))
        return ranks.outputs(place, options.gpus), ""


def summary(outs):
    """{row: {kind: us of a group on the slowest rank}}"""
    return {row: {kind: max(out["rows"][row][kind] for out in outs) for kind in KINDS} for row in outs[0]["rows"]}


def wrong(outs):
    """The rows of which a rank had wrong words."""
    return sorted({f"{row}, {kind}" for out in outs for row, found in out["rows"].items() for kind in KINDS
                   if not found[kind + ", right"]})


def show(found):
    """found: {library: summary}"""
    rows, names = [], [library for library in LIBRARIES if found.get(library)]
    for row in found[names[0]] if names else ():
        name, count, nbytes = parts_of(row)
        cells = [name, count, size_name(nbytes)]
        for kind in KINDS:
            cells += versus(*(found.get(library, {}).get(row, {}).get(kind) for library in LIBRARIES), ".1f")
        rows.append(cells)
    heads = [head for kind in KINDS for head in (f"NCCL {kind} (us)", f"tutti {kind} (us)", "NCCL / tutti")]
    return table(["operation", "calls", "each", *heads], rows)


def by_calls(options, results, budget):
    for library, folder in options.libraries.items():
        limit = budget.limit(options.limit)
        if not limit:
            continue
        say(f"groups: {library}")
        outs, complaint = one(options, folder, limit)
        take(results, "summary", library, outs)
        if complaint:
            results.complain(library, library, complaint)
        results.save()


def by_torch(options, results, budget):
    for name, outs in ranks.in_turns(options, results, budget, ranks.VARIANTS[:2], [*WORKER, *settings(options)]):
        take(results, "coalesced", name, outs)


def take(results, key, library, outs):
    if not outs:
        return
    results.data[key][library] = summary(outs)
    bad = wrong(outs)
    if bad:
        results.complain(library, library, f"wrong results: {'; '.join(bad)}")


def main(options, results):
    budget = Budget(options.budget)
    if options.quick:
        options.rows = [row for row in options.rows if parts_of(row)[1] > 1] or options.rows
        options.times //= 2
    results.data.update(summary={}, coalesced={}, complaints=[])
    if "calls" in options.by:
        by_calls(options, results, budget)
        print(show(results.data["summary"]))
    if "torch" in options.by:
        by_torch(options, results, budget)
        print("PyTorch's coalescing manager:\n\n" + show(results.data["coalesced"]))
    return results.end(budget)
