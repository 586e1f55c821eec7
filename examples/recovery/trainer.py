# SPDX-License-Identifier: Apache-2.0
"""Trains the model of examples/ddp with a checkpoint every few steps, and goes on from the last one that is there.

    torchrun --nproc_per_node 8 --max_restarts 1 examples/recovery/trainer.py --folder FOLDER [--steps 40]
        [--every 10] [--width 128] [--backend tutti|gloo]

In FOLDER: `checkpoint`; `life`, a line of JSON for everything that rank 0 does, with its time; `pid.RANK`.
"""
import time

BEGAN = time.time()  # before PyTorch is loaded, which takes seconds

import argparse  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import sys  # noqa: E402

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402
from torch.nn.parallel import DistributedDataParallel  # noqa: E402

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "ddp"))
import train as ddp  # noqa: E402


class Life:
    """What rank 0 does, for who measures."""

    def __init__(self, folder, rank):
        self.file = open(os.path.join(folder, "life"), "a", encoding="utf-8") if rank == 0 else None

    def tell(self, what, when=None, **more):
        if self.file:
            print(json.dumps({"what": what, "time": when or time.time(), **more}), file=self.file, flush=True)


def save(path, **state):
    """Whole or not at all: a rank may be killed in the middle of it."""
    with open(path + ".new", "wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def train(options, life, rank, size):
    path = os.path.join(options.folder, "checkpoint")
    text, letters = ddp.read_text()
    torch.manual_seed(1)
    model = DistributedDataParallel(ddp.Model(letters))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    done = 0
    if os.path.exists(path):
        state = torch.load(path)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["step"]
    life.tell("resume", step=done)
    for step, (seen, following) in enumerate(ddp.batches(text, options.steps, rank, size), 1):
        if step <= done:
            continue
        loss = nn.functional.cross_entropy(model(seen).flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        life.tell("step", step=step, loss=mean.item() / size)
        if step % options.every == 0 and rank == 0:
            save(path, step=step, model=model.module.state_dict(), optimizer=optimizer.state_dict())
            life.tell("saved", step=step)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--folder", required=True)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--every", type=int, default=10)
    parser.add_argument("--width", type=int, default=ddp.WIDTH, help="of the model")
    parser.add_argument("--backend", default="tutti")
    options = parser.parse_args()
    torch.set_num_threads(1)
    ddp.WIDTH = options.width
    if options.backend == "tutti":
        import tutti.torch  # noqa: F401  not needed where the package was installed by pip
    dist.init_process_group(options.backend)
    rank, size = dist.get_rank(), dist.get_world_size()
    with open(os.path.join(options.folder, f"pid.{rank}"), "w", encoding="ascii") as file:
        file.write(str(os.getpid()))
    life = Life(options.folder, rank)
    life.tell("begin", BEGAN)
    train(options, life, rank, size)
    life.tell("end")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
