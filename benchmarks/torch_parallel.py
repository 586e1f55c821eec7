#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small decoder with each of PyTorch's ways to split a model over several GPUs, and prints the losses:

  torchrun --nproc-per-node 2 torch_parallel.py [--mode tp|pp|fsdp2|cp] [--steps 30]

tp: tensor and sequence parallel layers; pp: a pipeline's 1F1B schedule; fsdp2: fully_shard; cp: context parallel
attention. The same program over NCCL, and over tutti by LD_PRELOAD=.../libnccl.so.2, must print the same curve.
"""
import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.pipelining import PipelineStage, Schedule1F1B
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.experimental import context_parallel
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel,
                                               parallelize_module)
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpu_parts import served_by

WORDS, WIDTH, HEAD, LENGTH, BATCH, LAYERS = 512, 256, 32, 512, 8, 4


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))

    def forward(self, x):
        q, k, v = (part(x).unflatten(-1, (-1, HEAD)).transpose(1, 2) for part in (self.q, self.k, self.v))
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(seen.transpose(1, 2).flatten(2))


class Feed(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        return self.down(nn.functional.gelu(self.up(x)))


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention, self.feed = Attention(), Feed()

    def forward(self, x):
        x = x + self.attention(self.first(x))
        return x + self.feed(self.second(x))


class Decoder(nn.Module):
    """All of it, or what of it is one rank's: the rest is None, or not in `layers`."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.out = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, x):
        x = self.embed(x) if self.embed else x
        for layer in self.layers:
            x = layer(x)
        return self.out(x) if self.out else x


def loss_of(guess, wanted):
    return nn.functional.cross_entropy(guess.flatten(0, 1), wanted.flatten())


def average(tensor):
    dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
    return tensor


class Plain:
    """A model whose call, backward and optimizer's step are a step; every rank has a loss, and the mean counts."""

    own_words = True  # each rank has other words

    def __init__(self, model, device):
        self.model = self.split(model.to(device))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def split(self, model):
        return model

    def backward(self, words):
        loss = loss_of(self.model(words), words)
        loss.backward()
        return loss.detach()

    def step(self, words):
        self.optimizer.zero_grad()
        loss = self.backward(words)
        self.optimizer.step()
        return average(loss.clone())


class Sharded(Plain):
    """fsdp2"""

    def split(self, model):
        for layer in model.layers:
            fully_shard(layer)
        return fully_shard(model)


class Tensors(Plain):
    """tp: between the halves of a layer ranks have parts of the sequence, within them parts of the heads and of the
    feed's width."""

    own_words = False

    def split(self, model):
        mesh = init_device_mesh(next(model.parameters()).device.type, (dist.get_world_size(),))
        whole = {"input_layouts": (Shard(1),), "desired_input_layouts": (Replicate(),)}
        inner = {"first": SequenceParallel(), "second": SequenceParallel(),
                 "attention": PrepareModuleInput(**whole), "feed": PrepareModuleInput(**whole),
                 **{f"attention.{name}": ColwiseParallel() for name in "qkv"},
                 "attention.o": RowwiseParallel(output_layouts=Shard(1)), "feed.up": ColwiseParallel(),
                 "feed.down": RowwiseParallel(output_layouts=Shard(1))}
        for layer in model.layers:
            parallelize_module(layer, mesh, inner)
        return parallelize_module(model, mesh, {
            "embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1)),
            "out": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate())})


class Contexts(Plain):
    """cp: each rank has a part of the sequence; attention passes keys and values around."""

    own_words = False

    def backward(self, words):
        mine = words.clone()
        mesh = init_device_mesh(words.device.type, (dist.get_world_size(),))
        with sdpa_kernel(SDPBackend.EFFICIENT_ATTENTION), context_parallel(
                mesh, buffers=[mine], buffer_seq_dims=[1], no_restore_buffers={mine}):
            loss = super().backward(mine)
        for parameter in self.model.parameters():
            average(parameter.grad)
        return loss


class Pipeline(Plain):
    """pp: each rank has some of the layers, and four parts of the batch are under way."""

    own_words = False

    def split(self, model):
        rank, ranks = dist.get_rank(), dist.get_world_size()
        model.embed = model.embed if rank == 0 else None
        model.out = model.out if rank == ranks - 1 else None
        model.layers = nn.ModuleList(model.layers[rank * LAYERS // ranks:(rank + 1) * LAYERS // ranks])
        stage = PipelineStage(model, rank, ranks, next(model.parameters()).device)
        self.schedule = Schedule1F1B(stage, 4, loss_of)
        return model

    def backward(self, words):
        losses, last = [], dist.get_world_size() - 1
        if dist.get_rank() == 0:
            self.schedule.step(words, **({"target": words, "losses": losses} if last == 0 else {}))
        elif dist.get_rank() == last:
            self.schedule.step(target=words, losses=losses)
        else:
            self.schedule.step()
        loss = torch.stack(losses).mean().detach() if losses else torch.zeros((), device=words.device)
        dist.broadcast(loss, last)
        return loss


MODES = {"tp": Tensors, "pp": Pipeline, "fsdp2": Sharded, "cp": Contexts}


def begin():
    """The device of this rank. Without GPUs: processors and Gloo, to try the program."""
    if not torch.cuda.is_available():
        dist.init_process_group("gloo")
        return torch.device("cpu")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    return torch.device("cuda", int(os.environ["LOCAL_RANK"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mode", choices=sorted(MODES), default="tp")
    parser.add_argument("--steps", type=int, default=30)
    options = parser.parse_args()
    began = time.time()
    device = begin()
    rank = dist.get_rank()
    probe = torch.full((1000,), float(rank), device=device)
    dist.all_reduce(probe)
    print(f"first collective after {time.time() - began:.2f} s, sum {probe[0].item()}" if rank == 0 else "", flush=True)
    torch.manual_seed(1)
    torch.use_deterministic_algorithms(True, warn_only=True)
    work = MODES[options.mode](Decoder(), device)
    generator = torch.Generator().manual_seed(100 + rank * work.own_words)
    for step in range(options.steps):
        loss = work.step(torch.randint(WORDS, (BATCH, LENGTH), generator=generator).to(device))
        if rank == 0 and (step % 5 == 4 or step == 0):
            print(f"{options.mode} step {step + 1}: loss {loss.item():.8f}", flush=True)
    if rank == 0:
        print(served_by.line(), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
