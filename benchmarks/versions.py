#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two builds of the library side by side: how much longer each collective takes with the second one.

    versions.py BEFORE AFTER [--rounds 7] [--over shm,tcp] [--ranks 2,4] [--most 16M]

BEFORE and AFTER are build folders. Each `tutti perf` runs with the one, then with the other, in rounds; of each size
the median of the rounds counts, of the quicker of in and out of place (the quickest of all depends on luck: on two
cores about one process in ten starts where all is twice as fast). Prints after / before: above 1 the second one is
slower. Wants a quiet machine. Exit status 1 if a geometric mean is above 1.1.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

COLLECTIVES = ("allreduce", "allgather", "reduce_scatter", "alltoall", "broadcast", "sendrecv")


def measure(build, collective, over, ranks, most):
    """{bytes: us}"""
    tutti = os.path.join(build, "cli", "tutti")
    env = {**os.environ, "TUTTI_TRANSPORT": over, "TUTTI_SOCKET_IFNAME": "=lo", "TUTTI_DEBUG": "none"}
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        subprocess.run([tutti, "perf", collective, "-np", str(ranks), "-b", "8", "-e", most, "-f", "8", "-z", "1", "-c",
                        "0", "-n", "20", "-J", report], env=env, check=True, stdout=subprocess.DEVNULL, timeout=300)
        with open(report, encoding="utf-8") as file:
            rows = json.load(file)["rows"]
    return {row["size"]: min(row[place]["time_us"] for place in ("out_of_place", "in_place") if row.get(place))
            for row in rows}


def usual(builds, rounds, *args):
    """[{bytes: us} of each build], the median of all rounds"""
    times = [{}, {}]
    for turn in range(rounds):
        for which in (0, 1) if turn % 2 else (1, 0):
            for size, time in measure(builds[which], *args).items():
                times[which].setdefault(size, []).append(time)
    return [{size: statistics.median(many) for size, many in build.items()} for build in times]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before")
    parser.add_argument("after")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--over", default="shm,tcp")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--most", default="16M")
    asked = parser.parse_args()
    worst, header = 0, None
    for over in asked.over.split(","):
        for ranks in map(int, asked.ranks.split(",")):
            for collective in COLLECTIVES:
                before, after = usual((asked.before, asked.after), asked.rounds, collective, over, ranks, asked.most)
                ratios = {size: after[size] / before[size] for size in sorted(before) if before[size] > 0}
                mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
                worst = max(worst, mean)
                if header is None:
                    header = "| over, ranks | collective | mean | " + " | ".join(f"{size}" for size in ratios) + " |"
                    print(header + "\n" + "|---" * header.count(" |") + "|")
                cells = " | ".join(f"{ratio:.2f}" for ratio in ratios.values())
                print(f"| {over}, {ranks} | {collective} | {mean:.2f} | {cells} |", flush=True)
    return worst > 1.1


if __name__ == "__main__":
    sys.exit(main())
