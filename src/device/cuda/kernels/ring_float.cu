/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of floats that go round. */
#include <reduce_ring.cuh>

KERNEL_FLOATS(RING_KERNELS)
