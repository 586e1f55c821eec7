/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the rows of algorithm/composed.c do, on GPUs: each island reduces or shares by its own links, so that a rail
 * carries its part of the bytes between hosts and no other. Vectors of few bytes go whole, in two steps. What does not
 * divide by the ranks of an island goes behind the last block, on the last rail.
 */
#include "executor/islands/steps.h"

#include "base/error.h"
#include "executor/islands/unlike.h"
#include "executor/islands/walk.h"

#include <stdlib.h>

/* ---- Steps ---- */

/* What does not divide by the ranks of an island goes by the last rail, whose blocks are the longest then. */
static size_t longest_of(const struct walk *walk, enum coll coll, size_t count)
{
    size_t all = walk->call->count, parts = (size_t)walk->islands->size;
    return coll == COLL_ALLREDUCE && walk->islands->alike && count < all ? all / parts + all % parts : count;
}

static tutti_result_t on_rail(const struct walk *walk, enum coll coll, size_t count, const void *in, void *out,
                              int root)
{
    return walk_rail(walk, coll, count, count ? longest_of(walk, coll, count) : 0, in, out, root);
}

static bool is_last(const struct islands *islands)
{
    return islands->index == islands->size - 1;
}

/* ---- Vectors ---- */

static tutti_result_t allreduce_small(const struct walk *walk)
{
    const struct call *call = walk->call;
    tutti_result_t result = walk_island(walk, COLL_ALLREDUCE, call->count, call->in, call->out, 0);
    return result == TUTTI_SUCCESS ? on_rail(walk, COLL_ALLREDUCE, call->count, call->out, call->out, 0) : result;
}

static tutti_result_t allreduce(const struct walk *walk)
{
    const struct call *call = walk->call;
    size_t parts = (size_t)walk->islands->size, each = call->count / parts, rest = call->count % parts;
    void *own = walk_at(call->out, (size_t)walk->islands->index * each, call),
         *tail = walk_at(call->out, parts * each, call);
    int last = walk->islands->size - 1;
    tutti_result_t result = walk_island(walk, COLL_REDUCE_SCATTER, each, call->in, own, 0);
    if (result == TUTTI_SUCCESS)
        result = walk_island(walk, COLL_REDUCE, rest, walk_at(call->in, parts * each, call), tail, last);
    if (result == TUTTI_SUCCESS)
        result = on_rail(walk, COLL_ALLREDUCE, each + (is_last(walk->islands) ? rest : 0), own, own, 0);
    if (result == TUTTI_SUCCESS)
        result = walk_island(walk, COLL_ALLGATHER, each, own, call->out, 0);
    return result == TUTTI_SUCCESS ? walk_island(walk, COLL_BROADCAST, rest, tail, tail, last) : result;
}

/* Elements [from, from + count) of the vector, whole: each rail carries all of them. */
static tutti_result_t reduce_whole(const struct walk *walk, size_t from, size_t count)
{
    const struct call *call = walk->call;
    void *held = walk->islands->scratch;
    bool root = walk->islands->team->rank == call->root;
    tutti_result_t result = walk_island(walk, COLL_ALLREDUCE, count, walk_at(call->in, from, call), held, 0);
    return result == TUTTI_SUCCESS ? on_rail(walk, COLL_REDUCE, count, held,
                                             root ? walk_at(call->out, from, call) : held, walk_root_island(walk))
                                   : result;
}

static tutti_result_t reduce_part(const struct walk *walk, size_t from, size_t each)
{
    const struct call *call = walk->call;
    void *held = walk->islands->scratch;
    tutti_result_t result = walk_island(walk, COLL_REDUCE_SCATTER, each, walk_at(call->in, from, call), held, 0);
    if (result == TUTTI_SUCCESS)
        result = on_rail(walk, COLL_REDUCE, each, held, held, walk_root_island(walk));
    if (result != TUTTI_SUCCESS || !walk_roots_own(walk))
        return result == TUTTI_SUCCESS ? walk_skip(walk, 1, each) : result;
    return walk_island(walk, COLL_GATHER, each, held, walk_at(call->out, from, call), walk_root_index(walk));
}

