/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory that peers write to. A rank may be done with its fabric while a peer's last kernel still tells it something,
 * so memory is freed only when every peer has closed, and at a quiet time; until then it waits in a list of the process.
 */
#include "fabric/internal.h"

#include "base/error.h"
#include "base/futex.h"
#include "base/param.h"
#include "base/random.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOOK_US   200   /* between looks for a descriptor, or for a link */
#define ARRIVE_MS 30000 /* in which one comes: its sender has sent it */

/* Memory of a closed fabric whose peers are not all closed. */
struct remains {
    struct list node;
    struct board *board;
    int rank, nranks;
    struct cuda_device *device;
    const struct cuda_driver *cu;
    CUdeviceptr window, bulk, stand_in, sealed;
    bool registered, in_host;
};

static pthread_mutex_t remains_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list all_remains = {&all_remains, &all_remains};
static _Atomic int remains_left; /* in the list */

static tutti_result_t make(struct fabric *fabric, size_t size, CUdeviceptr *out)
{
    return fabric->by_descriptor ? cuda_memory_alloc(fabric->device, size, out) : memory_zeroed(fabric->cu, size, out);
}

static tutti_result_t allocate(struct fabric *fabric, enum wire_memory purpose, size_t size, CUdeviceptr *out)
{
    tutti_result_t result = make(fabric, size, out);
    if (result == TUTTI_SUCCESS)
        record_memory(fabric, purpose, size);
    return result;
}

tutti_result_t scratch_window(struct fabric *fabric)
{
    size_t pieces = fabric->stage ? (size_t)(fabric->nranks - 1) * BOARD_DEPTH : 0;
    tutti_result_t result = make(fabric, kernel_window_bytes(fabric->nranks) + BOARD_SPARE + pieces * fabric->stage, &fabric->window);
    if (result != TUTTI_SUCCESS)
        return result;
    record_memory(fabric, WIRE_MEMORY_WINDOW, kernel_window_bytes(fabric->nranks) + BOARD_SPARE);
    record_memory(fabric, WIRE_MEMORY_STAGING, pieces * fabric->stage);
    return TUTTI_SUCCESS;
}

CUdeviceptr scratch_stage(const struct fabric *fabric, int rank, int peer, uint32_t piece)
{
    size_t place = (size_t)(peer < rank ? peer : peer - 1) * BOARD_DEPTH + piece % BOARD_DEPTH;
    return device_address(fabric->kernels.window[rank]) + kernel_window_bytes(fabric->nranks) + BOARD_SPARE +
           place * fabric->stage;
}

static uint64_t key_of(const struct fabric *fabric, int from, int to, enum scratch_kind kind)
{
    return mix64(mix64(fabric->team->id ^ 0x73637261746368) + (uint64_t)((int)kind * KERNEL_RANKS + from) * KERNEL_RANKS + (uint64_t)to);
}

/* While the fabric is made nobody else delivers them. */
static void deliver_now(struct fabric *fabric)
{
    while (!fabric->helper_runs && !atomic_load(&fabric->team->failed) && offer_deliver(fabric))
        usleep(LOOK_US);
}

static tutti_result_t send_descriptors(struct fabric *fabric, int fd, enum scratch_kind kind)
{
    tutti_result_t result = TUTTI_SUCCESS;
    for (int peer = 0; peer < fabric->nranks && result == TUTTI_SUCCESS; peer++)
        if (!fabric->here[peer])
            result = offer_parcel(fabric, peer, fd, key_of(fabric, fabric->rank, peer, kind));
    close(fd);
    deliver_now(fabric);
    return result;
}

static tutti_result_t take_descriptor(struct fabric *fabric, int peer, enum scratch_kind kind, int *fd)
{
    struct engine *engine = fabric->team->engine;
    uint64_t deadline = clock_deadline_ms(ARRIVE_MS);
    tutti_result_t failure = TUTTI_SUCCESS;
    for (*fd = -1; *fd < 0 && failure == TUTTI_SUCCESS; failure = *fd < 0 ? fabric_failure(fabric) : TUTTI_SUCCESS) {
        lock_take(&engine->lock);
        *fd = engine_take_shared(engine, key_of(fabric, peer, fabric->rank, kind));
        lock_release(&engine->lock);
        if (*fd < 0 && clock_passed(deadline))
            return error_set(TUTTI_REMOTE_ERROR, "no descriptor of the device memory of rank %d came in %d s", peer, ARRIVE_MS / 1000);
        if (*fd < 0)
            usleep(LOOK_US);
    }
    return failure;
}

