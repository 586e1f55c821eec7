/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the rows of algorithm/composed.c do, on GPUs: each island reduces or shares by its own links, so that a rail
 * carries its part of the bytes between hosts and no other. Vectors of few bytes go whole, in two steps. What does not
 * divide by the ranks of an island goes behind the last block, on the last rail.
 */
#include "executor/islands/steps.h"

#include "base/error.h"

#include <stdlib.h>

struct walk {
    const struct islands *islands;
    const struct call *call;
    islands_step_fn *each;
    void *context;
    int steps;   /* all; 0: not counted so far */
    int *number; /* of the latest one */
};

/* ---- Steps ---- */

struct buffers {
    const void *in;
    void *out;
};

static void *at(const void *base, size_t elements, const struct call *call)
{
    return base ? (char *)(uintptr_t)base + elements * call->size : NULL;
}

/* What does not divide by the ranks of an island goes by the last rail, whose blocks are the longest then. */
static size_t longest_of(const struct walk *walk, enum coll coll, size_t count)
{
    size_t all = walk->call->count, parts = (size_t)walk->islands->size;
    return coll == COLL_ALLREDUCE && walk->islands->alike && count < all ? all / parts + all % parts : count;
}

static uint8_t at_most_255(int number)
{
    return (uint8_t)(number < UINT8_MAX ? number : UINT8_MAX);
}

/* Steps are counted alike on all ranks. */
static tutti_result_t next_step(const struct walk *walk, enum islands_part part, struct call *call, size_t longest)
{
    if (part != ISLANDS_COPY) {
        int at = part == ISLANDS_ISLAND ? walk->islands->here : walk->islands->rail;
        call->step = at_most_255(++*walk->number);
        call->steps = at_most_255(walk->steps);
        call->step_of = (uint8_t)walk->call->coll;
        call->step_at = at_most_255(at < 0 ? UINT8_MAX : at);
    }
    return walk->each(walk->context, part, call, longest);
}

/* Steps of `count` elements, which only other islands have. */
static tutti_result_t skip_steps(const struct walk *walk, int steps, size_t count)
{
    *walk->number += count ? steps : 0;
    return TUTTI_SUCCESS;
}

/* A rank on no rail, or on one that has nothing to do, has no elements in a step of rails. */
static tutti_result_t step(const struct walk *walk, enum islands_part part, enum coll coll, size_t count,
                           size_t longest, struct buffers of, int root)
{
    struct call call = *walk->call;
    if (!longest)
        return TUTTI_SUCCESS;
    call.coll = coll;
    call.count = count;
    call.in = of.in;
    call.out = of.out;
    call.root = root;
    call.op = schedule_reduces(coll) ? call.op : -1;
    if (part == ISLANDS_RAIL) { /* multiplied before */
        call.premul = false;
        call.scalar_at = NULL;
    }
    call_fill(&call);
    return next_step(walk, part, &call, longest);
}

static tutti_result_t on_island(const struct walk *walk, enum coll coll, size_t count, const void *in, void *out,
                                int root)
{
    return step(walk, ISLANDS_ISLAND, coll, count, count, (struct buffers){in, out}, root);
}

static tutti_result_t on_rail(const struct walk *walk, enum coll coll, size_t count, const void *in, void *out,
                              int root)
{
    return step(walk, ISLANDS_RAIL, coll, count, count ? longest_of(walk, coll, count) : 0, (struct buffers){in, out},
                root);
}

static tutti_result_t copied(const struct walk *walk, size_t count, const void *in, void *out)
{
    return step(walk, ISLANDS_COPY, walk->call->coll, count, count, (struct buffers){in, out}, 0);
}

static int root_island(const struct walk *walk)
{
    return levels_hosts(walk->islands->team->levels)->group[walk->call->root];
}

static int root_index(const struct walk *walk)
{
    const struct levels *levels = walk->islands->team->levels;
    return levels->position[walk->call->root] - levels_hosts(levels)->first[root_island(walk)];
}

static bool roots_own(const struct walk *walk)
{
    return walk->islands->here == root_island(walk);
}

static bool is_last(const struct islands *islands)
{
    return islands->index == islands->size - 1;
}

