# SPDX-License-Identifier: Apache-2.0
"""One rank of the matrix of features: each is tried over tutti and over Gloo, and what arrives is checked.

torch_matrix.py reads lines BACKEND RANKS [FEATURE...] and plays each by 2 or more ranks, which are copies of this
process: PyTorch is imported once. For each it prints a line a feature on rank 0: its name, a tab, and ok, "-" where
this PyTorch has not got the feature, "refused: SENTENCE" where all ranks get that error at once, or "FAIL: SENTENCE";
then an empty line. torch_versions.py runs it on several versions and makes the table.
"""
import contextlib
import gc
import importlib
import pickle
import shutil
import sys
import tempfile
import time
import warnings
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn
from torch._C import _distributed_c10d

from torch_ranks import LIMIT, Absent, Outside, has, joined, outcome, run
from torch_reconfigure import SCENARIOS
import tutti.torch  # noqa: F401

BIG = 20 * 1024 * 1024 // 4


def same(seen, expected):
    seen, expected = torch.as_tensor(seen).detach(), torch.as_tensor(expected)
    assert seen.shape == expected.shape and torch.equal(seen, expected.to(seen.dtype)), f"{seen}, expected {expected}"


def row(rank, width=3):
    return torch.arange(float(width)) + 100 * rank


def rows(n, width=3):
    return torch.stack([row(r, width) for r in range(n)])


# ---- Collectives ----

def all_reduce(rank, n):
    x = row(rank)
    dist.all_reduce(x)
    same(x, rows(n).sum(0))


def reduce(rank, n):
    x = row(rank)
    dist.reduce(x, 1)
    if rank == 1:
        same(x, rows(n).sum(0))


def broadcast(rank, n):
    x = row(rank)
    dist.broadcast(x, 1)
    same(x, row(1))


def all_gather(rank, n):
    parts = [torch.empty(3) for _ in range(n)]
    dist.all_gather(parts, row(rank))
    same(torch.stack(parts), rows(n))


def into(rank, n, call, flat):
    whole = torch.empty(n * 3) if flat else torch.empty(n, 3)
    call(whole, row(rank) if flat else row(rank).reshape(1, 3))
    same(whole.reshape(n, 3), rows(n))


def all_gather_into_tensor(rank, n):
    into(rank, n, has(dist, "all_gather_into_tensor"), True)
    into(rank, n, dist.all_gather_into_tensor, False)


def all_gather_single(rank, n):
    into(rank, n, has(dist, "all_gather_single"), True)


def gather(rank, n):
    parts = [torch.empty(3) for _ in range(n)] if rank == 0 else None
    dist.gather(row(rank), parts)
    if rank == 0:
        same(torch.stack(parts), rows(n))


def gather_single(rank, n):
    whole = torch.empty(n * 3) if rank == 1 else None
    has(dist, "gather_single")(row(rank), whole, dst=1)
    if rank == 1:
        same(whole.reshape(n, 3), rows(n))


def scatter(rank, n):
    mine = torch.empty(3)
    dist.scatter(mine, list(rows(n).unbind()) if rank == 0 else None)
    same(mine, row(rank))


def reduce_scatter(rank, n):
    mine = torch.empty(3)
    dist.reduce_scatter(mine, [row(r) + rank for r in range(n)])
    same(mine, row(rank) * n + n * (n - 1) / 2)


def scattered(rank, n, call):
    mine = torch.empty(3)
    call(mine, (rows(n) + rank).reshape(-1))
    same(mine, row(rank) * n + n * (n - 1) / 2)


def reduce_scatter_tensor(rank, n):
    scattered(rank, n, has(dist, "reduce_scatter_tensor"))


def reduce_scatter_single(rank, n):
    scattered(rank, n, has(dist, "reduce_scatter_single"))


def all_to_all(rank, n):
    got = [torch.empty(3) for _ in range(n)]
    dist.all_to_all(got, [row(rank) + 10 * r for r in range(n)])
    same(torch.stack(got), rows(n) + 10 * rank)


