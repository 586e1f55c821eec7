/* SPDX-License-Identifier: Apache-2.0 */
/* The regions of this process, in a list by id under one mutex: there are few. */
#include "transport/shm/region.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/known.h"
#include "base/list.h"
#include "base/memory.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct region {
    struct list node;
    uint32_t id;
    int fd;
    char *base;
    size_t size;
    uint64_t known;             /* as known memory */
    struct region_pair *mapped; /* processes that have it mapped */
    size_t mappers;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct list regions = {&regions, &regions}; /* by id */
static struct list watchers = {&watchers, &watchers};
static uint32_t last_id;
static _Atomic uint32_t frees;

/* In a forked child: what it inherited is its parent's. */
static void region_forget(void)
{
    pthread_mutex_init(&mutex, NULL);
    fork_forget(&regions);
    fork_forget(&watchers);
}

__attribute__((constructor)) static void region_watch_forks(void)
{
    fork_reset_by(region_forget);
}

static void destroy(struct region *region)
{
    known_remove(region->known);
    memory_unmap(region->base, region->size);
    if (region->fd >= 0)
        close(region->fd);
    free(region->mapped);
    free(region);
}

void *region_alloc(size_t size)
{
    struct region *region = calloc(1, sizeof *region);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *base = NULL;
    if (!region || !size || size > SIZE_MAX / 2) {
        error_set(TUTTI_INVALID_ARGUMENT, "cannot allocate a region of %zu bytes", size);
        free(region);
        return NULL;
    }
    region->fd = -1;
    region->size = (size + page - 1) / page * page;
    if (memory_make(region->size, &region->fd) != TUTTI_SUCCESS ||
        memory_map(region->fd, region->size, &base) != TUTTI_SUCCESS) {
        destroy(region);
        return NULL;
    }
    region->base = base;
    region->known = known_add(base, region->size);
    pthread_mutex_lock(&mutex);
    region->id = ++last_id;
    list_push(&regions, &region->node);
    pthread_mutex_unlock(&mutex);
    return base;
}

static void tell_watchers(void)
{
    uint64_t one = 1;
    list_each(node, &watchers)
    {
        ssize_t ignored = write(list_entry(node, struct region_watcher, node)->bell, &one, sizeof one);
        (void)ignored; /* full: it has rung */
    }
}

static struct region *find_base(const void *base)
{
    list_each(node, &regions)
    {
        struct region *region = list_entry(node, struct region, node);
        if (region->base == base)
            return region;
    }
    return NULL;
}

bool region_free(void *base)
{
    pthread_mutex_lock(&mutex);
    struct region *region = find_base(base);
    if (region) {
        list_remove(&region->node);
        atomic_fetch_add(&frees, 1);
        tell_watchers();
    }
    pthread_mutex_unlock(&mutex);
    if (region)
        destroy(region);
    return region;
}

bool region_find(const void *address, size_t length, uint32_t *id, uint64_t *offset)
{
    bool found = false;
    pthread_mutex_lock(&mutex);
    list_each(node, &regions)
    {
        const struct region *region = list_entry(node, struct region, node);
        uintptr_t from = (uintptr_t)address - (uintptr_t)region->base;
        if (from < region->size && length <= region->size - from) {
            *id = region->id;
            *offset = from;
            found = true;
            break;
        }
    }
    pthread_mutex_unlock(&mutex);
    return found;
}

bool region_next(uint32_t after, uint32_t *id, uint64_t *size, int *fd)
{
    bool found = false;
    pthread_mutex_lock(&mutex);
    list_each(node, &regions)
    {
        const struct region *region = list_entry(node, struct region, node);
        if (region->id <= after)
            continue;
        *id = region->id;
        *size = region->size;
        *fd = fcntl(region->fd, F_DUPFD_CLOEXEC, 0);
        found = *fd >= 0;
        break;
    }
    pthread_mutex_unlock(&mutex);
    return found;
}

/* Under the mutex. */
static struct region *region_find_id(uint32_t id)
{
    list_each(node, &regions)
    {
        struct region *region = list_entry(node, struct region, node);
        if (region->id == id)
            return region;
    }
    return NULL;
}

bool region_lives(uint32_t id)
{
    pthread_mutex_lock(&mutex);
    bool lives = region_find_id(id);
    pthread_mutex_unlock(&mutex);
    return lives;
}

/* The place of `who` among those who map the region; `mappers` if there is none. */
static size_t find_mapper(const struct region *region, const struct region_pair *who)
{
    size_t i = 0;
    while (i < region->mappers && memcmp(&region->mapped[i], who, sizeof *who) != 0)
        i++;
    return i;
}

void region_note_mapped(uint32_t id, const struct region_pair *who)
{
    pthread_mutex_lock(&mutex);
    struct region *region = region_find_id(id);
    if (region && find_mapper(region, who) == region->mappers) {
        struct region_pair *more = realloc(region->mapped, (region->mappers + 1) * sizeof *more);
        if (more) { /* else it is read through staging, no more */
            region->mapped = more;
            more[region->mappers++] = *who;
        }
    }
    pthread_mutex_unlock(&mutex);
}

bool region_is_mapped(uint32_t id, const struct region_pair *who)
{
    pthread_mutex_lock(&mutex);
    const struct region *region = region_find_id(id);
    bool mapped = region && find_mapper(region, who) < region->mappers;
    pthread_mutex_unlock(&mutex);
    return mapped;
}

void region_forget_mapper(const struct region_pair *who)
{
    pthread_mutex_lock(&mutex);
    list_each(node, &regions)
    {
        struct region *region = list_entry(node, struct region, node);
        size_t place = find_mapper(region, who);
        if (place < region->mappers)
            region->mapped[place] = region->mapped[--region->mappers];
    }
    pthread_mutex_unlock(&mutex);
}

void region_watch(struct region_watcher *watcher, int bell)
{
    watcher->bell = bell;
    pthread_mutex_lock(&mutex);
    list_push(&watchers, &watcher->node);
    pthread_mutex_unlock(&mutex);
}

void region_unwatch(struct region_watcher *watcher)
{
    pthread_mutex_lock(&mutex);
    list_remove(&watcher->node);
    pthread_mutex_unlock(&mutex);
}

uint32_t region_frees(void)
{
    return atomic_load_explicit(&frees, memory_order_relaxed);
}
