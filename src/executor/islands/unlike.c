/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Islands that are not alike. There are as many rails as the smallest one has ranks. Each rail carries a part of the
 * vector, or of each island's blocks, between the ranks that are on it, its heads. An island reduces to its heads, and
 * shares out from them.
 */
#include "executor/islands/unlike.h"

#include "base/error.h"

#include <stdlib.h>

/* ---- Vectors ---- */

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
        result = walk_island(walk, COLL_REDUCE, piece->each, walk_at(call->in, part_from(piece, c), call),
                             walk_at(base, part_from(piece, c) - skip, call), head_here(walk, c));
    return result;
}

static tutti_result_t on_heads_rail(const struct walk *walk, enum coll coll, const struct stretch *piece, void *base,
                                    size_t skip, int root)
{
    int rail = walk->islands->rail;
    bool mine = rail >= 0 && rail < piece->parts;
    void *part = walk_at(base, mine ? part_from(piece, rail) - skip : 0, walk->call);
    return walk_rail(walk, coll, mine ? piece->each : 0, piece->each, part, part, root);
}

/* Each part from the rank on its rail, where it lies in `base`, to `to`, which has the vector's element `skip_to`
 * first. */
static tutti_result_t broadcast_from_heads(const struct walk *walk, const struct stretch *piece, const void *base,
                                           size_t skip, void *to, size_t skip_to)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (int c = 0; c < piece->parts && result == TUTTI_SUCCESS; c++)
        result = walk_island(walk, COLL_BROADCAST, piece->each, walk_at(base, part_from(piece, c) - skip, walk->call),
                             walk_at(to, part_from(piece, c) - skip_to, walk->call), head_here(walk, c));
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
        result = on_heads_rail(walk, COLL_REDUCE, piece, held, piece->from, walk_root_island(walk));
    if (result != TUTTI_SUCCESS || !walk_roots_own(walk))
        return result == TUTTI_SUCCESS ? walk_skip(walk, piece->parts, piece->each) : result;
    return root ? broadcast_from_heads(walk, piece, held, piece->from, walk->call->out, 0)
                : broadcast_from_heads(walk, piece, held, piece->from, held, piece->from);
}

static tutti_result_t broadcast_piece(const struct walk *walk, const struct stretch *piece)
{
    const struct call *call = walk->call;
    void *out = call->out;
    size_t count = piece->each * (size_t)piece->parts;
    tutti_result_t result = walk_roots_own(walk)
                                ? walk_island(walk, COLL_BROADCAST, count, walk_at(call->in, piece->from, call),
                                              walk_at(out, piece->from, call), walk_root_index(walk))
                                : walk_skip(walk, 1, count);
    if (result == TUTTI_SUCCESS)
        result = on_heads_rail(walk, COLL_BROADCAST, piece, out, 0, walk_root_island(walk));
    if (result != TUTTI_SUCCESS || walk_roots_own(walk))
        return result == TUTTI_SUCCESS ? walk_skip(walk, piece->parts, piece->each) : result;
    return broadcast_from_heads(walk, piece, out, 0, out, 0);
}

/* What does not divide by the rails goes behind the others, by the first rail, as does all of a vector of few bytes. */
static tutti_result_t vector_steps(const struct walk *walk)
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
        size_t some = walk_least(call->count - from, most);
        bool whole = call->bytes < walk->islands->cut_from || some < rails;
        struct stretch piece = {from, whole ? some : some / rails, whole ? 1 : (int)rails};
        result = piece_of(walk, &piece);
        from += piece.each * (size_t)piece.parts;
    }
    return result;
}

/* ---- A block of each rank: those of an island, one behind another, are a vector ---- */

/* How the blocks of all ranks are cut: blocks of `count` elements, those of each island into `parts` parts. */
struct block_cut {
    size_t count;
    int parts;
};

struct stretch_part {
    size_t from, count;
};

