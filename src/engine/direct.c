/* SPDX-License-Identifier: Apache-2.0 */
/* The direct executor: local actions, publish, read what peers published; slice by slice, round by round, never blocking. */
#include "engine/direct.h"

#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STREAM_FROM (4u << 20) /* operations of at least so many bytes write their results around the cache */

struct context {
    struct team *team;
    struct direct *direct;
    struct op *op;
    const struct direct_plan *plan;
    size_t size; /* of an element */
    bool cut;    /* the collective cuts one vector into blocks */
};

static struct context context_of(struct team *team, struct op *op)
{
    return (struct context){.team = team,
                            .direct = team->direct,
                            .op = op,
                            .plan = op->route.plan,
                            .size = type_size(op->call.type),
                            .cut = schedule_cuts_vector(op->call.coll)};
}

/* ---- Where blocks lie ---------------------------------------------------------------------------------------------- */

/* Elements of blocks [block, block + n) of this slice. */
static size_t span(const struct context *c, int32_t block, int32_t nblocks)
{
    const struct direct_run *run = &c->op->direct;
    size_t count = c->op->call.count, stride = run->stride;
    if (!c->cut) {
        size_t begin = run->slice * stride;
        return (count - begin < stride ? count - begin : stride) * (size_t)nblocks;
    }
    size_t slice = stride * (size_t)c->plan->blocks, begin = run->slice * slice;
    return schedule_span(count - begin < slice ? count - begin : slice, stride, block, nblocks);
}

/* Offset of a block of this slice in a user's buffer, in bytes. */
static size_t offset(const struct context *c, int32_t block)
{
    const struct direct_run *run = &c->op->direct;
    size_t elements = c->cut ? (run->slice * (size_t)c->plan->blocks + (size_t)block) * run->stride
                             : (size_t)block * c->op->call.count + run->slice * run->stride;
    return elements * c->size;
}

static const void *read_place(const struct context *c, uint8_t buffer, int32_t block)
{
    if (buffer == BUFFER_SCRATCH)
        return c->direct->pointer[block];
    return (const char *)(buffer == BUFFER_IN ? c->op->call.in : c->op->call.out) + offset(c, block);
}

static void *write_place(const struct context *c, int32_t block)
{
    return (char *)c->op->call.out + offset(c, block);
}

/* Where staged block `position` of `blocks` lies in a slot. Both sides compute it alike. */
static unsigned char *slot_place(const struct context *c, struct slot *slot, int position, int blocks)
{
    size_t stride = c->op->direct.stride * c->size;
    unsigned char *base = stride * (size_t)blocks <= SLOT_INLINE ? slot->few : (unsigned char *)(slot + 1);
    return base + stride * (size_t)position;
}

static bool streams(const struct context *c)
{
    return c->op->call.count * c->size >= STREAM_FROM;
}

static void copy_out(const struct context *c, void *to, const void *from, size_t bytes)
{
    if (to == from)
        return;
    if (streams(c))
        memory_copy_stream(to, from, bytes);
    else
        memory_copy(to, from, bytes);
}

/* ---- Waiting for peers --------------------------------------------------------------------------------------------- */

static void set_waiting(struct context *c, int peer)
{
    if (c->op->waiting == peer)
        return;
    c->op->waiting = peer;
    if (peer >= 0)
        trace_op_wait(c->op->trace, (uint32_t)c->op->direct.round, (uint32_t)c->op->direct.slice, peer);
}

static tutti_result_t arena_failure(struct context *c)
{
    struct arena_head *head = c->direct->arena.head;
    int failed = atomic_load_explicit(&head->failed, memory_order_acquire);
    if (!failed)
        return TUTTI_IN_PROGRESS;
    int culprit = failed - 2;
    int result = atomic_load_explicit(&head->failed_result, memory_order_relaxed);
    char sentence[160];
    snprintf(sentence, sizeof sentence, "another rank of this host found the communicator broken; rank to blame: %d", culprit);
    return team_fail(c->team, result > 0 && result < TUTTI_RESULT_COUNT ? (tutti_result_t)result : TUTTI_REMOTE_ERROR, culprit, sentence);
}