def all_to_all_single(rank, n):
    got = torch.empty(n, 3)
    dist.all_to_all_single(got, torch.stack([row(rank) + 10 * r for r in range(n)]))
    same(got, rows(n) + 10 * rank)
    sends, receives = [r + 1 for r in range(n)], [rank + 1] * n
    got = torch.empty(sum(receives))
    dist.all_to_all_single(got, torch.cat([torch.full((r + 1,), 10.0 * rank + r) for r in range(n)]), receives, sends)
    same(got, torch.cat([torch.full((rank + 1,), 10.0 * r + rank) for r in range(n)]))


def barrier(rank, n):
    dist.barrier()
    dist.monitored_barrier()


# ---- Several at once ----

def coalesced(rank, n, fill, expected, device=None):
    manager = has(dist.distributed_c10d, "_coalescing_manager")
    for async_ops in (False, True):
        arguments = {"device": torch.device(device)} if device else {}
        try:
            context = manager(async_ops=async_ops, **arguments)
        except TypeError:
            raise Absent from None
        with context as together:
            seen = fill()
        if async_ops:
            together.wait()
        same(torch.stack(seen), expected)


def coalesced_all_reduce(rank, n):
    def fill():
        several = [row(rank) + i for i in range(4)]
        for x in several:
            dist.all_reduce(x)
        return several
    coalesced(rank, n, fill, torch.stack([rows(n).sum(0) + n * i for i in range(4)]))


def coalesced_all_gather(rank, n):
    def fill():
        several = [torch.empty(n * 3) for _ in range(4)]
        for i, x in enumerate(several):
            dist.all_gather_into_tensor(x, row(rank) + i)
        return several
    coalesced(rank, n, fill, torch.stack([(rows(n) + i).reshape(-1) for i in range(4)]))


def coalesced_reduce_scatter(rank, n):
    def fill():
        several = [torch.empty(3) for _ in range(4)]
        for i, x in enumerate(several):
            dist.reduce_scatter_tensor(x, (rows(n) + i).reshape(-1))
        return several
    coalesced(rank, n, fill, torch.stack([(row(rank) + i) * n for i in range(4)]))


def coalesced_by_start_and_end(rank, n):
    """Between _start_coalescing and _end_coalescing of the group: collectives and messages."""
    group = dist.group.WORLD
    start, end = has(group, "_start_coalescing"), has(group, "_end_coalescing")
    x, got = torch.ones(BIG), torch.zeros(BIG)
    start(torch.device("cpu"))
    dist.all_reduce(x, async_op=True)
    dist.irecv(got, (rank - 1) % n)
    time.sleep(0.3 * rank)  # what is sent comes after all else
    dist.isend(torch.full((BIG,), rank + 1.0), (rank + 1) % n)
    end(torch.device("cpu")).wait()
    assert bool((x == n).all()) and bool((got == (rank - 1) % n + 1).all())


# ---- Messages ----

def send_recv(rank, n):
    left, got = (rank - 1) % n, torch.empty(3)
    later = dist.irecv(got, left, tag=7)
    dist.send(row(rank), (rank + 1) % n, tag=7)
    later.wait()
    same(got, row(left))


def recv_from_any(rank, n):
    if rank:
        dist.send(row(rank), 0)
        return
    for _ in range(n - 1):
        got = torch.empty(3)
        source = dist.recv(got)
        same(got, row(source))


def is_completed(rank, n):
    """The work of a call says by itself when it has ended, and its future holds the result."""
    work = dist.all_reduce(torch.ones(3), async_op=True)
    until = time.monotonic() + 10
    while not work.is_completed():
        assert time.monotonic() < until, "it never says that it has completed"
    got = torch.ones(3)
    same(dist.all_reduce(got, async_op=True).get_future().wait()[0], torch.full((3,), float(n)))


def batch(rank, n, size):
    """Rank 0 is late: what comes from it is there when the works say so, and not before."""
    got = torch.zeros(size)
    mine = (torch.arange(size) % 8191).float() + rank
    if rank == 0:
        time.sleep(0.3)
    works = dist.batch_isend_irecv([dist.P2POp(dist.irecv, got, (rank - 1) % n),
                                    dist.P2POp(dist.isend, mine, (rank + 1) % n)])
    for work in works:
        work.wait()
    wrong = int((got != (torch.arange(size) % 8191).float() + (rank - 1) % n).sum())
    assert not wrong, f"{wrong} of {size} elements are wrong"


