/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TCP transport: one socket a lane. A lane is a stream of frames, each a fixed header and its payload, sent from
 * the source and received into the target without a copy in between. Behind the payload of a put stands a word that
 * says whether it counts: what has begun goes to its end, and the source may be gone by then.
 */
#ifndef TUTTI_TRANSPORT_TCP_H
#define TUTTI_TRANSPORT_TCP_H

#include "base/net.h"
#include "transport/common.h"
#include "transport/acceptor.h"
#include "transport/connector.h"

#define TCP_MAX_MSG 132096 /* 128 KiB of payload and its heads */
#define TCP_QUEUE   64     /* unfinished frames of one lane */
#define TCP_INPUT   196608 /* receive buffer of one lane: at least a header and the longest message */

enum tcp_type { TCP_MSG = 1, TCP_PUT = 2 };

struct tcp_frame {
    uint32_t type; /* enum tcp_type */
    uint32_t imm;  /* of a put */
    uint64_t length;
    uint64_t offset; /* of a put */
};
_Static_assert(sizeof(struct tcp_frame) == 24, "tcp_frame is part of the protocol");

/* Behind the payload of a put. */
#define TCP_WHOLE 0x454c4f4857505554ull
#define TCP_VOID  0x44494f5657505554ull /* given up, or could not be read: what came is not the payload */

struct tcp_transport {
    struct transport base;
    struct acceptor acceptor;
    struct acceptor_socket listening[WIRE_ADDRESSES];
    struct transport_nic nic[WIRE_ADDRESSES]; /* that each listens at */
    struct list lanes;
    struct poll_source ports; /* news of network interfaces; fd -1: none */
    struct list hot;          /* lanes with recent traffic: asked directly */
    int hot_count;
    unsigned crowded_polls;         /* with too many of them to ask each */
    struct list blocked;            /* lanes with frames that the socket did not take */
    unsigned char spill[TCP_INPUT]; /* where dropped bytes go; also a message that lay unaligned */
};

/* A frame that waits for the socket. */
struct tcp_out {
    struct tcp_frame frame;
    const unsigned char *body;
    uint64_t end;  /* of a put: TCP_WHOLE or TCP_VOID */
    uint64_t done; /* bytes of header, body and end that the socket took */
    uint64_t token;
    void *copy; /* of a message: freed when it is done */
};

struct tcp_lane {
    struct carrier base;
    struct list node;
    int interface; /* that its bytes leave by; 0: none that is known, or the peer is on this host */
    struct poll_source source;
    uint32_t events;            /* watched now */
    struct connector connector; /* until the peer has welcomed us */
    struct list hot, blocked;
    unsigned silent_polls;
    uint16_t index;
    uint32_t epoch;
    uint8_t peer[WIRE_UUID_BYTES];
    uint64_t host; /* of the peer */

    struct tcp_out queue[TCP_QUEUE];
    unsigned first, count;
    bool flushing, wants_room;
    bool advancing;   /* the socket took more of the queue than is noted */
    int broken;       /* errno: the peer takes nothing more, and what it said before is still to be read */
    bool welcome_due; /* accepted: until the owner has decided, what it says waits in the queue */

    uint64_t given, taken; /* bytes of the stream that the socket took, and gave */
    uint64_t confirmed;    /* of the former, as of the last look that found more under way */

    unsigned char *in; /* TCP_INPUT bytes; [start, end) are not yet handled */
    size_t start, end;
    struct tcp_frame put; /* under way if length > 0: the payload, or the word behind it */
    uint64_t put_done;
    unsigned char *put_target;
    unsigned bulk; /* messages for which big puts are still expected: read little ahead, so that their payload goes to
                      its target directly */
};

static inline struct tcp_lane *tcp_lane_of(struct lane *lane)
{
    return (struct tcp_lane *)lane;
}

static inline struct tcp_transport *tcp_of(struct tcp_lane *lane)
{
    return (struct tcp_transport *)lane->base.lane.transport;
}

#endif
