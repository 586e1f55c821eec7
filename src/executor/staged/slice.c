/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives in slices of elements. A channel has three of its slices under way: one is being copied from the GPU, one
 * is with the team, one is being copied to the GPU.
 */
#include "executor/staged/slice.h"

#include "base/error.h"
#include "device/type.h"
#include "engine/collective.h"
#include "engine/wait.h"
#include "executor/staged/courier.h"
#include "executor/staged/fail.h"
#include "executor/staged/fold.h"

#define LEAST 8  /* a slice is cut to a part of this at most, so that small vectors take few channels */
#define ALIGN 64 /* elements */

/* Blocks of elements in the GPU's memory and their place in a slice. */
struct layout {
    size_t in, out;
};

static struct layout layout_of(const struct channel *channel, const struct job *job)
{
    const struct team *team = job_team(channel, job);
    const struct call *call = &job->call;
    size_t n = (size_t)team->nranks;
    bool root = team->rank == call->root;
    switch (call->coll) {
    case COLL_ALLGATHER:
        return (struct layout){1, n};
    case COLL_REDUCE_SCATTER:
        return (struct layout){n, 1};
    case COLL_ALLTOALL:
        return (struct layout){n, n};
    case COLL_GATHER:
        return (struct layout){1, root ? n : 0};
    case COLL_SCATTER:
        return (struct layout){root ? n : 0, 1};
    case COLL_BROADCAST:
        return (struct layout){root ? 1 : 0, 1};
    case COLL_REDUCE:
        return (struct layout){1, root ? 1 : 0};
    case COLL_BARRIER:
        return (struct layout){0, 0};
    default:
        return (struct layout){1, 1};
    }
}

/* Output takes the place of input in the slice. */
static bool in_place(enum coll coll)
{
    return coll == COLL_ALLREDUCE || coll == COLL_BROADCAST || coll == COLL_REDUCE;
}

/* ---- Cutting ---- */

/* Elements of a block that a slice holds: what the rank with the most blocks can hold, so that it is the same on all.
 */
static size_t slice_room(const struct staged *staged, const struct job *job)
{
    const struct call *call = &job->call;
    if (job->fold != FOLD_NONE)
        return fold_room(staged, job);
    size_t n = job_ranks(staged, job), blocks = in_place(call->coll) ? 1 : call->coll == COLL_ALLTOALL ? 2 * n : n + 1;
    size_t most = staged->slice_bytes / (call->size * blocks);
    return most ? most : 1;
}

/* Every channel gets as many slices as every other, and as much. */
void slice_cut(const struct staged *staged, struct job *job, size_t longest)
{
    job->fold = fold_choose(staged, job, longest);
    size_t count = job->call.count, most = slice_room(staged, job), channels = (size_t)staged->channels;
    size_t turns = (longest + most * channels - 1) / (most * channels), each = 1;
    if (longest) {
        each = (longest + turns * channels - 1) / (turns * channels);
        each = each < most / LEAST ? most / LEAST : each;
        each = (each + ALIGN - 1) / ALIGN * ALIGN;
        each = each < most ? each : most;
    }
    job->each = each;
    job->slices = count ? (count + each - 1) / each : 1;
    size_t slices = longest ? (longest + each - 1) / each : 1;
    job->channels = slices < channels ? (1u << slices) - 1 : (1u << channels) - 1;
}

/* False: there is none. */
static bool slice_take(const struct channel *channel, const struct job *job, size_t step, struct slice *slice)
{
    size_t index = step * (size_t)channel->staged->channels + (size_t)channel->index;
    if (index >= job->slices)
        return false;
    size_t left = job->call.count - index * job->each;
    slice->from = index * job->each;
    slice->count = left < job->each ? left : job->each;
    slice->in = slice->out = slice->memory;
    if (job->fold != FOLD_NONE)
        fold_place(channel, job, slice);
    else if (!in_place(job->call.coll))
        slice->out += layout_of(channel, job).in * slice->count * job->call.size;
    return true;
}

/* ---- The stages of a slice ---- */

tutti_result_t slice_copy(struct channel *channel, void *gpu, void *host, size_t bytes, bool to_gpu)
{
    CUdeviceptr there = (CUdeviceptr)(uintptr_t)gpu, here = (CUdeviceptr)(uintptr_t)host;
    trace_count(channel->staged->base.team->engine->trace, WIRE_COUNTER_STAGED_BYTES, bytes);
    if (channel->staged->copies)
        return courier_copy(channel, gpu, host, bytes, to_gpu);
    return cuda_check(channel->staged->base.cu->MemcpyAsync(to_gpu ? there : here, to_gpu ? here : there, bytes,
                                                            to_gpu ? channel->out : channel->in),
                      "staging through host memory");
}

tutti_result_t slice_move(struct channel *channel, void *to, const void *from, size_t bytes)
{
    if (channel->staged->copies)
        return courier_move(channel, to, from, bytes);
    return cuda_check(channel->staged->base.cu->MemcpyAsync((CUdeviceptr)(uintptr_t)to, (CUdeviceptr)(uintptr_t)from,
                                                            bytes, channel->out),
                      "copying within the GPU's memory");
}

static tutti_result_t slice_scale(struct channel *channel, const struct job *job, const void *gpu, void *host,
                                  size_t bytes)
{
    trace_count(channel->staged->base.team->engine->trace, WIRE_COUNTER_STAGED_BYTES, bytes);
    return courier_scale(channel, gpu, host, bytes, job->call.scalar);
}

