# SPDX-License-Identifier: Apache-2.0
"""speed: the programs of nccl-tests over NCCL and tutti in turns, each call as it is and in a CUDA graph;
medians of the rounds."""
import math

from plot import write_ratios

from . import perf
from .run import Budget, say, size_name, table, tail

NAMES = {"all_reduce": "allreduce", "sendrecv": "send/recv", "all_gather": "allgather",
         "reduce_scatter": "reduce-scatter", "broadcast": "broadcast", "alltoall": "alltoall", "reduce": "reduce"}
LONG = ("all_reduce", "sendrecv")  # up to 4 GiB; the others to 1 GiB
PLAIN = "-b 64 -e {most} -f 4 -n 30 -w 5 -c 0".split()
GRAPH = "-b 64 -e 64M -f 4 -n 10 -w 2 -G 10 -c 0".split()
IN_GRAPH = " in a graph"
FORMS = {"gpus": "one thread", "threads": "a thread for each GPU", "processes": "a process for each GPU"}
FORM = "processes"  # as PyTorch has them


def add_arguments(parser):
    parser.add_argument("--rounds", type=int, default=3,
                        help="rounds, NCCL and tutti in turns; the figure of a point is the median")
    parser.add_argument("--only", nargs="*", metavar="CASE",
                        help="only cases that begin with one of these (allreduce, \"send/recv in a graph\", ...)")
    parser.add_argument("--form", default=FORM, choices=FORMS,
                        help="one thread for all GPUs, a thread a GPU, or a process a GPU (MPI)")
    parser.add_argument("--more", action="store_true", help="add the rounds to what an earlier call has left")
    parser.add_argument("--graphs", default="both", choices=("both", "no", "only"),
                        help="calls as they are, in graphs, or both")


def cases(options):
    """{name: (program, arguments)}, what has aims first. Quick: only that."""
    found = {}
    if options.graphs != "only":
        found = {name: (program, [a.format(most="4G" if program in LONG else "1G") for a in PLAIN])
                 for program, name in NAMES.items()}
    if options.graphs != "no":
        found.update({name + IN_GRAPH: (program, GRAPH) for program, name in NAMES.items()})
    if options.quick:
        found = {name: found[name] for name in found
                 if name in ("allreduce" + IN_GRAPH, *NAMES.values())}
    return {name: case for name, case in found.items()
            if not options.only or any(name.startswith(word) for word in options.only)}


def mean(values):
    """Geometric."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def text_of(points):
    lines = []
    for name, sizes in perf.medians(points).items():
        rows, ratios = [], []
        for size, pair in sorted(sizes.items()):
            if {"nccl", "tutti"} <= set(pair):
                (us, bus), (our_us, our_bus) = pair["nccl"], pair["tutti"]
                ratios.append(us / our_us)
                rows.append([size_name(size), f"{us:.1f}", f"{our_us:.1f}", f"{bus:.1f}", f"{our_bus:.1f}",
                             f"{us / our_us:.2f}"])
        lines += [f"## {name}", "",
                  table(["size", "NCCL (us)", "tutti (us)", "NCCL bus GB/s", "tutti bus GB/s", "ratio"], rows)]
        if ratios:
            lines += [f"Geometric mean of the ratios: {mean(ratios):.2f}", ""]
    return "\n".join(lines)


def picture(points, gpus, path):
    """NCCL's time / tutti's over size, called and in graphs. Returns whether there is anything to show."""
    cells, collectives = {}, []
    for name, sizes in perf.medians(points).items():
        collective = name.removesuffix(IN_GRAPH)
        ratios = {size: pair["nccl"][0] / pair["tutti"][0] for size, pair in sizes.items() if len(pair) == 2}
        if ratios:
            collectives += [] if collective in collectives else [collective]
            cells["in graphs" if name.endswith(IN_GRAPH) else "called", gpus, collective] = ratios
    if cells:
        write_ratios(path, cells, collectives)
    return bool(cells)


def form_of(data):
    return FORMS[data.get("form", FORM)]


def head_of(data):
    turns = data.get("done", {}).values()
    rounds = f"{min(turns)} to {max(turns)}" if turns and min(turns) < max(turns) else str(max(turns, default=0))
    return (f"{data.get('gpus', 4)} GPUs, {form_of(data)}, medians of {rounds} rounds in turns, nccl-tests, "
            "out of place, float, sum; NVLS off. A ratio is NCCL's time / tutti's: above 1 tutti is faster.")


def one(options, results, name, program, arguments, library, folder, limit):
    done = perf.start(options, folder, program, options.form, arguments, limit)
    for row in perf.rows(done.text()):
        sizes = results.data["points"].setdefault(name, {}).setdefault(library, {})
        sizes.setdefault(str(row.size), []).append([row.us, row.busbw])
    if done.status:
        complaint = f"{library}: {name}: exit status {done.status}"
        results.data["complaints"].append(complaint + "\n" + tail(done.text()))
        say(complaint + ("\n" + tail(done.text(), 800) if len(results.data["complaints"]) < 5 else ""))
    return done.status != 0


def main(options, results):
    budget, todo, failed = Budget(options.budget), cases(options), 0
    options.rounds = min(options.rounds, 2) if options.quick else options.rounds
    for key, empty in (("points", {}), ("complaints", []), ("done", {})):
        results.data.setdefault(key, empty)
    results.data["form"] = options.form
    if not todo or perf.missing(options, next(iter(todo.values()))[0], options.form):
        why = perf.missing(options, "all_reduce", options.form)
        say("speed:", why + "; without MPI: --form gpus" * (options.form == FORM) if why else "no such case")
        return 1
    began, count, skipped = budget.left(), 0, 0
    for turn in range(options.rounds):
        for name, (program, arguments) in todo.items():
            for library, folder in options.libraries.items():
                limit = budget.limit(options.limit)
                skipped += not limit
                failed += bool(limit) and one(options, results, name, program, arguments, library, folder, limit)
            results.data["done"][name] = results.data["done"].get(name, 0) + bool(limit)
            results.save()
            count += 1
            if limit and math.isfinite(began):
                say(f"speed, round {turn + 1} of {options.rounds}: {name}; {budget.left():.0f} s of the budget left")
    print(head_of(results.data), text_of(results.data["points"]), sep="\n\n")
    results.save(complete=not failed and not skipped)
    say(f"speed: {failed} programs failed, {skipped} not run")
    return failed