static tutti_result_t reduce(const struct walk *walk)
{
    const struct call *call = walk->call;
    size_t parts = (size_t)walk->islands->size, most = walk->islands->scratch_bytes / call->size, from = 0;
    tutti_result_t result = TUTTI_SUCCESS;
    while (result == TUTTI_SUCCESS && call->count - from >= parts) {
        size_t each = walk_least((call->count - from) / parts, most);
        result = reduce_part(walk, from, each);
        from += parts * each;
    }
    return result == TUTTI_SUCCESS ? reduce_whole(walk, from, call->count - from) : result;
}

static tutti_result_t broadcast_whole(const struct walk *walk, size_t from)
{
    const struct call *call = walk->call;
    size_t count = call->count - from;
    void *out = walk_at(call->out, from, call);
    tutti_result_t result =
        walk_roots_own(walk)
            ? walk_island(walk, COLL_BROADCAST, count, walk_at(call->in, from, call), out, walk_root_index(walk))
            : walk_skip(walk, 1, count);
    return result == TUTTI_SUCCESS ? on_rail(walk, COLL_BROADCAST, count, out, out, walk_root_island(walk)) : result;
}

static tutti_result_t broadcast(const struct walk *walk)
{
    const struct call *call = walk->call;
    size_t parts = (size_t)walk->islands->size, each = call->count / parts;
    void *own = walk_at(call->out, (size_t)walk->islands->index * each, call);
    tutti_result_t result = walk_roots_own(walk)
                                ? walk_island(walk, COLL_SCATTER, each, call->in, own, walk_root_index(walk))
                                : walk_skip(walk, 1, each);
    if (result == TUTTI_SUCCESS)
        result = on_rail(walk, COLL_BROADCAST, each, own, own, walk_root_island(walk));
    if (result == TUTTI_SUCCESS)
        result = walk_island(walk, COLL_ALLGATHER, each, own, call->out, 0);
    return result == TUTTI_SUCCESS ? broadcast_whole(walk, parts * each) : result;
}

/* ---- A block of each rank ---- */

static size_t block_of(const struct islands *islands, int island, int index)
{
    return (size_t)(island * islands->size + index);
}

/* Blocks [.., from .. from + count) of this rank's rail, to where they belong. */
static tutti_result_t gather_rail(const struct walk *walk, size_t from, size_t count)
{
    const struct islands *islands = walk->islands;
    const struct call *call = walk->call;
    tutti_result_t result = on_rail(walk, COLL_ALLGATHER, count, walk_at(call->in, from, call), islands->scratch, 0);
    for (int k = 0; k < islands->count && result == TUTTI_SUCCESS; k++) {
        void *to = walk_at(call->out, block_of(islands, k, islands->index) * call->count + from, call);
        result = walk_copy(walk, count, walk_at(islands->scratch, (size_t)k * count, call), to);
    }
    return result;
}

/* The same by messages of adapters, which leave each block where it belongs. */
static tutti_result_t exchange_rail(const struct walk *walk)
{
    const struct islands *islands = walk->islands;
    struct call call = *walk->call;
    size_t ranks = (size_t)islands->count, *counts = calloc(3 * ranks, sizeof *counts), *offsets = counts + ranks;
    void *own = walk_at(call.out, block_of(islands, islands->here, islands->index) * call.count, &call);
    if (!counts)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %d islands", islands->count);
    for (int k = 0; k < islands->count; k++) {
        counts[k] = k == islands->here ? 0 : call.count;
        offsets[k] = block_of(islands, k, islands->index) * call.count;
    }
    call.coll = COLL_ALLTOALLV;
    call.send_counts = call.recv_counts = counts;
    call.send_offsets = counts + 2 * ranks; /* all 0 */
    call.recv_offsets = offsets;
    tutti_result_t result = own == call.in ? TUTTI_SUCCESS : walk_copy(walk, call.count, call.in, own);
    if (result == TUTTI_SUCCESS)
        result = walk_lengths(walk, ISLANDS_RAIL, &call, call.count);
    free(counts);
    return result;
}

static tutti_result_t allgather(const struct walk *walk)
{
    const struct islands *islands = walk->islands;
    const struct call *call = walk->call;
    size_t most = islands->scratch_bytes / call->size / (size_t)islands->count, from = 0;
    tutti_result_t result = TUTTI_SUCCESS;
    if (call->bytes >= islands->direct_from) {
        result = exchange_rail(walk);
        from = call->count;
    }
    for (; from < call->count && result == TUTTI_SUCCESS; from += most)
        result = gather_rail(walk, from, walk_least(most, call->count - from));
    for (int k = 0; k < islands->count && result == TUTTI_SUCCESS; k++)
        result = walk_island(walk, COLL_ALLGATHER, call->count,
                             walk_at(call->out, block_of(islands, k, islands->index) * call->count, call),
                             walk_at(call->out, block_of(islands, k, 0) * call->count, call), 0);
    return result;
}

