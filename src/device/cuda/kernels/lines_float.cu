/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of floats in lines. */
#include <reduce_lines.cuh>

KERNEL_FLOATS(LINES_KERNELS)
