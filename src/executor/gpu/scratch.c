/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that peers write to. A rank may be done with its executor while a peer's last kernel still tells it
 * something, so memory is freed only when every peer has closed, and at a quiet time; until then it waits in a list of
 * the process.
 */
#include "executor/gpu/patience.h"

#include "base/error.h"
#include "base/futex.h"
#include "base/param.h"
#include "base/random.h"
#include "engine/failure.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_US   200   /* between looks for a descriptor, or for a link */
#define ARRIVE_MS 30000 /* in which one comes: its sender has sent it */

/*
 * What a closed executor leaves: peers' memory, to be unmapped when nothing is under way, and then its own, to be freed
 * when all peers have unmapped that. mailbox NULL: there was none.
 */
struct deferred {
    struct list node;
    struct list imports;
    struct mailbox *mailbox;
    void *pinned[STAGED_PINNED];
    int rank, nranks;
    struct cuda_device *device;
    const struct cuda_driver *cu;
    CUdeviceptr window, bulk, stand_in, sealed;
    bool registered, in_host;
};

static pthread_mutex_t deferred_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list all_deferred = {&all_deferred, &all_deferred};
static _Atomic int deferred_left; /* in the list */

static tutti_result_t scratch_make(struct gpu *gpu, size_t size, CUdeviceptr *out)
{
    return gpu->scratch.by_descriptor ? cuda_memory_alloc(gpu->device, size, out) : memory_zeroed(gpu->cu, size, out);
}

static tutti_result_t scratch_allocate(struct gpu *gpu, enum wire_memory purpose, size_t size, CUdeviceptr *out)
{
    tutti_result_t result = scratch_make(gpu, size, out);
    if (result == TUTTI_SUCCESS)
        record_memory(gpu, purpose, size);
    return result;
}

/* Behind a window lie the pieces of staged messages, and behind these what only its owner touches. */
static size_t mappings_begin(const struct gpu *gpu)
{
    size_t pieces = gpu->messages.stage ? (size_t)(gpu->nranks - 1) * MAILBOX_DEPTH : 0;
    return (kernel_window_bytes(gpu->nranks) + MAILBOX_SPARE + pieces * gpu->messages.stage + 255) & ~(size_t)255;
}

tutti_result_t scratch_window(struct gpu *gpu)
{
    size_t words = kernel_window_bytes(gpu->nranks) + MAILBOX_SPARE, begin = mappings_begin(gpu);
    tutti_result_t result = scratch_make(gpu, begin + sizeof(struct kernel_mappings), &gpu->scratch.window);
    if (result != TUTTI_SUCCESS)
        return result;
    record_memory(gpu, WIRE_MEMORY_WINDOW, words + sizeof(struct kernel_mappings));
    record_memory(gpu, WIRE_MEMORY_STAGING, begin - words);
    return TUTTI_SUCCESS;
}

struct kernel_mappings *scratch_mappings(const struct gpu *gpu)
{
    if (!gpu->scratch.window || gpu->plan.facts.in_host)
        return NULL;
    return (struct kernel_mappings *)(uintptr_t)(gpu->scratch.window + mappings_begin(gpu));
}

CUdeviceptr scratch_stage(const struct gpu *gpu, int rank, int peer, uint32_t piece)
{
    size_t place = (size_t)(peer < rank ? peer : peer - 1) * MAILBOX_DEPTH + piece % MAILBOX_DEPTH;
    return device_address(gpu->kernels.window[rank]) + kernel_window_bytes(gpu->nranks) + MAILBOX_SPARE +
           place * gpu->messages.stage;
}

static uint64_t scratch_key_of(const struct gpu *gpu, int from, int to, enum scratch_kind kind)
{
    return mix64(mix64(gpu->team->id ^ 0x73637261746368) + (uint64_t)((int)kind * KERNEL_RANKS + from) * KERNEL_RANKS +
                 (uint64_t)to);
}

/* While the executor is made nobody else delivers them. A peer that has died takes none: the ranks' next meeting finds
 * that out, and nothing before it does. */
