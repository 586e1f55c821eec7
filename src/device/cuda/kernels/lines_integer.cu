/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of integers in lines. */
#include <reduce_lines.cuh>

KERNEL_INTEGERS(LINES_KERNELS)
