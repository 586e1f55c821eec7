/* SPDX-License-Identifier: Apache-2.0 */
/* What the two ends of a verbs lane say to each other. */
#ifndef TUTTI_TRANSPORT_VERBS_PROTOCOL_H
#define TUTTI_TRANSPORT_VERBS_PROTOCOL_H

#include "transport/acceptor.h"
#include "transport/connector.h"
#include "transport/socket.h"

#define VERBS_CHUNK      8192 /* bytes of one buffer of a lane, its head included */
#define VERBS_SENDS      32   /* work requests of a lane that are under way */
#define VERBS_FEW_SENDS  4    /* those of them that have a buffer to begin with; that is doubled */
#define VERBS_STEPS      4    /* 4, 8, 16 and all */
#define VERBS_RECEIVES   64   /* and receives that the peer may use at once */
#define VERBS_RESERVE    2    /* of the peer's receives, for words that give back ours */
#define VERBS_BUFFERS    ((size_t)(VERBS_SENDS + VERBS_RECEIVES) * VERBS_CHUNK) /* bytes that a lane has, at most */
#define VERBS_QUEUE      64   /* unfinished messages and puts of a lane */
#define VERBS_BATCH      16   /* completions taken at once */
#define VERBS_ROOM_FIRST 1024 /* completions that a new queue holds */
#define VERBS_MAX_MSG    (VERBS_CHUNK - sizeof(struct verbs_head))

enum verbs_type { VERBS_MSG = 1, VERBS_PUT, VERBS_ROOM, VERBS_TAKEN };

/* Before the payload of each SEND. A put is several of them. */
struct verbs_head {
    uint32_t type; /* enum verbs_type */
    uint32_t room; /* receives that were posted anew since the last head */
    uint32_t imm;  /* of a put */
    uint32_t reserved;
    uint64_t length; /* of the message, or of the whole put */
    uint64_t offset; /* of the whole put */
};
_Static_assert(VERBS_FEW_SENDS << (VERBS_STEPS - 1) == VERBS_SENDS, "in the end each send has a buffer");
_Static_assert(sizeof(struct verbs_head) == 32, "verbs_head is part of the protocol");

/* What one end must know of the other's queue pair. */
struct verbs_info {
    uint32_t qp, psn;
    uint8_t gid[16];
    uint16_t lid;
    uint8_t mtu;        /* enum ibv_mtu */
    uint8_t link_layer; /* of the port */
    uint8_t device;     /* by which struct wire_remote has the keys */
    uint8_t opened;     /* and how often it was opened anew, counted round: struct wire_remote says it, too */
    uint16_t receives;  /* posted */
};
_Static_assert(sizeof(struct verbs_info) == 32, "verbs_info is part of the protocol");

/*
 * The words over the connection, in this order: from who connects, the answer, that packets have gone over the queue
 * pair and were acknowledged, and no. Yes is VERBS_TAKEN, over the queue pair, before all else. Later the one who has
 * connected may say that packets were quicker.
 */
struct verbs_hello {
    struct wire_hello hello;
    struct verbs_info info;
};
struct verbs_welcome {
    struct socket_welcome welcome;
    struct verbs_info info;
};
#define VERBS_READY    0x52545455u /* "UTTR" */
#define VERBS_DECLINED 0x44545455u /* "UTTD" */
#define VERBS_NEARER   0x4e545455u /* "UTTN" */
struct verbs_word {
    uint32_t word; /* one of the three */
    uint32_t trip; /* ns that the quickest of the packets and its acknowledgement took; 0: not known */
};
_Static_assert(sizeof(struct verbs_hello) <= ACCEPTOR_GREETING && sizeof(struct verbs_welcome) <= CONNECTOR_ANSWER,
               "greetings fit");

#endif
