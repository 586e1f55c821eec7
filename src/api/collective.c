/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives: check, describe as a call, hand on. */
#include "api/internal.h"

#include "base/error.h"

#include <stdlib.h>
#include <string.h>

/* What a buffer must hold, in blocks of count: 0: not looked at on this rank. */
struct needs {
    size_t send, recv;
};

static tutti_result_t check_call(tutti_comm_t comm, struct call *call, struct needs needs)
{
    tutti_result_t result = comm_usable(comm);
    if (result == TUTTI_SUCCESS)
        result = check_type(call->type);
    if (result == TUTTI_SUCCESS)
        result = check_blocks(call, needs.send > needs.recv ? needs.send : needs.recv);
    if (result == TUTTI_SUCCESS && needs.send)
        result = check_buffer("send", call->in, call->count);
    if (result == TUTTI_SUCCESS && needs.recv)
        result = check_buffer("recv", call->out, call->count);
    return result;
}

/* Checks the rest and issues. `rooted`: the root is looked at. */
static tutti_result_t api_collective_issue(tutti_comm_t comm, struct call *call, struct needs needs, bool rooted,
                                           tutti_op_t op, tutti_stream_t stream)
{
    tutti_result_t result = check_call(comm, call, needs);
    if (result == TUTTI_SUCCESS && rooted)
        result = check_root(comm, call->root);
    if (result == TUTTI_SUCCESS && schedule_reduces(call->coll))
        result = operator_resolve(comm, op, call);
    if (result == TUTTI_SUCCESS)
        return group_collective(comm, call, stream);
    return group_note(result);
}

/* The number of ranks, 1 while the handle is not known to be good. */
static size_t ranks_of(tutti_comm_t comm)
{
    return comm && comm_usable(comm) == TUTTI_SUCCESS ? (size_t)comm->team->nranks : 1;
}

static bool is_root(tutti_comm_t comm, int root)
{
    return comm && comm_usable(comm) == TUTTI_SUCCESS && comm->team->rank == root;
}

tutti_result_t tutti_allreduce(const void *send, void *recv, size_t count, tutti_type_t type, tutti_op_t op,
                               tutti_comm_t comm, tutti_stream_t stream)
{
    struct call call = {.coll = COLL_ALLREDUCE, .type = type, .count = count, .in = send, .out = recv};
    return api_collective_issue(comm, &call, (struct needs){1, 1}, false, op, stream);
}

tutti_result_t tutti_reduce(const void *send, void *recv, size_t count, tutti_type_t type, tutti_op_t op, int root,
                            tutti_comm_t comm, tutti_stream_t stream)
{
    struct call call = {.coll = COLL_REDUCE, .type = type, .count = count, .in = send, .out = recv, .root = root};
    return api_collective_issue(comm, &call, (struct needs){1, is_root(comm, root)}, true, op, stream);
}

tutti_result_t tutti_broadcast(const void *send, void *recv, size_t count, tutti_type_t type, int root,
                               tutti_comm_t comm, tutti_stream_t stream)
{
    struct call call = {
        .coll = COLL_BROADCAST, .type = type, .count = count, .in = send, .out = recv, .root = root, .op = -1};
    return api_collective_issue(comm, &call, (struct needs){is_root(comm, root), 1}, true, TUTTI_SUM, stream);
}

tutti_result_t tutti_allgather(const void *send, void *recv, size_t count, tutti_type_t type, tutti_comm_t comm,
                               tutti_stream_t stream)
{
    struct call call = {.coll = COLL_ALLGATHER, .type = type, .count = count, .in = send, .out = recv, .op = -1};
    return api_collective_issue(comm, &call, (struct needs){1, ranks_of(comm)}, false, TUTTI_SUM, stream);
}

tutti_result_t tutti_reduce_scatter(const void *send, void *recv, size_t count, tutti_type_t type, tutti_op_t op,
                                    tutti_comm_t comm, tutti_stream_t stream)
{
    struct call call = {.coll = COLL_REDUCE_SCATTER, .type = type, .count = count, .in = send, .out = recv};
    return api_collective_issue(comm, &call, (struct needs){ranks_of(comm), 1}, false, op, stream);
}

static tutti_result_t check_scan(tutti_comm_t comm, tutti_op_t op)
{
    tutti_result_t result = comm_usable(comm);
    if (result != TUTTI_SUCCESS)
        return result;
    if (op == TUTTI_AVG)
        return error_set(TUTTI_INVALID_USAGE,
                         "a scan has no average: each rank has its own number of inputs; use TUTTI_SUM");
    if (comm_device(comm) != TUTTI_HOST)
        return error_set(TUTTI_INVALID_USAGE, "scan is not built for GPUs; use a communicator of host memory");
    return TUTTI_SUCCESS;
}

tutti_result_t tutti_scan(const void *send, void *recv, size_t count, tutti_type_t type, tutti_op_t op,
                          tutti_comm_t comm, tutti_stream_t stream)
{
    struct call call = {.coll = COLL_SCAN, .type = type, .count = count, .in = send, .out = recv};
    tutti_result_t result = check_scan(comm, op);
    return result == TUTTI_SUCCESS ? api_collective_issue(comm, &call, (struct needs){1, 1}, false, op, stream)
                                   : group_note(result);
}

static tutti_result_t refuse_in_place(const void *send, const void *recv, size_t count, const char *what)
{
    if (send != recv || !count)
        return TUTTI_SUCCESS;
    return group_note(error_set(TUTTI_INVALID_USAGE, "%s cannot run in place; give it another recv buffer", what));
}