static size_t least(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* ---- Vectors ---- */

static tutti_result_t allreduce_small(const struct walk *walk)
{
    const struct call *call = walk->call;
    tutti_result_t result = on_island(walk, COLL_ALLREDUCE, call->count, call->in, call->out, 0);
    return result == TUTTI_SUCCESS ? on_rail(walk, COLL_ALLREDUCE, call->count, call->out, call->out, 0) : result;
}

static tutti_result_t allreduce(const struct walk *walk)
{
    const struct call *call = walk->call;
    size_t parts = (size_t)walk->islands->size, each = call->count / parts, rest = call->count % parts;
    void *own = at(call->out, (size_t)walk->islands->index * each, call), *tail = at(call->out, parts * each, call);
    int last = walk->islands->size - 1;
    tutti_result_t result = on_island(walk, COLL_REDUCE_SCATTER, each, call->in, own, 0);
    if (result == TUTTI_SUCCESS)
        result = on_island(walk, COLL_REDUCE, rest, at(call->in, parts * each, call), tail, last);
    if (result == TUTTI_SUCCESS)
        result = on_rail(walk, COLL_ALLREDUCE, each + (is_last(walk->islands) ? rest : 0), own, own, 0);
    if (result == TUTTI_SUCCESS)
        result = on_island(walk, COLL_ALLGATHER, each, own, call->out, 0);
    return result == TUTTI_SUCCESS ? on_island(walk, COLL_BROADCAST, rest, tail, tail, last) : result;
}

/* Elements [from, from + count) of the vector, whole: each rail carries all of them. */
static tutti_result_t reduce_whole(const struct walk *walk, size_t from, size_t count)
{
    const struct call *call = walk->call;
    void *held = walk->islands->scratch;
    bool root = walk->islands->team->rank == call->root;
    tutti_result_t result = on_island(walk, COLL_ALLREDUCE, count, at(call->in, from, call), held, 0);
    return result == TUTTI_SUCCESS
               ? on_rail(walk, COLL_REDUCE, count, held, root ? at(call->out, from, call) : held, root_island(walk))
               : result;
}

static tutti_result_t reduce_part(const struct walk *walk, size_t from, size_t each)
{
    const struct call *call = walk->call;
    void *held = walk->islands->scratch;
    tutti_result_t result = on_island(walk, COLL_REDUCE_SCATTER, each, at(call->in, from, call), held, 0);
    if (result == TUTTI_SUCCESS)
        result = on_rail(walk, COLL_REDUCE, each, held, held, root_island(walk));
    if (result != TUTTI_SUCCESS || !roots_own(walk))
        return result == TUTTI_SUCCESS ? skip_steps(walk, 1, each) : result;
    return on_island(walk, COLL_GATHER, each, held, at(call->out, from, call), root_index(walk));
}

static tutti_result_t reduce(const struct walk *walk)
{
    const struct call *call = walk->call;
    size_t parts = (size_t)walk->islands->size, most = walk->islands->scratch_bytes / call->size, from = 0;
    tutti_result_t result = TUTTI_SUCCESS;
    while (result == TUTTI_SUCCESS && call->count - from >= parts) {
        size_t each = least((call->count - from) / parts, most);
        result = reduce_part(walk, from, each);
        from += parts * each;
    }
    return result == TUTTI_SUCCESS ? reduce_whole(walk, from, call->count - from) : result;
}

static tutti_result_t broadcast_whole(const struct walk *walk, size_t from)
{
    const struct call *call = walk->call;
    size_t count = call->count - from;
    void *out = at(call->out, from, call);
    tutti_result_t result =
        roots_own(walk) ? on_island(walk, COLL_BROADCAST, count, at(call->in, from, call), out, root_index(walk))
                        : skip_steps(walk, 1, count);
    return result == TUTTI_SUCCESS ? on_rail(walk, COLL_BROADCAST, count, out, out, root_island(walk)) : result;
}

static tutti_result_t broadcast(const struct walk *walk)
{
    const struct call *call = walk->call;
    size_t parts = (size_t)walk->islands->size, each = call->count / parts;
    void *own = at(call->out, (size_t)walk->islands->index * each, call);
    tutti_result_t result = roots_own(walk) ? on_island(walk, COLL_SCATTER, each, call->in, own, root_index(walk))
                                            : skip_steps(walk, 1, each);
    if (result == TUTTI_SUCCESS)
        result = on_rail(walk, COLL_BROADCAST, each, own, own, root_island(walk));
    if (result == TUTTI_SUCCESS)
        result = on_island(walk, COLL_ALLGATHER, each, own, call->out, 0);
    return result == TUTTI_SUCCESS ? broadcast_whole(walk, parts * each) : result;
}

/* ---- Vectors, where islands are not alike ---- */

int islands_head(const struct islands *islands, int island, int rail)
{
    const struct level *hosts = levels_hosts(islands->team->levels);
    int size = hosts->first[island + 1] - hosts->first[island];
    return (int)((int64_t)rail * size / islands->size);
}

/* A vector, or a piece of one: `parts` parts of `each` elements, of which rail c carries the c-th. */
struct stretch {
    size_t from, each;
    int parts;
};

static int head_here(const struct walk *walk, int rail)
{
    return islands_head(walk->islands, walk->islands->here, rail);
}

static size_t part_from(const struct stretch *piece, int rail)
{
    return piece->from + (size_t)rail * piece->each;
}

/* Each part from all of the island to the rank on its rail. `base` has the vector's element `skip` first. */
static tutti_result_t reduce_to_heads(const struct walk *walk, const struct stretch *piece, void *base, size_t skip)
{
    const struct call *call = walk->call;
    tutti_result_t result = TUTTI_SUCCESS;
    for (int c = 0; c < piece->parts && result == TUTTI_SUCCESS; c++)
        result = on_island(walk, COLL_REDUCE, piece->each, at(call->in, part_from(piece, c), call),
                           at(base, part_from(piece, c) - skip, call), head_here(walk, c));
    return result;
}

static tutti_result_t on_heads_rail(const struct walk *walk, enum coll coll, const struct stretch *piece, void *base,
                                    size_t skip, int root)
{
    int rail = walk->islands->rail;
    bool mine = rail >= 0 && rail < piece->parts;
    void *part = at(base, mine ? part_from(piece, rail) - skip : 0, walk->call);
    return step(walk, ISLANDS_RAIL, coll, mine ? piece->each : 0, piece->each, (struct buffers){part, part}, root);
}

/* Each part from the rank on its rail, where it lies in `base`, to `to`, which has the vector's element `skip_to`
 * first. */
static tutti_result_t broadcast_from_heads(const struct walk *walk, const struct stretch *piece, const void *base,
                                           size_t skip, void *to, size_t skip_to)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (int c = 0; c < piece->parts && result == TUTTI_SUCCESS; c++)
        result = on_island(walk, COLL_BROADCAST, piece->each, at(base, part_from(piece, c) - skip, walk->call),
                           at(to, part_from(piece, c) - skip_to, walk->call), head_here(walk, c));
    return result;
}

