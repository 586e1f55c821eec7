/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about collectives: names, buffers, which buffers in-place calls share. */
#include "schedule/schedule.h"

#include <ctype.h>
#include <string.h>

static const char *const coll_names[COLL_COUNT] = {
    [COLL_ALLREDUCE] = "allreduce",
    [COLL_REDUCE] = "reduce",
    [COLL_BROADCAST] = "broadcast",
    [COLL_ALLGATHER] = "allgather",
    [COLL_REDUCE_SCATTER] = "reduce-scatter",
    [COLL_ALLTOALL] = "alltoall",
    [COLL_ALLTOALLV] = "alltoallv",
    [COLL_GATHER] = "gather",
    [COLL_SCATTER] = "scatter",
    [COLL_BARRIER] = "barrier",
    [COLL_SCAN] = "scan",
};

const char *schedule_coll_name(enum coll coll)
{
    return (unsigned)coll < COLL_COUNT ? coll_names[coll] : "unknown";
}

static const char *skip_joiners(const char *text, const char *end)
{
    while (text < end && (*text == '-' || *text == '_'))
        text++;
    return text;
}

bool schedule_same_name(const char *a, const char *b, size_t length)
{
    const char *a_end = a + strlen(a), *b_end = b + length;
    for (;;) {
        a = skip_joiners(a, a_end);
        b = skip_joiners(b, b_end);
        if (a == a_end || b == b_end)
            return a == a_end && b == b_end;
        if (tolower((unsigned char)*a++) != tolower((unsigned char)*b++))
            return false;
    }
}

enum coll schedule_coll_find(const char *name, size_t length)
{
    int coll = 0;
    while (coll < COLL_COUNT && !schedule_same_name(coll_names[coll], name, length))
        coll++;
    return (enum coll)coll;
}

const char *schedule_kind_name(enum action_kind kind)
{
    static const char *const names[] = {"send", "recv", "recv-reduce", "copy", "reduce"};
    return (unsigned)kind <= ACTION_REDUCE ? names[kind] : "unknown";
}

bool schedule_has_root(enum coll coll)
{
    return schedule_in_set(coll, 1u << COLL_REDUCE | 1u << COLL_BROADCAST | 1u << COLL_GATHER | 1u << COLL_SCATTER);
}

bool schedule_in_place_defined(enum coll coll)
{
    return !schedule_in_set(coll, 1u << COLL_ALLTOALL | 1u << COLL_ALLTOALLV | 1u << COLL_BARRIER);
}

bool schedule_fits(const struct algorithm *algorithm, const struct shape *shape)
{
    int n = shape->nranks;
    if ((unsigned)shape->coll >= COLL_COUNT || !schedule_in_set(shape->coll, algorithm->colls))
        return false;
    if (n < 1 || shape->root < 0 || shape->root >= n)
        return false;
    return !(algorithm->flags & ALGORITHM_POWER_OF_TWO) || (n & (n - 1)) == 0;
}

static bool schedule_by_position(const struct algorithm *algorithm, const struct shape *shape)
{
    return shape->levels && !shape->levels->in_order && !(algorithm->flags & ALGORITHM_LEVELS) &&
           schedule_cuts_vector(shape->coll) && shape->coll != COLL_SCAN;
}

static struct shape shape_by_position(const struct shape *shape)
{
    int root = schedule_has_root(shape->coll) ? shape->levels->position[shape->root] : 0;
    return (struct shape){.coll = shape->coll, .nranks = shape->nranks, .root = root};
}

int schedule_round(const struct algorithm *algorithm, const struct shape *shape, int rank, int round,
                   struct action *out)
{
    if (!schedule_by_position(algorithm, shape))
        return algorithm->round(shape, rank, round, out);
    struct shape placed = shape_by_position(shape);
    int count = algorithm->round(&placed, shape->levels->position[rank], round, out);
    for (int i = 0; i < count; i++)
        if (out[i].kind <= ACTION_RECV_REDUCE && (unsigned)out[i].peer < (unsigned)shape->nranks)
            out[i].peer = shape->levels->order[out[i].peer];
    return count;
}

int schedule_scratch(const struct algorithm *algorithm, const struct shape *shape, int rank)
{
    if (!schedule_by_position(algorithm, shape))
        return algorithm->scratch(shape, rank);
    struct shape placed = shape_by_position(shape);
    return algorithm->scratch(&placed, shape->levels->position[rank]);
}

int schedule_buffer_blocks(const struct shape *shape, int rank, enum buffer buffer, int nblocks)
{
    bool input = buffer == BUFFER_IN, root = rank == shape->root;
    switch (shape->coll) {
    case COLL_ALLREDUCE:
    case COLL_SCAN:
    case COLL_ALLTOALL:
    case COLL_ALLTOALLV:
        return nblocks;
    case COLL_REDUCE:
        return input || root ? nblocks : 0;
    case COLL_BROADCAST:
        return !input || root ? nblocks : 0;
    case COLL_ALLGATHER:
        return input ? 1 : nblocks;
    case COLL_REDUCE_SCATTER:
        return input ? nblocks : 1;
    case COLL_GATHER:
        return input ? 1 : root ? nblocks : 0;
    case COLL_SCATTER:
        return !input ? 1 : root ? nblocks : 0;
    default:
        return 0;
    }
}

bool schedule_alias(const struct shape *shape, int rank, enum buffer *inner, int *offset)
{
    bool root = rank == shape->root;
    *inner = BUFFER_IN;
    *offset = 0;
    switch (shape->coll) {
    case COLL_ALLREDUCE:
    case COLL_SCAN:
        return true;
    case COLL_REDUCE:
    case COLL_BROADCAST:
        return root;
    case COLL_ALLGATHER:
        *offset = rank;
        return true;
    case COLL_REDUCE_SCATTER:
        *inner = BUFFER_OUT;
        *offset = rank;
        return true;
    case COLL_GATHER:
        *offset = rank;
        return root;
    case COLL_SCATTER:
        *inner = BUFFER_OUT;
        *offset = rank;
        return root;
    default:
        return false;
    }
}