def batch_isend_irecv(rank, n):
    batch(rank, n, 3)


def batch_isend_irecv_20_MiB(rank, n):
    for _ in range(3):
        batch(rank, n, BIG)


# ---- Objects ----

def objects(rank, n):
    every = [None] * n
    dist.all_gather_object(every, {"rank": rank})
    assert every == [{"rank": r} for r in range(n)], every
    root = [None] * n if rank == 0 else None
    dist.gather_object(rank, root)
    assert rank or root == list(range(n)), root
    told = [{"from": 1}, "x"] if rank == 1 else [None, None]
    dist.broadcast_object_list(told, 1)
    assert told == [{"from": 1}, "x"], told
    mine = [None]
    dist.scatter_object_list(mine, list(range(10, 10 + n)) if rank == 0 else None)
    assert mine == [10 + rank], mine


def object_messages(rank, n):
    send, recv = has(dist, "send_object_list"), has(dist, "recv_object_list")
    if rank == 0:
        send([{"a": 1}], 1)
    if rank == 1:
        got = [None]
        recv(got, 0)
        assert got == [{"a": 1}], got


# ---- Groups ----

def new_group(rank, n):
    pair = dist.new_group([0, 1])
    if rank < 2:
        x = row(rank)
        dist.all_reduce(x, group=pair)
        same(x, rows(2).sum(0))
        dist.destroy_process_group(pair)


def mixed_devices(rank, n):
    """Each kind of device has its own backend."""
    name = dist.get_backend()
    other = "tutti" if name == "gloo" else "gloo"
    if tutti.torch.PYTORCH_1:
        raise Absent
    mixed = dist.new_group(backend=f"cpu:{name},cuda:{other}")
    x = row(rank)
    dist.all_reduce(x, group=mixed)
    same(x, rows(n).sum(0))
    if tutti.torch.extends_backend():
        names = [mixed._get_backend(torch.device(kind)).name() for kind in ("cpu", "cuda")]
        assert names == [name, other], names


def debug_detail(rank, n):
    """TORCH_DISTRIBUTED_DEBUG=DETAIL: PyTorch wraps the backend in one of its own."""
    change = has(dist, "set_debug_level")
    change(dist.DebugLevel.DETAIL)
    try:
        group = dist.new_group()
        gc.collect()
        x = row(rank)
        dist.all_reduce(x, group=group)
        same(x, rows(n).sum(0))
        dist.destroy_process_group(group)
    finally:
        change(dist.DebugLevel.OFF)


def split_group(rank, n):
    split = has(dist, "split_group")
    half = split(split_ranks=[[0, 1], list(range(2, n))] if n > 2 else [[1, 0]])
    x = row(rank)
    dist.all_reduce(x, group=half)
    same(x, rows(2).sum(0) if rank < 2 else rows(n)[2:].sum(0))
    dist.destroy_process_group(half)


def hooks(rank, n):
    before, after = has(dist.group.WORLD, "register_pre_hook"), has(dist.group.WORLD, "register_post_hook")
    seen = []
    before(7001, lambda arguments: seen.append(("before", arguments.op_id)))
    after(7001, lambda arguments: seen.append(("after", arguments.op_id)))
    dist.all_reduce(torch.ones(3))
    dist.group.WORLD.unregister_pre_hook(7001), dist.group.WORLD.unregister_post_hook(7001)
    assert [kind for kind, _ in seen] == ["before", "after"] and seen[0][1] == seen[1][1], seen


def flight_recorder(rank, n):
    """PyTorch's own: what was called is in its dump."""
    has(dist.distributed_c10d, "_maybe_attach_flight_recorder")  # of any backend
    dist.all_reduce(torch.ones(17))
    entries = pickle.loads(_distributed_c10d._dump_fr_trace(backend=dist.get_backend())).get("entries", [])
    assert any([17] in entry.get("input_sizes", []) for entry in entries), f"it is not among {len(entries)} entries"