/* What rail `rail` carries of an island's blocks. The last rail has what does not divide. */
static struct stretch_part carried_part(const struct walk *walk, const struct block_cut *cut, int island, int rail)
{
    size_t first = (size_t)walk_hosts(walk)->first[island], end = (size_t)walk_hosts(walk)->first[island + 1];
    size_t all = (end - first) * cut->count, each = all / (size_t)cut->parts, from = (size_t)rail * each;
    return (struct stretch_part){first * cut->count + from, rail == cut->parts - 1 ? all - from : each};
}

static bool is_carrier(const struct walk *walk, const struct block_cut *cut)
{
    return walk->islands->rail >= 0 && walk->islands->rail < cut->parts;
}

/* Elements of the longest part of all rails. */
static size_t longest_part(const struct walk *walk, const struct block_cut *cut)
{
    size_t longest = 0;
    for (int k = 0; k < walk->islands->count; k++) {
        size_t last = carried_part(walk, cut, k, cut->parts - 1).count;
        longest = last > longest ? last : longest;
    }
    return longest;
}

/* Blocks of few bytes go by the first rail. */
static struct block_cut cut_of(const struct islands *islands, const struct call *call)
{
    size_t bytes = call->bytes * (size_t)islands->team->nranks;
    return (struct block_cut){call->count, bytes < islands->cut_from ? 1 : islands->size};
}

/* counts: send_counts, send_offsets, recv_counts and recv_offsets of these ranks, all 0. */
static struct call with_lengths(const struct walk *walk, enum coll coll, const void *in, void *out, size_t *counts,
                                int ranks)
{
    struct call call = *walk->call;
    size_t n = (size_t)ranks;
    call.coll = coll;
    call.in = in;
    call.out = out;
    call.send_counts = counts;
    call.send_offsets = counts + n;
    call.recv_counts = counts + 2 * n;
    call.recv_offsets = counts + 3 * n;
    return call;
}

static size_t *new_counts(int ranks)
{
    size_t *counts = calloc(4 * (size_t)ranks, sizeof *counts);
    if (!counts)
        error_set(TUTTI_SYSTEM_ERROR, "no memory for %d lengths", ranks);
    return counts;
}

/* Heads of a rail send one another their islands' parts, to where these belong. */
static tutti_result_t exchange_parts(const struct walk *walk, const struct block_cut *cut)
{
    int islands = walk->islands->count, here = walk->islands->here, rail = walk->islands->rail;
    size_t *counts = new_counts(islands), n = (size_t)islands, longest = longest_part(walk, cut);
    if (!counts)
        return TUTTI_SYSTEM_ERROR;
    struct call call = with_lengths(walk, COLL_ALLTOALLV, walk->call->out, walk->call->out, counts, islands);
    call.count = is_carrier(walk, cut) ? longest : 0;
    for (int k = 0; k < islands && call.count; k++) {
        struct stretch_part own = carried_part(walk, cut, here, rail), other = carried_part(walk, cut, k, rail);
        if (k == here)
            continue;
        counts[k] = own.count;
        counts[n + (size_t)k] = own.from;
        counts[2 * n + (size_t)k] = other.count;
        counts[3 * n + (size_t)k] = other.from;
    }
    tutti_result_t result = walk_lengths(walk, ISLANDS_RAIL, &call, longest);
    free(counts);
    return result;
}

/* All blocks that came from other islands. Where one rail has carried all, its head shares out the whole vector. */
static tutti_result_t share_parts(const struct walk *walk, const struct block_cut *cut)
{
    const struct call *call = walk->call;
    tutti_result_t result = TUTTI_SUCCESS;
    if (cut->parts == 1)
        return walk_island(walk, COLL_BROADCAST, (size_t)walk->islands->team->nranks * call->count, call->out,
                           call->out, head_here(walk, 0));
    for (int k = 0; k < walk->islands->count; k++)
        for (int c = 0; c < cut->parts && k != walk->islands->here && result == TUTTI_SUCCESS; c++) {
            struct stretch_part part = carried_part(walk, cut, k, c);
            void *at = walk_at(call->out, part.from, call);
            result = walk_island(walk, COLL_BROADCAST, part.count, at, at, head_here(walk, c));
        }
    return result;
}

