/* SPDX-License-Identifier: Apache-2.0 */
/* Which operation comes behind which, and which are over. */
#ifndef TUTTI_EXECUTOR_STREAM_TICKET_H
#define TUTTI_EXECUTOR_STREAM_TICKET_H

#include "device/cuda/driver.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct stream_base;

/* By the GPU's clock (ns); 0: not so far. */
struct ticket_times {
    _Atomic uint64_t begin, end;
};

/* Which operation comes behind which. */
struct tickets {
    const _Atomic uint32_t *over; /* pinned: the ticket of the last operation that is over */
    CUdeviceptr over_device;
    CUstream last;
    struct ticket_times *times; /* of launches, by ticket modulo KERNEL_TIMES; NULL: there are none */
    uint32_t handed_out;
    uint32_t told;           /* of this operation's last kernel, 0 if something was issued behind it */
    _Atomic uint32_t ticket; /* of the last operation outside of graphs; 0: there was none */
    bool capturing;
    _Atomic bool untracked; /* nothing will tell that an operation is over */
    _Atomic bool captured;  /* there was one in a graph: no ticket tells of those */
};

/* Any thread. Is it over? Is all that was issued outside of graphs? */
bool ticket_is_over(const struct stream_base *base, uint32_t ticket);
bool ticket_idle(const struct stream_base *base);
/* Of the next launch, outside of graphs. */
uint32_t ticket_next(struct stream_base *base);
/* Something is issued that is no kernel: the last one tells of the operation's end no more. */
void ticket_more(struct stream_base *base);

#endif
