/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kernels know of peers' buffers that are mapped here: a table in device memory, by peer and offer. The owner's
 * kernels invite this rank's to store to them (kernels/invite.cuh). A word is written by a stream that does
 * nothing else, when the buffer is mapped, and cleared before it is closed. Nothing waits for either: a kernel that
 * finds no word sends through slots.
 */
#include "executor/gpu/tell.h"

#include "base/error.h"
#include "base/log.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/layout.h"
#include "executor/stream/beside.h"

/* Under the lock. A capture of this thread is not spoilt. */
static tutti_result_t write_word(struct gpu *gpu, int peer, int offer, uint64_t word)
{
    struct kernel_mappings *mappings = layout_mappings(gpu);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    gpu->base.cu->ThreadExchangeStreamCaptureMode(&mode);
    tutti_result_t result = beside_make(&gpu->base, &gpu->offers.teller);
    if (result == TUTTI_SUCCESS)
        result = cuda_check(
            gpu->base.cu->StreamWriteValue64(gpu->offers.teller, device_address(&mappings->at[peer][offer]), word, 0),
            "telling kernels of a mapping");
    if (result == TUTTI_SUCCESS)
        result = cuda_check(gpu->base.cu->StreamSynchronize(gpu->offers.teller), "telling kernels of a mapping");
    gpu->base.cu->ThreadExchangeStreamCaptureMode(&mode);
    return result;
}

void tell_mapping(struct gpu *gpu, int peer, int offer)
{
    const struct mailbox_offer *place = &gpu->offers.place[peer][gpu->rank][offer];
    uint32_t wanted = atomic_load_explicit(&place->invited, memory_order_acquire);
    _Atomic uint32_t *told = &gpu->offers.told[peer][offer];
    if (!wanted || *told == wanted || !gpu->base.cu->StreamWriteValue64 || !layout_mappings(gpu))
        return;
    pthread_mutex_lock(&gpu->offers.telling);
    struct import *import = atomic_load_explicit(&gpu->offers.import[peer][offer], memory_order_acquire);
    if (import && import->number == wanted) {
        import->told = true;
        *told = wanted; /* whatever comes of it: it is not tried again */
        tutti_result_t result = write_word(gpu, peer, offer, kernel_mapping(import->address, wanted));
        log_info("%s rank %d's kernels of %llu bytes of rank %d%s%s", result == TUTTI_SUCCESS ? "told" : "cannot tell",
                 gpu->rank, (unsigned long long)import->handle.size, peer, result == TUTTI_SUCCESS ? "" : ": ",
                 result == TUTTI_SUCCESS ? "" : error_last());
    }
    pthread_mutex_unlock(&gpu->offers.telling);
}

void tell_no_more(struct gpu *gpu, int peer, int offer, uint32_t number)
{
    pthread_mutex_lock(&gpu->offers.telling);
    _Atomic uint32_t *told = &gpu->offers.told[peer][offer];
    if (*told && (!number || *told == number)) {
        write_word(gpu, peer, offer, 0);
        *told = 0;
        log_info("rank %d's kernels know offer %d of rank %d no more", gpu->rank, offer, peer);
    }
    pthread_mutex_unlock(&gpu->offers.telling);
}

/* Closing an IPC handle waits by itself. What graphs replay is seen by the event that stands for the last of them. */
bool tell_is_over(const struct gpu *gpu, const struct import *import)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (import->handle.how != CUDA_BY_DESCRIPTOR || !import->told)
        return true;
    if (!gpu->base.graphs.serial)
        return !atomic_load_explicit(&gpu->base.tickets.captured, memory_order_relaxed);
    gpu->base.cu->ThreadExchangeStreamCaptureMode(&mode);
    CUresult got = gpu->base.cu->EventQuery(gpu->base.graphs.serial);
    gpu->base.cu->ThreadExchangeStreamCaptureMode(&mode);
    return got == CUDA_SUCCESS;
}

/* ---- The end ---- */

static uint64_t sum(uint32_t counts[][KERNEL_RANKS])
{
    uint64_t all = 0;
    for (int i = 0; i < KERNEL_EXCHANGE_MOST * KERNEL_RANKS; i++)
        all += counts[i / KERNEL_RANKS][i % KERNEL_RANKS];
    return all;
}

static void log_counts(const struct gpu *gpu, struct kernel_mappings *counts)
{
    unsigned long long straight = sum(counts->straight), slots = sum(counts->slots);
    if (straight + slots)
        log_info("rank %d stored %llu stripes of messages and results where peers want them, and %llu in slots",
                 gpu->rank, straight, slots);
    if (counts->read[0] + counts->read[1])
        log_info("rank %d read %u large reductions where they were, and had %u pushed", gpu->rank, counts->read[1],
                 counts->read[0]);
}

/* Of exchanges whose lengths only kernels know they alone can count. */
static void log_sent(struct gpu *gpu)
{
    const char *at = (const char *)(uintptr_t)gpu->scratch.window + kernel_dynamic_begin(gpu->nranks);
    struct kernel_dynamic_words words = {0};
    unsigned long long sent = 0;
    if (!gpu->wrongs || gpu->scratch.in_host || !gpu->scratch.window ||
        gpu->base.cu->MemcpyAsync(device_address(&words), device_address(at), sizeof words, gpu->base.graphs.sounded) !=
            CUDA_SUCCESS ||
        gpu->base.cu->StreamSynchronize(gpu->base.graphs.sounded) != CUDA_SUCCESS)
        return;
    for (int peer = 0; peer < gpu->nranks; peer++)
        sent += words.sent[peer];
    log_info("rank %d sent %llu bytes whose lengths its GPU knew", gpu->rank, sent);
}

void tell_close(struct gpu *gpu)
{
    static const size_t begin = offsetof(struct kernel_mappings, straight);
    const char *mappings = (const char *)layout_mappings(gpu);
    struct kernel_mappings counts;
    if (mappings && log_level() >= LOG_INFO &&
        gpu->base.cu->MemcpyAsync(device_address(&counts) + begin, device_address(mappings) + begin,
                                  sizeof counts - begin, gpu->base.graphs.sounded) == CUDA_SUCCESS &&
        gpu->base.cu->StreamSynchronize(gpu->base.graphs.sounded) == CUDA_SUCCESS)
        log_counts(gpu, &counts);
    if (log_level() >= LOG_INFO)
        log_sent(gpu);
    beside_end(&gpu->base, gpu->offers.teller);
    gpu->offers.teller = NULL;
}
