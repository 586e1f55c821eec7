/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives of one group on one team: all at the same time, or as their memory comes to hand. */
#ifndef TUTTI_ENGINE_P2P_H
#define TUTTI_ENGINE_P2P_H

#include "base/place.h"
#include "engine/team.h"

struct p2p_item {
    bool sends;
    int peer;
    void *data;
    size_t count;
    tutti_type_t type;
    struct place on_device; /* device 0: none. Else the message lies there, and `data` is host memory to spare for it */
};

/* Enqueues them as one operation. */
tutti_result_t p2p_issue(struct team *team, const struct p2p_item *items, int count, struct tutti_stream *stream);

/*
 * The same for messages that come to hand one after another, in `places` of which each holds one: one operation from
 * p2p_open() to p2p_close(). None waits for another, but messages with one peer are matched in the order in which they
 * were posted. All by one thread, which issues. `whole`: what the operation is to all who ask, a message or a group.
 */
tutti_result_t p2p_open(struct team *team, const struct p2p_item *whole, int items, size_t bytes, int places,
                        struct p2p **out);
/* The place is free. The next wait hears of a failure. */
void p2p_post(struct team *team, struct p2p *p2p, int place, const struct p2p_item *item);
/* The places whose messages have ended since it was last asked: they are free. Returns how many. */
int p2p_take_ended(struct team *team, struct p2p *p2p, int *ended);
/* The places whose messages are to go from their spare memory, each told once: the caller copies them there, and says
 * p2p_spilled(). Returns how many. */
int p2p_take_spilling(struct team *team, struct p2p *p2p, int *spilling);
void p2p_spilled(struct team *team, struct p2p *p2p, int place);
/* Of a message that has ended at a place: what of it lies in the spare memory, in segments of *segment bytes. */
uint64_t p2p_in_spare(const struct p2p *p2p, int place, uint64_t *segment);
/* Waits until there is one of either kind, or the operation has failed. Something is posted. */
tutti_result_t p2p_await(struct team *team, struct p2p *p2p);
/* No more is posted. Waits until what is under way has ended, or the operation has failed. */
void p2p_close(struct team *team, struct p2p *p2p);

void p2p_free(struct p2p *p2p);

#endif
