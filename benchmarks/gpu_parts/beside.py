# SPDX-License-Identifier: Apache-2.0
"""beside: how much slower a bf16 matrix product of 8192^3 is beside a send/recv ring and beside allreduces of 256 MiB,
and for each GB/s beside a ring that keeps to a rate; random data, a process for each GPU."""
import statistics

from . import ranks
from .run import Budget, table

WORKER = ["-m", "gpu_parts.torch_beside"]
RATES = (25, 50, 100, 200, 400)  # GB/s; the last: all that goes
CALLS = {"ring": "send/recv ring", "allreduce": "allreduce"}


def add_arguments(parser):
    parser.add_argument("--bytes", type=int, default=256 << 20, help="bytes of a message (256 MiB)")
    parser.add_argument("--side", type=int, default=8192, help="rows and columns of the matrices (8192)")
    parser.add_argument("--products", type=int, default=400, help="matrix products in a measurement (400)")
    parser.add_argument("--rounds", type=int, default=3,
                        help="measurements alone and beside in turns; the median counts")
    parser.add_argument("--rates", type=float, nargs="*", default=list(RATES),
                        help="GB/s of the ring that keeps to a rate (25, 50, 100, 200, 400)")


def program(options):
    words = [word for name in ("bytes", "side", "products", "rounds")
             for word in (f"--{name}", str(getattr(options, name)))]
    return [*WORKER, *words, "--rates", *map(str, options.rates)]


def summary(outs, nbytes):
    """{call: slowdown in percent (worst rank, median of the rounds), ms alone, GB/s alone and beside,
    did the talk outlast the products}"""
    found = {}
    for name in CALLS:
        per_rank = [[100 * (t["beside"] / t["alone"] - 1) for t in out[name]["turns"]] for out in outs]
        turns = [t for out in outs for t in out[name]["turns"]]
        factor = (2 * (len(outs) - 1) / len(outs) if name == "allreduce" else 1) * nbytes / 1e6
        found[name] = {"percent": max(statistics.median(values) for values in per_rank),
                       "alone_ms": statistics.median(t["alone"] for t in turns),
                       "busbw_alone": factor / max(out[name]["call alone"] for out in outs),
                       "busbw_beside": factor / statistics.median(t["call"] for t in turns),
                       "outlasted": all(t["outlasted"] > 0 for t in turns)}
    return found


def slower(turn):
    """(percent by which products took longer, percent of that which the clock explains: they took as many cycles)"""
    return 100 * (turn["beside"] / turn["alone"] - 1), 100 * (turn["GHz alone"] / turn["GHz"] - 1)


def by_rate(outs):
    """[{GB/s wanted and moved, percent in all and by the clock, of the worst rank; medians of the rounds}]"""
    found = []
    for each in zip(*(out.get("rates", []) for out in outs)):
        percents = [tuple(statistics.median(values) for values in zip(*map(slower, one["turns"]))) for one in each]
        worst = max(percents)
        found.append({"rate": each[0]["rate"], "percent": worst[0], "by clock": worst[1],
                      "moved": min(statistics.median(turn["moved"] for turn in one["turns"]) for one in each)})
    return found


def show_rates(found):
    rows = [[variant, f"{v['rate']:g}", f"{v['moved']:.0f}", f"{v['percent']:.2f}", f"{v['by clock']:.2f}",
             f"{v['percent'] - v['by clock']:.2f}", f"{v['percent'] / v['moved']:.4f}" if v["moved"] else "-"]
            for variant, rates in found.items() for v in rates]
    return table(["library", "ring, wanted GB/s", "moved GB/s", "products slower by (%)", "by the clock",
                  "by processors and memory", "% for each GB/s"], rows)


def show(found):
    rows = []
    for variant, calls in found.items():
        for name, v in calls.items():
            note = "" if v["outlasted"] else " (the talk ended before the products: too low)"
            rows.append([variant, CALLS[name], f"{v['percent']:.2f}{note}", f"{v['alone_ms']:.3f}",
                         f"{v['busbw_alone']:.0f}", f"{v['busbw_beside']:.0f}"])
    return table(["library", "beside", "products slower by (%)", "a product alone (ms)", "bus GB/s alone",
                  "bus GB/s with products"], rows)


def main(options, results):
    budget = Budget(options.budget)
    results.data.update(summary={}, complaints=[], raw={}, rates={})
    options.products //= 2 if options.quick else 1
    variants = ranks.VARIANTS[:2] if options.quick else ranks.VARIANTS
    for variant, outs in ranks.in_turns(options, results, budget, variants, program(options)):
        results.data["raw"][variant] = outs
        results.data["summary"][variant] = summary(outs, options.bytes)
        results.data["rates"][variant] = by_rate(outs)
    print(show(results.data["summary"]), show_rates(results.data["rates"]), sep="\n")
    return results.end(budget)
