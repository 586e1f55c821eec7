/* SPDX-License-Identifier: Apache-2.0 */
/* An identifier of the connection manager: what the kernel has for a struct rdma_cm_id. With the lock held. */
#ifndef RDMACM_ID_H
#define RDMACM_ID_H

#include "rdmacm/channel.h"
#include "rdmacm/place.h"
#include "rdmacm/stream.h"

/* The kernel's numbers, which are those of <rdma_cma.h>. */
enum cm_event_kind {
    CM_ADDR_RESOLVED,
    CM_ADDR_ERROR,
    CM_ROUTE_RESOLVED,
    CM_ROUTE_ERROR,
    CM_CONNECT_REQUEST,
    CM_CONNECT_RESPONSE,
    CM_CONNECT_ERROR,
    CM_UNREACHABLE,
    CM_REJECTED,
    CM_ESTABLISHED,
    CM_DISCONNECTED,
    CM_DEVICE_REMOVAL,
    CM_MULTICAST_JOIN,
    CM_MULTICAST_ERROR,
    CM_ADDR_CHANGE,
    CM_TIMEWAIT_EXIT,
};

/* Private data that the messages of InfiniBand have room for. Programs see that whole room, filled with zeros. */
#define ROOM_REQ      56
#define ROOM_REP      196
#define ROOM_REJ      148
#define ROOM_SIDR_REQ 180
#define ROOM_SIDR_REP 136

#define UD_QKEY 0x01234567

enum cm_state {
    CM_IDLE,
    CM_BOUND,
    CM_ADDRESS, /* the address is resolved */
    CM_ROUTE,   /* and the route */
    CM_LISTENING,
    CM_CONNECTING, /* we have asked */
    CM_ASKED,      /* the other side has, the program has not answered */
    CM_REP_SENT,
    CM_REP_HERE,
    CM_CONNECTED,
    CM_LEAVING, /* we have said goodbye */
    CM_LEFT,    /* the program was told that the connection is gone */
    CM_OVER,    /* refused, or never came to be */
};

struct cm_door {
    int fd, entry; /* of the name that reserves the port: -1 without */
};

/* A membership of a multicast group. */
struct cm_group {
    struct list node;
    uint32_t number;
    uint64_t uid;
    uint32_t reported;
};

struct cm_id {
    struct list node; /* in the channel's */
    uint32_t number;
    uint64_t uid;
    struct cm_channel *channel;
    uint16_t space;
    uint8_t qp_type;
    enum cm_state state;
    union cm_address from, to;
    struct cm_place place;
    uint8_t tos, ack_timeout; /* 0: default */
    bool reuse, only_family;
    bool removed; /* its device was taken out, and the program was told */
    struct cm_door door;
    int backlog; /* requests that may still wait */
    struct cm_stream stream;
    struct cm_timer timer;
    unsigned tries;
    bool held;                        /* a listener has the request */
    bool told_left;                   /* the other side has said goodbye, and waits for ours */
    struct rdma_ucm_conn_param param; /* what we asked for */
    uint32_t psn, remote_qpn, remote_psn;
    uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count;
    struct list groups;
    uint32_t reported;
};

/* NULL: no memory. */
struct cm_id *id_make(struct cm_channel *channel, uint16_t space, uint8_t qp_type);
/* NULL: the channel has none of this number. */
struct cm_id *id_find(const struct cm_channel *channel, uint32_t number);
/* What is left of it when its stream and its door are closed; `dropped` gets children of requests that nobody saw. */
void id_free(struct cm_id *id, void (*dropped)(struct cm_id *child));

struct cm_group *group_make(struct cm_id *id, uint64_t uid);
struct cm_group *group_find(const struct cm_channel *channel, uint32_t number, struct cm_id **id);
void group_free(struct cm_id *id, struct cm_group *group);

bool id_is_datagram(const struct cm_id *id);
/* The way to the other side. */
void id_fill_address(const struct cm_id *id, struct ib_uverbs_ah_attr *attr);
/* An event of the identifier; a program that has not accepted it yet hears of none. */
void id_post(struct cm_id *id, enum cm_event_kind kind, int status, const struct cm_message *message);
/* A request for a connection, which `child` is to become. 0 or ENOMEM. */
int id_post_request(struct cm_id *listener, struct cm_id *child, const struct cm_message *message);

#endif
