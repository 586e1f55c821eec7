# SPDX-License-Identifier: Apache-2.0
"""Calls of one kind in PyTorch's coalescing manager, called and in a CUDA graph, and what they leave. One
process for each GPU; run by gpu.py groups."""
import argparse
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager

from gpu_parts import torch_rank

WARM_UP = 5


class Coalesced:
    """Each call has its own part of two buffers, of which one holds a part of each rank."""

    def __init__(self, what, count, nbytes):
        self.rank, self.ranks, self.what, self.words = dist.get_rank(), dist.get_world_size(), what, nbytes // 4
        self.small = torch.zeros(count, self.words, device="cuda", dtype=torch.int32)
        self.large = torch.zeros(count, self.ranks * self.words, device="cuda", dtype=torch.int32)
        self.got = torch.zeros_like(self.small)

    def run(self):
        if self.what == "messages":
            after, before = (self.rank + 1) % self.ranks, (self.rank - 1) % self.ranks
            for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, part, after) for part in self.small]
                                               + [dist.P2POp(dist.irecv, part, before) for part in self.got]):
                work.wait()
            return
        with _coalescing_manager():
            for small, large in zip(self.small, self.large):
                if self.what == "allreduce":
                    dist.all_reduce(small)
                elif self.what == "allgather":
                    dist.all_gather_into_tensor(large, small)
                else:
                    dist.reduce_scatter_tensor(small, large)

    def check(self, run):
        """Are all words right?"""
        together()
        for tensor in (self.small, self.large):
            tensor.fill_(self.rank + 1)
        together()
        run()
        torch.cuda.synchronize()
        whole = self.ranks * (self.ranks + 1) // 2
        if self.what == "allgather":
            parts = self.large.view(-1, self.ranks, self.words)
            return all(bool((parts[:, rank] == rank + 1).all()) for rank in range(self.ranks))
        if self.what == "messages":
            return bool((self.got == (self.rank - 1) % self.ranks + 1).all())
        return bool((self.small == whole).all())


def together():
    torch.cuda.synchronize()
    dist.barrier(device_ids=[torch.cuda.current_device()])
    torch.cuda.synchronize()


def timed(options, run):
    """us of a run, by the median of the rounds."""
    found = []
    for _ in range(WARM_UP):
        run()
    for _ in range(options.rounds):
        together()
        began = time.perf_counter()
        for _ in range(options.times):
            run()
        torch.cuda.synchronize()
        found.append(1e6 * (time.perf_counter() - began) / options.times)
    return statistics.median(found)


def captured(run):
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    with torch.cuda.stream(stream):
        run()
        together()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="relaxed"):
            run()
    together()
    return graph


def measure(options, row):
    what, count, nbytes = row.split(":")
    calls, out = Coalesced(what, int(count), int(nbytes)), {}
    graph = captured(calls.run)
    for name, run in (("called", calls.run), ("in a graph", graph.replay)):
        out[name] = timed(options, run)
        out[name + ", right"] = calls.check(run)
    together()
    graph.reset()
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--rows", nargs="+", required=True, help="OPERATION:CALLS:BYTES")
    parser.add_argument("--times", type=int, default=50, help="groups of a loop")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch_rank.join()
    torch_rank.leave(options.folder, {"rows": {row: measure(options, row) for row in options.rows}})


if __name__ == "__main__":
    main()
