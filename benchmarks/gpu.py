#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the programs of nccl-tests over NCCL and over tutti's libnccl in turns on the GPUs of this host, and prints how they compare.

  gpu.py speed --tests FOLDER --nccl LIBFOLDER --tutti LIBFOLDER [--rounds 3] [--gpus 4] [--only NAME ...] [--output NAME]
  gpu.py check --tests FOLDER --tutti LIBFOLDER [--gpus 4] [--quick]

FOLDER has all_reduce_perf and the others; each LIBFOLDER a libnccl.so.2. `speed` takes the median over the rounds of each point and
writes NAME.json, NAME.md and NAME.svg; a ratio is NCCL's time / tutti's: above 1 tutti is faster. `check` runs every program with
checks (-c 1) for all types and operators, in one thread, one thread a GPU, and in graphs; it exits with 1 if anything was wrong.
Multicast (NVLS) is off for both.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time

from plot import write_svg

PROGRAMS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "alltoall", "gather", "scatter", "sendrecv", "hypercube")
SMALL = ["-b", "8", "-e", "512K", "-f", "4", "-n", "50", "-w", "10", "-c", "0"]
LARGE = ["-b", "1M", "-e", "1G", "-f", "4", "-n", "10", "-w", "3", "-c", "0"]
# name: program, arguments
CASES = {
    "allreduce in a graph": ("all_reduce", ["-b", "1K", "-e", "16M", "-f", "4", "-n", "10", "-w", "2", "-G", "10", "-c", "0"]),
    "allreduce, small": ("all_reduce", SMALL),
    "allreduce, large": ("all_reduce", ["-b", "1M", "-e", "4G", "-f", "4", "-n", "8", "-w", "3", "-c", "0"]),
    "send/recv, small": ("sendrecv", SMALL),
    "send/recv, large": ("sendrecv", ["-b", "1M", "-e", "4G", "-f", "4", "-n", "8", "-w", "3", "-c", "0"]),
    "allgather, small": ("all_gather", SMALL),
    "allgather, large": ("all_gather", LARGE),
    "reduce-scatter, small": ("reduce_scatter", SMALL),
    "reduce-scatter, large": ("reduce_scatter", LARGE),
    "broadcast, small": ("broadcast", SMALL),
    "broadcast, large": ("broadcast", LARGE),
    "alltoall, small": ("alltoall", SMALL),
    "alltoall, large": ("alltoall", LARGE),
}


def environment(folder, extra):
    return {**os.environ, "NCCL_NVLS_ENABLE": "0", "LD_LIBRARY_PATH": folder + ":" + os.environ.get("LD_LIBRARY_PATH", ""), **extra}


def run(tests, folder, program, arguments, gpus, limit, extra=None):
    """(exit status, output) of one program."""
    command = [os.path.join(tests, program + "_perf"), "-g", str(gpus), *arguments]
    try:
        done = subprocess.run(command, env=environment(folder, extra or {}), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=limit)
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired as late:
        return 124, (late.stdout or b"").decode(errors="replace")


def rows(text):
    """{bytes: (us, bus GB/s, wrong)} out of place, from a program's table."""
    found = {}
    for line in text.splitlines():
        words = line.split()
        if len(words) == 12: # hypercube has no column for the operator
            words.insert(3, "none")
        if len(words) >= 13 and words[0].isdigit() and int(words[0]):
            found[int(words[0])] = (float(words[5]), float(words[7]), words[8], words[12])
    return found


def measure(options):
    """{case: {library: {bytes: [(us, busbw), ...]}}}"""
    libraries = {"nccl": options.nccl, "tutti": options.tutti}
    data = {}
    names = options.only or list(CASES)
    began = time.time()
    for turn in range(options.rounds):
        for number, name in enumerate(names):
            for library, folder in libraries.items():
                program, arguments = CASES[name]
                status, text = run(options.tests, folder, program, arguments, options.gpus, options.limit)
                for size, row in rows(text).items():
                    data.setdefault(name, {}).setdefault(library, {}).setdefault(size, []).append(row[:2])
                if status:
                    print(f"{library}: {name} ended with {status}:\n{text[-1500:]}", file=sys.stderr)
            done = turn * len(names) + number + 1
            left = (time.time() - began) / done * (options.rounds * len(names) - done)
            print(f"round {turn + 1}, {name}: about {left:.0f} s left", file=sys.stderr, flush=True)
    return data


def show(size):
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size // factor} {unit}"
    return f"{size} B"


