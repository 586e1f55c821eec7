# SPDX-License-Identifier: Apache-2.0
"""Every call of the package on memory of GPUs against what NumPy says. Run by tutti run, on GPUs or on the stand-in
driver.

cuda_arrays.py interface|dlpack|cupy|torch: whose arrays: our own, of memory of the driver, with
__cuda_array_interface__ or by DLPack alone; CuPy's; PyTorch's. Ranks that share a GPU are staged through the host.
"""
import ctypes
import faulthandler
import os
import sys

import numpy

RANK = int(os.environ.get("LOCAL_RANK", "0"))
KIND = sys.argv[1]
DRIVER = ctypes.CDLL(os.environ.get("TUTTI_CUDA_LIBRARY") or "libcuda.so.1")
DLPACK_CUDA, DLPACK_CODES = 2, {"i": 0, "u": 1, "f": 2, "b": 6, "c": 5}
HOLD_BYTES = 4 << 20  # that a stream copies, 20 times over, before it writes: a long time
TYPES = ("int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")
DEADLINE = int(os.environ.get("TEST_DEADLINE", "100"))  # seconds after which it says where it is, and ends
REDUCE = {"sum": numpy.sum, "prod": numpy.prod, "max": numpy.max, "min": numpy.min}


def call(name, *arguments):
    code = getattr(DRIVER, name)(*arguments)
    if code:
        sys.exit(f"{name}: {code}")


def start_driver():
    """The number of devices; the rank's own is current in this thread."""
    count, device, context = ctypes.c_int(), ctypes.c_int(), ctypes.c_void_p()
    call("cuInit", 0)
    call("cuDeviceGetCount", ctypes.byref(count))
    call("cuDeviceGet", ctypes.byref(device), RANK % count.value)
    call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
    call("cuCtxSetCurrent", context)
    return count.value


COUNT = start_driver()
GPU = RANK % COUNT
if COUNT < int(os.environ.get("LOCAL_WORLD_SIZE", "1")):
    os.environ["TUTTI_SHM_DISABLE"] = "1"  # kernels of ranks that share a GPU would wait for one another's turns

import tutti  # noqa: E402


def make_stream():
    stream = ctypes.c_void_p()
    call("cuStreamCreate", ctypes.byref(stream), 1)  # it is not held up by the default stream
    return stream.value


class Interface:
    """Memory of the driver that offers __cuda_array_interface__."""

    stream = None  # of those that are made from here on

    def __init__(self, values):
        self.shape, self.dtype, self.nbytes = values.shape, values.dtype, values.nbytes
        self.address = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(max(self.nbytes, 1)))
        self.device = type("Device", (), {"id": GPU})
        self.stream = Interface.stream
        values = numpy.ascontiguousarray(values)
        call("cuMemcpyHtoD_v2", self.address, ctypes.c_void_p(values.ctypes.data), ctypes.c_size_t(self.nbytes))

    @property
    def __cuda_array_interface__(self):
        return {"shape": self.shape, "typestr": self.dtype.str, "data": (self.address.value, False), "version": 3,
                "stream": self.stream}

    def read(self):
        call("cuCtxSynchronize")
        values = numpy.empty(self.shape, self.dtype)
        call("cuMemcpyDtoH_v2", ctypes.c_void_p(values.ctypes.data), self.address, ctypes.c_size_t(self.nbytes))
        return values

    def __del__(self):
        DRIVER.cuMemFree_v2(self.address)


class Managed(ctypes.Structure):
    """DLManagedTensor of dlpack.h."""

    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("device_id", ctypes.c_int32),
                ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8),
                ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.c_void_p),
                ("byte_offset", ctypes.c_uint64), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


