/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A word that a stream writes has a value, which a replay would write again. So kernels count where there are graphs:
 * device/cuda/kernels/puts.cu. Calls outside of graphs do not know then how far replays have counted, and go by kernels
 * from the first capture on. What was called before lies in front of that in the order of the communicator.
 */
#include "executor/gpu/puts_kernel.h"

#include "base/error.h"
#include "device/cuda/device.h"
#include "device/cuda/launch.h"
#include "engine/puts.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/launch.h"
#include "executor/gpu/mailbox.h"
#include "executor/gpu/side.h"
#include "executor/gpu/windows.h"
#include "executor/stream/window.h"

/* ---- Is it possible? ---- */

static tutti_result_t check_peer(struct gpu *gpu, const struct window_item *item)
{
    if (!gpu_window_of(item->window)->reach.context[item->peer])
        return TUTTI_SUCCESS;
    return error_set(TUTTI_INVALID_USAGE,
                     "kernels of GPU %d do not reach the window's memory of rank %d, and a CUDA graph needs that: take "
                     "memory of cudaMalloc(), or a process for each rank",
                     gpu->base.device->ordinal, team_told_rank(gpu->base.team, item->peer));
}

tutti_result_t puts_kernel_check(struct gpu *gpu, const struct window_item *items, int count)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (int i = 0; i < count && result == TUTTI_SUCCESS; i++)
        if (puts_moves(&items[i])) {
            result = window_check_local(gpu->base.device->ordinal, items[i].local);
            if (result == TUTTI_SUCCESS)
                result = check_peer(gpu, &items[i]);
        }
    return result;
}

void puts_kernel_begin(struct gpu *gpu)
{
    if (atomic_exchange(&gpu->windows.by_kernel, true))
        return;
    for (int peer = 0; peer < gpu->nranks; peer++)
        for (int signal = 0; signal < TUTTI_SIGNALS; signal++)
            atomic_store(&gpu->messages.pair[peer][gpu->rank].taken[signal],
                         atomic_load(&gpu->windows.taken[peer][signal]));
}

/* ---- Launches ---- */

static uint32_t *device_word(const struct gpu *gpu, const _Atomic uint32_t *word)
{
    return (uint32_t *)(uintptr_t)side_address(gpu, (const void *)word);
}

static void describe_peers(const struct gpu *gpu, struct kernel_puts *what)
{
    for (int peer = 0; peer < gpu->nranks; peer++) {
        const struct mailbox_pair *pair = &gpu->messages.pair[gpu->rank][peer];
        what->pair[peer] = (struct kernel_puts_pair){device_word(gpu, &pair->putting), device_word(gpu, &pair->put),
                                                     device_word(gpu, &gpu->ranks[peer].shut)};
    }
}

static void describe_copy(const struct gpu *gpu, const struct window_item *item, struct kernel_puts *what)
{
    void *theirs = (void *)(uintptr_t)(gpu_window_of(item->window)->reach.at[item->peer] + item->offset);
    bool puts = item->call == WINDOW_PUT;
    what->item[what->items++] = (struct kernel_puts_item){.bytes = item->length,
                                                          .from = puts ? item->local : theirs,
                                                          .to = puts ? theirs : item->local,
                                                          .peer = item->peer};
    what->peers |= item->peer == gpu->rank ? 0 : 1u << item->peer;
}

static void describe_raise(struct gpu *gpu, const struct window_item *item, struct kernel_puts *what)
{
    struct mailbox_pair *pair = &gpu->messages.pair[gpu->rank][item->peer];
    if (!gpu->base.tickets.capturing) {
        atomic_fetch_add(&pair->signalled[item->signal], 1);
        gpu->step.signalled[item->peer]++;
    }
    what->item[what->items++] =
        (struct kernel_puts_item){.word = device_word(gpu, &pair->raised[item->signal]), .peer = item->peer};
}

static void describe_wait(const struct gpu *gpu, const struct window_item *item, struct kernel_puts *what)
{
    struct mailbox_pair *pair = &gpu->messages.pair[item->peer][gpu->rank];
    what->item[what->items++] = (struct kernel_puts_item){.word = device_word(gpu, &pair->raised[item->signal]),
                                                          .taken = device_word(gpu, &pair->taken[item->signal]),
                                                          .count = (uint32_t)item->length,
                                                          .peer = item->peer};
}

static tutti_result_t launch_part(struct gpu *gpu, struct kernel_puts *what, unsigned blocks, CUstream stream)
{
    const struct kernel_launch how = {.kernel = KERNEL_PUTS, .blocks = blocks, .threads = KERNEL_PUTS_THREADS};
    return launch_kernel(gpu, &how, TUTTI_UINT8, &what->team, stream);
}

/* All of a list, which is empty then. */
static tutti_result_t launch_puts(struct gpu *gpu, struct kernel_puts *what, CUstream stream)
{
    struct kernel_launch how;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < what->items; i++)
        bytes += what->item[i].bytes;
    kernel_choose_puts(bytes, gpu->shapes.room, &how);
    const bool apart = how.blocks > 1;
    tutti_result_t result = TUTTI_SUCCESS;
    what->announces = what->moves = bytes > 0;
    what->tells = true;
    if (apart) {
        what->moves = what->tells = false;
        result = launch_part(gpu, what, 1, stream);
        what->announces = false;
        what->moves = true;
        if (result == TUTTI_SUCCESS)
            result = launch_part(gpu, what, how.blocks, stream);
        what->moves = false;
        what->tells = true;
    }
    if (result == TUTTI_SUCCESS)
        result = launch_part(gpu, what, 1, stream);
    what->items = what->peers = 0;
    return result;
}

static tutti_result_t puts_kernel_add(struct gpu *gpu, const struct window_item *item, struct kernel_puts *what,
                                      CUstream stream)
{
    bool signals = (item->call == WINDOW_PUT || item->call == WINDOW_SIGNAL) && item->signal != WIRE_NO_SIGNAL;
    tutti_result_t result = what->items + 2 > KERNEL_PUTS_MOST ? launch_puts(gpu, what, stream) : TUTTI_SUCCESS;
    if (puts_moves(item))
        describe_copy(gpu, item, what);
    if (signals)
        describe_raise(gpu, item, what);
    if (item->call == WINDOW_WAIT && item->length)
        describe_wait(gpu, item, what);
    return result;
}

tutti_result_t puts_kernel_issue(struct gpu *gpu, const struct window_item *items, int count, CUstream stream)
{
    struct kernel_puts what = {.items = 0};
    tutti_result_t result = TUTTI_SUCCESS;
    describe_peers(gpu, &what);
    for (int waits = 0; waits < 2; waits++)
        for (int i = 0; i < count && result == TUTTI_SUCCESS; i++)
            if ((items[i].call == WINDOW_WAIT) == (waits == 1))
                result = puts_kernel_add(gpu, &items[i], &what, stream);
    return result == TUTTI_SUCCESS && what.items ? launch_puts(gpu, &what, stream) : result;
}