/* Elements [from, from + count) of each block. Where that is not all of a block they are brought together first. */
static tutti_result_t scatter_sums(const struct walk *walk, size_t from, size_t count)
{
    const struct islands *islands = walk->islands;
    const struct call *call = walk->call;
    void *sums = islands->scratch, *packed = walk_at(sums, (size_t)islands->count * count, call);
    const void *in = count == call->count ? call->in : packed;
    tutti_result_t result = TUTTI_SUCCESS;
    for (size_t block = 0; in == packed && block < block_of(islands, islands->count, 0) && result == TUTTI_SUCCESS;
         block++)
        result = walk_copy(walk, count, walk_at(call->in, block * call->count + from, call),
                           walk_at(packed, block * count, call));
    for (int k = 0; k < islands->count && result == TUTTI_SUCCESS; k++)
        result = walk_island(walk, COLL_REDUCE_SCATTER, count, walk_at(in, block_of(islands, k, 0) * count, call),
                             walk_at(sums, (size_t)k * count, call), 0);
    return result == TUTTI_SUCCESS ? on_rail(walk, COLL_REDUCE_SCATTER, count, sums, walk_at(call->out, from, call), 0)
                                   : result;
}

static tutti_result_t reduce_scatter(const struct walk *walk)
{
    const struct islands *islands = walk->islands;
    const struct call *call = walk->call;
    size_t room = islands->scratch_bytes / call->size, sums = (size_t)islands->count;
    if (call->count <= room / sums)
        return scatter_sums(walk, 0, call->count);
    size_t most = room / (sums + block_of(islands, islands->count, 0));
    tutti_result_t result = TUTTI_SUCCESS;
    for (size_t from = 0; from < call->count && result == TUTTI_SUCCESS; from += most)
        result = scatter_sums(walk, from, walk_least(most, call->count - from));
    return result;
}

/* ---- All ---- */

/* Of one element of each rank, at least. */
static bool room_for_blocks(const struct islands *islands, const struct call *call)
{
    return islands->scratch_bytes / call->size >= (size_t)(islands->team->nranks + islands->count);
}

bool islands_composes(const struct islands *islands, const struct call *call)
{
    if (!call->count)
        return false;
    switch (call->coll) {
    case COLL_ALLREDUCE:
    case COLL_REDUCE:
    case COLL_BROADCAST:
        return true;
    case COLL_ALLGATHER:
    case COLL_REDUCE_SCATTER:
        return islands->in_order && (islands->alike ? room_for_blocks(islands, call) : unlike_composes(islands, call));
    default:
        return false;
    }
}

static tutti_result_t take_steps(const struct walk *walk)
{
    const struct islands *islands = walk->islands;
    const struct call *call = walk->call;
    bool small = call->bytes < islands->cut_from || call->count < (size_t)islands->size;
    if (!islands->alike)
        return unlike_steps(walk);
    switch (call->coll) {
    case COLL_ALLREDUCE:
        return small ? allreduce_small(walk) : allreduce(walk);
    case COLL_REDUCE:
        return small ? reduce_whole(walk, 0, call->count) : reduce(walk);
    case COLL_BROADCAST:
        return small ? broadcast_whole(walk, 0) : broadcast(walk);
    case COLL_ALLGATHER:
        return allgather(walk);
    default:
        return reduce_scatter(walk);
    }
}

static tutti_result_t only_count(void *context, enum islands_part part, const struct call *call, size_t longest)
{
    (void)context, (void)part, (void)call, (void)longest;
    return TUTTI_SUCCESS;
}

tutti_result_t islands_steps(const struct islands *islands, const struct call *call, islands_step_fn *each,
                             void *context)
{
    int all = 0, number = 0;
    tutti_result_t result = take_steps(&(struct walk){islands, call, only_count, NULL, 0, &all});
    return result == TUTTI_SUCCESS ? take_steps(&(struct walk){islands, call, each, context, all, &number}) : result;
}
