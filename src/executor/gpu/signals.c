/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals of windows. The words lie in the mailbox: there the helper lets go what waits, and needs no call of the
 * driver. A call may be held up behind the very stream that waits. A word counts the signals of one number from one
 * rank to one other. The operations of a communicator follow one another, so a sender's host knows the word's next
 * value, and a receiver's host the value that ends its wait.
 */
#include "executor/gpu/signals.h"

#include "executor/gpu/gone.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/side.h"

#include <string.h>

_Static_assert(TUTTI_SIGNALS <= 8, "bits of signals");

static struct mailbox_awaited *awaited_next(const struct gpu *gpu)
{
    uint64_t issued = atomic_load_explicit(&gpu->ranks[gpu->rank].issued, memory_order_relaxed);
    return &gpu->mailbox->awaited[gpu->rank][issued % MAILBOX_STEPS];
}

void signals_begin(struct gpu *gpu)
{
    memset(awaited_next(gpu)->numbers, 0, sizeof awaited_next(gpu)->numbers);
}

uint32_t signals_take(struct gpu *gpu, int peer, uint32_t signal, uint32_t count)
{
    struct mailbox_awaited *awaited = awaited_next(gpu);
    uint32_t value = atomic_fetch_add(&gpu->windows.taken[peer][signal], count) + count;
    awaited->numbers[peer] |= (uint8_t)(1u << signal);
    awaited->value[peer][signal] = value;
    return value;
}

bool signals_would_come(const struct gpu *gpu, int peer, uint32_t signal, uint32_t count)
{
    const struct mailbox_pair *pair = &gpu->messages.pair[peer][gpu->rank];
    uint32_t value = atomic_load(&gpu->windows.taken[peer][signal]) + count;
    return (int32_t)(atomic_load(&pair->signalled[signal]) - value) >= 0 ||
           (int32_t)(atomic_load(&pair->raised[signal]) - value) >= 0; /* by a graph, of which its host knows nothing */
}

/* The first that has not come to what a rank's step waits for; -1: all have. */
static int find_missing_signal(const struct gpu *gpu, int waiter, const struct mailbox_step *step, int peer,
                               const _Atomic uint32_t *words)
{
    const struct mailbox_awaited *awaited = &gpu->mailbox->awaited[waiter][step - gpu->ranks[waiter].step];
    for (int signal = 0; signal < TUTTI_SIGNALS; signal++)
        if ((awaited->numbers[peer] >> signal & 1) &&
            (int32_t)(atomic_load(&words[signal]) - awaited->value[peer][signal]) < 0)
            return signal;
    return -1;
}

int signals_missing(const struct gpu *gpu, int waiter, const struct mailbox_step *step, int rank)
{
    return find_missing_signal(gpu, waiter, step, rank, gpu->messages.pair[rank][waiter].raised);
}

uint32_t signals_raised(const struct gpu *gpu, int rank, int waiter)
{
    uint32_t all = 0;
    for (int signal = 0; signal < TUTTI_SIGNALS; signal++)
        all += atomic_load(&gpu->messages.pair[rank][waiter].raised[signal]);
    return all;
}

bool signals_are_raised(const struct gpu *gpu, const struct mailbox_step *step, int peer)
{
    return signals_missing(gpu, gpu->rank, step, peer) < 0;
}

bool signals_are_called(const struct gpu *gpu, const struct mailbox_step *step, int peer)
{
    return find_missing_signal(gpu, gpu->rank, step, peer, gpu->messages.pair[peer][gpu->rank].signalled) < 0;
}

void signals_let_go(struct gpu *gpu, int peer)
{
    struct mailbox_pair *pair = &gpu->messages.pair[peer][gpu->rank];
    for (int signal = 0; signal < TUTTI_SIGNALS; signal++)
        side_release(&pair->raised[signal], atomic_load(&gpu->windows.taken[peer][signal]));
}

int signals_find_putting(const struct gpu *gpu)
{
    for (int rank = 0; rank < gpu->nranks; rank++) {
        const struct mailbox_pair *pair = &gpu->messages.pair[rank][gpu->rank];
        bool under_way = (int32_t)(atomic_load(&pair->putting) - atomic_load(&pair->put)) > 0;
        bool can = rank != gpu->rank && !atomic_load(&gpu->ranks[rank].closed) && !gone_is_lost(gpu, rank);
        if (under_way && can)
            return rank;
    }
    return -1;
}
