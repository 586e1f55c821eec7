/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one rank replays from a graph and another one calls. Where both take the same kernel that goes well. What copy
 * engines carry, and a reduction that reads or goes round before, needs the same call of its peer: there the peer's
 * kernel, which the graph has launched, waits for the caller, and the caller for a call that would come behind that
 * kernel. Nothing ends that, so the rank that replays looks for it, and all fail with a sentence. The host alone takes
 * part, as in helper.c. What copy engines would carry and kernels do, as it cannot be mapped, goes well for some time:
 * the caller, which counts messages, finds out when it has no place for another one.
 */
#include "executor/gpu/mixing.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/param.h"
#include "engine/failure.h"
#include "executor/gpu/gone.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/mailbox.h"
#include "executor/stream/ticket.h"

#include <stdio.h>

#define LOOK_MS 500 /* between two looks, whatever the helper is woken for meanwhile */
/* Looks at the same: a single one puts together what was seen one after another. More where others are in between,
 * whose copies may be under way: each counts for one of these. */
#define ENOUGH      21
#define ENOUGH_PART 7

static bool is_behind(const _Atomic uint32_t *word, uint32_t number)
{
    return (int32_t)(number - atomic_load_explicit(word, memory_order_acquire)) > 0;
}

/* The last message to which that end's stream has come. */
static uint32_t last_of(const struct mailbox_pair *pair, int end)
{
    uint32_t first = atomic_load_explicit(end ? &pair->at_recv : &pair->at_send, memory_order_acquire);
    uint32_t second = atomic_load_explicit(&pair->at_copy[end], memory_order_acquire);
    return (int32_t)(second - first) > 0 ? second : first;
}

/* Is the message not done? Then the stream waits for the other end's, or for a copy. */
static bool mixing_is_undone(const struct mailbox_pair *pair, int end)
{
    uint32_t number = last_of(pair, end);
    return is_behind(&pair->pushed, number) && is_behind(&pair->pulled, number);
}

static bool is_staged(const struct mailbox_pair *pair, int end)
{
    return is_behind(&pair->arrived, atomic_load_explicit(&pair->at_pieces[end], memory_order_acquire));
}

/* Has this rank called its end of the message, in no operation behind the launch that its GPU is at? */
static bool mixing_has_come(const struct gpu *gpu, const struct mailbox_pair *pair, int rank, int end, uint32_t at)
{
    uint32_t number = last_of(pair, !end);
    const _Atomic uint32_t *first = &gpu->messages.first[end][rank][number % MIXING_MESSAGES];
    return !is_behind(&pair->called[end], number) &&
           (int32_t)(atomic_load_explicit(first, memory_order_relaxed) - at) <= 0;
}

/* Does a rank's stream wait for another one's? */
static bool stream_waits(const struct gpu *gpu, int rank, int other)
{
    const struct mailbox_pair *to = &gpu->messages.pair[rank][other], *from = &gpu->messages.pair[other][rank];
    return mixing_is_undone(to, 0) || mixing_is_undone(from, 1) || is_staged(to, 0) || is_staged(from, 1);
}

/* Does a rank's stream wait for this rank's, which is at a launch in front of what is waited for? Where no call's
 * launch has begun, this rank's stream is at a graph's. */
static bool is_held(const struct gpu *gpu, int rank, uint32_t at, bool graph)
{
    const struct mailbox_pair *in = &gpu->messages.pair[rank][gpu->rank], *out = &gpu->messages.pair[gpu->rank][rank];
    return (mixing_is_undone(in, 0) && !mixing_has_come(gpu, in, rank, 1, at)) ||
           (mixing_is_undone(out, 1) && !mixing_has_come(gpu, out, rank, 0, at)) ||
           (graph && (is_staged(in, 0) || is_staged(out, 1)));
}

/* These ranks, and all whose streams wait for them. */
static uint32_t all_behind(const struct gpu *gpu, uint32_t ranks)
{
    uint32_t before;
    do {
        before = ranks;
        for (int rank = 0; rank < gpu->nranks; rank++)
            for (int other = 0; other < gpu->nranks && rank != gpu->rank; other++)
                if ((ranks >> other & 1) && stream_waits(gpu, rank, other))
                    ranks |= 1u << rank;
    } while (ranks != before);
    return ranks;
}

/* Is the launch that the stream is at a call's reduction that reads? Only its kernel knows for which ranks it waits. */
static bool kernel_reads(const struct mailbox_rank *theirs)
{
    uint64_t issued = atomic_load_explicit(&theirs->issued, memory_order_acquire);
    uint32_t over = mailbox_over(theirs);
    bool reads = false;
    for (uint64_t back = 1; back <= issued && back <= MAILBOX_STEPS; back++) {
        const struct mailbox_step *step = &theirs->step[(issued - back) % MAILBOX_STEPS];
        if ((int32_t)(over - step->ticket) >= 0)
            break;
        reads = reads || (step->reads && (int32_t)(step->reads - over) > 0 && mailbox_has_begun(theirs, step->reads));
    }
    return reads;
}

/* The launch of a call that has begun and is not over. Otherwise a kernel that waits is a graph's, behind the last one
 * that is over. Where its times have been written over the GPU may be at any. */
static uint32_t launch_at(const struct gpu *gpu, bool *graph)
{
    const struct mailbox_rank *mine = &gpu->ranks[gpu->rank];
    uint32_t over = atomic_load_explicit(gpu->base.tickets.over, memory_order_acquire),
             last = atomic_load(&gpu->base.tickets.ticket);
    *graph = false;
    if ((int32_t)(last - over) > KERNEL_TIMES)
        return last;
    for (uint32_t ticket = over + 1; (int32_t)(last - ticket) >= 0; ticket++)
        if (mailbox_has_begun(mine, ticket))
            return ticket;
    *graph = true;
    return over;
}

