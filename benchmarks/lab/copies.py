# SPDX-License-Identifier: Apache-2.0
"""Send and receive over RDMA against perftest's ib_write_bw, ib_write_lat and ib_send_lat on the same software device,
two hosts, in turns: bandwidth where the link is the limit and not the processors, latency by the quickest of many, for
a processor that is taken away for a moment would be most of the mean."""
import json
import os
import subprocess
import time

from fabric import Job, Lab, address, devices
from result import Row, middle, spread

TITLE = "send and receive without copies against perftest"
SIZES = {"1 MiB": 1 << 20, "16 MiB": 16 << 20}
RATE = 200  # Mbit/s
PAIRS = 10
SETTINGS = {"TUTTI_SEGMENT": "512K", "TUTTI_ALGO": "", "TUTTI_SPIN": "50"}
POLLING = {"SOFTVERBS_POLL": ""}  # as perftest does


def perftest(lab, poll, *words):
    """The columns of its only row, between h0 and h1."""
    env = {**os.environ, **devices(lab), "SOFTVERBS_POLL": poll}
    command = [lab.build.softverbs, "run", "--", "timeout", "60", *words, "-d", "soft_n0", "-x", "0", "-F"]
    quiet = subprocess.DEVNULL
    with subprocess.Popen([*lab.inside("h1"), *command], env=env, stdout=quiet, stderr=quiet) as server:
        time.sleep(1)
        said = subprocess.run([*lab.inside("h0"), *command, address("h1", lab)], env=env, check=True,
                              capture_output=True, text=True).stdout
        server.wait()
    return next(line.split() for line in said.splitlines() if line.strip()[:1].isdigit())


def exchange(bench, lab, size):
    """MB/s of both ways together."""
    times = str(max(3, (32 << 20) // size))
    with Job(lab, ["h0", "h1"], ["sendrecv", "-b", str(size), "-e", str(size), "-n", times, "-w", "2", "-c", "0"],
             SETTINGS) as job:
        return 2000 * job.result(60 + 10 * bench.seconds)["average_busbw"]


def half_round_trip(lab):
    """Microseconds of 8 bytes."""
    with Job(lab, ["h0", "h1"], ["--collectives", "pingpong", "--sizes", "8"], {**SETTINGS, **POLLING},
             program=lab.build.path("benchmarks", "tutti-bench")) as job:
        for rank in job.ranks:
            rank.wait(60)
        return json.loads(next(line for line in job.said().splitlines() if line.startswith("{")))["min_us"]


def quickest(trips):
    return f"{min(trips):.1f}" + (f", in the worst turn {max(trips):.1f}" if len(trips) > 1 else "")


def measure(bench):
    rates, trips, pairs = {name: ([], []) for name in SIZES}, ([], []), []
    keys = {"hosts": 2, "nics": 1, "leaves": 1, "spines": 1}
    with Lab(bench.build, {**keys, "rate": f"{RATE}mbit"}) as lab:
        for name, size in [pair for _ in range(bench.turns) for pair in SIZES.items()]:
            row = perftest(lab, "sleep", "ib_write_bw", "-b", "-s", str(size), "-n", str(max(5, (32 << 20) // size)))
            rates[name][0].append(float(row[3]) * 1.048576)
            rates[name][1].append(exchange(bench, lab, size))
            bench.say(f"{name}: ib_write_bw {rates[name][0][-1]:.1f}, tutti {rates[name][1][-1]:.1f} MB/s both ways")
    with Lab(bench.build, keys) as lab:
        for _ in range(bench.turns):
            trips[0].append(float(perftest(lab, "", "ib_write_lat", "-s", "8", "-n", "5000")[2]))
            trips[1].append(half_round_trip(lab))
            bench.say(f"8 bytes: ib_write_lat {trips[0][-1]:.1f}, tutti {trips[1][-1]:.1f} us")
        for _ in range(PAIRS):
            pairs.append((float(perftest(lab, "", "ib_send_lat", "-s", "8", "-n", "5000")[2]), half_round_trip(lab)))
            bench.say(f"8 bytes: ib_send_lat {pairs[-1][0]:.1f}, tutti {pairs[-1][1]:.1f} us")
    bench.keep(rates=rates, trips=trips, pairs=pairs)
    worst = [ours / theirs for theirs, ours in pairs]
    shares = {name: middle(ours) / middle(theirs) for name, (theirs, ours) in rates.items()}
    ratio = min(trips[1]) / min(trips[0])
    return [*(Row(f"both ways at once, {name}, of ib_write_bw -b, links of {RATE} Mbit/s", "", ">= 95%",
                  f"{100 * shares[name]:.0f}% ({spread(rates[name][1])} of {spread(rates[name][0])} MB/s)",
                  shares[name] >= 0.95) for name in SIZES),
            Row("half of the quickest round trip of 8 bytes, of ib_write_lat", "", "<= 1.5x",
                f"{ratio:.1f}x ({quickest(trips[1])} against {quickest(trips[0])} us)", ratio <= 1.5),
            Row(f"the same, of ib_send_lat, in each of {PAIRS} turns", "", "<= 1.1x",
                f"{min(worst):.2f} to {max(worst):.2f}x", max(worst) <= 1.1)]