static tutti_result_t allreduce_piece(const struct walk *walk, const struct stretch *piece)
{
    void *out = walk->call->out;
    tutti_result_t result = reduce_to_heads(walk, piece, out, 0);
    if (result == TUTTI_SUCCESS)
        result = on_heads_rail(walk, COLL_ALLREDUCE, piece, out, 0, 0);
    return result == TUTTI_SUCCESS ? broadcast_from_heads(walk, piece, out, 0, out, 0) : result;
}

/* Between two steps all lies in scratch memory, as only the root has an output. The last step stores there, and no copy
 * behind it: to wait for a call is to wait for its steps. */
static tutti_result_t reduce_piece(const struct walk *walk, const struct stretch *piece)
{
    void *held = walk->islands->scratch;
    bool root = walk->islands->team->rank == walk->call->root;
    tutti_result_t result = reduce_to_heads(walk, piece, held, piece->from);
    if (result == TUTTI_SUCCESS)
        result = on_heads_rail(walk, COLL_REDUCE, piece, held, piece->from, root_island(walk));
    if (result != TUTTI_SUCCESS || !roots_own(walk))
        return result == TUTTI_SUCCESS ? skip_steps(walk, piece->parts, piece->each) : result;
    return root ? broadcast_from_heads(walk, piece, held, piece->from, walk->call->out, 0)
                : broadcast_from_heads(walk, piece, held, piece->from, held, piece->from);
}

static tutti_result_t broadcast_piece(const struct walk *walk, const struct stretch *piece)
{
    const struct call *call = walk->call;
    void *out = call->out;
    size_t count = piece->each * (size_t)piece->parts;
    tutti_result_t result = roots_own(walk) ? on_island(walk, COLL_BROADCAST, count, at(call->in, piece->from, call),
                                                        at(out, piece->from, call), root_index(walk))
                                            : skip_steps(walk, 1, count);
    if (result == TUTTI_SUCCESS)
        result = on_heads_rail(walk, COLL_BROADCAST, piece, out, 0, root_island(walk));
    if (result != TUTTI_SUCCESS || roots_own(walk))
        return result == TUTTI_SUCCESS ? skip_steps(walk, piece->parts, piece->each) : result;
    return broadcast_from_heads(walk, piece, out, 0, out, 0);
}

