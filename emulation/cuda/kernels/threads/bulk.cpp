/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for large reductions, of blocks of several threads. */
#include <reduce_bulk.cuh>

extern "C" void threads_reduce_bulk_int32(const void *what)
{
    reduce_bulk<element<TUTTI_INT32>>(*(const struct kernel_reduce *)what);
}

extern "C" void threads_reduce_bulk_bfloat16(const void *what)
{
    reduce_bulk<element<TUTTI_BFLOAT16>>(*(const struct kernel_reduce *)what);
}