tutti_result_t tutti_alltoall(const void *send, void *recv, size_t count, tutti_type_t type, tutti_comm_t comm,
                              tutti_stream_t stream)
{
    struct call call = {.coll = COLL_ALLTOALL, .type = type, .count = count, .in = send, .out = recv, .op = -1};
    tutti_result_t result = refuse_in_place(send, recv, count, "alltoall");
    return result == TUTTI_SUCCESS ? api_collective_issue(comm, &call, (struct needs){ranks_of(comm), ranks_of(comm)},
                                                          false, TUTTI_SUM, stream)
                                   : result;
}

tutti_result_t check_vector(const char *name, const void *buffer, const size_t *counts, const size_t *offsets, int n,
                            tutti_type_t type)
{
    if (!counts || !offsets)
        return error_set(TUTTI_INVALID_ARGUMENT, "the %s counts or offsets are NULL", name);
    for (int rank = 0; rank < n; rank++) {
        size_t end;
        if (__builtin_add_overflow(counts[rank], offsets[rank], &end))
            return error_set(TUTTI_INVALID_ARGUMENT, "%s count and offset of rank %d overflow", name, rank);
        tutti_result_t result = check_count(end, type);
        if (result == TUTTI_SUCCESS)
            result = check_buffer(name, buffer, counts[rank]);
        if (result != TUTTI_SUCCESS)
            return result;
    }
    return TUTTI_SUCCESS;
}

tutti_result_t tutti_alltoallv(const void *send, const size_t *send_counts, const size_t *send_offsets, void *recv,
                               const size_t *recv_counts, const size_t *recv_offsets, tutti_type_t type,
                               tutti_comm_t comm, tutti_stream_t stream)
{
    struct call call = {.coll = COLL_ALLTOALLV,
                        .type = type,
                        .in = send,
                        .out = recv,
                        .op = -1,
                        .send_counts = send_counts,
                        .send_offsets = send_offsets,
                        .recv_counts = recv_counts,
                        .recv_offsets = recv_offsets};
    tutti_result_t result = comm_usable(comm);
    if (result == TUTTI_SUCCESS)
        result = check_type(type);
    if (result == TUTTI_SUCCESS)
        result = check_vector("send", send, send_counts, send_offsets, comm->team->nranks, type);
    if (result == TUTTI_SUCCESS)
        result = check_vector("recv", recv, recv_counts, recv_offsets, comm->team->nranks, type);
    if (result != TUTTI_SUCCESS)
        return group_note(result);
    if (send == recv && send)
        return refuse_in_place(send, recv, 1, "alltoallv");
    int me = comm->team->rank;
    if (send_counts[me] != recv_counts[me])
        return group_note(error_set(TUTTI_INVALID_ARGUMENT, "rank %d sends itself %zu elements and expects %zu", me,
                                    send_counts[me], recv_counts[me]));
    call_fill(&call);
    return group_collective(comm, &call, stream);
}

tutti_result_t tutti_gather(const void *send, void *recv, size_t count, tutti_type_t type, int root, tutti_comm_t comm,
                            tutti_stream_t stream)
{
    struct call call = {
        .coll = COLL_GATHER, .type = type, .count = count, .in = send, .out = recv, .root = root, .op = -1};
    return api_collective_issue(comm, &call, (struct needs){1, is_root(comm, root) ? ranks_of(comm) : 0}, true,
                                TUTTI_SUM, stream);
}

tutti_result_t tutti_scatter(const void *send, void *recv, size_t count, tutti_type_t type, int root, tutti_comm_t comm,
                             tutti_stream_t stream)
{
    struct call call = {
        .coll = COLL_SCATTER, .type = type, .count = count, .in = send, .out = recv, .root = root, .op = -1};
    return api_collective_issue(comm, &call, (struct needs){is_root(comm, root) ? ranks_of(comm) : 0, 1}, true,
                                TUTTI_SUM, stream);
}

tutti_result_t tutti_barrier(tutti_comm_t comm, tutti_stream_t stream)
{
    struct call call = {.coll = COLL_BARRIER, .type = TUTTI_UINT8, .op = -1};
    return api_collective_issue(comm, &call, (struct needs){0, 0}, false, TUTTI_SUM, stream);
}

static __attribute__((noinline)) tutti_result_t check_group(int rank)
{
    if (group_open())
        return TUTTI_SUCCESS;
    return error_set(TUTTI_INVALID_USAGE,
                     "rank %d sends to or receives from itself outside a group: it would wait forever", rank);
}

static tutti_result_t point_to_point(bool sends, void *data, size_t count, tutti_type_t type, int peer,
                                     tutti_comm_t comm, tutti_stream_t stream)
{
    struct p2p_item item = {.sends = sends, .peer = peer, .data = data, .count = count, .type = type};
    tutti_result_t result = comm_usable(comm);
    if (result == TUTTI_SUCCESS)
        result = check_type(type);
    if (result == TUTTI_SUCCESS)
        result = check_count(count, type);
    if (result == TUTTI_SUCCESS)
        result = check_buffer(sends ? "send" : "recv", data, count);
    if (result == TUTTI_SUCCESS)
        result = check_root(comm, peer);
    if (result == TUTTI_SUCCESS && peer == comm->team->rank)
        result = check_group(peer);
    return result == TUTTI_SUCCESS ? group_p2p(comm, &item, stream) : group_note(result);
}

tutti_result_t tutti_send(const void *send, size_t count, tutti_type_t type, int peer, tutti_comm_t comm,
                          tutti_stream_t stream)
{
    return point_to_point(true, (void *)(uintptr_t)send, count, type, peer, comm, stream);
}

tutti_result_t tutti_recv(void *recv, size_t count, tutti_type_t type, int peer, tutti_comm_t comm,
                          tutti_stream_t stream)
{
    return point_to_point(false, recv, count, type, peer, comm, stream);
}