tutti_result_t scratch_describe(struct fabric *fabric, CUdeviceptr memory, enum scratch_kind kind, struct board_buffer *out)
{
    struct cuda_range range;
    int fd = -1;
    memset(out, 0, sizeof *out);
    tutti_result_t result = cuda_range_of((const void *)(uintptr_t)memory, &range);
    if (result != TUTTI_SUCCESS)
        return result;
    if (range.kind != CUDA_DEVICE || range.ordinal != fabric->device->ordinal)
        return error_set(TUTTI_INVALID_ARGUMENT, "%p is not memory of device %d", (void *)(uintptr_t)memory, fabric->device->ordinal);
    out->address = memory;
    out->base = range.base;
    if (fabric->nranks == 1)
        out->handle = (struct cuda_handle){.id = range.id, .size = range.size};
    else
        result = cuda_export(&range, &out->handle, &fd);
    return fd >= 0 ? send_descriptors(fabric, fd, kind) : result;
}

tutti_result_t scratch_reach(struct fabric *fabric, int peer, const struct board_buffer *theirs, enum scratch_kind kind, CUdeviceptr *out,
                             bool *imported)
{
    int fd = -1;
    *imported = false;
    if (fabric->here[peer]) {
        *out = theirs->address;
        return TUTTI_SUCCESS;
    }
    if (theirs->handle.how == CUDA_BY_DESCRIPTOR) {
        tutti_result_t came = take_descriptor(fabric, peer, kind, &fd);
        if (came != TUTTI_SUCCESS)
            return came;
    }
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    fabric->cu->ThreadExchangeStreamCaptureMode(&mode);
    tutti_result_t result = cuda_import(fabric->device, &theirs->handle, fd, out);
    fabric->cu->ThreadExchangeStreamCaptureMode(&mode);
    if (fd >= 0)
        close(fd);
    *imported = result == TUTTI_SUCCESS;
    *out += theirs->address - theirs->base;
    return result;
}

tutti_result_t scratch_post_bulk(struct fabric *fabric)
{
    struct board_rank *mine = &fabric->board->rank[fabric->rank];
    if (fabric->bulk_posted || fabric->nranks == 1)
        return TUTTI_SUCCESS;
    tutti_result_t result = TUTTI_SUCCESS;
    if (!fabric->bulk)
        result = allocate(fabric, WIRE_MEMORY_BULK, kernel_bulk_bytes(fabric->nranks), &fabric->bulk);
    if (result == TUTTI_SUCCESS)
        result = scratch_describe(fabric, fabric->bulk, SCRATCH_BULK, &mine->bulk);
    if (result != TUTTI_SUCCESS)
        return result;
    atomic_store(&mine->has_bulk, 1);
    futex_wake_all(&mine->has_bulk);
    fabric->bulk_posted = true;
    return TUTTI_SUCCESS;
}

tutti_result_t scratch_stand_in(struct fabric *fabric)
{
    return fabric->stand_in ? TUTTI_SUCCESS : allocate(fabric, WIRE_MEMORY_STAND_IN, 2 * (size_t)param_int(PARAM_DIRECT_MOST), &fabric->stand_in);
}

/* Peers post theirs when they come to the same call. */
static tutti_result_t wait_for_bulk(struct fabric *fabric, int rank)
{
    _Atomic uint32_t *has = &fabric->board->rank[rank].has_bulk;
    while (!atomic_load(has)) {
        tutti_result_t result = fabric_failure(fabric);
        if (result == TUTTI_SUCCESS)
            result = fabric_needs(fabric, 1u << rank);
        if (result != TUTTI_SUCCESS)
            return result;
        futex_wait(has, 0, 1000);
    }
    return TUTTI_SUCCESS;
}

static tutti_result_t take_bulk_of(struct fabric *fabric, int rank)
{
    CUdeviceptr address = fabric->bulk;
    tutti_result_t result = rank == fabric->rank ? TUTTI_SUCCESS : wait_for_bulk(fabric, rank);
    if (result == TUTTI_SUCCESS && rank != fabric->rank) {
        fabric->bulks[rank] = fabric->board->rank[rank].bulk;
        result = fabric_explain(fabric, scratch_reach(fabric, rank, &fabric->bulks[rank], SCRATCH_BULK, &address, &fabric->bulk_imported[rank]));
    }
    if (result != TUTTI_SUCCESS)
        return result;
    fabric->kernels.bulk[rank] = (unsigned char *)(uintptr_t)address;
    fabric->bulk_taken |= 1u << rank;
    return TUTTI_SUCCESS;
}

tutti_result_t scratch_take_bulk(struct fabric *fabric, uint32_t ranks)
{
    tutti_result_t result = scratch_post_bulk(fabric);
    for (int rank = 0; rank < fabric->nranks && result == TUTTI_SUCCESS; rank++)
        if ((ranks & ~fabric->bulk_taken) >> rank & 1)
            result = take_bulk_of(fabric, rank);
    return result;
}

/* ---- The end ------------------------------------------------------------------------------------------------------- */

static bool all_closed(const struct remains *old)
{
    for (int rank = 0; rank < old->nranks; rank++)
        if (!atomic_load(&old->board->rank[rank].closed))
            return false;
    return true;
}

