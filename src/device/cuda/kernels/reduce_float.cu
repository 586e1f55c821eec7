/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of floats. */
#include <reduce.cuh>

KERNEL_FLOATS(REDUCE_KERNELS)
