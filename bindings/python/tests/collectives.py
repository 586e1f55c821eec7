# SPDX-License-Identifier: Apache-2.0
"""Every call on several ranks against what NumPy says. Run by tutti run."""
import array
import os
import sys
import tempfile
import threading
import time

import numpy

import tutti

TYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")
REDUCE = {"sum": numpy.sum, "prod": numpy.prod, "max": numpy.max, "min": numpy.min}


def input_of(rank, count, kind="float32"):
    """Small whole numbers, other ones on each rank."""
    return ((numpy.arange(count) * 3 + rank * 5) % 4 + 1).astype(kind)


def same(seen, expected, what):
    if not numpy.array_equal(seen, numpy.broadcast_to(expected, numpy.shape(seen))):
        sys.exit(f"{what}: {seen}, expected {expected}")


def reductions(comm):
    n, me = comm.size, comm.rank
    for kind in TYPES:
        inputs = numpy.stack([input_of(r, 5 * n, kind) for r in range(n)])
        for op, fold in REDUCE.items():
            expected = fold(inputs, axis=0, **({"dtype": kind} if op in ("sum", "prod") else {}))
            out = numpy.empty(5 * n, kind)
            comm.allreduce(inputs[me], out, op)
            same(out, expected, f"allreduce {op} {kind}")
            out = inputs[me].copy()
            comm.reduce(out, op=op, root=n - 1)
            same(out, expected if me == n - 1 else inputs[me], f"reduce {op} {kind}")
            out = numpy.empty(5, kind)
            comm.reduce_scatter(inputs[me], out, op)
            same(out, expected[5 * me:5 * me + 5], f"reduce_scatter {op} {kind}")
            out = numpy.empty(5 * n, kind)
            comm.scan(inputs[me], out, op)
            so_far = fold(inputs[:me + 1], axis=0, **({"dtype": kind} if op in ("sum", "prod") else {}))
            same(out, so_far, f"scan {op} {kind}")
            out = inputs[me].copy()
            comm.scan(out, op=op)
            same(out, so_far, f"scan in place {op} {kind}")
            counts = [2 * r % 5 for r in range(n)]  # rank 0 has nothing
            start = sum(counts[:me])
            out = numpy.empty(counts[me], kind)
            comm.reduce_scatterv(inputs[me], out, counts, op=op)
            same(out, expected[start:start + counts[me]], f"reduce_scatterv {op} {kind}")
    mean = numpy.array([me, 2.0 * me])
    comm.allreduce(mean, op="avg")
    same(mean, [(n - 1) / 2, n - 1], "average")
    factor = comm.premul_sum(me + 1, "float64")
    ones = numpy.ones(3)
    comm.allreduce(ones, op=factor)
    factor.destroy()
    same(ones, [n * (n + 1) / 2] * 3, "premul_sum")


def movements(comm):
    n, me = comm.size, comm.rank
    for kind in (*TYPES, "bool", "int16", "complex128", "S3"):  # what cannot be reduced can be moved all the same
        inputs = numpy.stack([input_of(r, 4 * n).astype(kind) for r in range(n)])
        out = numpy.empty((n, 4 * n), kind)
        comm.allgather(inputs[me], out)
        same(out, inputs, f"allgather {kind}")
        out = inputs[me].copy()
        comm.broadcast(out, n - 1)
        same(out, inputs[n - 1], f"broadcast {kind}")
        comm.alltoall(inputs[me], out)
        same(out, numpy.concatenate([i[4 * me:4 * me + 4] for i in inputs]), f"alltoall {kind}")
        out = numpy.zeros((n, 4 * n), kind)
        comm.gather(inputs[me], out if me == 0 else None)
        same(out, inputs if me == 0 else numpy.zeros_like(out), f"gather {kind}")
        out = numpy.empty(4, kind)
        comm.scatter(inputs[0] if me == 0 else None, out)
        same(out, inputs[0][4 * me:4 * me + 4], f"scatter {kind}")
        counts, offsets = [2 * r % 5 for r in range(n)], [5 * r + 1 for r in range(n)]
        out = numpy.zeros(5 * n + 1, kind)
        comm.allgatherv(inputs[me][:counts[me]].copy(), out, counts, offsets)
        expected = numpy.zeros_like(out)
        for r in range(n):
            expected[offsets[r]:offsets[r] + counts[r]] = inputs[r][:counts[r]]
        same(out, expected, f"allgatherv {kind}")
    for kind in ("float32", "complex64"):  # rank r gets r + 1 elements of each
        sent = numpy.concatenate([numpy.full(r + 1, 10 * me + r, kind) for r in range(n)])
        out = numpy.empty(n * (me + 1), kind)
        comm.alltoallv(sent, [r + 1 for r in range(n)], out, [me + 1] * n)
        same(out, numpy.repeat([10 * r + me for r in range(n)], me + 1).astype(kind), f"alltoallv {kind}")


