# SPDX-License-Identifier: Apache-2.0
"""Allreduces called and in a graph, with what they take of the host's processors, and replays of a graph whose results
are looked at. One process for each GPU; run by gpu.py between."""
import argparse
import statistics
import time

import torch
import torch.distributed as dist

from gpu_parts import torch_rank

MIB = 1 << 20
LOOPS = 5  # measurements; the median counts
EVERY = 8  # replays to a call of the same between them


class Bench:
    def __init__(self):
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.done = torch.cuda.Event(blocking=True)

    def wait(self):
        """Sleeps until the stream is empty: a processor that spun here would count as the library's."""
        self.done.record()
        self.done.synchronize()

    def together(self):
        self.wait()
        dist.barrier(device_ids=[torch.cuda.current_device()])
        self.wait()

    def timed(self, call, count):
        """(us of a call, us of processors that this process had for it)"""
        self.together()
        used, began = time.process_time(), time.perf_counter()
        for _ in range(count):
            call()
        self.wait()
        return 1e6 * (time.perf_counter() - began) / count, 1e6 * (time.process_time() - used) / count

    def loops(self, call, vector, nbytes):
        """The medians of both."""
        count, found = max(4, min(300, (256 * MIB) // nbytes)), []
        for _ in range(LOOPS + 1):
            vector.normal_()
            found.append(self.timed(call, count))
        return [statistics.median(each) for each in zip(*found[1:])]

    @staticmethod
    def captured(work):
        """A graph of it, which has run before."""
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            work()
        return graph

    def measure(self, nbytes):
        vector = torch.empty(nbytes // 4, device="cuda")
        out = {}
        out["called"], out["processors"] = self.loops(lambda: dist.all_reduce(vector), vector, nbytes)
        graph = self.captured(lambda: dist.all_reduce(vector))
        out["captured"], out["processors captured"] = self.loops(graph.replay, vector, nbytes)
        return out


class Step:
    """What is captured and called: an allreduce, an allgather and a message to the other half of the ranks, of numbers
    that differ from step to step."""

    def __init__(self, bench, count):
        self.bench = bench
        self.peer = (bench.rank + (bench.ranks + 1) // 2) % bench.ranks
        self.source = (bench.rank - (bench.ranks + 1) // 2) % bench.ranks
        self.base = torch.arange(count, dtype=torch.int32, device="cuda")
        self.own, self.sum, self.got = (torch.empty_like(self.base) for _ in range(3))
        self.all = torch.empty(count * bench.ranks, dtype=torch.int32, device="cuda")
        self.turn = torch.zeros(1, dtype=torch.int32, device="cuda")
        self.wrong = torch.zeros(1, dtype=torch.int64, device="cuda")

    def run(self):
        self.turn.add_(1)
        torch.add(self.base, self.turn, out=self.own)
        self.own.add_(self.bench.rank)
        self.sum.copy_(self.own)
        dist.all_reduce(self.sum)
        dist.all_gather_into_tensor(self.all, self.own)
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, self.own, self.peer),
                                            dist.P2POp(dist.irecv, self.got, self.source)]):
            work.wait()

    def look(self):
        """Adds what is wrong now, and leaves other numbers than those that the next step must leave."""
        ranks, plain = self.bench.ranks, self.base + self.turn
        self.wrong += (self.sum != ranks * plain + ranks * (ranks - 1) // 2).sum()
        self.wrong += (self.got != plain + self.source).sum()
        for rank, part in enumerate(self.all.chunk(ranks)):
            self.wrong += (part != plain + rank).sum()
        for tensor in (self.sum, self.got, self.all):
            tensor.fill_(-1)

    def replays(self, count):
        """Elements that were wrong."""
        for _ in range(2):
            self.run()
        self.bench.wait()
        graph = self.bench.captured(self.run)
        for turn in range(count):
            graph.replay()
            self.look()
            if turn % EVERY == EVERY - 1:
                self.run()
                self.look()
        self.bench.wait()
        return int(self.wrong.item())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--replays", type=int, default=1000)
    parser.add_argument("--sizes", type=int, nargs="+", required=True)
    options = parser.parse_args()
    torch_rank.join()
    bench, out = Bench(), {"sizes": {}}
    for nbytes in options.sizes:
        found = out["sizes"][str(nbytes)] = bench.measure(nbytes)
        found["replays"] = options.replays // (1 if nbytes <= 4 * MIB else 10) if nbytes <= 32 * MIB else 0
        found["wrong"] = Step(bench, nbytes // 4).replays(found["replays"]) if found["replays"] else 0
    torch_rank.leave(options.folder, out)


if __name__ == "__main__":
    main()
