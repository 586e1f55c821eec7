/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of integers in lines. */
#include <lines_kernel.cuh>

KERNEL_INTEGERS(LINES_KERNELS)
