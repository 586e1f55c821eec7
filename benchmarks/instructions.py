#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions of small calls of two ranks, by callgrind: the same on a busy machine as on a quiet one.

    instructions.py [BUILD]                 the table
    instructions.py [BUILD] --of last_allreduce   where those of one row go, by function

`first` is the rank that finds the other one missing, `last` the one that finds it there; `wait` is the synchronize
behind the call. Each figure is the mean of calls in the steady state, of several runs the least: a thread that is
interrupted with a lock in its hands makes a call go the long way. Looks at what has not come yet are counted,
and bounded, in `first`.
"""
import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile

TIMES = 64  # as in calls_bench.c
RUNS = 3
CALLS = ("allreduce", "reduce", "broadcast", "allgather", "alltoall", "barrier", "send_recv", "recv_send", "exchange")


def profile(program, *options):
    """Text of callgrind's files, one for each process."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["valgrind", "-q", "--tool=callgrind",
                        "--trace-children=yes", f"--callgrind-out-file={folder}/out.%p", *options, program],
                       check=True, stdout=subprocess.DEVNULL)
        return [annotate(os.path.join(folder, name), options) for name in sorted(os.listdir(folder))]


def annotate(path, options):
    inclusive = "no" if options else "yes"
    return subprocess.run(["callgrind_annotate", f"--inclusive={inclusive}", "--threshold=100",
                           "--show-percs=no", path], check=True, capture_output=True, text=True).stdout


def counts(texts):
    """Instructions by function; of several places of one function the most, or the sum where nothing is included."""
    found = collections.Counter()
    for text in texts:
        for match in re.finditer(r"^\s*([\d,]+)\s+\S*?:(\w+)", text, re.M):
            found[match.group(2)] += int(match.group(1).replace(",", ""))
    return found


def table(program):
    runs = [counts(profile(program)) for _ in range(RUNS)]
    print(f"| {'call, 8 bytes':14} | first: call | wait | last: call | wait |\n|---|---:|---:|---:|---:|")
    for call in CALLS:
        figures = [min(found[f"{step}_{call}"] for found in runs) // TIMES
                   for step in ("first", "wait", "last", "last_wait")]
        print(f"| {call.replace('_', ', '):14} | " + " | ".join(f"{figure:,}" for figure in figures) + " |")


def inside(program, step):
    found = counts(profile(program, "--collect-atstart=no", f"--toggle-collect={step}"))
    for name, figure in found.most_common():
        if figure >= TIMES:
            print(f"{figure / TIMES:8.1f}  {name}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--of", metavar="STEP")
    arguments = parser.parse_args()
    program = os.path.join(arguments.build, "benchmarks", "calls-bench")
    if not os.path.exists(program):
        sys.exit(f"there is no {program}: make build")
    if arguments.of:
        inside(program, arguments.of)
    else:
        table(program)


if __name__ == "__main__":
    main()
