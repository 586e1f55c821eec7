# SPDX-License-Identifier: Apache-2.0
"""Calls of torch.distributed that are made of several of the library's."""
from __future__ import annotations

import functools
import time
from collections.abc import Callable
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import torch

from . import reductions
from .notes import find, leave
from .work import BackendError

if TYPE_CHECKING:
    from .mechanics import Mechanics

Tensors = list[torch.Tensor]


def _adjoin(tensors: Tensors) -> bool:
    """Do they lie one behind the other, as the parts of one tensor do?"""
    first = tensors[0]
    place = first.data_ptr()
    for tensor in tensors:
        if (tensor.data_ptr() != place or not tensor.is_contiguous() or tensor.untyped_storage()
                .data_ptr() != first.untyped_storage().data_ptr()):
            return False
        place += tensor.numel() * tensor.element_size()
    return True


def _whole(tensors: Tensors) -> torch.Tensor | None:
    """The memory of all, if they adjoin."""
    if not hasattr(torch.Tensor, "untyped_storage") or not _adjoin(tensors):
        return None
    return tensors[0].as_strided((sum(tensor.numel() for tensor in tensors),), (1,))


def flat(tensors: Tensors) -> torch.Tensor:
    """One tensor with the contents of all: their own memory if they adjoin, else a copy."""
    whole = _whole(tensors)
    return torch.cat([tensor.reshape(-1) for tensor in tensors]) if whole is None else whole


def collected(outputs: Tensors) -> tuple[torch.Tensor, Callable[[], None] | None]:
    """Where the parts of all ranks may arrive together, and what brings them to the outputs then."""
    whole = _whole(outputs)
    if whole is not None:
        return whole, None
    arrived = torch.empty(sum(tensor.numel() for tensor in outputs), dtype=outputs[0].dtype, device=outputs[0].device)

    def bring() -> None:
        for tensor, part in zip(outputs, arrived.split([tensor.numel() for tensor in outputs])):
            tensor.copy_(part.view(tensor.shape))

    return arrived, bring


def one_each(tensors: Tensors, size: int, what: str) -> None:
    """The calls with lists of tensors need a tensor for each rank."""
    if len(tensors) != size:
        raise ValueError(f"{what} has {len(tensors)} tensors; there are {size} ranks, and each needs one")


def same_sizes(parts: Tensors, one: torch.Tensor) -> None:
    """The calls with lists of tensors need tensors of one size."""
    for rank, part in enumerate(parts):
        if part.numel() != one.numel() or part.dtype != one.dtype:
            raise ValueError(f"the tensor for rank {rank} has {part.numel()} elements of {part.dtype}, this rank's has "
                             f"{one.numel()} of {one.dtype}: they must be alike")


