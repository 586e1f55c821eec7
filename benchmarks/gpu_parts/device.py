# SPDX-License-Identifier: Apache-2.0
"""The CUDA driver and a libnccl.so.2, called directly: no framework comes between,
and the same runs on the stand-in driver."""
import ctypes
import os
import time

NOT_READY = 600
IN_PROGRESS = 7
# name: (number, bytes)
TYPES = {"int8": (0, 1), "uint8": (1, 1), "int32": (2, 4), "uint32": (3, 4), "int64": (4, 8), "uint64": (5, 8),
         "half": (6, 2), "float": (7, 4), "double": (8, 8), "bfloat16": (9, 2), "f8e4m3": (10, 1), "f8e5m2": (11, 1)}
OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}

# Writes 2 i + 1 at i: proof that a GPU computes. Driver calls alone would prove copies only.
PTX = b"""
.version 7.0
.target sm_70
.address_size 64
.visible .entry odd(.param .u64 out, .param .u32 count)
{
    .reg .pred %p;
    .reg .b32 %r<6>;
    .reg .b64 %d<4>;
    ld.param.u64 %d0, [out];
    ld.param.u32 %r0, [count];
    mov.u32 %r1, %ctaid.x;
    mov.u32 %r2, %ntid.x;
    mov.u32 %r3, %tid.x;
    mad.lo.u32 %r4, %r1, %r2, %r3;
    setp.ge.u32 %p, %r4, %r0;
    @%p bra END;
    cvta.to.global.u64 %d1, %d0;
    mul.wide.u32 %d2, %r4, 4;
    add.u64 %d3, %d1, %d2;
    shl.b32 %r5, %r4, 1;
    add.u32 %r5, %r5, 1;
    st.global.u32 [%d3], %r5;
END:
    ret;
}
\0"""


class CudaError(RuntimeError):
    pass


class Device:
    """One GPU: its primary context, current in the thread that makes this, and a stream."""

    def __init__(self, ordinal):
        self.lib = ctypes.CDLL(os.environ.get("TUTTI_CUDA_LIBRARY", "libcuda.so.1"))
        self.call("cuInit", 0)
        self.handle, self.context, self.stream = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuDeviceGet", ctypes.byref(self.handle), ordinal)
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self.context), self.handle)
        self.call("cuCtxSetCurrent", self.context)
        self.call("cuStreamCreate", ctypes.byref(self.stream), 1)

    def call(self, name, *arguments):
        result = getattr(self.lib, name)(*arguments)
        if result:
            text = ctypes.c_char_p()
            self.lib.cuGetErrorName(result, ctypes.byref(text))
            raise CudaError(f"{name}: {(text.value or b'?').decode()} ({result})")

    def alloc(self, size):
        at = ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(at), ctypes.c_size_t(size))
        return at.value

    def free(self, at):
        self.call("cuMemFree_v2", ctypes.c_uint64(at))

    # All on the one stream, which the legacy default stream does not wait for, nor is it waited for by that.
    def put(self, at, data):
        """data: bytes, copied to the driver's own memory before this returns."""
        self.call("cuMemcpyHtoDAsync_v2", ctypes.c_uint64(at), data, ctypes.c_size_t(len(data)), self.stream)

    def get(self, at, size):
        self.wait(60, "what was to be read")
        data = ctypes.create_string_buffer(size)
        self.call("cuMemcpyDtoH_v2", data, ctypes.c_uint64(at), ctypes.c_size_t(size))
        return data.raw

    def fill(self, at, byte, size):
        self.call("cuMemsetD8Async", ctypes.c_uint64(at), ctypes.c_ubyte(byte), ctypes.c_size_t(size), self.stream)

    def used(self):
        """Bytes of the GPU that anybody uses."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return total.value - free.value

    def done(self):
        """Has all work in the stream ended?"""
        result = self.lib.cuStreamQuery(self.stream)
        if result not in (0, NOT_READY):
            self.call("cuStreamQuery", self.stream)
        return result == 0

    def wait(self, limit, what):
        """Polls, as a wait in the driver could not be given up."""
        until, turns = time.monotonic() + limit, 0
        while not self.done():
            turns += 1
            if turns > 1000:
                time.sleep(0.0005)
                if time.monotonic() > until:
                    raise TimeoutError(f"{what} has not ended after {limit:.0f} s")

    def odd(self, count):
        """Runs the kernel; the numbers it wrote. None where there is no compiler for it (the stand-in driver)."""
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), PTX)
        if self.lib.cuModuleGetFunction(ctypes.byref(function), module, b"odd"):
            return None
        at = self.alloc(4 * count)
        pointer, number = ctypes.c_uint64(at), ctypes.c_uint32(count)
        parameters = (ctypes.c_void_p * 2)(ctypes.addressof(pointer), ctypes.addressof(number))
        self.call("cuLaunchKernel", function, (count + 255) // 256, 1, 1, 256, 1, 1, 0, self.stream, parameters, None)
        self.wait(20, "a kernel of our own")
        data = self.get(at, 4 * count)
        self.free(at)
        return list((ctypes.c_uint32 * count).from_buffer_copy(data))


class NcclError(RuntimeError):
    pass


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


class Nccl:
    """The calls of a libnccl.so.2; each raises NcclError on anything but success."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
        self.lib.ncclGetErrorString.restype = ctypes.c_char_p
        self.lib.ncclGetLastError.restype = ctypes.c_char_p

    def complaint(self, result, comm=None):
        return (f"{self.lib.ncclGetErrorString(result).decode()} ({result}): "
                f"{(self.lib.ncclGetLastError(comm) or b'').decode().strip()}")

    def call(self, name, *arguments):
        result = getattr(self.lib, name)(*arguments)
        if result:
            raise NcclError(f"{name}: {self.complaint(result)}")

    def new_id(self):
        unique = UniqueId()
        self.call("ncclGetUniqueId", ctypes.byref(unique))
        return bytes(unique)

    def init(self, count, unique, rank):
        comm = ctypes.c_void_p()
        self.call("ncclCommInitRank", ctypes.byref(comm), count, UniqueId.from_buffer_copy(unique), rank)
        return comm

    def state(self, comm):
        """The communicator's asynchronous error: 0 while all is well."""
        result = ctypes.c_int()
        self.call("ncclCommGetAsyncError", comm, ctypes.byref(result))
        return result.value


def pointer(at):
    return ctypes.c_void_p(at)


def size(count):
    return ctypes.c_size_t(count)
