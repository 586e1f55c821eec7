/* SPDX-License-Identifier: Apache-2.0 */
/* What the exported calls share: argument checks, and the group of the calling thread. */
#ifndef TUTTI_API_INTERNAL_H
#define TUTTI_API_INTERNAL_H

#include "comm/comm.h"
#include "engine/p2p.h"
#include "engine/puts.h"

#include <stdlib.h>

tutti_result_t group_init(const struct comm_settings *settings, tutti_comm_t *out);
tutti_result_t group_split(tutti_comm_t comm, int color, int key, const tutti_config_t *config, tutti_comm_t *child);
/*
 * The open group of a thread, as every call asks for it. Messages of one communicator on host memory are kept here
 * while there is nothing else in the group: most groups are exchanges, and need no more.
 */
#define GROUP_FRONT 8
struct group_front {
    int depth, count;
    tutti_result_t error; /* of a call inside the group */
    tutti_comm_t comm;
    tutti_stream_t stream;
    struct p2p_item item[GROUP_FRONT];
};
extern _Thread_local struct group_front group_front;
static inline bool group_open(void)
{
    return group_front.depth > 0;
}
/* What the group keeps must not be destroyed: `by` is 1 when it is put in, -1 when it is taken out. */
static inline void group_hold(const struct group_front *front, int by)
{
    atomic_fetch_add(&front->comm->grouped, by);
    if (front->stream)
        atomic_fetch_add(&front->stream->grouped, by);
}
static inline void group_let_go(struct group_front *front)
{
    group_hold(front, -1);
    front->count = 0;
}
/* Calls of this thread's open group, or straight to the executor when none is open. */
tutti_result_t group_prepare_and_pass(tutti_comm_t comm, const struct call *call, size_t *counts,
                                      tutti_stream_t stream);
static inline tutti_result_t group_pass(tutti_comm_t comm, const struct call *call, size_t *counts,
                                        tutti_stream_t stream)
{
    return comm_prepares(comm) ? group_prepare_and_pass(comm, call, counts, stream)
                               : comm_collective(comm, call, counts, stream, NULL);
}
tutti_result_t group_keep(tutti_comm_t comm, struct call *call, tutti_stream_t stream);
static inline tutti_result_t group_collective(tutti_comm_t comm, struct call *call, tutti_stream_t stream)
{
    return group_open() || call->coll == COLL_ALLTOALLV ? group_keep(comm, call, stream)
                                                        : group_pass(comm, call, NULL, stream);
}
tutti_result_t group_keep_p2p(tutti_comm_t comm, const struct p2p_item *item, tutti_stream_t stream);
static inline tutti_result_t group_p2p(tutti_comm_t comm, const struct p2p_item *item, tutti_stream_t stream)
{
    struct group_front *front = &group_front;
    if (!front->depth)
        return comm_p2p(comm, item, 1, stream);
    if (!front->count || front->count == GROUP_FRONT || front->comm != comm || front->stream != stream)
        return group_keep_p2p(comm, item, stream);
    front->item[front->count++] = *item;
    return TUTTI_SUCCESS;
}
/* comm.c: a group would issue its calls on what is gone. `kept`: the number of calls that open groups keep. */
tutti_result_t not_grouped(const char *what, int kept);
tutti_result_t group_keep_window(tutti_comm_t comm, const struct window_item *item, tutti_stream_t stream);
/* Remembers an error of a call inside a group, which fails the group's end, and returns it. That a communicator is
 * still being made is an error there: the call would be left out. */
tutti_result_t group_note(tutti_result_t result);

/* operator.c: resolves an operator value into call->op, premul and scalar. */
tutti_result_t operator_resolve_made(tutti_comm_t comm, tutti_op_t op, struct call *call) __attribute__((cold));
static inline tutti_result_t operator_resolve(tutti_comm_t comm, tutti_op_t op, struct call *call)
{
    call->op = (int16_t)op;
    return (unsigned)op < TUTTI_OP_COUNT ? TUTTI_SUCCESS : operator_resolve_made(comm, op, call);
}

/* What is wrong. */
tutti_result_t refuse_type(tutti_type_t type) __attribute__((cold));
tutti_result_t refuse_root(tutti_comm_t comm, int root) __attribute__((cold));
tutti_result_t refuse_count(size_t count, size_t times, tutti_type_t type) __attribute__((cold));
tutti_result_t refuse_buffer(const char *name, size_t count) __attribute__((cold));

static inline tutti_result_t check_type(tutti_type_t type)
{
    return (unsigned)type < TUTTI_TYPE_COUNT ? TUTTI_SUCCESS : refuse_type(type);
}

/* Of collectives with blocks of any sizes. */
tutti_result_t check_vector(const char *name, const void *buffer, const size_t *counts, const size_t *offsets, int n,
                            tutti_type_t type);

static inline tutti_result_t check_root(tutti_comm_t comm, int root)
{
    return root >= 0 && root < comm->team->nranks ? TUTTI_SUCCESS : refuse_root(comm, root);
}

/* Fills the call, and checks that this number of its blocks fits into an address space. */
static inline tutti_result_t check_blocks(struct call *call, size_t times)
{
    size_t bytes;
    bool fits = call_fill(call) && !__builtin_mul_overflow(call->bytes, times, &bytes) && bytes <= PTRDIFF_MAX;
    return fits ? TUTTI_SUCCESS : refuse_count(call->count, times, call->type);
}

static inline tutti_result_t check_count(size_t count, tutti_type_t type)
{
    size_t bytes;
    bool fits = !__builtin_mul_overflow(count, type_size(type), &bytes) && bytes <= PTRDIFF_MAX;
    return fits ? TUTTI_SUCCESS : refuse_count(count, 1, type);
}

static inline tutti_result_t check_buffer(const char *name, const void *buffer, size_t count)
{
    return buffer || !count ? TUTTI_SUCCESS : refuse_buffer(name, count);
}

#endif