static tutti_result_t gather_blocks(const struct walk *walk)
{
    const struct call *call = walk->call;
    const struct block_cut cut = cut_of(walk->islands, call);
    void *own = walk_at(call->out, (size_t)walk_hosts(walk)->first[walk->islands->here] * call->count, call);
    enum coll first = cut.parts == 1 ? COLL_GATHER : COLL_ALLGATHER; /* one head shares out all blocks at the end */
    tutti_result_t result = walk_island(walk, first, call->count, call->in, own, head_here(walk, 0));
    if (result == TUTTI_SUCCESS)
        result = exchange_parts(walk, &cut);
    return result == TUTTI_SUCCESS ? share_parts(walk, &cut) : result;
}

/* ---- Sums of blocks ---- */

/* Where the sums of an island's part lie at a head: one island's behind another's. */
static size_t sums_before(const struct walk *walk, const struct block_cut *cut, int island, int rail)
{
    size_t before = 0;
    for (int k = 0; k < island; k++)
        before += carried_part(walk, cut, k, rail).count;
    return before;
}

/* From all of the island. `base` has the blocks one behind another. Of one part those of all islands are one vector. */
static tutti_result_t sum_parts(const struct walk *walk, const struct block_cut *cut, const void *base)
{
    const struct islands *islands = walk->islands;
    const struct call *call = walk->call;
    tutti_result_t result = TUTTI_SUCCESS;
    if (cut->parts == 1)
        return walk_island(walk, COLL_REDUCE, (size_t)islands->team->nranks * cut->count, base, islands->scratch,
                           head_here(walk, 0));
    for (int k = 0; k < islands->count; k++)
        for (int c = 0; c < cut->parts && result == TUTTI_SUCCESS; c++) {
            struct stretch_part part = carried_part(walk, cut, k, c);
            result = walk_island(walk, COLL_REDUCE, part.count, walk_at(base, part.from, call),
                                 walk_at(islands->scratch, sums_before(walk, cut, k, c), call), head_here(walk, c));
        }
    return result;
}

/* Heads of a rail reduce what they have of each island's part to that island. */
static tutti_result_t scatter_on_rail(const struct walk *walk, const struct block_cut *cut, void *out)
{
    const struct islands *islands = walk->islands;
    size_t *counts = new_counts(islands->count), *lengths = counts + 2 * (size_t)islands->count;
    if (!counts)
        return TUTTI_SYSTEM_ERROR;
    struct call call = with_lengths(walk, COLL_REDUCE_SCATTER, islands->scratch, out, counts, islands->count);
    call.count = 0;
    for (int k = 0; k < islands->count && is_carrier(walk, cut); k++) {
        lengths[k] = carried_part(walk, cut, k, islands->rail).count;
        call.count = lengths[k] > call.count ? lengths[k] : call.count;
    }
    tutti_result_t result = walk_lengths(walk, ISLANDS_RAIL, &call, longest_part(walk, cut));
    free(counts);
    return result;
}

/* What a head's part and a rank's block have in common. */
static struct stretch_part overlap(const struct walk *walk, const struct block_cut *cut, int rail, int index)
{
    struct stretch_part part = carried_part(walk, cut, walk->islands->here, rail);
    size_t block = (size_t)(walk_hosts(walk)->first[walk->islands->here] + index) * cut->count;
    size_t from = part.from > block ? part.from : block;
    size_t end = walk_least(part.from + part.count, block + cut->count);
    return (struct stretch_part){from, end > from ? end - from : 0};
}

/* Each rank of the island gets its block from the heads that have some of it. */
static tutti_result_t deal_parts(const struct walk *walk, const struct block_cut *cut, const void *part_at, void *out)
{
    const struct islands *islands = walk->islands;
    int here = islands->here, first = walk_hosts(walk)->first[here], ranks = walk_hosts(walk)->first[here + 1] - first;
    size_t *counts = new_counts(ranks), n = (size_t)ranks;
    if (!counts)
        return TUTTI_SYSTEM_ERROR;
    struct call call = with_lengths(walk, COLL_ALLTOALLV, part_at, out, counts, ranks);
    call.count = 0;
    for (int i = 0; i < ranks && is_carrier(walk, cut); i++) {
        struct stretch_part some = overlap(walk, cut, islands->rail, i);
        counts[i] = some.count;
        counts[n + (size_t)i] = some.count ? some.from - carried_part(walk, cut, here, islands->rail).from : 0;
    }
    for (int c = 0; c < cut->parts; c++) {
        struct stretch_part some = overlap(walk, cut, c, islands->index);
        size_t head = (size_t)head_here(walk, c), block = (size_t)(first + islands->index) * cut->count;
        counts[2 * n + head] = some.count;
        counts[3 * n + head] = some.count ? some.from - block : 0;
    }
    tutti_result_t result = walk_lengths(walk, ISLANDS_ISLAND, &call, cut->count);
    free(counts);
    return result;
}

