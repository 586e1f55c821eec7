/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for reductions in lines, of blocks of several warps. */
#define BLOCK_OF(threads) 17 /* at most */
#include <lines_kernel.cuh>

extern "C" void threads_reduce_lines_int32(const void *what)
{
    reduce_lines<element<TUTTI_INT32>>(*(const struct kernel_reduce *)what);
}

extern "C" void threads_reduce_listed_int32(const void *what)
{
    reduce_listed<element<TUTTI_INT32>>(*(const struct kernel_list *)what);
}