/* Not under the list's lock: each of these calls waits for all work of the context, the user's too. */
static void bury(struct remains *old)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* freeing spoils no capture */
    cuda_enter(old->device);
    old->cu->ThreadExchangeStreamCaptureMode(&mode);
    const CUdeviceptr all[] = {old->bulk, old->stand_in, old->window, old->sealed};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        cuda_memory_free(old->device, all[i]);
    if (old->in_host)
        old->cu->MemHostUnregister((char *)old->board + board_window(old->nranks, 0));
    if (old->registered)
        old->cu->MemHostUnregister(old->board);
    old->cu->ThreadExchangeStreamCaptureMode(&mode);
    cuda_leave();
    board_unmap(old->board, old->nranks);
    cuda_device_release(old->device);
    free(old);
}

/* One of GPU `mine`, or of one that is not among `used`; out of the list. */
static struct remains *take_dead(int mine, uint64_t used)
{
    struct remains *found = NULL;
    pthread_mutex_lock(&remains_lock);
    list_each_safe (node, &all_remains) {
        struct remains *old = list_entry(node, struct remains, node);
        int device = old->device->ordinal;
        if (found || !all_closed(old) || (device != mine && (used >> device & 1)))
            continue;
        list_remove(node);
        atomic_fetch_sub(&remains_left, 1);
        found = old;
    }
    pthread_mutex_unlock(&remains_lock);
    return found;
}

/* Only where nothing is under way. What graphs replay is not seen: where there are any, nobody frees what is another rank's to free. */
static void bury_dead(int mine, bool closing)
{
    struct remains *old;
    struct quiet_view view = quiet_look();
    while ((closing || !view.graphs) && (old = take_dead(mine, view.graphs ? view.devices : 0)))
        bury(old);
}

static _Atomic bool missed; /* somebody found another one at it, who may have passed by what it leaves, and has no later call perhaps */

static bool may_bury(void)
{
    if (quiet_try())
        return true;
    atomic_exchange(&missed, true);
    return quiet_try();
}

/*
 * Freeing waits for all work of the GPU, which may wait for a peer's, and that for this very thread. So it is done when nothing is under way, and
 * nothing begins meanwhile.
 */
static void sweep(int mine, bool closing)
{
    do {
        if (!atomic_load(&remains_left) || !may_bury())
            return;
        bury_dead(mine, closing);
        quiet_end();
    } while (atomic_exchange(&missed, false));
}

void scratch_sweep(struct fabric *fabric)
{
    sweep(fabric->device->ordinal, false);
}

static void give_back(struct fabric *fabric, const struct board_buffer *theirs, bool imported, const unsigned char *address)
{
    if (imported)
        cuda_unimport(fabric->device, &theirs->handle, device_address(address) - (theirs->address - theirs->base));
}

void scratch_give_back_windows(struct fabric *fabric)
{
    for (int rank = 0; rank < fabric->nranks; rank++) {
        give_back(fabric, &fabric->windows[rank], fabric->window_imported[rank], fabric->kernels.window[rank]);
        fabric->window_imported[rank] = false;
    }
}

void scratch_close(struct fabric *fabric)
{
    if (!fabric->board)
        return;
    scratch_give_back_windows(fabric);
    for (int rank = 0; rank < fabric->nranks; rank++)
        give_back(fabric, &fabric->bulks[rank], fabric->bulk_imported[rank], fabric->kernels.bulk[rank]);
    /* A peer that is gone does not write any more. One that lives may, until it closes, also when all have failed. */
    uint32_t open = 0;
    atomic_store(&fabric->board->rank[fabric->rank].closed, 1);
    for (int rank = 0; rank < fabric->nranks; rank++, open = 0)
        if (atomic_load(&fabric->team->gone[rank]) || atomic_load(&fabric->board->rank[rank].gone))
            atomic_compare_exchange_strong(&fabric->board->rank[rank].closed, &open, BOARD_BURIED);
    struct cuda_device *device;
    struct remains *old = calloc(1, sizeof *old);
    if (!old || cuda_device_acquire(fabric->device->ordinal, &device) != TUTTI_SUCCESS) {
        free(old); /* the process keeps that memory to its end */
        return;
    }
    *old = (struct remains){.board = fabric->board, .rank = fabric->rank, .nranks = fabric->nranks, .device = device, .cu = fabric->cu,
                            .window = fabric->window, .bulk = fabric->bulk, .stand_in = fabric->stand_in,
                            .sealed = fabric->sealed,
                            .registered = fabric->board_registered, .in_host = fabric->in_host};
    pthread_mutex_lock(&remains_lock);
    list_push(&all_remains, &old->node);
    atomic_fetch_add(&remains_left, 1);
    pthread_mutex_unlock(&remains_lock);
    sweep(fabric->device->ordinal, true);
}
