#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A layer of a mixture of experts on the GPUs of one host: tokens go to their experts and come back, all in one CUDA
graph. Which tokens go where only the GPU knows. Times of a layer with tutti's exchange of exactly these rows, and with
one that is padded to all rows that might go to a rank.

  tutti run -n 2 -- python3 moe.py
  torchrun --nproc-per-node 2 moe.py --tokens 1 32 256 --choices 4
"""
import argparse
import os
import statistics

import torch
import torch.distributed as dist

import tutti


class Dynamic:
    """Rows by lengths that the GPU reads when the exchange runs."""

    def __init__(self, comm, layer):
        self.comm, self.layer = comm, layer
        mine, ranks, experts = layer.mine, layer.ranks, layer.experts
        numbers = {"device": "cuda", "dtype": torch.int64}
        self.counts = torch.full((ranks,), mine, **numbers)
        self.there = torch.arange(experts, **numbers)  # expert e is of rank e // mine
        back = torch.arange(ranks, **numbers)[:, None] * experts + layer.rank * mine + torch.arange(mine, **numbers)
        self.back = back.flatten().contiguous()

    def dispatch(self, send, splits, recv, all_splits):
        self.comm.alltoallv_dynamic(send, recv, splits, self.counts, self.there, row=self.layer.hidden,
                                    recv_splits=all_splits)

    def combine(self, results, all_splits, recv):
        self.comm.alltoallv_dynamic(results, recv, all_splits, self.counts, self.back, row=self.layer.hidden,
                                    windows=self.layer.ranks, merged=True)


class Padded:
    """All rows to each rank, as a program sends that does not know on the host how many are for that rank."""

    def __init__(self, layer):
        self.layer = layer

    def dispatch(self, send, splits, recv, all_splits):
        everywhere = send[None].expand(self.layer.ranks, -1, -1).contiguous()
        dist.all_gather_into_tensor(all_splits, splits)
        dist.all_to_all_single(recv, everywhere)

    def combine(self, results, all_splits, recv):
        back = torch.empty_like(results)
        dist.all_to_all_single(back, results)
        ends = torch.cumsum(all_splits[self.layer.rank], 0)
        row = torch.arange(recv.shape[0], device="cuda")
        owner = torch.searchsorted(ends, row, right=True).clamp_(max=self.layer.experts - 1) // self.layer.mine
        recv.copy_(back[owner, row])


class Layer:
    """`experts` experts, `mine` of them on this rank; each token goes to `choices` of them."""

    def __init__(self, options, tokens, hidden, inner):
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.mine, self.experts = options.experts, options.experts * self.ranks
        self.tokens, self.choices, self.hidden = tokens, options.choices, hidden
        weights = torch.Generator(device="cuda").manual_seed(1)  # the same on all ranks
        self.router = torch.randn(hidden, self.experts, device="cuda", generator=weights) / hidden ** 0.5
        up = torch.randn(self.experts, hidden, inner, device="cuda", generator=weights) / hidden ** 0.5
        down = torch.randn(self.experts, inner, hidden, device="cuda", generator=weights) / inner ** 0.5
        own = slice(self.rank * self.mine, (self.rank + 1) * self.mine)
        self.every = (up.bfloat16(), down.bfloat16()) if options.check else None
        self.up, self.down = up[own].bfloat16().contiguous(), down[own].bfloat16().contiguous()
        rows = tokens * self.choices
        self.send = torch.empty(rows, hidden, device="cuda", dtype=torch.bfloat16)
        self.recv = torch.zeros(self.ranks, rows, hidden, device="cuda", dtype=torch.bfloat16)
        self.results = torch.zeros_like(self.recv)
        self.returned = torch.zeros_like(self.send)
        self.splits = torch.zeros(self.experts, device="cuda", dtype=torch.int64)
        self.all_splits = torch.zeros(self.ranks, self.experts, device="cuda", dtype=torch.int64)
        self.ones = torch.ones(rows, device="cuda", dtype=torch.int64)

    def route(self, x):
        """Gates, and experts, of each token."""
        gates, experts = torch.topk(torch.softmax(x.float() @ self.router, -1), self.choices)
        return gates, experts

    def compute(self):
        """Rows of this rank's experts, wherever they lie in the windows, side by side; then back to their places."""
        rows = self.recv.shape[1]
        ends = torch.cumsum(self.all_splits, 1)
        place = torch.arange(rows, device="cuda").expand(self.ranks, -1).contiguous()
        expert = torch.searchsorted(ends, place, right=True) - self.rank * self.mine
        expert = torch.where((expert >= 0) & (expert < self.mine), expert, self.mine).flatten()
        order = torch.argsort(expert, stable=True)
        own = self.all_splits[:, self.rank * self.mine:(self.rank + 1) * self.mine]
        offsets = torch.cumsum(own.sum(0), 0).to(torch.int32)
        packed = self.recv.view(-1, self.hidden)[order]
        inside = torch.relu(torch._grouped_mm(packed, self.up, offs=offsets))
        out = torch._grouped_mm(inside, self.down, offs=offsets)
        self.results.view(-1, self.hidden)[order] = out

    def __call__(self, x, exchange):
        gates, experts = self.route(x)
        flat = experts.flatten()
        order = torch.argsort(flat, stable=True)
        self.splits.zero_().scatter_add_(0, flat, self.ones)
        torch.index_select(x, 0, order // self.choices, out=self.send)
        exchange.dispatch(self.send, self.splits, self.recv, self.all_splits)
        self.compute()
        exchange.combine(self.results, self.all_splits, self.returned)
        rows = torch.empty_like(self.returned)
        rows[order] = self.returned
        return (rows.view(self.tokens, self.choices, -1).float() * gates[..., None]).sum(1).bfloat16()

    def wanted(self, x):
        """The same on this rank alone, which needs all experts' weights."""
        gates, experts = self.route(x)
        out = torch.zeros(x.shape, device="cuda")
        for token in range(self.tokens):
            for gate, expert in zip(gates[token], experts[token].tolist()):
                inside = torch.relu((x[token:token + 1] @ self.every[0][expert]))
                out[token] += gate * (inside @ self.every[1][expert])[0].float()
        return out


def capture(layer, x, exchange):
    """A graph of the layer, and where it leaves its result."""
    stream, graph = torch.cuda.Stream(), torch.cuda.CUDAGraph()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            layer(x, exchange)
        torch.cuda.synchronize()
        dist.barrier()
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="relaxed"):
            out = layer(x, exchange)
    torch.cuda.synchronize()
    return graph, out


