# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own analyzer of Flight Recorder dumps reads what `tutti trace --flight-recorder` writes of ranks of
PyTorch: all calls match, and one that a rank has not made is named.

torch_recorder.py TUTTI: starts itself on 4 ranks, with black boxes in a folder of their own
"""
import array
import collections
import os
import pickle
import subprocess
import sys
import tempfile
from datetime import timedelta

RANKS, LATE, DEADLINE = 4, 2, 200
# What all ranks call together, beside what communicators begin with. A scan goes by the nearest name there is.
EXPECTED = ("all_reduce broadcast reduce all_gather gather scatter _reduce_scatter_base all_to_all all_to_all "
            "all_reduce_barrier all_reduce coalesced").split()


def analyze():
    """What the analyzer says, and the collectives that it has put together."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([os.environ["TUTTI"], "trace", "--pickle", "--flight-recorder", f"{folder}/rank_"], check=True,
                       timeout=DEADLINE)
        analyzer = [sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace"]
        done = subprocess.run([*analyzer, folder, "--prefix", "rank_", "--output", f"{folder}/result"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=DEADLINE)
        assert done.returncode == 0, done.stdout
        with open(f"{folder}/result", "rb") as file:
            return done.stdout, pickle.load(file)[1].collectives


def every_call(torch, dist, pair):
    """Each kind that PyTorch has, in the world and in pairs; and messages."""
    rank, ones = dist.get_rank(), torch.ones(8)
    dist.all_reduce(ones)
    dist.all_reduce(ones, group=pair)
    dist.broadcast(ones, 1)
    dist.reduce(ones, 1)
    dist.all_gather([torch.empty(8) for _ in range(RANKS)], ones)
    dist.gather(ones, [torch.empty(8) for _ in range(RANKS)] if rank == 1 else None, dst=1)
    dist.scatter(ones, [torch.ones(8) for _ in range(RANKS)] if rank == 1 else None, src=1)
    dist.reduce_scatter_tensor(torch.empty(2), ones)
    dist.all_to_all_single(torch.empty(8), ones)
    counts = [(rank + other) % 3 for other in range(RANKS)]
    dist.all_to_all_single(torch.empty(sum(counts)), torch.ones(sum(counts)), counts, counts)
    if rank % 2 == 0:
        dist.send(ones, rank + 1)
    else:
        dist.recv(ones, rank - 1)
    dist.barrier()


def calls_of_the_library(tutti, comm):
    """Those that PyTorch has not."""
    comm.scan(array.array("f", [1, 2]))
    with tutti.group():
        comm.send(array.array("f", [1]), (comm.rank + 1) % RANKS)
        comm.recv(array.array("f", [0]), (comm.rank - 1) % RANKS)


def check_whole():
    said, made = analyze()
    assert all(one.pass_check for one in made), (said, made)
    names = [one.collective_name.removeprefix("nccl:") for one in made if one.expected_ranks == set(range(RANKS))]
    assert not collections.Counter(EXPECTED) - collections.Counter(names), names


def check_late():
    said, _ = analyze()
    assert "Not all ranks joining collective" in said and f"missing ranks: {{{LATE}}}" in said, said


def rank_of_job():
    import torch
    import torch.distributed as dist
    import tutti.torch

    comm = tutti.init()
    dist.init_process_group("tutti", init_method="tutti://", timeout=timedelta(seconds=DEADLINE))
    rank, store = dist.get_rank(), dist.distributed_c10d._get_default_store()

    def come(place):
        store.set(f"{place} {rank}", "")

    def wait_for(place, ranks=range(RANKS)):
        store.wait([f"{place} {other}" for other in ranks])

    with comm:
        every_call(torch, dist, [dist.new_group([0, 1]), dist.new_group([2, 3])][rank // 2])
        calls_of_the_library(tutti, comm)
        come("all made")
        wait_for("all made")
        if rank == LATE:
            check_whole()
        come("analyzed")
        wait_for("analyzed")
    if rank == LATE:
        wait_for("called", set(range(RANKS)) - {LATE})
        check_late()
    work = dist.all_reduce(torch.ones(500), async_op=True)
    come("called")
    work.wait()
    dist.barrier()
    dist.destroy_process_group()
    return 0


def main():
    if "RANK" in os.environ:
        return rank_of_job()
    with tempfile.TemporaryDirectory(prefix="tutti-recorder-") as folder:
        done = subprocess.run([sys.argv[1], "run", "-n", str(RANKS), "--", sys.executable, __file__], timeout=DEADLINE,
                              env={**os.environ, "TUTTI_TRACE_DIR": folder, "TUTTI": os.path.abspath(sys.argv[1])})
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