def messages(comm):
    n, me = comm.size, comm.rank
    right, left = (me + 1) % n, (me - 1) % n
    got = numpy.empty(100000)
    with tutti.group():
        comm.send(numpy.full(100000, me, "float64"), right)
        comm.recv(got, left)
    same(got, numpy.full(100000, left), "send and receive in a group")
    if me == 0:
        comm.send(b"a few bytes", 1)
    elif me == 1:
        letters = bytearray(11)
        comm.recv(letters, 0)
        same(list(letters), list(b"a few bytes"), "bytes")


def asynchronous(comm):
    arrays = [numpy.full(1000, comm.rank + i, "int64") for i in range(20)]
    works = [comm.allreduce(a, wait=False) for a in arrays]
    while not works[-1].test():
        pass
    for work in works:
        work.wait(timeout=10)
    for i, a in enumerate(arrays):
        same(a, sum(range(comm.size)) + i * comm.size, f"asynchronous {i}")
    comm.allreduce(numpy.ones(200000), wait=False)  # nobody holds the work, nor the array: they live until it has ended
    for _ in range(20):
        numpy.empty(200000).fill(7)
    comm.barrier()
    with tutti.group():
        first, second = numpy.ones(3), numpy.ones(4)
        comm.allreduce(first)
        comm.allreduce(second, op="prod")
    same(first, comm.size, "allreduce in a group")
    same(second, 1, "the second")


class Lent:
    """What offers its memory by DLPack alone."""

    def __init__(self, thing):
        self.__dlpack__ = lambda: thing.__dlpack__()


