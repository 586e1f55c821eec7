# SPDX-License-Identifier: Apache-2.0
"""What is wrong is refused by the exception and the words that say what, and nothing happens otherwise. One process."""
import array
import ctypes
import mmap
import os
import pickle
import subprocess
import sys
import threading
import traceback
import typing

import numpy

import tutti


class Device:
    """Memory of a GPU, as CuPy shows it."""

    __cuda_array_interface__ = {"shape": (2,), "typestr": "<f4", "data": (4096, False), "version": 3}


class FrozenDevice:
    """The same, which nobody may write."""

    __cuda_array_interface__ = {"shape": (2,), "typestr": "<f4", "data": (4096, True), "version": 3}


new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype, new_capsule.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


class Lent:
    """Four numbers by DLPack alone, of version 1."""

    def __init__(self, flags=0, version=1):
        self.numbers, self.shape = (ctypes.c_float * 4)(1, 2, 3, 4), (ctypes.c_int64 * 1)(4)
        tensor = tutti._buffers._DLTensor(ctypes.addressof(self.numbers), 1, 0, 1, 2, 32, 1, self.shape, None, 0)
        self.managed = tutti._buffers._DLVersioned(version, 0, None, None, flags, tensor)

    def __dlpack__(self, stream=None, max_version=None):
        assert max_version == (1, 0), max_version
        return new_capsule(ctypes.addressof(self.managed), b"dltensor_versioned", None)


class OldArray:
    """An array of a library whose arrays never change; its capsules are of the kind that cannot say so."""

    __module__ = "jaxlib.something"

    def __init__(self):
        self.lent = Lent()

    def __dlpack__(self, stream=None):
        return new_capsule(ctypes.addressof(self.lent.managed.tensor), b"dltensor", None)


def readers(comm):
    """What may not be written can be sent, and is what it was before."""
    frozen = numpy.arange(1, 5, dtype="float32")
    frozen.flags.writeable = False
    for thing in (frozen, memoryview(frozen), Lent(1), Lent(2), OldArray(), Lent()):
        seen = numpy.zeros(4, "float32")
        comm.allreduce(thing, seen)
        if list(seen) != [1, 2, 3, 4]:
            return f"{thing} was read as {seen}"
        comm.broadcast(thing)
    one = numpy.zeros(1, "float32")
    comm.allreduce(numpy.float32(7), one)
    written = Lent()
    comm.allreduce(frozen, written)
    return None if one[0] == 7 and list(written.numbers) == [1, 2, 3, 4] else "a scalar, or DLPack, is wrong"


def cases(comm):
    ones, frozen = numpy.ones(4, "float32"), numpy.ones(4, "float32")
    frozen.flags.writeable = False
    return [
        (lambda: comm.allreduce(numpy.ones((4, 4))[:, 0]), ValueError, "not contiguous"),
        (lambda: comm.allreduce(numpy.asfortranarray(numpy.ones((4, 4)))), ValueError, "not contiguous"),
        (lambda: comm.allreduce(memoryview(bytearray(8))[::2]), ValueError, "not contiguous"),
        (lambda: comm.allreduce(3.0), TypeError, "send is a float: neither a buffer"),
        (lambda: comm.allreduce([1, 2]), TypeError, "send is a list"),
        (lambda: comm.allreduce(numpy.array([None])), TypeError, "Python objects"),
        (lambda: comm.allreduce(numpy.ones(3, ">f8")), TypeError, "byte order"),
        (lambda: comm.allreduce(numpy.ones(3, "complex64")), TypeError, "complex64 cannot be reduced"),
        (lambda: comm.allreduce(numpy.ones(3, "int16")), TypeError, "int16 cannot be reduced"),
        (lambda: comm.allreduce(ones, numpy.ones(4)), TypeError, "send is of type float32, recv of float64"),
        (lambda: comm.allreduce(ones, numpy.ones(5, "float32")), ValueError, "recv 5; with 1 ranks recv must have 4"),
        (lambda: comm.allreduce(frozen), ValueError, "send is read-only"),
        (lambda: comm.allreduce(ones, b"1234"), ValueError, "recv is read-only"),
        (lambda: comm.allreduce(memoryview(ones).toreadonly()), ValueError, "send is read-only (memoryview)"),
        (lambda: comm.recv(mmap.mmap(-1, 16, prot=mmap.PROT_READ), 0), ValueError, "buffer is read-only (mmap)"),
        (lambda: comm.recv(b"1234", 0), ValueError, "buffer is read-only (bytes)"),
        (lambda: comm.recv(numpy.float32(1), 0), ValueError, "buffer is read-only (float32)"),
        (lambda: comm.recv(FrozenDevice(), 0), ValueError, "buffer is read-only (FrozenDevice)"),
        (lambda: comm.allreduce(Lent(1)), ValueError, "send is read-only (Lent)"),
        (lambda: comm.allreduce(ones, Lent(1)), ValueError, "recv is read-only (Lent), and the call writes to it"),
        (lambda: comm.allreduce(ones, Lent(2)), ValueError, "recv is read-only (Lent)"),
        (lambda: comm.allreduce(Lent(0, 2)), TypeError, "capsule of version 2.0; version 1 was asked for"),
        (lambda: comm.allreduce(OldArray()), ValueError, "send is read-only (OldArray)"),
        (lambda: comm.scatter(ones, OldArray()), ValueError, "recv is read-only (OldArray)"),
        (lambda: comm.allreduce(ones, op="xor"), ValueError, "no operator 'xor'"),
        (lambda: comm.allreduce(Device()), ValueError, "memory of CUDA device 0, but the communicator is for the host"),
        (lambda: comm.gather(ones), TypeError, "recv is None"),
        (lambda: comm.broadcast(ones, 1), tutti.InvalidArgument, "rank 1 is not in this communicator of 1 ranks"),
        (lambda: comm.broadcast(ones, -1), ValueError, "rank -1"),
        (lambda: comm.send(ones, 7), tutti.InvalidArgument, "rank 7"),
        (lambda: comm.alltoallv(ones, [5], ones, [4]),
         ValueError, "5 elements at 0 for rank 0 do not lie within its 4"),
        (lambda: comm.alltoallv(ones, [1, 2], ones, [4]), ValueError, "2 counts"),
        (lambda: comm.scan(ones, op="avg"), tutti.InvalidUsage, "no average"),
        (lambda: comm.allgatherv(ones, ones, [3]), ValueError, "send has 4 elements; the block of rank 0 has 3"),
        (lambda: comm.allgatherv(ones, ones, [4], [1]), ValueError, "4 elements at 1 for rank 0"),
        (lambda: comm.reduce_scatterv(ones, numpy.ones(4), [4]), TypeError, "recv is of type float64, send of float32"),
        (lambda: comm.reduce_scatterv(ones, ones, [2, 2]), ValueError, "2 counts"),
        (lambda: comm.premul_sum(2, "complex64"), TypeError, "no type 'complex64'"),
        (lambda: comm.split(-1), ValueError, "color is -1; colors are 0 or more"),
        (lambda: tutti.init_rank(1, b"short", 0), ValueError, "5 bytes"),
        (half_started, tutti.InvalidUsage, "MASTER_ADDR is set, but nothing tells this process its rank"),
    ]