class Lent:
    """The same memory, by DLPack alone."""

    def __init__(self, values):
        self.below = Interface(values)
        self.read = self.below.read

    def __dlpack_device__(self):
        return DLPACK_CUDA, GPU

    def __dlpack__(self, stream=None):
        assert stream == 1, f"the stream that waits for the owner's is {stream}"
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        kind = self.below.dtype
        self.shape = (ctypes.c_int64 * len(self.below.shape))(*self.below.shape)
        self.managed = Managed(self.below.address.value, DLPACK_CUDA, GPU, len(self.shape), DLPACK_CODES[kind.kind],
                               8 * kind.itemsize, 1, self.shape, None, 0, None, None)
        return new(ctypes.addressof(self.managed), b"dltensor", None)


def of_cupy(values):
    import cupy
    cupy.cuda.Device(GPU).use()
    return cupy.asarray(values)


def of_torch(values):
    import torch
    return torch.from_numpy(numpy.array(values)).to(torch.device("cuda", GPU))


def read(thing):
    if hasattr(thing, "read"):
        return thing.read()
    return thing.cpu().numpy() if KIND == "torch" else thing.get()


put = {"interface": Interface, "dlpack": Lent, "cupy": of_cupy, "torch": of_torch}[KIND]


def blank(shape, kind):
    return put(numpy.full(shape, 77, kind))


def input_of(rank, count, kind="float32"):
    """Small whole numbers, other ones on each rank."""
    return ((numpy.arange(count) * 3 + rank * 5) % 4 + 1).astype(kind)


def same(seen, expected, what):
    seen = seen if isinstance(seen, numpy.ndarray) else read(seen)
    if not numpy.array_equal(seen, numpy.broadcast_to(expected, numpy.shape(seen))):
        sys.exit(f"{what}: {seen}, expected {expected}")


def reductions(comm):
    n, me = comm.size, comm.rank
    for kind in TYPES:
        inputs = numpy.stack([input_of(r, 5 * n, kind) for r in range(n)])
        for op, fold in REDUCE.items():
            exact = {"dtype": kind} if op in ("sum", "prod") else {}
            expected = fold(inputs, axis=0, **exact)
            out = blank(5 * n, kind)
            comm.allreduce(put(inputs[me]), out, op)
            same(out, expected, f"allreduce {op} {kind}")
            out = put(inputs[me])
            comm.reduce(out, op=op, root=n - 1)
            same(out, expected if me == n - 1 else inputs[me], f"reduce {op} {kind}")
            out = blank(5, kind)
            comm.reduce_scatter(put(inputs[me]), out, op)
            same(out, expected[5 * me:5 * me + 5], f"reduce_scatter {op} {kind}")
        counts = [2 * r % 5 for r in range(n)]  # rank 0 has nothing
        start = sum(counts[:me])
        out = blank(counts[me], kind)
        comm.reduce_scatterv(put(inputs[me]), out, counts)
        total = inputs.sum(axis=0, dtype=kind)
        same(out, total[start:start + counts[me]], f"reduce_scatterv {kind}")
    factor = comm.premul_sum(me + 1, "float64")
    ones = put(numpy.ones(3))
    comm.allreduce(ones, op=factor)
    comm.allreduce(ones, op="avg")
    same(ones, n * (n + 1) / 2, "premul_sum, then the average")
    factor.destroy()


