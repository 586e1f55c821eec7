/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The transport over RDMA verbs. A lane is a reliable queue pair and a TCP connection. Over the connection the two ends
 * agree on the queue pair; then it is the sign of life: when it ends, so does the lane. Messages, and puts whose memory
 * is not registered, go by SEND through buffers of the lane. Puts with a key are written where they belong by the
 * adapter (RDMA WRITE with immediate data).
 */
#ifndef TUTTI_TRANSPORT_VERBS_H
#define TUTTI_TRANSPORT_VERBS_H

#include "base/error.h"
#include "transport/verbs/protocol.h"
#include "transport/verbs/revival.h"

#define VERBS_PAIRS 256

/* One port of an adapter. */
struct verbs_device {
    struct verbs_transport *owner;
    unsigned index;                         /* among ours */
    char name[64];                          /* "mlx5_0:1" */
    struct verbs_parts open;                /* none: the device is lost */
    uint8_t opened;                         /* anew so often, modulo WIRE_OPENED */
    struct poll_source events, completions; /* descriptors of context and channel */
    int room;                               /* completions that the queue holds */
    int lanes;
    struct verbs_lane *pairs[VERBS_PAIRS]; /* by their queue pair's number: chains of those that have shared receives */
    bool stuck; /* one of its queue pairs could not be ended, and may still write to memory */
    uint8_t port, link_layer, mtu;
    uint16_t lid;
    uint32_t most;                    /* bytes of a work request */
    uint32_t rate;                    /* Mbit/s; 0: not known */
    int distance;                     /* near_distance() */
    bool complained;                  /* a lane of it did not come up */
    struct ibv_gid_entry gid, home;   /* the address now, and that of the beginning, which peers know */
    struct ibv_wc early[VERBS_BATCH]; /* found while falling asleep */
    int early_count;
    struct ibv_wc *kept; /* found while a lane ended, and not handled yet: kept_first up to kept_end of kept_room */
    unsigned kept_first, kept_end, kept_room;
};

struct verbs_transport {
    struct transport base;
    const struct verbs_library *library;
    struct acceptor acceptor;
    struct acceptor_socket
        listening[WIRE_DEVICES + 1]; /* at the address of each port; the last one for those without */
    struct verbs_device device[WIRE_DEVICES];
    struct verbs_revival revival[WIRE_DEVICES];
    int devices;
    tutti_result_t refused; /* why a port is not used, the gravest result; TUTTI_SUCCESS: all are used */
    struct error_saved refusal;
    struct list memories;      /* registered */
    bool gathers;              /* between two calls of verbs_gather(): */
    struct list ringing;       /* lanes with work requests of that time */
    struct verbs_lane **lanes; /* by place */
    unsigned places;
    uint32_t serial;               /* of the latest lane */
    struct transport_timer follow; /* until the owner is asked for the ports of living lanes */
};

/* A message or put that waits, wholly or in part. */
struct verbs_item {
    bool is_put, given_up;
    uint32_t imm;
    uint64_t length, offset, token;
    uint64_t done; /* bytes that were sent */
    const unsigned char *body;
    void *copy; /* of a message, or of the rest of a put that was given up */
    const struct wire_remote *remote;
    const struct transport_memory *memory;
};

/* A work request that was posted. */
struct verbs_slot {
    bool in_place;   /* it reads a put's source */
    bool signaled;   /* its end is told */
    uint8_t chunk;   /* of ours that it reads; VERBS_SENDS: none */
    uint32_t length; /* in bytes */
    uint64_t token;
};

/* Work requests that are posted together. */
struct verbs_burst {
    unsigned count;
    struct ibv_send_wr wr[VERBS_SENDS];
    struct ibv_sge sge[VERBS_SENDS];
};

/*
 * Of who connects: connecting; the first packet is under way; it got through, and the peer is to decide. Of the other:
 * greeted, and its owner does not know of the lane. Of both: usable.
 */
enum verbs_state { VERBS_CONNECTING, VERBS_PROVING, VERBS_ASKING, VERBS_GREETED, VERBS_OPEN };