/* Elements of a block that scratch memory has room for, with a copy of all blocks or without: sums of a part of all
 * blocks, and the result for the largest island. */
static size_t room_for_sums(const struct islands *islands, const struct call *call, int parts, bool copied)
{
    size_t room = islands->scratch_bytes / call->size, p = (size_t)parts, n = (size_t)islands->team->nranks;
    size_t most = (size_t)levels_hosts(islands->team->levels)->most, rest = ((size_t)islands->count + 1) * p;
    return room > rest ? (room - rest) * p / (n + most + (copied ? n * p : 0)) : 0;
}

/* Elements [from, from + count) of each block. Where that is not all of a block they are brought together first. On an
 * island of which each rank is on a rail each has its own block then. */
static tutti_result_t reduce_blocks_piece(const struct walk *walk, size_t from, const struct block_cut *cut)
{
    const struct islands *islands = walk->islands;
    const struct call *call = walk->call;
    size_t p = (size_t)cut->parts, n = (size_t)islands->team->nranks, most = (size_t)walk_hosts(walk)->most;
    void *out = walk_at(call->out, from, call);
    void *part_at = walk_at(islands->scratch, n * cut->count / p + (size_t)islands->count * p, call);
    void *packed = walk_at(part_at, most * cut->count / p + p, call);
    bool dealt = walk_hosts(walk)->first[islands->here + 1] - walk_hosts(walk)->first[islands->here] == cut->parts;
    const void *base = cut->count == call->count ? call->in : packed;
    tutti_result_t result = TUTTI_SUCCESS;
    for (int r = 0; r < islands->team->nranks && base == packed && result == TUTTI_SUCCESS; r++)
        result = walk_copy(walk, cut->count, walk_at(call->in, (size_t)r * call->count + from, call),
                           walk_at(packed, (size_t)r * cut->count, call));
    if (result == TUTTI_SUCCESS)
        result = sum_parts(walk, cut, base);
    if (result == TUTTI_SUCCESS)
        result = scatter_on_rail(walk, cut, dealt ? out : part_at);
    if (result != TUTTI_SUCCESS || dealt)
        return result == TUTTI_SUCCESS ? walk_skip(walk, 1, cut->count) : result;
    return deal_parts(walk, cut, part_at, out);
}

static tutti_result_t reduce_blocks(const struct walk *walk)
{
    const struct call *call = walk->call;
    struct block_cut cut = cut_of(walk->islands, call);
    bool whole = call->count <= room_for_sums(walk->islands, call, cut.parts, false);
    size_t most = whole ? call->count : room_for_sums(walk->islands, call, cut.parts, true);
    tutti_result_t result = TUTTI_SUCCESS;
    for (size_t from = 0; from < call->count && result == TUTTI_SUCCESS; from += most) {
        cut.count = walk_least(most, call->count - from);
        result = reduce_blocks_piece(walk, from, &cut);
    }
    return result;
}

/* ---- All ---- */

bool unlike_composes(const struct islands *islands, const struct call *call)
{
    return call->coll != COLL_REDUCE_SCATTER || room_for_sums(islands, call, cut_of(islands, call).parts, true) > 0;
}

tutti_result_t unlike_steps(const struct walk *walk)
{
    switch (walk->call->coll) {
    case COLL_ALLGATHER:
        return gather_blocks(walk);
    case COLL_REDUCE_SCATTER:
        return reduce_blocks(walk);
    default:
        return vector_steps(walk);
    }
}
