/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each operation outside of graphs is a step on the mailbox: how many collectives its rank had called then, and how
 * many messages it had exchanged with whom. Ranks call collectives in one order, and both ends count messages alike, so
 * a rank that waits can tell what a rank that is gone has done.
 */
#include "executor/gpu/step.h"

#include "engine/p2p.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/mailbox.h"
#include "executor/gpu/opened.h"
#include "executor/gpu/signals.h"
#include "executor/stream/ticket.h"

static uint32_t all_with(const struct gpu *gpu, const size_t *counts)
{
    uint32_t set = 0;
    for (int peer = 0; peer < gpu->nranks; peer++)
        set |= counts[peer] ? 1u << peer : 0;
    return set;
}

void step_begin(struct gpu *gpu)
{
    opened_call(gpu);
    gpu->step.collective = gpu->step.reads = gpu->step.waits = 0;
    gpu->step.involves = gpu->step.expects = 0;
}

static void step_say(struct gpu *gpu, uint32_t to, uint32_t from)
{
    gpu->step.involves |= to | from;
    gpu->step.expects |= from;
}

void step_collective(struct gpu *gpu, const struct call *call, const struct way_needs *needs)
{
    bool some = call->coll == COLL_ALLTOALLV; /* has no message to some ranks perhaps */
    gpu->step.collective = 1;
    gpu->step.collectives++;
    step_say(gpu, needs->to & (some ? all_with(gpu, call->send_counts) : UINT32_MAX),
             needs->from & (some ? all_with(gpu, call->recv_counts) : UINT32_MAX));
}

void step_p2p(struct gpu *gpu, const struct p2p_item *items, int count)
{
    uint32_t sends = 0, recvs = 0;
    for (int i = 0; i < count; i++) {
        const struct p2p_item *item = &items[i];
        if (!item->count || item->peer == gpu->rank)
            continue;
        *(item->sends ? &sends : &recvs) |= 1u << item->peer;
        ++*(item->sends ? &gpu->step.sent[item->peer] : &gpu->step.received[item->peer]);
    }
    step_say(gpu, sends, recvs);
}

void step_waits(struct gpu *gpu, int peer)
{
    gpu->step.waits = 1;
    step_say(gpu, 0, 1u << peer);
}

void step_issued(struct gpu *gpu, uint32_t ticket, bool kernel, bool whole)
{
    struct mailbox_rank *mine = &gpu->ranks[gpu->rank];
    uint64_t issued = atomic_load_explicit(&mine->issued, memory_order_relaxed);
    gpu->step.ticket = ticket;
    gpu->step.kernel = kernel;
    gpu->step.whole = whole;
    mine->step[issued % MAILBOX_STEPS] = gpu->step;
    opened_issued(gpu, issued);
    atomic_store_explicit(&mine->issued, issued + 1, memory_order_release);
}

const struct mailbox_step *step_first(const struct gpu *gpu, uint64_t *from)
{
    const struct mailbox_rank *mine = &gpu->ranks[gpu->rank];
    uint64_t issued = atomic_load_explicit(&mine->issued, memory_order_acquire);
    if (*from + MAILBOX_STEPS < issued)
        *from = issued - MAILBOX_STEPS;
    if (ticket_idle(&gpu->base))
        *from = issued;
    while (*from < issued && ticket_is_over(&gpu->base, mine->step[*from % MAILBOX_STEPS].ticket))
        ++*from;
    return *from < issued ? &mine->step[*from % MAILBOX_STEPS] : NULL;
}

/* ---- What a peer has done ---- */

static bool covers(const struct gpu *gpu, const struct mailbox_step *theirs, const struct mailbox_step *step, int peer)
{
    if (step->collective)
        return (int32_t)(theirs->collectives - step->collectives) >= 0;
    return (int32_t)(theirs->received[gpu->rank] - step->sent[peer]) >= 0 &&
           (int32_t)(theirs->sent[gpu->rank] - step->received[peer]) >= 0;
}

/* The last step whose ticket is over, if `over` counts; one that did nothing: there is none, or it is not on the
 * mailbox any more. A call that was refused has a ticket, too, but has done nothing for anybody. */
static const struct mailbox_step *last_whole(const struct mailbox_rank *rank, const uint32_t *over)
{
    static const struct mailbox_step none;
    uint64_t issued = atomic_load_explicit(&rank->issued, memory_order_acquire);
    for (uint64_t back = 1; back <= issued && back <= MAILBOX_STEPS; back++) {
        const struct mailbox_step *step = &rank->step[(issued - back) % MAILBOX_STEPS];
        if (step->whole && (!over || (int32_t)(*over - step->ticket) >= 0))
            return step;
    }
    return &none;
}

bool step_is_served(const struct gpu *gpu, const struct mailbox_step *step, int peer)
{
    const struct mailbox_rank *theirs = &gpu->ranks[peer];
    if (step->waits)
        return signals_are_raised(gpu, step, peer);
    uint32_t over = atomic_load(&theirs->left) ? theirs->limit : mailbox_over(theirs);
    return covers(gpu, last_whole(theirs, &over), step, peer);
}

bool step_is_met(const struct gpu *gpu, const struct mailbox_step *step, int peer)
{
    if (step->waits)
        return signals_are_called(gpu, step, peer);
    return covers(gpu, last_whole(&gpu->ranks[peer], NULL), step, peer);
}

bool step_is_under_way(const struct gpu *gpu, const struct mailbox_step *step, int peer)
{
    const struct mailbox_rank *theirs = &gpu->ranks[peer];
    uint32_t over = mailbox_over(theirs);
    return atomic_load(&theirs->issuing) ||
           (step_is_met(gpu, step, peer) && !covers(gpu, last_whole(theirs, &over), step, peer));
}