def movements(comm):
    n, me = comm.size, comm.rank
    for kind in ("float32", "uint8", "int16", "bool", "complex128"):  # not all of these can be reduced
        inputs = numpy.stack([input_of(r, 4 * n).astype(kind) for r in range(n)])
        out = blank((n, 4 * n), kind)
        comm.allgather(put(inputs[me]), out)
        same(out, inputs, f"allgather {kind}")
        out = put(inputs[me])
        comm.broadcast(out, n - 1)
        same(out, inputs[n - 1], f"broadcast {kind}")
        out = blank(4 * n, kind)
        comm.alltoall(put(inputs[me]), out)
        same(out, numpy.concatenate([i[4 * me:4 * me + 4] for i in inputs]), f"alltoall {kind}")
        out = blank((n, 4 * n), kind)
        comm.gather(put(inputs[me]), out if me == 0 else None)
        same(out, inputs if me == 0 else numpy.full((n, 4 * n), 77, kind), f"gather {kind}")
        out = blank(4, kind)
        comm.scatter(put(inputs[0]) if me == 0 else None, out)
        same(out, inputs[0][4 * me:4 * me + 4], f"scatter {kind}")
        counts = [2 * r % 5 for r in range(n)]
        out = blank(sum(counts), kind)
        comm.allgatherv(put(inputs[me][:counts[me]]), out, counts)
        same(out, numpy.concatenate([i[:c] for i, c in zip(inputs, counts)]), f"allgatherv {kind}")
        sent = numpy.concatenate([numpy.full(r + 1, me % 2, kind) for r in range(n)])
        out = blank(n * (me + 1), kind)
        comm.alltoallv(put(sent), [r + 1 for r in range(n)], out, [me + 1] * n)
        same(out, numpy.repeat([r % 2 for r in range(n)], me + 1).astype(kind), f"alltoallv {kind}")
    comm.barrier()


def dynamic(comm):
    """Rank r's split e has r + e rows and goes to rank e; there and back."""
    n, me = comm.size, comm.rank
    rows, splits = 3 * n * n, numpy.arange(n) + me
    sent = numpy.arange(rows * 5, dtype="float32") + 1000 * me
    recv, told, back = blank(n * rows * 5, "float32"), blank(n * n, "int64"), blank(rows * 5, "float32")
    ones = put(numpy.ones(n, "int64"))
    send, lengths, indices = put(sent), put(splits.astype("int64")), put(numpy.arange(n, dtype="int64"))
    again = put(numpy.arange(n, dtype="int64") * n + me)
    comm.alltoallv_dynamic(send, recv, lengths, ones, indices, row=5, recv_splits=told)
    comm.alltoallv_dynamic(recv, back, told, ones, again, row=5, windows=n, merged=True)
    same(told, numpy.concatenate([numpy.arange(n) + r for r in range(n)]), "lengths of all ranks")
    wanted = numpy.full((n, rows * 5), 77, "float32")
    for r in range(n):
        ends = 5 * numpy.cumsum(numpy.arange(n) + r)
        begin = ends[me] - 5 * (r + me)
        wanted[r, begin:ends[me]] = numpy.arange(rows * 5)[begin:ends[me]] + 1000 * r
    same(recv, wanted.ravel(), "alltoallv_dynamic")
    same(back, numpy.where(numpy.arange(rows * 5) < 5 * splits.sum(), sent, 77), "what has come back")
    refused(ValueError, lambda: comm.alltoallv_dynamic(send, recv, lengths, ones, indices, row=7), "rows of 7")
    refused(TypeError, lambda: comm.alltoallv_dynamic(send, recv, send, ones, indices, row=5), "must be int64")
    refused(ValueError, lambda: comm.alltoallv_dynamic(send, recv, lengths, told, ones, row=5), "index_counts has")


def windows(comm):
    n, me = comm.size, comm.rank
    ahead, behind = (me + 1) % n, (me - 1) % n
    mine, out, row = blank(1000 * n, "float64"), blank(1000, "float64"), put(numpy.full(1000, float(me)))
    with comm.window(mine) as window:
        window.put(row, ahead, 8000 * me, signal=2)
        comm.wait_signal(behind, 2)
        comm.synchronize()
        same(read(mine)[1000 * behind:1000 * behind + 1000], behind, "put and signal")
        window.get(out, ahead, 8000 * me)
        same(out, me, "get")
        comm.barrier()
        with tutti.group():
            for peer in range(n):
                window.put(row, peer, 8000 * me)
            window.flush()
        comm.barrier()
        comm.synchronize()
        same(mine, numpy.repeat(numpy.arange(n), 1000), "puts in a group, and a flush")
        theirs = window.memory(ahead)
        if theirs.__cuda_array_interface__["shape"] != (8000 * n,) or window.size(ahead) != 8000 * n:
            sys.exit("memory of a peer")
        refused(tutti.InvalidArgument, lambda: window.put(row, ahead, 8000 * n - 8), "part of the window")
    refused(tutti.InvalidUsage, lambda: window.put(row, ahead), "closed")


