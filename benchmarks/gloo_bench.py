#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The comparison program for torch.distributed with gloo: the same points, iterations and output as bench.c.

Needs Debian's python3-torch, and RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, which tutti run sets.
gloo has no reduce_scatter, and alltoall only in newer versions: those points are left out.
"""
import argparse
import json
import os
import time

os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
import torch
import torch.distributed as dist

WARMUP, LEAST, MOST = 5, 7, 2000
SIZES = "8,64,512,4096,32768,262144,2097152,16777216,67108864"


def maximum(value):
    tensor = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(tensor, dist.ReduceOp.MAX)
    return tensor.item()


def calls(name, count, size, rank):
    """A function that does the operation once; None where there is no such point. gloo's allreduce is in place only."""
    send, peer = torch.ones(count), rank ^ 1
    if name == "allreduce":
        return lambda: dist.all_reduce(send)
    if name == "allgather" and count >= size:
        parts = list(torch.zeros(count // size * size).chunk(size))
        mine = send[:count // size]
        return lambda: dist.all_gather(parts, mine)
    if name == "pingpong" and size % 2 == 0:
        recv = torch.zeros(count)
        if rank % 2 == 0:
            return lambda: (dist.send(send, peer), dist.recv(recv, peer))
        return lambda: (dist.recv(recv, peer), dist.send(send, peer))
    if name == "sendrecv":
        recv = torch.zeros(count)

        def exchange():
            work = dist.isend(send, (rank + 1) % size)
            dist.recv(recv, (rank - 1) % size)
            work.wait()
        return exchange
    return None


def measure(call, budget):
    call()
    dist.barrier()
    start = time.perf_counter()
    for _ in range(WARMUP):
        call()
    each = maximum((time.perf_counter() - start) / WARMUP)
    iterations = int(min(MOST, max(LEAST, budget / each)))
    dist.barrier()
    times, last = [], time.perf_counter()
    for _ in range(iterations):
        call()
        end = time.perf_counter()
        times.append(end - last)
        last = end
    return iterations, maximum(sorted(times)[iterations // 2]), maximum(sum(times) / iterations), maximum(min(times))


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--collectives", default="allreduce,allgather,reduce_scatter,alltoall,pingpong,sendrecv")
    options.add_argument("--sizes", default=SIZES)
    options.add_argument("--budget", type=float, default=0.5)
    options = options.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    for name in options.collectives.split(","):
        for size_bytes in map(int, options.sizes.split(",")):
            call = calls(name, size_bytes // 4, size, rank)
            if not call:
                continue
            iterations, median, mean, least = measure(call, options.budget)
            share = 0.5e6 if name == "pingpong" else 1e6
            if rank == 0:
                print(json.dumps({"library": "gloo", "collective": name, "ranks": size, "bytes": size_bytes,
                                  "iterations": iterations, "median_us": median * share, "mean_us": mean * share,
                                  "min_us": least * share}), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
