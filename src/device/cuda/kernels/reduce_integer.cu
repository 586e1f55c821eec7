/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of integers. */
#include <reduce.cuh>

KERNEL_INTEGERS(REDUCE_KERNELS)