def time_of(graph, replays):
    """us of a replay, the median of five turns."""
    found = []
    for _ in range(5):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        dist.barrier()
        graph.replay()
        begin.record()
        for _ in range(replays):
            graph.replay()
        end.record()
        torch.cuda.synchronize()
        found.append(1e3 * begin.elapsed_time(end) / replays)
    return statistics.median(found)


def check(options, comm):
    """A small layer in a graph, replayed with other tokens, against one that exchanges nothing."""
    layer = Layer(options, 24, 256, 128)
    x = torch.randn(24, 256, device="cuda").bfloat16()
    exchange = Dynamic(comm, layer)  # its counts must live as long as the graph
    graph, out = capture(layer, x, exchange)
    for turn in range(3):
        x.copy_(torch.randn(24, 256, device="cuda", generator=torch.Generator(device="cuda").manual_seed(
            10 * turn + layer.rank)))
        graph.replay()
        wanted = layer.wanted(x)
        error = ((out.float() - wanted).norm() / wanted.norm()).item()
        if not error < 0.02:
            raise SystemExit(f"rank {layer.rank}: the layer's result is wrong, by {error:.3f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 2, 4, 8, 16, 32, 64, 128, 256],
                        help="of each rank in a step (1 to 256)")
    parser.add_argument("--choices", type=int, default=4, help="experts of a token (4)")
    parser.add_argument("--experts", type=int, default=4, help="of each rank (4)")
    parser.add_argument("--hidden", type=int, default=7168, help="numbers of a token (7168)")
    parser.add_argument("--inner", type=int, default=2048, help="inside an expert (2048)")
    parser.add_argument("--replays", type=int, default=20, help="of a graph, for a time (20)")
    options = parser.parse_args()
    device = int(os.environ.get("LOCAL_RANK", os.environ.get("TUTTI_LOCAL_RANK", "0")))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl", device_id=torch.device("cuda", device))
    identity = [tutti.unique_id() if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(identity)
    comm = tutti.init_rank(dist.get_world_size(), identity[0], dist.get_rank(), device=device)
    options.check = True
    check(options, comm)
    options.check = False
    if dist.get_rank() == 0:
        print(f"{dist.get_world_size()} GPUs, {options.experts} experts each, {options.choices} for a token, "
              f"hidden {options.hidden}, inner {options.inner}; us of a layer in a graph", flush=True)
        print(" tokens  dynamic   padded  padded / dynamic", flush=True)
    for tokens in options.tokens:
        layer = Layer(options, tokens, options.hidden, options.inner)
        x = torch.randn(tokens, options.hidden, device="cuda", generator=torch.Generator(device="cuda").manual_seed(
            layer.rank)).bfloat16()
        times = []
        for exchange in (Dynamic(comm, layer), Padded(layer)):
            graph, _ = capture(layer, x, exchange)
            times.append(time_of(graph, options.replays))
            graph.reset()
        slowest = torch.tensor(times, device="cuda")
        dist.all_reduce(slowest, dist.ReduceOp.MAX)
        ours, padded = slowest.tolist()
        if dist.get_rank() == 0:
            print(f"{tokens:7} {ours:8.1f} {padded:8.1f} {padded / ours:17.2f}", flush=True)
    torch.cuda.synchronize()
    comm.destroy()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
