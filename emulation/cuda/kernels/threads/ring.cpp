/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for reductions that go round, of blocks of several threads. */
#include <reduce_ring.cuh>

extern "C" void threads_reduce_ring_int32(const void *what)
{
    reduce_ring<element<TUTTI_INT32>>(*(const struct kernel_reduce *)what);
}
