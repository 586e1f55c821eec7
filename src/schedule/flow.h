/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A schedule as one rank of a small team sees it: which block goes to whom, which comes from whom. An executor that
 * does not go round by round (a kernel that is launched once) takes its peers and blocks from here.
 */
#ifndef TUTTI_SCHEDULE_FLOW_H
#define TUTTI_SCHEDULE_FLOW_H

#include "schedule/schedule.h"

#define FLOW_RANKS 16 /* as many ranks, and blocks */

/* Memory of this rank that a message is sent from or lands in; `nblocks` blocks from `block` of `buffer` on. */
struct flow_place {
    bool used;
    uint8_t buffer; /* enum buffer */
    int32_t block, nblocks;
    int32_t about; /* first block of the vector that it is about */
};

/* The first message of round 0 to and from each rank; this rank's own entry is its local copy. */
struct flow_peer {
    struct flow_place send, recv;
};

struct flow {
    int rounds, blocks;
    bool result;           /* this rank's OUT is written */
    uint32_t to, from;     /* ranks that get messages in round 0, and send them */
    uint32_t gives, takes; /* the same in all later rounds: of a reduction, results */
    struct flow_peer peer[FLOW_RANKS];
    /* by block of the vector: the rank that this one first gets it from (-1: none), and those that it sends it to */
    int8_t source[FLOW_RANKS];
    uint32_t next[FLOW_RANKS];
};

/* False: the shape does not fit the algorithm, or it is larger than FLOW_RANKS ranks or blocks. */
bool flow_read(const struct algorithm *algorithm, const struct shape *shape, int rank, struct flow *out);

/* Of each rank, those that something goes from to it, straight or by others: bits. Only where flow_read() reads it. */
void flow_reach(const struct algorithm *algorithm, const struct shape *shape, uint32_t reach[FLOW_RANKS]);

#endif
