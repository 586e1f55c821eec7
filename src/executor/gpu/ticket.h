/* SPDX-License-Identifier: Apache-2.0 */
/* Which operation comes behind which, and which are over. */
#ifndef TUTTI_EXECUTOR_GPU_TICKET_H
#define TUTTI_EXECUTOR_GPU_TICKET_H

#include "device/cuda/driver.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct gpu;

/* Which operation comes behind which. */
struct gpu_order {
    const _Atomic uint32_t *over; /* pinned: the ticket of the last operation that is over */
    CUdeviceptr over_device;
    CUstream last;
    uint32_t tickets, told;  /* handed out; of this operation's last kernel, 0 if something was issued behind it */
    _Atomic uint32_t ticket; /* of the last operation outside of graphs; 0: there was none */
    bool capturing;
    _Atomic bool untracked; /* nothing will tell that an operation is over */
    _Atomic bool captured;  /* there was one in a graph: no ticket tells of those */
};

/* Any thread. Is it over? Is all that was issued outside of graphs? */
bool ticket_is_over(const struct gpu *gpu, uint32_t ticket);
bool ticket_idle(const struct gpu *gpu);
/* Of the next launch, outside of graphs. */
uint32_t ticket_next(struct gpu *gpu);
/* Something is issued that is no kernel: the last one tells of the operation's end no more. */
void ticket_more(struct gpu *gpu);

#endif
