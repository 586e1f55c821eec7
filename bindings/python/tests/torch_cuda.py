# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over tutti with tensors of GPUs: every call against a reference, streams, memory, training, and
what goes wrong. Run by tutti run, on any number of GPUs: ranks that share one are staged through the host.

torch_cuda.py [PART...]    without a GPU: one line, and the status of a test that is skipped
"""
import ctypes
import faulthandler
import os
import sys
import time
import warnings
from datetime import timedelta

try:
    ctypes.CDLL("libcuda.so.1")
except OSError:  # said before PyTorch is imported, which takes seconds
    print("SKIPPED: there is no driver of GPUs")
    sys.exit(77)

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from torch import nn  # noqa: E402

if not torch.cuda.is_available():
    print("SKIPPED: PyTorch sees no GPU")
    sys.exit(77)
if torch.cuda.device_count() < int(os.environ.get("LOCAL_WORLD_SIZE", os.environ.get("WORLD_SIZE", "1"))):
    os.environ["TUTTI_SHM_DISABLE"] = "1"  # kernels of ranks that share a GPU would wait for one another's turns

import tutti.torch  # noqa: E402, F401

DEADLINE = int(os.environ.get("TEST_DEADLINE", "300"))  # seconds after which it says where it is, and ends
CYCLES = 400_000_000  # of a GPU: some 0.2 s
MIB = 1 << 20
STAGED = os.environ.get("TUTTI_SHM_DISABLE") == "1"  # calls return when it is over
GPU = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count())
DELAY = torch.cuda._sleep


def same(seen, expected, what):
    seen, expected = torch.as_tensor(seen).cpu(), torch.as_tensor(expected).cpu()
    if seen.shape != expected.shape or not torch.equal(seen.to(expected.dtype), expected):
        sys.exit(f"{what}: {seen}, expected {expected}")


def refused(call, words):
    try:
        call()
    except (RuntimeError, ValueError, NotImplementedError, TypeError) as error:
        if words not in str(error):
            sys.exit(f"the error says \"{error}\", expected \"{words}\"")
        return
    sys.exit(f"nothing was raised, expected \"{words}\"")


def full(shape, value, kind=torch.float32):
    return torch.full(shape if isinstance(shape, tuple) else (shape,), value, device=GPU).to(kind)


def empty(*shape):
    return torch.full(shape, -7.0, device=GPU)


# ---- Calls ----

def types(rank, n):
    kinds = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.uint8,
             torch.int8, torch.complex64, torch.int16)
    for kind in kinds:
        for count in (1, 1000, 300_000):
            x = ((torch.arange(count, device=GPU) % 3) + rank).to(kind)
            dist.all_reduce(x)
            same(x, ((torch.arange(count) % 3) * n + n * (n - 1) // 2).to(kind), f"sum of {count} {kind}")
    for op, expected in ((dist.ReduceOp.MAX, n), (dist.ReduceOp.MIN, 1), (dist.ReduceOp.AVG, (n + 1) / 2),
                         (dist.ReduceOp.PRODUCT, torch.arange(1, n + 1).prod().item())):
        x = full(5, rank + 1.0)
        dist.all_reduce(x, op)
        same(x, [float(expected)] * 5, f"{op}")
        x = full(5, rank + 1.0)
        dist.reduce(x, n - 1, op)
        same(x, [float(expected if rank == n - 1 else rank + 1)] * 5, f"reduce {op}")
    flags = torch.tensor([rank == 0, True, False], device=GPU)
    dist.all_reduce(flags)
    same(flags, [True, True, False], "sum of truth")
    bits = torch.tensor([1 << rank], device=GPU)
    dist.all_reduce(bits, dist.ReduceOp.BOR)
    same(bits, [(1 << n) - 1], "or")
    warnings.simplefilter("ignore")
    sparse = torch.sparse_coo_tensor([[0, rank + 1]], [1.0, 2.0], (n + 1,), device=GPU)
    dist.all_reduce(sparse)
    same(sparse.to_dense(), [float(n)] + [2.0] * n, "sparse")


def movements(rank, n):
    for kind in (torch.float32, torch.bfloat16, torch.bool, torch.int16, torch.complex128):
        x = full(7, rank, kind) if rank == n - 1 else full(7, 0, kind)
        dist.broadcast(x, n - 1)
        same(x, torch.full((7,), n - 1).to(kind), f"broadcast {kind}")
        whole = full((n, 3), 0, kind)
        dist.all_gather_into_tensor(whole, full(3, rank + 1, kind))
        same(whole[:, 2], torch.arange(1, n + 1).to(kind), f"all_gather_into_tensor {kind}")
    parts = [full(4, -1.0) for _ in range(n)]
    dist.all_gather(parts, full(4, float(rank)))
    same(torch.stack(parts)[:, 3], torch.arange(n).float(), "all_gather")
    parts = [empty(r + 1) for r in range(n)]
    dist.all_gather(parts, full(rank + 1, float(rank)))
    for r, part in enumerate(parts):
        same(part, torch.full((r + 1,), float(r)), "all_gather of different sizes")
    parts = [empty(2) for _ in range(n)] if rank == 0 else None
    dist.gather(full(2, float(rank)), parts)
    if rank == 0:
        same(torch.stack(parts)[:, 1], torch.arange(n).float(), "gather")
    mine = empty(2)
    dist.scatter(mine, [full(2, float(10 + r)) for r in range(n)] if rank == 0 else None)
    same(mine, [10.0 + rank] * 2, "scatter")
    mine = empty(3)
    dist.reduce_scatter(mine, [full(3, float(r + rank)) for r in range(n)])
    same(mine, [rank * n + n * (n - 1) / 2] * 3, "reduce_scatter")
    mine = empty(rank + 1)
    dist.reduce_scatter(mine, [full(r + 1, float(rank)) for r in range(n)])
    same(mine, [n * (n - 1) / 2] * (rank + 1), "reduce_scatter of different sizes")
    mine = empty(2)
    dist.reduce_scatter_tensor(mine, torch.arange(2.0 * n, device=GPU), dist.ReduceOp.AVG)
    same(mine, [2.0 * rank, 2.0 * rank + 1], "reduce_scatter_tensor")


def exchanges(rank, n):
    out = [empty(rank + 1) for _ in range(n)]
    dist.all_to_all(out, [full(r + 1, float(rank)) for r in range(n)])
    same(torch.stack(out)[:, 0], torch.arange(n).float(), "all_to_all")
    sent, got = torch.arange(n * 2.0, device=GPU).reshape(n, 2) + 10 * rank, empty(n, 2)
    dist.all_to_all_single(got, sent)
    same(got[:, 0], torch.tensor([10.0 * r + 2 * rank for r in range(n)]), "all_to_all_single")
    counts = [(rank + other) % 3 for other in range(n)]
    sent = torch.cat([full(count, float(10 * rank + other)) for other, count in enumerate(counts)])
    got = empty(sum(counts))
    dist.all_to_all_single(got, sent, counts, counts)
    same(got, torch.cat([torch.full((count,), 10.0 * other + rank) for other, count in enumerate(counts)]),
         "all_to_all_single with splits")
    objects = [None] * n
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(n)], objects
    box = [torch.arange(3, device=GPU) if rank == 0 else None]
    dist.broadcast_object_list(box, 0)
    same(box[0], [0, 1, 2], "an object that holds a tensor of a GPU")


def coalesced(rank, n):
    several = [full(3 + i, float(i)) for i in range(4)]
    with dist.distributed_c10d._coalescing_manager(async_ops=True) as together:
        for x in several:
            dist.all_reduce(x)
    together.wait()
    for i, x in enumerate(several):
        same(x, [float(i * n)] * (3 + i), "all_reduce coalesced")
    outs = [empty(n, 2) for _ in range(3)]
    with dist.distributed_c10d._coalescing_manager():
        for i, out in enumerate(outs):
            dist.all_gather_into_tensor(out, full(2, float(rank + i)))
    for i, out in enumerate(outs):
        same(out[:, 1], torch.arange(n) + float(i), "all_gather coalesced")
    outs = [empty(2) for _ in range(3)]
    with dist.distributed_c10d._coalescing_manager():
        for i, out in enumerate(outs):
            dist.reduce_scatter_tensor(out, full(2 * n, float(i)))
    for i, out in enumerate(outs):
        same(out, [float(i * n)] * 2, "reduce_scatter coalesced")
    with dist.distributed_c10d._coalescing_manager(device=GPU, async_ops=True) as together:
        for x in several:
            dist.broadcast(x, 0)
    together.wait()


def works(rank, n):
    x = full(1000, 1.0)
    work = dist.all_reduce(x, async_op=True)
    doubled = work.get_future().then(lambda f: f.value()[0] * 2)
    same(doubled.wait(), torch.full((1000,), 2.0 * n), "then")
    assert work.wait() and work.result()[0] is x
    torch.cuda.synchronize()
    assert work.is_completed() and work.is_success() and work.exception() is None
    again = dist.all_reduce(full(3, 1.0), async_op=True).get_future().then(  # as the hook PowerSGD of DDP does
        lambda f: dist.all_reduce(f.value()[0], async_op=True).get_future().wait()[0])
    same(again.wait(), [float(n * n)] * 3, "a future in a future")
    done = [dist.all_reduce(full(10, 1.0), async_op=True) for _ in range(50)]
    while not all(w.is_completed() for w in done):
        pass
    assert dist.all_reduce(full(10, 1.0), async_op=True).wait(timedelta(seconds=30))


def messages(rank, n):
    if n == 1:
        return
    right, left, got = (rank + 1) % n, (rank - 1) % n, [empty(500_000), empty(3)]
    late = dist.irecv(got[1], left, tag=2)  # asked for in another order than it comes
    first = dist.irecv(got[0], left, tag=1)
    sends = [dist.isend(full(500_000, float(rank)), right, tag=1), dist.isend(full(3, -1.0), right, tag=2)]
    for work in (late, first, *sends):
        work.wait()
    same(got[0], torch.full((500_000,), float(left)), "tag 1")
    same(got[1], [-1.0] * 3, "tag 2")
    if rank:
        dist.send(torch.tensor([rank], device=GPU), 0, tag=3)
    else:
        box = torch.empty(1, dtype=torch.int64, device=GPU)
        senders = []
        for _ in range(n - 1):
            senders.append(dist.recv(box, tag=3))
            same(box, [senders[-1]], "from any rank")
        assert sorted(senders) == list(range(1, n)), senders
    got = empty(3)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, full(3, float(rank)), right),
                                        dist.P2POp(dist.irecv, got, left)]):
        work.wait()
    same(got, [float(left)] * 3, "a batch of messages")
    if rank == 0:
        for tag in (1, 2, 3):
            dist.send(full(2, float(tag)), 1, tag=tag)
    if rank == 1:
        last, first = empty(2), nn.Parameter(empty(2))
        dist.recv(last, 0, tag=3)
        dist.recv(first, 0, tag=1)
        same(last, [3.0] * 2, "the last message first")
        same(first.detach(), [1.0] * 2, "a message into a parameter, early")
        refused(lambda: dist.recv(empty(1), 0, tag=2), "rank 0 sent 8 bytes with tag 2; the tensor")


# ---- Streams and memory ----

def streams(rank, n):
    """What is issued comes behind the current stream's work, and who waits lets its own stream wait, not the host."""
    side, other = torch.cuda.Stream(GPU), torch.cuda.Stream(GPU)
    dist.all_reduce(full(3, 1.0))  # makes the communicator
    for count in (1000, 4 * MIB):
        x = torch.zeros(count, device=GPU)
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            DELAY(CYCLES)
            x.fill_(rank + 1)
            begun = side.record_event()
            work = dist.all_reduce(x, async_op=True)
        with torch.cuda.stream(other):
            work.wait()
            y = x.clone()
        if not STAGED:
            assert not begun.query(), "the host waited"
            torch.cuda.current_stream().record_event().synchronize()
            assert not begun.query(), "the default stream was held up"
        other.synchronize()
        same(y, torch.full((count,), n * (n + 1) / 2), "on another stream")
    with torch.cuda.stream(side):
        DELAY(CYCLES)
        x = full(1000, rank + 1.0)
        future = dist.all_reduce(x, async_op=True).get_future()
    with torch.cuda.stream(other):
        y = future.wait()[0].clone()
    other.synchronize()
    same(y, torch.full((1000,), n * (n + 1) / 2), "by a future on another stream")
    with torch.cuda.stream(side):
        DELAY(CYCLES)
        box = full(1000, float(rank))
        dist.barrier(device_ids=[GPU.index])
        assert side.query(), "a barrier with device_ids waits for the stream"
        if n > 1:
            DELAY(CYCLES)
            box.fill_(rank + 50)
            got = empty(1000)
            sent, come = dist.isend(box, (rank + 1) % n), dist.irecv(got, (rank - 1) % n)
    if n > 1:
        with torch.cuda.stream(other):
            come.wait()
            y = got.clone()
            sent.wait()
        other.synchronize()
        same(y, torch.full((1000,), 50.0 + (rank - 1) % n), "a message on other streams")


