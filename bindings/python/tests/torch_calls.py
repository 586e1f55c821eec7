# SPDX-License-Identifier: Apache-2.0
"""torch.distributed over tutti: what DDP, FSDP, DTensor and pipelines call, and what goes wrong. 3 or more ranks:
torch_together.py, or tutti run."""
import sys
import time
import warnings
from datetime import timedelta

import torch
import torch.distributed as dist
from torch import nn

import tutti.torch
from tutti.torch.versions import extends_backend


def same(seen, expected, what):
    seen, expected = torch.as_tensor(seen), torch.as_tensor(expected)
    if seen.shape != expected.shape or not torch.equal(seen.to(expected.dtype), expected):
        sys.exit(f"{what}: {seen}, expected {expected}")


def refused(call, words):
    try:
        call()
    except (RuntimeError, ValueError, NotImplementedError) as error:
        if words not in str(error):
            sys.exit(f"the error says \"{error}\", expected \"{words}\"")
        return
    sys.exit(f"nothing was raised, expected \"{words}\"")


def types(rank, n):
    for kind in (torch.float32, torch.bfloat16, torch.int64, torch.uint8, torch.complex64, torch.int16):
        x = torch.full((4, 3), rank + 1).to(kind)
        dist.all_reduce(x)
        same(x, torch.full((4, 3), n * (n + 1) // 2).to(kind), f"sum of {kind}")
    flags = torch.tensor([rank == 0, True, False])
    dist.all_reduce(flags)
    same(flags, [True, True, False], "sum of truth")
    bits = torch.tensor([1 << rank])
    dist.all_reduce(bits, dist.ReduceOp.BOR)
    same(bits, [(1 << n) - 1], "or")
    bits = torch.tensor([3 + (rank & 1)])
    dist.reduce(bits, 1, dist.ReduceOp.BXOR)
    mean = torch.tensor([float(rank)])
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    same(mean, [(n - 1) / 2], "mean")
    warnings.simplefilter("ignore")
    sparse = torch.sparse_coo_tensor([[0, rank + 1]], [1.0, 2.0], (n + 1,))
    dist.all_reduce(sparse)
    same(sparse.to_dense(), [float(n)] + [2.0] * n, "sparse")
    refused(lambda: dist.all_reduce(torch.ones(4, 4)[:, :2]), "contiguous")
    refused(lambda: dist.all_reduce(torch.ones(3, dtype=torch.int16), dist.ReduceOp.AVG),
            "tutti cannot reduce int16 by AVG")


def layouts(rank, n):
    """Dense tensors, in whichever order their elements lie, also in another one on each rank."""
    base = torch.arange(24.0).reshape(1, 2, 3, 4)
    turned = base.permute(3, 1, 2, 0).contiguous().permute(3, 1, 2, 0)
    forms = [base, base.to(memory_format=torch.channels_last), turned]
    for turn in range(2):
        mine = (forms[1] if turn == 0 else forms[rank % 3]).clone()
        dist.all_reduce(mine)
        same(mine, base * n, "all_reduce of another layout")
        mine = (forms[(rank + turn) % 3] * (rank + 1)).clone()
        dist.broadcast(mine, 1)
        same(mine, base * 2, "broadcast of another layout")
        outs = [forms[(r + turn) % 3].clone().zero_() for r in range(n)]
        dist.all_gather(outs, forms[1] + rank)
        for r in range(n):
            same(outs[r], base + r, "all_gather of other layouts")
        got = forms[2].clone().zero_()
        later = dist.irecv(got, (rank - 1) % n)
        dist.send(forms[1] + rank, (rank + 1) % n)
        later.wait()
        same(got, base + (rank - 1) % n, "a message of another layout")
    future = forms[1].clone()
    dist.all_reduce(future, async_op=True).get_future().wait()
    same(future, base * n, "a future of another layout")


def wrong(rank, n):
    """The same sentence on all ranks, before anything is sent."""
    x = torch.ones(2)
    refused(lambda: dist.all_gather([], x), "the list of outputs has 0 tensors; there are")
    refused(lambda: dist.reduce_scatter(x, [x]), "the list of inputs has 1 tensors; there are")
    refused(lambda: dist.all_to_all([x], [x]), "the list of outputs has 1 tensors; there are")
    for kind, op in ((torch.int16, dist.ReduceOp.AVG), (torch.complex64, dist.ReduceOp.MAX),
                     (torch.float32, dist.ReduceOp.BAND), (torch.bool, dist.ReduceOp.AVG)):
        refused(lambda: dist.reduce(torch.ones(3).to(kind), 0, op), "tutti cannot reduce")
        refused(lambda: dist.all_reduce(torch.ones(3).to(kind), op), "reduce")  # for some PyTorch itself


def lists(rank, n):
    parts = [torch.empty(r + 1) for r in range(n)]  # of different sizes
    dist.all_gather(parts, torch.full((rank + 1,), float(rank)))
    for r, part in enumerate(parts):
        same(part, torch.full((r + 1,), float(r)), "all_gather of different sizes")
    flat = torch.empty(n, 2)
    dist.all_gather(list(flat.unbind()), torch.full((2,), float(rank)))
    same(flat[:, 0], torch.arange(n).float(), "all_gather into parts of one tensor")
    mine = torch.empty(rank + 1)
    dist.reduce_scatter(mine, [torch.full((r + 1,), float(rank)) for r in range(n)])
    same(mine, torch.full((rank + 1,), n * (n - 1) / 2), "reduce_scatter of different sizes")
    out = [torch.empty(rank + 1) for _ in range(n)]
    dist.all_to_all(out, [torch.full((r + 1,), float(rank)) for r in range(n)])
    same(torch.stack(out)[:, 0], torch.arange(n).float(), "all_to_all")
    sent, got = torch.arange(n * 2.0).reshape(n, 2) + 10 * rank, torch.empty(n, 2)
    dist.all_to_all_single(got, sent)
    same(got[:, 0], torch.tensor([10.0 * r + 2 * rank for r in range(n)]), "all_to_all_single")
    objects = [None] * n
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": r} for r in range(n)], objects
    several = [torch.full((3,), float(i)) for i in range(4)]
    if torch.__version__ < "2":
        dist.all_reduce_coalesced(several)
    else:
        with dist.distributed_c10d._coalescing_manager(async_ops=True) as together:
            for x in several:
                dist.all_reduce(x)
        together.wait()
    same(torch.stack(several)[:, 0], torch.arange(4.0) * n, "coalesced")


def works(rank, n):
    x = torch.ones(1000)
    work = dist.all_reduce(x, async_op=True)
    doubled = work.get_future().then(lambda f: f.value()[0] * 2)
    same(doubled.wait(), torch.full((1000,), 2.0 * n), "then")
    assert work.wait() and work.is_completed() and work.is_success()
    again = dist.all_reduce(torch.ones(3), async_op=True).get_future().then(  # as the hook PowerSGD of DDP does
        lambda f: dist.all_reduce(f.value()[0], async_op=True).get_future().wait()[0])
    same(again.wait(), [float(n * n)] * 3, "a future in a future")
    done = [dist.all_reduce(torch.ones(10), async_op=True) for _ in range(50)]
    while not all(w.is_completed() for w in done):
        pass
    right, left, got = (rank + 1) % n, (rank - 1) % n, [torch.empty(50000), torch.empty(3)]
    late = dist.irecv(got[1], left, tag=2)  # asked for in another order than it comes
    first = dist.irecv(got[0], left, tag=1)
    sends = [dist.isend(torch.full((50000,), float(rank)), right, tag=1),
             dist.isend(torch.full((3,), -1.0), right, tag=2)]
    for work in (late, first, *sends):
        work.wait()
    same(got[0][-1], float(left), "tag 1")
    same(got[1], [-1.0] * 3, "tag 2")
    if rank:
        dist.send(torch.tensor([rank]), 0)
    else:
        senders = [dist.recv(torch.empty(1, dtype=torch.int64)) for _ in range(n - 1)]
        assert sorted(senders) == list(range(1, n)), senders


def leaves(rank, n):
    """What arrives in parameters is no step of a computation, in whichever thread it arrives."""
    for sizes in ([2] * n, [r + 1 for r in range(n)]):
        parts = [nn.Parameter(torch.zeros(size)) for size in sizes]
        dist.all_gather(parts, torch.full((sizes[rank],), float(rank)))
        for r, part in enumerate(parts):
            same(part.detach(), [float(r)] * sizes[r], "all_gather into parameters")
    parts = [nn.Parameter(torch.zeros(2)) for _ in range(n)]
    with torch.no_grad():
        dist.all_gather(parts, torch.full((2,), float(rank)), async_op=True).get_future().wait()
    same(torch.stack(parts).detach()[:, 0], torch.arange(n).float(), "all_gather into parameters, by a future")


def early(rank, n):
    """Messages that come before they are asked for."""
    if rank == 0:
        for tag in (1, 2, 3):
            dist.send(torch.full((2,), float(tag)), 1, tag=tag)
    if rank == 1:
        last, first = torch.empty(2), nn.Parameter(torch.empty(2))
        dist.recv(last, 0, tag=3)
        dist.recv(first, 0, tag=1)
        same(first.detach(), [1.0] * 2, "a message into a parameter")
        refused(lambda: dist.recv(torch.empty(0), 0, tag=2), "rank 0 sent 8 bytes with tag 2; the tensor")


def batch(rank, n):
    got = torch.empty(3)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, torch.full((3,), float(rank)), (rank + 1) % n),
                                        dist.P2POp(dist.irecv, got, (rank - 1) % n)]):
        work.wait()
    same(got, [float((rank - 1) % n)] * 3, "a batch of messages")