def report(data, options):
    lines = ["# tutti and NCCL on GPUs", "", f"{options.gpus} GPUs, one thread, medians of {options.rounds} rounds, out of place, float, sum; NVLS off. "
             "A ratio is NCCL's time / tutti's.", ""]
    for name, libraries in data.items():
        theirs, ours = libraries.get("nccl", {}), libraries.get("tutti", {})
        sizes = sorted(set(theirs) & set(ours))
        ratios = []
        lines += [f"## {name}", "", "| size | NCCL (us) | tutti (us) | NCCL bus GB/s | tutti bus GB/s | ratio |", "|---:|---:|---:|---:|---:|---:|"]
        for size in sizes:
            a = statistics.median(row[0] for row in theirs[size])
            b = statistics.median(row[0] for row in ours[size])
            x = statistics.median(row[1] for row in theirs[size])
            y = statistics.median(row[1] for row in ours[size])
            ratios.append(a / b)
            lines.append(f"| {show(size)} | {a:.1f} | {b:.1f} | {x:.1f} | {y:.1f} | {a / b:.2f} |")
        if ratios:
            lines += ["", f"Geometric mean of the ratios: {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}", ""]
    return "\n".join(lines) + "\n"


def picture(data, gpus, path):
    medians, collectives = {}, []
    for name, libraries in data.items():
        collective, _, kind = name.replace(" in a graph", ", in a graph").partition(", ")
        collectives += [] if collective in collectives else [collective]
        for library, sizes in libraries.items():
            for size, points in sizes.items():
                medians.setdefault((kind, gpus, collective, size), {})[library] = statistics.median(row[0] for row in points)
    write_svg(path, ["tutti", "nccl"], medians, collectives)


def speed(options):
    data = measure(options)
    text = report(data, options)
    print(text)
    with open(options.output + ".md", "w", encoding="utf-8") as file:
        file.write(text)
    with open(options.output + ".json", "w", encoding="utf-8") as file:
        json.dump(data, file)
    picture(data, options.gpus, options.output + ".svg")
    return 0


def check(options):
    most = "64M" if options.quick else "1G"
    ways = {
        "one thread, all types and operators": ["-b", "8", "-e", "4M", "-f", "8", "-d", "all", "-o", "all", "-n", "1", "-w", "0", "-c", "1"],
        "one thread, large": ["-b", "1M", "-e", most, "-f", "8", "-n", "2", "-w", "1", "-c", "1"],
        "misaligned": ["-b", "1K", "-e", "16M", "-f", "16", "-n", "2", "-w", "0", "-c", "1", "-u", "1"],
        "registered": ["-b", "1K", "-e", "64M", "-f", "16", "-n", "2", "-w", "0", "-c", "1", "-R", "1"],
        "in a graph": ["-b", "1K", "-e", "16M", "-f", "16", "-n", "3", "-w", "1", "-c", "1", "-G", "3"],
        "one thread a GPU": ["-t", str(options.gpus), "-b", "1K", "-e", "64M", "-f", "16", "-n", "2", "-w", "1", "-c", "1"],
    }
    failures, runs = 0, 0
    for way, arguments in ways.items():
        for program in options.only or PROGRAMS:
            if program == "hypercube" and "-t" not in arguments: # with several GPUs a thread its steps fall into one group: a race
                continue
            began = time.time()
            gpus = 1 if "-t" in arguments else options.gpus
            status, text = run(options.tests, options.tutti, program, arguments, gpus, options.limit)
            wrong = [f"{size} bytes" for size, row in rows(text).items() if not {row[2], row[3]} <= {"0", "N/A"}]
            good = status == 0 and not wrong and rows(text)
            failures += not good
            runs += 1
            print(f"{'ok    ' if good else 'FAILED'} {program}: {way} ({len(rows(text))} sizes, {time.time() - began:.0f} s)", flush=True)
            if not good:
                print(f"  exit status {status}", *wrong[:5], text[-800:] if status else "", sep="\n  ", flush=True)
    print(f"{runs} runs, {failures} failed")
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("speed", "check"))
    parser.add_argument("--tests", required=True)
    parser.add_argument("--nccl")
    parser.add_argument("--tutti", required=True)
    parser.add_argument("--gpus", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=float, default=120, help="seconds for one program")
    parser.add_argument("--only", nargs="*")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--output", default="gpu")
    options = parser.parse_args()
    if options.what == "speed" and not options.nccl:
        parser.error("speed needs --nccl")
    return speed(options) if options.what == "speed" else check(options)


if __name__ == "__main__":
    sys.exit(main())
