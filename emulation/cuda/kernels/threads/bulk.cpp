/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for large reductions, of blocks of several threads. */
#include <reduce_bulk.cuh>

extern "C" void threads_reduce_bulk_int32(struct kernel_reduce what)
{
    reduce_bulk<element<TUTTI_INT32>>(what);
}

extern "C" void threads_reduce_bulk_bfloat16(struct kernel_reduce what)
{
    reduce_bulk<element<TUTTI_BFLOAT16>>(what);
}
