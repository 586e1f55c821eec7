/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives with blocks of any sizes, made of others. An allgatherv is an alltoallv that reads the same memory for
 * each peer. A reduce-scatterv is one reduction for each block, in a group.
 */
#include "api/internal.h"

#include "base/error.h"

#include <stdlib.h>

/* Offsets of blocks that lie one behind the other, if none are given. NULL: no memory. */
static size_t *offsets_of(const size_t *counts, const size_t *given, size_t n)
{
    size_t *offsets = malloc(n * sizeof *offsets), end = 0;
    for (size_t rank = 0; offsets && rank < n; rank++) {
        offsets[rank] = given ? given[rank] : end;
        if (!given && __builtin_add_overflow(end, counts[rank], &end))
            end = SIZE_MAX; /* is refused as too large */
    }
    return offsets;
}

/* Checks what is common to both, and gives offsets. */
static tutti_result_t prepare(const char *name, const void *buffer, const size_t *counts, const size_t *given,
                              tutti_type_t type, tutti_comm_t comm, size_t **offsets)
{
    *offsets = NULL;
    tutti_result_t result = comm_usable(comm);
    if (result == TUTTI_SUCCESS)
        result = check_type(type);
    if (result == TUTTI_SUCCESS && !counts)
        result = error_set(TUTTI_INVALID_ARGUMENT, "the counts are NULL");
    if (result != TUTTI_SUCCESS)
        return result;
    *offsets = offsets_of(counts, given, (size_t)comm->team->nranks);
    if (!*offsets)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for the offsets of %d ranks", comm->team->nranks);
    return check_vector(name, buffer, counts, *offsets, comm->team->nranks, type);
}

tutti_result_t tutti_allgatherv(const void *send, void *recv, const size_t *counts, const size_t *offsets,
                                tutti_type_t type, tutti_comm_t comm, tutti_stream_t stream)
{
    size_t *places, *same = NULL;
    tutti_result_t result = prepare("recv", recv, counts, offsets, type, comm, &places);
    if (result == TUTTI_SUCCESS)
        result = check_buffer("send", send, counts[comm->team->rank]);
    size_t n = result == TUTTI_SUCCESS ? (size_t)comm->team->nranks : 0;
    if (result == TUTTI_SUCCESS && !(same = calloc(2 * n, sizeof *same)))
        result = error_set(TUTTI_SYSTEM_ERROR, "no memory for the counts of %zu ranks", n);
    for (size_t rank = 0; same && rank < n; rank++)
        same[rank] = counts[comm->team->rank]; /* and the offsets behind are 0: all get the same */
    if (result == TUTTI_SUCCESS) {
        struct call call = {.coll = COLL_ALLTOALLV,
                            .type = type,
                            .in = send,
                            .out = recv,
                            .op = -1,
                            .send_counts = same,
                            .send_offsets = same + n,
                            .recv_counts = counts,
                            .recv_offsets = places};
        call_fill(&call);
        result = group_collective(comm, &call, stream);
    } else {
        result = group_note(result);
    }
    free(same);
    free(places);
    return result;
}

/* A reduction to each rank of its block. Ranks whose block is empty get none, on all ranks alike. */
static tutti_result_t reduce_each(const char *send, const size_t *counts, const size_t *offsets, void *recv,
                                  tutti_type_t type, tutti_op_t op, tutti_comm_t comm, tutti_stream_t stream)
{
    tutti_result_t result = tutti_group_start();
    for (int rank = 0; result == TUTTI_SUCCESS && rank < comm->team->nranks; rank++)
        if (counts[rank])
            result =
                tutti_reduce(send + offsets[rank] * type_size(type), recv, counts[rank], type, op, rank, comm, stream);
    tutti_result_t ended = tutti_group_end();
    return result == TUTTI_SUCCESS ? ended : result;
}

static bool all_equal(const size_t *counts, const size_t *offsets, int n)
{
    for (int rank = 0; rank < n; rank++)
        if (counts[rank] != counts[0] || offsets[rank] != (size_t)rank * counts[0])
            return false;
    return true;
}

tutti_result_t tutti_reduce_scatterv(const void *send, const size_t *counts, const size_t *offsets, void *recv,
                                     tutti_type_t type, tutti_op_t op, tutti_comm_t comm, tutti_stream_t stream)
{
    size_t *places;
    tutti_result_t result = prepare("send", send, counts, offsets, type, comm, &places);
    if (result == TUTTI_SUCCESS)
        result = check_buffer("recv", recv, counts[comm->team->rank]);
    if (result != TUTTI_SUCCESS)
        result = group_note(result);
    else if (all_equal(counts, places, comm->team->nranks))
        result = tutti_reduce_scatter(send, recv, counts[0], type, op, comm, stream);
    else
        result = reduce_each(send, counts, places, recv, type, op, comm, stream);
    free(places);
    return result;
}
