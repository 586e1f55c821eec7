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
    else if (!staged->copies)
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

/* ---- Under the lock ---- */

static void exported_end(struct exported *exported)
{
    list_remove(&exported->node);
    exported_count--;
    known_remove(exported->known);
    free(exported);
}

static bool exported_lives(const struct cuda_driver *cu, const struct exported *exported)
{
    unsigned long long id = 0;
    return cu->PointerGetAttribute(&id, CU_POINTER_ATTRIBUTE_BUFFER_ID, exported->range.base) == CUDA_SUCCESS &&
           id == exported->range.id;
}

/* Of memory that an allocation has now others had before. */
static struct exported *exported_find(const struct cuda_driver *cu, CUdeviceptr at, size_t bytes)
{
    struct exported *found = NULL;
    list_each_safe(node, &all_exported)
    {
        struct exported *exported = list_entry(node, struct exported, node);
        const struct cuda_range *range = &exported->range;
        if (at >= range->base + range->size || range->base >= at + bytes)
            continue;
        if (exported_lives(cu, exported))
            found = exported;
        else
            exported_end(exported);
    }
    return found;
}

static struct exported *exported_make(const struct cuda_device *device, const struct cuda_range *range)
{
    struct exported *made = calloc(1, sizeof *made);
    int fd;
    if (!made)
        return NULL;
    made->range = *range;
    if (range->size <= (size_t)param_int(PARAM_REGISTERED) && cuda_export_pages(range, &made->base, &made->size, &fd)) {
        const struct known known = {.base = (char *)(uintptr_t)made->base,
                                    .size = made->size,
                                    .device = device->ordinal + 1,
                                    .ordered = device->ordered};
        made->known = known_add_device(&known, fd);
    }
    if (!made->known)
        log_info("GPU %d exports no descriptor of the %zu bytes at 0x%llx: they are copied", device->ordinal,
                 range->size, range->base);
    list_push(&all_exported, &made->node);
    if (++exported_count > MOST)
        exported_end(list_entry(all_exported.next, struct exported, node));
    return made;
}

/* ---- Any thread ---- */

static struct place direct_place(const struct staged *staged, const void *data, size_t bytes)
{
    const struct cuda_device *device = staged->base.device;
    CUdeviceptr at = device_address(data);
    struct cuda_range range;
    struct place place = {0};
    pthread_mutex_lock(&lock);
    struct exported *exported = exported_find(staged->base.cu, at, bytes);
    if (!exported && cuda_range_of(data, &range) == TUTTI_SUCCESS && range.kind == CUDA_DEVICE &&
        range.ordinal == device->ordinal)
        exported = exported_make(device, &range);
    if (exported && exported->known && !known_is_refused(exported->known) && at >= exported->base &&
        at - exported->base <= exported->size && bytes <= exported->size - (at - exported->base)) {
        list_remove(&exported->node);
        list_push(&all_exported, &exported->node);
        place = (struct place){(void *)(uintptr_t)at, device->ordinal + 1, exported->known};
    }
    pthread_mutex_unlock(&lock);
    return place;
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
    pthread_mutex_lock(&lock);
    list_each_safe(node, &all_exported)
    {
        struct exported *exported = list_entry(node, struct exported, node);
        if (!exported_lives(cu, exported))
            exported_end(exported);
    }
    pthread_mutex_unlock(&lock);
}
