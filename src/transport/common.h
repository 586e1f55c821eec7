/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the transports of this folder have in common: an event loop of their own inside the owner's, and deadlines.
 * Lanes may fail now and go down at the next poll, or be closed inside their own upcall.
 */
#ifndef TUTTI_TRANSPORT_COMMON_H
#define TUTTI_TRANSPORT_COMMON_H

#include "base/list.h"
#include "transport/transport.h"

/* Called once, at the deadline. */
struct transport_timer {
    struct list node; /* in transport.timers; unlinked: not set */
    uint64_t at;
    void (*expired)(struct transport_timer *timer);
};

/* Embedded first in each transport. */
struct transport {
    const struct transport_ops *ops;
    struct transport_owner owner;
    const struct wire_process *self; /* the owner's: transports that are opened later add to it */
    struct poller *outer;            /* the owner's */
    struct poller *inner;      /* our descriptors, so that poll() can look at them without running other handlers */
    struct poll_source source; /* the inner loop in the outer one */
    struct poll_source clock;  /* timerfd of the earliest timer */
    struct list timers;        /* by time */
    struct list failing;       /* lanes whose down() is due */
    struct list graves;        /* lanes closed inside an upcall */
    unsigned depth;            /* upcalls under way */
    unsigned idle_polls;       /* since the inner loop was looked at */
    bool armed;                /* the owner sleeps, or is about to */
    void (*reap)(struct lane *lane);
};

/* Embedded first in each lane of our transports. */
struct carrier {
    struct lane lane;
    struct list node; /* in transport.failing or transport.graves */
    bool up, failing, down, closed;
    tutti_result_t why;
    char sentence[240];
};

tutti_result_t transport_init(struct transport *transport, const struct transport_ops *ops,
                              const struct transport_owner *owner, struct poller *poller,
                              void (*reap)(struct lane *lane));
/* Safe after a failed transport_init. */
void transport_fini(struct transport *transport);

void transport_timer_set(struct transport *transport, struct transport_timer *timer, int64_t ms);
void transport_timer_clear(struct transport *transport, struct transport_timer *timer);

void carrier_init(struct carrier *carrier, struct transport *transport, void *user);
/* The lane's down() follows from the next poll. Only the first failure counts. Returns `why`. */
tutti_result_t carrier_fail(struct carrier *carrier, tutti_result_t why, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* What down() says of a failure with this errno, 0 if it has none: a network or a system that is in the way of
 * connecting does not show that the peer is gone. */
tutti_result_t carrier_why(const struct carrier *carrier, int error);
/* Marks the lane closed and has it reaped: now, or after the upcalls that are under way. */
void carrier_close(struct carrier *carrier);
static inline bool carrier_dead(const struct carrier *carrier)
{
    return carrier->failing || carrier->down || carrier->closed;
}

/* Around everything that makes upcalls. */
static inline void transport_enter(struct transport *transport)
{
    transport->depth++;
}
void transport_reap(struct transport *transport);
static inline void transport_leave(struct transport *transport)
{
    if (--transport->depth == 0 && !list_empty(&transport->graves))
        transport_reap(transport);
}

/* Makes the down() upcalls that are due. Returns how many. */
int transport_settle(struct transport *transport);
/* Looks at the inner loop. Returns how many handlers ran. */
int transport_look(struct transport *transport);

/* Moves all of `from` to the empty list `to`. */
static inline void transport_take(struct list *to, struct list *from)
{
    list_init(to);
    if (list_empty(from))
        return;
    *to = *from;
    to->next->prev = to;
    to->prev->next = to;
    list_init(from);
}

/* The calls that a transport may not have. */
bool transport_no_nic(struct transport *transport, unsigned device, struct transport_nic *out);
tutti_result_t transport_no_register(struct transport *transport, struct place place, size_t length,
                                     struct transport_memory **out);
void transport_no_deregister(struct transport *transport, struct transport_memory *memory);
void transport_no_announce(struct transport *transport, const void *address);
tutti_result_t transport_no_share(struct lane *lane, uint64_t key, int fd);
uint64_t transport_no_moved(struct lane *lane);

/* Total of the parts; 0 if they make no legal message. */
static inline size_t transport_msg_length(const struct iovec *parts, int count, size_t most)
{
    size_t length = 0;
    for (int i = 0; i < count; i++) {
        if (parts[i].iov_len > most - length)
            return 0;
        length += parts[i].iov_len;
    }
    return length;
}

/* Where bytes of a put go on a lane for which this process or the system copies them: the owner is asked. NULL: they
 * are dropped, and the owner was told if it named a device's memory. The lane may be closed when this returns. */
void *transport_target(struct lane *lane, uint32_t imm, uint64_t offset, size_t length);
/* Can the lane carry the put? */
tutti_result_t transport_put_check(const struct lane *lane, const struct put *put, bool reaches_devices);

/* The greeting by which this process begins lane `index` to `peer`. */
struct wire_hello transport_hello(const struct transport *transport, const struct wire_process *peer, uint16_t index,
                                  uint32_t epoch, uint32_t known, uint64_t session);
/* Is the greeting of this protocol, and does it show our secret? */
bool transport_believes(const struct transport *transport, const struct wire_hello *hello);

#endif
