#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tensor parallel layers whose communication goes beside their products, over windows: gather(x) @ w, and the scatter
of sums of x @ w. Beside them the same kernels one after another, a collective before or behind one product, and
PyTorch's own async-TP. One table, with ratios.

  tutti run -n 2 -- python3 overlap.py
  torchrun --nproc-per-node 4 overlap.py --tokens 8192 --inner 2048 8192 28672
  tutti run -n 4 -- python3 overlap.py --cpu --check            results alone, on tensors of CPUs
"""
import argparse
import collections
import os
import statistics
import time

import torch

import tutti

TURNS = 5


# ---- Who sends what to whom ----

def ring(comm):
    """(to, from, shards that go, shards that come) in each step of a gather."""
    rank, ranks = comm.rank, comm.size
    return [((rank + 1) % ranks, (rank - 1) % ranks, [(rank - step) % ranks], [(rank - step - 1) % ranks])
            for step in range(ranks - 1)]


def tree(comm):
    """The same, where partners differ in one bit of their numbers, and all that is here goes. So each step moves twice
    as much as the one before: bits that lead to another host come first. Of 2, 4, 8 or more such ranks."""
    hosts = [comm.address(rank) for rank in range(comm.size)]
    bits = sorted((1 << i for i in range(comm.size.bit_length() - 1)),
                  key=lambda bit: all(hosts[rank] == hosts[rank ^ bit] for rank in range(comm.size)))
    here, steps = [comm.rank], []
    for bit in bits:
        there = [shard ^ bit for shard in here]
        steps.append((comm.rank ^ bit, comm.rank ^ bit, here, there))
        here = here + there
    return steps


# ---- Puts and signals ----

class Talk:
    """A rank's puts and signals. On GPUs they have a stream of their own, beside that of the products, or the same one.
    On CPUs a put goes on by itself, and a wait returns when it is over."""

    def __init__(self, layer, beside=True):
        self.comm, self.window = layer.comm, layer.window
        self.beside = torch.cuda.Stream() if layer.comm.device >= 0 and beside else None
        self.works = []

    def _stream(self):
        if self.comm.device < 0:
            return None
        return (self.beside or torch.cuda.current_stream()).cuda_stream

    def follow(self):
        """What comes next comes behind the products that were called until now."""
        if self.beside:
            self.beside.wait_stream(torch.cuda.current_stream())

    def put(self, piece, peer, offset):
        self.works.append(self.window.put(piece, peer, offset, signal=0, wait=False, stream=self._stream()))

    def take(self, peer):
        """The next piece of the peer comes. What is returned is what a product waits for that needs it."""
        self.comm.wait_signal(peer, stream=self._stream())
        return self.beside.record_event() if self.beside else None

    def finish(self):
        """Puts may read their pieces until here. On GPUs it is the waits behind them that say so."""
        for work in self.works:
            work.wait()
        self.works.clear()


# ---- Layers ----

class Layer:
    """What both have: the window, of two halves. Calls take them in turns: who has ended a call has heard from all
    ranks in it, so they have ended the call before, whose half may be written again."""

    def __init__(self, comm, pieces, slots, rows, columns, where):
        self.comm, self.pieces, self.turn = comm, pieces, 0
        self.slots = torch.zeros(2, slots, rows, columns, **where)
        self.window = comm.window(self.slots) if slots else None

    def half(self):
        self.turn += 1
        return self.turn % 2

    def piece(self, shard, piece):
        rows = shard.shape[0]
        return shard[rows * piece // self.pieces:rows * (piece + 1) // self.pieces]

    def place(self, half, slot, piece):
        """Where a piece begins in the window, in bytes: the same on all ranks."""
        at = self.piece(self.slots[half, slot], piece)
        return at.data_ptr() - self.slots.data_ptr()

    def close(self):
        if self.comm.device >= 0:
            torch.cuda.synchronize()
        if self.window:
            self.window.close()


class Gathered(Layer):
    """gather(x) @ w: each rank has some tokens, and all tokens are multiplied by its columns of w."""

    name = "gather, product"

    def __init__(self, comm, tokens, hidden, inner, pieces, where):
        rows, columns = tokens // comm.size, inner // comm.size
        super().__init__(comm, pieces, comm.size, rows, hidden, where)
        self.x = torch.empty(rows, hidden, **where)
        self.w = torch.empty(hidden, columns, **where)
        self.all = torch.empty(comm.size, rows, hidden, **where)
        self.out = torch.zeros(comm.size, rows, columns, **where)

    def communicate(self):
        self.comm.allgather(self.x, self.all)

    def multiply(self):
        torch.mm(self.all.flatten(0, 1), self.w, out=self.out.flatten(0, 1))

    def apart(self):
        self.communicate()
        self.multiply()

    def pipeline(self, steps, talk):
        half, rank = self.half(), self.comm.rank
        shards = [self.x if shard == rank else self.slots[half, shard] for shard in range(self.comm.size)]
        todo = collections.deque((rank, piece, None) for piece in range(self.pieces))
        talk.follow()
        for to, origin, going, coming in steps:
            for goes, comes in zip(going, coming):
                for piece in range(self.pieces):
                    talk.put(self.piece(shards[goes], piece), to, self.place(half, goes, piece))
                    self._product(shards, *todo.popleft())
                    todo.append((comes, piece, talk.take(origin)))
        while todo:
            self._product(shards, *todo.popleft())
        talk.finish()

    def _product(self, shards, shard, piece, arrived):
        if arrived:
            torch.cuda.current_stream().wait_event(arrived)
        torch.mm(self.piece(shards[shard], piece), self.w, out=self.piece(self.out[shard], piece))

    def of_torch(self, group):
        torch.ops.symm_mem.fused_all_gather_matmul(self.x, [self.w], 0, group)

    def wanted(self, draw):
        ranks = range(self.comm.size)
        return torch.stack([draw("x", rank, self.x.shape) for rank in ranks]).float() @ self.w.float()


class Scattered(Layer):
    """The scatter of sums of x @ w: each rank has some columns of all tokens, and gets its tokens' sums."""

    name = "product, scatter"

    def __init__(self, comm, tokens, hidden, inner, pieces, where):
        rows, width = tokens // comm.size, inner // comm.size
        super().__init__(comm, pieces, comm.size - 1, rows, hidden, where)
        self.x = torch.empty(comm.size, rows, width, **where)
        self.w = torch.empty(width, hidden, **where)
        self.all = torch.empty(comm.size, rows, hidden, **where)
        self.parts = torch.empty(comm.size - 1, rows, hidden, **where)
        self.out = torch.zeros(rows, hidden, **where)

    def communicate(self):
        self.comm.reduce_scatter(self.all, self.out)

    def multiply(self):
        torch.mm(self.x.flatten(0, 1), self.w, out=self.all.flatten(0, 1))

    def apart(self):
        self.multiply()
        self.communicate()

    def pipeline(self, steps, talk):
        """A gather backwards: what came goes back, with what was added on the way."""
        half, slot = self.half(), 0
        sums = collections.defaultdict(list)
        for origin, to, coming, going in reversed(steps):
            for goes, comes in zip(going, coming):
                for piece in range(self.pieces):
                    part = self.piece(self.parts[slot], piece)
                    self._product(goes, piece, sums, part)
                    talk.follow()
                    talk.put(part, to, self.place(half, slot, piece))
                    sums[comes, piece].append((self.piece(self.slots[half, slot], piece), talk.take(origin)))
                slot += 1
        for piece in range(self.pieces):
            self._product(self.comm.rank, piece, sums, self.piece(self.out, piece))
        talk.finish()

    def _product(self, shard, piece, sums, out):
        """And what has come of it."""
        given, arrived = self.piece(self.x[shard], piece), sums.pop((shard, piece), [])
        for _, event in arrived:
            if event:
                torch.cuda.current_stream().wait_event(event)
        if arrived:
            torch.addmm(arrived[0][0], given, self.w, out=out)
        else:
            torch.mm(given, self.w, out=out)
        for more, _ in arrived[1:]:
            out.add_(more)

    def of_torch(self, group):
        torch.ops.symm_mem.fused_matmul_reduce_scatter(self.x.flatten(0, 1), self.w, "sum", 0, group)

    def wanted(self, draw):
        mine = self.comm.rank
        return sum(draw("x", rank, self.x.shape)[mine].float() @ draw("w", rank, self.w.shape).float()
                   for rank in range(self.comm.size))


