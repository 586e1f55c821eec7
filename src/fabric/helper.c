/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread that sleeps until there is news: a peer's process was lost, the team has failed, a descriptor is to go to a peer.
 * Kernels and streams that wait for a peer know nothing of its death: they are told here. It never calls the driver, in which it could
 * be held up behind a call that waits for those very kernels.
 */
#include "fabric/internal.h"

#include "base/error.h"
#include "base/futex.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define AGAIN_US 20000 /* between words of a failed team that are put right again */
#define LOOK_US  1000  /* between attempts to send descriptors; more and more */
#define COPIES_MS 5000 /* a copy that nothing holds up takes no longer; its copier is held up or lost, and nobody knows */
#define PATIENCE_MS 500 /* work that is still unfinished this long after a peer was lost was waiting for it */

/*
 * A rank that left in order is not lost: what it had sent is there. Where all is staged through the host the team knows whose
 * messages are still to come, and fails by itself.
 */
static int lost_rank(const struct fabric *fabric)
{
    const struct team *team = fabric->team;
    if (!fabric->board)
        return -1;
    for (int rank = 0; rank < team->nranks; rank++) {
        bool gone = atomic_load_explicit(&team->gone[rank], memory_order_acquire);
        gone = (gone || atomic_load(&fabric->board->rank[rank].gone)) && !atomic_load(&fabric->board->rank[rank].closed);
        if (gone)
            return rank;
    }
    return -1;
}

/* Not every rank has a link to every other: one that has tells those that have not. */
static void spread(struct fabric *fabric, int lost)
{
    if (atomic_exchange(&fabric->board->rank[lost].gone, 1))
        return;
    for (int rank = 0; rank < fabric->nranks; rank++)
        if (rank != fabric->rank)
            board_ring(fabric->board, rank);
}

static tutti_result_t fail_for(struct fabric *fabric, int rank)
{
    char sentence[160];
    snprintf(sentence, sizeof sentence, "lost rank %d: process %u, which owned a GPU of this communicator, is gone", rank,
             fabric->team->process[rank].pid);
    return team_fail(fabric->team, TUTTI_REMOTE_ERROR, rank, sentence);
}

tutti_result_t fabric_hear_failure(struct fabric *fabric)
{
    const struct board_failure *failure = fabric->board ? &fabric->board->failure : NULL;
    if (!failure || !atomic_load_explicit(&failure->state, memory_order_acquire))
        return team_failure(fabric->team);
    for (int i = 0; i < PATIENCE_MS && atomic_load_explicit(&failure->state, memory_order_acquire) != 2; i++)
        usleep(1000); /* it is being written; or its writer was lost */
    if (atomic_load_explicit(&failure->state, memory_order_acquire) != 2)
        return team_failure(fabric->team);
    return team_fail(fabric->team, TUTTI_REMOTE_ERROR, failure->culprit, failure->sentence);
}

void fabric_tell_failure(struct fabric *fabric)
{
    struct board *board = fabric->board;
    uint32_t none = 0;
    if (!board || !atomic_load(&fabric->team->failed) || !atomic_compare_exchange_strong(&board->failure.state, &none, 1))
        return;
    board->failure.culprit = fabric->team->culprit;
    memcpy(board->failure.sentence, fabric->team->sentence, sizeof board->failure.sentence);
    atomic_store_explicit(&board->failure.state, 2, memory_order_release);
    for (int rank = 0; rank < fabric->nranks; rank++)
        if (rank != fabric->rank)
            board_ring(board, rank);
}

tutti_result_t fabric_failure(struct fabric *fabric)
{
    tutti_result_t result = fabric_hear_failure(fabric);
    int lost = result == TUTTI_SUCCESS ? lost_rank(fabric) : -1;
    return lost < 0 ? result : fail_for(fabric, lost);
}

tutti_result_t fabric_explain(struct fabric *fabric, tutti_result_t result)
{
    tutti_result_t failure = TUTTI_SUCCESS;
    char sentence[sizeof fabric->team->sentence];
    if (result == TUTTI_SUCCESS)
        return result;
    snprintf(sentence, sizeof sentence, "%s", error_last());
    for (int i = 0; i < PATIENCE_MS && failure == TUTTI_SUCCESS; i++) {
        failure = fabric_failure(fabric);
        usleep(1000);
    }
    return failure == TUTTI_SUCCESS ? error_set(result, "%s", sentence) : failure;
}