struct verbs_lane {
    struct carrier base;
    struct connector connector;
    struct verbs_hello hello;  /* what who connects has said */
    struct poll_source source; /* the connection, once it was answered; fd -1: none */
    bool watched;
    struct transport_timer deadline; /* until the lane is usable */
    struct verbs_word answer;        /* from the connection, as far as it has come */
    size_t answer_got;
    uint64_t asked;               /* when the packet was posted whose acknowledgement is waited for; 0: none is */
    uint32_t asked_slot;          /* its work request */
    unsigned trips, later;        /* packets that were acknowledged; that were to be sent since the lane is usable */
    struct transport_timer again; /* until the next of those */
    enum verbs_state state;
    uint16_t index;
    uint8_t peer[WIRE_UUID_BYTES];
    char to[NET_TEXT]; /* where the peer's port was asked; "": it has asked */

    struct verbs_device *device;
    struct ibv_qp *qp;
    struct verbs_info mine, theirs;
    uint32_t place, serial;       /* of the lane in work request numbers */
    struct verbs_lane *next_pair; /* in verbs_device.pairs */
    struct verbs_buffers
        sends[VERBS_STEPS]; /* chunks, as many as have been needed at once; `steps` of these are there */
    unsigned steps;
    uint8_t idle[VERBS_SENDS]; /* chunks that no work request reads: */
    unsigned idle_count;
    struct verbs_buffers receives; /* VERBS_RECEIVES chunks, where the device has no shared ones */
    uint32_t most_inline;

    struct verbs_item queue[VERBS_QUEUE];
    unsigned first, count;
    bool flushing, wants_room;
    struct verbs_slot slots[VERBS_SENDS]; /* of work request n at n % VERBS_SENDS */
    uint32_t posted, completed;
    struct verbs_burst burst; /* the latest ones of these, which the adapter has not got yet */
    struct list ringing;      /* in verbs_transport.ringing, if there are any */
    uint32_t room;            /* receives of the peer for us */
    uint32_t owed;            /* receives of ours, posted anew, that it has not heard of */
    uint32_t granted;         /* and those that it may use, as far as we have said */

    uint64_t acknowledged, taken; /* bytes of work requests that have ended: of sends, and of receives */
    uint64_t confirmed;           /* of the former, when last more was under way */

    struct verbs_head put; /* under way to us if length > 0 */
    uint64_t put_done;
};

static inline struct verbs_lane *verbs_lane_of(struct lane *lane)
{
    return (struct verbs_lane *)lane;
}

static inline struct verbs_transport *verbs_of(struct verbs_lane *lane)
{
    return (struct verbs_transport *)lane->base.lane.transport;
}

static inline const struct verbs_library *verbs_calls(struct verbs_lane *lane)
{
    return verbs_of(lane)->library;
}

/* Chunks of a step begin with this one. */
static inline uint32_t verbs_step_first(uint32_t step)
{
    return step ? VERBS_FEW_SENDS << (step - 1) : 0;
}

static inline uint32_t verbs_step_of(uint32_t chunk)
{
    return chunk < VERBS_FEW_SENDS ? 0 : 32 - (uint32_t)__builtin_clz(chunk / VERBS_FEW_SENDS);
}

static inline unsigned char *verbs_send_chunk(const struct verbs_lane *lane, uint32_t chunk)
{
    uint32_t step = verbs_step_of(chunk);
    return lane->sends[step].memory + (size_t)(chunk - verbs_step_first(step)) * VERBS_CHUNK;
}

static inline unsigned char *verbs_receive_chunk(const struct verbs_lane *lane, uint32_t index)
{
    return lane->receives.memory + (size_t)index * VERBS_CHUNK;
}

/* Numbers of work requests say which lane, of all that ever were, and which of its sends or receives. That of a shared
 * receive is less, for lanes are counted from 1. */
static inline bool verbs_is_shared(uint64_t number)
{
    return !(number >> 32);
}
#define VERBS_IS_RECEIVE 0x8000u
/* And that of a read of a device's memory (flush.c) is of no lane either. */
static inline bool verbs_is_flush(uint64_t number)
{
    return !(number >> 32) && (number & VERBS_FLUSH);
}
static inline uint64_t verbs_number(const struct verbs_lane *lane, uint32_t which)
{
    return (uint64_t)lane->serial << 32 | lane->place << 16 | which;
}

#endif
