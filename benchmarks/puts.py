#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What a put with a signal costs the rank that puts, by the number of its peers: one table.

    puts.py [BUILD] [--peers 8 32 127] [--bytes 64 512 4096 65536] [--transport tcp|shm|verbs] [--instructions]

Instructions are callgrind's, of the calling thread, in put_to_all() of puts-bench: the same on a busy machine. Messages
and allocations are counted, those of all threads of rank 0. Time is no figure of a busy machine.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

ROUNDS = 80  # WARM and ROUNDS of puts_bench.c
LINE = re.compile(r"of one put ([\d.]+) allocations, ([\d.]+) messages sent, ([\d.]+) received, ([\d.]+) waits, "
                  r"(\d+) ns")


def environment(transport):
    return dict(os.environ, TUTTI_TRANSPORT=transport, TUTTI_DEBUG="none")


def beginning(build, transport):
    """What stands before a job's command: RDMA has a network of its own, over the software device."""
    if transport != "verbs":
        return []
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "emulation", "verbs", "tests", "own_net.sh")
    return [source, "env", "TUTTI_IBVERBS_LIBRARY=" + os.path.join(build, "emulation", "verbs", "libibverbs.so.1")]


def run(build, peers, size, transport, under=""):
    """What rank 0 prints; `under` is put before its command."""
    bench = os.path.join(build, "benchmarks", "puts-bench")
    each = f'if [ "$TUTTI_RANK" = 0 ]; then exec {under} "$0" "$@"; else exec "$0" "$@"; fi'
    command = [*beginning(build, transport), os.path.join(build, "cli", "tutti"), "run", "-n", str(peers + 1), "--",
               "sh", "-c", each, bench]
    done = subprocess.run([*command, str(size)], env=environment(transport), capture_output=True, text=True,
                          timeout=900)
    found = LINE.search(done.stdout)
    if done.returncode or not found:
        sys.exit(f"{peers} peers, {size} bytes: exit status {done.returncode}\n{done.stdout}{done.stderr}")
    return [float(figure) for figure in found.groups()]


def instructions(build, peers, size, transport):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "out")
        run(build, peers, size, transport, "valgrind -q --tool=callgrind --collect-atstart=no "
            f"--toggle-collect=put_to_all --callgrind-out-file={out}")
        text = open(out, encoding="utf-8").read()
    return int(re.search(r"^(?:summary|totals): (\d+)", text, re.M).group(1)) / ROUNDS / peers


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--peers", type=int, nargs="+", default=[8, 32, 127])
    parser.add_argument("--bytes", type=int, nargs="+", default=[64, 512, 4096, 65536])
    parser.add_argument("--transport", default="tcp", choices=("tcp", "shm", "verbs"))
    parser.add_argument("--instructions", action="store_true", help="under valgrind: slow")
    arguments = parser.parse_args()
    build = os.path.abspath(arguments.build)
    print("| peers | bytes | allocations | messages sent | received | waits | us | instructions |")
    print("|---:|---:|---:|---:|---:|---:|---:|---:|")
    for peers in arguments.peers:
        for size in arguments.bytes:
            memory, sent, received, waits, ns = run(build, peers, size, arguments.transport)
            steps = f"{instructions(build, peers, size, arguments.transport):,.0f}" if arguments.instructions else "-"
            print(f"| {peers} | {size} | {memory:.2f} | {sent:.2f} | {received:.2f} | {waits:.2f} | "
                  f"{ns / 1000:.1f} | {steps} |", flush=True)


if __name__ == "__main__":
    main()
