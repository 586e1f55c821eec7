#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""two_level.py BUILD [--collective allgather] [--rate 200mbit] [--each 4] [--max 16M] [--steps]: a collective on
hosts of the lab, each with several ranks.

Makes a lab of two hosts joined by one switch, with links of a limited rate, and runs `tutti perf` on both, by the
library's choice, or with --steps by steps at every size (TUTTI_ALGO=two-level), and by the flat one
(TUTTI_ALGO=^two-level), in turn. Prints times and ratios by size. Needs root, as the lab does.
"""
import argparse
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile

LAB = "name: {name}\nhosts: 2\nnics: 1\nleaves: 1\nspines: 1\nrate: {rate}\nipv6: false\n"
CHOICES = {"chosen": "", "flat": "^two-level"}
COLLECTIVES = ["allreduce", "allgather", "reduce_scatter", "broadcast", "reduce", "alltoall", "gather", "scatter"]


def perf(options, name, algorithm, folder, turn):
    """Times in microseconds by size, out of place."""
    out = os.path.join(folder, f"{turn}.json")
    ranks, nonce = [], secrets.token_hex(16)
    command = [os.path.join(options.build, "cli", "tutti"), "perf", options.collective, "-b", options.min,
               "-e", options.max, "-f", "4", "-n", "5", "-w", "2", "-J", out]
    for rank in range(2 * options.each):
        host = rank % 2 if options.interleaved else rank // options.each
        env = dict(os.environ, TUTTI_RANK=str(rank), TUTTI_SIZE=str(2 * options.each),
                   TUTTI_ID=f"10.0.0.1:{24000 + turn}",
                   TUTTI_NONCE=nonce, TUTTI_LOCAL_RANK=str(rank // 2 if options.interleaved else rank % options.each),
                   TUTTI_ALGO=algorithm)
        lab = [options.lab, "run", "-n", name, f"h{host}", "--", *command]
        ranks.append(subprocess.Popen(lab, env=env, stdout=subprocess.DEVNULL))
    codes = [rank.wait(timeout=600) for rank in ranks]
    if any(codes):
        sys.exit(f"ranks ended with {codes}")
    with open(out, encoding="utf-8") as file:
        return json.load(file)


def times(result):
    return {row["size"]: row["out_of_place"]["time_us"] for row in result["rows"]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build")
    parser.add_argument("--collective", default="allreduce", choices=COLLECTIVES)
    parser.add_argument("--rate", default="200mbit", help="of each host's link, each way (200mbit)")
    parser.add_argument("--each", type=int, default=4, help="ranks of a host (4)")
    parser.add_argument("--min", default="4K", help="smallest vector (4K)")
    parser.add_argument("--max", default="16M", help="largest vector (16M)")
    parser.add_argument("--turns", type=int, default=3, help="runs of each choice (3)")
    parser.add_argument("--interleaved", action="store_true", help="ranks take turns with the hosts")
    parser.add_argument("--steps", action="store_true", help="compare with steps at every size, not with the choice")
    options = parser.parse_args()
    if options.steps:
        CHOICES["chosen"] = "two-level"
    options.lab = os.path.join(options.build, "emulation", "lab", "tutti-lab")
    name = f"two{os.getpid() % 10000}"
    seen = {choice: {} for choice in CHOICES}
    with tempfile.TemporaryDirectory() as folder:
        file = os.path.join(folder, "lab.yaml")
        with open(file, "w", encoding="utf-8") as text:
            text.write(LAB.format(name=name, rate=options.rate))
        subprocess.run([options.lab, "up", file], check=True, stdout=subprocess.DEVNULL)
        try:
            for turn in range(2 * options.turns):
                choice = list(CHOICES)[turn % 2]
                for size, time in times(perf(options, name, CHOICES[choice], folder, turn)).items():
                    seen[choice].setdefault(size, []).append(time)
        finally:
            subprocess.run([options.lab, "down", name], check=False, stdout=subprocess.DEVNULL)
    print(f"{options.collective}, 2 hosts x {options.each} ranks, links of {options.rate}; "
          f"medians of {options.turns} runs, us")
    print(f"{'bytes':>10} {'flat':>12} {'chosen':>12} {'ratio':>7}")
    for size in sorted(seen["flat"]):
        flat, chosen = (statistics.median(seen[choice][size]) for choice in ("flat", "chosen"))
        print(f"{size:>10} {flat:>12.1f} {chosen:>12.1f} {flat / chosen:>7.2f}")


if __name__ == "__main__":
    main()