/* Not ready. The second look comes after the one at `gone`: what a rank published before it left still counts. */
static tutti_result_t blocked(struct context *c, int peer, bool (*ready)(struct context *c, int peer))
{
    struct arena_rank *rank = &c->direct->arena.ranks[peer];
    set_waiting(c, peer);
    if (atomic_load_explicit(&rank->gone, memory_order_acquire) || atomic_load_explicit(&c->team->gone[peer], memory_order_acquire)) {
        if (ready(c, peer))
            return TUTTI_SUCCESS;
        char sentence[160];
        snprintf(sentence, sizeof sentence, "rank %d (process %u) is gone; it did not reach %s, operation %u", peer,
                 c->team->process[peer].pid, schedule_coll_name(c->op->call.coll), c->op->seq);
        return team_fail(c->team, TUTTI_REMOTE_ERROR, peer, sentence);
    }
    return arena_failure(c);
}

static bool published(struct context *c, int peer)
{
    const struct slot *slot = arena_slot(&c->direct->arena, peer, c->direct->step);
    return atomic_load_explicit(&slot->ready, memory_order_acquire) == c->direct->step + 1;
}

static bool has_read(struct context *c, int peer)
{
    uint64_t done = atomic_load_explicit(&c->direct->arena.ranks[peer].done, memory_order_acquire);
    return done + c->direct->arena.slot_count > c->direct->step;
}

/* Waits until all peers have read what my next slot held before. */
static tutti_result_t slot_free(struct context *c)
{
    struct direct *d = c->direct;
    uint64_t least = UINT64_MAX;
    if (d->freed + d->arena.slot_count > d->step)
        return TUTTI_SUCCESS;
    for (int peer = 0; peer < d->arena.nranks; peer++) {
        if (peer == c->team->rank)
            continue;
        if (!has_read(c, peer)) {
            tutti_result_t result = blocked(c, peer, has_read);
            if (result != TUTTI_SUCCESS)
                return result;
        }
        uint64_t done = atomic_load_explicit(&d->arena.ranks[peer].done, memory_order_relaxed);
        least = done < least ? done : least;
    }
    d->freed = least;
    return TUTTI_SUCCESS;
}

static void wake_sleepers(struct direct *d, int me)
{
    if (atomic_load(&d->arena.head->sleepers))
        arena_wake(&d->arena, me);
}

/* Lets go of all slots read so far. */
static void let_go(struct context *c)
{
    struct direct *d = c->direct;
    atomic_exchange(&d->arena.ranks[c->team->rank].done, d->read);
    wake_sleepers(d, c->team->rank);
}

/* ---- Rounds -------------------------------------------------------------------------------------------------------- */

static void do_copy(struct context *c, const struct action *action)
{
    const void *from = read_place(c, action->src_buffer, action->src_block);
    if (action->dst_buffer == BUFFER_SCRATCH)
        c->direct->pointer[action->dst_block] = from;
    else
        copy_out(c, write_place(c, action->dst_block), from, span(c, action->block, action->nblocks) * c->size);
}

static struct direct_send *send_of(const struct direct_round *round, const struct action *action)
{
    for (int i = 0; i < round->sends; i++)
        if (round->send[i].reduced && round->send[i].buffer == action->dst_buffer && round->send[i].src_block == action->dst_block)
            return &round->send[i];
    return NULL;
}

/* One fused pass. What is sent next is made in the slot, where the peers read it, and copied from there. */
static void do_reduce(struct context *c, const struct direct_round *round, const struct action *action, struct slot *slot)
{
    const struct reduction *reduction = &c->op->route.reduction;
    const struct direct_send *send = send_of(round, action);
    size_t count = span(c, action->block, action->nblocks);
    const void **sources = c->direct->pointer + c->direct->pointers;
    void *out = write_place(c, action->dst_block);
    void *to = send ? slot_place(c, slot, send->slot_block, round->staged) : out;
    if (!count)
        return;
    for (int i = 0; i < action->nsrc; i++)
        sources[i] = read_place(c, action->src_buffer, action->src_block + i * action->nblocks);
    if (!send && streams(c))
        reduction_apply_stream(reduction, to, sources, action->nsrc, count);
    else
        reduction_apply(reduction, to, sources, action->nsrc, count);
    if (action->final && reduction_needs_finish(reduction))
        reduction_finish(reduction, to, to, count);
    if (send)
        copy_out(c, out, to, count * c->size);
}

static void do_local(struct context *c, const struct direct_round *round, struct slot *slot)
{
    for (int i = 0; i < round->locals; i++) {
        const struct action *action = &round->local[i];
        if (action->kind == ACTION_COPY)
            do_copy(c, action);
        else
            do_reduce(c, round, action, slot);
    }
}