def memory(rank, n):
    """Memory that is let go while the operation runs is not given to others before it has ended."""
    count = 16 * MIB
    for _ in range(3):
        torch.cuda.synchronize()
        dist.barrier()
        if rank == 0:
            DELAY(CYCLES)
        out = torch.zeros(n * count, device=GPU)
        mine = full(count, rank + 1.0)
        work = dist.all_gather_into_tensor(out, mine, async_op=True)
        del mine
        trash = [full(count, -5.0) for _ in range(4)]
        work.wait()
        same(out.view(n, count).amin(1), torch.arange(1.0, n + 1), "memory of an input that was let go, least")
        same(out.view(n, count).amax(1), torch.arange(1.0, n + 1), "memory of an input that was let go, greatest")
        del trash, out
        parts = [torch.zeros(count // 4, device=GPU) for _ in range(n)]  # apart: through memory of the backend's
        work = dist.all_gather(parts, full(count // 4, rank + 1.0), async_op=True)
        trash = [full(n * count // 4, -5.0) for _ in range(4)]
        work.wait()
        for r, part in enumerate(parts):
            same(torch.stack([part.amin(), part.amax()]), [r + 1.0] * 2, "memory in between")
        del trash


def graph(rank, n):
    """A captured operation: kernels alone can be, where each rank has a GPU of its own."""
    if n > torch.cuda.device_count():
        return
    x, out = full(1000, 1.0), empty(1000)
    dist.all_reduce(full(1000, 1.0))
    torch.cuda.synchronize()
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        y = x * 2
        dist.all_reduce(y)
        out.copy_(y)
    for value in (3.0, 4.0):
        x.fill_(value)
        captured.replay()
        same(out, torch.full((1000,), 2 * value * n), "a graph")
    time.sleep(0.2)  # whoever looks after operations in time looks meanwhile


# ---- Frameworks ----

def functional(rank, n):
    import torch.distributed._functional_collectives as fc
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    same(fc.all_reduce(full(3, 1.0), "sum", dist.group.WORLD).wait(), [float(n)] * 3, "functional all_reduce")
    same(fc.all_gather_tensor(torch.tensor([rank], device=GPU), 0, dist.group.WORLD).wait(), list(range(n)),
         "functional all_gather")
    mesh = init_device_mesh("cuda", (n,))
    whole = torch.arange(n * 4.0, device=GPU).reshape(n, 4)
    spread = distribute_tensor(whole, mesh, [Shard(0)])
    same(spread.redistribute(mesh, [Replicate()]).to_local(), whole, "DTensor")
    same((spread @ spread.T).full_tensor(), whole @ whole.T, "product of DTensors")


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.layers = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 4))

    def forward(self, x):
        return self.layers(x)


def inputs_of(step, n):
    torch.manual_seed(step)
    return torch.randn(n * 2, 64).to(GPU)


def steps(model, rows, n, count=5):
    """Steps of a small model with this rank's rows; all ranks' rows together are those of one."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(count):
        optimizer.zero_grad()
        model(inputs_of(step, n)[rows]).square().mean().backward()
        optimizer.step()
    return model


def training(rank, n):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard

    expected = [p.detach() for p in steps(Small().to(GPU), slice(None), n).parameters()]
    rows = slice(rank * 2, rank * 2 + 2)
    mesh = init_device_mesh("cuda", (n,))

    def sharded(model):
        for layer in model.layers:
            if isinstance(layer, nn.Linear):
                fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    for name, wrap in (("DDP", nn.parallel.DistributedDataParallel), ("FSDP2", sharded),
                       ("FSDP1", lambda model: FullyShardedDataParallel(model, use_orig_params=True, device_id=GPU))):
        model = steps(wrap(Small().to(GPU)), rows, n)
        if name == "FSDP1":
            with FullyShardedDataParallel.summon_full_params(model):
                found = [p.detach().clone() for p in model.parameters()]
        else:
            found = [p.full_tensor() if hasattr(p, "full_tensor") else p.detach() for p in model.parameters()]
        for p, right in zip(found, expected):
            assert torch.allclose(p, right, atol=1e-5), f"{name}: {(p - right).abs().max()} off"
    torch.cuda.synchronize()


def pipeline(rank, n):
    if n == 1:
        return
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    torch.manual_seed(5)
    layers = [nn.Linear(6, 6).to(GPU) for _ in range(n)]
    inputs = torch.randn(8, 6).to(GPU)
    stage = PipelineStage(layers[rank], rank, n, GPU)
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    if rank == 0:
        schedule.step(inputs)
    elif rank == n - 1:
        out = schedule.step(target=torch.zeros(8, 6, device=GPU), losses=[])
        assert torch.allclose(out, nn.Sequential(*layers)(inputs), atol=1e-6), "a pipeline's result"
    else:
        schedule.step()
    assert layers[rank].weight.grad is not None


# ---- Groups, and what goes wrong ----

def groups(rank, n):
    pair = dist.new_group(sorted({0, n - 1}))
    if rank in (0, n - 1):
        x = full(5, rank + 1.0)
        dist.all_reduce(x, group=pair)
        same(x, [float(n + 1 if n > 1 else 1)] * 5, "a group of two")
        assert dist.get_backend(pair) == "tutti"
    for backend in ("cpu:tutti,cuda:nccl", "cpu:tutti,cuda:tutti", "cuda:tutti"):
        group = dist.new_group(backend=backend)
        x, y = full(2, 1.0), torch.ones(2)
        dist.all_reduce(x, group=group)
        same(x, [float(n)] * 2, f"{backend}, GPU")
        dist.all_reduce(y, group=group)
        same(y, [float(n)] * 2, f"{backend}, CPU")
    dist.monitored_barrier()
    dist.barrier()


def wrong(rank, n):
    ones = full(4, 1.0)
    for call, words in ((lambda: dist.all_reduce(full((4, 4), 1.0)[:, :2]), "contiguous"),
                        (lambda: dist.all_reduce(torch._neg_view(ones)), "negated"),
                        (lambda: dist.all_reduce(full(3, 1, torch.int16), dist.ReduceOp.AVG), "cannot reduce int16"),
                        (lambda: dist.all_gather_into_tensor(torch.empty(4 * n), ones), ""),
                        (lambda: dist.all_gather_into_tensor(empty(4 * n + 1), ones), "4"),
                        (lambda: dist.reduce_scatter_tensor(empty(3), full(3 * n + 1, 1.0)), "3"),
                        (lambda: dist.broadcast(ones, n), ""),
                        (lambda: dist.broadcast(full(3, 1.0).to_sparse(), 0), "torch.sparse_coo"),
                        (lambda: dist.send(ones, n), ""), (lambda: dist.send(full((4, 4), 1.0)[:, 0], n), ""),
                        (lambda: dist.all_to_all_single(empty(n), full(n, 1.0), [2] * n, [1] * n), "plit")):
        refused(call, words)
        x = full(2, 1.0)
        dist.all_reduce(x)
        same(x, [float(n)] * 2, f"after \"{words}\"")


def limits(rank, n):
    """A call that not all ranks make ends when the group's time is up; the GPU is free, and other groups go on."""
    if n == 1:
        return
    short, waits, lost = (dist.new_group(timeout=timedelta(seconds=s)) for s in (3, 60, 3))
    for group in (short, waits, lost):
        dist.all_reduce(full(3, 1.0), group=group)
    torch.cuda.synchronize()
    if rank == 0:
        if not STAGED:
            work = dist.all_reduce(full(3, 1.0), group=short, async_op=True)
            work.wait()  # the stream's wait, not the host's
            torch.cuda.synchronize()
            refused(work.wait, "Timed out after 3000 ms")
        else:
            refused(lambda: dist.all_reduce(full(3, 1.0), group=short), "Timed out after 3000 ms")
        refused(lambda: dist.all_reduce(full(3, 1.0), group=short), "tutti")
        if not STAGED:
            refused(lambda: dist.all_reduce(full(3, 1.0), group=waits, async_op=True).wait(timedelta(seconds=1)),
                    "Timed out after 1000 ms")
    if rank == 1:
        work = dist.irecv(empty(3), 0, group=lost)
        refused(work.wait, "Timed out after 3000 ms")
    torch.cuda.synchronize()
    x = full(2, 1.0)
    dist.all_reduce(x)
    same(x, [float(n)] * 2, "the other group")
    dist.barrier()


def death(rank, n):
    """The last rank ends without a word: others' calls raise an error that names it, and their GPUs are free."""
    model = nn.parallel.DistributedDataParallel(nn.Linear(4, 1).to(GPU))
    dist.barrier()
    if rank == n - 1:
        for other in range(n - 1):
            dist.send(full(3, 1.0), other)
        torch.cuda.synchronize()
        time.sleep(1)
        os._exit(0)
    dist.recv(empty(3), n - 1)
    start, failed = time.time(), 0

    def endless():
        while time.time() - start < 60:
            model(torch.ones(2, 4, device=GPU)).sum().backward()
            torch.cuda.synchronize()

    for call in (endless, lambda: dist.all_reduce(full(3, 1.0)), lambda: dist.recv(empty(3), n - 1)):
        try:
            call()
        except RuntimeError as error:
            failed += 1
            if failed == 1:
                print(f"rank {rank}: {error}", flush=True)
            if f"rank {n - 1}" not in str(error):
                sys.exit(f"the error does not name the dead rank: {error}")
    if failed != 3:
        sys.exit(f"{failed} of 3 calls failed")
    torch.cuda.synchronize()
    same(full(3, 1.0) + 1, [2.0] * 3, "the GPU")
    print(f"rank {rank} lives, {time.time() - start:.0f} s", flush=True)


PARTS = (types, movements, exchanges, coalesced, works, messages, streams, memory, graph, functional, training,
         pipeline, groups, wrong, limits)


def main():
    chosen = [part for part in (*PARTS, death) if part.__name__ in sys.argv[1:]] or PARTS
    faulthandler.dump_traceback_later(DEADLINE, exit=True)
    torch.set_num_threads(1)
    torch.cuda.set_device(GPU)
    bound = {"device_id": GPU} if os.environ.get("TEST_BOUND") else {}
    dist.init_process_group("tutti", timeout=timedelta(seconds=30 if death in chosen else 120), **bound)
    rank, n = dist.get_rank(), dist.get_world_size()
    for part in chosen:
        start = time.time()
        part(rank, n)
        if rank == 0:
            print(f"{part.__name__}: right on {n} ranks, {time.time() - start:.1f} s", flush=True)
    if death not in chosen:
        dist.barrier()
    dist.destroy_process_group()


main()
