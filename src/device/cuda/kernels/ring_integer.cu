/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of integers that go round. */
#include <reduce_ring.cuh>

KERNEL_INTEGERS(RING_KERNELS)
