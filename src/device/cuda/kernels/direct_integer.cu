/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of integers over memory that all ranks address, and of what copy engines bring. */
#include <reduce_relay.cuh>

KERNEL_INTEGERS(DIRECT_KERNELS)
KERNEL_INTEGERS(RELAY_KERNELS)
