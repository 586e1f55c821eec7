# SPDX-License-Identifier: Apache-2.0
"""pipeline: a step of a 1F1B pipeline, a stage for each GPU, whose messages go beside its matrix products; over NCCL
and tutti, by size of the messages and of the products, and without messages."""

from . import ranks
from .run import Budget, size_name, table

WORKER = ["-m", "gpu_parts.torch_pipeline"]
MIB = 1 << 20


def add_arguments(parser):
    parser.add_argument("--side", type=int, default=4096, help="rows and columns of the matrices (4096)")
    parser.add_argument("--slots", type=int, default=64, help="forward and backward steps of a step (64)")
    parser.add_argument("--products", type=int, nargs="*", default=[3, 6, 12],
                        help="matrix products of a slot (3, 6, 12)")
    parser.add_argument("--sizes", type=int, nargs="*", default=[4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB],
                        help="bytes of a message (4M, 16M, 64M, 256M)")
    parser.add_argument("--rounds", type=int, default=2, help="rounds, the libraries in turns; the least counts (2)")


def program(options):
    return [*WORKER, "--side", str(options.side), "--slots", str(options.slots),
            "--products", *map(str, options.products), "--sizes", *map(str, options.sizes)]


def slowest(outs):
    """{products: {bytes: ms of the slowest stage}}; 0 bytes: without messages."""
    return {products: {key: max(out["steps"][products][key] for out in outs) for key in steps}
            for products, steps in outs[0]["steps"].items()}


def least(rounds):
    """Of several rounds."""
    return {products: {key: min(one[products][key] for one in rounds) for key in rounds[0][products]}
            for products in rounds[0]}


def measured(found):
    return [name for name, _, _ in ranks.VARIANTS if found.get(name)]


def steps(found):
    """(products, bytes, {name: ms of a step}, ms without messages) of each point."""
    names = measured(found)
    for products in found[names[0]] if names else ():
        floor = min(found[name][products]["0"] for name in names)
        for key in sorted(map(int, found[names[0]][products])):
            if key:
                yield products, key, {name: found[name][products][str(key)] for name in names}, floor


def show(found, slots):
    rows, names = [], measured(found)
    for products, key, ms, floor in steps(found):
        ratio = f"{ms['nccl'] / ms['tutti']:.3f}" if {"nccl", "tutti"} <= set(ms) else "-"
        rows.append([products, size_name(key), f"{1e3 * floor / slots:.0f}",
                     *(f"{1e3 * ms[name] / slots:.0f}" for name in names),
                     *(f"{100 * (ms[name] / floor - 1):.1f}" for name in names), ratio])
    return table(["products of a slot", "message", "us of a slot without messages", *(f"{n} (us)" for n in names),
                  *(f"{n} above that (%)" for n in names), "NCCL's step / tutti's"], rows)


def main(options, results):
    budget = Budget(options.budget)
    if options.quick:
        options.products, options.rounds = options.products[:2], 1
    rounds = {}
    results.data.update(found={}, complaints=[], slots=options.slots)
    for name, outs in ranks.in_turns(options, results, budget, ranks.VARIANTS, program(options), options.rounds):
        rounds.setdefault(name, []).append(slowest(outs))
        results.data["found"][name] = least(rounds[name])
    print(f"{options.gpus} stages:\n\n" + show(results.data["found"], options.slots))
    return results.end(budget)
