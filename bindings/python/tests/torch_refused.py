# SPDX-License-Identifier: Apache-2.0
"""What is wrong is refused at once, by the exception and the words that say what, and the group goes on. Any number of
ranks, which all make the same mistakes; then a store whose process has ended."""
import multiprocessing
import os
import sys
import time
import unittest.mock
import warnings
from datetime import timedelta

import torch
import torch.distributed as dist

import tutti.torch
from tutti.torch import alias, versions

BOTH = (RuntimeError, ValueError)  # PyTorch checks some of this before it asks a backend, and not in all versions


def cases(n):
    ones, wide = torch.ones(4), torch.ones(4, 4)[:, :2]
    return [
        ("a list", lambda: dist.all_reduce([1.0]), (TypeError, RuntimeError), ""),
        ("an array", lambda: dist.all_reduce(ones.numpy()), (TypeError, RuntimeError), ""),
        ("no memory", lambda: dist.all_reduce(torch.ones(3, device="meta")), ValueError, "one is on meta"),
        ("no memory to send", lambda: dist.send(torch.ones(3, device="meta"), n), ValueError, "one is on meta"),
        ("sparse", lambda: dist.broadcast(torch.eye(3).to_sparse(), 0), ValueError, "torch.sparse_coo"),
        ("quantized", lambda: dist.broadcast(torch.quantize_per_tensor(ones, 0.1, 0, torch.qint8), 0), ValueError,
         "quantized"),
        ("columns", lambda: dist.all_reduce(wide), ValueError, "contiguous: one has shape (4, 2) and strides (4, 1)"),
        ("columns to send", lambda: dist.send(wide, (dist.get_rank() + 1) % n), ValueError, "contiguous"),
        ("expanded", lambda: dist.all_reduce(torch.ones(1).expand(4)), ValueError, "contiguous"),
        ("conjugated", lambda: dist.send(torch.ones(2).cfloat().conj(), (dist.get_rank() + 1) % n), BOTH, "conjugated"),
        ("negated", lambda: dist.all_reduce(torch._neg_view(ones)), ValueError, "negated"),
        ("to itself", lambda: dist.send(ones, dist.get_rank()), BOTH, "rank"),
        ("root 9", lambda: dist.broadcast(ones, 9), BOTH, "9"),
        ("root -1", lambda: dist.broadcast(ones, -1), BOTH, "-1"),
        ("to rank n", lambda: dist.send(ones, n), BOTH, f"rank {n} is not in this process group of {n} ranks"),
        ("from rank n", lambda: dist.recv(ones, n), BOTH, f"rank {n} is not in this process group of {n} ranks"),
        ("no parts", lambda: dist.all_gather([], ones), BOTH, "list of outputs"),
        ("too few parts", lambda: dist.all_gather([ones] * (n - 1), ones), BOTH, ""),
        ("parts of another type", lambda: dist.all_gather([torch.ones(4).double() for _ in range(n)], ones), BOTH, ""),
        ("too much to gather", lambda: dist.all_gather_into_tensor(torch.empty(4 * n + 1), ones), BOTH, "4"),
        ("too little to scatter", lambda: dist.reduce_scatter_tensor(torch.empty(3), torch.ones(3 * n + 1)), BOTH, "3"),
        ("splits", lambda: dist.all_to_all_single(torch.empty(n), torch.ones(n), [2] * n, [1] * n), BOTH, "split"),
        ("a greatest complex", lambda: dist.all_reduce(torch.ones(3).cfloat(), dist.ReduceOp.MAX), BOTH, "complex"),
    ]


def refuse(n):
    for name, call, kinds, words in cases(n):
        start = time.monotonic()
        try:
            call()
            sys.exit(f"{name}: nothing was raised")
        except kinds as error:
            if words.lower() not in str(error).lower():
                sys.exit(f"{name}: the error says \"{error}\", expected \"{words}\"")
        if time.monotonic() - start > 30:
            sys.exit(f"{name}: it was refused after the group's time alone")
        total = torch.ones(2)
        dist.all_reduce(total)
        if total.tolist() != [n, n]:
            sys.exit(f"after {name}: {total}")


def tell_version():
    """A version that nobody has tried is named, once in a process."""
    known, versions.TESTED = versions.TESTED, ("0.1",)
    versions.name_untested.cache_clear()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for _ in range(2):
            dist.destroy_process_group(dist.new_group())
    versions.TESTED = known
    told = [str(one.message) for one in told if "tutti was tested" in str(one.message)]
    if len(told) != 1 or f"with PyTorch 0.1; this is {torch.__version__}" not in told[0]:
        sys.exit(f"an unknown version: {told}")


def refuse_version():
    """Where a version makes groups in a way that nobody knows tutti does not stand for Gloo, which would then be silent
    about what it missed."""
    state, name = dist.distributed_c10d, "_new_process_group_helper"
    known = getattr(state, name)
    with unittest.mock.patch.dict(os.environ, TUTTI_TORCH_AS="gloo"):
        for way in (None, lambda group, backend, parts: None):
            with unittest.mock.patch.object(state, name, way):
                try:
                    alias.install()
                    sys.exit(f"tutti stands for Gloo where groups are made by {way}")
                except RuntimeError as error:
                    if "makes process groups in a way that tutti does not know" not in str(error):
                        sys.exit(f"groups that are made by {way}: {error}")
            if getattr(state, name) is not known:
                sys.exit(f"{name} was replaced")


def keep_store(pipe):
    store = dist.TCPStore("127.0.0.1", 0, None, True, timedelta(seconds=30), wait_for_workers=False)
    pipe.send(store.port)
    pipe.recv()


def lose_store():
    """A group whose store is gone cannot begin: an error, at once, and no process dies of it."""
    mine, theirs = multiprocessing.Pipe()
    keeper = multiprocessing.get_context("spawn").Process(target=keep_store, args=(theirs,))
    keeper.start()
    store = dist.TCPStore("127.0.0.1", mine.recv(), None, False, timedelta(seconds=30))
    keeper.kill()
    keeper.join()
    try:
        tutti.torch._make(store, 0, 2, timedelta(seconds=60))
        sys.exit("a group began without its store")
    except RuntimeError as error:  # PyTorch's own, of which each version says something else
        print(f"no store: {type(error).__name__}: {str(error).splitlines()[0]}")


def main():
    dist.init_process_group("tutti", timeout=timedelta(seconds=120))
    refuse(dist.get_world_size())
    tell_version()
    refuse_version()
    if dist.get_rank() == 0 and torch.__version__ >= "2":  # stores of earlier versions abort the process themselves
        lose_store()
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
