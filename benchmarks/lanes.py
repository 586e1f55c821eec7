#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two TCP lanes of very different rate: what both carry together, over the sum of what each carries alone.

    lanes.py [BUILD] [--fast 800] [--slow 80] [--size 32M]

Two network namespaces, joined by two pairs of virtual interfaces whose queues the kernel limits (tbf), stand for two
hosts with two NICs. Needs no privileges but user namespaces. Rates are Mbit/s. Prints one line,
and exits with 1 if the ratio is below 0.9.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time

INSIDE = "LANES_INSIDE"


def ip(*args):
    subprocess.run(["ip", *args], check=True)


def make_hosts(rates):
    """The second host's namespace, held by a process that sleeps; this process's own is the first."""
    other = subprocess.Popen(["unshare", "-n", "sleep", "1000"])
    while os.readlink(f"/proc/{other.pid}/ns/net") == os.readlink("/proc/self/ns/net"):
        time.sleep(0.01)
    there = ["nsenter", "-t", str(other.pid), "-n"]
    ip("link", "set", "lo", "up")
    for i, rate in enumerate(rates):
        ip("link", "add", f"near{i}", "type", "veth", "peer", "name", f"far{i}", "netns", str(other.pid))
        for prefix, name, last in (([], f"near{i}", 1), (there, f"far{i}", 2)):
            subprocess.run([*prefix, "ip", "addr", "add", f"10.7.{i}.{last}/24", "dev", name], check=True)
            subprocess.run([*prefix, "ip", "link", "set", name, "up"], check=True)
            subprocess.run([*prefix, "tc", "qdisc", "add", "dev", name, "root", "tbf", "rate", f"{rate}mbit", "burst",
                            "128k", "latency", "20ms"], check=True)
    return other, there


def rate(tutti, there, faces, size, port):
    """Bytes a second that each rank sends, with these interfaces."""
    env = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "10.7.0.1", "MASTER_PORT": str(port),
           "TUTTI_TRANSPORT": "tcp", "TUTTI_TCP_LANES": str(len(faces))}
    with tempfile.TemporaryDirectory() as folder:
        report = os.path.join(folder, "report.json")
        ranks = []
        for rank, (prefix, side) in enumerate((([], "near"), (there, "far"))):
            mine = {**env, "RANK": str(rank), "TUTTI_SOCKET_IFNAME": "=" + ",".join(f"{side}{i}" for i in faces)}
            extra = ["-J", report] if rank == 0 else []
            ranks.append(subprocess.Popen([*prefix, tutti, "perf", "sendrecv", "-b", size, "-e", size, "-n", "6",
                                           "-w", "2", "-c", "1", *extra], env=mine, stdout=subprocess.DEVNULL))
        if any([process.wait(timeout=240) for process in ranks]):
            sys.exit("lanes.py: tutti perf failed")
        with open(report) as file:
            return json.load(file)["average_busbw"] * 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--fast", type=int, default=800)
    parser.add_argument("--slow", type=int, default=80)
    parser.add_argument("--size", default="32M")
    options = parser.parse_args()
    if INSIDE not in os.environ:
        os.environ[INSIDE] = "1"
        os.execvp("unshare", ["unshare", "-Urn", sys.executable, os.path.abspath(__file__), *sys.argv[1:]])
    tutti = os.path.join(options.build, "cli", "tutti")
    other, there = make_hosts([options.fast, options.slow])
    try:
        fast, slow, both = (rate(tutti, there, faces, options.size, 29501 + i)
                            for i, faces in enumerate(([0], [1], [0, 1])))
    finally:
        other.kill()
    ratio = both / (fast + slow)
    print(f"fast {fast / 1e6:.1f} MB/s, slow {slow / 1e6:.1f} MB/s, both {both / 1e6:.1f} MB/s: "
          f"{100 * ratio:.1f}% of the sum")
    sys.exit(ratio < 0.9)


if __name__ == "__main__":
    main()
