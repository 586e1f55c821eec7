/* SPDX-License-Identifier: Apache-2.0 */
/* Operations through shared memory: local actions, publish, read what peers published; slice by slice, round by round,
 * never blocking. */
#include "engine/shared_internal.h"

#include "base/error.h"
#include "base/reach.h"
#include "engine/failure.h"
#include "engine/op.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- Where blocks lie ---- */

/* Multiplied blocks lie one behind the other, as those of a user's buffer do. */
static unsigned char *prepared_place(const struct shared_context *c, int32_t block)
{
    size_t distance = c->cut ? c->op->shared.stride : shared_span(c, 0, 1);
    return c->shared->prepared + (size_t)block * distance * c->size;
}

static const void *shared_read_place(const struct shared_context *c, uint8_t buffer, int32_t block)
{
    if (buffer == BUFFER_SCRATCH)
        return c->shared->pointer[block];
    if (buffer == BUFFER_IN && c->prepares)
        return prepared_place(c, block);
    return (const char *)(buffer == BUFFER_IN ? c->op->call.in : c->op->call.out) + shared_offset(c, block);
}

static void *write_place(const struct shared_context *c, int32_t block)
{
    return (char *)c->op->call.out + shared_offset(c, block);
}

/* Bytes of a copy: a private cache is smaller, and a shared one has other users. */
#define AROUND_THE_CACHE (8u << 20)

/* Reductions that store around the cache were slower at every size that was measured: docs/notebook/host.md. */
static void copy_out(const struct shared_context *c, void *to, const void *from, size_t bytes)
{
    c->team->work += bytes;
    if (to != from && bytes >= AROUND_THE_CACHE)
        memory_copy_stream(to, from, bytes);
    else if (to != from && bytes)
        memory_copy(to, from, bytes);
}

static void shared_reduce(const struct shared_context *c, const struct action *action, void *to,
                          const void *const *sources, int n, size_t count)
{
    const struct reduction *reduction = &c->op->route.reduction;
    c->team->work += count * c->size * (size_t)n;
    reduction_apply(reduction, to, sources, n, count);
    if (action->final && reduction_needs_finish(reduction))
        reduction_finish(reduction, to, to, count);
}

/* ---- Waiting for peers ---- */

static bool has_read(struct shared_context *c, int peer)
{
    uint64_t done = atomic_load_explicit(&c->shared->arena.ranks[peer].done, memory_order_acquire);
    return done + c->shared->arena.slot_count > c->shared->step;
}

/* Waits until all peers have read what my next slot held before. */
static tutti_result_t slot_free(struct shared_context *c)
{
    int peer;
    while ((peer = shared_unread_by(c->shared, c->team->rank)) >= 0) {
        tutti_result_t result = shared_blocked(c, peer, has_read);
        if (result != TUTTI_SUCCESS)
            return result;
    }
    return TUTTI_SUCCESS;
}

static void engine_shared_let_go(struct shared_context *c)
{
    shared_let_go(c->shared, c->team->rank);
}

/* ---- Rounds ---- */

static void do_copy(struct shared_context *c, const struct action *action)
{
    const void *from = shared_read_place(c, action->src_buffer, action->src_block);
    if (action->dst_buffer == BUFFER_SCRATCH)
        c->shared->pointer[action->dst_block] = from;
    else
        copy_out(c, write_place(c, action->dst_block), from, shared_span(c, action->block, action->nblocks) * c->size);
}

/* Do peers read all that is sent in this round in the user's buffers? */
static bool shown(const struct shared_context *c, const struct shared_round *round)
{
    const struct shared_run *run = &c->op->shared;
    for (int i = 0; i < round->sends; i++)
        if (!(round->send[i].buffer == BUFFER_IN ? run->in_shown
                                                 : run->out_shown && round->send[i].buffer == BUFFER_OUT))
            return false;
    return round->sends > 0;
}

