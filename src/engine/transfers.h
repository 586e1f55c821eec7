/* SPDX-License-Identifier: Apache-2.0 */
/* Messages over links that an operation has under way together: they end in any order, and the first failure of one
 * stays. */
#ifndef TUTTI_ENGINE_TRANSFERS_H
#define TUTTI_ENGINE_TRANSFERS_H

#include "engine/team.h"

struct transfers {
    int count, pending;
    int spilling; /* sends that are to be copied to their spare memory */
    tutti_result_t result;
    int culprit;
    char sentence[TEAM_SENTENCE]; /* any thread may learn of a failure, another report it */
};

struct transfer {
    struct transfers *of;
    struct link *link; /* NULL until posted */
    int peer;
    bool sends, pending;
    bool well;   /* it has ended, and without a failure */
    bool spills; /* told by the link, and to nobody else yet */
    union {
        struct link_send send;
        struct link_recv recv;
    };
};

static inline void transfers_begin(struct transfers *transfers)
{
    transfers->count = transfers->pending = transfers->spilling = 0;
    transfers->result = TUTTI_SUCCESS;
}

/* A message with `peer` failed for what error_last() says. */
void transfers_note(struct transfers *transfers, int peer, tutti_result_t result);

/* The upcalls of links. */
void transfer_sent(struct link_send *send, tutti_result_t result);
void transfer_received(struct link_recv *recv, tutti_result_t result);
void transfer_spill(struct link_send *send);

/* The rest of a send or receive is the link's own, and set by it. */
static inline void transfer_fill(struct transfer *transfer, struct transfers *of, int peer, bool sends,
                                 struct wire_tag tag, struct wire_call call, void *data, size_t length)
{
    transfer->of = of;
    transfer->link = NULL;
    transfer->peer = peer;
    transfer->sends = sends;
    transfer->pending = transfer->spills = false;
    if (sends) {
        transfer->send.tag = tag;
        transfer->send.call = call;
        transfer->send.place = place_host(data);
        transfer->send.class = PATH_PROMPT;
        transfer->send.length = length;
        transfer->send.asks = false;
        transfer->send.spare = NULL;
        transfer->send.done = transfer_sent;
    } else {
        transfer->recv.tag = tag;
        transfer->recv.call = call;
        transfer->recv.place = place_host(data);
        transfer->recv.class = PATH_PROMPT;
        transfer->recv.length = length;
        transfer->recv.spare = NULL;
        transfer->recv.done = transfer_received;
    }
}

/* The payload lies on a device, with host memory of its length to spare. */
static inline void transfer_on_device(struct transfer *transfer, struct place place, void *spare)
{
    if (transfer->sends) {
        transfer->send.place = place;
        transfer->send.spare = spare;
        transfer->send.spill = transfer_spill;
    } else {
        transfer->recv.place = place;
        transfer->recv.spare = spare;
    }
}

/* Hands it to the link. It is counted as pending by the caller. */
void transfer_post(struct transfer *transfer, struct link *link);

/* When it returns no link touches their memory. */
void transfers_cancel(struct transfer *list, int count);

/* Fails the team for what failed first. */
tutti_result_t transfers_fail(struct team *team, const struct transfers *transfers);

#endif
