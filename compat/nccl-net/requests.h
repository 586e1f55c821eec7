/* SPDX-License-Identifier: Apache-2.0 */
/* Sends or receives of a connection, which bytes they are for, and what has come before its receive. One thread at a
 * time. */
#ifndef TUTTI_NCCL_NET_REQUESTS_H
#define TUTTI_NCCL_NET_REQUESTS_H

#include "nccl-net/net.h"

#define NET_MOST_KEPT ((size_t)256 << 20) /* bytes of a connection that have come before their receives */

/* Bytes of one payload: a send's, or of a receive one of several. */
struct net_part {
    struct net_request *request; /* NULL: they have come before their receive */
    void *data;
    uint64_t size; /* before it is taken: the room */
    int tag;
    bool taken; /* a payload goes there, */
    bool came;  /* and is there */
};

struct net_request {
    struct connection *connection;
    struct net_request *next;
    int count, waits, left; /* parts; those that are not taken; those that are not over */
    bool used;              /* until a test has said that it is over */
    struct net_part part[NET_GROUPED];
};

struct net_early;

struct net_requests {
    struct net_request request[NET_REQUESTS];
    struct net_request *first; /* of those with parts that are not taken, in the order of their posts */
    int unfinished;
    struct net_early *early; /* in the order of their coming */
    size_t kept;             /* their bytes */
};

/* NULL: as many are under way as there may be. */
struct net_request *requests_add(struct net_requests *requests, int n, void *const *data, const size_t *sizes,
                                 const int *tags);
/* Does one wait for something to do? */
bool requests_wait(const struct net_requests *requests);
/* The next one to send, which is taken. NULL: none is left. */
struct net_part *requests_next(struct net_requests *requests);
/* Where the payload that comes next is to go: to the first receive of its tag, else it is kept. */
enum net_result requests_match(struct net_requests *requests, int tag, uint64_t size, struct net_part **out);
/* The payload is there, or gone. */
void requests_came(struct net_requests *requests, struct net_part *part);
/* Copies what is kept, and there, to the receives that have come for it. */
enum net_result requests_hand_out(struct net_requests *requests);
void requests_free(struct net_requests *requests);

#endif
