# SPDX-License-Identifier: Apache-2.0
"""A bf16 matrix product in a loop, alone and beside communication on another stream. One process for each GPU;
run by gpu.py beside.

All products are queued first, in front of most of the communication,
so that nothing the host does for the latter delays a product.
"""
import argparse
import statistics
import time

import torch
import torch.distributed as dist

from gpu_parts import torch_rank

MIB = 1 << 20
PACED = 64 * MIB  # bytes of a message of a ring that keeps to a rate
PAUSES = 2  # products are apart by so many times their own length, where the ring keeps to a rate


class Bench:
    def __init__(self, options):
        self.options, self.rank, self.ranks = options, dist.get_rank(), dist.get_world_size()
        side = options.side
        self.a, self.b = (torch.randn(side, side, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        self.c = torch.empty_like(self.a)
        self.send, self.recv = (torch.randn(options.bytes // 4, device="cuda") for _ in range(2))
        self.products, self.talk, self.spin = (torch.cuda.Stream() for _ in range(3))

    def product(self):
        torch.mm(self.a, self.b, out=self.c)

    def ring(self, nbytes=None):
        """256 MiB to the right neighbour, as much from the left one; or nbytes."""
        send, recv = (t[:nbytes // 4] if nbytes else t for t in (self.send, self.recv))
        return dist.batch_isend_irecv([dist.P2POp(dist.isend, send, (self.rank + 1) % self.ranks),
                                       dist.P2POp(dist.irecv, recv, (self.rank - 1) % self.ranks)])

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

    def paced(self, products, rate):
        """`products` products beside messages of PACED bytes, which the host begins one after another so that `rate`
        GB/s go out; rate 0: none. Behind each product the GPU rests for PAUSES times as long: it stays below its power
        limit then, and its clock where it is. A kernel of one thread spins for so many cycles meanwhile and tells the
        clock, beside messages and without.
        Returns ms of a product (the median), GB/s that went out, GHz, by how many ms the messages took longer."""
        marks = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(products)]
        last, spun, spins = (torch.cuda.Event(enable_timing=True) for _ in range(3))
        lasts = products * self.alone * (1 + PAUSES)
        cycles, period = int(1e6 * lasts), PACED / rate / 1e9 if rate else 0
        count = int(self.same(1.2e-3 * lasts / period)) if rate else 0
        self.together()
        with torch.cuda.stream(self.spin):  # first, or it would wait for room
            spins.record()
            torch.cuda._sleep(cycles)
            spun.record()
        works, began = [], time.perf_counter()
        with torch.cuda.stream(self.talk):
            for turn in range(min(count, 2)):
                works += self.ring(PACED)
        with torch.cuda.stream(self.products):
            for begin, end in marks:
                begin.record()
                self.product()
                end.record()
                torch.cuda._sleep(int(PAUSES * self.alone * 1.9e6))
        with torch.cuda.stream(self.talk):
            for turn in range(2, count):
                while time.perf_counter() < began + turn * period:
                    pass
                works += self.ring(PACED)
            for work in works:
                work.wait()
            last.record()
        torch.cuda.synchronize()
        first, rest = marks[0][0], marks[len(marks) // 10:]
        return {"ms": statistics.median(begin.elapsed_time(end) for begin, end in rest),
                "moved": count * PACED / 1e6 / spins.elapsed_time(last),
                "GHz": cycles / 1e6 / spins.elapsed_time(spun),
                "outlasted": first.elapsed_time(last) - first.elapsed_time(marks[-1][1])}

    def rates(self, out):
        """The ring at several rates, all of them in each round, the products alone before and after each."""
        products = self.options.products // 2
        self.alone = self.same(self.run(products, None, 0)[0])
        out["rates"] = [{"rate": rate, "turns": []} for rate in self.options.rates]
        for _ in range(self.options.rounds):
            before = self.paced(products, 0)
            for found in out["rates"]:
                beside, after = self.paced(products, found["rate"]), self.paced(products, 0)
                alone = {key: (before[key] + after[key]) / 2 for key in ("ms", "GHz")}
                found["turns"].append({"alone": alone["ms"], "beside": beside["ms"], "moved": beside["moved"],
                                       "GHz alone": alone["GHz"], "GHz": beside["GHz"],
                                       "outlasted": beside["outlasted"]})
                before = after

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
    parser.add_argument("--rates", type=float, nargs="*", default=[], help="GB/s out of each GPU")
    options = parser.parse_args()
    torch_rank.join()
    bench, out = Bench(options), {}
    bench.run(50, bench.allreduce, 8)
    bench.run(50, bench.ring, 8)
    for name in ("ring", "allreduce"):
        bench.measure(name, out)
    bench.rates(out)
    torch_rank.leave(options.folder, out)


if __name__ == "__main__":
    main()
