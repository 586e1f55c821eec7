/* SPDX-License-Identifier: Apache-2.0 */
/* What all links of an engine share. */
#ifndef TUTTI_LINK_DOMAIN_H
#define TUTTI_LINK_DOMAIN_H

#include "base/error.h"
#include "base/known.h"
#include "link/parts.h"

#include <stdatomic.h>

#define MAX_TRANSPORTS 4
#define LINK_NICS      32

/* What files below lanes.c ask of it. */
struct link_upcalls {
    void (*start)(struct link *link); /* something is to be said: lanes are opened, at first use */
    void (*lose)(struct link *link, const char *why);
};

struct link_domain {
    struct link_owner owner;
    const struct link_upcalls *upcalls;
    struct poller *poller;
    struct trace *trace;
    struct path_policy policy;      /* complete */
    struct path_nic nic[LINK_NICS]; /* the last one stands for all that found no place */
    int nics;
    struct board *board; /* NULL: one interface alone, or it is not to be had */
    unsigned choices;    /* since the board was looked at, */
    uint64_t looked;     /* at that time */
    struct wire_process self;
    const struct transport_ops *ops[MAX_TRANSPORTS];
    struct transport *transport[MAX_TRANSPORTS];
    int transports;
    struct list links;
    struct list telling;  /* links with arrivals that the peer does not know of */
    struct list copies;   /* sends to this very process that are being copied */
    struct list flushing; /* receives that devices do not see yet */
    uint64_t flushes;     /* tokens of flush() that were used */
    struct list registrations;
    uint64_t registered;                /* bytes of them */
    struct poll_source known_bell;      /* rings when known memory comes or goes; fd -1: nobody asks */
    struct known_watcher known_watcher; /* its number */
    _Atomic int kept;                   /* payloads and the like that came before they were asked for, on all links */
    size_t lend_from;                   /* payloads of this size on are lent, where the lane can */
    bool crowded;                       /* this process shares its processor with other ranks */
    bool met;                           /* a send and a receive of this process, since link_met() */
    unsigned gathering;                 /* link_gather() without link_ring() */
    bool closing;
    char unusable[400];    /* a transport that was not asked for, and why it is not used; "": none */
    bool trial_complained; /* a lane of that transport did not come up, */
    bool alone;            /* a peer has none; and that was said */
};

static inline void link_start(struct link *link)
{
    if (!link->started)
        link->domain->upcalls->start(link);
}

static inline void link_lose(struct link *link, const char *why)
{
    link->domain->upcalls->lose(link, why);
}

/* What a link moves, in the black box: `what` counts things, the counter of the lane's transport their bytes. */
static inline void link_count_sent(const struct link *link, const struct transport_ops *ops, enum wire_counter what,
                                   uint64_t bytes)
{
    trace_count(link->domain->trace, what, 1);
    trace_count(link->domain->trace, ops->sent, bytes);
}

static inline void link_count_received(const struct link_lane *lane, uint64_t bytes)
{
    trace_count(lane->link->domain->trace, lane->ops->received, bytes);
}

#endif
