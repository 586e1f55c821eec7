/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals of windows. The words lie in the mailbox: there the helper lets go what waits, and needs no call of the
 * driver. A call may be held up behind the very stream that waits. A word counts the signals of one number from one
 * rank to one other. The operations of a communicator follow one another, so a sender's host knows the word's next
 * value, and a receiver's host the value that ends its wait.
 */
#include "executor/gpu/signals.h"

#include "base/error.h"
#include "executor/gpu/gone.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/side.h"

#include <stdlib.h>
#include <string.h>

/* What a step waits for. */
struct awaited {
    uint8_t numbers[KERNEL_RANKS]; /* bits of signals, by rank */
    uint32_t value[KERNEL_RANKS][TUTTI_SIGNALS];
};

_Static_assert(TUTTI_SIGNALS <= 8, "bits of signals");

static struct awaited *awaited_next(const struct gpu *gpu)
{
    uint64_t issued = atomic_load_explicit(&gpu->ranks[gpu->rank].issued, memory_order_relaxed);
    return &gpu->windows.awaited[issued % MAILBOX_STEPS];
}

tutti_result_t signals_begin(struct gpu *gpu)
{
    if (!gpu->windows.awaited && !(gpu->windows.awaited = calloc(MAILBOX_STEPS, sizeof *gpu->windows.awaited)))
        return error_set(TUTTI_SYSTEM_ERROR, "no memory to wait for signals");
    memset(awaited_next(gpu)->numbers, 0, sizeof awaited_next(gpu)->numbers);
    return TUTTI_SUCCESS;
}

uint32_t signals_take(struct gpu *gpu, int peer, uint32_t signal, uint32_t count)
{
    struct awaited *awaited = awaited_next(gpu);
    uint32_t value = atomic_fetch_add(&gpu->windows.taken[peer][signal], count) + count;
    awaited->numbers[peer] |= (uint8_t)(1u << signal);
    awaited->value[peer][signal] = value;
    return value;
}

bool signals_would_come(const struct gpu *gpu, int peer, uint32_t signal, uint32_t count)
{
    const struct mailbox_pair *pair = &gpu->messages.pair[peer][gpu->rank];
    uint32_t value = atomic_load(&gpu->windows.taken[peer][signal]) + count;
    return (int32_t)(atomic_load(&pair->signalled[signal]) - value) >= 0;
}

static bool have_come_to(const struct gpu *gpu, const struct mailbox_step *step, int peer,
                         const _Atomic uint32_t *words)
{
    const struct awaited *awaited = &gpu->windows.awaited[step - gpu->ranks[gpu->rank].step];
    bool all = true;
    for (int signal = 0; signal < TUTTI_SIGNALS; signal++)
        if (awaited->numbers[peer] >> signal & 1)
            all = all && (int32_t)(atomic_load(&words[signal]) - awaited->value[peer][signal]) >= 0;
    return all;
}

bool signals_are_raised(const struct gpu *gpu, const struct mailbox_step *step, int peer)
{
    return have_come_to(gpu, step, peer, gpu->messages.pair[peer][gpu->rank].raised);
}

bool signals_are_called(const struct gpu *gpu, const struct mailbox_step *step, int peer)
{
    return have_come_to(gpu, step, peer, gpu->messages.pair[peer][gpu->rank].signalled);
}

void signals_let_go(struct gpu *gpu, int peer)
{
    struct mailbox_pair *pair = &gpu->messages.pair[peer][gpu->rank];
    for (int signal = 0; signal < TUTTI_SIGNALS; signal++)
        side_release(&pair->raised[signal], atomic_load(&gpu->windows.taken[peer][signal]));
}

void signals_close(struct gpu *gpu)
{
    free(gpu->windows.awaited);
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