def new_window(rank, n):
    make = has(dist, "_new_window")
    if not dist._supports_window():
        make(torch.zeros(4))
    after, before, memory = (rank + 1) % n, (rank - 1) % n, torch.zeros(n, 3)
    window, other = make(memory), make()
    window.put(row(rank), after, 3 * rank, False)
    window.signal(after, False)
    window.wait_signal(before, True).wait()
    same(memory[before], row(before))
    same(window.map_remote_tensor(rank), memory.flatten())
    assert window.get_attr(after).access_type == _distributed_c10d.WindowAccessType.UNIFIED
    refuses(lambda: window.put(row(rank), after, 3 * n - 2, False), "part of the window")
    refuses(lambda: window.put(row(rank).double(), after, 0, False), "and the window of torch.float32")
    refuses(lambda: other.signal(after, False), "has no tensor")
    other.tensor_register(torch.zeros(4))
    window.signal(after, False)  # it is none of the other window's
    if rank == 0:
        soon = _distributed_c10d.WaitSignalOptions()
        soon.timeout = timedelta(milliseconds=200)
        refuses(lambda: other.wait_signal(before, False, soon), "Timed out")
    window.wait_signal(before, False)
    dist.barrier()
    window.tensor_deregister()
    window.tensor_register(memory.zero_())  # and no more is left of it
    window.put(row(rank), after, 0, True).wait()
    window.tensor_deregister()
    same(memory[0], row(before))


def refuses(call, words):
    try:
        call()
    except (RuntimeError, ValueError) as error:
        assert words in str(error), f"it says \"{error}\", and not \"{words}\""
    else:
        raise AssertionError(f"nothing was raised, expected \"{words}\"")


# ---- Training ----

class Small(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, x):
        return self.layers(x)


def inputs(step, n):
    torch.manual_seed(step)
    return torch.randn(n * 2, 8)


def train(model, rank, n, optimizer=None):
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        optimizer.zero_grad()
        model(inputs(step, n)[rank * 2:rank * 2 + 2]).square().mean().backward()
        optimizer.step()
    return model


def alone(n):
    model = Small()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        optimizer.zero_grad()
        model(inputs(step, n)).square().mean().backward()
        optimizer.step()
    return model


def close(seen, expected):
    seen = seen.full_tensor() if hasattr(seen, "full_tensor") else seen
    assert torch.allclose(seen, expected, atol=1e-6), f"{seen} instead of {expected}"


def ddp(rank, n):
    model = train(nn.parallel.DistributedDataParallel(Small()), rank, n)
    for seen, expected in zip(model.parameters(), alone(n).parameters()):
        close(seen.detach(), expected.detach())


def fsdp1(rank, n):
    try:
        from torch.distributed.fsdp import FullyShardedDataParallel
    except ValueError:  # Debian's 1.13 on its Python
        raise Absent from None
    model = train(FullyShardedDataParallel(Small(), device_id=torch.device("cpu")), rank, n)
    with FullyShardedDataParallel.summon_full_params(model):
        for seen, expected in zip(model.parameters(), alone(n).parameters()):
            close(seen.detach(), expected.detach())


def sharded(n):
    try:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        raise Absent from None
    return fully_shard(Small(), mesh=init_device_mesh("cpu", (n,)))


def fsdp2(rank, n):
    model = train(sharded(n), rank, n)
    for seen, expected in zip(model.parameters(), alone(n).parameters()):
        close(seen.detach(), expected.detach())


