# SPDX-License-Identifier: Apache-2.0
"""What lanes gain by steering, weights, backups and windows, measured in the lab of network namespaces.

    python3 benchmarks/lab [BUILD] [--only NAME[,NAME...]] [--seconds 5] [--turns 3] [--out FOLDER]

All of it is emulated: links are virtual and limited by the kernel, adapters are the software RDMA device. Ratios of one
run can be compared; nothing is said of the speed of hardware. Needs root. Writes FOLDER/lab.json, FOLDER/lab.md and
pictures. Exit status: 0 measured (misses are in the table), 1 a measurement failed, 2 wrong options, 77 no lab can be
made here.
"""
import argparse
import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import traceback

import bonded
import copies
import defaults
import distance
import jobs
import leaders
import master
import monitor
import nics
import operators
import orders
import port
import probe
import rails
import rates
import steering
import together
import uplink
import wide
import windows
from fabric import Build, Failed, Lab
from result import HEAD, table

sys.path.insert(1, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
import plot  # noqa: E402  (in the folder above)

MEASUREMENTS = {"defaults": defaults, "steering": steering, "jobs": jobs, "master": master, "bonded": bonded,
                "leaders": leaders, "probe": probe, "uplink": uplink, "operators": operators, "wide": wide,
                "port": port, "nics": nics, "rates": rates, "windows": windows, "orders": orders,
                "together": together, "copies": copies, "distance": distance, "monitor": monitor, "rails": rails}


class Bench:
    """What a measurement is given, and where it leaves what it found."""

    def __init__(self, options):
        self.build, self.seconds, self.turns = Build(options.build), options.seconds, options.turns
        self.out, self.kept, self.began, self.name = options.out, {}, time.monotonic(), ""

    def say(self, text):
        print(f"{time.monotonic() - self.began:6.0f} s  {self.name}: {text}", flush=True)

    def keep(self, **figures):
        self.kept.setdefault(self.name, {}).update(figures)

    def bars(self, name, title, groups):
        plot.write_bars(os.path.join(self.out, name + ".svg"), title, groups)

    def curves(self, name, title, curves, unit="s"):
        plot.write_curves(os.path.join(self.out, name + ".svg"), title, curves, unit)


def options_of():
    parser = argparse.ArgumentParser(prog="benchmarks/lab", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="build")
    parser.add_argument("--only", metavar="NAME[,NAME...]", default=",".join(MEASUREMENTS),
                        help=f"of {', '.join(MEASUREMENTS)} (all)")
    parser.add_argument("--seconds", type=float, default=5, help="that each rate is measured for (5)")
    parser.add_argument("--turns", type=int, default=3, help="how often each is measured (3)")
    parser.add_argument("--out", metavar="FOLDER", help="for results (BUILD/bench-lab)")
    options = parser.parse_args()
    options.names = options.only.split(",")
    options.out = options.out or os.path.join(options.build, "bench-lab")
    unknown = [name for name in options.names if name not in MEASUREMENTS]
    if unknown:
        parser.error(f"no measurement {unknown[0]}: {', '.join(MEASUREMENTS)}")
    if options.seconds <= 0 or options.turns < 1:
        parser.error("--seconds and --turns must be positive")
    return options


def refuses(build, names):
    """Why no lab can be made here; "" if one can."""
    if "copies" in names and not shutil.which("ib_write_bw"):
        return "there is no ib_write_bw for copies (package perftest); --only measures the rest"
    if "monitor" in names and not shutil.which("valgrind"):
        return "there is no valgrind for monitor; --only measures the rest"
    if "leaders" in names and not shutil.which("etcd"):
        return "there is no etcd for leaders (package etcd-server); --only measures the rest"
    if build.lacks():
        return f"{build.lacks()} is not built"
    if os.geteuid():
        return "the lab needs root"
    try:
        with Lab(build, {"hosts": 2, "nics": 1, "leaves": 1, "spines": 1}):
            return ""
    except (Failed, OSError, subprocess.SubprocessError) as wrong:
        return str(wrong)


def main():
    options = options_of()
    bench = Bench(options)
    why = refuses(bench.build, options.names)
    if why:
        print(f"SKIPPED: nothing was measured: {why}")
        return 77
    os.makedirs(options.out, exist_ok=True)
    text, failed, results = list(HEAD), 0, {}
    for name in options.names:
        bench.name, measurement = name, MEASUREMENTS[name]
        bench.say(measurement.TITLE)
        try:
            rows = measurement.measure(bench)
        except Exception as wrong:  # whatever it is, the others are measured
            bench.say(f"FAILED: {wrong!r}")
            if not isinstance(wrong, Failed):
                traceback.print_exc()
            failed += 1
            continue
        text += table(name, measurement.TITLE, rows)
        results[name] = {"rows": [dataclasses.asdict(row) for row in rows], "figures": bench.kept.get(name, {})}
        with open(os.path.join(options.out, "lab.json"), "w", encoding="utf-8") as file:
            json.dump({"emulated": True, "seconds": options.seconds, "turns": options.turns, "results": results}, file,
                      indent=1)
        with open(os.path.join(options.out, "lab.md"), "w", encoding="utf-8") as file:
            file.write("\n".join([*text, ""]))
    print("\n".join(["", "Emulated: virtual links and the software RDMA device.", "", *text]))
    return 1 if failed else 0


def interrupted(*_):
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupted)  # blocks are left, and take their labs with them
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        print("interrupted: what was measured before is in the folder", file=sys.stderr)
        sys.exit(130)
