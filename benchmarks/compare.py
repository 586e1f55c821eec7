#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures tutti and its peers in turns, and prints how they compare.

Every round runs each library once (A B C A B C ...), so that what the machine does meanwhile hits all alike; the figure
of a point is the median over the rounds. A ratio is peer's time / tutti's time: above 1 tutti is faster. Programs:
bench.c with tutti_bench.c or mpi_bench.c, and gloo_bench.py. Writes NAME.json, NAME.md, NAME.svg (times)
and NAME-ratios.svg (best peer / tutti), and ends with the table of geometric means and the worst points. --from
NAME.json does so again from what was measured before.
"""
import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time

from plot import write_ratios, write_svg

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
COLLECTIVES = ("allreduce", "allgather", "reduce_scatter", "alltoall", "pingpong", "sendrecv")
SIZES = (8, 64, 512, 4096, 32768, 262144, 2097152, 16777216, 67108864)
QUICK_SIZES = (8, 4096, 262144, 4194304)
CORES = len(os.sched_getaffinity(0))
METRICS = {"auto": "median (mean where ranks share processors)"}
UCX_TCP = {"UCX_TLS": "tcp,self", "UCX_NET_DEVICES": "lo"}


def ompi(program, ranks, transport, ucx):
    """Open MPI: vader with cross-memory attach or TCP by its own transports (ob1), or either through UCX."""
    command = ["mpirun.openmpi", "-np", str(ranks)]
    command += ["--bind-to", "core"] if ranks <= CORES else ["--oversubscribe", "--bind-to", "none"]
    env = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    if ucx:
        command += ["--mca", "pml", "ucx", "--mca", "opal_common_ucx_tls", "any",
                    "--mca", "opal_common_ucx_devices", "any"]
        env.update(UCX_TCP if transport == "tcp" else {})
    else:
        command += ["--mca", "pml", "ob1", "--mca", "btl", "self,tcp" if transport == "tcp" else "self,vader"]
        command += ["--mca", "btl_tcp_if_include", "lo"] if transport == "tcp" else []
    return command + [program], env


def mpich(program, ranks, transport):
    """MPICH (ch4:ucx); over TCP its own shared memory must be told to stand aside."""
    command = ["mpirun.mpich", "-np", str(ranks)] + (["-bind-to", "core"] if ranks <= CORES else [])
    return command + [program], {**UCX_TCP, "MPIR_CVAR_NOLOCAL": "1"} if transport == "tcp" else {}


def tutti_run(tutti, program, ranks, env):
    command = [tutti, "run", "-n", str(ranks), "--no-tag"] + (["--bind", "core"] if ranks <= CORES else [])
    return command + ["--"] + program, env


def compile_peer(compiler, folder):
    """The MPI program for one MPI, or None where that MPI is not installed."""
    if not shutil.which(compiler):
        return None
    program = os.path.join(folder, "mpi_bench." + compiler.split(".")[1])
    subprocess.run([compiler, "-O2", "-o", program, os.path.join(HERE, "mpi_bench.c"), os.path.join(HERE, "bench.c")],
                   check=True)
    return program


def has_torch():
    return os.path.exists("/usr/bin/python3") and subprocess.run(
        ["/usr/bin/python3", "-c", "import torch.distributed"], capture_output=True, check=False).returncode == 0


def libraries(options):
    """Name -> function (ranks, transport) -> (command, environment), or None for what it cannot do."""
    tutti = os.path.join(options.bin, "tutti")
    bench = os.path.join(options.bin, "tutti-bench")
    if not os.path.exists(bench):
        sys.exit(f"{bench} is not there: make build")
    os.makedirs(options.work, exist_ok=True)
    found = {"tutti": lambda n, t: tutti_run(tutti, [bench], n, {"TUTTI_TRANSPORT": t})}
    program = compile_peer("mpicc.openmpi", options.work)
    if program:
        found["ompi"] = lambda n, t: ompi(program, n, t, False)
        found["ompi-ucx"] = lambda n, t: ompi(program, n, t, True)
    other = compile_peer("mpicc.mpich", options.work)
    if other:
        found["mpich"] = lambda n, t: mpich(other, n, t)
    if has_torch():
        gloo = ["/usr/bin/python3", os.path.join(HERE, "gloo_bench.py")]
        found["gloo"] = lambda n, t: tutti_run(tutti, gloo, n, {}) if t == "tcp" else None
    return {name: make for name, make in found.items() if not options.libraries or name in options.libraries}


def run_once(name, command, env, options):
    """The points of one sweep. A library that fails or hangs is reported and gives what it printed."""
    arguments = ["--collectives", ",".join(options.collectives), "--sizes", ",".join(map(str, options.sizes)),
                 "--budget", str(options.budget)]
    try:
        done = subprocess.run(command + arguments, env={**os.environ, **env, "BENCH_NAME": name}, capture_output=True,
                              text=True, timeout=options.timeout, check=False)
        out, err, code = done.stdout, done.stderr, done.returncode
    except subprocess.TimeoutExpired as late:
        out, err, code = (late.stdout or b"").decode(), f"still running after {options.timeout} s", 124
    if code:
        print(f"  {name} failed ({code}): {err.strip()[-500:]}", flush=True)
    return [json.loads(line) for line in out.splitlines() if line.startswith("{") and line.endswith("}")], code


def metric(options, ranks):
    """Of ranks that share processors, an iteration is short where the message had come before, and long where another
    rank had to run first: a median shows one kind alone."""
    return options.metric if options.metric != "auto" else "mean" if ranks > CORES else "median"


def measure(options):
    """{(transport, ranks, collective, bytes): {library: [seconds of each round]}} and the failures."""
    found, results, failures = libraries(options), {}, []
    todo = len(options.transports) * len(options.ranks) * options.rounds
    start, done = time.monotonic(), 0
    for transport in options.transports:
        for ranks in options.ranks:
            for turn in range(options.rounds):
                left = (time.monotonic() - start) / done * (todo - done) if done else 0
                print(f"{transport}, {ranks} ranks, round {turn + 1} of {options.rounds}"
                      + (f", about {left:.0f} s left" if done else ""), flush=True)
                for name, make in found.items():
                    job = make(ranks, transport)
                    points, code = run_once(name, *job, options) if job else ([], 0)
                    failures += ([f"{name}, {transport}, {ranks} ranks, round {turn + 1}: exit status {code}"]
                                 if code else [])
                    for point in points:
                        key = (transport, ranks, point["collective"], point["bytes"])
                        results.setdefault(key, {}).setdefault(name, []).append(point[metric(options, ranks) + "_us"])
                done += 1
    return list(found), results, failures


def read(options):
    """What measure() returned when that file was written."""
    with open(options.measured, encoding="utf-8") as file:
        run = json.load(file)
    points = {(p["transport"], p["ranks"], p["collective"], p["bytes"]): p["us"] for p in run["points"]}
    options.collectives, options.rounds, options.metric = (run["options"][k]
                                                           for k in ("collectives", "rounds", "metric"))
    names = ["tutti"] + sorted({name for times in points.values() for name in times} - {"tutti"})
    return names, points, run["failures"]


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def best_ratios(results):
    """{(transport, ranks, collective): {bytes: (ratio, our seconds, best peer, its seconds)}},
    of points that we and a peer have."""
    cells = {}
    for (transport, ranks, collective, size), times in sorted(results.items()):
        row = {name: statistics.median(t) for name, t in times.items()}
        peers = [name for name in row if name != "tutti"]
        if "tutti" in row and peers:
            best = min(peers, key=row.get)
            cells.setdefault((transport, ranks, collective), {})[size] = (
                row[best] / row["tutti"], row["tutti"], best, row[best])
    return cells


def grid(cells, collectives):
    """One row for each transport and number of ranks; bold below 1."""
    lines = ["| | " + " | ".join(collectives) + " |", "|---|" + "---:|" * len(collectives)]
    for transport, ranks in sorted({key[:2] for key in cells}):
        crowd = f" on {CORES} processors" if ranks > CORES else ""
        means = [geometric_mean([p[0] for p in cells.get((transport, ranks, c), {}).values()]) for c in collectives]
        shown = ["" if math.isnan(m) else f"**{m:.2f}**" if m < 1 else f"{m:.2f}" for m in means]
        lines.append(f"| {transport}, {ranks} ranks{crowd} | " + " | ".join(shown) + " |")
    return lines


def worst_points(cells, most=20, bound=0.9):
    points = sorted((point, key, size) for key, sizes in cells.items() for size, point in sizes.items()
                    if point[0] < bound)
    lines = [f"{len(points)} of {sum(map(len, cells.values()))} points are below {bound}"
             + ("; the worst:" if points else "."), ""]
    if points:
        lines += ["| ratio | | bytes | tutti (us) | best peer (us) |", "|---:|---|---:|---:|---|"]
    for (ratio, ours, best, theirs), (transport, ranks, collective), size in points[:most]:
        lines.append(f"| {ratio:.2f} | {collective}, {ranks} ranks, {transport} | {size} | {ours:.2f} | "
                     f"{theirs:.2f} {best} |")
    return lines


def tables(names, results):
    """Markdown lines and the summary: [(transport, ranks, collective, {peer: geometric mean}, best)]."""
    lines, summary = [], []
    for transport, ranks, collective in sorted({key[:3] for key in results},
                                               key=lambda k: (k[0], k[1], COLLECTIVES.index(k[2]))):
        rows = {key[3]: {n: statistics.median(t) for n, t in times.items()} for key, times in results.items()
                if key[:3] == (transport, ranks, collective)}
        here = [n for n in names if any(n in row for row in rows.values())]
        peers = [n for n in here if n != "tutti"]
        lines += [f"### {collective}, {ranks} ranks, {transport}", "",
                  "| bytes | " + " | ".join(f"{n} (us)" for n in here) + " | best peer / tutti |",
                  "|---:" * (len(here) + 2) + "|"]
        ratios = {peer: [] for peer in peers + ["best"]}
        for size, row in sorted(rows.items()):
            have = [row[p] for p in peers if p in row]
            best = min(have) / row["tutti"] if have and "tutti" in row else None
            for peer in peers:
                if best and peer in row:
                    ratios[peer].append(row[peer] / row["tutti"])
            ratios["best"] += [best] if best else []
            lines.append(f"| {size} | " + " | ".join(f"{row[n]:.2f}" if n in row else "" for n in here)
                         + f" | {f'{best:.2f}' if best else ''} |")
        means = {peer: geometric_mean(values) for peer, values in ratios.items()}
        shown = ", ".join(f"{p} {m:.2f}" for p, m in means.items() if not math.isnan(m))
        lines += ["", "Geometric mean of peer / tutti: " + shown, ""]
        summary.append((transport, ranks, collective, means))
    return lines, summary


def summary_table(names, summary):
    peers = [n for n in names if n != "tutti"] + ["best"]
    lines = ["| transport | ranks | collective | " + " | ".join(peers) + " |", "|---|---:|---|" + "---:|" * len(peers)]
    for transport, ranks, collective, means in summary:
        cells = [f"{means[p]:.2f}" if p in means and not math.isnan(means[p]) else "" for p in peers]
        lines.append(f"| {transport} | {ranks} | {collective} | " + " | ".join(cells) + " |")
    return lines


def versions():
    for command in (["mpirun.openmpi", "--version"], ["mpirun.mpich", "--version"]):
        try:
            out = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip().splitlines()
        except OSError:
            continue
        yield from [line.strip() for line in out if "Open MPI" in line or "Version:" in line][:1]


def write(options, names, results, failures):
    lines, summary = tables(names, results)
    head = ["# tutti and its peers", "",
            f"`benchmarks/compare.py {' '.join(sys.argv[1:])}` on {CORES} processors, {options.rounds} rounds, "
            f"{METRICS.get(options.metric, options.metric)} of the iterations, the greatest over the ranks, "
            "out of place, float, sum. Peers: "
            + "; ".join(versions()) + ".", "Sizes are those of the whole vector. A ratio is peer's "
            "time / tutti's time: above 1 tutti is faster. `best` is the fastest peer of each size.", "",
            "## Best peer / tutti, geometric means over the sizes", ""]
    cells, collectives = best_ratios(results), [c for c in COLLECTIVES if c in options.collectives]
    ratios = grid(cells, collectives) + ["", "## Worst points", ""] + worst_points(cells)
    page = head + ratios + ["", "## Each peer / tutti, geometric means over the sizes",
                            ""] + summary_table(names, summary) + ["", "## All points", ""] + lines
    page += ["## Failures", ""] + [f"- {f}" for f in failures] + [""] if failures else []
    with open(options.output + ".md", "w", encoding="utf-8") as file:
        file.write("\n".join(page))
    rows = [{"transport": k[0], "ranks": k[1], "collective": k[2], "bytes": k[3], "us": times}
            for k, times in sorted(results.items())]
    with open(options.output + ".json", "w", encoding="utf-8") as file:
        json.dump({"options": {k: v for k, v in vars(options).items()}, "points": rows, "failures": failures},
                  file, indent=1)
    medians = {key: {n: statistics.median(t) for n, t in times.items()} for key, times in results.items()}
    write_svg(options.output + ".svg", names, medians, collectives)
    write_ratios(options.output + "-ratios.svg",
                 {key: {size: p[0] for size, p in sizes.items()} for key, sizes in cells.items()}, collectives)
    print("\n".join(page + ratios))
    print(f"Written: {options.output}.json .md .svg -ratios.svg")


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: text.split(",")
    numbers = lambda text: [int(n) for n in text.split(",")]
    parser.add_argument("--quick", action="store_true", help="few sizes, 2 ranks, short: a look, not a result")
    parser.add_argument("--transports", type=words, default=["shm", "tcp"])
    parser.add_argument("--ranks", type=numbers, help="default 2,4,8")
    parser.add_argument("--collectives", type=words, default=list(COLLECTIVES))
    parser.add_argument("--sizes", type=numbers)
    parser.add_argument("--libraries", type=words, help="some of tutti,ompi,ompi-ucx,mpich,gloo (default: all that are "
                        "installed)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--budget", type=float, help="seconds of a point in a round (default 0.15)")
    parser.add_argument("--metric", choices=["auto", "median", "mean", "min"], default="auto",
                        help="of the iterations of a round (default auto: the mean where ranks share processors, else "
                        "the median)")
    parser.add_argument("--timeout", type=float, default=600, help="seconds of one sweep of one library")
    parser.add_argument("--bin", default=os.path.join(ROOT, "build/bin"), help="folder of tutti and tutti-bench")
    parser.add_argument("--work", default=os.path.join(ROOT, "build/compare"), help="folder for the peers' programs")
    parser.add_argument("--from", dest="measured", help="NAME.json of an earlier run: nothing is measured")
    parser.add_argument("--output", default=os.path.join(ROOT, "build/compare/compare"),
                        help="start of the names of the files")
    options = parser.parse_args()
    options.ranks = options.ranks or ([2] if options.quick else [2, 4, 8])
    options.sizes = options.sizes or list(QUICK_SIZES if options.quick else SIZES)
    options.budget = options.budget or (0.05 if options.quick else 0.15)
    return options


def main():
    options = parse()
    names, results, failures = read(options) if options.measured else measure(options)
    write(options, names, results, failures)
    return bool([f for f in failures if f.startswith("tutti")]) or not results


if __name__ == "__main__":
    sys.exit(main())
