/* SPDX-License-Identifier: Apache-2.0 */
/* Windows. */
#ifndef TUTTI_NCCL_MEMORY_H
#define TUTTI_NCCL_MEMORY_H

#include "nccl/handle.h"

ncclResult_t memory_window(struct ncclComm *owner, struct ncclComm *window);
/* Forgets the windows of a communicator that ends. */
void memory_forget(struct ncclComm *owner);

#endif