/* Ranks that wait for this one: by their streams, [1] by kernels. */
static void find_suspects(const struct gpu *gpu, uint32_t suspects[2])
{
    bool graph;
    uint32_t at = launch_at(gpu, &graph);
    suspects[0] = suspects[1] = 0;
    for (int rank = 0; rank < gpu->nranks; rank++) {
        if (rank == gpu->rank)
            continue;
        suspects[0] |= is_held(gpu, rank, at, graph) ? 1u << rank : 0;
        suspects[1] |= graph && kernel_reads(&gpu->ranks[rank]) ? 1u << rank : 0;
    }
}

/* Are these ranks where they were at the last look? */
static bool stand_still(const struct gpu *gpu, const struct mixing_watch *watch, uint32_t ranks)
{
    bool still = true;
    for (int rank = 0; rank < gpu->nranks; rank++)
        still = still && (!(ranks >> rank & 1) || watch->over[rank] == atomic_load(&gpu->ranks[rank].over));
    return still;
}

/* What this look counts for: have both been waiting since the last look? waits: the ranks that this rank's kernel waits
 * for. */
static unsigned look_at(const struct gpu *gpu, const struct mixing_watch *watch, int rank, uint32_t waits,
                        const uint32_t suspects[2])
{
    uint32_t it = 1u << rank, behind = suspects[0] & it ? all_behind(gpu, it) : 0;
    bool reads = (suspects[1] & it) && (mailbox_answer(&gpu->ranks[rank]) >> gpu->rank & 1);
    bool certain = (waits & it) && ((suspects[0] & it) || reads);
    if (!(watch->suspects & it) || !stand_still(gpu, watch, 1u << gpu->rank | it | behind))
        return 0;
    return certain ? ENOUGH_PART : waits & behind ? 1 : 0;
}

static void mixing_refuse(struct gpu *gpu, int replays, int calls)
{
    char sentence[280];
    snprintf(
        sentence, sizeof sentence,
        "rank %d replays, or has replayed, from a graph what rank %d calls: neither can go on. All ranks must call, "
        "or all must replay, what is longer than TUTTI_COPY_FROM, TUTTI_GATHER_FROM, TUTTI_RING_COPY_FROM or "
        "TUTTI_READ_FROM",
        team_told_rank(gpu->base.team, replays), team_told_rank(gpu->base.team, calls));
    team_fail(gpu->base.team, TUTTI_INVALID_USAGE, gpu->rank, sentence);
}

/* Keeps what the next look compares with. */
static void mixing_ask(struct gpu *gpu, struct mixing_watch *watch, const uint32_t suspects[2])
{
    watch->suspects = suspects[0] | suspects[1];
    for (int rank = 0; rank < gpu->nranks; rank++) {
        watch->over[rank] = atomic_load(&gpu->ranks[rank].over);
        if ((suspects[1] >> rank & 1) || (watch->suspects && rank == gpu->rank))
            mailbox_ask(&gpu->ranks[rank]);
    }
}

uint64_t mixing_look(struct gpu *gpu, struct mixing_watch *watch)
{
    uint32_t suspects[2], waits = mailbox_answer(&gpu->ranks[gpu->rank]);
    if (!atomic_load_explicit(&gpu->base.tickets.captured, memory_order_relaxed) || !param_int(PARAM_GRAPH_MIXING))
        return 0;
    if (!clock_passed(watch->due))
        return 1000 * (uint64_t)clock_left_ms(watch->due) + 1;
    watch->due = clock_deadline_ms(LOOK_MS);
    find_suspects(gpu, suspects);
    for (int rank = 0; rank < gpu->nranks; rank++) {
        unsigned counts = look_at(gpu, watch, rank, waits, suspects);
        watch->looks[rank] = counts ? watch->looks[rank] + counts : 0;
        if (watch->looks[rank] >= ENOUGH) {
            mixing_refuse(gpu, gpu->rank, rank);
            return 0;
        }
    }
    mixing_ask(gpu, watch, suspects);
    return 1000 * LOOK_MS;
}

/* ---- Calls that wait for the other end's ---- */

/* This GPU has ended the message, and all that this rank has called behind it. Slots hold but a few of these, so a peer
 * has taken part in the message. */
static bool is_carried(const struct gpu *gpu, int peer, int end, uint32_t number)
{
    _Static_assert(KERNEL_PLAIN_DEPTH + 1 < MAILBOX_POSTS && KERNEL_LINES_DEPTH + 1 < MAILBOX_POSTS, "but a few");
    const _Atomic uint32_t *first = &gpu->messages.first[end][peer][number % MIXING_MESSAGES];
    uint32_t last = atomic_load(&gpu->base.tickets.ticket);
    return (int32_t)(atomic_load_explicit(first, memory_order_relaxed) - last) <= 0 && ticket_is_over(&gpu->base, last);
}

void mixing_wait(struct gpu *gpu, int peer, int end, uint32_t number)
{
    const struct mailbox_pair *pair = end ? &gpu->messages.pair[peer][gpu->rank] : &gpu->messages.pair[gpu->rank][peer];
    struct departure who;
    if (atomic_load_explicit(gpu->captured, memory_order_relaxed) && is_carried(gpu, peer, end, number) &&
        is_behind(&pair->called[!end], number) && !gone_is(gpu, peer, &who))
        mixing_refuse(gpu, peer, gpu->rank);
}
