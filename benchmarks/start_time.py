#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""start_time.py [--ranks 16384,131072]: how long a job takes to join, computed for jobs that are too large to run.

Each rank has a clock. The clocks go through what joining does, message by message: the root hears each rank and answers
all, each rank dials those at distance 1, 2, 4, ..., then introductions and a barrier go along these connections. Who
sends what to whom when is as in src/bootstrap; the library's code does not run. Costs are options:
docs/reference/scale.md says which were measured. --check compares with joins that were measured.
"""
import argparse
import sys

HELLO, ANSWERS, HEADER, INTRODUCTION = 104, 72, 24, 192  # bytes: src/wire/bootstrap.h, src/comm/introduction.h
# Joins that were measured: ranks, processors, seconds.
MEASURED = [(4096, 16, 3.0)]
PUBLISHED = [("NCCL, until the last rank has reached the root", 100000, "100"),
             ("NCCL, initialization", 96000, "more than 240"), ("NCCLX, initialization", 96000, "11 times less"),
             ("NCCL, ranks find one another", 16000, "18.45"), ("NCCLX, ranks find one another", 16000, "4.1")]


def turned(clocks, by):
    """By rank: the clock of the rank that is `by` ahead."""
    by %= len(clocks)
    return clocks[by:] + clocks[:by]


class Clocks:
    """Seconds of each rank of a job. Ranks that share processors each get their part of one."""

    def __init__(self, options, ranks, processors):
        self.options, self.ranks = options, ranks
        self.part = max(1.0, ranks / processors) if processors else 1.0
        self.steps = (ranks - 1).bit_length()
        self.at = [0.0] * ranks
        self.messages = self.bytes = 0  # that a rank sends

    def work(self, microseconds):
        return microseconds * 1e-6 * self.part

    def meet_root(self):
        """All come at once. The root is one thread: it hears one after the other, then answers one after the other."""
        trip, each = self.options.latency * 1e-6, self.options.root * 1e-6 / 2
        heard = 2 * trip + self.ranks * each  # connect and challenge, then the hellos
        self.at = [heard + (rank + 1) * each + trip for rank in range(self.ranks)]
        self.messages += 1

    def dial(self):
        """Two round trips for each connection, all at once; the processor makes one after the other, at both ends."""
        trip, cost = self.options.latency * 1e-6, self.work(self.options.connection)
        ready = [at + self.steps * cost for at in self.at]
        last = ready
        for step in range(self.steps):
            last = list(map(max, last, turned(ready, 1 << step), turned(ready, -(1 << step))))
        self.at = [at + 4 * trip for at in last]
        self.messages += 3 * self.steps + 1  # hellos to those ahead, two answers to those behind; READY to the root
        self.bytes += (HELLO + ANSWERS) * self.steps

    def gather(self, size):
        """Everyone's bytes to everyone: in step k 2^k blocks to the rank at distance 2^k."""
        trip = self.options.latency * 1e-6
        for step in range(self.steps):
            have = 1 << step
            count = min(have, self.ranks - have)
            wire = (HEADER + count * size) * 8e-9 / self.options.gbit
            cost = self.work(self.options.message + (count * self.options.introduction if size else 0))
            sent = [at + trip + wire for at in turned(self.at, -have)]
            self.at = [at + cost for at in map(max, self.at, sent)]
            self.messages += 1
            self.bytes += HEADER + count * size


def join(options, ranks, processors):
    clocks = Clocks(options, ranks, processors)
    clocks.meet_root()
    root = max(clocks.at)
    clocks.dial()
    dialled = max(clocks.at)
    clocks.gather(INTRODUCTION)
    clocks.gather(0)  # the barrier
    end = max(clocks.at)
    return {"ranks": ranks, "seconds": end, "root": root, "dial": dialled - root, "introduce": end - dialled,
            "messages": clocks.messages, "mib": clocks.bytes / 2**20}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", default="1024,4096,16384,98304,131072", help="numbers of ranks")
    parser.add_argument("--processors", type=int, default=0, help="of the whole job; 0: one for each rank (0)")
    parser.add_argument("--latency", type=float, default=20, help="us of a message, one way (20)")
    parser.add_argument("--gbit", type=float, default=10, help="Gbit/s of a rank (10)")
    parser.add_argument("--root", type=float, default=130, help="us of the root's thread for each rank (130)")
    parser.add_argument("--connection", type=float, default=240, help="us of a rank's processor to make one of its "
                        "lg n connections, both ends (240)")
    parser.add_argument("--message", type=float, default=30, help="us of a rank's processor for a message (30)")
    parser.add_argument("--introduction", type=float, default=1.36, help="us of a rank's processor to send, receive "
                        "and look at one introduction (1.36)")
    parser.add_argument("--check", action="store_true", help="an error where it is far from what was measured")
    options = parser.parse_args()
    print("Computed, not run: seconds to join, and where they go")
    print(f"{'ranks':>7} {'seconds':>8} {'root':>8} {'dial':>8} {'introduce':>9} "
          f"{'messages':>8} {'MiB':>6} of a rank")
    for ranks in map(int, options.ranks.split(",")):
        row = join(options, ranks, options.processors)
        print(f"{ranks:7} {row['seconds']:8.2f} {row['root']:8.2f} {row['dial']:8.2f} {row['introduce']:9.2f} "
              f"{row['messages']:8} {row['mib']:6.1f}", flush=True)
    bad = []
    for ranks, processors, seconds in MEASURED:
        got = join(options, ranks, processors)["seconds"]
        print(f"{ranks} ranks on {processors} processors: {got:.2f} s computed, {seconds} s measured")
        bad += [f"{ranks} ranks: {got:.2f} s is not within a third of {seconds} s"] * (abs(got - seconds) > seconds / 3)
    print("Published, seconds on other machines (NCCLX paper, section 7.1)")
    for what, ranks, seconds in PUBLISHED:
        print(f"{ranks:7} {seconds:>13}  {what}")
    if options.check:
        sys.exit("\n".join(bad) or None)


if __name__ == "__main__":
    main()
