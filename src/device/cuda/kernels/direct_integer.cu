/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of integers over memory that all ranks address. */
#include <reduce_direct.cuh>

KERNEL_INTEGERS(DIRECT_KERNELS)
