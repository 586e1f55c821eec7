# SPDX-License-Identifier: Apache-2.0
"""What lies in the queue of an oversubscribed uplink: windows by distance (TUTTI_PLACE, TUTTI_WINDOWS) against posting
without a limit, for peers at four distances.

The lab is 100 Gbit/s made 5,000 times slower, with segments of 16 KiB for 512 KiB; so times are 156 times longer, and
windows have as many segments as the library allows at 100 Gbit/s. The round trip is made by the software device, which
holds each packet that comes in for half of it."""
import json
import subprocess
import time

from fabric import FOREVER, Beside, Job, Lab, Ports
from result import Row

TITLE = "windows by distance against unlimited posting, 2.8:1 oversubscribed"
NIC, PAIRS, OVER = 20, 4, 2.8  # Mbit/s, senders, oversubscription
UPLINK = f"{round(NIC * PAIRS / OVER * 1000)}kbit"
SLOWER = 156
# Round trip in us as src/tables/distances.tbl has it, and segments that src/path/window.c derives at 100 Gbit/s.
CLASSES = {"rack": (10, 2), "zone": (70, 3), "building": (150, 5), "campus": (300, 9)}
PLACES = {"rack": ("rack=1", "rack=1"), "zone": ("zone=z,rack=1", "zone=z,rack=2"), "building": ("zone=1", "zone=2"),
          "campus": ("building=1", "building=2")}


class Queue(Beside):
    """The deepest that the queue of l0's uplink was."""

    def __init__(self, lab):
        super().__init__()
        self.ask = ["nsenter", f"--net=/run/netns/{lab.name}-l0", "tc", "-s", "-j", "qdisc", "show", "dev", "u0"]
        self.depths = []

    def run(self):
        while not self.over.wait(0.03):
            said = json.loads(subprocess.run(self.ask, check=True, capture_output=True, text=True).stdout)
            self.depths.append(max(one.get("backlog", 0) for one in said))


def start(lab, distance, limited):
    """One pair of hosts for each sender; the first of each sends all the time."""
    trip, segments = CLASSES[distance]
    settings = {"SOFTVERBS_FAULT": f"delay=1,delay-us={trip * SLOWER // 2},dir=in", "TUTTI_ALGO": "",
                "TUTTI_WINDOWS": f"{distance}={segments}@{trip * SLOWER}" if limited else f"{distance}=0",
                "TUTTI_LANE_WINDOW": "0" if limited else "1024"}
    jobs = []
    for pair in range(PAIRS):
        hosts = [f"h{pair}", f"h{PAIRS + pair}"]
        each = {host: {"TUTTI_PLACE": place} for host, place in zip(hosts, PLACES[distance])}
        jobs.append(Job(lab, hosts, ["broadcast", "-r", "0", "-b", "8M", "-e", "8M", *FOREVER], settings, each))
    return jobs


def once(bench, distance, limited):
    """(bytes of the deepest queue, Mbit/s of the uplink)"""
    keys = {"hosts": 2 * PAIRS, "nics": 1, "leaves": 2, "spines": 1, "rate": f"{NIC}mbit", "links": [("l*.u*", UPLINK)]}
    with Lab(bench.build, keys) as lab, Ports(lab, [*(f"h{pair}" for pair in range(PAIRS)), "l0"]) as ports:
        jobs = start(lab, distance, limited)
        try:
            ports.flows(jobs, [f"h{pair}.n0" for pair in range(PAIRS)], 1 << 20)
            time.sleep(1)
            with Queue(lab) as queue:
                rate = 8e-6 * ports.window(bench.seconds, jobs)["l0.u0"]
        finally:
            for job in jobs:
                job.__exit__()
        bench.say(f"{distance}, {'window' if limited else 'no limit'}: deepest queue {max(queue.depths) >> 10} KiB, "
                  f"{rate:.2f} Mbit/s, {lab.drops()} packets dropped")
    return max(queue.depths), rate


def measure(bench):
    rows, figures = [], {}
    for distance, (trip, segments) in CLASSES.items():
        free, bound = once(bench, distance, False), once(bench, distance, True)
        figures[distance] = {"unlimited": free, "windows": bound}
        depth, rate = bound[0] / free[0], bound[1] / free[1]
        rows += [Row(f"{distance} ({trip * SLOWER / 1000:.1f} ms, {segments} segments a lane): deepest queue",
                     "a tenth (DQPLB)", "<= 1/10", f"{depth:.2f} ({bound[0] >> 10} of {free[0] >> 10} KiB)",
                     depth <= 0.1),
                 Row(f"{distance}: rate", "", ">= 95%", f"{100 * rate:.1f}% ({bound[1]:.1f} of {free[1]:.1f} Mbit/s)",
                     rate >= 0.95)]
    bench.keep(**figures)
    bench.bars("lab-windows", "KiB of the deepest queue: rack, zone, building, campus",
               {way: [figures[distance][way][0] / 1024 for distance in CLASSES] for way in ("unlimited", "windows")})
    return rows
