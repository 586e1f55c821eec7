# SPDX-License-Identifier: Apache-2.0
"""Two RDMA lanes of very different rate: what both carry together, of the sum of what each carries alone.
benchmarks/lanes.py has the same of TCP."""
from fabric import Job, Lab
from result import Row

TITLE = "two lanes of very different rate"
FAST, SLOW = 40, 4  # Mbit/s
STEP = 256 << 10  # bytes: many times what a shaper lets pass at once


def once(bench, lab, ports, mbit):
    """Mbit/s that each of two ranks sends to the other."""
    size = max(1, round(bench.seconds * mbit / 4 / 8e-6 / STEP)) * STEP
    with Job(lab, ["h0", "h1"], ["sendrecv", "-b", str(size), "-e", str(size), "-n", "4", "-w", "1", "-c", "1"],
             {"TUTTI_IB_HCA": ports}) as job:
        return job.result(60 + 10 * bench.seconds)["average_busbw"] * 8000


def measure(bench):
    keys = {"hosts": 2, "nics": 2, "leaves": 1, "spines": 1, "rate": f"{FAST}mbit", "links": [("h*.n1", f"{SLOW}mbit")]}
    with Lab(bench.build, keys) as lab:
        fast = once(bench, lab, "=soft_n0", FAST)
        slow = once(bench, lab, "=soft_n1", SLOW)
        both = once(bench, lab, "=soft_n0,soft_n1", FAST + SLOW)
        bench.say(f"fast {fast:.2f}, slow {slow:.2f}, both {both:.2f} Mbit/s, {lab.drops()} packets dropped")
    bench.keep(fast=fast, slow=slow, both=both)
    ratio = both / (fast + slow)
    return [Row(f"send and receive over {FAST} and {SLOW} Mbit/s, of the sum", "", ">= 90%",
                f"{100 * ratio:.1f}% ({both:.1f} of {fast:.1f} + {slow:.1f} Mbit/s)", ratio >= 0.9)]