def messages(comm):
    n, me = comm.size, comm.rank
    right, left = (me + 1) % n, (me - 1) % n
    for count in (10, 300_000):
        got, mine = blank(count, "float64"), put(numpy.full(count, me, "float64"))
        with tutti.group():
            comm.send(mine, right)
            comm.recv(got, left)
        same(got, float(left), f"{count} elements in a group")


def streams(comm):
    """A call comes behind what the buffers' owners have to write on a stream of theirs."""
    n, me = comm.size, comm.rank
    theirs, ours = make_stream(), make_stream()
    room = [ctypes.c_uint64(), ctypes.c_uint64()]
    for place in room:
        call("cuMemAlloc_v2", ctypes.byref(place), ctypes.c_size_t(HOLD_BYTES))
    for stream in (None, ours):
        Interface.stream = theirs
        mine, out = Interface(numpy.zeros(1000, "uint32")), Interface(numpy.zeros(1000, "uint32"))
        for _ in range(20):
            call("cuMemcpyDtoDAsync_v2", room[0], room[1], ctypes.c_size_t(HOLD_BYTES), ctypes.c_void_p(theirs))
        call("cuMemsetD32Async", mine.address, ctypes.c_uint(me + 1), ctypes.c_size_t(1000), ctypes.c_void_p(theirs))
        comm.allreduce(mine, out, stream=stream)
        same(out, n * (n + 1) // 2, f"an input that was written on another stream than {stream}")
    Interface.stream = None
    for place in room:
        call("cuMemFree_v2", place)


def refused(kind, thing, words):
    try:
        thing()
    except kind as error:
        if words not in str(error):
            sys.exit(f"the error says \"{error}\", expected \"{words}\"")
        return
    sys.exit(f"nothing was raised, expected \"{words}\"")


def wrong(comm):
    ones = put(numpy.ones(4, "float32"))
    refused(ValueError, lambda: comm.allreduce(numpy.ones(4)), "memory of the host, but the communicator is for CUDA")
    refused(TypeError, lambda: comm.allreduce(ones, blank(4, "float64")), "of type float32")
    refused(ValueError, lambda: comm.allgather(ones, blank(3, "float32")), "elements")
    refused(TypeError, lambda: comm.allreduce(blank(4, "complex64")), "cannot be reduced")
    refused(tutti.Error, lambda: comm.broadcast(ones, root=comm.size), "not in this communicator")
    refused(tutti.InvalidUsage, lambda: comm.scan(ones), "scan is not built for GPUs")
    host = tutti.init_all(1)[0]
    refused(ValueError, lambda: host.allreduce(ones), f"is in memory of CUDA device {GPU}")
    host.destroy()
    comm.allreduce(ones)
    same(ones, comm.size, "after what was wrong")


def children(comm):
    half = comm.split(comm.rank % 2, comm.rank)
    ones = put(numpy.ones(5))
    half.allreduce(ones)
    same(ones, half.size, "a part of the ranks")
    half.destroy()


def main():
    faulthandler.dump_traceback_later(DEADLINE, exit=True)
    with tutti.init(name="arrays", device=GPU) as comm:
        parts = (reductions, movements, messages, wrong, children)
        if not comm.staged:
            parts = (*parts, dynamic, windows)
        for part in (*parts, streams) if KIND == "interface" else parts:
            part(comm)
        comm.barrier()
        comm.synchronize()
        if comm.rank == 0:
            print(f"{comm.size} ranks on {COUNT} GPUs, {KIND}: all as NumPy says")


main()
