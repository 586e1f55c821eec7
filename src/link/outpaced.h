/* SPDX-License-Identifier: Apache-2.0 */
/* Lanes that stand still while others to the same peer go on. */
#ifndef TUTTI_LINK_OUTPACED_H
#define TUTTI_LINK_OUTPACED_H

#include "link/domain.h"

enum outpaced {
    OUTPACED_NOT,
    OUTPACED_SUSPECT, /* nothing more goes there while others can take it */
    OUTPACED_LOST,    /* it is given up; error_last() says so */
};

/* Looks at a lane that is up. To be called again and again, of all lanes of the link, after news was looked for. */
enum outpaced outpaced_look(struct link_lane *lane, uint64_t now);
/* A segment is about to be put on the lane; it needs the source of one no longer. */
static inline void outpaced_put(struct link_lane *lane, uint64_t now)
{
    if (!lane->puts)
        lane->pace.taken = now;
}

static inline void outpaced_sent(struct link_lane *lane, uint64_t now)
{
    uint64_t took = since(lane->pace.taken, now), slowest = lane->pace.slowest;
    lane->pace.taken = now;
    lane->pace.slowest = took > slowest ? took : slowest - slowest / 64;
}

#endif
