/* SPDX-License-Identifier: Apache-2.0 */
/* Requests. */
#ifndef TUTTI_MPI_REQUESTS_H
#define TUTTI_MPI_REQUESTS_H

#include "mpi/comms.h"
#include "mpi/types.h"

enum state { STATE_WAITS, STATE_MOVES, STATE_DONE };
#define INLINE_BYTES 208
struct header { /* what announces a message */
    int32_t kind, context, tag, padding;
    uint64_t bytes, number;
    char contents[INLINE_BYTES];
};
struct request {
    struct request *next;
    enum { REQUEST_SEND, REQUEST_RECEIVE, REQUEST_COLLECTIVE } what;
    enum state state; /* waits: for a peer's word; moves: as `stream` says */
    tutti_stream_t stream;
    struct comm *comm;
    struct status status;
    int peer; /* of COMM_WORLD, or ANY_SOURCE */
    int tag, context;
    void *buffer;
    size_t bytes;
    uint64_t number;
    struct header header, data;
    /* Collectives: what is to do when the stream has come to its end */
    int (*finish)(struct request *);
    void *room;
    const void *in;
    void *out;
    size_t count;
    struct mpi_op op;
    int type_handle, first, last;
    struct type type;
};
struct request *request_new(int what, struct comm *c);
void request_drop(struct request *r);
int request_wait(struct request *r, struct status *s); /* frees it */
int request_give(struct request *r, int *handle);

#endif