static void stage_all(struct context *c, const struct direct_round *round, struct slot *slot)
{
    for (int i = 0; i < round->sends; i++) {
        const struct direct_send *send = &round->send[i];
        if (!send->reduced)
            memory_copy(slot_place(c, slot, send->slot_block, round->staged), read_place(c, send->buffer, send->src_block),
                        span(c, send->block, send->nblocks) * c->size);
    }
}

static void publish(struct context *c, struct slot *slot)
{
    struct direct *d = c->direct;
    slot->signature = c->op->route.signature;
    slot->kind = SLOT_STAGED;
    atomic_exchange(&slot->ready, d->step + 1); /* a full barrier: the sleepers are looked at after it */
    wake_sleepers(d, c->team->rank);
}

static tutti_result_t begin_round(struct context *c, const struct direct_round *round)
{
    struct direct *d = c->direct;
    struct slot *slot = arena_slot(&d->arena, c->team->rank, d->step);
    if (round->step) {
        tutti_result_t result = slot_free(c);
        if (result != TUTTI_SUCCESS)
            return result;
    }
    do_local(c, round, slot);
    if (c->op->direct.borrowed)
        let_go(c);
    c->op->direct.borrowed = false;
    if (round->step) {
        stage_all(c, round, slot);
        publish(c, slot);
    }
    c->op->direct.published = true;
    c->op->direct.recv = 0;
    return TUTTI_SUCCESS;
}

static tutti_result_t mismatch(struct context *c, int peer, const struct slot *slot)
{
    char sentence[256];
    enum coll theirs = (enum coll)(slot->signature >> 28);
    snprintf(sentence, sizeof sentence,
             "rank %d called %s of %s, rank %d called %s of %s%s (operation %u); all ranks must call the same, with equal counts and roots",
             c->team->rank, schedule_coll_name(c->op->call.coll), type_name(c->op->call.type), peer,
             theirs < COLL_COUNT ? schedule_coll_name(theirs) : "something else", type_name((tutti_type_t)(slot->signature >> 24 & 15)),
             theirs == c->op->call.coll ? " with another count, operator or root" : "", c->op->seq);
    return team_fail(c->team, TUTTI_INVALID_USAGE, peer, sentence);
}

static void take(struct context *c, const struct direct_recv *recv, struct slot *slot)
{
    const struct action *action = &recv->action;
    const void *data = slot_place(c, slot, recv->slot_block, recv->peer_blocks);
    size_t count = span(c, action->block, action->nblocks);
    if (action->dst_buffer == BUFFER_SCRATCH) {
        c->direct->pointer[action->dst_block] = data;
    } else if (action->kind == ACTION_RECV) {
        copy_out(c, write_place(c, action->dst_block), data, count * c->size);
    } else if (count) {
        const void *sources[2] = {read_place(c, action->src_buffer, action->src_block), data};
        void *out = write_place(c, action->dst_block);
        reduction_apply(&c->op->route.reduction, out, sources, 2, count);
        if (action->final && reduction_needs_finish(&c->op->route.reduction))
            reduction_finish(&c->op->route.reduction, out, out, count);
    }
}

static tutti_result_t receive_all(struct context *c, const struct direct_round *round)
{
    struct direct_run *run = &c->op->direct;
    for (; run->recv < round->recvs; run->recv++) {
        const struct direct_recv *recv = &round->recv[run->recv];
        int peer = recv->action.peer;
        struct slot *slot = arena_slot(&c->direct->arena, peer, c->direct->step);
        if (!published(c, peer)) {
            tutti_result_t result = blocked(c, peer, published);
            if (result != TUTTI_SUCCESS)
                return result;
        }
        if (slot->signature != c->op->route.signature)
            return mismatch(c, peer, slot);
        take(c, recv, slot);
    }
    return TUTTI_SUCCESS;
}

static void end_round(struct context *c, const struct direct_round *round)
{
    struct direct_run *run = &c->op->direct;
    if (round->step) {
        c->direct->read = ++c->direct->step;
        if (round->holds)
            run->borrowed = true;
        else
            let_go(c);
    }
    run->published = false;
    if (++run->round < c->plan->rounds)
        return;
    run->round = 0;
    run->slice++;
}