def pipelines(layer):
    """{name: call} of the ways over windows."""
    found = {"in turns": (ring, Talk(layer, beside=False)), "ring": (ring, Talk(layer))}
    if layer.comm.size & (layer.comm.size - 1) == 0 and layer.comm.size > 2:  # of two ranks both are the same
        found["tree"] = (tree, Talk(layer))
    return {name: (lambda steps=order(layer.comm), talk=talk: layer.pipeline(steps, talk))
            for name, (order, talk) in found.items()}


# ---- Results ----

def check(options, comm, where):
    """Small whole numbers, whose sums bfloat16 holds exactly."""
    for kind in (Gathered, Scattered):
        layer = kind(comm, 12 * comm.size, 40, 32 * comm.size, options.pieces, where)
        ways = {"apart": layer.apart, **pipelines(layer)}
        for turn in range(4):
            def draw(name, rank, shape, turn=turn):
                seed = torch.Generator().manual_seed(1000 * turn + 10 * rank + (name == "w"))
                return torch.randint(-1, 2, shape, generator=seed).to(**where)
            for name, way in ways.items():
                layer.x.copy_(draw("x", comm.rank, layer.x.shape))
                layer.w.copy_(draw("w", comm.rank, layer.w.shape))
                layer.out.zero_()
                way()
                if not torch.equal(layer.out.float(), layer.wanted(draw)):
                    raise SystemExit(f"rank {comm.rank}: the result of {kind.name}, {name}, is wrong")
        layer.close()


