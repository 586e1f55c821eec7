# SPDX-License-Identifier: Apache-2.0
"""plugin: unmodified NCCL, two GPUs that reach each other over the network alone: tutti's network plugin against NCCL's
own sockets, with checks, and while TCP connections are cut."""
import os

from gpu_parts import perf, run
from gpu_parts.run import Budget, say, size_name, table, tail

from . import check, cutting

APART = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_SOCKET_IFNAME": "lo"}
SOCKETS, PLUGIN = "NCCL's sockets", "tutti's plugin"
CHECKED = ("all_reduce", "sendrecv", "alltoall", "all_gather", "reduce_scatter", "broadcast", "reduce")
CHECK = "-b 8 -e 64M -f 8 -n 2 -w 1 -c 1".split()
CUT = ("all_reduce", "alltoall", "sendrecv")
CUT_CHECK = "-b 64K -e 16M -f 4 -n 150 -w 2 -c 1".split()
SPEED = "-b 8 -e 256M -f 32 -n 5 -w 2 -c 0".split()
MEASURED = ("all_reduce", "sendrecv")


def add_arguments(parser):
    parser.add_argument("--plugin", default=None, help="libnccl-net-tutti.so (in the folder of --tutti)")
    parser.add_argument("--lanes", default="4", help="TCP connections of tutti between two processes (4)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds, sockets and plugin in turns")
    parser.add_argument("--cut-every", type=float, default=0.1, help="seconds between two cuts (0.1)")


def environment(options, network):
    if network == SOCKETS:
        return {**APART, "NCCL_NET_PLUGIN": "none", "NCCL_NET": "Socket"}
    return {**APART, "NCCL_NET_PLUGIN": options.plugin, "NCCL_NET": "tutti", "TUTTI_TCP_LANES": options.lanes}


def start(options, network, program, arguments, limit, every=None, form="processes", extra=None):
    """every(job): called again and again while the program runs."""
    folders = f"{options.nccl}:{os.path.dirname(options.plugin)}"  # where libtutti.so.0 is, too
    env = run.environment(folders, {**environment(options, network), **(extra or {})})
    job = run.Job(perf.command(options, program, form, arguments, 2), env)
    return run.run_all([job], limit, every=every and (lambda: every(job)))[0]


def record(results, kind, program, done, said, **more):
    one = {"kind": kind, "program": program, "good": not said, "said": said, "points": len(perf.rows(done.text())),
           "seconds": round(done.seconds, 1), **more}
    if said:
        one["output"] = tail(done.text(), 4000)
    results.data["checks"].append(one)
    results.save()
    words = ", ".join(f"{value} {name}" for name, value in more.items())
    state = "FAILED" if said else "ok    "
    print(f"{state} {program}, {kind}: {one['points']} points in {one['seconds']} s", words, *said, flush=True)
    if said:
        print(tail(done.text(), 1500), flush=True)
    return bool(said)


def served(options, budget, results):
    """NCCL's log tells which network it took."""
    limit = budget.limit(options.limit)
    if not limit:
        return 1
    done = start(options, PLUGIN, "all_reduce", "-b 1M -e 1M -f 2 -n 1 -w 1 -c 1".split(), limit,
                 extra={"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET"})
    lines = [line.strip() for line in done.text().splitlines() if "tutti" in line or "NCCL version" in line]
    results.data["served"] = lines[:40]
    said = check.judge(done) + ([] if any("via NET/tutti" in line for line in lines) else ["NCCL took another network"])
    return record(results, "NCCL's log", "all_reduce", done, said)


def checks(options, budget, results):
    failed = 0
    ways = [("processes", "processes", program) for program in CHECKED] + [("one process", "gpus", "all_reduce")]
    for kind, form, program in ways:
        limit = budget.limit(options.limit)
        if not limit:
            continue
        done = start(options, PLUGIN, program, CHECK, limit, form=form)
        failed += record(results, kind, program, done, check.judge(done))
    return failed


def cut(options, budget, results):
    """Lanes are those connections that carry much: what NCCL and its launcher open for themselves carries little."""
    failed = 0
    for program in CUT:
        limit = budget.limit(options.limit)
        if not limit:
            continue
        cutter = cutting.Cutter(options.cut_every, 4 << 20)
        done = start(options, PLUGIN, program, CUT_CHECK, limit,
                     lambda job, cutter=cutter: cutter([job.process.pid, *run.descendants(job.process.pid)]))
        said = check.judge(done) + ([] if cutter.cuts else ["no connection was cut"])
        failed += record(results, "lanes cut", program, done, said, cuts=cutter.cuts)
    return failed


def speed(options, budget, results):
    points, failed = results.data["points"], 0
    for turn in range(options.rounds):
        for program in MEASURED:
            for network in (SOCKETS, PLUGIN):
                limit = budget.limit(options.limit)
                if not limit:
                    continue
                say(f"plugin, round {turn + 1} of {options.rounds}: {program}, {network}")
                done = start(options, network, program, SPEED, limit)
                for row in perf.rows(done.text()):
                    points.setdefault(program, {}).setdefault(network, {}).setdefault(str(row.size), []).append(
                        [row.us, row.busbw])
                if done.status:
                    failed += 1
                    results.data["complaints"].append(f"{program}, {network}: exit status {done.status}")
                    say(f"{program}, {network}: exit status {done.status}\n{tail(done.text(), 800)}")
                results.save()
    return failed


def show(points):
    rows = []
    for program, sizes in perf.medians(points).items():
        for size, pair in sorted(sizes.items()):
            if {SOCKETS, PLUGIN} <= set(pair):
                (us, bus), (our_us, our_bus) = pair[SOCKETS], pair[PLUGIN]
                rows.append([program, size_name(size), f"{us:.0f}", f"{our_us:.0f}", f"{bus:.2f}", f"{our_bus:.2f}",
                             f"{us / our_us:.2f}"])
    return table(["NCCL over", "size", "sockets (us)", "plugin (us)", "sockets bus GB/s", "plugin bus GB/s", "ratio"],
                 rows)


def main(options, results):
    budget = Budget(options.budget)
    options.plugin = os.path.abspath(options.plugin or os.path.join(options.tutti, "libnccl-net-tutti.so"))
    results.data.update(points={}, checks=[], complaints=[], served=[])
    if not os.path.exists(options.plugin):
        say(f"plugin: there is no {options.plugin} (--plugin)")
        return 1
    results.failed = served(options, budget, results) + checks(options, budget, results)
    results.failed += cut(options, budget, results) + speed(options, budget, results)
    print(show(results.data["points"]))
    return results.end(budget)
