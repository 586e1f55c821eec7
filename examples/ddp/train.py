# SPDX-License-Identifier: Apache-2.0
"""Trains a small transformer to continue text, letter by letter, with PyTorch on several ranks without GPUs.

    build/bin/tutti run -n 2 -- python3 examples/ddp/train.py [--backend tutti|gloo] [--mode ddp|fsdp] [--steps 40]

The text is that of the licences which Debian's package base-files ships. All ranks together see the same letters
whatever their number and whatever the backend, so the losses that are printed are the same.
"""
import argparse
import glob
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

TEXT = "/usr/share/common-licenses/*"
WIDTH, HEADS, LAYERS, LENGTH, BATCH = 128, 4, 2, 64, 16  # BATCH: of all ranks together


class Model(nn.Module):
    """A decoder: each letter from those before it."""

    def __init__(self, letters):
        super().__init__()
        self.letter = nn.Embedding(letters, WIDTH)
        self.place = nn.Parameter(torch.randn(LENGTH, WIDTH) * 0.02)
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)
        self.out = nn.Linear(WIDTH, letters)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(LENGTH), persistent=False)

    def forward(self, text):
        return self.out(self.layers(self.letter(text) + self.place, mask=self.mask))


def read_text():
    """All letters as numbers, and how many there are."""
    paths = sorted(path for path in glob.glob(TEXT) if not os.path.islink(path))
    if not paths:
        raise SystemExit(f"there is no text at {TEXT}: Debian's package base-files ships it")
    text = b"".join(open(path, "rb").read() for path in paths)
    letters = sorted(set(text))
    number = {letter: i for i, letter in enumerate(letters)}
    return torch.tensor([number[letter] for letter in text]), len(letters)


def batches(text, steps, rank, size):
    """This rank's share of what all see in each step."""
    generator = torch.Generator().manual_seed(1)
    for _ in range(steps):
        starts = torch.randint(len(text) - LENGTH - 1, (BATCH,), generator=generator)[rank::size]
        both = torch.stack([text[start:start + LENGTH + 1] for start in starts.tolist()])
        yield both[:, :-1], both[:, 1:]


def sharded(model, mesh):
    """FSDP: each rank keeps a part of every parameter."""
    from torch.distributed.fsdp import fully_shard

    for layer in model.layers.layers:
        fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def distributed(model, mode):
    if mode == "ddp":
        return DistributedDataParallel(model)
    from torch.distributed.device_mesh import init_device_mesh

    return sharded(model, init_device_mesh("cpu", (dist.get_world_size(),)))


def train(options, rank, size):
    """Mean losses of some steps, and the median of the seconds that one takes."""
    text, letters = read_text()
    torch.manual_seed(1)
    model = distributed(Model(letters), options.mode)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses, seconds = {}, []
    for step, (seen, next_letters) in enumerate(batches(text, options.steps, rank, size), 1):
        start = time.perf_counter()
        loss = nn.functional.cross_entropy(model(seen).flatten(0, 1), next_letters.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        seconds.append(time.perf_counter() - start)
        if step == 1 or step % 10 == 0:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            losses[step] = mean.item() / size
    return losses, sorted(seconds)[len(seconds) // 2]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default="tutti")
    parser.add_argument("--mode", choices=("ddp", "fsdp"), default="ddp")
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    torch.set_num_threads(1)
    import tutti.torch  # noqa: F401  not needed where the package was installed by pip
    dist.init_process_group(options.backend, init_method="tutti://")  # rank and size as any launcher says
    rank, size = dist.get_rank(), dist.get_world_size()
    losses, seconds = train(options, rank, size)
    if rank == 0:
        print("\n".join(f"step {step}: loss {loss:.5f}" for step, loss in losses.items()))
        print(f"{options.mode} over {options.backend}, {size} ranks: {seconds * 1000:.1f} ms a step")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
