/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of integers over memory that all ranks address, and of what is staged. */
#include <fold.cuh>
#include <reduce_peer.cuh>

KERNEL_INTEGERS(PEER_KERNELS)
KERNEL_INTEGERS(FOLD_KERNELS)
