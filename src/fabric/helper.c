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
#define IDLE_US  (60u * 1000 * 1000)
#define COPIES_MS 5000 /* a copy that nothing holds up takes no longer; its copier is held up or lost, and nobody knows */
#define PATIENCE_MS 500 /* for a peer that may have been lost to be known as such */

tutti_result_t fabric_hear_failure(struct fabric *fabric)
{
    if (fabric->board)
        depart_notice(fabric);
    const struct board_failure *failure = fabric->board ? &fabric->board->failure : NULL;
    if (!failure || !atomic_load_explicit(&failure->state, memory_order_acquire))
        return team_failure(fabric->team);
    for (int i = 0; i < PATIENCE_MS && atomic_load_explicit(&failure->state, memory_order_acquire) != 2; i++)
        usleep(1000); /* it is being written; or its writer was lost */
    if (atomic_load_explicit(&failure->state, memory_order_acquire) != 2)
        return team_failure(fabric->team);
    return team_hear(fabric->team, &failure->news);
}

void fabric_tell_failure(struct fabric *fabric)
{
    struct board *board = fabric->board;
    uint32_t none = 0;
    if (!board || atomic_load(&fabric->parted) || !atomic_load(&fabric->team->failed) || !atomic_compare_exchange_strong(&board->failure.state, &none, 1))
        return;
    board->failure.news = team_news(fabric->team);
    atomic_store_explicit(&board->failure.state, 2, memory_order_release);
    for (int rank = 0; rank < fabric->nranks; rank++)
        if (rank != fabric->rank)
            board_ring(board, rank);
}

/* Where all is staged through the host the team knows whose messages are still to come, and fails by itself. */
tutti_result_t fabric_failure(struct fabric *fabric)
{
    struct departure who;
    tutti_result_t result = fabric_hear_failure(fabric);
    if (result != TUTTI_SUCCESS || !fabric->board)
        return result;
    if (atomic_load(&fabric->leaving))
        return error_set(TUTTI_REMOTE_ERROR, "rank %d: the communicator was aborted by rank %d", fabric->rank, fabric->rank);
    if (atomic_load(&fabric->refused_call))
        return depart_refuse(fabric, fabric->refusal);
    for (int rank = 0; rank < fabric->nranks; rank++)
        if (depart_has(fabric, rank, &who) && who.cause == BOARD_LOST)
            return depart_refuse(fabric, who);
    return TUTTI_SUCCESS;
}

tutti_result_t fabric_explain(struct fabric *fabric, tutti_result_t result)
{
    tutti_result_t failure = TUTTI_SUCCESS;
    char sentence[sizeof fabric->team->cause.text];
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
    struct departure who;
    for (int rank = 0; rank < fabric->nranks; rank++)
        if ((ranks >> rank & 1) && depart_has(fabric, rank, &who))
            return depart_refuse(fabric, who);
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

static void *helper(void *argument)
{
    struct fabric *fabric = argument;
    _Atomic uint32_t *bell = &fabric->board->rank[fabric->rank].bell;
    struct depart_watch watch = {0};
    uint64_t pause = LOOK_US, deadline = 0;
    for (;;) {
        uint32_t news = atomic_load(bell);
        if (atomic_load(&fabric->stop)) /* looked at behind the bell, so that no sleep misses it */
            return NULL;
        fabric_hear_failure(fabric);
        uint64_t soon = depart_look(fabric, &watch);
        bool failed = atomic_load(&fabric->team->failed);
        if (failed)
            give_up(fabric, &deadline);
        bool left = !failed && offer_deliver(fabric);
        pause = !left ? LOOK_US : pause < 50 * LOOK_US ? pause * 2 : pause;
        uint64_t nap = failed ? AGAIN_US : left ? pause : IDLE_US;
        futex_wait(bell, news, soon && soon < nap ? soon : nap);
    }
}

void helper_look_again(struct fabric *fabric)
{
    if (fabric->board && (atomic_load(&fabric->team->failed) || depart_any(fabric)))
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
    team_on_news(fabric->team, ring, depart_excuses, fabric);
    depart_at_exit();
    return TUTTI_SUCCESS;
}

void helper_stop(struct fabric *fabric)
{
    if (!fabric->helper_runs)
        return;
    team_on_news(fabric->team, NULL, NULL, NULL);
    atomic_store(&fabric->stop, true);
    board_ring(fabric->board, fabric->rank);
    pthread_join(fabric->helper, NULL);
    fabric->helper_runs = false;
}