def half_started():
    """A launcher that has set one of its variables, or a user who forgot the others."""
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    try:
        tutti.init()
    finally:
        del os.environ["MASTER_ADDR"]


def alone(_):
    """No launcher: as an MPI program, the process is rank 0 of 1."""
    comm = tutti.init()
    numbers = numpy.full(4, 3.0)
    comm.allreduce(numbers, numbers).wait()
    if (comm.rank, comm.size) != (0, 1) or numbers.tolist() != [3.0] * 4:
        return f"without a launcher: rank {comm.rank} of {comm.size}"
    comm.destroy()
    return None


def groups(comm):
    """A group in which something is wrong issues nothing."""
    first, second = numpy.full(4, 2.0), numpy.full(4, 3.0)
    try:
        with tutti.group():
            comm.allreduce(first, second)
            comm.send(first, 9)
        return "a group with a wrong call passed"
    except tutti.InvalidArgument as error:
        assert "rank 9" in str(error), error
    try:
        with tutti.group():
            comm.allreduce(first, second)
            raise KeyError("mine")
    except KeyError:
        pass
    comm.allreduce(first, second)
    assert (second == 2).all(), second
    return None


def lifetimes(comm):
    """A resizable owner cannot be resized while an operation runs on its memory."""
    other = tutti.init_all(2)
    numbers = array.array("d", [1, 2, 3])
    work = other[0].allreduce(numbers, wait=False)
    try:
        numbers.append(4)
        return "an array could be moved under a running operation"
    except BufferError:
        pass
    try:
        work.wait(timeout=0.05)
        return "an operation ended without its peer"
    except tutti.Timeout as error:
        assert "0.05 s" in str(error)
    assert not work.test()
    threading.Thread(target=lambda: other[1].allreduce(numpy.ones(3))).start()
    work.wait()
    assert list(numbers) == [2, 3, 4]
    numbers.append(5)
    for end in [threading.Thread(target=each.destroy) for each in other]:
        end.start()
        end.join()
    return None


def names():
    """Classes are told, and kept in pickles, as programs import them."""
    for name in tutti.__all__:
        thing = getattr(tutti, name)
        if isinstance(thing, type) and thing.__module__ != "tutti":
            return f"tutti.{name} calls itself {thing.__module__}.{name}"
    error = pickle.loads(pickle.dumps(tutti.RemoteError("gone")))
    if traceback.format_exception_only(error) != ["tutti.RemoteError: gone\n"]:
        return f"{error!r}"
    if typing.get_args(tutti.OpName) != tuple(tutti.OPS):
        return "tutti.OpName has other operators than tutti.OPS"
    return None


def without_torch(_):
    """Without PyTorch its backend says what to install. None: right."""
    program = "import sys; sys.modules['torch'] = None; import tutti.torch"
    said = subprocess.run([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    return None if said.returncode and "pip install torch" in said.stderr else f"without PyTorch: {said.stderr}"


def main():
    comm, = tutti.init_all(1)
    failed = 0
    for number, (case, kind, words) in enumerate(cases(comm)):
        try:
            case()
            error = None
        except Exception as raised:
            error = raised
        if not isinstance(error, kind) or words not in str(error):
            print(f"case {number}: {error!r}, expected {kind.__name__} with \"{words}\"")
            failed += 1
    for part in (groups, lifetimes, readers, alone, without_torch, lambda comm: names()):
        wrong = part(comm)
        if wrong:
            print(wrong)
            failed += 1
    comm.destroy()
    comm.destroy()
    try:
        comm.barrier()
        failed += 1
    except tutti.InvalidUsage:
        pass
    if subprocess.run([sys.executable, "-m", "tutti.run", "--help"], stdout=subprocess.DEVNULL).returncode:
        print("python -m tutti.run --help fails")
        failed += 1
    return failed != 0


sys.exit(main())
