# SPDX-License-Identifier: Apache-2.0
"""The all-reduces of decoder layers as an inference engine makes them: in bf16, in a CUDA graph, over one library and
in several ways; also single sizes, in graphs and without. One process for each GPU; run by gpu.py layers.

NCCL's interface is called directly, as engines do, and not by way of torch.distributed.
"""
import argparse
import ctypes
import json
import os
import statistics
import traceback

import torch
import torch.distributed as dist

from gpu_parts import served_by
from gpu_parts.device import Nccl, pointer, size
from gpu_parts.ranks import Meet

BFLOAT16, SUM, SYMMETRIC = 9, 0, 1
TURNS = 5


class Raw:
    """Device memory that is not PyTorch's, as a tensor."""

    def __init__(self, at, nbytes):
        self.__cuda_array_interface__ = {"shape": (nbytes,), "typestr": "|u1", "data": (at, False), "version": 3}


class Plain:
    """A libnccl.so.2 on PyTorch's memory, in place, as a decoder's are."""

    def __init__(self, nccl, comm, most):
        self.nccl, self.comm, self.last = nccl, comm, (None, None)
        self.source = self.memory(most)

    def memory(self, most):
        return torch.empty(most, device="cuda", dtype=torch.uint8)

    def part(self, nbytes):
        return self.source[:nbytes].view(torch.bfloat16)

    def reduce(self, nbytes):
        stream = torch.cuda.current_stream().cuda_stream
        if self.last[0] != (nbytes, stream):  # what Python makes of the arguments is not to be measured
            self.last = (nbytes, stream), (pointer(self.source.data_ptr()), pointer(self.source.data_ptr()),
                                           size(nbytes // 2), BFLOAT16, SUM, self.comm, pointer(stream))
        if self.nccl.lib.ncclAllReduce(*self.last[1]):
            raise RuntimeError("ncclAllReduce has failed")

    def result(self, nbytes):
        self.reduce(nbytes)
        return self.part(nbytes)


class Window(Plain):
    """The same on memory of ncclMemAlloc that is registered as a symmetric window."""

    def memory(self, most):
        at, window = ctypes.c_void_p(), ctypes.c_void_p()
        self.nccl.call("ncclMemAlloc", ctypes.byref(at), size(most))
        self.nccl.call("ncclCommWindowRegister", self.comm, at, size(most), ctypes.byref(window), SYMMETRIC)
        return torch.as_tensor(Raw(at.value, most), device="cuda")


class Symmetric:
    """PyTorch's own kernels on symmetric memory."""

    def __init__(self, shot, most):
        import torch.distributed._symmetric_memory as symm_mem
        group = dist.group.WORLD
        self.shot, self.name = shot, group.group_name
        self.source = symm_mem.empty(most // 2, device="cuda", dtype=torch.bfloat16)
        symm_mem.rendezvous(self.source, group)

    def part(self, nbytes):
        return self.source[:nbytes // 2]

    def reduce(self, nbytes):
        if self.shot == 1:
            return torch.ops.symm_mem.one_shot_all_reduce(self.part(nbytes), "sum", self.name)
        return torch.ops.symm_mem.two_shot_all_reduce_(self.part(nbytes), "sum", self.name)

    def result(self, nbytes):
        return self.reduce(nbytes)


class Bench:
    def __init__(self, options, meet):
        self.options, self.meet, self.step = options, meet, 0
        self.rank, self.ranks = options.rank, options.ranks

    def together(self):
        torch.cuda.synchronize()
        self.step += 1
        self.meet.barrier(f"at.{self.step}")

    def check(self, way, nbytes):
        """Small integers, whose sums bf16 holds exactly."""
        values = torch.arange(nbytes // 2, device="cuda") % 7
        source = way.part(nbytes)
        source.copy_((values + self.rank).to(torch.bfloat16))
        self.together()
        result = way.result(nbytes)
        torch.cuda.synchronize()
        wanted = (self.ranks * values + sum(range(self.ranks))).to(torch.bfloat16)
        good = bool(torch.equal(result, wanted))
        source.normal_()
        self.together()
        return good

    def timed(self, meet, run, calls):
        """us of a call: the median of the turns. meet(): a call in which GPUs meet, as the processes do so badly."""
        found = []
        for _ in range(TURNS):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            self.together()
            meet()
            begin.record()
            run()
            end.record()
            torch.cuda.synchronize()
            found.append(1e3 * begin.elapsed_time(end) / calls)
        return statistics.median(found)

    def graph(self, way, nbytes, calls):
        """us of a call in a graph of so many."""
        stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream):
            for _ in range(3):
                way.reduce(nbytes)
            self.together()
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="relaxed"):
                for _ in range(calls):
                    way.reduce(nbytes)
            replays = 3 if nbytes > 1 << 22 else 6

            def run():
                for _ in range(replays):
                    graph.replay()
            run()
            us = self.timed(lambda: way.reduce(nbytes), run, replays * calls)
        self.together()
        return us

    def calls(self, way, nbytes, count):
        def run():
            for _ in range(count):
                way.reduce(nbytes)
        run()
        return self.timed(lambda: way.reduce(nbytes), run, count)

    def measure(self, way):
        out = {"layers": {}, "graph": {}, "calls": {}, "wrong": []}
        for batch in self.options.batches:
            nbytes = batch * self.options.hidden * 2
            if not self.check(way, nbytes):
                out["wrong"].append(nbytes)
            out["layers"][str(batch)] = self.graph(way, nbytes, 2 * self.options.layers)
        for nbytes in self.options.sizes:
            if not self.check(way, nbytes):
                out["wrong"].append(nbytes)
            out["graph"][str(nbytes)] = self.graph(way, nbytes, 20)
            out["calls"][str(nbytes)] = self.calls(way, nbytes, 50)
        return out


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--library", required=True, help="libnccl.so.2")
    parser.add_argument("--ways", nargs="+", required=True)
    parser.add_argument("--hidden", type=int, default=8192)
    parser.add_argument("--layers", type=int, default=80)
    parser.add_argument("--batches", type=int, nargs="*", default=[])
    parser.add_argument("--sizes", type=int, nargs="*", default=[])
    options = parser.parse_args()
    options.rank, options.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("gloo")
    meet = Meet(options.folder, options.rank, options.ranks)
    nccl, bench, out = Nccl(options.library), Bench(options, meet), {}
    if options.rank == 0:
        meet.put("id", nccl.new_id())
    comm = nccl.init(options.ranks, meet.get("id"), options.rank)
    most = max([batch * options.hidden * 2 for batch in options.batches] + options.sizes)
    kinds = {"plain": lambda: Plain(nccl, comm, most), "window": lambda: Window(nccl, comm, most),
             "one-shot": lambda: Symmetric(1, most), "two-shot": lambda: Symmetric(2, most)}
    for name in options.ways:
        try:
            out[name] = bench.measure(kinds[name]())
        except Exception:  # the next way goes on: all ranks fail alike, or the parent's limit ends this
            out[name] = {"failed": traceback.format_exc()}
        meet.leave(out)
    out["served"] = served_by.line()
    with open(os.path.join(options.folder, f"out.{options.rank}.json"), "w", encoding="utf-8") as file:
        json.dump(out, file)
    bench.together()
    os._exit(0)  # windows and graphs are not taken apart in any order that every library likes


if __name__ == "__main__":
    main()
