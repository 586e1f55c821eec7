# SPDX-License-Identifier: Apache-2.0
"""A model of the lab's eight jobs without its processors: how far apart are their rates if processes are late by
chance, and the fabric is perfect? Planned loads are even. Prints the spread over windows of 5 to 40 s. A process is
late by twice the time at most when it hears that a segment has landed, and by four times at most when it goes on.
Usage: python3 benchmarks/lab/late.py [SEEDS]"""
import collections
import heapq
import itertools
import random
import statistics
import sys

JOBS, RATE, SEGMENT = 8, 10e6 / 8, 16384  # bytes per second of each link; bytes
WINDOW, WARM, END = 4, 3, 43  # segments under way on a lane; seconds
CASES = ((8, 0, False, 512), (4, 0, False, 512), (8, 0.02, False, 512), (4, 0.02, False, 512), (4, 0.02, True, 512),
         (4, 0.02, False, 4096))


class Clock:
    def __init__(self):
        self.now, self.queue, self.numbers = 0, [], itertools.count()

    def after(self, time, call, *words):
        heapq.heappush(self.queue, (self.now + time, next(self.numbers), call, words))

    def run(self, end):
        while self.queue and self.queue[0][0] < end:
            self.now, _, call, words = heapq.heappop(self.queue)
            call(*words)


class Link:
    """Serves what came first; or, if it is fair, one segment of each flow in turn."""

    def __init__(self, clock, fair):
        self.clock, self.fair, self.flows, self.busy = clock, fair, collections.OrderedDict(), False

    def put(self, segment):
        self.flows.setdefault(segment[0] if self.fair else None, collections.deque()).append(segment)
        if not self.busy:
            self.serve()

    def serve(self):
        self.busy = bool(self.flows)
        if self.busy:
            flow, waiting = self.flows.popitem(last=False)
            segment = waiting.popleft()
            if waiting:
                self.flows[flow] = waiting
            self.clock.after(SEGMENT / RATE, self.served, segment)

    def served(self, segment):
        flow, way, landed = segment
        if way:
            way[0].put((flow, way[1:], landed))
        else:
            landed()
        self.serve()


class Rank:
    """Sends half of an allreduce by two lanes, again and again, and waits for its peer's half each time."""

    def __init__(self, clock, draw, late, half, ways):
        self.clock, self.draw, self.late, self.segments, self.ways = clock, draw, late, half // SEGMENT, ways
        self.sent = self.heard = self.steps = self.bytes = 0
        self.peer, self.next, self.landed, self.under_way = None, 0, 0, [0, 0]

    def begin(self):
        self.next = self.landed = 0
        self.pump()

    def pump(self):
        while self.next < self.segments and self.under_way[self.next % 2] < WINDOW:
            lane = self.next % 2
            self.under_way[lane] += 1
            self.next += 1
            self.ways[lane][0].put(((id(self), lane), self.ways[lane][1:], lambda lane=lane: self.lands(lane)))

    def lands(self, lane):
        self.bytes += SEGMENT
        self.clock.after(0.0005 + 2 * self.late * self.draw.random(), self.hears, lane)

    def hears(self, lane):
        self.under_way[lane] -= 1
        self.landed += 1
        self.pump()
        if self.landed == self.segments:
            self.sent += 1
            self.peer.heard += 1
            self.go_on()
            self.peer.go_on()

    def go_on(self):
        if min(self.sent, self.heard) > self.steps:
            self.steps += 1
            self.clock.after(0.0005 + 4 * self.late * self.draw.random(), self.begin)


def places(draw, uplinks):
    """The uplinks of each job's two lanes, which differ; all have as many."""
    while True:
        slots = list(range(uplinks)) * (2 * JOBS // uplinks)
        draw.shuffle(slots)
        pairs = list(zip(slots[::2], slots[1::2]))
        if all(one != other for one, other in pairs):
            return pairs


def seconds_of(seed, uplinks, late, fair, kib):
    """Bytes of each job by the end of each second."""
    draw, clock, jobs = random.Random(seed), Clock(), []

    def links(count):
        return [Link(clock, fair) for _ in range(count)]

    up, down, out, into = ([links(count) for _ in range(2)] for count in (uplinks, uplinks, JOBS, JOBS))
    for side in range(2):
        for job, pair in enumerate(places(draw, uplinks)):
            ways = [[out[side][job], up[side][way], down[1 - side][way], into[1 - side][job]] for way in pair]
            jobs.append(Rank(clock, draw, late, kib * 512, ways))
    for one, other in zip(jobs[:JOBS], jobs[JOBS:]):
        one.peer, other.peer = other, one
        for rank in (one, other):
            clock.after(draw.random(), rank.begin)
    found = []
    for end in range(WARM, END + 1):
        clock.run(end)
        found.append([one.bytes + other.bytes for one, other in zip(jobs[:JOBS], jobs[JOBS:])])
    return found


def apart(found, window):
    """Greatest less least, of the mean, of each window."""
    for first in range(0, len(found) - window, window):
        rates = [after - before for before, after in zip(found[first], found[first + window])]
        yield (max(rates) - min(rates)) / statistics.fmean(rates)


def main(seeds):
    for uplinks, late, fair, kib in CASES:
        runs = [seconds_of(seed, uplinks, late, fair, kib) for seed in range(seeds)]
        said = [f"{window} s {100 * statistics.fmean(one for run in runs for one in apart(run, window)):.1f}%"
                for window in (5, 10, 20, 40)]
        print(f"{JOBS // uplinks}:1, allreduces of {kib} KiB, processes late by {1000 * late:.0f} ms, "
              f"{'fair' if fair else 'first come first served'}: spread over {', '.join(said)}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2)