tutti_result_t direct_step(struct team *team, struct op *op)
{
    struct context c = context_of(team, op);
    struct direct_run *run = &op->direct;
    while (run->slice < run->slices) {
        const struct direct_round *round = &c.plan->round[run->round];
        tutti_result_t result = run->published ? TUTTI_SUCCESS : begin_round(&c, round);
        if (result == TUTTI_SUCCESS)
            result = receive_all(&c, round);
        if (result != TUTTI_SUCCESS)
            return result;
        end_round(&c, round);
    }
    if (run->borrowed)
        let_go(&c);
    return TUTTI_SUCCESS;
}

/* ---- Setting out --------------------------------------------------------------------------------------------------- */

static size_t round_up(size_t value, size_t unit)
{
    return (value + unit - 1) / unit * unit;
}

/* Elements of a block of a slice, so that what the busiest rank stages fits its slot; and how many slices that makes. */
static void cut_slices(struct context *c)
{
    struct direct_run *run = &c->op->direct;
    const struct direct_plan *plan = c->plan;
    size_t payload = c->direct->arena.slot_size - sizeof(struct slot), count = c->op->call.count;
    size_t parts = c->cut && plan->blocks > 0 ? (size_t)plan->blocks : 1, line = CACHE_LINE / c->size;
    size_t most = plan->staged_most ? payload / (size_t)plan->staged_most / c->size / line * line : count;
    size_t whole = (count + parts - 1) / parts;
    if (whole * c->size >= 4096)
        whole = round_up(whole, line);
    run->stride = whole < most ? whole : most;
    if (run->stride == 0)
        run->stride = 1;
    run->slices = (count + run->stride * parts - 1) / (run->stride * parts);
    if (run->slices == 0 && c->op->call.coll == COLL_BARRIER)
        run->slices = 1;
}

static tutti_result_t reserve_pointers(struct direct *d, int scratch, int nranks)
{
    if (d->pointer && d->pointers >= scratch)
        return TUTTI_SUCCESS;
    const void **bigger = calloc((size_t)scratch + (size_t)nranks + 1, sizeof *bigger);
    if (!bigger)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for %d scratch blocks", scratch);
    free(d->pointer);
    d->pointer = bigger;
    d->pointers = scratch;
    return TUTTI_SUCCESS;
}

tutti_result_t direct_start(struct team *team, struct op *op)
{
    struct shape shape = {op->call.coll, team->nranks, op->call.root};
    tutti_result_t result = direct_plan(team, op->route.algorithm, &shape, &op->route.plan);
    if (result == TUTTI_SUCCESS)
        result = reserve_pointers(team->direct, op->route.plan->scratch, team->nranks);
    if (result != TUTTI_SUCCESS)
        return team_fail(team, result, team->rank, error_last());
    op->direct = (struct direct_run){0};
    struct context c = context_of(team, op);
    cut_slices(&c);
    return TUTTI_SUCCESS;
}

tutti_result_t direct_open(struct team *team, int fd)
{
    struct direct *d = calloc(1, sizeof *d);
    if (!d)
        return error_set(TUTTI_SYSTEM_ERROR, "no memory for direct collectives");
    tutti_result_t result = arena_map(&d->arena, fd, team->nranks);
    if (result != TUTTI_SUCCESS) {
        free(d);
        return result;
    }
    team->direct = d;
    return TUTTI_SUCCESS;
}

void direct_close(struct team *team)
{
    struct direct *d = team->direct;
    if (!d)
        return;
    for (int coll = 0; coll < COLL_COUNT; coll++)
        direct_plan_free(d->plan[coll]);
    arena_unmap(&d->arena);
    free(d->pointer);
    free(d);
    team->direct = NULL;
}

/* ---- Sleep and failure --------------------------------------------------------------------------------------------- */

static bool anything_new(void *context)
{
    struct team *team = context;
    return atomic_load(&team->failed) || team_progress(team, false);
}

void direct_sleep(struct team *team, uint64_t timeout_us)
{
    arena_sleep(&team->direct->arena, team->rank, anything_new, team, timeout_us);
}

void direct_tell_failure(struct team *team)
{
    struct arena_head *head = team->direct->arena.head;
    int none = 0;
    atomic_store_explicit(&head->failed_result, TUTTI_REMOTE_ERROR, memory_order_relaxed);
    if (atomic_compare_exchange_strong(&head->failed, &none, team->culprit + 2))
        arena_wake(&team->direct->arena, -1);
}

void direct_gone(struct team *team, int rank)
{
    atomic_store(&team->direct->arena.ranks[rank].gone, true);
    arena_wake(&team->direct->arena, -1);
}
