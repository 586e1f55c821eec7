/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for small reductions, of blocks of several threads: not all of them have data. */
#define BLOCK_OF(threads) 8
#include <reduce_ll.cuh>

extern "C" void threads_reduce_one_int32(const void *what)
{
    reduce_stripes<element<TUTTI_INT32>, false>(*(const struct kernel_list *)what);
}

extern "C" void threads_reduce_two_int32(const void *what)
{
    reduce_stripes<element<TUTTI_INT32>, true>(*(const struct kernel_list *)what);
}
