# SPDX-License-Identifier: Apache-2.0
"""One rank of gpu.py groups: so many calls of one kind in a group, called and in a graph, and what they leave."""
import ctypes
import statistics
import time

from .device import TYPES, Device, Nccl, pointer, size

UINT32, SUM = TYPES["uint32"][0], 0
GLOBAL = 0  # a capture's mode
WARM_UP, WAIT = 5, 60


class Grouped:
    def __init__(self, options, meet):
        self.options, self.meet, self.step = options, meet, 0
        self.rank, self.ranks = options.rank, options.ranks
        self.device, self.nccl = Device(options.device), Nccl(options.library)
        rows = [row.split(":") for row in options.rows]
        self.most = max(int(count) * int(nbytes) for _, count, nbytes in rows) * self.ranks
        self.send, self.recv = self.device.alloc(self.most), self.device.alloc(self.most)
        if self.rank == 0:
            meet.put("id", self.nccl.new_id())
        self.comm = self.nccl.init(self.ranks, meet.get("id"), self.rank)

    def together(self):
        self.device.wait(WAIT, "the calls of a group")
        self.step += 1
        self.meet.barrier(f"at.{self.step}")

    def calls(self, what, count, nbytes):
        """[(function, its arguments)]; what Python makes of arguments is not to be measured. nbytes: of the least
        that each has."""
        lib, words, found = self.nccl.lib, size(nbytes // 4), []
        whole = self.ranks * nbytes
        for i in range(count):
            small = [pointer(at + i * nbytes) for at in (self.send, self.recv)]
            large = [pointer(at + i * whole) for at in (self.send, self.recv)]
            last = (self.comm, self.device.stream)
            found += {
                "allreduce": [(lib.ncclAllReduce, (*small, words, UINT32, SUM, *last))],
                "allgather": [(lib.ncclAllGather, (small[0], large[1], words, UINT32, *last))],
                "reduce-scatter": [(lib.ncclReduceScatter, (large[0], small[1], words, UINT32, SUM, *last))],
                "messages": [(lib.ncclSend, (small[0], words, UINT32, (self.rank + 1) % self.ranks, *last)),
                             (lib.ncclRecv, (small[1], words, UINT32, (self.rank - 1) % self.ranks, *last))],
            }[what]
        return found

    def group(self, calls):
        bad = self.nccl.lib.ncclGroupStart()
        for function, arguments in calls:
            bad = bad or function(*arguments)
        bad = self.nccl.lib.ncclGroupEnd() or bad
        if bad:
            raise RuntimeError("a group has failed: " + self.nccl.complaint(bad, self.comm))

    def words(self, what):
        """What the words of a result are, in turn, rank by rank where it has a part of each."""
        of = [0x01010101 * (rank + 1) for rank in range(self.ranks)]
        return {"allgather": of, "messages": [of[self.rank - 1]]}.get(what, [sum(of)])

    def check(self, what, count, nbytes, run):
        """Are the first and the last word of each part right?"""
        self.device.fill(self.send, self.rank + 1, self.most)
        self.device.fill(self.recv, 0, self.most)
        self.together()
        run()
        self.together()
        parts = self.words(what)
        data = self.device.get(self.recv, count * len(parts) * nbytes)
        for at in range(0, len(data), nbytes):
            wanted = parts[at // nbytes % len(parts)].to_bytes(4, "little")
            if data[at:at + 4] != wanted or data[at + nbytes - 4:at + nbytes] != wanted:
                return False
        return True

    def timed(self, run, times):
        """us of a run, by the median of the rounds."""
        found = []
        for _ in range(WARM_UP):
            run()
        for _ in range(self.options.rounds):
            self.together()
            began = time.perf_counter()
            for _ in range(times):
                run()
            self.device.wait(WAIT, "the calls of a group")
            found.append(1e6 * (time.perf_counter() - began) / times)
        return statistics.median(found)

    def captured(self, calls):
        graph, executable, call = ctypes.c_void_p(), ctypes.c_void_p(), self.device.call
        call("cuStreamBeginCapture_v2", self.device.stream, GLOBAL)
        self.group(calls)
        call("cuStreamEndCapture", self.device.stream, ctypes.byref(graph))
        call("cuGraphInstantiateWithFlags", ctypes.byref(executable), graph, ctypes.c_ulonglong(0))
        call("cuGraphDestroy", graph)
        return executable

    def measure(self, row):
        what, count, nbytes = row.split(":")
        calls = self.calls(what, int(count), int(nbytes))
        executable = self.captured(calls)
        runs = {"called": lambda: self.group(calls),
                "in a graph": lambda: self.device.call("cuGraphLaunch", executable, self.device.stream)}
        out = {}
        for name, run in runs.items():
            out[name] = self.timed(run, self.options.times)
            out[name + ", right"] = self.check(what, int(count), int(nbytes), run)
        self.together()
        self.device.call("cuGraphExecDestroy", executable)
        return out

    def run(self):
        rows = {row: self.measure(row) for row in self.options.rows}
        self.together()
        self.nccl.call("ncclCommDestroy", self.comm)
        return {"rows": rows}
