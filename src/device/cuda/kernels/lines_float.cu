/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of floats in lines. */
#include <lines_kernel.cuh>

KERNEL_FLOATS(LINES_KERNELS)
