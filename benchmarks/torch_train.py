#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small transformer with PyTorch on several GPUs, data-parallel (DDP) or sharded (FSDP),
and prints the losses.

  torchrun --nproc-per-node 4 torch_train.py [--mode ddp|fsdp] [--steps 30]

The same program over NCCL, and over tutti by LD_PRELOAD=.../libnccl.so.2, must print the same curve.
"""
import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel

from gpu_parts import served_by

WORDS, WIDTH, LENGTH, BATCH = 512, 256, 64, 16


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 4 * WIDTH, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 4)
        self.out = nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        return self.out(self.layers(self.embed(words)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=("ddp", "fsdp"), default="ddp")
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    began = time.time()
    dist.init_process_group("nccl")
    probe = torch.full((1000,), float(rank), device="cuda")
    dist.all_reduce(probe)
    torch.cuda.synchronize()
    if rank == 0:
        print(f"first collective after {time.time() - began:.2f} s, sum {probe[0].item()}, NCCL "
              f"{torch.cuda.nccl.version()}", flush=True)
    torch.manual_seed(1)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.use_deterministic_algorithms(True, warn_only=True)
    model = Model().cuda()
    model = DistributedDataParallel(model) if options.mode == "ddp" else FullyShardedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(100 + rank)
    for step in range(options.steps):
        words = torch.randint(WORDS, (BATCH, LENGTH), generator=generator).cuda()
        loss = nn.functional.cross_entropy(model(words).flatten(0, 1), words.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean, op=dist.ReduceOp.AVG)
        if rank == 0 and (step % 5 == 4 or step == 0):
            print(f"{options.mode} step {step + 1}: loss {mean.item():.8f}", flush=True)
    if rank == 0:
        print(served_by.line(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
