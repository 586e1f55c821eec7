/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slice of a vector goes whole to all ranks, whose GPUs reduce it, if there are two ranks or few bytes: each byte
 * goes once then. Else each rank's GPU reduces a part, and the parts go to all ranks, as on a ring: no rank sends more
 * than twice the slice. A GPU reads its own contribution where it lies, and those of others from pinned memory.
 */
#include "executor/staged/fold.h"

#include "base/error.h"
#include "device/cuda/kernels/kernels.h"
#include "engine/collective.h"
#include "engine/wait.h"
#include "executor/staged/courier.h"

#include <stdlib.h>

#define WHOLE_TO ((size_t)64 << 10) /* bytes more that a rank may send so that a vector goes whole */
#define VECTOR   16                 /* bytes that a GPU reads at once: parts begin at a multiple */

enum fold fold_choose(const struct staged *staged, const struct job *job, size_t longest)
{
    const struct team *team = staged->base.team;
    size_t n = job_ranks(staged, job);
    if (job->call.coll == COLL_ALLREDUCE && team->bound.bytes && !team->shared) /* on a ring, by processors */
        return FOLD_NONE;
    if (!staged->folds || n == 1 || n >= KERNEL_FOLD_RANKS || staged->slice_bytes / n < (size_t)4 * VECTOR)
        return FOLD_NONE;
    switch (job->call.coll) {
    case COLL_REDUCE_SCATTER:
        return FOLD_WHOLE;
    case COLL_ALLREDUCE:
    case COLL_REDUCE:
        return n == 2 || longest * job->call.size <= WHOLE_TO / (n - 2) ? FOLD_WHOLE : FOLD_PARTS;
    default:
        return FOLD_NONE;
    }
}

size_t fold_room(const struct staged *staged, const struct job *job)
{
    size_t n = job_ranks(staged, job), size = job->call.size;
    if (job->fold == FOLD_PARTS)
        return (staged->slice_bytes - 2 * n * VECTOR) / (2 * size);
    return staged->slice_bytes / (size * (job->call.coll == COLL_REDUCE_SCATTER ? 2 * n : n));
}

/* Elements of each rank's part of the slice; the last ones have fewer, or none. */
static size_t part_room(const struct team *team, const struct job *job, const struct slice *slice)
{
    size_t n = (size_t)team->nranks, unit = VECTOR / job->call.size;
    return ((slice->count + n - 1) / n + unit - 1) / unit * unit;
}

static size_t part_count(const struct slice *slice, size_t room, int rank)
{
    size_t from = (size_t)rank * room;
    return from >= slice->count ? 0 : slice->count - from < room ? slice->count - from : room;
}

static char *own_block(const struct team *team, const struct job *job, const struct slice *slice)
{
    return slice->memory + (size_t)team->rank * slice->count * job->call.size;
}

void fold_place(const struct channel *channel, const struct job *job, struct slice *slice)
{
    const struct team *team = job_team(channel, job);
    size_t n = (size_t)team->nranks, size = job->call.size;
    slice->in = slice->out = slice->memory;
    if (job->fold == FOLD_PARTS)
        slice->out += n * part_room(team, job, slice) * size;
    else if (job->call.coll == COLL_REDUCE_SCATTER)
        slice->out += n * slice->count * size;
    else if (job->call.coll == COLL_ALLREDUCE || team->rank == job->call.root)
        slice->in = own_block(team, job, slice);
}

int fold_stays(const struct channel *channel, const struct job *job)
{
    bool stays = job->fold == FOLD_WHOLE && job->call.coll == COLL_REDUCE_SCATTER && !job->call.premul;
    return stays ? job_team(channel, job)->rank : -1;
}

/* ---- What goes to others ---- */

/* Peers of other calls are found out by all that is in the call, and the black box shows the user's. */
static tutti_result_t fold_move(struct team *team, const struct job *job, const struct slice *slice, struct call *call,
                                size_t *owned)
{
    call->type = job->call.type;
    call->op = job->call.op;
    call->root = job->call.root;
    call->shown = (uint8_t)(job->call.coll + 1);
    call->shown_count = slice->count;
    call_fill(call);
    return team_collective(team, call, owned, NULL);
}

/* The part of each rank that begins at a multiple of `room` elements to that rank, and none to this one. What comes
 * lies one behind another. */
