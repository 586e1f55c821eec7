# SPDX-License-Identifier: Apache-2.0
"""Trains the model of train.py over tutti and over Gloo, step by step in turn, and compares losses,
the time of a step, and of its communication.

    build/bin/tutti run -n 2 --no-tag -- python3 examples/ddp/compare.py [--modes ddp,fsdp] [--steps 40]

In turn, because other programs on the machine then disturb both alike. Exit status 1:
the losses differ by more than rounding explains.
"""
import argparse
import statistics
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import train
import tutti.torch  # noqa: F401  not needed where the package was installed by pip

NEAR = 0.01  # losses may differ by so much: the order of additions is not the same


class Run:
    """One backend's model, and what was seen of it."""

    def __init__(self, mode, backend, letters):
        self.group = dist.new_group(backend=backend)
        torch.manual_seed(1)
        self.model = train.Model(letters)
        self.size = sum(p.numel() for p in self.model.parameters())
        self.model = self._wrap(mode, backend)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)
        self.losses, self.seconds, self.reducing = [], [], []

    def _wrap(self, mode, backend):
        if mode == "ddp":
            return DistributedDataParallel(self.model, process_group=self.group)
        from torch.distributed.device_mesh import DeviceMesh

        return train.sharded(self.model, DeviceMesh.from_group(self.group, "cpu"))

    def step(self, seen, following):
        dist.barrier()
        start = time.perf_counter()
        loss = nn.functional.cross_entropy(self.model(seen).flatten(0, 1), following.flatten())
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        self.seconds.append(time.perf_counter() - start)
        self.losses.append(loss.item())

    def reduce(self):
        """As many numbers as there are gradients."""
        gradients = torch.ones(self.size)
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(gradients, group=self.group)
        self.reducing.append(time.perf_counter() - start)


def compare(mode, steps, text, letters):
    """Prints a row; the largest difference of the losses."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine, other = runs = [Run(mode, backend, letters) for backend in ("tutti", "gloo")]
    for batch in train.batches(text, steps, rank, ranks):
        for run in runs:
            run.step(*batch)
    for _ in range(steps):
        for run in runs:
            run.reduce()
    step, step_other, reducing, reducing_other = (1000 * statistics.median(seconds) for seconds in (
        mine.seconds, other.seconds, mine.reducing, other.reducing))
    if rank == 0:
        print(f"| {mode} | {ranks} | {mine.losses[-1]:.4f} | "
              f"{other.losses[-1]:.4f} | {step:.1f} | {step_other:.1f} | {step / step_other:.2f} | "
              f"{reducing:.2f} | {reducing_other:.2f} | {reducing / reducing_other:.2f} |", flush=True)
    return max(abs(a - b) for a, b in zip(mine.losses, other.losses))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--modes", default="ddp")
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    if dist.get_rank() == 0:
        print("| mode | ranks | last loss, tutti | last loss, Gloo | step, tutti (ms) | step, Gloo (ms) | ratio | "
              "allreduce of the gradients, tutti (ms) | the same, Gloo (ms) | ratio |\n" + "|---" * 10 + "|")
    text, letters = train.read_text()
    apart = max(compare(mode, options.steps, text, letters) for mode in options.modes.split(","))
    if dist.get_rank() == 0:
        print(f"\nlosses differ by {apart:.1e} at most")
    dist.destroy_process_group()
    return apart > NEAR


if __name__ == "__main__":
    sys.exit(main())
