/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocations of GPUs that adapters reach, of the whole process. An adapter's registration, and even a descriptor,
 * keeps memory that the user has freed. So the driver is asked whether an allocation is still the same: at each use,
 * and now and then by a thread that has nothing else to do (courier.c).
 */
#include "executor/staged/direct.h"

#include "base/fork.h"
#include "base/known.h"
#include "base/log.h"
#include "base/param.h"
#include "device/cuda/memory.h"
#include "device/type.h"

#include <stdlib.h>

#define MOST 256 /* allocations; the longest unused goes first */

enum { GDR_LOC, GDR_0 = 5 }; /* TUTTI_NET_GDR_LEVEL: names first, then numbers */

struct exported {
    struct list node;
    struct cuda_range range;
    CUdeviceptr base; /* what has a descriptor */
    size_t size;
    uint64_t known; /* 0: it has none */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct list all_exported = {&all_exported, &all_exported}; /* the latest used last */
static int exported_count;

/* base/known.c has closed the descriptors. */
static void direct_forget(void)
{
    pthread_mutex_init(&lock, NULL);
    fork_forget(&all_exported);
    exported_count = 0;
}

__attribute__((constructor)) static void direct_watch_forks(void)
{
    fork_reset_by(direct_forget);
}

static bool direct_is_off(void)
{
    int level = (int)param_int(PARAM_NET_GDR_LEVEL);
    return level == GDR_LOC || level == GDR_0;
}

void direct_begin(struct staged *staged)
{
    const struct cuda_device *device = staged->base.device;
    const char *why = NULL;
    if (!param_int(PARAM_DMABUF_ENABLE))
        why = param_source(PARAM_DMABUF_ENABLE);
    else if (direct_is_off())
        why = param_source(PARAM_NET_GDR_LEVEL);
    else if (!staged->kernel)
        why = param_source(PARAM_STAGE_KERNEL);
    else if (!device->dmabuf)
        why = "the driver exports no dma-buf";
    else if (!link_domain_registers(staged->base.team->engine->links))
        why = "there is no RDMA device";
    staged->direct = !why;
    if (why)
        log_info("rank %d: RDMA devices do not reach the memory of GPU %d, whose data is copied: %s",
                 staged->base.team->rank, device->ordinal, why);
}

size_t direct_from(const struct staged *staged)
{
    return staged->direct ? (size_t)param_int(PARAM_DMABUF_FROM) : SIZE_MAX;
}

/* ---- Under the lock. Nobody holds it in a call of the driver, which may wait for all work of a GPU ---- */

static void exported_end(struct exported *exported)
{
    list_remove(&exported->node);
    exported_count--;
    known_remove(exported->known);
    free(exported);
}

static struct exported *exported_find(CUdeviceptr at, size_t bytes)
{
    list_each(node, &all_exported)
    {
        struct exported *exported = list_entry(node, struct exported, node);
        const struct cuda_range *range = &exported->range;
        if (at < range->base + range->size && range->base < at + bytes)
            return exported;
    }
    return NULL;
}

/* One that was found before, if it is still there. */
static struct exported *exported_again(const struct exported *copy)
{
    list_each(node, &all_exported)
    {
        struct exported *exported = list_entry(node, struct exported, node);
        if (exported->range.id == copy->range.id && exported->range.base == copy->range.base)
            return exported;
    }
    return NULL;
}

/* ---- Any thread ---- */

/* What was noted about memory that overlaps with this. False: nothing. */
static bool direct_lookup(CUdeviceptr at, size_t bytes, struct exported *out)
{
    pthread_mutex_lock(&lock);
    struct exported *found = exported_find(at, bytes);
    if (found) {
        list_remove(&found->node);
        list_push(&all_exported, &found->node);
        *out = *found;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

/* False: the driver has other memory there by now, or none. */
static bool direct_lives(const struct cuda_driver *cu, const struct exported *copy)
{
    unsigned long long id = 0;
    if (cu->PointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, copy->range.base) == CUDA_SUCCESS &&
        id == copy->range.id)
        return true;
    pthread_mutex_lock(&lock);
    struct exported *gone = exported_again(copy);
    if (gone)
        exported_end(gone);
    pthread_mutex_unlock(&lock);
    return false;
}

static void direct_export(const struct cuda_device *device, struct exported *made)
{
    int fd;
    if (made->range.size <= (size_t)param_int(PARAM_REGISTERED) &&
        cuda_export_pages(&made->range, &made->base, &made->size, &fd)) {
        const struct known known = {.base = (char *)(uintptr_t)made->base,
                                    .size = made->size,
                                    .device = device->ordinal + 1,
                                    .ordered = device->ordered};
        made->known = known_add_device(&known, fd);
    }
    if (!made->known)
        log_info("GPU %d exports no descriptor of the %zu bytes at 0x%llx: they are copied", device->ordinal,
                 made->range.size, made->range.base);
}

/* Notes what adapters may do with the memory. Another thread may do the same. */
static void direct_note(const struct cuda_device *device, const struct cuda_range *range)
{
    struct exported *made = calloc(1, sizeof *made);
    if (!made)
        return;
    made->range = *range;
    direct_export(device, made);
    pthread_mutex_lock(&lock);
    list_push(&all_exported, &made->node);
    exported_count++;
    if (exported_again(made) != made)
        exported_end(made);
    else if (exported_count > MOST)
        exported_end(list_entry(all_exported.next, struct exported, node));
    pthread_mutex_unlock(&lock);
}

static struct place direct_place(const struct staged *staged, const void *data, size_t bytes)
{
    const struct cuda_device *device = staged->base.device;
    CUdeviceptr at = device_address(data);
    struct exported found;
    struct cuda_range range;
    bool known = false;
    for (int tries = 0; tries < 2 && !known; tries++) {
        while ((known = direct_lookup(at, bytes, &found)) && !direct_lives(staged->base.cu, &found))
            continue;
        if (!known && !tries && cuda_range_of(data, &range) == TUTTI_SUCCESS && range.kind == CUDA_DEVICE &&
            range.ordinal == device->ordinal)
            direct_note(device, &range);
    }
    bool within = known && found.known && at >= found.base && at - found.base <= found.size &&
                  bytes <= found.size - (at - found.base);
    return within && !known_is_refused(found.known)
               ? (struct place){.address = (void *)(uintptr_t)at, .device = device->ordinal + 1, .life = found.known}
               : (struct place){0};
}

void direct_find(const struct staged *staged, struct p2p_item *items, int count)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* the caller may be capturing a graph */
    size_t least = (size_t)param_int(PARAM_DMABUF_FROM);
    if (!staged->direct)
        return;
    staged->base.cu->ThreadExchangeStreamCaptureMode(&mode);
    for (int i = 0; i < count; i++) {
        size_t bytes = items[i].count * type_size(items[i].type);
        if (bytes && bytes >= least)
            items[i].on_device = direct_place(staged, items[i].data, bytes);
    }
    staged->base.cu->ThreadExchangeStreamCaptureMode(&mode);
}

struct place direct_piece(struct place message, size_t from, size_t bytes)
{
    if (place_is_host(message) || bytes < (size_t)param_int(PARAM_DMABUF_FROM))
        return (struct place){0};
    return place_behind(message, from);
}

void direct_look(const struct cuda_driver *cu)
{
    struct exported copies[MOST];
    int count = 0;
    pthread_mutex_lock(&lock);
    list_each(node, &all_exported) copies[count++] = *list_entry(node, struct exported, node);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < count; i++)
        direct_lives(cu, &copies[i]);
}
