/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory that peers write to: made, described to them, and theirs reached. */
#include "executor/gpu/scratch.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/futex.h"
#include "base/param.h"
#include "base/random.h"
#include "device/cuda/device.h"
#include "device/cuda/memory.h"
#include "engine/failure.h"
#include "executor/gpu/failure.h"
#include "executor/gpu/gone.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/here.h"
#include "executor/gpu/layout.h"
#include "executor/gpu/mailbox.h"
#include "executor/gpu/memory.h"
#include "executor/gpu/offer.h"
#include "executor/gpu/patience.h"
#include "executor/stream/ledger.h"

#include <string.h>
#include <unistd.h>

#define LOOK_US   200   /* between looks for a descriptor, or for a link */
#define ARRIVE_MS 30000 /* in which one comes: its sender has sent it */

static tutti_result_t scratch_make(struct gpu *gpu, size_t size, CUdeviceptr *out)
{
    return gpu->scratch.by_descriptor ? cuda_memory_alloc(gpu->base.device, size, out)
                                      : memory_zeroed(gpu->base.cu, size, out);
}

static tutti_result_t scratch_allocate(struct gpu *gpu, enum wire_memory purpose, size_t size, CUdeviceptr *out)
{
    tutti_result_t result = scratch_make(gpu, size, out);
    if (result == TUTTI_SUCCESS)
        ledger_add(&gpu->base, purpose, size);
    return result;
}

tutti_result_t scratch_window(struct gpu *gpu)
{
    size_t words = kernel_window_bytes(gpu->nranks) + MAILBOX_SPARE, begin = layout_mappings_begin(gpu);
    tutti_result_t result = scratch_make(gpu, begin + sizeof(struct kernel_mappings), &gpu->scratch.window);
    if (result != TUTTI_SUCCESS)
        return result;
    ledger_add(&gpu->base, WIRE_MEMORY_WINDOW, words + sizeof(struct kernel_mappings));
    ledger_add(&gpu->base, WIRE_MEMORY_STAGING, begin - words);
    return TUTTI_SUCCESS;
}

static uint64_t scratch_key_of(const struct gpu *gpu, int from, int to, enum scratch_kind kind)
{
    return mix64(mix64(gpu->base.team->id ^ 0x73637261746368) +
                 (uint64_t)((int)kind * KERNEL_RANKS + from) * KERNEL_RANKS + (uint64_t)to);
}

/* While the executor is made nobody else delivers descriptors. A peer that has died takes none: the ranks' next meeting
 * finds that out, and nothing before it does. */
static void deliver_now(struct gpu *gpu)
{
    uint64_t deadline = clock_deadline_ms(ARRIVE_MS);
    while (!attend_is_on(&gpu->helper.attended) && !atomic_load(&gpu->base.team->failed) && !gone_any(gpu) &&
           !clock_passed(deadline) && offer_deliver(gpu))
        usleep(LOOK_US);
}

static tutti_result_t send_descriptors(struct gpu *gpu, int fd, enum scratch_kind kind)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (int peer = 0; peer < gpu->nranks && result == TUTTI_SUCCESS; peer++)
        if (!gpu->here[peer])
            result = offer_pass_fd(gpu, peer, fd, scratch_key_of(gpu, gpu->rank, peer, kind));
    close(fd);
    deliver_now(gpu);
    return result;
}

/* While this rank waits for something of that peer's. */
static tutti_result_t scratch_failure(struct gpu *gpu, int peer)
{
    tutti_result_t failure = gpu_failure(gpu);
    return failure == TUTTI_SUCCESS ? gpu_needs(gpu, 1u << peer) : failure;
}

