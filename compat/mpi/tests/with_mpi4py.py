# SPDX-License-Identifier: Apache-2.0
"""mpi4py as PyPI has it, on tutti: what its tutorial shows, contents checked. One rank of a job."""
import sys

import numpy as np
from mpi4py import MPI

comm = MPI.COMM_WORLD
me, size = comm.rank, comm.size
right, left = (me + 1) % size, (me - 1) % size


def check(condition, *words):
    if not condition:
        print(f"rank {me}:", *words, flush=True)
        MPI.COMM_WORLD.Abort(1)


def objects():
    """Pickled ones, of any size."""
    big = {"rank": me, "data": list(range(50000))}
    request = comm.isend(big, right, tag=11)
    got = comm.recv(source=MPI.ANY_SOURCE, tag=11)
    request.wait()
    check(got["rank"] == left and got["data"][-1] == 49999, "objects", got["rank"])
    check(comm.sendrecv(me, right, source=left) == left, "sendrecv")
    check(comm.bcast({"key": [1, 2]} if me == 0 else None) == {"key": [1, 2]}, "bcast")
    check(comm.scatter([i * i for i in range(size)] if me == 0 else None) == me * me, "scatter")
    check(comm.gather(me) == (list(range(size)) if me == 0 else None), "gather")
    check(comm.allgather(str(me)) == [str(i) for i in range(size)], "allgather")
    check(comm.alltoall([me * 10 + i for i in range(size)]) == [i * 10 + me for i in range(size)], "alltoall")
    check(comm.allreduce(me) == size * (size - 1) // 2, "allreduce")
    check(comm.allreduce((me, "x"), op=MPI.MAX) == (size - 1, "x"), "allreduce of objects")
    check(comm.scan(1) == me + 1 and comm.reduce(1) == (size if me == 0 else None), "scan, reduce")


def buffers():
    mine, theirs = np.full(1000, me, "i4"), np.empty(1000, "i4")
    requests = [comm.Isend(mine, right, tag=1), comm.Irecv(theirs, left, tag=1)]
    MPI.Request.Waitall(requests)
    check((theirs == left).all(), "Isend, Irecv")
    status = MPI.Status()
    request = comm.Isend([mine, 3, MPI.INT], right, tag=2)
    comm.Probe(MPI.ANY_SOURCE, MPI.ANY_TAG, status)
    check(status.Get_source() == left and status.Get_tag() == 2 and status.Get_count(MPI.INT) == 3, "Probe")
    comm.Recv(theirs, MPI.ANY_SOURCE, MPI.ANY_TAG, status)
    index = MPI.Request.Waitany([request])
    check(index == 0 and status.Get_count(MPI.INT) == 3, "Recv with wildcards")
    comm.Sendrecv_replace(mine, right, source=left)
    check((mine == left).all(), "Sendrecv_replace")
    long = np.full(1 << 18, me, "f8")
    got = np.empty_like(long)
    request = comm.Issend(long, right)
    comm.Recv(got, left)
    request.Wait()
    check((got == left).all(), "Issend")


def collectives():
    for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8", "c8", "c16"):
        mine, total = np.full(7, me + 1, kind), np.empty(7, kind)
        comm.Allreduce(mine, total)
        check((total == size * (size + 1) // 2).all(), "Allreduce", kind, total)
        comm.Allreduce(MPI.IN_PLACE, mine)
        check((mine == total).all(), "in place", kind)
        every = np.empty((size, 7), kind)
        comm.Allgather(np.full(7, me, kind), every)
        check((every == np.arange(size)[:, None]).all(), "Allgather", kind)
        comm.Alltoall(np.arange(size).astype(kind), out := np.empty(size, kind))
        check((out == me).all(), "Alltoall", kind)
    for op, expected in ((MPI.MAX, size), (MPI.MIN, 1), (MPI.BOR, (1 << size) - 1)):
        out = np.zeros(1, "i4")
        comm.Reduce(np.array([1 << me if op == MPI.BOR else me + 1], "i4"), out, op=op, root=size - 1)
        check(me != size - 1 or out[0] == expected, "Reduce", out, expected)
    comm.Bcast(text := bytearray(b"hello" if me == 0 else b"....."))
    check(text == b"hello", "Bcast", text)
    counts = [i + 1 for i in range(size)]
    all = np.empty(sum(counts), "f4")
    comm.Allgatherv(np.full(me + 1, me, "f4"), [all, counts])
    check((all == np.repeat(np.arange(size), counts)).all(), "Allgatherv", all)
    out = np.empty(sum(counts), "f4") if me == 0 else None
    comm.Gatherv(np.full(me + 1, me, "f4"), [out, counts] if me == 0 else None)
    check(me != 0 or (out == all).all(), "Gatherv", out)
    part = np.empty(me + 1, "f4")
    comm.Scatterv([all, counts] if me == 0 else None, part)
    check((part == me).all(), "Scatterv", part)
    comm.Alltoallv([np.arange(size, dtype="i4"), [1] * size], [got := np.empty(size, "i4"), [1] * size])
    check((got == me).all(), "Alltoallv", got)
    comm.Reduce_scatter_block(np.arange(size, dtype="f8"), block := np.empty(1))
    check(block[0] == me * size, "Reduce_scatter_block", block)
    comm.Exscan(np.array([me + 1]), before := np.zeros(1, int))
    check(before[0] == me * (me + 1) // 2, "Exscan", before)
    mine = MPI.Op.Create(lambda a, b, kind: b.__setitem__(slice(None), bytes(map(max, bytes(a), bytes(b)))), True)
    comm.Allreduce(np.array([me], "u1"), out := np.zeros(1, "u1"), op=mine)
    check(out[0] == size - 1, "an operator of the program", out)
    mine.Free()
    request = comm.Iallreduce(np.ones(3), out := np.zeros(3))
    request.Wait()
    check((out == size).all(), "Iallreduce")
    comm.Ibarrier().Wait()


def communicators():
    half = comm.Split(me % 2, me)
    check(half.size == (size + 1 - me % 2) // 2 and half.rank == me // 2, "Split", half.rank, half.size)
    check(half.allreduce(me) == sum(range(me % 2, size, 2)), "allreduce of a part")
    half.Free()
    key = MPI.Comm.Create_keyval(copy_fn=True)
    comm.Set_attr(key, ["kept"])
    twin = comm.Dup()
    twin.Set_name("twin")
    check(twin.Get_name() == "twin" and MPI.Comm.Compare(comm, twin) == MPI.CONGRUENT, "Dup")
    check(twin.Get_attr(key) == ["kept"] and comm.Get_attr(MPI.TAG_UB) > 32767, "attributes")
    twin.Free()
    near = comm.Split_type(MPI.COMM_TYPE_SHARED)
    check(near.size == size, "Split_type")
    group = comm.Get_group().Incl(range(0, size, 2))
    made = comm.Create(group)
    check((made != MPI.COMM_NULL) == (me % 2 == 0), "Create")
    check(made == MPI.COMM_NULL or made.allreduce(1) == group.size, "allreduce of a group")
    check(MPI.COMM_SELF.allreduce(5) == 5, "COMM_SELF")


def refusals():
    for call, kind in ((lambda: comm.Send(np.ones(1), size), MPI.ERR_RANK),
                       (lambda: comm.Create_cart([size]), MPI.ERR_UNSUPPORTED_OPERATION),
                       (lambda: MPI.Win.Allocate(8, comm=comm), MPI.ERR_UNSUPPORTED_OPERATION)):
        try:
            call()
            check(False, "a wrong call passed")
        except MPI.Exception as error:
            check(error.Get_error_class() == kind, error)
    request = comm.Isend(np.ones(4), me)
    try:
        comm.Recv(np.ones(2), me)
        check(False, "a message that is too long was received")
    except MPI.Exception as error:
        check(error.Get_error_class() == MPI.ERR_TRUNCATE, error)
    request.Wait()


check("tutti" in MPI.Get_library_version(), "mpi4py runs on", MPI.Get_library_version())
for part in (objects, buffers, collectives, communicators, refusals):
    part()
    comm.Barrier()
if me == 0:
    print(f"{size} ranks, {MPI.Get_library_version()}: right", flush=True)
sys.stdout.flush()
