# SPDX-License-Identifier: Apache-2.0
"""What a dispatch of tokens to experts takes, called and in CUDA graphs: by lengths that only the GPU knows, padded to
the most that there may be, and by NCCL's grouped messages, whose lengths the host knows. One process for each GPU; run
by gpu.py dynamic.

The calls' arguments are made beforehand: what Python makes of them is not to be measured.
"""
import argparse
import ctypes
import json
import os
import statistics
import traceback

import torch
import torch.distributed as dist

import tutti
from tutti._native import Dynamic, library
from gpu_parts.device import Nccl, pointer, size
from gpu_parts.ranks import Meet

BFLOAT16_NCCL, BFLOAT16 = 9, 9
TURNS = 5


class Case:
    """Tokens of one rank that go to `k` experts each; experts are drawn evenly, or most are the first rank's."""

    def __init__(self, options, tokens, k, skewed):
        rank, ranks = options.rank, options.ranks
        self.rows, self.hidden, self.ranks, self.rank = tokens * k, options.hidden, ranks, rank
        self.experts = ranks * options.experts
        draw = torch.Generator().manual_seed(tokens * 100 + k * 10 + rank)
        ids = torch.randint(0, self.experts, (self.rows,), generator=draw)
        if skewed:
            ids = torch.where(torch.rand(self.rows, generator=draw) < 0.8, ids % options.experts, ids)
        splits = torch.bincount(ids, minlength=self.experts)
        self.to_rank = splits.view(ranks, -1).sum(1).tolist()
        device = {"device": "cuda", "dtype": torch.int64}
        self.splits = splits.cuda()
        self.index_counts = torch.full((ranks,), options.experts, **device)
        self.indices = torch.arange(self.experts, **device)
        self.told = torch.zeros(ranks, self.experts, **device)
        self.send = torch.randn(self.rows, self.hidden, device="cuda").to(torch.bfloat16)
        self.recv = torch.zeros(ranks, self.rows, self.hidden, device="cuda", dtype=torch.bfloat16)
        self.padded = self.send[None].expand(ranks, -1, -1).contiguous()
        every = [None] * ranks
        dist.all_gather_object(every, self.to_rank)
        self.from_rank = [to[rank] for to in every]
        self.sent = sum(count for peer, count in enumerate(self.to_rank) if peer != rank) * self.hidden * 2

    def check(self):
        """After a dynamic dispatch: this rank's splits lie where they lay, and all ranks' lengths are told."""
        all_splits = [torch.empty_like(self.splits.cpu()) for _ in range(self.ranks)]
        dist.all_gather(all_splits, self.splits.cpu())
        gathered = [None] * self.ranks
        dist.all_gather_object(gathered, self.send.view(torch.int16).cpu())
        mine, good = self.experts // self.ranks, True
        for peer in range(self.ranks):
            ends = torch.cumsum(all_splits[peer], 0)
            begin = int(ends[self.rank * mine] - all_splits[peer][self.rank * mine])
            end = int(ends[(self.rank + 1) * mine - 1])
            got = self.recv[peer].view(torch.int16).cpu()
            good &= bool(torch.equal(got[begin:end], gathered[peer][begin:end]))
            good &= bool((got[:begin] == 0).all() and (got[end:] == 0).all())
            good &= bool(torch.equal(self.told[peer].cpu(), all_splits[peer]))
        return good


class OfTutti:
    def __init__(self, comm):
        self.comm = comm

    def call(self, name, *arguments):
        call = getattr(library, "tutti_" + name)

        def run():
            if call(*arguments, self.comm.handle, ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)):
                raise RuntimeError(f"tutti_{name} has failed: {library.tutti_get_last_error(self.comm.handle)}")
        return run

    def dynamic(self, case):
        what = Dynamic(ctypes.sizeof(Dynamic), case.hidden, case.experts, 1, case.splits.data_ptr(),
                       case.index_counts.data_ptr(), case.indices.data_ptr(), case.indices.numel(), case.rows,
                       case.rows, case.rows, case.told.data_ptr())
        run = self.call("alltoallv_dynamic", pointer(case.send.data_ptr()), pointer(case.recv.data_ptr()), BFLOAT16,
                        ctypes.byref(what))
        run.keep = what
        return run

    def padded(self, case):
        return self.call("alltoall", pointer(case.padded.data_ptr()), pointer(case.recv.data_ptr()),
                         size(case.rows * case.hidden), BFLOAT16)


