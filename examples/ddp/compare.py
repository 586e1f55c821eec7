# SPDX-License-Identifier: Apache-2.0
"""Trains the model of train.py over tutti and over Gloo, step by step in turn, and compares losses,
the time of a step, and of its communication.

    build/bin/tutti run -n 2 --no-tag -- python3 examples/ddp/compare.py [--modes ddp,fsdp] [--steps 40] [--json FILE]

In turn, because other programs on the machine then disturb both alike. FILE gets a line for each mode: the ratios of
each two steps. Exit status 1: the losses differ by more than rounding explains.
"""
import argparse
import json
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
        self.losses, self.seconds, self.moving = [], [], []
        self.part = torch.ones(-(-self.size // dist.get_world_size()))
        self.whole = torch.zeros(self.part.numel() * dist.get_world_size())
        self.move = self._reduce if mode == "ddp" else self._gather_and_scatter

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

    def communicate(self):
        """What a step moves: as many numbers as there are parameters."""
        dist.barrier()
        start = time.perf_counter()
        self.move()
        self.moving.append(time.perf_counter() - start)

    def _reduce(self):
        dist.all_reduce(self.whole, group=self.group)

    def _gather_and_scatter(self):
        """FSDP: parameters are gathered before the forward and the backward pass, and gradients reduced into parts."""
        for _ in range(2):
            dist.all_gather_into_tensor(self.whole, self.part, group=self.group)
        dist.reduce_scatter_tensor(self.part, self.whole, group=self.group)


def ratios(mine, other):
    """Of two steps each: in one tutti comes first, in the other Gloo."""
    return [sum(mine[i:i + 2]) / sum(other[i:i + 2]) for i in range(0, len(mine) - 1, 2)]


def middle(values):
    """Quartiles."""
    return statistics.quantiles(values, n=4) if len(values) > 1 else 3 * values


def compare(mode, steps, text, letters):
    """What was seen, of this rank."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mine, other = runs = [Run(mode, backend, letters) for backend in ("tutti", "gloo")]
    for place, batch in enumerate(train.batches(text, steps, rank, ranks)):
        for run in runs if place % 2 else reversed(runs):
            run.step(*batch)
            run.communicate()
    return {"mode": mode, "ranks": ranks, "loss": mine.losses[-1], "loss_gloo": other.losses[-1],
            "step": ratios(mine.seconds, other.seconds),
            "communication": ratios(mine.moving, other.moving),
            "step_ms": [1000 * statistics.median(run.seconds) for run in runs],
            "communication_ms": [1000 * statistics.median(run.moving) for run in runs],
            "apart": max(abs(a - b) for a, b in zip(mine.losses, other.losses))}


def row(seen):
    cells = [seen["mode"], seen["ranks"], f"{seen['loss']:.4f}", f"{seen['loss_gloo']:.4f}"]
    for what in ("step", "communication"):
        low, median, high = middle(seen[what])
        cells += [*(f"{ms:.2f}" for ms in seen[what + "_ms"]), f"{median:.2f} ({low:.2f} to {high:.2f})"]
    return "| " + " | ".join(map(str, cells)) + " |"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--modes", default="ddp")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    tell = dist.get_rank() == 0
    if tell:
        print("| mode | ranks | last loss, tutti | last loss, Gloo | step, tutti (ms) | step, Gloo (ms) | "
              "ratio (quartiles) | communication, tutti (ms) | the same, Gloo (ms) | ratio |\n" + "|---" * 10 + "|")
    text, letters = train.read_text()
    apart = 0.0
    for mode in options.modes.split(","):
        if mode == "fsdp" and torch.__version__.startswith("1."):
            print("FSDP: PyTorch 1 has none for CPUs") if tell else None
            continue
        seen = compare(mode, options.steps, text, letters)
        apart = max(apart, seen["apart"])
        if tell:
            print(row(seen), flush=True)
        if tell and options.json:
            with open(options.json, "a", encoding="utf-8") as file:
                file.write(json.dumps(seen) + "\n")
    if tell:
        print(f"\nlosses differ by {apart:.1e} at most")
    dist.destroy_process_group()
    return apart > NEAR


if __name__ == "__main__":
    sys.exit(main())
