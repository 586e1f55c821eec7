/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A failed communicator's user takes buffers back that peers were let store to. What a peer's GPU has begun nobody can
 * stop from here: its mapping stays, and its copy engines and kernels need no host. But whether it has ended its part
 * the mailbox tells, whose words that GPU writes. So a rank that gives up waits for that, for a bounded time, and then
 * says which memory may still be written.
 */
#include "executor/gpu/settle.h"

#include "base/clock.h"
#include "base/error.h"
#include "executor/gpu/gone.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/mailbox.h"
#include "executor/gpu/signals.h"
#include "executor/gpu/step.h"

#include <unistd.h>

#define SETTLE_MS 5000 /* from when this rank gave up */
#define LOOK_US   500

/* Notes what is over before this rank's kernels and streams are let go: from then on they do not tell. */
void settle_reached(struct gpu *gpu)
{
    if (!atomic_load(&gpu->departs.given_up)) {
        gpu->departs.reached = atomic_load(gpu->base.tickets.over);
        gpu->departs.patient = clock_deadline_ms(SETTLE_MS);
        atomic_store(&gpu->departs.given_up, true);
    }
}

/* ---- What a peer does ---- */

static bool is_gone(const struct gpu *gpu, int rank)
{
    return atomic_load(&gpu->ranks[rank].closed) || gone_is_lost(gpu, rank);
}

/* A kernel that comes later finds the invitation taken back. */
static bool kernel_has_begun(const struct mailbox_rank *theirs)
{
    uint32_t over = mailbox_over(theirs);
    bool begun = false;
    for (uint32_t ahead = 1; ahead < KERNEL_TIMES && !begun; ahead++)
        begun = mailbox_has_begun(theirs, over + ahead);
    return begun;
}

/* A copy to this rank that lies in a stream, and of which nothing has told that it is over. */
static bool copies(const struct gpu *gpu, int rank)
{
    const struct mailbox_pair *pair = &gpu->messages.pair[rank][gpu->rank];
    uint64_t let_go = atomic_load(&pair->let_go[0]);
    uint32_t done = let_go ? (uint32_t)let_go : atomic_load(&pair->pushed);
    return (int32_t)(atomic_load(&pair->pushing) - done) > 0;
}

static bool is_under_way(const struct gpu *gpu, const struct mailbox_step *step, const struct opened *opened, int rank)
{
    const struct mailbox_rank *theirs = &gpu->ranks[rank];
    bool given = opened->given >> rank & 1, invited = opened->invited >> rank & 1;
    if (!(given || invited) || !step_is_under_way(gpu, step, rank))
        return false;
    return given || kernel_has_begun(theirs) || atomic_load(&theirs->issuing);
}

/* The first rank that may still store to memory that this one's user has given to an operation that did not end; -1:
 * there is none. */
static int find_unsettled(const struct gpu *gpu, const struct opened **memory)
{
    const struct mailbox_rank *mine = &gpu->ranks[gpu->rank];
    uint64_t issued = atomic_load_explicit(&mine->issued, memory_order_acquire);
    static const struct opened unknown;
    for (uint64_t at = issued > MAILBOX_STEPS ? issued - MAILBOX_STEPS : 0; at < issued; at++) {
        const struct mailbox_step *step = &mine->step[at % MAILBOX_STEPS];
        const struct opened *opened = &gpu->departs.opened[at % MAILBOX_STEPS];
        if ((int32_t)(gpu->departs.reached - step->ticket) >= 0)
            continue;
        *memory = opened;
        for (int rank = 0; rank < gpu->nranks; rank++)
            if (rank != gpu->rank && !is_gone(gpu, rank) &&
                (is_under_way(gpu, step, opened, rank) || ((opened->given >> rank & 1) && copies(gpu, rank))))
                return rank;
    }
    *memory = &unknown;
    for (int rank = 0; rank < gpu->nranks; rank++)
        if (rank != gpu->rank && !is_gone(gpu, rank) && copies(gpu, rank))
            return rank;
    return -1;
}

static tutti_result_t say_unsettled(const struct gpu *gpu, int rank, const struct opened *memory)
{
    return error_set(TUTTI_REMOTE_ERROR,
                     "rank %d: the GPU of rank %d (process %u) has begun an operation of this communicator and has not "
                     "ended it %d s after it was given up here; it may still store to memory of this rank, %llu bytes "
                     "from %#llx on: neither use nor free that before that process has ended",
                     team_told_rank(gpu->base.team, gpu->rank), team_told_rank(gpu->base.team, rank),
                     team_row(gpu->base.team, rank)->pid, SETTLE_MS / 1000, (unsigned long long)memory->bytes,
                     (unsigned long long)memory->begin);
}

/* A peer says that it puts before it looks whether it may. So it sees that it may not, or is seen here. */
tutti_result_t settle_windows(struct gpu *gpu)
{
    uint64_t patient = clock_deadline_ms(SETTLE_MS);
    int rank = -1;
    if (!atomic_load(&gpu->windows.any))
        return TUTTI_SUCCESS;
    atomic_store(&gpu->ranks[gpu->rank].shut, 1);
    while ((rank = signals_find_putting(gpu)) >= 0 && !clock_passed(patient))
        usleep(LOOK_US);
    return rank < 0 ? TUTTI_SUCCESS : say_unsettled(gpu, rank, &gpu->windows.example);
}

/* What a peer puts may be behind a signal that this rank will not send: the peer must hear that it is gone. */
static void say_gone(struct gpu *gpu)
{
    if (!atomic_load(&gpu->windows.any))
        return;
    atomic_store(&gpu->ranks[gpu->rank].closed, 1);
    mailbox_ring_others(gpu->ranks, gpu->nranks, gpu->rank);
}

tutti_result_t gpu_settle(struct gpu *gpu, bool ends)
{
    const struct opened *memory;
    int rank = -1;
    if (!ends && !atomic_load(&gpu->base.team->failed))
        return TUTTI_SUCCESS;
    if (ends)
        say_gone(gpu);
    tutti_result_t windows = settle_windows(gpu);
    if (!atomic_load(&gpu->departs.given_up))
        return windows;
    while ((rank = find_unsettled(gpu, &memory)) >= 0 && !clock_passed(gpu->departs.patient))
        usleep(LOOK_US);
    return rank < 0 ? windows : say_unsettled(gpu, rank, memory);
}
