/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of integers over memory that all ranks address. */
#include <reduce_peer.cuh>

KERNEL_INTEGERS(PEER_KERNELS)
