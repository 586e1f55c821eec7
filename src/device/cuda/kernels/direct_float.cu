/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of floats over memory that all ranks address, and of what copy engines bring. */
#include <reduce_relay.cuh>

KERNEL_FLOATS(DIRECT_KERNELS)
KERNEL_FLOATS(RELAY_KERNELS)