/* To the GPU goes, of blocks of unlike lengths, this rank's alone. */
static struct job_part part_to_copy(const struct channel *channel, const struct job *job, const struct slice *slice,
                                    int block, bool to_gpu)
{
    if (!to_gpu || !job->lengths)
        return job_part(job, slice, block);
    return (struct job_part){slice->from, job_part(job, slice, job_team(channel, job)->rank).count};
}

static tutti_result_t copy_blocks(struct channel *channel, const struct job *job, const struct slice *slice, void *gpu,
                                  char *host, size_t blocks, bool to_gpu)
{
    tutti_result_t result = TUTTI_SUCCESS;
    size_t size = job->call.size;
    int stays = to_gpu ? -1 : fold_stays(channel, job);
    for (size_t i = 0; i < blocks && result == TUTTI_SUCCESS; i++) {
        struct job_part part = part_to_copy(channel, job, slice, (int)i, to_gpu);
        char *there = (char *)gpu + part.from * size, *here = host + i * slice->count * size;
        size_t bytes = part.count * size;
        if ((int)i == stays || !bytes)
            continue;
        result = !to_gpu && job->fold != FOLD_NONE && job->call.premul
                     ? slice_scale(channel, job, there, here, bytes)
                     : slice_copy(channel, there, here, bytes, to_gpu);
    }
    return result;
}

size_t slice_first(struct channel *channel, const struct job *job, const void **gpu)
{
    struct slice *slice = channel->slice;
    *gpu = job->call.in;
    bool copied = !(job->fold != FOLD_NONE && job->call.premul); /* as it is */
    return slice_take(channel, job, 0, slice) && copied && layout_of(channel, job).in == 1
               ? slice->count * job->call.size
               : 0;
}

static tutti_result_t copy_in(struct channel *channel, const struct job *job, struct slice *slice)
{
    size_t bytes = slice->count * job->call.size;
    if (channel->brought) {
        channel->brought = false;
        trace_count(channel->staged->base.team->engine->trace, WIRE_COUNTER_STAGED_BYTES, bytes);
        courier_fetch(channel, slice->in, bytes);
        return TUTTI_SUCCESS;
    }
    return copy_blocks(channel, job, slice, (void *)(uintptr_t)job->call.in, slice->in, layout_of(channel, job).in,
                       false);
}

static tutti_result_t slice_issue(struct channel *channel, const struct job *job, struct slice *slice)
{
    struct call call = job->call;
    if (job->fold != FOLD_NONE)
        return fold_issue(channel, job, slice);
    call.count = slice->count;
    call.in = slice->in;
    call.out = slice->out;
    call_fill(&call);
    return team_collective(job_team(channel, job), &call, NULL, NULL);
}

static tutti_result_t slice_copy_out(struct channel *channel, const struct job *job, struct slice *slice)
{
    return copy_blocks(channel, job, slice, job->call.out, slice->out, layout_of(channel, job).out, true);
}

/* ---- Many slices ---- */

/* The slice's memory is free again when its last copy to the GPU has been made: the stream waits for that, not the
 * thread. */
static tutti_result_t slice_begin(struct channel *channel, const struct job *job, struct slice *slice)
{
    const struct staged *staged = channel->staged;
    tutti_result_t result = TUTTI_SUCCESS;
    if (!staged->copies) /* a courier's copies are over */
        result = cuda_check(staged->base.cu->StreamWaitEvent(channel->in, slice->copied_out, 0),
                            "waiting for a slice's memory");
    if (result == TUTTI_SUCCESS)
        result = copy_in(channel, job, slice);
    return result == TUTTI_SUCCESS ? channel_mark(channel, slice->copied_in, channel->in) : result;
}

static tutti_result_t hand_to_team(struct channel *channel, const struct job *job, struct slice *slice)
{
    const struct staged *staged = channel->staged;
    tutti_result_t result = TUTTI_SUCCESS;
    if (!staged->copies)
        result = cuda_check(staged->base.cu->EventSynchronize(slice->copied_in), "waiting for a copy");
    if (result == TUTTI_SUCCESS)
        result = slice_issue(channel, job, slice);
    slice->position = atomic_load(&job_team(channel, job)->issued);
    return result;
}

static tutti_result_t slice_end(struct channel *channel, const struct job *job, struct slice *slice)
{
    tutti_result_t result = team_wait(job_team(channel, job), slice->position);
    if (result == TUTTI_SUCCESS && job->fold != FOLD_NONE)
        result = fold_end(channel, job, slice);
    if (result == TUTTI_SUCCESS && job->fold != FOLD_WHOLE)
        result = slice_copy_out(channel, job, slice);
    return result == TUTTI_SUCCESS ? channel_mark(channel, slice->copied_out, channel->out) : result;
}

tutti_result_t slice_run(struct channel *channel, const struct job *job)
{
    tutti_result_t result = TUTTI_SUCCESS;
    struct slice *slice = channel->slice;
    bool more = true;
    for (size_t step = 0, slices = 0; (more || step < slices + 2) && result == TUTTI_SUCCESS; step++) {
        more = more && slice_take(channel, job, step, &slice[step % SLICES]);
        if (more)
            result = slice_begin(channel, job, &slice[step % SLICES]);
        slices += more;
        if (result == TUTTI_SUCCESS && step >= 1 && step - 1 < slices)
            result = hand_to_team(channel, job, &slice[(step - 1) % SLICES]);
        if (result == TUTTI_SUCCESS && step >= 2 && step - 2 < slices)
            result = slice_end(channel, job, &slice[(step - 2) % SLICES]);
    }
    return result;
}
