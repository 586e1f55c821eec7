# SPDX-License-Identifier: Apache-2.0
"""CuPy's NcclCommunicator over all GPUs of one process: each call is compared with what numpy computes.
Run by gpu.py apps."""
import argparse
import sys
import traceback

import cupy
import numpy
from cupy.cuda import nccl

from gpu_parts import served_by

COUNTS = (1000, 100 * 1000, 1000 * 1000)
TYPES = {"float32": nccl.NCCL_FLOAT32, "float64": nccl.NCCL_FLOAT64, "int32": nccl.NCCL_INT32,
         "float16": nccl.NCCL_FLOAT16}


# Lets what is behind it in its stream come at once, and writes long after that.
LATE = r"""
extern "C" __global__ void late(float *to, int count, float value)
{
    unsigned long long end, now;
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(end));
    do
        asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
    while (now - end < 200000);
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
        to[i] = value + i % 8;
}
"""


class Gpus:
    def __init__(self, count):
        self.count, self.wrong, self.points = count, [], 0
        self.comms = nccl.NcclCommunicator.initAll(list(range(count)))
        self.streams = []
        for rank in range(count):
            with cupy.cuda.Device(rank):
                self.streams.append(cupy.cuda.Stream(non_blocking=True))

    def try_call(self, name, inputs, wanted, call):
        """inputs, wanted: an array for each rank. call(rank, comm, send pointer, receive pointer,
        stream pointer) inside a group."""
        send, recv = [], []
        for rank in range(self.count):
            with cupy.cuda.Device(rank):
                send.append(cupy.asarray(inputs[rank]))
                recv.append(cupy.zeros_like(cupy.asarray(wanted[rank])))
                cupy.cuda.get_current_stream().synchronize()
        nccl.groupStart()
        for rank, comm in enumerate(self.comms):
            with cupy.cuda.Device(rank):
                call(rank, comm, send[rank].data.ptr, recv[rank].data.ptr, self.streams[rank].ptr)
        nccl.groupEnd()
        for rank, stream in enumerate(self.streams):
            with cupy.cuda.Device(rank):
                stream.synchronize()
                self.points += 1
                if not numpy.array_equal(cupy.asnumpy(recv[rank]), wanted[rank]):
                    self.wrong.append(f"{name}: wrong on rank {rank}")

    def size(self, kind, number, count):
        n, each = self.count, numpy.random.default_rng(count)
        # whole numbers: sums are exact in any order
        inputs = [each.integers(0, 20, n * count).astype(kind) for _ in range(n)]
        total, name = sum(x.astype("float64") for x in inputs).astype(kind), f"{kind}, {count} elements"
        self.try_call(f"allReduce {name}", inputs, [total] * n,
                      lambda rank, comm, s, r, at: comm.allReduce(s, r, n * count, number, nccl.NCCL_SUM, at))
        self.try_call(f"reduceScatter {name}", inputs, [total[r * count:(r + 1) * count] for r in range(n)],
                      lambda rank, comm, s, r, at: comm.reduceScatter(s, r, count, number, nccl.NCCL_SUM, at))
        parts = [x[:count] for x in inputs]
        self.try_call(f"allGather {name}", parts, [numpy.concatenate(parts)] * n,
                      lambda rank, comm, s, r, at: comm.allGather(s, r, count, number, at))
        self.try_call(f"broadcast {name}", parts, [parts[n - 1]] * n,
                      lambda rank, comm, s, r, at: comm.broadcast(s, r, count, number, n - 1, at))

        def ring(rank, comm, s, r, at):
            comm.send(s, count, number, (rank + 1) % n, at)
            comm.recv(r, count, number, (rank - 1) % n, at)

        self.try_call(f"send and recv {name}", parts, [parts[(r - 1) % n] for r in range(n)], ring)

    def behind_late(self, count):
        """A call whose input a kernel is still to write, and a kernel that reads its result."""
        late, send, recv, seen = cupy.RawKernel(LATE, "late"), [], [], []
        for rank, stream in enumerate(self.streams):
            with cupy.cuda.Device(rank), stream:
                send.append(cupy.zeros(count, "float32"))
                recv.append(cupy.zeros(count, "float32"))
                stream.synchronize()
                late((8,), (256,), (send[rank], numpy.int32(count), numpy.float32(rank)))
        nccl.groupStart()
        for rank, comm in enumerate(self.comms):
            with cupy.cuda.Device(rank):
                comm.allReduce(send[rank].data.ptr, recv[rank].data.ptr, count, nccl.NCCL_FLOAT32, nccl.NCCL_SUM,
                               self.streams[rank].ptr)
        nccl.groupEnd()
        wanted = (numpy.arange(count) % 8 * self.count + sum(range(self.count))).astype("float32")
        for rank, stream in enumerate(self.streams):
            with cupy.cuda.Device(rank), stream:
                seen.append(recv[rank] + 1)
        for rank, stream in enumerate(self.streams):
            with cupy.cuda.Device(rank):
                stream.synchronize()
                self.points += 1
                if not numpy.array_equal(cupy.asnumpy(seen[rank]), wanted + 1):
                    self.wrong.append(f"allReduce of {count} behind a kernel that writes late: wrong on rank {rank}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, default=4)
    options = parser.parse_args()
    print(f"cupy {cupy.__version__}, NCCL {nccl.get_version()}", flush=True)
    gpus = Gpus(options.gpus)
    for kind, number in TYPES.items():
        for count in COUNTS:
            gpus.size(kind, number, count)
    for count in (256, 20 * 1000, 60 * 1000, 1000 * 1000, 20 * 1000 * 1000):
        gpus.behind_late(count)
    print(served_by.line())
    print(*gpus.wrong[:10], sep="\n")
    print(f"result: {gpus.points} points, {len(gpus.wrong)} wrong", flush=True)
    return bool(gpus.wrong)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Exception:  # the parent reads the output
        traceback.print_exc()
        sys.exit(1)
