# SPDX-License-Identifier: Apache-2.0
"""What PyTorch's contract of reconfigure() asks of a backend, a feature of torch_matrix.py for each scenario: ranks
that come later, groups that split and merge, groups without their last rank or one in the middle, groups that were
given up, and handles and numbers that are used again."""
import re
from datetime import timedelta

import torch
import torch.distributed as dist

from torch_ranks import LIMIT, has


class Group:
    """The world, of `n` ranks that have not met yet."""

    def __init__(self, scenario, rank, n):
        self.again, self.handle = has(dist, "_reconfigure"), has(dist, "_get_reconfigure_handle")
        name = dist.get_backend()
        self.first, self.n, self.turns = rank, n, 0
        self.store = dist.PrefixStore(scenario, dist.distributed_c10d._get_default_store())
        dist.destroy_process_group()
        dist.init_process_group(name, store=dist.PrefixStore("group", self.store), rank=rank, world_size=n,
                                timeout=LIMIT, enable_reconfigure=True)

    def handles(self):
        """Those of all, by the ranks that they had at first."""
        self.turns += 1
        self.store.set(f"{self.turns}/{self.first}", self.handle())
        return [self.store.get(f"{self.turns}/{rank}").decode() for rank in range(self.n)]

    def become(self, uuid, handles):
        """A group of these ranks, which all say the same of it."""
        rank = handles.index(self.handle()) if isinstance(handles, list) else None
        self.again(uuid, handles, timeout=timedelta(seconds=10)).wait()
        assert dist.get_world_size() == len(handles), f"{dist.get_world_size()} ranks of {len(handles)}"
        assert rank in (None, dist.get_rank()), f"rank {dist.get_rank()}, not {rank}"
        summed()


def summed():
    """All ranks there are, once each, and messages go round; and PyTorch's own code divides by as many."""
    rank, n = dist.get_rank(), dist.get_world_size()
    x = torch.full((3,), 2.0 ** rank)
    dist.all_reduce(x)
    assert x.tolist() == [2.0 ** n - 1] * 3, f"{x.tolist()} of {n} ranks"
    if n > 1:
        came, sent = torch.empty(1), dist.isend(torch.tensor([float(rank)]), (rank + 1) % n)
        dist.recv(came, (rank - 1) % n)
        sent.wait()
        assert came.item() == (rank - 1) % n, f"{came.item()} came to rank {rank}"
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1, bias=False))
    model(torch.full((1, 1), float(rank))).sum().backward()
    mean = model.module.weight.grad.item()
    assert mean == (n - 1) / 2, f"a mean of {mean} over {n} ranks"


def refuses(kind, words, uuid, handles):
    try:
        dist._reconfigure(uuid, handles)
    except kind as error:
        assert re.search(words, str(error)), error
    else:
        raise AssertionError(f"no {kind.__name__} with {words}")


def reconfigure(rank, n):
    """The same rank and size, twice; then a number that was used, a handle that is twice there, and one that is not."""
    group = Group("same", rank, n)
    for uuid in (1, 2):
        handles = group.handles()
        group.become(uuid, handles)
    refuses(RuntimeError, "already used", 2, handles)
    refuses((ValueError, RuntimeError), "twice|unique", 3, handles + handles[:1])
    refuses((ValueError, RuntimeError), "own|not part", 4, handles[:rank] + handles[rank + 1:] or ["another"])
    summed()  # the group is as it was


def reconfigure_late(rank, n):
    """Rank 0 begins alone, and the others come."""
    group = Group("late", rank, n)
    if rank == 0:
        group.become(1, [group.handle()])
    group.become(2, group.handles())


def reconfigure_apart(rank, n):
    """Two groups, then one; each for itself, then one; the others' order."""
    group = Group("apart", rank, n)
    handles, half = group.handles(), n // 2
    group.become(*((1, handles[:half]) if rank < half else (2, handles[half:])))
    group.become(3, group.handles())
    group.become(10 + rank, [group.handle()])
    group.become(4, group.handles()[::-1])
    group.become(5, set(group.handles()))


def reconfigure_fewer(rank, n):
    """Without the last rank, then without one in the middle; who is left out is not heard of, and comes back."""
    group = Group("fewer", rank, n)
    handles = group.handles()
    group.become(1, handles)
    for uuid, absent in ((2, n - 1), (4, n // 2)):
        handles = group.handles()
        if rank != absent:
            group.become(uuid, handles[:absent] + handles[absent + 1:])
        group.become(uuid + 1, group.handles())


def reconfigure_after_abort(rank, n):
    """Rank 0 waits for an operation that no other rank calls, and gives it up; then for a rank that does not come."""
    group = Group("abort", rank, n)
    group.become(1, group.handles())
    if rank == 0:
        work = dist.all_reduce(torch.ones(3), async_op=True)
        dist.group.WORLD.abort()
        try:
            work.wait()
        except RuntimeError:
            pass
        else:
            raise AssertionError("it ended well")
    group.become(2, group.handles())
    if rank == 0:
        absent = group.handle().replace(group.handle()[-4:], "none")
        try:
            dist._reconfigure(3, [group.handle(), absent], timeout=timedelta(seconds=0.3)).wait()
        except RuntimeError as error:
            assert "rank 1" in str(error), error
        else:
            raise AssertionError("it met nobody, and ended well")
    assert (dist.get_rank(), dist.get_world_size()) == (rank, n)
    group.become(4, group.handles())


def reconfigure_again(rank, n):
    """The same handles serve more than once."""
    group = Group("again", rank, n)
    handles = group.handles()
    for uuid in (1, 2, 3):
        group.become(uuid, handles)


SCENARIOS = (reconfigure, reconfigure_late, reconfigure_apart, reconfigure_fewer, reconfigure_after_abort,
             reconfigure_again)