/* The send of this round that a reduction makes the data of, if it is to be staged. */
static const struct shared_send *send_of(const struct shared_context *c, const struct shared_round *round,
                                         const struct action *action)
{
    if (shown(c, round))
        return NULL;
    for (int i = 0; i < round->sends; i++)
        if (round->send[i].reduced && round->send[i].buffer == action->dst_buffer &&
            round->send[i].src_block == action->dst_block)
            return &round->send[i];
    return NULL;
}

/* One fused pass. What is sent next is made in the slot, where the peers read it, and copied from there. */
static void do_reduce(struct shared_context *c, const struct shared_round *round, const struct action *action,
                      struct slot *slot)
{
    const struct shared_send *send = send_of(c, round, action);
    size_t count = shared_span(c, action->block, action->nblocks);
    const void **sources = c->shared->pointer + c->shared->pointers;
    void *out = write_place(c, action->dst_block);
    void *to = send ? shared_slot_place(c, slot, send->slot_block, round->staged) : out;
    if (!count)
        return;
    for (int i = 0; i < action->nsrc; i++)
        sources[i] = shared_read_place(c, action->src_buffer, action->src_block + i * action->nblocks);
    shared_reduce(c, action, to, sources, action->nsrc, count);
    if (send)
        copy_out(c, out, to, count * c->size);
}

static void do_local(struct shared_context *c, const struct shared_round *round, struct slot *slot)
{
    for (int i = 0; i < round->locals; i++) {
        const struct action *action = &round->local[i];
        if (action->kind == ACTION_COPY)
            do_copy(c, action);
        else
            do_reduce(c, round, action, slot);
    }
}

static void stage_all(struct shared_context *c, const struct shared_round *round, struct slot *slot)
{
    for (int i = 0; i < round->sends && !shown(c, round); i++) {
        const struct shared_send *send = &round->send[i];
        size_t bytes = shared_span(c, send->block, send->nblocks) * c->size;
        if (!send->reduced && bytes)
            copy_out(c, shared_slot_place(c, slot, send->slot_block, round->staged),
                     shared_read_place(c, send->buffer, send->src_block), bytes);
    }
}

/* Where peers read. */
static void shared_describe(const struct shared_context *c, struct slot_place *place)
{
    const struct shared_run *run = &c->op->shared;
    *place = (struct slot_place){.in = (uintptr_t)c->op->call.in,
                                 .out = (uintptr_t)c->op->call.out,
                                 .in_offset = run->in_offset,
                                 .out_offset = run->out_offset,
                                 .in_region = run->in_region,
                                 .out_region = run->out_region};
}

static void engine_shared_publish(struct shared_context *c, const struct shared_round *round, struct slot *slot)
{
    slot_name(slot, op_call(c->op));
    slot->kind = shown(c, round) ? SLOT_IN_PLACE : SLOT_STAGED;
    if (slot->kind == SLOT_IN_PLACE)
        shared_describe(c, (struct slot_place *)(void *)slot->few);
    shared_publish(c->shared, c->team->rank, slot);
}

/* Multiplies this slice of the input, block by block. TUTTI_IN_PROGRESS: it pauses. */
static tutti_result_t shared_prepare(struct shared_context *c)
{
    struct shared_run *run = &c->op->shared;
    int blocks = shared_input_blocks(c);
    while (run->prepared < blocks) {
        int block = run->prepared++;
        size_t count = shared_span(c, block, 1);
        reduction_prepare(&c->op->route.reduction, prepared_place(c, block),
                          (const char *)c->op->call.in + shared_offset(c, block), count);
        c->team->work += count * c->size;
        if (team_should_pause(c->team) && run->prepared < blocks)
            return TUTTI_IN_PROGRESS;
    }
    return TUTTI_SUCCESS;
}

static tutti_result_t begin_round(struct shared_context *c, const struct shared_round *round)
{
    struct shared *d = c->shared;
    tutti_result_t ready = c->prepares ? shared_prepare(c) : TUTTI_SUCCESS;
    if (ready != TUTTI_SUCCESS)
        return ready;
    struct slot *slot = arena_slot(&d->arena, c->team->rank, d->step);
    if (round->step) {
        tutti_result_t result = slot_free(c);
        if (result != TUTTI_SUCCESS)
            return result;
    }
    do_local(c, round, slot);
    if (c->op->shared.borrowed)
        engine_shared_let_go(c);
    c->op->shared.borrowed = false;
    if (round->step) {
        stage_all(c, round, slot);
        engine_shared_publish(c, round, slot);
    }
    c->op->shared.published = true;
    c->op->shared.recv = 0;
    return TUTTI_SUCCESS;
}

