/* SPDX-License-Identifier: Apache-2.0 */
/* Reductions of floats over memory that all ranks address, and of what is staged. */
#include <fold.cuh>
#include <reduce_peer.cuh>

KERNEL_FLOATS(PEER_KERNELS)
KERNEL_FLOATS(FOLD_KERNELS)
