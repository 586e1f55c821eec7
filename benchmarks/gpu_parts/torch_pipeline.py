# SPDX-License-Identifier: Apache-2.0
"""The steady state of a 1F1B pipeline: in each slot a stage computes a forward and a backward step of two micro
batches, beside the messages of the slot before: activations to the next stage, gradients to the one before. One process
for each GPU and stage; run by gpu.py pipeline.

A slot begins when the messages of the slot before have come, as what it computes on needs them; with two buffers for
each message those of this slot are under way meanwhile.
"""
import argparse
import statistics

import torch
import torch.distributed as dist

from gpu_parts import torch_rank

TURNS = 5


class Stage:
    def __init__(self, options):
        self.options, self.rank, self.ranks = options, dist.get_rank(), dist.get_world_size()
        side = options.side
        self.a, self.b = (torch.randn(side, side, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        self.c = torch.empty_like(self.a)
        most = max(options.sizes) // 2
        self.buffers = [[torch.randn(most, device="cuda", dtype=torch.bfloat16) for _ in range(4)] for _ in range(2)]

    def messages(self, slot, nbytes):
        out, activations, back, gradients = (t[:nbytes // 2] for t in self.buffers[slot % 2])
        after, before = self.rank + 1, self.rank - 1
        todo = []
        if after < self.ranks:
            todo += [dist.P2POp(dist.isend, out, after), dist.P2POp(dist.irecv, gradients, after)]
        if before >= 0:
            todo += [dist.P2POp(dist.irecv, activations, before), dist.P2POp(dist.isend, back, before)]
        return dist.batch_isend_irecv(todo)

    def compute(self, products):
        for _ in range(products):
            torch.mm(self.a, self.b, out=self.c)

    def step(self, products, nbytes):
        """All slots of a step; without messages if nbytes is 0."""
        works = []
        for slot in range(self.options.slots):
            before, works = works, self.messages(slot, nbytes) if nbytes else []
            for work in before:  # the GPU waits, not the host
                work.wait()
            self.compute(products)
        for work in works:
            work.wait()

    def timed(self, products, nbytes):
        """ms of a step."""
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        dist.barrier(device_ids=[torch.cuda.current_device()])
        begin.record()
        self.step(products, nbytes)
        end.record()
        torch.cuda.synchronize()
        return begin.elapsed_time(end)

    def measure(self):
        """{products: {bytes: ms, the median of the turns}}: all sizes in each turn, as clocks drift."""
        keys = [(products, nbytes) for products in self.options.products for nbytes in (0, *self.options.sizes)]
        found = {key: [] for key in keys}
        for turn in range(TURNS + 1):
            for key in keys:
                ms = self.timed(*key)
                found[key] += [ms] * (turn > 0)
        return {str(products): {str(nbytes): statistics.median(found[products, nbytes])
                                for nbytes in (0, *self.options.sizes)} for products in self.options.products}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--side", type=int, default=4096)
    parser.add_argument("--slots", type=int, default=64)
    parser.add_argument("--products", type=int, nargs="+", default=[6])
    parser.add_argument("--sizes", type=int, nargs="+", required=True)
    options = parser.parse_args()
    torch_rank.join()
    stage = Stage(options)
    stage.step(2, max(options.sizes))
    torch_rank.leave(options.folder, {"steps": stage.measure()})


if __name__ == "__main__":
    main()