static void deliver_now(struct gpu *gpu)
{
    uint64_t deadline = clock_deadline_ms(ARRIVE_MS);
    while (!gpu->helper.runs && !atomic_load(&gpu->team->failed) && !depart_any(gpu) && !clock_passed(deadline) &&
           offer_deliver(gpu))
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

static tutti_result_t scratch_take_descriptor(struct gpu *gpu, int peer, enum scratch_kind kind, int *fd)
{
    struct engine *engine = gpu->team->engine;
    uint64_t deadline = clock_deadline_ms(ARRIVE_MS);
    tutti_result_t failure = TUTTI_SUCCESS;
    for (*fd = SHARED_NOT_YET; *fd < 0 && failure == TUTTI_SUCCESS;
         failure = *fd < 0 ? gpu_failure(gpu) : TUTTI_SUCCESS) {
        lock_take(&engine->lock);
        *fd = engine_take_shared(engine, scratch_key_of(gpu, peer, gpu->rank, kind));
        lock_release(&engine->lock);
        if (*fd == SHARED_NO_ROOM)
            return error_set(TUTTI_SYSTEM_ERROR, "no descriptor is free for the memory of rank %d; raise ulimit -n",
                             peer);
        if (*fd < 0 && clock_passed(deadline))
            return error_set(TUTTI_REMOTE_ERROR, "no descriptor of the device memory of rank %d came in %d s", peer,
                             ARRIVE_MS / 1000);
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
    if (range.kind != CUDA_DEVICE || range.ordinal != gpu->device->ordinal)
        return error_set(TUTTI_INVALID_ARGUMENT, "%p is not memory of device %d", (void *)(uintptr_t)memory,
                         gpu->device->ordinal);
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
    gpu->cu->ThreadExchangeStreamCaptureMode(&mode);
    tutti_result_t result = cuda_import(gpu->device, &theirs->handle, fd, out);
    gpu->cu->ThreadExchangeStreamCaptureMode(&mode);
    if (fd >= 0)
        close(fd);
    *imported = result == TUTTI_SUCCESS;
    *out += theirs->address - theirs->base;
    return result;
}

static tutti_result_t post_bulk(struct gpu *gpu)
{
    struct mailbox_rank *mine = &gpu->mailbox->rank[gpu->rank];
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
    mailbox_ring_others(gpu->mailbox, gpu->nranks, gpu->rank);
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
    for (int rank = 0; gpu->mailbox && rank < gpu->nranks; rank++)
        any |= rank != gpu->rank && atomic_load(&gpu->mailbox->rank[rank].has_bulk);
    return any && !gpu->scratch.bulk_posted && !atomic_load(&gpu->team->failed);
}

static void post_for(struct gpu *gpu)
{
    cuda_enter(gpu->device);
    tutti_result_t result = scratch_post_bulk(gpu);
    cuda_leave();
    if (result != TUTTI_SUCCESS)
        team_fail(gpu->team, result, gpu->rank, error_last()); /* peers wait for what is not there */
}

void scratch_answer(struct gpu *gpu)
{
    if (is_waited_for(gpu, NULL))
        post_for(gpu);
}

/* That rank's, if it lives in this process. And ranks may use two communicators in opposite orders: who waits for a
 * peer's bulk in one call may be waited for by that peer in a call of the other communicator. */
static void post_for_others(void)
{
    struct gpu *other;
    while ((other = idle_visit(is_waited_for, NULL))) {
        post_for(other);
        idle_go(other);
    }
}

/* A process that lives posts it soon, wherever its program is: scratch_answer(), and here for all its ranks. */
static tutti_result_t wait_for_bulk(struct gpu *gpu, int rank)
{
    _Atomic uint32_t *has = &gpu->mailbox->rank[rank].has_bulk;
    tutti_result_t result = TUTTI_SUCCESS;
    patience_begin(gpu, rank);
    while (result == TUTTI_SUCCESS && !atomic_load(has)) {
        result = gpu_failure(gpu);
        if (result == TUTTI_SUCCESS)
            result = gpu_needs(gpu, 1u << rank);
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
        gpu->scratch.bulks[rank] = gpu->mailbox->rank[rank].bulk;
        result = gpu_explain(gpu, scratch_reach(gpu, rank, &gpu->scratch.bulks[rank], SCRATCH_BULK, &address,
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

/* ---- The end ---- */

static bool all_unmapped(const struct deferred *old)
{
    for (int rank = 0; rank < old->nranks; rank++)
        if (rank != old->rank && !atomic_load(&old->mailbox->rank[rank].unmapped))
            return false;
    return true;
}

static void put_back(struct deferred *old)
{
    pthread_mutex_lock(&deferred_lock);
    list_push(&all_deferred, &old->node);
    atomic_fetch_add(&deferred_left, 1);
    pthread_mutex_unlock(&deferred_lock);
}

/* As reap(). */
static void unmap(struct deferred *old)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    cuda_enter(old->device);
    old->cu->ThreadExchangeStreamCaptureMode(&mode);
    for (struct list *node; (node = list_pop(&old->imports));)
        import_unmap(old->device, old->rank, list_entry(node, struct import, node));
    old->cu->ThreadExchangeStreamCaptureMode(&mode);
    cuda_leave();
    if (old->mailbox)
        atomic_store(&old->mailbox->rank[old->rank].unmapped, 1);
}

/* Not under the list's lock: each of these calls waits for all work of the context, the user's too. */
static void reap(struct deferred *old)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* freeing spoils no capture */
    cuda_enter(old->device);
    old->cu->ThreadExchangeStreamCaptureMode(&mode);
    const CUdeviceptr all[] = {old->bulk, old->stand_in, old->window, old->sealed};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_memory_free(old->device, all[i]);
    if (old->in_host)
        old->cu->MemHostUnregister((char *)old->mailbox + mailbox_window(old->nranks, 0));
    if (old->registered)
        old->cu->MemHostUnregister(old->mailbox);
    for (int i = 0; i < STAGED_PINNED; i++)
        if (old->pinned[i])
            old->cu->MemFreeHost(old->pinned[i]);
    old->cu->ThreadExchangeStreamCaptureMode(&mode);
    cuda_leave();
    if (old->mailbox)
        mailbox_unmap(old->mailbox, old->nranks);
    cuda_device_release(old->device);
    free(old);
}

static bool is_unmapped(const struct deferred *old)
{
    return !old->mailbox || atomic_load(&old->mailbox->rank[old->rank].unmapped);
}

/* One of GPU `mine`, or of one that is not among `used`, of which something can be done; out of the list. */
static struct deferred *take_dead(int mine, uint64_t used)
{
    struct deferred *found = NULL;
    pthread_mutex_lock(&deferred_lock);
    list_each_safe(node, &all_deferred)
    {
        struct deferred *old = list_entry(node, struct deferred, node);
        int device = old->device->ordinal;
        if (found || (is_unmapped(old) && !all_unmapped(old)) || (device != mine && (used >> device & 1)))
            continue;
        list_remove(node);
        atomic_fetch_sub(&deferred_left, 1);
        found = old;
    }
    pthread_mutex_unlock(&deferred_lock);
    return found;
}

/* Only where nothing is under way. What graphs replay is not seen: where there are any, nobody frees what is another
 * rank's to free. */
static void reap_dead(int mine, bool closing)
{
    struct deferred *old;
    struct idle_view view = idle_look();
    while ((closing || !view.graphs) && (old = take_dead(mine, view.graphs ? view.devices : 0))) {
        if (!is_unmapped(old))
            unmap(old);
        if (all_unmapped(old))
            reap(old);
        else
            put_back(old);
    }
}

static _Atomic bool
    missed; /* somebody found another one at it, who may have passed by what it leaves, and has no later call perhaps */

static bool may_reap(void)
{
    if (idle_try())
        return true;
    atomic_exchange(&missed, true);
    return idle_try();
}

/*
 * Freeing waits for all work of the GPU, which may wait for a peer's, and that for this very thread. So it is done when
 * nothing is under way, and nothing begins meanwhile.
 */
static void sweep(int mine, bool closing)
{
    do {
        if (!atomic_load(&deferred_left) || !may_reap())
            return;
        reap_dead(mine, closing);
        idle_end();
    } while (atomic_exchange(&missed, false));
}

void scratch_sweep(struct gpu *gpu)
{
    sweep(gpu->device->ordinal, false);
}

static void give_back(struct gpu *gpu, int peer, const struct mailbox_buffer *theirs, bool imported,
                      const unsigned char *address)
{
    if (imported)
        import_put_off(gpu, peer, &theirs->handle, device_address(address) - (theirs->address - theirs->base));
}

void scratch_give_back_windows(struct gpu *gpu)
{
    for (int rank = 0; rank < gpu->nranks; rank++) {
        give_back(gpu, rank, &gpu->scratch.windows[rank], gpu->scratch.window_imported[rank],
                  gpu->kernels.window[rank]);
        gpu->scratch.window_imported[rank] = false;
    }
}

/* Until it can be freed. */
static void leave(struct gpu *gpu, const struct deferred *what)
{
    struct cuda_device *device;
    struct deferred *old = malloc(sizeof *old);
    if (!old || cuda_device_acquire(gpu->device->ordinal, &device) != TUTTI_SUCCESS) {
        free(old); /* the process keeps that memory to its end */
        return;
    }
    *old = *what;
    list_init(&old->imports);
    if (old->mailbox)
        import_take_all(gpu, &old->imports);
    old->device = device;
    old->cu = gpu->cu;
    put_back(old);
    sweep(gpu->device->ordinal, true);
}

/* Peers may write to it until they close. */
static void leave_windows(struct gpu *gpu)
{
    scratch_give_back_windows(gpu);
    for (int rank = 0; rank < gpu->nranks; rank++)
        give_back(gpu, rank, &gpu->scratch.bulks[rank], gpu->scratch.bulk_imported[rank], gpu->kernels.bulk[rank]);
    /* A peer that is gone does not write any more. One that lives may, until it closes, also when all have failed. */
    uint32_t open = 0;
    atomic_store(&gpu->mailbox->rank[gpu->rank].closed, 1);
    mailbox_ring_others(gpu->mailbox, gpu->nranks, gpu->rank);
    for (int rank = 0; rank < gpu->nranks; rank++, open = 0)
        if (atomic_load(&gpu->team->gone[rank]) || atomic_load(&gpu->mailbox->rank[rank].gone)) {
            atomic_compare_exchange_strong(&gpu->mailbox->rank[rank].closed, &open, MAILBOX_REAPED);
            atomic_store(&gpu->mailbox->rank[rank].unmapped, 1);
        }
    const struct deferred left = {.mailbox = gpu->mailbox,
                                  .rank = gpu->rank,
                                  .nranks = gpu->nranks,
                                  .window = gpu->scratch.window,
                                  .bulk = gpu->scratch.bulk,
                                  .stand_in = gpu->scratch.stand_in,
                                  .sealed = gpu->scratch.sealed,
                                  .registered = gpu->mailbox_registered,
                                  .in_host = gpu->plan.facts.in_host};
    leave(gpu, &left);
}

void scratch_exit(void)
{
    pthread_mutex_lock(&deferred_lock);
    list_each(node, &all_deferred)
    {
        struct deferred *old = list_entry(node, struct deferred, node);
        if (old->mailbox)
            atomic_store(&old->mailbox->rank[old->rank].unmapped, 1);
    }
    pthread_mutex_unlock(&deferred_lock);
}

void scratch_close(struct gpu *gpu, void *const pinned[STAGED_PINNED])
{
    struct deferred left = {.rank = gpu->rank};
    bool any = false;
    for (int i = 0; i < STAGED_PINNED; i++) {
        left.pinned[i] = pinned[i];
        any = any || pinned[i];
    }
    if (gpu->mailbox)
        leave_windows(gpu);
    if (any)
        leave(gpu, &left);
}
