/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of floats over memory that all ranks address. */
#include <reduce_peer.cuh>

KERNEL_FLOATS(PEER_KERNELS)
