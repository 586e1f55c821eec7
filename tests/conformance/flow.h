/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A flow: a random but reproducible sequence of messages and puts on one end of a lane. The other end knows the same
 * sequence, and checks that it comes in order, whole, and nothing twice. Both ends send and receive at once.
 */
#ifndef TUTTI_TESTS_FLOW_H
#define TUTTI_TESTS_FLOW_H

#include "owner.h"

#define FLOW_SLOTS 16 /* puts that may be unacknowledged: each has its own part of the area */

struct flow {
    struct end *end;
    uint64_t sent, acked, received, acknowledged; /* operations */
    uint64_t tx_seed, rx_seed, random;
    uint64_t total;  /* operations to send */
    uint64_t tokens; /* puts begun */
    size_t longest;  /* put */
    uint8_t *source, *area;
    bool region;  /* the source came from region_alloc */
    bool refused; /* and not told of room since */
    size_t writable_seen;
};

/* Area and source, ready to receive. `seed` differs by direction: the peer's rx_seed is our tx_seed. */
/* How many operations to do instead of `full`: a quarter with TUTTI_TEST_QUICK. */
uint64_t flow_total(uint64_t full);
void flow_open(struct flow *flow, struct end *end, uint64_t tx_seed, uint64_t rx_seed, uint64_t total, size_t longest,
               bool region);
void flow_close(struct flow *flow);
/* Sends what can be sent. */
void flow_send(struct flow *flow);
/* All was sent and acknowledged, and `expected` operations were received. */
bool flow_done(const struct flow *flow, uint64_t expected);

#endif
