# SPDX-License-Identifier: Apache-2.0
"""Reports of agents that nobody runs, byte by byte as control/report/report.proto has them: what a job of any size
would tell, and what a liar would."""
import struct
import time

ENQUEUED, RUNNING, DONE = 1, 2, 3
SLEEPS, STOPPED = 2, 4


def varint(value):
    out = bytearray()
    while value >= 128:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes(out + bytes([value]))


def field(number, value):
    """A field: bytes, a text, or a number that is not negative."""
    if isinstance(value, str):
        value = value.encode()
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def signed(number, value):
    return field(number, value << 1 if value >= 0 else (-value << 1) - 1)


def fixed(number, value):
    return varint(number << 3 | 1) + struct.pack("<Q", value)


def report(host, number=1, agent=7, processes=b""):
    return (field(1, 1) + field(2, host) + fixed(3, int.from_bytes(bytes([agent] * 8), "little")) + field(4, number) +
            field(5, time.time_ns()) + processes)


def process(pid, now, comms, state=SLEEPS, alive=True, command="python train.py", events=()):
    box = (field(1, b"boot of a host  ") + field(2, 1) + signed(3, time.time_ns() - now) + field(4, command) +
           b"".join(field(5, comm) for comm in comms) + b"".join(field(6, event) for event in events))
    return field(6, field(1, pid) + field(2, pid) + field(5, int(alive)) + field(6, now) + field(7, field(1, state)) +
                 field(8, box))


def comm(ident, name, rank, ranks, ops=(), place=0, state=1):
    return (field(1, place) + fixed(2, ident) + field(4, rank) + field(5, ranks) + field(6, state) + signed(8, -1) +
            field(9, 1) + field(13, name) + b"".join(field(15, op) for op in ops))


def op(position, begin, end=0, collective=0, peer=-1, waits_for=-1, since=0, round_=0, rounds=0, size=4096):
    """Done if it has an end, else running, and waiting for somebody since then."""
    return (field(1, position) + field(2, position) + field(3, size // 4) + field(4, size) + field(5, begin) +
            field(6, begin) + field(7, end) + field(8, since) + field(10, collective) + signed(13, peer) +
            field(14, DONE if end else RUNNING) + signed(20, waits_for) + field(21, round_) + field(23, rounds) +
            field(25, "ring"))


def bundle(reports, via=(), complaint=""):
    relayed = (field(1, one) + field(2, b"10.9.9.9") + b"".join(field(3, name) for name in via) for one in reports)
    return field(1, 1) + b"".join(field(2, one) for one in relayed) + field(3, complaint)


class Training:
    """A job of many ranks, eight on a host, in one communicator for all, and one in which neighbours send to each
    other. One is stopped, and one link is slow. Told again and again, as agents do. `collectives`: their names, by
    number."""

    def __init__(self, ranks, collectives, stopped=-1, slow=(-1, -1), names=("world", "pipeline")):
        self.ranks, self.stopped, self.slow, self.names = ranks, stopped, slow, names
        self.reduce, self.receive = collectives.index("allreduce"), collectives.index("recv")
        self.begun, self.number = time.monotonic_ns() - 20 * 10 ** 9, 0
        self.comms = [self.both(rank) for rank in range(ranks)]  # bytes, made once

    def receives(self, rank):
        """Six from each neighbour: 4 ms each, 40 ms over the slow link."""
        at, ops = self.begun, []
        for number in range(12):
            peer = (rank + (1 if number % 2 else -1)) % self.ranks
            takes = 40_000_000 if (peer, rank) == self.slow else 4_000_000 + (rank * 7 + number) % 5 * 300_000
            at += takes
            ops.append(op(number, at - takes, at, self.receive, peer))
        return ops

    def reduces(self, rank):
        """A call a second, of 30 to 60 ms; the latest one waits where one is stopped."""
        calls, ops = 12, []
        for number in range(calls):
            begin = self.begun + number * 10 ** 9 + rank % 7 * 10 ** 6
            ops.append(op(number, begin, begin + 30_000_000 + rank % 11 * 3_000_000, self.reduce))
        since = self.begun + calls * 10 ** 9
        if self.stopped not in (-1, rank):
            ops.append(op(calls, since, 0, self.reduce, waits_for=(rank - 1) % self.ranks, since=since, round_=rank % 9,
                          rounds=2 * self.ranks - 2))
        return ops

    def both(self, rank):
        return [comm(1, self.names[0], rank, self.ranks, self.reduces(rank)),
                comm(2, self.names[1], rank, self.ranks, self.receives(rank), place=1)]

    def process(self, rank, now):
        return process(1000 + rank, now, self.comms[rank], STOPPED if rank == self.stopped else SLEEPS)

    def tell(self):
        """Of all hosts, as one agent would pass it on."""
        return next(self.tells((self.ranks + 7) // 8))

    def tells(self, most):
        """The same in bundles of so many hosts at most."""
        self.number += 1
        now, hosts = time.monotonic_ns(), (self.ranks + 7) // 8
        for first in range(0, hosts, most):
            yield bundle(report(f"node{host}", self.number, 7, b"".join(
                self.process(rank, now) for rank in range(8 * host, min(8 * host + 8, self.ranks))))
                for host in range(first, min(first + most, hosts)))