static tutti_result_t scratch_take_descriptor(struct gpu *gpu, int peer, enum scratch_kind kind, int *fd)
{
    struct engine *engine = gpu->base.team->engine;
    uint64_t deadline = clock_deadline_ms(ARRIVE_MS);
    tutti_result_t failure = TUTTI_SUCCESS;
    for (*fd = SHARED_NOT_YET; *fd < 0 && failure == TUTTI_SUCCESS;
         failure = *fd < 0 ? scratch_failure(gpu, peer) : TUTTI_SUCCESS) {
        lock_take(&engine->lock);
        *fd = engine_take_shared(engine, scratch_key_of(gpu, peer, gpu->rank, kind));
        lock_release(&engine->lock);
        if (*fd == SHARED_NO_ROOM)
            return error_set(TUTTI_SYSTEM_ERROR, "no descriptor is free for the memory of rank %d; raise ulimit -n",
                             team_told_rank(gpu->base.team, peer));
        if (*fd < 0 && clock_passed(deadline))
            return error_set(TUTTI_REMOTE_ERROR, "no descriptor of the device memory of rank %d came in %d s",
                             team_told_rank(gpu->base.team, peer), ARRIVE_MS / 1000);
        if (*fd < 0)
            usleep(LOOK_US);
    }
    return failure;
}

tutti_result_t scratch_describe(struct gpu *gpu, CUdeviceptr memory, enum scratch_kind kind, struct mailbox_buffer *out)
{
    struct cuda_range range;
    int fd = -1;
    memset(out, 0, sizeof *out);
    tutti_result_t result = cuda_range_of((const void *)(uintptr_t)memory, &range);
    if (result != TUTTI_SUCCESS)
        return result;
    if (range.kind != CUDA_DEVICE || range.ordinal != gpu->base.device->ordinal)
        return error_set(TUTTI_INVALID_ARGUMENT, "%p is not memory of device %d", (void *)(uintptr_t)memory,
                         gpu->base.device->ordinal);
    out->address = memory;
    out->base = range.base;
    if (gpu->nranks == 1)
        out->handle = (struct cuda_handle){.id = range.id, .size = range.size};
    else
        result = cuda_export(&range, &out->handle, &fd);
    return fd >= 0 ? send_descriptors(gpu, fd, kind) : result;
}

tutti_result_t scratch_reach(struct gpu *gpu, int peer, const struct mailbox_buffer *theirs, enum scratch_kind kind,
                             CUdeviceptr *out, bool *imported)
{
    int fd = -1;
    *imported = false;
    if (gpu->here[peer]) {
        *out = theirs->address;
        return TUTTI_SUCCESS;
    }
    if (theirs->handle.how == CUDA_BY_DESCRIPTOR) {
        tutti_result_t came = scratch_take_descriptor(gpu, peer, kind, &fd);
        if (came != TUTTI_SUCCESS)
            return came;
    }
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    gpu->base.cu->ThreadExchangeStreamCaptureMode(&mode);
    tutti_result_t result = cuda_import(gpu->base.device, &theirs->handle, fd, out);
    gpu->base.cu->ThreadExchangeStreamCaptureMode(&mode);
    if (fd >= 0)
        close(fd);
    *imported = result == TUTTI_SUCCESS;
    *out += theirs->address - theirs->base;
    return result;
}

static tutti_result_t post_bulk(struct gpu *gpu)
{
    struct mailbox_rank *mine = &gpu->ranks[gpu->rank];
    tutti_result_t result = TUTTI_SUCCESS;
    if (!gpu->scratch.bulk)
        result = scratch_allocate(gpu, WIRE_MEMORY_BULK, kernel_bulk_bytes(gpu->nranks), &gpu->scratch.bulk);
    if (result == TUTTI_SUCCESS)
        result = scratch_describe(gpu, gpu->scratch.bulk, SCRATCH_BULK, &mine->bulk);
    if (result != TUTTI_SUCCESS)
        return result;
    gpu->scratch.bulk_posted = true;
    atomic_store(&mine->has_bulk, 1);
    futex_wake_all(&mine->has_bulk);
    mailbox_ring_others(gpu->ranks, gpu->nranks, gpu->rank);
    return TUTTI_SUCCESS;
}