static tutti_result_t send_parts(struct team *team, const struct job *job, const struct slice *slice, size_t room)
{
    size_t n = (size_t)team->nranks, *sent = malloc(4 * n * sizeof *sent);
    bool cut = job->fold == FOLD_PARTS;
    if (!sent)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %d ranks", team->nranks);
    size_t *come = sent + n, *from = come + n, *to = from + n;
    size_t mine = cut ? part_count(slice, room, team->rank) : job_part(job, slice, team->rank).count;
    for (int rank = 0; rank < team->nranks; rank++) {
        size_t its = cut ? part_count(slice, room, rank) : job_part(job, slice, rank).count;
        sent[rank] = rank == team->rank ? 0 : its;
        come[rank] = rank == team->rank ? 0 : mine;
        from[rank] = (size_t)rank * room;
        to[rank] = (size_t)rank * mine;
    }
    struct call call = {.coll = COLL_ALLTOALLV,
                        .in = slice->in,
                        .out = slice->out,
                        .send_counts = sent,
                        .send_offsets = from,
                        .recv_counts = come,
                        .recv_offsets = to};
    return fold_move(team, job, slice, &call, sent);
}

/* A block of each rank to all, or to the root. */
static tutti_result_t bring_together(struct team *team, const struct job *job, const struct slice *slice,
                                     const char *block, char *all, size_t count)
{
    struct call call = {
        .coll = job->call.coll == COLL_REDUCE ? COLL_GATHER : COLL_ALLGATHER, .count = count, .in = block, .out = all};
    return fold_move(team, job, slice, &call, NULL);
}

tutti_result_t fold_issue(struct channel *channel, const struct job *job, struct slice *slice)
{
    struct team *team = job_team(channel, job);
    if (job->fold == FOLD_PARTS)
        return send_parts(team, job, slice, part_room(team, job, slice));
    if (job->call.coll == COLL_REDUCE_SCATTER)
        return send_parts(team, job, slice, slice->count);
    return bring_together(team, job, slice, slice->in, slice->memory, slice->count);
}

/* ---- What comes ---- */

/* What the GPU reads and writes of pinned memory counts as staged. */
static tutti_result_t fold_ordered(struct channel *channel, const struct job *job, struct courier_fold what,
                                   size_t pinned)
{
    const struct team *team = job_team(channel, job);
    if (!what.bytes)
        return TUTTI_SUCCESS;
    what.nranks = team->nranks;
    what.rank = team->rank;
    trace_count(channel->staged->base.team->engine->trace, WIRE_COUNTER_STAGED_BYTES, pinned * what.bytes);
    return courier_fold(channel, &what);
}

static tutti_result_t fold_whole(struct channel *channel, const struct job *job, struct slice *slice)
{
    const struct call *call = &job->call;
    const struct team *team = job_team(channel, job);
    struct job_part mine = {slice->from, slice->count};
    size_t size = call->size;
    if (call->coll == COLL_REDUCE && team->rank != call->root)
        return TUTTI_SUCCESS;
    if (call->coll == COLL_REDUCE_SCATTER)
        mine = job_part(job, slice, team->rank);
    struct courier_fold what = {.to = (char *)call->out + slice->from * size,
                                .from = slice->out,
                                .own = (const char *)call->in + mine.from * size,
                                .bytes = mine.count * size};
    if (call->premul) /* what is multiplied is in the slice */
        what.own = own_block(team, job, slice);
    return fold_ordered(channel, job, what, (size_t)team->nranks - 1);
}

static tutti_result_t fold_parts(struct channel *channel, const struct job *job, struct slice *slice)
{
    struct team *team = job_team(channel, job);
    size_t size = job->call.size, room = part_room(team, job, slice), skip = (size_t)team->rank * room;
    char *part = slice->in + skip * size;
    struct courier_fold what = {.to = part,
                                .from = slice->out,
                                .own =
                                    job->call.premul ? part : (const char *)job->call.in + (slice->from + skip) * size,
                                .bytes = part_count(slice, room, team->rank) * size};
    tutti_result_t result = fold_ordered(channel, job, what, (size_t)team->nranks);
    if (result == TUTTI_SUCCESS)
        result = bring_together(team, job, slice, part, slice->in, room);
    slice->out = slice->in;
    return result == TUTTI_SUCCESS ? team_wait(team, atomic_load(&team->issued)) : result;
}

tutti_result_t fold_end(struct channel *channel, const struct job *job, struct slice *slice)
{
    return job->fold == FOLD_PARTS ? fold_parts(channel, job, slice) : fold_whole(channel, job, slice);
}
