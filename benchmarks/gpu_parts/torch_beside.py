# SPDX-License-Identifier: Apache-2.0
"""A bf16 matrix product in a loop, alone and beside communication on another stream. One process for each GPU;
run by gpu.py beside.

All products are queued first, in front of most of the communication,
so that nothing the host does for the latter delays a product.
"""
import argparse
import json
import os
import statistics

import torch
import torch.distributed as dist

from gpu_parts import proof

MIB = 1 << 20


class Bench:
    def __init__(self, options):
        self.options, self.rank, self.ranks = options, dist.get_rank(), dist.get_world_size()
        side = options.side
        self.a, self.b = (torch.randn(side, side, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        self.c = torch.empty_like(self.a)
        self.send, self.recv = (torch.zeros(options.bytes // 4, device="cuda") for _ in range(2))
        self.products, self.talk = torch.cuda.Stream(), torch.cuda.Stream()

    def product(self):
        torch.mm(self.a, self.b, out=self.c)

    def ring(self):
        """256 MiB to the right neighbour, as much from the left one."""
        return dist.batch_isend_irecv([dist.P2POp(dist.isend, self.send, (self.rank + 1) % self.ranks),
                                       dist.P2POp(dist.irecv, self.recv, (self.rank - 1) % self.ranks)])

    def allreduce(self):
        return [dist.all_reduce(self.send, async_op=True)]

    def together(self):
        torch.cuda.synchronize()
        dist.barrier(device_ids=[torch.cuda.current_device()])
        torch.cuda.synchronize()

    def run(self, products, call, count):
        """(ms of a product, ms of a call): `products` products on one stream beside `count` calls on the other."""
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(4)]
        self.together()
        works = []
        with torch.cuda.stream(self.talk):
            marks[2].record()
            for _ in range(min(count, 8)):  # enough to be under way when the products begin
                works += call()
        with torch.cuda.stream(self.products):
            marks[0].record()
            for _ in range(products):
                self.product()
            marks[1].record()
        with torch.cuda.stream(self.talk):
            for _ in range(count - 8):
                works += call()
            for work in works:
                work.wait()
            marks[3].record()
        torch.cuda.synchronize()
        return (marks[0].elapsed_time(marks[1]) / max(products, 1), marks[2].elapsed_time(marks[3]) / max(count, 1),
                marks[2].elapsed_time(marks[3]) - marks[2].elapsed_time(marks[1]))

    def same(self, value):
        """Rank 0's number, on all ranks: all must make as many calls."""
        there = torch.tensor([float(value)], device="cuda")
        dist.broadcast(there, 0)
        return there.item()

    def measure(self, name, out):
        call, products = getattr(self, name), self.options.products
        alone_call = self.same(statistics.median(self.run(0, call, 20)[1] for _ in range(2)))
        found = {"call alone": alone_call, "turns": []}
        out[name] = found
        for _ in range(self.options.rounds):
            alone = self.run(products, None, 0)[0]
            # Half as many again as would fill the time, so that the talk outlasts the products.
            count = max(9, int(self.same(1.5 * products * alone / alone_call)))
            beside, call_time, rest = self.run(products, call, count)
            found["turns"].append({"alone": alone, "beside": beside, "call": call_time, "outlasted": rest})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--side", type=int, default=8192)
    parser.add_argument("--bytes", type=int, default=256 * MIB)
    parser.add_argument("--products", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    bench, out = Bench(options), {}
    bench.run(50, bench.allreduce, 8)
    bench.run(50, bench.ring, 8)
    for name in ("ring", "allreduce"):
        bench.measure(name, out)
    out["served"] = proof.line()
    with open(os.path.join(options.folder, f"out.{rank}.json"), "w", encoding="utf-8") as file:
        json.dump(out, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