class OfNccl:
    def __init__(self, nccl, comm):
        self.nccl, self.comm = nccl, comm

    def messages(self, case, out, into, send, send_stride):
        """A group of messages: `out` rows to each rank, `into` from each."""
        row = case.hidden * 2
        lib = self.nccl.lib

        def run():
            stream = pointer(torch.cuda.current_stream().cuda_stream)
            failed = lib.ncclGroupStart()
            at = 0
            for peer in range(case.ranks):
                begin = send.data_ptr() + (peer * send_stride if send_stride else at * row)
                failed |= lib.ncclSend(pointer(begin), size(out[peer] * case.hidden), BFLOAT16_NCCL, peer, self.comm,
                                       stream)
                failed |= lib.ncclRecv(pointer(case.recv[peer].data_ptr()), size(into[peer] * case.hidden),
                                       BFLOAT16_NCCL, peer, self.comm, stream)
                at += out[peer]
            if failed | lib.ncclGroupEnd():
                raise RuntimeError("NCCL's messages have failed")
        return run

    def padded(self, case):
        all_rows = [case.rows] * case.ranks
        return self.messages(case, all_rows, all_rows, case.padded, case.rows * case.hidden * 2)

    def grouped(self, case):
        return self.messages(case, case.to_rank, case.from_rank, case.send, 0)

    def grouped_with_wait(self, case):
        """As a program must that learns the lengths from the GPU: they come to the host first."""
        every = torch.empty(case.ranks, case.experts, device="cuda", dtype=torch.int64)
        lib = self.nccl.lib

        def run():
            stream = pointer(torch.cuda.current_stream().cuda_stream)
            lib.ncclAllGather(pointer(case.splits.data_ptr()), pointer(every.data_ptr()), size(case.experts), 4,
                              self.comm, stream)
            counts = every.view(case.ranks, case.ranks, -1).sum(2).cpu()
            self.messages(case, counts[case.rank].tolist(), counts[:, case.rank].tolist(), case.send, 0)()
        return run


class Bench:
    def __init__(self, options, meet):
        self.options, self.meet, self.step = options, meet, 0

    def together(self):
        torch.cuda.synchronize()
        self.step += 1
        self.meet.barrier(f"at.{self.step}")

    def timed(self, run, calls):
        """us of a call: the median of the turns."""
        found = []
        run()
        for _ in range(TURNS):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            self.together()
            run()  # GPUs meet in a call, as processes do so badly
            begin.record()
            for _ in range(calls):
                run()
            end.record()
            torch.cuda.synchronize()
            found.append(1e3 * begin.elapsed_time(end) / calls)
        return statistics.median(found)

    def graph(self, run, calls=20):
        stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
        with torch.cuda.stream(stream):
            run()
            self.together()
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="relaxed"):
                for _ in range(calls):
                    run()
            us = self.timed(graph.replay, 5) / calls
        self.together()
        return us


def measure(bench, tutti_way, nccl_way, case):
    out = {"sent": case.sent}
    ways = {"tutti, dynamic": (tutti_way.dynamic(case), True), "tutti, padded": (tutti_way.padded(case), True),
            "NCCL, padded": (nccl_way.padded(case), True), "NCCL, grouped": (nccl_way.grouped(case), True),
            "NCCL, grouped, lengths from the GPU": (nccl_way.grouped_with_wait(case), False)}
    for name, (run, captured) in ways.items():
        if name == "tutti, dynamic":
            case.recv.zero_()
            bench.together()
            run()
            torch.cuda.synchronize()
            out["wrong"] = not case.check()
        out[name] = {"called": bench.timed(run, 50)}
        if captured:
            out[name]["graph"] = bench.graph(run)
    return out


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--library", required=True, help="libnccl.so.2 to compare with")
    parser.add_argument("--hidden", type=int, default=7168)
    parser.add_argument("--experts", type=int, default=4, help="of each rank")
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 8, 32, 128, 256])
    options = parser.parse_args()
    options.rank, options.ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("gloo")
    meet = Meet(options.folder, options.rank, options.ranks)
    nccl, bench, out = Nccl(options.library), Bench(options, meet), {}
    if options.rank == 0:
        meet.put("id", nccl.new_id())
        meet.put("tutti", tutti.unique_id())
    comm = nccl.init(options.ranks, meet.get("id"), options.rank)
    ours = tutti.init_rank(options.ranks, meet.get("tutti"), options.rank, device=int(os.environ["LOCAL_RANK"]))
    for tokens in options.tokens:
        for k in (1, 4):
            for skewed in (False, True):
                name = f"{tokens}:{k}:{'skewed' if skewed else 'balanced'}"
                try:
                    out[name] = measure(bench, OfTutti(ours), OfNccl(nccl, comm), Case(options, tokens, k, skewed))
                except Exception:  # all ranks fail alike, or the parent's limit ends this
                    out[name] = {"failed": traceback.format_exc()}
                meet.leave(out)
    bench.together()
    os._exit(0)  # graphs are not taken apart in any order that every library likes


if __name__ == "__main__":
    main()