tutti_result_t fabric_needs(struct fabric *fabric, uint32_t ranks)
{
    char sentence[120];
    for (int rank = 0; rank < fabric->nranks; rank++) {
        if (rank == fabric->rank || !(ranks >> rank & 1) || !atomic_load(&fabric->board->rank[rank].closed))
            continue;
        snprintf(sentence, sizeof sentence, "rank %d has left the communicator, and this call needs it", rank);
        return team_fail(fabric->team, TUTTI_REMOTE_ERROR, rank, sentence);
    }
    return TUTTI_SUCCESS;
}

/*
 * Whatever waits for a peer, or is waited for by one, goes on with undefined data: the team's failure says so. `deadline`: of copies that
 * are under way; 0: there is none yet.
 */
static void give_up(struct fabric *fabric, uint64_t *deadline)
{
    if (!*deadline)
        *deadline = clock_deadline_ms(COPIES_MS);
    fabric_tell_failure(fabric);
    atomic_fetch_or(&fabric->board->rank[fabric->rank].abort, KERNEL_GIVE_UP);
    message_give_up(fabric, clock_passed(*deadline));
}

/* A peer that left in order has no work of ours unfinished. */
static void look_at_loss(struct fabric *fabric, int lost)
{
    uint64_t deadline = clock_deadline_ms(PATIENCE_MS);
    while (atomic_load(&fabric->captured) || !order_idle(fabric)) {
        if (clock_passed(deadline) || atomic_load(&fabric->stop)) {
            fail_for(fabric, lost);
            return;
        }
        futex_wait(&fabric->board->rank[fabric->rank].bell, atomic_load(&fabric->board->rank[fabric->rank].bell), 10000);
    }
}

static void *helper(void *argument)
{
    struct fabric *fabric = argument;
    _Atomic uint32_t *bell = &fabric->board->rank[fabric->rank].bell;
    uint64_t pause = LOOK_US, deadline = 0;
    for (;;) {
        uint32_t news = atomic_load(bell);
        if (atomic_load(&fabric->stop)) /* looked at behind the bell, so that no sleep misses it */
            return NULL;
        int lost = fabric_hear_failure(fabric) == TUTTI_SUCCESS ? lost_rank(fabric) : -1;
        if (lost >= 0) {
            spread(fabric, lost);
            look_at_loss(fabric, lost);
        }
        bool failed = atomic_load(&fabric->team->failed);
        if (failed)
            give_up(fabric, &deadline);
        bool left = !failed && offer_deliver(fabric);
        pause = !left ? LOOK_US : pause < 50 * LOOK_US ? pause * 2 : pause;
        futex_wait(bell, news, failed ? AGAIN_US : left ? pause : 60u * 1000 * 1000);
    }
}

void helper_look_again(struct fabric *fabric)
{
    if (fabric->board && (atomic_load(&fabric->team->failed) || lost_rank(fabric) >= 0))
        board_ring(fabric->board, fabric->rank);
}

/* Called by whoever learns of it, under any lock. */
static void ring(void *argument)
{
    struct fabric *fabric = argument;
    board_ring(fabric->board, fabric->rank);
}

tutti_result_t helper_start(struct fabric *fabric)
{
    int error = pthread_create(&fabric->helper, NULL, helper, fabric);
    if (error)
        return error_set(TUTTI_SYSTEM_ERROR, "cannot start a thread: %s", strerror(error));
    fabric->helper_runs = true;
    team_on_news(fabric->team, ring, fabric);
    return TUTTI_SUCCESS;
}

void helper_stop(struct fabric *fabric)
{
    if (!fabric->helper_runs)
        return;
    team_on_news(fabric->team, NULL, NULL);
    atomic_store(&fabric->stop, true);
    board_ring(fabric->board, fabric->rank);
    pthread_join(fabric->helper, NULL);
    fabric->helper_runs = false;
}
