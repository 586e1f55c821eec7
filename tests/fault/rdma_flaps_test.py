#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two ranks with two RDMA ports each, which check random collectives while ports go down and come back, devices are
taken out and put back, and queue pairs break: what the processes hold afterwards is what they held before.
Usage: rdma_flaps_test.py SOAK. TUTTI_TEST_FLAPS: how many flaps (6); 1,000 take five to twenty minutes."""
import os
import random
import re
import time

from links import Other, run_alone
from rdma_job import BOTH, PATIENCE, Job, judge, tell

FLAPS = int(os.environ.get("TUTTI_TEST_FLAPS", "6"))
LANES = 2  # of each port, and one for messages
KINDS = ("port", "port", "port", "device", "pair")  # as likely as they are often here
SOME_BEDS = 2  # eventfds: a thread that waits sleeps on one, made when one more sleeps at once, and kept
SOME_REGIONS = 8  # lanes, and the receives that they share, get more buffers by use; a lane that is left has 2 at least
SOME_MAPPINGS = 32  # stacks and arenas of threads that come and go
SOME_MEMORY = 24 << 10  # KiB: what the heap keeps; lanes' buffers are not of it


def lines(*parts):
    with open(os.path.join("/proc", *parts), encoding="ascii", errors="replace") as file:
        return file.read().splitlines()


def sockets(pid):
    """{inode: kind} of the network that the process is in."""
    places = {"tcp": 9, "tcp6": 9, "udp": 9, "udp6": 9, "packet": 8, "unix": 6, "raw": 9, "netlink": 9}
    return {line.split()[place]: kind for kind, place in places.items() for line in lines(pid, "net", kind)[1:]}


def descriptors(pid):
    """{kind: how many}, but for the UDP sockets that the software device keeps for each source port it sent from."""
    kinds, counts = sockets(pid), {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        try:
            to = os.readlink(f"/proc/{pid}/fd/{name}")
        except FileNotFoundError:
            continue
        kind = f"{kinds.get(to[8:-1], 'unbound')} socket" if to.startswith("socket:") else to
        if not kind.startswith("udp"):
            counts[kind] = counts.get(kind, 0) + 1
    return counts


class Holdings:
    """What a rank holds: the least of some looks, for collectives register memory, and threads come and go."""
    NAMES = ("descriptors", "eventfds", "threads", "queue pairs", "regions", "mappings", "KiB")

    def __init__(self, pid, inside):
        looks = [self.look(str(pid), inside) for _ in range(12)]
        self.kinds = descriptors(str(pid))
        self.least = {name: min(look[name] for look in looks) for name in self.NAMES}

    def look(self, pid, inside):
        said = tell(inside, "info")
        resident = next(int(line.split()[1]) for line in lines(pid, "status") if line.startswith("VmRSS:"))
        kinds = descriptors(pid)
        beds = kinds.pop("anon_inode:[eventfd]", 0)
        now = (sum(kinds.values()), beds, len(os.listdir(f"/proc/{pid}/task")), said.count("qp 0x"),
               int(re.search(r"^regions (\d+)", said, re.M).group(1)), len(lines(pid, "maps")), resident)
        time.sleep(0.02)
        return dict(zip(self.NAMES, now))

    def exceeds(self, first):
        """What there is more of than at first; "" if nothing."""
        spare = {"eventfds": SOME_BEDS, "regions": SOME_REGIONS, "mappings": SOME_MAPPINGS, "KiB": SOME_MEMORY}
        more = [f"{name}: {first.least[name]}, and {self.least[name]} after" for name in self.NAMES
                if self.least[name] > first.least[name] + spare.get(name, 0)]
        return "; ".join(more)


class Flapper:
    def __init__(self, other, job):
        self.other, self.job, self.chance, self.counts = other, job, random.Random(5), {}

    def sides(self):
        return [[], self.other.inside]

    def until(self, sentence, times):
        end = time.monotonic() + PATIENCE
        while self.job.text().count(sentence) < times:
            assert time.monotonic() < end, f"it does not say \"{sentence}\" {times} times"
            assert all(one.poll() is None for one in self.job.ranks), "a rank gave up"
            time.sleep(0.02)

    def port(self, link):
        sentence = f"RDMA device soft_{link}:1: port error"
        before = self.job.text().count(sentence)
        self.other.set(link, "down")
        self.until(sentence, before + 1)
        self.other.set(link, "up")

    def device(self, link):
        """Not both: who has no device open hears no commands."""
        side, before = self.chance.choice(self.sides()), self.job.text().count(" is open again")
        tell(side, "unplug", f"soft_{link}")
        tell(side, "plug", f"soft_{link}")
        self.until(" is open again", before + 1)

    def pair(self, link):
        side = self.chance.choice(self.sides())
        numbers = re.findall(rf"^qp (0x\w+) soft_{link} RTS", tell(side, "info"), re.M)
        if numbers:
            tell(side, "kill", self.chance.choice(numbers))

    def flap(self, kind):
        link = self.chance.choice(BOTH)
        getattr(self, kind)(link)
        self.counts[kind] = self.counts.get(kind, 0) + 1
        self.job.carries([link])

    def settles(self, first):
        """Lanes that are back are counted, and threads that have ended are gone."""
        end = time.monotonic() + PATIENCE
        while True:
            self.job.carries(BOTH)
            now = self.holdings()
            more = [one.exceeds(before) for one, before in zip(now, first)]
            if not any(more):
                return now
            if time.monotonic() > end:
                raise AssertionError("\n".join(f"{what or 'nothing is left'}; descriptors {was.kinds}, now {one.kinds}"
                                               for what, was, one in zip(more, first, now)))

    def is_whole(self):
        """All lanes are up at both ends."""
        return all(tell(side, "info").count(" RTS ") == LANES * len(BOTH) + 1 for side in self.sides())

    def holdings(self):
        return [Holdings(rank.pid, side) for rank, side in zip(self.job.ranks, self.sides())]

    def holdings_when_whole(self):
        """A rank that has no processor for a while may lose lanes meanwhile."""
        end = time.monotonic() + PATIENCE
        while True:
            held = self.holdings() if self.is_whole() else None
            if held and self.is_whole():
                return held
            assert time.monotonic() < end, "lanes are missing"
            time.sleep(0.05)


def tell_holdings(when, holdings):
    for rank, held in enumerate(holdings):
        print(f"{when}, rank {rank}:", ", ".join(f"{name} {held.least[name]}" for name in Holdings.NAMES), flush=True)


def nothing_is_left(other, seconds):
    lanes = {"TUTTI_IB_LANES": str(LANES), "TUTTI_REGISTERED": "0"}  # what is kept would grow with what was drawn
    with Job(other, lanes, lanes, soak=("--seconds", str(seconds), "--resets", "0")) as job:
        flapper = Flapper(other, job)
        job.carries(BOTH)
        for kind in ("port", "device", "pair"):  # what is made once is there then
            flapper.flap(kind)
        first = flapper.holdings_when_whole()
        flapper.counts, began = {}, time.monotonic()
        for done in range(FLAPS):
            if done in (100, 300):  # what grows with the flaps shows itself
                tell_holdings(f"after {done} flaps", flapper.settles(first))
            flapper.flap(flapper.chance.choice(KINDS))
        took = time.monotonic() - began
        last = flapper.settles(first)
        print(f"{FLAPS} flaps in {took:.0f} s:", ", ".join(f"{n} {kind}" for kind, n in flapper.counts.items()))
        tell_holdings("at first", first)
        tell_holdings("at last", last)
        judge(job)
        print("\n".join(line for line in job.text().splitlines() if "total" in line))


def main():
    seconds = 300 + 20 * FLAPS
    with Other(["tm0", "tp0", "tp1"], seconds + 300) as other:
        nothing_is_left(other, seconds)


run_alone(main, "What is left of RDMA ports that flap was")
