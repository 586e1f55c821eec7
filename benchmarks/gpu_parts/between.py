# SPDX-License-Identifier: Apache-2.0
"""between: allreduces between hosts (--hosts), called and in a graph, what a rank's processors do for a call, and
replays whose results are looked at; PyTorch, a process for each GPU."""
import statistics

from . import ranks
from .run import Budget, size_name, table, versus

WORKER = ["-m", "gpu_parts.torch_between"]
SIZES = tuple(kib << 10 for kib in (1, 64, 512, 4 << 10, 32 << 10, 256 << 10))
LIBRARIES = ("nccl", "tutti")


def add_arguments(parser):
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="bytes of a vector (1K to 256M)")
    parser.add_argument("--replays", type=int, default=1000,
                        help="of a graph, up to 4 MiB; up to 32 MiB a tenth of that, above none (1000)")
    parser.add_argument("--rounds", type=int, default=2, help="rounds, the libraries in turns; medians count (2)")


def program(options):
    return [*WORKER, "--replays", str(options.replays), "--sizes", *map(str, options.sizes)]


def slowest(outs):
    """{bytes: {what: us of the worst rank, or a number of replays or of wrong elements}}"""
    return {nbytes: {key: max(out["sizes"][nbytes][key] for out in outs) for key in outs[0]["sizes"][nbytes]}
            for nbytes in outs[0]["sizes"]}


def medians(rounds):
    """Of several rounds; all wrong elements count."""
    found = {}
    for nbytes in rounds[0]:
        values = {key: [one[nbytes][key] for one in rounds] for key in rounds[0][nbytes]}
        found[nbytes] = {key: sum(each) if key in ("wrong", "replays") else statistics.median(each)
                         for key, each in values.items()}
    return found


def wrong(found):
    """Sentences."""
    return [f"{v['wrong']:.0f} elements are wrong in {v['replays']:.0f} replays of {nbytes} bytes"
            for nbytes, v in found.items() if v["wrong"]]


def show(found):
    """found: {library: medians}"""
    rows, names = [], [library for library in LIBRARIES if found.get(library)]
    for nbytes in found[names[0]] if names else ():
        cells = [size_name(int(nbytes))]
        for key, form in (("called", ".1f"), ("captured", ".1f"), ("processors", ".0f")):
            cells += versus(*(found.get(library, {}).get(nbytes, {}).get(key) for library in LIBRARIES), form)
        mine = found.get("tutti", {}).get(nbytes)
        cells += ([f"{mine['captured'] / mine['called']:.2f}", f"{mine['replays']:.0f}", f"{mine['wrong']:.0f}"]
                  if mine else ["-"] * 3)
        rows.append(cells)
    heads = [head for name in ("called", "in a graph", "of processors")
             for head in (f"NCCL {name} (us)", f"tutti {name} (us)", "ratio")]
    return table(["allreduce", *heads, "tutti: graph / called", "replays", "wrong"], rows)


def main(options, results):
    budget, rounds = Budget(options.budget), {}
    options.rounds = 1 if options.quick else options.rounds
    results.data.update(found={}, complaints=[], hosts=options.hosts)
    for library, outs in ranks.in_turns(options, results, budget, ranks.VARIANTS[:2], program(options),
                                        options.rounds):
        rounds.setdefault(library, []).append(slowest(outs))
        results.data["found"][library] = medians(rounds[library])
        for complaint in wrong(rounds[library][-1]):
            results.complain(library, library, complaint)
    print(f"{options.gpus} GPUs as {options.hosts} hosts:\n\n" + show(results.data["found"]))
    return results.end(budget)