def rows(tensor: torch.Tensor, splits: list[int], size: int) -> list[int]:
    """Elements for each rank, of splits along the first dimension."""
    if not splits:
        if tensor.size(0) % size:
            raise ValueError(f"Tensor's dim 0 does not divide equally across group size: {tensor.size(0)} rows, "
                             f"{size} ranks")
        splits = [tensor.size(0) // size] * size
    if len(splits) != size:
        raise ValueError(f"Number of tensor splits not equal to group size: {len(splits)} splits, {size} ranks")
    if sum(splits) != tensor.size(0):
        raise ValueError(f"Split sizes doesn't match total dim 0 size: they sum up to {sum(splits)}, dim 0 is "
                         f"{tensor.size(0)}")
    row = tensor.numel() // tensor.size(0) if tensor.size(0) else 0
    return [split * row for split in splits]


def by_gathering(group: Mechanics, tensor: torch.Tensor, reduction: reductions.Reduction, opts: Any,
                 root: int | None = None) -> Any:
    """All inputs come to every rank, which reduces them: the same bits everywhere, for the order is."""
    every = tensor.new_empty((group._my_size, *tensor.shape))

    def fold() -> None:
        if root is None or root == group._my_rank:
            tensor.copy_(functools.reduce(reduction.fold, every.unbind()))  # type: ignore[arg-type]

    return group._run("all_reduce", [tensor], [tensor], opts,
                      lambda comm, how: comm.allgather(tensor, every, **how), fold)


def scatter_by_gathering(group: Mechanics, output: torch.Tensor, input: torch.Tensor, reduction: reductions.Reduction,
                         opts: Any) -> Any:
    """My part of every rank's input comes here."""
    parts = input.new_empty((group._my_size, output.numel()))

    def fold() -> None:
        output.copy_(functools.reduce(reduction.fold, parts.unbind()).view(output.shape))  # type: ignore[arg-type]

    return group._run("_reduce_scatter_base", [input, output], [output], opts,
                      lambda comm, how: comm.alltoall(input, parts, **how), fold)


def reduce_to_each(group: Mechanics, output: torch.Tensor, inputs: Tensors, opts: Any) -> Any:
    """Parts of different sizes: a reduction to each rank."""
    reduction = reductions.choose(opts.reduceOp, output)
    if reduction.name is None:
        raise ValueError("tutti scatters reductions of unequal parts for the library's own operators and types alone")

    def issue(comm: Any, how: dict[str, Any]) -> list[Any]:
        seen = reduction.seen
        return [comm.reduce(seen(part), seen(output) if rank == group._my_rank else None, reduction.name, rank, **how)
                for rank, part in enumerate(inputs)]

    return group._run("reduce_scatter", [output, *inputs], [output], opts, issue)


def broadcast_from_each(group: Mechanics, outputs: Tensors, tensor: torch.Tensor, opts: Any) -> Any:
    """Parts of different sizes: a broadcast from each rank."""
    with torch.no_grad():
        outputs[group._my_rank].copy_(tensor.view(outputs[group._my_rank].shape))
    return group._run("all_gather", outputs, outputs, opts,
                      lambda comm, how: [comm.broadcast(part, rank, **how) for rank, part in enumerate(outputs)])


def sparse(group: Mechanics, tensor: torch.Tensor, opts: Any) -> Any:
    """The sum of sparse tensors: how many entries each rank has, then all entries,
    each rank's padded to the longest."""
    if reductions._name(opts.reduceOp) != "SUM":
        raise ValueError("sparse tensors can be summed, and nothing else")
    mine = tensor.coalesce()
    indices, values = mine.indices(), mine.values()
    counts = torch.empty(group._my_size, dtype=torch.int64)
    group._allgather_base(counts, torch.tensor([indices.size(1)]), opts).wait()
    longest = int(counts.max())

    def padded(part: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        part = part.contiguous()
        room = part.new_zeros((longest, *part.shape[1:]))
        room[:part.size(0)] = part
        return room, part.new_empty((group._my_size, *room.shape))

    (my_indices, all_indices), (my_values, all_values) = padded(indices.t()), padded(values)

    def add() -> None:
        parts = [torch.sparse_coo_tensor(all_indices[r, :n].t(), all_values[r, :n], tensor.shape)
                 for r, n in enumerate(counts.tolist())]
        total = functools.reduce(torch.add, parts).coalesce()
        tensor.copy_(total)

    def issue(comm: Any, how: dict[str, Any]) -> list[Any]:
        return [comm.allgather(my_indices, all_indices, **how), comm.allgather(my_values, all_values, **how)]

    if not tensor.is_cuda:
        return group._run("all_reduce", [my_indices, my_values], [tensor], opts, issue, add)
    work = group._run("all_reduce", [my_indices, my_values], [], opts, issue)
    work.wait()
    with torch.no_grad():
        add()  # its memory is of the current stream
    work.take_in([tensor])
    return work


def monitored_barrier(group: Mechanics, timeout: timedelta, wait_all_ranks: bool, key: str) -> None:
    """A barrier through the store: rank 0 names who does not come in time."""
    store, rank, milliseconds = group._store, group._my_rank, int(timeout.total_seconds() * 1000)
    deadline = time.monotonic() + timeout.total_seconds()
    if rank == 0 and milliseconds <= 0:
        raise BackendError(f"Rank 0 timed out in monitoredBarrier after {milliseconds} ms")

    def found(name: str) -> str | None:
        return find(store, f"{key}/{name}", lambda: time.monotonic() < deadline)

    if rank != 0:
        leave(store, f"{key}/{rank}", "here")
        if found("end") != "all":
            raise BackendError(f"Rank {rank} successfully reached monitoredBarrier, "
                               "but received errors while waiting for send/recv from rank 0 "
                               f"for {milliseconds} ms. Please check rank 0 logs for faulty rank.")
        return
    missing: list[int] = []
    for other in range(1, group._my_size):
        if not found(str(other)):
            missing.append(other)
            if not wait_all_ranks:
                break
    leave(store, f"{key}/end", "failed" if missing else "all")
    if missing:
        ranks = f"Rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
        raise BackendError(f"[Rank 0]: {ranks} failed to pass monitoredBarrier in {milliseconds} ms")