/* Where a peer's block can be read: its slot, its own buffer, or a copy of that. NULL: it cannot. */
static const void *peer_data(struct shared_context *c, const struct shared_recv *recv, struct slot *slot, size_t bytes,
                             void *copy)
{
    const struct slot_place *place = (const struct slot_place *)(const void *)slot->few;
    struct peer_memory *peers = &c->shared->peers;
    bool in = recv->peer_buffer == BUFFER_IN;
    int peer = recv->action.peer;
    trace_count(c->team->engine->trace, WIRE_COUNTER_SHARED_BYTES, bytes);
    if (slot->kind == SLOT_STAGED)
        return shared_slot_place(c, slot, recv->slot_block, recv->peer_blocks);
    size_t from = shared_offset(c, recv->peer_block);
    c->op->shared.looked = true;
    const void *pointer = bytes ? peer_pointer(c->team, peers, peer, place, in, from, bytes) : copy;
    return pointer ? pointer : peer_read(peers, peer, place, in, from, copy, bytes) ? copy : NULL;
}

/* Blocks for SCRATCH are copied side by side; others go to their place at once. */
static void *copy_place(const struct shared_context *c, const struct action *action)
{
    if (action->dst_buffer == BUFFER_SCRATCH)
        return c->shared->bounce + (size_t)action->dst_block * c->op->shared.stride * c->size;
    return action->kind == ACTION_RECV ? write_place(c, action->dst_block) : c->shared->bounce;
}

/* `to`: where it was to be copied. */
static tutti_result_t unreadable(struct shared_context *c, int peer, const void *to, size_t bytes)
{
    char sentence[TEAM_SENTENCE];
    uint32_t pid = team_row(c->team, peer)->pid;
    int told = team_told_rank(c->team, peer);
    int error = errno;
    const void *at = error == EFAULT ? reach_unwritable(to, bytes) : NULL;
    if (at) {
        snprintf(sentence, sizeof sentence,
                 "rank %d gave memory that cannot be written for %s: address %p, in %zu bytes from %p; the page is "
                 "protected or not mapped, or its file is too short",
                 team_told_rank(c->team, c->team->rank), schedule_coll_name(c->op->call.coll), at, bytes, to);
        return team_fail(c->team, TUTTI_INVALID_ARGUMENT, c->team->rank, sentence);
    }
    if (atomic_load(&c->team->gone[peer]))
        snprintf(sentence, sizeof sentence, "rank %d (process %u) is gone; its memory was being read", told, pid);
    else if (error == EFAULT)
        snprintf(sentence, sizeof sentence,
                 "rank %d gave memory that cannot be read for %s, by %zu bytes; a page is protected or not mapped, or "
                 "its file is too short",
                 told, schedule_coll_name(c->op->call.coll), bytes);
    else if (error == ENOENT)
        snprintf(sentence, sizeof sentence,
                 "rank %d (process %u) freed memory that %s reads there; it must live until the operation has ended",
                 told, pid, schedule_coll_name(c->op->call.coll));
    else
        snprintf(
            sentence, sizeof sentence,
            "cannot read the memory of rank %d (process %u): %s; TUTTI_SHM_CMA=0 copies through shared memory instead",
            told, pid, strerror(error));
    return team_fail(c->team, TUTTI_REMOTE_ERROR, peer, sentence);
}