def owners(comm):
    n = comm.size
    numbers = array.array("f", [comm.rank, 1])
    comm.allreduce(numbers)
    same(list(numbers), [n * (n - 1) / 2, n], "array.array")
    below = numpy.arange(4, dtype="int32") + comm.rank
    comm.allreduce(Lent(below))
    same(below, numpy.arange(4) * n + n * (n - 1) // 2, "DLPack")
    mapped = numpy.frombuffer(tutti.alloc(8 * 1000), "float64")
    mapped[:] = comm.rank
    comm.allreduce(mapped)
    same(mapped, n * (n - 1) / 2, "memory of the library")
    comm.allreduce(numpy.empty((0, 3)))
    comm.allreduce(memoryview(numbers)[:1])
    same(numbers[0], n * n * (n - 1) / 2, "a slice of a memoryview")


def windows(comm):
    n, me = comm.size, comm.rank
    ahead, behind = (me + 1) % n, (me - 1) % n
    mapped = numpy.frombuffer(tutti.alloc(8 * 1000 * n), "float64").reshape(n, 1000)
    with comm.window(mapped) as window:
        window.put(numpy.full(1000, float(me)), ahead, 8000 * me, signal=2)
        comm.wait_signal(behind, 2)
        same(mapped[behind], behind, "put and signal")
        back = numpy.empty(3)
        window.get(back, ahead, 8000 * me)
        same(back, me, "get")
        comm.barrier()
        with tutti.group():
            for peer in range(n):
                window.put(numpy.full(1, 7.0 + me), peer, 8000 * me)
            window.flush(wait=False)
        comm.synchronize()
        comm.barrier()
        same(mapped[:, 0], numpy.arange(n) + 7, "flush")
        seen = numpy.frombuffer(window.memory(me), "float64")
        same(seen[::1000], numpy.arange(n) + 7, "memory")
        same(window.size(ahead), mapped.nbytes, "size")
        comm.signal(ahead)
        comm.signal(ahead)
        comm.wait_signal(behind, count=2)
        try:
            window.put(back, ahead, mapped.nbytes - 8)
        except tutti.InvalidArgument:
            pass
        else:
            sys.exit("a put behind the end was taken")
    try:
        window.put(back, ahead)
    except tutti.InvalidUsage:
        return
    sys.exit("a closed window was taken")


def children(comm):
    n, me = comm.size, comm.rank
    half = comm.split(me % 2, -me)
    same([half.size, half.rank], [(n + 1 - me % 2) // 2, half.size - 1 - me // 2], "split")
    assert (comm.split(None if me else 0) is None) == (me != 0)
    twin = comm.duplicate(name="twin")
    total = numpy.array([me])
    twin.allreduce(total)
    same(total, n * (n - 1) // 2, "duplicate")
    twin.destroy()
    if me != n - 1:
        rest = comm.shrink([n - 1])
        same([rest.rank, rest.size], [me, n - 1], "shrink")
        rest.destroy()
    grows(comm)
    half.destroy()
    same(comm.local, (me, n), "local")
    assert comm.memory[1] > 0 and comm.error is None


def grows(comm):
    """Each process is a member; the last one's thread is a newcomer, too."""
    n, me, made = comm.size, comm.rank, []
    identity = numpy.zeros(128, numpy.uint8)
    if me == n - 1:
        identity[:] = numpy.frombuffer(comm.unique_id(), numpy.uint8)
    comm.broadcast(identity, n - 1)
    newcomer = threading.Thread(target=lambda: made.append(tutti.init_new(n + 1, identity.tobytes(), n)))
    if me == n - 1:
        newcomer.start()
    made.append(comm.grow(n + 1, identity.tobytes() if me == n - 1 else None))
    if me == n - 1:
        newcomer.join()
    same([grown.size for grown in made], [n + 1] * len(made), "grow")
    totals = [numpy.array([grown.rank]) for grown in made]
    works = [grown.allreduce(total, wait=False) for grown, total in zip(made, totals)]
    for work in works:
        work.wait()
    same(totals, [[n * (n + 1) // 2]] * len(made), "a grown communicator")
    for grown in made:
        grown.destroy()


def told():
    """The pause that the black box of this process has; None: it is over."""
    folder = os.environ.get("TUTTI_TRACE_DIR", "/dev/shm")
    names = [name for name in os.listdir(folder) if name.startswith(f"tutti-{os.getuid()}-{os.getpid()}-")]
    with open(os.path.join(folder, sorted(names)[-1]), "rb") as file:
        page = file.read(4096)
    at = 1024 + 40 * 40  # struct wire_box_expected in the header's page
    return page[at + 24:at + 88].rstrip(b"\0").decode() if page[at + 16:at + 24] != bytes(8) else None


def forked_pause():
    """A forked worker that saves has no communicator of its own: the library would warn of its parent's."""
    child = os.fork()
    if child == 0:
        with tutti.expect_pause("of a child", 5):
            os._exit(len(tutti.comm.living()))
    assert os.waitpid(child, 0)[1] == 0, "a pause of a forked child"


def pauses(comm):
    assert told() is None
    with tutti.expect_pause("evaluation", 60):
        with tutti.expect_pause("checkpoint", 10):
            assert told() == "checkpoint", told()
        assert told() == "evaluation", told()
    assert told() is None
    tutti.expect_pause("by hand")
    assert told() == "by hand"
    tutti.expect_pause(seconds=0)
    assert told() is None
    try:
        tutti.expect_pause(seconds=-1)
    except ValueError as error:
        assert "want 0 to 604800" in str(error)
    else:
        sys.exit("a pause of -1 s was taken")
    forked_pause()
    comm.barrier()


def hears(comm):
    """Rank 0 of this job waits for rank 1, which sends once rank 0 has heard that it waits: longer than
    TUTTI_EVENT_WAIT."""
    path, heard = os.path.join(tempfile.gettempdir(), f"tutti-heard-{os.environ['TUTTI_NONCE']}"), []
    with tutti.Events() as events:
        assert list(events) == [] and events.next(0.01) is None
        mine = numpy.zeros(1, "uint8")
        if comm.rank == 0:
            listener = threading.Thread(target=lambda: (heard.append(events.next(30)), open(path, "w").close()))
            listener.start()
            comm.recv(mine, 1)
            listener.join()
            os.remove(path)
            event = heard[0]
            assert (event.kind, event.rank, event.lane, event.missed) == ("waiting", 1, -1, 0), event
            assert "for rank 1" in event.text and abs(event.time - time.time()) < 60, event
        elif comm.rank == 1:
            end = time.monotonic() + 40
            while not os.path.exists(path) and time.monotonic() < end:
                time.sleep(0.01)
            comm.send(mine, 0)
    try:
        events.next()
    except tutti.InvalidUsage:
        pass
    else:
        sys.exit("closed events were read")
    comm.barrier()


def main():
    os.environ["TUTTI_EVENT_WAIT"] = "100ms"
    with tutti.init(name="python") as comm:
        for part in (reductions, movements, messages, asynchronous, owners, windows, children, pauses, hears):
            part(comm)
        comm.barrier()
        if comm.rank == 0:
            print(f"{comm.size} ranks, tutti {tutti.__version__}: all as NumPy says")


main()
