# SPDX-License-Identifier: Apache-2.0
"""nopeer: two GPUs that may not address each other (NCCL_P2P_DISABLE=1),
and without shared memory (sockets over loopback) as well."""

from gpu_parts import perf
from gpu_parts.run import Budget, say, size_name, table, tail

from . import check

HOST = {"NCCL_P2P_DISABLE": "1"}
SOCKETS = {**HOST, "NCCL_SHM_DISABLE": "1", "NCCL_SOCKET_IFNAME": "lo"}
MODES = {"host memory": HOST, "sockets": SOCKETS}
SPEED = "-b 1M -e 256M -f 16 -n 5 -w 2 -c 0".split()
CHECK = "-b 64 -e 64M -f 32 -n 1 -w 1 -c 1".split()
FORM = "gpus"
CHECKED = ("all_reduce", "reduce_scatter", "all_gather", "alltoall", "sendrecv", "broadcast")


def add_arguments(parser):
    parser.add_argument("--rounds", type=int, default=3, help="rounds, NCCL and tutti in turns")
    parser.add_argument("--form", default=FORM, choices=("gpus", "threads", "processes"),
                        help="how the two GPUs are driven")


def checks(options, budget, results):
    for mode, env in MODES.items():
        for program in CHECKED[:2] if options.quick else CHECKED:
            limit = budget.limit(options.limit)
            if not limit:
                continue
            done = perf.start(options, options.tutti, program, options.form, CHECK, limit, env, gpus=2)
            said = check.judge(done)
            results.failed += bool(said)
            record = {"mode": mode, "program": program, "good": not said, "said": said}
            if said:
                record["output"] = tail(done.text())
            results.data["checks"].append(record)
            results.save()
            print(f"{'FAILED' if said else 'ok    '} {program} by {mode}", *said, flush=True)
            if said:
                print(tail(done.text(), 800))


def show(points):
    rows = []
    for mode, sizes in perf.medians(points).items():
        for size, pair in sorted(sizes.items()):
            if {"nccl", "tutti"} <= set(pair):
                (us, bus), (our_us, our_bus) = pair["nccl"], pair["tutti"]
                rows.append([mode, size_name(size), f"{us:.0f}", f"{our_us:.0f}", f"{bus:.2f}", f"{our_bus:.2f}",
                             f"{us / our_us:.2f}"])
    return table(["allreduce, 2 GPUs", "size", "NCCL (us)", "tutti (us)", "NCCL bus GB/s", "tutti bus GB/s", "ratio"],
                 rows)


def main(options, results):
    budget = Budget(options.budget)
    options.rounds = min(options.rounds, 2) if options.quick else options.rounds
    results.data.update(points={}, checks=[], complaints=[])
    points = results.data["points"]
    for turn in range(options.rounds):
        for mode, env in MODES.items():
            for library, folder in options.libraries.items():
                limit = budget.limit(options.limit)
                if not limit:
                    continue
                say(f"nopeer, round {turn + 1} of {options.rounds}: {mode}, {library}")
                done = perf.start(options, folder, "all_reduce", options.form, SPEED, limit, env, gpus=2)
                for row in perf.rows(done.text()):
                    points.setdefault(mode, {}).setdefault(library, {}).setdefault(str(row.size), []).append(
                        [row.us, row.busbw])
                if done.status:
                    results.failed += 1
                    results.data["complaints"].append(f"{mode}, {library}: exit status {done.status}: "
                                                      f"{tail(done.text())}")
                    say(f"{mode}, {library}: exit status {done.status}\n{tail(done.text(), 800)}")
                results.save()
    print(show(points))
    checks(options, budget, results)
    return results.end(budget)