static tutti_result_t shared_take(struct shared_context *c, const struct shared_recv *recv, struct slot *slot)
{
    const struct action *action = &recv->action;
    size_t count = shared_span(c, action->block, action->nblocks);
    void *copy = copy_place(c, action);
    const void *data = peer_data(c, recv, slot, count * c->size, copy);
    if (!data && count)
        return unreadable(c, action->peer, copy, count * c->size);
    if (action->dst_buffer == BUFFER_SCRATCH) {
        c->shared->pointer[action->dst_block] = data;
    } else if (action->kind == ACTION_RECV) {
        copy_out(c, write_place(c, action->dst_block), data, count * c->size);
    } else if (count) {
        const void *sources[2] = {shared_read_place(c, action->src_buffer, action->src_block), data};
        shared_reduce(c, action, write_place(c, action->dst_block), sources, 2, count);
    }
    return TUTTI_SUCCESS;
}

static tutti_result_t receive_all(struct shared_context *c, const struct shared_round *round)
{
    struct shared_run *run = &c->op->shared;
    for (; run->recv < round->recvs; run->recv++) {
        const struct shared_recv *recv = &round->recv[run->recv];
        struct slot *slot;
        tutti_result_t result = shared_await(c, recv->action.peer, &slot);
        if (result == TUTTI_SUCCESS)
            result = shared_take(c, recv, slot);
        if (result == TUTTI_SUCCESS && team_should_pause(c->team) && run->recv + 1 < round->recvs) {
            run->recv++;
            return TUTTI_IN_PROGRESS;
        }
        if (result != TUTTI_SUCCESS)
            return result;
    }
    return TUTTI_SUCCESS;
}

static void end_round(struct shared_context *c, const struct shared_round *round)
{
    struct shared_run *run = &c->op->shared;
    if (round->step) {
        c->shared->read = ++c->shared->step;
        if (round->holds)
            run->borrowed = true;
        else
            engine_shared_let_go(c);
    }
    run->published = false;
    if (++run->round < c->plan->rounds)
        return;
    run->round = run->prepared = 0;
    run->slice++;
}

static bool all_read(struct shared_context *c, int peer)
{
    return atomic_load_explicit(&c->shared->arena.ranks[peer].done, memory_order_acquire) >= c->shared->step;
}

/* The user's buffers are his again when no peer reads them any more. */
static tutti_result_t wait_for_readers(struct shared_context *c)
{
    for (int peer = 0; peer < c->shared->arena.nranks; peer++) {
        if (peer == c->team->rank || all_read(c, peer))
            continue;
        tutti_result_t result = shared_blocked(c, peer, all_read);
        if (result != TUTTI_SUCCESS)
            return result;
    }
    return TUTTI_SUCCESS;
}

static tutti_result_t shared_step(struct team *team, struct op *op)
{
    struct shared_context c = shared_context_of(team, op);
    struct shared_run *run = &op->shared;
    if (run->exchange)
        return shared_exchange_step(&c);
    tutti_result_t result = run->settled ? TUTTI_SUCCESS : shared_settle(&c);
    while (result == TUTTI_SUCCESS && run->slice < run->slices) {
        const struct shared_round *round = &c.plan->round[run->round];
        result = run->published ? TUTTI_SUCCESS : begin_round(&c, round);
        if (result == TUTTI_SUCCESS)
            result = receive_all(&c, round);
        if (result == TUTTI_SUCCESS)
            end_round(&c, round);
        if (team_should_pause(team) && run->slice < run->slices)
            return TUTTI_IN_PROGRESS;
    }
    if (result != TUTTI_SUCCESS)
        return result;
    if (run->borrowed)
        engine_shared_let_go(&c);
    run->borrowed = false;
    atomic_store_explicit(&c.shared->unread, !c.plan->reads, memory_order_relaxed);
    if (run->looked && shared_broken(&c, &result))
        return result;
    return run->in_shown || run->out_shown ? wait_for_readers(&c) : TUTTI_SUCCESS;
}

static bool shared_is_shown(const struct op *op)
{
    return op->shared.in_shown || op->shared.out_shown;
}

const struct op_kind op_shared = {.counted = true,
                                  .start = shared_start,
                                  .step = shared_step,
                                  .end = shared_end,
                                  .is_shown = shared_is_shown,
                                  .sleep = shared_sleep};
