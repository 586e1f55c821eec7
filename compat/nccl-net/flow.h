/* SPDX-License-Identifier: Apache-2.0 */
/* Many messages over one connection, one way, as many under way as NCCL has: what a channel of its proxy thread does.
 */
#ifndef TUTTI_NCCL_NET_FLOW_H
#define TUTTI_NCCL_NET_FLOW_H

#include "nccl-net/driver.h"

struct flow_slot {
    unsigned char *buffer;
    void *memory, *request;
};

struct net_flow {
    const struct end *end;
    void *connection;
    bool sends;
    uint64_t seed; /* the same at both ends */
    size_t room;   /* of a buffer, and the longest message */
    int window, count;
    int cut_every; /* messages after which a lane is cut; 0: none is */
    int posted, over;
    bool cuts; /* as soon as there is a lane */
    int cut;   /* lanes cut so far */
    struct flow_slot slot[NET_REQUESTS];
};

/* Of message `number`. */
size_t flow_size(const struct net_flow *flow, int number);
/* Makes and registers buffers, in the thread that connects. */
void flow_open(struct net_flow *flow);
void flow_close(struct net_flow *flow);
/* Posts what it may. */
void flow_post(struct net_flow *flow);
/* Posts, tests, and checks what came. True: one more is over. */
bool flow_step(struct net_flow *flow);
/* All flows to their end, in a thread of its own. */
void flow_run(struct net_flow *flows, int count);

#endif