tutti_result_t scratch_post_bulk(struct gpu *gpu)
{
    tutti_result_t result = TUTTI_SUCCESS;
    if (gpu->scratch.bulk_posted || gpu->nranks == 1)
        return result;
    pthread_mutex_lock(&gpu->scratch.posting);
    if (!gpu->scratch.bulk_posted)
        result = post_bulk(gpu);
    pthread_mutex_unlock(&gpu->scratch.posting);
    return result;
}

tutti_result_t scratch_stand_in(struct gpu *gpu)
{
    return gpu->scratch.stand_in ? TUTTI_SUCCESS
                                 : scratch_allocate(gpu, WIRE_MEMORY_STAND_IN, 2 * (size_t)param_int(PARAM_PEER_MOST),
                                                    &gpu->scratch.stand_in);
}

/* A peer has made its own. */
static bool is_waited_for(const struct gpu *gpu, const void *unused)
{
    (void)unused;
    bool any = false;
    for (int rank = 0; rank < gpu->nranks; rank++)
        any |= rank != gpu->rank && atomic_load(&gpu->ranks[rank].has_bulk);
    return any && !gpu->scratch.bulk_posted && !atomic_load(&gpu->base.team->failed);
}

static void post_for(struct gpu *gpu)
{
    cuda_enter(gpu->base.device);
    tutti_result_t result = scratch_post_bulk(gpu);
    cuda_leave();
    if (result != TUTTI_SUCCESS)
        team_fail(gpu->base.team, result, gpu->rank, error_last()); /* peers wait for what is not there */
}

void scratch_answer(struct gpu *gpu)
{
    if (is_waited_for(gpu, NULL))
        post_for(gpu);
}

/* Makes that rank's bulk, if it lives in this process. Ranks may use two communicators in opposite orders: a rank that
 * waits for a peer's bulk in one call may be waited for by that peer in a call of the other communicator. */
static void post_for_others(void)
{
    struct gpu *other;
    while ((other = here_visit(is_waited_for, NULL))) {
        post_for(other);
        here_go(other);
    }
}

/* A process that lives posts its bulk soon, wherever its program is: scratch_answer(), and here for all its ranks. */
static tutti_result_t wait_for_bulk(struct gpu *gpu, int rank)
{
    _Atomic uint32_t *has = &gpu->ranks[rank].has_bulk;
    tutti_result_t result = TUTTI_SUCCESS;
    patience_begin(gpu, rank);
    while (result == TUTTI_SUCCESS && !atomic_load(has)) {
        result = scratch_failure(gpu, rank);
        post_for_others();
        if (result == TUTTI_SUCCESS)
            futex_wait(has, 0, 1000);
    }
    patience_end(gpu, rank);
    return result;
}

static tutti_result_t take_bulk_of(struct gpu *gpu, int rank)
{
    CUdeviceptr address = gpu->scratch.bulk;
    tutti_result_t result = rank == gpu->rank ? TUTTI_SUCCESS : wait_for_bulk(gpu, rank);
    if (result == TUTTI_SUCCESS && rank != gpu->rank) {
        gpu->scratch.bulks[rank] = gpu->ranks[rank].bulk;
        result = gpu_explain(gpu, rank,
                             scratch_reach(gpu, rank, &gpu->scratch.bulks[rank], SCRATCH_BULK, &address,
                                           &gpu->scratch.bulk_imported[rank]));
    }
    if (result != TUTTI_SUCCESS)
        return result;
    gpu->kernels.bulk[rank] = (unsigned char *)(uintptr_t)address;
    gpu->scratch.bulk_taken |= 1u << rank;
    return TUTTI_SUCCESS;
}

tutti_result_t scratch_take_bulk(struct gpu *gpu, uint32_t ranks)
{
    tutti_result_t result = scratch_post_bulk(gpu);
    for (int rank = 0; rank < gpu->nranks && result == TUTTI_SUCCESS; rank++)
        if ((ranks & ~gpu->scratch.bulk_taken) >> rank & 1)
            result = take_bulk_of(gpu, rank);
    return result;
}
