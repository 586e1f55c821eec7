# SPDX-License-Identifier: Apache-2.0
"""hosts: ranks that say that each is on a host of its own, and share the GPUs that there are: one is enough. With
--hosts there is a rank for each of --gpus, and each host has its share of them. All collectives, windows and signals,
lost ranks, and lanes that are cut, by tutti's own programs of a build with tests (meson setup BUILD
-Dtests=enabled)."""
import os

from gpu_parts import run
from gpu_parts.run import Budget, tail

ON_HOST = 'TUTTI_HOSTID=$((TUTTI_RANK * {} / {})) exec "$0" "$@"'
CUT = {"TUTTI_TRANSPORT": "tcp", "TUTTI_TCP_LANES": "3"}
TESTS = "tests/collective/"
# name: (ranks; 0: the program makes its own, settings, program, arguments)
RUNS = {
    "matrix of 2": (2, {}, TESTS + "matrix", ["-k", "12"]),
    "matrix of 3": (3, {}, TESTS + "matrix", ["-k", "25", "-s", "5"]),
    "matrix of 4, short slices": (4, {"TUTTI_STAGE_SLICE": "64K"}, TESTS + "matrix", ["-k", "60", "-s", "6"]),
    "soak": (3, {}, TESTS + "soak", ["--seconds", "10"]),
    "soak, lanes cut": (3, CUT, TESTS + "soak", ["--seconds", "10", "--resets", "300"]),
    "graphs": (3, {}, TESTS + "gpu_replayed", ["30"]),
    "graphs, a rank dies": (2, {}, TESTS + "gpu_replayed", ["dies"]),
    "staged": (3, {}, TESTS + "gpu_staged", []),
    "staged, a rank dies": (3, {}, TESTS + "gpu_staged", ["gone", "dies", "3"]),
    "staged, a rank closes": (3, {}, TESTS + "gpu_staged", ["gone", "closes", "3"]),
    "windows": (3, {}, TESTS + "windows", []),
    "windows, faults": (0, {}, TESTS + "window_faults", ["hosts"]),
    "NCCL's signals": (3, {}, "compat/nccl/nccl_signals", []),
}
QUICK = ("matrix of 2", "soak", "graphs", "windows", "windows, faults")


def add_arguments(parser):
    parser.add_argument("--build", default="build", help="folder of a build with tests (build)")
    parser.add_argument("--only", nargs="+", choices=RUNS, metavar="NAME", help=f"of {', '.join(RUNS)} (all)")


def command(options, ranks, program, arguments, limit):
    at = [os.path.join(options.build, program), *arguments]
    if not ranks:
        return at
    hosts = options.hosts if options.hosts > 1 else ranks
    ranks = options.gpus if options.hosts > 1 else ranks
    launcher = [os.path.join(options.build, "cli", "tutti"), "run", "-n", str(ranks), "--timeout", f"{limit:.0f}"]
    return [*launcher, "--", "sh", "-c", ON_HOST.format(hosts, ranks), *at]


def main(options, results):
    budget = Budget(options.budget)
    options.build = os.path.abspath(options.build)
    results.data["checks"] = []
    for name in options.only or (QUICK if options.quick else RUNS):
        ranks, settings, program, arguments = RUNS[name]
        limit = budget.limit(options.limit)
        if not limit:
            continue
        env = {**os.environ, "TUTTI_TEST_GPU": "1", "TUTTI_DEBUG": "none", **settings}
        done = run.run(command(options, ranks, program, arguments, limit), env, limit)
        good = done.status == 0
        results.failed += not good
        results.data["checks"].append({"name": name, "good": good, "status": done.status, "seconds": done.seconds,
                                       "output": tail(done.text())})
        results.save()
        print(f"{'ok    ' if good else 'FAILED'} {name}, {done.seconds:.1f} s", flush=True)
        if not good:
            print(tail(done.text(), 1500), flush=True)
    return results.end(budget)
