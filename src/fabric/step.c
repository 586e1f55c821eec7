/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each operation outside of graphs is a step on the board: how many collectives its rank had called then, and how many messages it had exchanged with
 * whom. Ranks call collectives in one order, and both ends count messages alike, so a rank that waits can tell what one that is gone has done.
 */
#include "fabric/internal.h"

static uint32_t everybody(const struct fabric *fabric)
{
    return (1u << fabric->nranks) - 1;
}

static uint32_t all_with(const struct fabric *fabric, const size_t *counts)
{
    uint32_t set = 0;
    for (int peer = 0; peer < fabric->nranks; peer++)
        set |= counts[peer] ? 1u << peer : 0;
    return set;
}

static void say(struct fabric *fabric, uint32_t involves, uint32_t expects)
{
    uint32_t others = everybody(fabric) & ~(1u << fabric->rank);
    fabric->step.involves = involves & others;
    fabric->step.expects = expects & others;
}

/* Of broadcasts that are passed on, and of reductions in two hops, anybody may be needed by anybody. */
static void describe(struct fabric *fabric, const struct call *call)
{
    uint32_t all = everybody(fabric), root = call->root >= 0 ? 1u << call->root : 0;
    bool at_root = fabric->rank == call->root;
    switch (call->coll) {
    case COLL_REDUCE:
        say(fabric, all, at_root ? all : 0);
        break;
    case COLL_BROADCAST:
        say(fabric, all, at_root ? 0 : root);
        break;
    case COLL_GATHER:
        say(fabric, at_root ? all : root, at_root ? all : 0);
        break;
    case COLL_SCATTER:
        say(fabric, at_root ? all : root, at_root ? 0 : root);
        break;
    case COLL_ALLTOALLV:
        say(fabric, all_with(fabric, call->send_counts) | all_with(fabric, call->recv_counts), all_with(fabric, call->recv_counts));
        break;
    default:
        say(fabric, all, all);
    }
}

void step_collective(struct fabric *fabric, const struct call *call)
{
    if (fabric->staged)
        return;
    fabric->step.collective = 1;
    fabric->step.collectives++;
    describe(fabric, call);
}

void step_p2p(struct fabric *fabric, const struct p2p_item *items, int count)
{
    uint32_t sends = 0, recvs = 0;
    if (fabric->staged)
        return;
    fabric->step.collective = 0;
    for (int i = 0; i < count; i++) {
        const struct p2p_item *item = &items[i];
        if (!item->count || item->peer == fabric->rank)
            continue;
        *(item->sends ? &sends : &recvs) |= 1u << item->peer;
        ++*(item->sends ? &fabric->step.sent[item->peer] : &fabric->step.received[item->peer]);
    }
    say(fabric, sends | recvs, recvs);
}

void step_issued(struct fabric *fabric, uint32_t ticket, bool kernel, bool whole)
{
    if (!fabric->board)
        return;
    struct board_rank *mine = &fabric->board->rank[fabric->rank];
    uint64_t issued = atomic_load_explicit(&mine->issued, memory_order_relaxed);
    fabric->step.ticket = ticket;
    fabric->step.kernel = kernel;
    fabric->step.whole = whole;
    mine->step[issued % BOARD_STEPS] = fabric->step;
    atomic_store_explicit(&mine->issued, issued + 1, memory_order_release);
}

const struct board_step *step_first(const struct fabric *fabric, uint64_t *from)
{
    const struct board_rank *mine = &fabric->board->rank[fabric->rank];
    uint64_t issued = atomic_load_explicit(&mine->issued, memory_order_acquire);
    if (*from + BOARD_STEPS < issued)
        *from = issued - BOARD_STEPS;
    if (order_idle(fabric))
        *from = issued;
    while (*from < issued && order_is_over(fabric, mine->step[*from % BOARD_STEPS].ticket))
        ++*from;
    return *from < issued ? &mine->step[*from % BOARD_STEPS] : NULL;
}

/* ---- What a peer has done ------------------------------------------------------------------------------------------ */

static bool covers(const struct fabric *fabric, const struct board_step *theirs, const struct board_step *step, int peer)
{
    if (step->collective)
        return (int32_t)(theirs->collectives - step->collectives) >= 0;
    return (int32_t)(theirs->received[fabric->rank] - step->sent[peer]) >= 0 && (int32_t)(theirs->sent[fabric->rank] - step->received[peer]) >= 0;
}

/* The last step whose ticket is over; one that did nothing: there is none, or it is not on the board any more. */
static const struct board_step *last_over(const struct board_rank *rank, uint32_t over)
{
    static const struct board_step none;
    uint64_t issued = atomic_load_explicit(&rank->issued, memory_order_acquire);
    for (uint64_t back = 1; back <= issued && back <= BOARD_STEPS; back++) {
        const struct board_step *step = &rank->step[(issued - back) % BOARD_STEPS];
        if ((int32_t)(over - step->ticket) >= 0)
            return step;
    }
    return &none;
}

bool step_is_served(const struct fabric *fabric, const struct board_step *step, int peer)
{
    const struct board_rank *theirs = &fabric->board->rank[peer];
    uint32_t over = atomic_load(&theirs->left) ? theirs->limit : atomic_load_explicit(&theirs->over, memory_order_acquire);
    return covers(fabric, last_over(theirs, over), step, peer);
}

bool step_is_met(const struct fabric *fabric, const struct board_step *step, int peer)
{
    const struct board_rank *theirs = &fabric->board->rank[peer];
    uint64_t issued = atomic_load_explicit(&theirs->issued, memory_order_acquire);
    return issued && covers(fabric, &theirs->step[(issued - 1) % BOARD_STEPS], step, peer);
}
