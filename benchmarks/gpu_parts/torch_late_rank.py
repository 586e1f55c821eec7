# SPDX-License-Identifier: Apache-2.0
"""Loops of calls whose hosts are in step, and those in which the host of one rank spins behind each call. One process
for each GPU; run by gpu.py late.

It spins for less than a call takes, so its stream has work all the time; but its GPU hears of each call later than the
others' do.
"""
import argparse
import statistics
import time

import torch
import torch.distributed as dist

from gpu_parts import torch_rank

LATE = 1  # the rank whose host is late
WARM_UP = 6  # calls


class Bench:
    def __init__(self, options):
        self.options, self.rank, self.ranks = options, dist.get_rank(), dist.get_world_size()
        most = max(int(row.partition(":")[2]) for row in options.rows) // 4
        self.mine, self.other = (torch.empty(most, device="cuda") for _ in range(2))

    def allreduce(self, mine, _):
        dist.all_reduce(mine)

    def allgather(self, mine, _):
        dist.all_gather_into_tensor(mine, mine.chunk(self.ranks)[self.rank])

    def alltoall(self, mine, other):
        dist.all_to_all_single(other, mine)

    def ring(self, mine, other):
        for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, (self.rank + 1) % self.ranks),
                                            dist.P2POp(dist.irecv, other, (self.rank - 1) % self.ranks)]):
            work.wait()

    def loop(self, call, vectors, count, nap):
        """us of a call on the GPU; the host of rank LATE spins for nap seconds behind each."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        vectors[0].normal_()  # sums of sums would end as infinities
        torch.cuda.synchronize()
        dist.barrier(device_ids=[torch.cuda.current_device()])
        torch.cuda.synchronize()
        begin.record()
        for _ in range(count):
            call(*vectors)
            until = time.perf_counter() + nap
            while self.rank == LATE and time.perf_counter() < until:
                pass
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end) / count * 1000

    def rounds(self, call, vectors, nap=0.0):
        self.loop(call, vectors, WARM_UP, nap)
        return [self.loop(call, vectors, self.options.calls, nap) for _ in range(self.options.rounds)]

    def same(self, value):
        """Rank 0's number, on all ranks."""
        there = torch.tensor([float(value)], device="cuda")
        dist.broadcast(there, 0)
        return there.item()

    def measure(self, row):
        """{hosts: [us of a call in each round]}, and for how many us the late host spins."""
        name, _, nbytes = row.partition(":")
        count = int(nbytes) // 4 // self.ranks * self.ranks
        call, vectors = getattr(self, name), (self.mine[:count], self.other[:count])
        in_step = self.rounds(call, vectors)
        nap = self.options.share * self.same(statistics.median(in_step))
        return {"in step": in_step, "late": self.rounds(call, vectors, nap / 1e6), "nap": nap}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--rows", nargs="+", required=True, help="OPERATION:BYTES")
    parser.add_argument("--share", type=float, default=0.55)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    torch_rank.join()
    bench = Bench(options)
    torch_rank.leave(options.folder, {"calls": {row: bench.measure(row) for row in options.rows}})


if __name__ == "__main__":
    main()
