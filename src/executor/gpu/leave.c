/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a closed executor leaves. A rank may be done with its executor while a peer's last kernel still tells it
 * something. So memory is freed only when every peer has closed, and at a quiet time.
 */
#include "executor/gpu/leave.h"

#include "device/cuda/memory.h"
#include "executor/gpu/gone.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/imported.h"
#include "executor/gpu/mailbox.h"
#include "executor/stream/later.h"

#include <stdlib.h>

/* Peers' memory, to be unmapped when nothing is under way. Then the executor's own memory, to be freed when all peers
 * have unmapped it. */
struct leave_left {
    struct later later;
    struct list imports;
    struct mailbox *mailbox;
    int rank, nranks;
    CUdeviceptr window, bulk, stand_in, sealed;
    bool registered, in_host;
};

static const struct leave_left *left_of(const struct later *later)
{
    return (const struct leave_left *)later;
}

static bool all_unmapped(const struct leave_left *left)
{
    for (int rank = 0; rank < left->nranks; rank++)
        if (rank != left->rank && !atomic_load(&left->mailbox->rank[rank].unmapped))
            return false;
    return true;
}

/* A peer that took this rank for lost has said so for it. */
static bool is_unmapped(const struct leave_left *left)
{
    return list_empty(&left->imports) && atomic_load(&left->mailbox->rank[left->rank].unmapped);
}

static bool leave_may(const struct later *later)
{
    const struct leave_left *left = left_of(later);
    return !is_unmapped(left) || all_unmapped(left);
}

static void unmap(struct leave_left *left)
{
    for (struct list *node; (node = list_pop(&left->imports));)
        imported_unmap(left->later.device, left->rank, list_entry(node, struct import, node));
    atomic_store(&left->mailbox->rank[left->rank].unmapped, 1);
}

/* Each of these calls waits for all work of the context, the user's too. */
static void leave_free(struct leave_left *left)
{
    const CUdeviceptr all[] = {left->bulk, left->stand_in, left->window, left->sealed};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_memory_free(left->later.device, all[i]);
    if (left->in_host)
        left->later.cu->MemHostUnregister((char *)left->mailbox + mailbox_window(left->nranks, 0));
    if (left->registered)
        left->later.cu->MemHostUnregister(left->mailbox);
    mailbox_unmap(left->mailbox, left->nranks);
}

static bool leave_work(struct later *later)
{
    struct leave_left *left = (struct leave_left *)later;
    if (!is_unmapped(left))
        unmap(left);
    bool done = all_unmapped(left);
    if (done)
        leave_free(left);
    return done;
}

static void give_back(struct gpu *gpu, int peer, const struct mailbox_buffer *theirs, bool imported,
                      const unsigned char *address)
{
    if (imported)
        imported_put_off(gpu, peer, &theirs->handle, device_address(address) - (theirs->address - theirs->base));
}

void leave_give_back_windows(struct gpu *gpu)
{
    for (int rank = 0; rank < gpu->nranks; rank++) {
        give_back(gpu, rank, &gpu->scratch.windows[rank], gpu->scratch.window_imported[rank],
                  gpu->kernels.window[rank]);
        gpu->scratch.window_imported[rank] = false;
    }
}

/* Peers may write to this rank's memory until they close. A peer that is gone does not write any more. A peer that
 * lives may, until it closes, also when all have failed. */
static void leave_say_closed(struct gpu *gpu)
{
    uint32_t open = 0;
    atomic_store(&gpu->ranks[gpu->rank].closed, 1);
    mailbox_ring_others(gpu->ranks, gpu->nranks, gpu->rank);
    for (int rank = 0; rank < gpu->nranks; rank++, open = 0)
        if (gone_is_lost(gpu, rank)) {
            atomic_compare_exchange_strong(&gpu->ranks[rank].closed, &open, MAILBOX_REAPED);
            atomic_store(&gpu->ranks[rank].unmapped, 1);
        }
}

/* Without memory for the record the process keeps all to its end. */
static void leave_rest(struct gpu *gpu)
{
    struct leave_left *left = malloc(sizeof *left);
    if (!left)
        return;
    *left = (struct leave_left){.later = {.may = leave_may, .work = leave_work},
                                .mailbox = gpu->mailbox,
                                .rank = gpu->rank,
                                .nranks = gpu->nranks,
                                .window = gpu->scratch.window,
                                .bulk = gpu->scratch.bulk,
                                .stand_in = gpu->scratch.stand_in,
                                .sealed = gpu->scratch.sealed,
                                .registered = gpu->mailbox_registered,
                                .in_host = gpu->scratch.in_host};
    list_init(&left->imports);
    imported_take_all(gpu, &left->imports);
    if (!later_leave(&left->later, &gpu->base))
        free(left);
}

void leave_close(struct gpu *gpu)
{
    if (!gpu->mailbox)
        return;
    leave_give_back_windows(gpu);
    for (int rank = 0; rank < gpu->nranks; rank++)
        give_back(gpu, rank, &gpu->scratch.bulks[rank], gpu->scratch.bulk_imported[rank], gpu->kernels.bulk[rank]);
    leave_say_closed(gpu);
    leave_rest(gpu);
}

static void leave_say_unmapped(struct later *later)
{
    const struct leave_left *left = left_of(later);
    if (later->work == leave_work)
        atomic_store(&left->mailbox->rank[left->rank].unmapped, 1);
}

void leave_exit(void)
{
    later_each(leave_say_unmapped);
}
