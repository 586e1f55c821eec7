# SPDX-License-Identifier: Apache-2.0
"""Every call, type and operator at a size for each of the library's ways, compared with what must come out,
byte by byte."""
import collections

from . import exact_values
from .device import OPS, TYPES, pointer, size

Preset = collections.namedtuple("Preset", "types ops bytes moved large", defaults=((),))
KIB, MIB = 1 << 10, 1 << 20
# Odd sizes: blocks of a reduce-scatter are then misaligned. Small, middle and large reductions are different kernels.
PRESETS = {
    "all": Preset(tuple(TYPES), tuple(OPS), (4000, 200 * 1000, 3000 * 1000),
                  (40, 100 * 1000, 1 * MIB + 12, 12 * MIB), (48 * MIB + 4,)),
    "few": Preset(("float", "bfloat16", "int8"), ("sum", "avg"),
                  (4000, 200 * 1000, 1000 * 1000), (40, 100 * 1000, 3 * MIB + 4)),
    "racecheck": Preset(("float", "half", "int8"), ("sum",),
                        (4000, 100 * 1000, 1000 * 1000), (40, 200 * 1000, 3 * MIB + 4)),
    "survivors": Preset(("float",), ("sum",), (4000, 3000 * 1000), (100 * 1000,)),
}
GUARD = 0xee


class Exercise:
    """step(): fill, call, wait, compare. Complaints are collected, not raised; a call that does not end is raised."""

    def __init__(self, device, nccl, comm, rank, ranks, limit):
        self.device, self.nccl, self.comm, self.rank, self.ranks, self.limit = device, nccl, comm, rank, ranks, limit
        self.points, self.wrong = 0, []

    def run(self, preset):
        want = PRESETS[preset]
        most = max(*want.bytes, *want.large, max(want.moved) * self.ranks) + 64
        self.send, self.recv = self.device.alloc(most), self.device.alloc(most)
        for kind in want.types:
            for op in (op for op in want.ops if exact_values.exact(op, self.ranks)):
                for nbytes in want.bytes:
                    self.reductions(kind, op, nbytes // TYPES[kind][1])
        for nbytes in want.large:  # some ways are for large vectors alone
            for kind in ("float", "bfloat16"):
                self.reductions(kind, "sum", nbytes // TYPES[kind][1])
        for nbytes in want.moved:
            self.moves("int32", nbytes // 4)
        self.device.free(self.send)
        self.device.free(self.recv)
        return self.wrong

    def step(self, name, kind, send, wanted, call):
        """send: this rank's bytes; wanted: what must lie in recv, or None where nothing may; call(send, recv)."""
        width = TYPES[kind][1]
        self.device.put(self.send, send)
        expected = (wanted or b"") + bytes([GUARD]) * 16
        self.device.fill(self.recv, GUARD, len(expected))
        call(self.send, self.recv)
        self.device.wait(self.limit, f"rank {self.rank}: {name}")
        at = exact_values.first_difference(self.device.get(self.recv, len(expected)), expected, width)
        self.points += 1
        if at is not None:
            self.wrong.append(f"{name}: element {at} of {len(wanted or b'') // width} is wrong")

    def reductions(self, kind, op, count):
        number, opcode, stream, call = TYPES[kind][0], OPS[op], self.device.stream, self.nccl.call
        name, root = f"{kind} {op}, {count} elements", self.ranks - 1
        own, total = exact_values.own(kind, self.rank, 0, count), exact_values.reduced(kind, op, self.ranks, 0, count)
        self.step(f"allreduce {name}", kind, own, total, lambda s, r: call(
            "ncclAllReduce", pointer(s), pointer(r), size(count), number, opcode, self.comm, stream))
        self.step(f"reduce {name}", kind, own, total if self.rank == root else None, lambda s, r: call(
            "ncclReduce", pointer(s), pointer(r), size(count), number, opcode, root, self.comm, stream))
        part = count // self.ranks
        self.step(f"reduce-scatter {name}", kind, exact_values.own(kind, self.rank, 0, part * self.ranks),
                  exact_values.reduced(kind, op, self.ranks, self.rank * part, part), lambda s, r: call(
                      "ncclReduceScatter", pointer(s), pointer(r), size(part), number, opcode, self.comm, stream))

    def moves(self, kind, count):
        """A block of `count` elements to each: allgather, alltoall, broadcast, gather, scatter, and a ring."""
        number, stream, call, n = TYPES[kind][0], self.device.stream, self.nccl.call, self.ranks
        root, at, every = n - 1, self.rank == n - 1, range(n)
        own = [exact_values.own(kind, rank, 0, count) for rank in every]
        all_blocks, name = b"".join(own), f"{count} elements each"
        self.step(f"allgather {name}", kind, own[self.rank], all_blocks, lambda s, r: call(
            "ncclAllGather", pointer(s), pointer(r), size(count), number, self.comm, stream))
        self.step(f"broadcast {name}", kind, own[self.rank], own[root], lambda s, r: call(
            "ncclBroadcast", pointer(s), pointer(r), size(count), number, root, self.comm, stream))
        rows = [b"".join(exact_values.own(kind, me + other, 0, count) for other in every) for me in every]
        self.step(f"alltoall {name}", kind, rows[self.rank], rows[self.rank], lambda s, r: call(
            "ncclAlltoAll", pointer(s), pointer(r), size(count), number, self.comm, stream))
        self.step(f"gather {name}", kind, own[self.rank], all_blocks if at else None, lambda s, r: call(
            "ncclGather", pointer(s), pointer(r), size(count), number, root, self.comm, stream))
        self.step(f"scatter {name}", kind, all_blocks, own[self.rank], lambda s, r: call(
            "ncclScatter", pointer(s), pointer(r), size(count), number, root, self.comm, stream))
        self.step(f"ring {name}", kind, own[self.rank], own[(self.rank - 1) % n],
                  lambda s, r: self.ring(s, r, count, number))

    def ring(self, send, recv, count, number):
        call, n, stream = self.nccl.call, self.ranks, self.device.stream
        call("ncclGroupStart")
        call("ncclSend", pointer(send), size(count), number, (self.rank + 1) % n, self.comm, stream)
        call("ncclRecv", pointer(recv), size(count), number, (self.rank - 1) % n, self.comm, stream)
        call("ncclGroupEnd")