/* What does not divide by the rails goes behind the others, by the first rail, as does all of a vector of few bytes. */
static tutti_result_t unlike_steps(const struct walk *walk)
{
    const struct call *call = walk->call;
    tutti_result_t (*piece_of)(const struct walk *, const struct stretch *) =
        call->coll == COLL_ALLREDUCE ? allreduce_piece
        : call->coll == COLL_REDUCE  ? reduce_piece
                                     : broadcast_piece;
    size_t rails = (size_t)walk->islands->size,
           most = call->coll == COLL_REDUCE ? walk->islands->scratch_bytes / call->size : call->count;
    tutti_result_t result = TUTTI_SUCCESS;
    for (size_t from = 0; from < call->count && result == TUTTI_SUCCESS;) {
        size_t some = least(call->count - from, most);
        bool whole = call->bytes < walk->islands->cut_from || some < rails;
        struct stretch piece = {from, whole ? some : some / rails, whole ? 1 : (int)rails};
        result = piece_of(walk, &piece);
        from += piece.each * (size_t)piece.parts;
    }
    return result;
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
    tutti_result_t result = on_rail(walk, COLL_ALLGATHER, count, at(call->in, from, call), islands->scratch, 0);
    for (int k = 0; k < islands->count && result == TUTTI_SUCCESS; k++) {
        void *to = at(call->out, block_of(islands, k, islands->index) * call->count + from, call);
        result = copied(walk, count, at(islands->scratch, (size_t)k * count, call), to);
    }
    return result;
}

/* The same by messages of adapters, which leave each block where it belongs. */
static tutti_result_t exchange_rail(const struct walk *walk)
{
    const struct islands *islands = walk->islands;
    struct call call = *walk->call;
    size_t ranks = (size_t)islands->count, *counts = calloc(3 * ranks, sizeof *counts), *offsets = counts + ranks;
    void *own = at(call.out, block_of(islands, islands->here, islands->index) * call.count, &call);
    if (!counts)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %d islands", islands->count);
    for (int k = 0; k < islands->count; k++) {
        counts[k] = k == islands->here ? 0 : call.count;
        offsets[k] = block_of(islands, k, islands->index) * call.count;
    }
    call.coll = COLL_ALLTOALLV;
    call.op = -1;
    call.send_counts = call.recv_counts = counts;
    call.send_offsets = counts + 2 * ranks; /* all 0 */
    call.recv_offsets = offsets;
    tutti_result_t result = own == call.in ? TUTTI_SUCCESS : copied(walk, call.count, call.in, own);
    if (result == TUTTI_SUCCESS)
        result = next_step(walk, ISLANDS_RAIL, &call, call.count);
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
        result = gather_rail(walk, from, least(most, call->count - from));
    for (int k = 0; k < islands->count && result == TUTTI_SUCCESS; k++)
        result = on_island(walk, COLL_ALLGATHER, call->count,
                           at(call->out, block_of(islands, k, islands->index) * call->count, call),
                           at(call->out, block_of(islands, k, 0) * call->count, call), 0);
    return result;
}

/* Elements [from, from + count) of each block. Where that is not all of a block they are brought together first. */
static tutti_result_t scatter_sums(const struct walk *walk, size_t from, size_t count)
{
    const struct islands *islands = walk->islands;
    const struct call *call = walk->call;
    void *sums = islands->scratch, *packed = at(sums, (size_t)islands->count * count, call);
    const void *in = count == call->count ? call->in : packed;
    tutti_result_t result = TUTTI_SUCCESS;
    for (size_t block = 0; in == packed && block < block_of(islands, islands->count, 0) && result == TUTTI_SUCCESS;
         block++)
        result = copied(walk, count, at(call->in, block * call->count + from, call), at(packed, block * count, call));
    for (int k = 0; k < islands->count && result == TUTTI_SUCCESS; k++)
        result = on_island(walk, COLL_REDUCE_SCATTER, count, at(in, block_of(islands, k, 0) * count, call),
                           at(sums, (size_t)k * count, call), 0);
    return result == TUTTI_SUCCESS ? on_rail(walk, COLL_REDUCE_SCATTER, count, sums, at(call->out, from, call), 0)
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
        result = scatter_sums(walk, from, least(most, call->count - from));
    return result;
}

/* ---- All ---- */

/* Averages of integers are cut off once, not twice. */
static bool cuts_off(const struct call *call)
{
    return call->op == TUTTI_AVG && call->type < TUTTI_FLOAT16;
}

/* Of one element of each rank, at least. */
static bool room_for_blocks(const struct islands *islands, const struct call *call)
{
    return islands->scratch_bytes / call->size >= (size_t)(islands->team->nranks + islands->count);
}

bool islands_composes(const struct islands *islands, const struct call *call)
{
    if (!call->count || cuts_off(call))
        return false;
    if (!islands->alike) /* averages of islands say nothing of all */
        return call->coll == COLL_BROADCAST ||
               ((call->coll == COLL_ALLREDUCE || call->coll == COLL_REDUCE) && call->op != TUTTI_AVG);
    switch (call->coll) {
    case COLL_ALLREDUCE:
    case COLL_REDUCE:
    case COLL_BROADCAST:
        return true;
    case COLL_ALLGATHER:
    case COLL_REDUCE_SCATTER:
        return islands->in_order && room_for_blocks(islands, call);
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
