# SPDX-License-Identifier: Apache-2.0
"""What is wrong is refused by the exception and the words that say what, and nothing happens otherwise. One process."""
import array
import subprocess
import sys
import threading

import numpy

import tutti


class Device:
    """Memory of a GPU, as CuPy shows it."""

    __cuda_array_interface__ = {"shape": (2,), "typestr": "<f4", "data": (4096, False), "version": 3}


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
        (lambda: tutti.init_rank(1, b"short", 0), ValueError, "5 bytes"),
        (lambda: tutti.init(), tutti.InvalidUsage, "TUTTI_RANK"),
    ]


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
    for part in (groups, lifetimes):
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
