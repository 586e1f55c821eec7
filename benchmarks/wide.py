#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""wide.py [BUILD] [--peers 64] [--communicators 16] [--lanes 1,8,64]: what RDMA lanes to many peers cost a process.

One process joins with so many others, and sends a payload to each and gets it back on each communicator. The others
pass for one other host: lanes among them are few (TUTTI_QUEUES), and they know that processors are. Adapters are the
software RDMA device, with as many devices as `--devices` says. Prints what the process holds then, beside what it holds
with no lane: queue pairs, registered and resident memory, descriptors. What is done until then goes to stderr.
`--own`: lanes have receives of their own (TUTTI_IB_SHARED=0).

Root: it makes a network of its own. Exit status 77: that cannot be made here.
"""
import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time


def options_of():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--peers", type=int, default=64, help="of one process (64)")
    parser.add_argument("--communicators", type=int, default=16, help="of all of them (16)")
    parser.add_argument("--lanes", default="1,8,64", help="to each peer (1,8,64); with more than 8: TUTTI_IB_LANES")
    parser.add_argument("--devices", type=int, default=8, help="RDMA devices, at most one for each lane (8)")
    parser.add_argument("--bytes", type=int, default=1 << 20, help="of the first communicator's payloads (1 MiB)")
    parser.add_argument("--seconds", type=int, default=600, help="for which a job may last until it is measured (600)")
    parser.add_argument("--own", action="store_true", help="without shared receives")
    options = parser.parse_args()
    options.counts = [int(lanes) for lanes in options.lanes.split(",")]
    if not 1 <= options.peers < 128 or min(options.counts) < 1 or not 1 <= options.devices <= 8:
        parser.error("1 to 127 peers, 1 or more lanes and 1 to 8 devices")
    return options


def network(devices):
    """An interface for each device, in the network of this process."""
    for number in range(devices):
        for words in (f"link add w{number} type veth peer name x{number}", f"link set x{number} up",
                      f"link set w{number} up", f"address add 10.77.{number}.1/24 dev w{number}"):
            subprocess.run(["ip", *words.split()], check=True)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


class Job:
    def __init__(self, options, lanes):
        self.lanes, devices, self.seconds = lanes, min(options.devices, lanes) or 1, options.seconds
        names = ",".join(f"soft_w{number}=w{number}" for number in range(devices))
        self.folder = tempfile.mkdtemp(prefix="tutti-wide-")
        library = os.path.join(options.build, "emulation", "verbs")
        self.tool = os.path.join(library, "softverbs")
        common = {**os.environ, "WORLD_SIZE": str(options.peers + 1), "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
                  "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29611", "TORCHELASTIC_RUN_ID": f"wide{lanes}",
                  "TUTTI_TRANSPORT": "verbs" if lanes else "tcp", "TUTTI_TCP_LANES": "1", "TUTTI_TIMEOUT": "600s",
                  "TUTTI_SOCKET_IFNAME": "=lo", "TUTTI_TRACE_DIR": self.folder, "TUTTI_SPIN": "0",
                  "TUTTI_IB_LANES": str(max(lanes // devices, 1)), "TUTTI_IB_TRIAL": "600s",
                  "TUTTI_IB_SHARED": "0" if options.own else "1", "TUTTI_QUEUES": "host=1",
                  "SOFTVERBS_DEVICES": names, "SOFTVERBS_POLL": "sleep",
                  "TUTTI_IBVERBS_LIBRARY": os.path.join(library, "libibverbs.so.1")}
        command = [os.path.join(options.build, "benchmarks", "wide-rank"), str(options.communicators),
                   str(options.bytes)]
        self.ranks = [subprocess.Popen(command, env={**common, "RANK": str(rank), "TUTTI_HOSTID": f"wide{rank > 0}"},
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                      for rank in range(options.peers + 1)]

    def ask(self, pid):
        """Queue pairs and registered bytes, by the software device of the process."""
        end = time.monotonic() + 60
        while time.monotonic() < end:  # a process that gets no processor answers late
            said = subprocess.run([self.tool, "ctl", "all", "info"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                                  text=True, check=False).stdout
            mine = re.search(rf"pid {pid} slot .*?^queue pairs (\d+).*?^registered bytes (\d+)", said, re.M | re.S)
            if mine or not self.lanes:
                return map(int, mine.groups()) if mine else (0, 0)
        sys.exit("the software RDMA device of rank 0 does not answer")

    def held(self):
        """What rank 0 holds when all have been talked to. What it has done until then is shown."""
        first, began = self.ranks[0], time.monotonic()
        signal.alarm(self.seconds)
        while (line := first.stdout.readline()) != "ready\n":
            if not line:
                sys.exit("the job has failed")
            pairs, registered = self.ask(first.pid) if line.startswith("met") else (0, 0)
            more = f", {pairs} queue pairs, {registered / 2 ** 20:.1f} MiB registered" if pairs else ""
            print(f"{self.lanes} lanes, {time.monotonic() - began:.1f} s: {line.strip()}{more}", file=sys.stderr,
                  flush=True)
        signal.alarm(0)
        with open(f"/proc/{first.pid}/status", encoding="ascii") as status:
            resident = int(re.search(r"^VmRSS:\s+(\d+)", status.read(), re.M).group(1))
        found = {"descriptors": len(os.listdir(f"/proc/{first.pid}/fd")), "resident": resident / 1024}
        found["queue pairs"], found["registered bytes"] = self.ask(first.pid)
        return found

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        for rank in self.ranks:
            if kind:
                rank.kill()
            rank.stdin.close()
        codes = [rank.wait(600) for rank in self.ranks]
        shutil.rmtree(self.folder)
        if any(codes) and not kind:
            sys.exit(f"ranks ended with {sorted(set(codes))}")


def measure(options):
    network(options.devices)
    print(f"| lanes to each of {options.peers} | queue pairs | registered | resident | of a lane | descriptors |\n"
          "|---:|---:|---:|---:|---:|---:|")
    empty = None
    for lanes in [0, *options.counts]:
        with Job(options, lanes) as job:
            held = job.held()
        empty = empty or held
        pairs, more = held["queue pairs"], held["resident"] - empty["resident"]
        each = f"{held['registered bytes'] / 1024 / pairs:.0f} and {more * 1024 / pairs:.0f} KiB" if pairs else ""
        print(f"| {lanes} | {pairs:,} | {held['registered bytes'] / 2 ** 20:.1f} MiB | {held['resident']:.1f} MiB | "
              f"{each} | {held['descriptors']:,} |", flush=True)


def main():
    options = options_of()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no rank is left
    signal.signal(signal.SIGALRM, lambda *_: sys.exit("the job lasts longer than --seconds: see the latest line"))
    if os.environ.get("WIDE_INSIDE"):
        measure(options)
        return
    inside = ["unshare", "--net", sys.executable, os.path.abspath(__file__), *sys.argv[1:]]
    if os.geteuid() or subprocess.run(["unshare", "--net", "true"], check=False).returncode:
        print("a network of its own takes root")
        sys.exit(77)
    sys.exit(subprocess.run(inside, env={**os.environ, "WIDE_INSIDE": "1"}, check=False).returncode)


if __name__ == "__main__":
    main()