def folder():
    told = [tempfile.mkdtemp(prefix="tutti-matrix-") if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(told, 0)
    return told[0]


def saved(rank, n, save):
    """A checkpoint of an FSDP model, read into another one."""
    import torch.distributed.checkpoint as dcp

    model, place = train(sharded(n), rank, n), folder()
    save({"model": model.state_dict()}, place)
    other = sharded(n)
    for parameter in other.parameters():
        parameter.detach().zero_()
    state = {"model": other.state_dict()}
    dcp.load(state, checkpoint_id=place)
    for seen, expected in zip(other.parameters(), alone(n).parameters()):
        close(seen.detach(), expected.detach())
    dist.barrier()
    if rank == 0:
        shutil.rmtree(place)


def checkpoints(name):
    try:
        import torch.distributed.checkpoint as dcp
    except ImportError:
        raise Absent from None
    return has(dcp, name)


def checkpoint(rank, n):
    save = checkpoints("save")
    saved(rank, n, lambda state, place: save(state, checkpoint_id=place))


def checkpoint_async(rank, n):
    begin = checkpoints("async_save")

    def save(state, place):
        answer = begin(state, checkpoint_id=place)
        getattr(answer, "upload_completion", answer).result()
    saved(rank, n, save)


def pipelining(rank, n):
    try:
        from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
    except ImportError:
        raise Absent from None
    torch.manual_seed(5)
    layers, given = [nn.Linear(6, 6) for _ in range(n)], torch.randn(8, 6)
    schedule = ScheduleGPipe(PipelineStage(layers[rank], rank, n, torch.device("cpu")), n_microbatches=4,
                             loss_fn=nn.functional.mse_loss)
    if rank == 0:
        schedule.step(given)
    elif rank == n - 1:
        close(schedule.step(target=torch.zeros(8, 6), losses=[]), nn.Sequential(*layers)(given))
    else:
        schedule.step()


def dtensor(rank, n):
    try:
        import torch.distributed._functional_collectives as functional
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    except ImportError:
        raise Absent from None
    same(functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD).wait(), [float(n)] * 3)
    mesh = init_device_mesh("cpu", (n,))
    whole = torch.arange(n * 4.0).reshape(n, 4)
    spread = distribute_tensor(whole, mesh, [Shard(0)])
    same(spread.redistribute(mesh, [Replicate()]).to_local(), whole)
    same((spread @ spread.T).full_tensor(), whole @ whole.T)


def shrink_group(rank, n):
    """The last rank leaves; those that are left go on."""
    shrink = has(dist, "shrink_group")
    if rank == n - 1:
        raise Outside
    x = row(rank)
    dist.all_reduce(x, group=shrink([n - 1]))
    same(x, rows(n - 1).sum(0))


QUICK = (all_reduce, reduce, broadcast, all_gather, all_gather_into_tensor, all_gather_single, gather, gather_single,
         scatter, reduce_scatter, reduce_scatter_tensor, reduce_scatter_single, all_to_all, all_to_all_single, barrier,
         coalesced_all_reduce, coalesced_all_gather, coalesced_reduce_scatter,
         coalesced_by_start_and_end, send_recv, recv_from_any, is_completed, batch_isend_irecv,
         batch_isend_irecv_20_MiB, objects, object_messages, new_group, debug_detail, split_group, mixed_devices, hooks,
         flight_recorder, new_window)
SLOW = (ddp, fsdp1, fsdp2, checkpoint, checkpoint_async, pipelining, dtensor)
LAST = (*SCENARIOS, shrink_group)  # they change the group


def one_rank(backend, asked):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group(backend, timeout=LIMIT)
    rank, n = dist.get_rank(), dist.get_world_size()
    store = dist.PrefixStore("matrix", dist.distributed_c10d._get_default_store())
    for feature in (*QUICK, *SLOW, *LAST):
        if asked and feature.__name__ not in asked:
            continue
        start = time.monotonic()
        said = joined(store, feature.__name__, outcome(feature, rank, n), rank, n)
        if rank == 0:
            print(f"{feature.__name__}\t{said}\t{time.monotonic() - start:.1f} s", flush=True)
    store.set(f"end/{rank}", "")
    if rank == 0:  # has the store
        store.wait([f"end/{r}" for r in range(n)], LIMIT)


def main():
    for name in ("fsdp", "checkpoint", "tensor", "pipelining"):
        with contextlib.suppress(ImportError, ValueError):
            importlib.import_module(f"torch.distributed.{name}")
    for line in sys.stdin:
        backend, n, *asked = line.split()
        run(int(n), lambda backend=backend, asked=asked: one_rank(backend, asked))
        print(flush=True)


if __name__ == "__main__":
    main()
