# SPDX-License-Identifier: Apache-2.0
"""What the times of segments cost, by which lanes are watched (TUTTI_TRACE_SEGMENTS): processor time of two ranks that
send and receive as much, with and without, in turns. The software device's own work is in it, most of all."""
import os

from fabric import Job, Lab
from result import Row, middle, spread

TITLE = "what watching lanes costs"
RATE = 200  # Mbit/s: the link is the limit
SIZE = 1 << 20


def once(bench, lab, watched):
    """Seconds of processor time that both ranks took, as the kernel accounts them."""
    times = max(2, round(bench.seconds * RATE / 8e-6 / SIZE))
    before = os.times()
    with Job(lab, ["h0", "h1"], ["sendrecv", "-b", str(SIZE), "-e", str(SIZE), "-n", str(times), "-w", "0", "-c", "0"],
             {"TUTTI_TRACE_SEGMENTS": str(int(watched))}) as job:
        job.result(60 + 10 * bench.seconds)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def measure(bench):
    on, off = [], []
    with Lab(bench.build, {"hosts": 2, "nics": 1, "leaves": 1, "spines": 1, "rate": f"{RATE}mbit"}) as lab:
        for _ in range(bench.turns):
            off.append(once(bench, lab, False))
            on.append(once(bench, lab, True))
            bench.say(f"processor time without {off[-1]:.2f} s, with {on[-1]:.2f} s")
    bench.keep(on=on, off=off)
    ratio = middle(on) / middle(off)
    return [Row("processor time of send and receive in segments of 16 KiB, watched over not", "", "",
                f"{ratio:.2f}x ({spread(on, '.2f')} against {spread(off, '.2f')} s)", None)]