def functional(rank, n):
    try:
        import torch.distributed._functional_collectives as fc
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor
    except ImportError:
        return

    same(fc.all_reduce(torch.ones(3), "sum", dist.group.WORLD).wait(), [float(n)] * 3, "functional all_reduce")
    same(fc.all_gather_tensor(torch.tensor([rank]), 0, dist.group.WORLD).wait(), list(range(n)),
         "functional all_gather")
    mesh = init_device_mesh("cpu", (n,))
    whole = torch.arange(n * 4.0).reshape(n, 4)
    spread = distribute_tensor(whole, mesh, [Shard(0)])
    same(spread.redistribute(mesh, [Replicate()]).to_local(), whole, "DTensor")
    same((spread @ spread.T).full_tensor(), whole @ whole.T, "product of DTensors")
    same(spread.redistribute(mesh, [Shard(1)] if n == 4 else [Replicate()]).full_tensor(), whole,
         "from rows to columns")


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))

    def forward(self, x):
        return self.layers(x)


def steps(model, rank, n):
    """Three steps of a small model; all ranks' inputs together are those of one."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(3):
        torch.manual_seed(step)
        inputs = torch.randn(n * 2, 8)
        loss = model(inputs[rank * 2:rank * 2 + 2]).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return model


def training(rank, n):
    alone = Small()
    optimizer = torch.optim.SGD(alone.parameters(), lr=0.1)
    for step in range(3):
        torch.manual_seed(step)
        optimizer.zero_grad()
        alone(torch.randn(n * 2, 8)).square().mean().backward()
        optimizer.step()
    expected = [p.detach() for p in alone.parameters()]
    for name, wrap in (("DDP", nn.parallel.DistributedDataParallel), ("FSDP", fsdp(n))):
        if wrap is None:
            continue
        model = steps(wrap(Small()), rank, n)
        for p, right in zip(model.parameters(), expected):
            p = p.detach()
            p = p.full_tensor() if hasattr(p, "full_tensor") else p
            assert torch.allclose(p, right, atol=1e-6), f"{name}: {p} instead of {right}"


def fsdp(n):
    try:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
    except ImportError:
        return None
    return lambda model: fully_shard(model, mesh=init_device_mesh("cpu", (n,)))


def pipeline(rank, n):
    try:
        from torch.distributed.pipelining import PipelineStage, ScheduleGPipe
    except ImportError:
        return
    torch.manual_seed(5)
    layers = [nn.Linear(6, 6) for _ in range(n)]
    inputs = torch.randn(8, 6)
    stage = PipelineStage(layers[rank], rank, n, torch.device("cpu"))
    schedule = ScheduleGPipe(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    losses = []
    if rank == 0:
        schedule.step(inputs)
    elif rank == n - 1:
        out = schedule.step(target=torch.zeros(8, 6), losses=losses)
        expected = nn.Sequential(*layers)(inputs)
        assert torch.allclose(out, expected, atol=1e-6), "a pipeline's result"
    else:
        schedule.step()
    assert layers[rank].weight.grad is not None


def groups(rank, n):
    pair = dist.new_group([0, 1])
    if rank < 2:
        x = torch.tensor([rank + 1.0])
        dist.all_reduce(x, group=pair)
        same(x, [3.0], "a group of two")
        assert dist.get_backend(pair) == "tutti" and pair.size() == 2
    dist.monitored_barrier()
    dist.barrier()
    mixed = dist.new_group(backend="cpu:tutti,cuda:gloo") if torch.__version__ >= "2" else dist.new_group()
    x = torch.ones(2)
    dist.all_reduce(x, group=mixed)
    same(x, [float(n)] * 2, "cpu:tutti,cuda:gloo")
    if extends_backend():
        names = [mixed._get_backend(torch.device(kind)).name() for kind in ("cpu", "cuda")]
        assert names == ["tutti", "gloo"], names


def limits(rank, n):
    """A call that not all ranks make ends when the group's time is up; the process lives, and so do other groups."""
    short, slow, gone = (dist.new_group(timeout=timedelta(seconds=s)) for s in (6, 5, 60))  # to come together, too
    start = time.time()
    if rank == 0:
        refused(lambda: dist.all_reduce(torch.ones(3), group=short), "Timed out after 6000 ms: rank")
        assert 5.9 < time.time() - start < 60
        refused(lambda: dist.all_reduce(torch.ones(3), group=short), "tutti")
    if rank == 1:
        refused(lambda: dist.recv(torch.ones(3), 2, group=slow), "5000 ms: rank 2 has not sent the message")
    if rank == 2:
        time.sleep(0.3)
        gone.abort()
    else:
        refused(lambda: dist.all_reduce(torch.ones(3), group=gone), "aborted by rank 2")
    x = torch.ones(2)
    dist.all_reduce(x)
    same(x, [float(n)] * 2, "the other group")
    if rank != 0:
        refused(lambda: dist.new_group(timeout=timedelta(seconds=1)), "rank 0 has not come to the process group")
    dist.barrier()


PARTS = (types, layouts, wrong, lists, works, leaves, early, batch, functional, training, pipeline, groups, limits)


def main():
    torch.set_num_threads(1)
    dist.init_process_group("tutti", timeout=timedelta(seconds=60))
    rank, n = dist.get_rank(), dist.get_world_size()
    for part in PARTS:
        if len(sys.argv) == 1 or part.__name__ in sys.argv[1:]:
            start = time.time()
            part(rank, n)
            if rank == 0:
                print(f"{part.__name__}: {time.time() - start:.1f} s", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