# ---- Times ----

def timed(comm, run, calls):
    """us of a call: the median of some turns."""
    found = []
    for _ in range(TURNS):
        if comm.device < 0:
            comm.barrier()
            began = time.perf_counter()
            for _ in range(calls):
                run()
            found.append(1e6 * (time.perf_counter() - began) / calls)
            continue
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        comm.barrier(stream=torch.cuda.current_stream().cuda_stream)
        run()  # in which GPUs meet
        begin.record()
        for _ in range(calls):
            run()
        end.record()
        torch.cuda.synchronize()
        found.append(1e3 * begin.elapsed_time(end) / calls)
    return statistics.median(found)


def slowest(comm, times, where):
    """Of all ranks."""
    together = torch.tensor(list(times.values()), dtype=torch.float32, device=where["device"])
    comm.allreduce(together, op="max")
    return dict(zip(times, together.tolist()))


def async_tp():
    """The group for PyTorch's async-TP; None: this PyTorch has none, or there are no GPUs."""
    try:
        import torch.distributed as dist
        import torch.distributed._symmetric_memory as symmetric
        dist.init_process_group("gloo")
        symmetric.enable_symm_mem_for_group(dist.group.WORLD.group_name)
        return dist.group.WORLD.group_name
    except (ImportError, AttributeError, RuntimeError) as error:
        print(f"PyTorch's async-TP is left out: {error}", flush=True)
        return None


def measure(options, comm, kind, tokens, inner, where, group):
    """{way: us}"""
    layer = kind(comm, tokens, options.hidden, inner, options.pieces, where)
    for tensor in (layer.x, layer.w, layer.all):
        tensor.normal_()
    ways = {"product": layer.multiply, "communication": layer.communicate, "apart": layer.apart, **pipelines(layer)}
    if group:
        ways["PyTorch"] = lambda: layer.of_torch(group)
    times = {}
    for name, way in ways.items():
        way()
        times[name] = timed(comm, way, options.calls)
    layer.close()
    return slowest(comm, times, where)


WAYS = ("product", "communication", "apart", "in turns", "ring", "tree", "PyTorch")
RATIOS = (("apart", "ring"), ("apart", "tree"), ("in turns", "ring"), ("PyTorch", "ring"))


def show(name, tokens, inner, us):
    """A line of the table. No way can gain more than the last number says: the longer of both is always left."""
    parts = us["product"], us["communication"]
    ratios = [f"{us[a] / us[b]:.2f}" if a in us and b in us else "-" for a, b in RATIOS]
    cells = [name, tokens, inner, *[f"{us[way]:.0f}" if way in us else "-" for way in WAYS], *ratios,
             f"{sum(parts) / max(parts):.2f}"]
    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def table(options, comm, where):
    group = None if comm.device < 0 else async_tp()
    if comm.rank == 0:
        print(f"{comm.size} ranks, {where['dtype']}, hidden {options.hidden}, {options.pieces} pieces; us of a layer, "
              "medians\n")
        heads = ["layer", "tokens", "inner", *WAYS, *[f"{a} / {b}" for a, b in RATIOS], "at most"]
        print("| " + " | ".join(heads) + " |\n" + "|---" * len(heads) + "|", flush=True)
    for inner in options.inner:
        for tokens in options.tokens:
            for kind in (Gathered, Scattered):
                us = measure(options, comm, kind, tokens, inner, where, group)
                if comm.rank == 0:
                    show(kind.name, tokens, inner, us)


def run(options):
    device = int(os.environ.get("LOCAL_RANK", os.environ.get("TUTTI_LOCAL_RANK", "0")))
    if options.cpu:
        torch.set_num_threads(1)
        where = {"device": "cpu", "dtype": torch.float32}
        comm = tutti.init()
    else:
        torch.cuda.set_device(device)
        where = {"device": f"cuda:{device}", "dtype": torch.bfloat16}
        comm = tutti.init(device=device)
        torch.cuda.set_stream(torch.cuda.Stream())
    check(options, comm, where)
    if comm.rank == 0:
        print("all results are right", flush=True)
    if not options.check:
        table(options, comm, where)
    if not options.cpu:
        torch.cuda.synchronize()
    comm.destroy()


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="+", default=[2048, 8192], help="of all ranks (2048, 8192)")
    parser.add_argument("--hidden", type=int, default=8192, help="numbers of a token (8192)")
    parser.add_argument("--inner", type=int, nargs="+", default=[2048, 8192, 28672],
                        help="inside the layer, of all ranks (2048, 8192, 28672)")
    parser.add_argument("--pieces", type=int, default=4, help="of a shard (4)")
    parser.add_argument("--calls", type=int, default=10, help="for a time (10)")
    parser.add_argument("--cpu", action="store_true", help="tensors of CPUs")
    parser.add_argument("--check", action="store_true", help="no times")
    run(parser.parse_args(arguments))


if __name__ == "__main__":
    main()
