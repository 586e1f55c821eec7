/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions: memory of this process that peers of this host can map, so that they write into it by themselves. Ids are
 * never used twice. All functions may be called from any thread.
 */
#ifndef TUTTI_TRANSPORT_SHM_REGION_H
#define TUTTI_TRANSPORT_SHM_REGION_H

#include "base/list.h"
#include "wire/process.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Page-aligned zeroed memory, NULL with error_last() if there is none. */
void *region_alloc(size_t size);
/* False if `base` did not come from region_alloc. */
bool region_free(void *base);
/* Does [address, address + length) lie in one region? Then *id is its id and *offset where in it. */
bool region_find(const void *address, size_t length, uint32_t *id, uint64_t *offset);

/* The living region with the smallest id above `after`; its descriptor is a duplicate that the caller closes. False:
 * none. */
bool region_next(uint32_t after, uint32_t *id, uint64_t *size, int *fd);
bool region_lives(uint32_t id);

/* Two processes, as their uuids name them: of the one that has the region, and of one that maps it. */
struct region_pair {
    uint8_t owner[WIRE_UUID_BYTES], mapper[WIRE_UUID_BYTES];
};
/* The mapper says that it has the region mapped: it can read there. */
void region_note_mapped(uint32_t id, const struct region_pair *who);
bool region_is_mapped(uint32_t id, const struct region_pair *who);
/* The mapper has gone, and maps nothing any more. */
void region_forget_mapper(const struct region_pair *who);

/* Changes whenever a region is freed. */
uint32_t region_frees(void);

/* A watcher hears of freed regions: a number is added to its eventfd. */
struct region_watcher {
    struct list node;
    int bell;
};
void region_watch(struct region_watcher *watcher, int bell);
void region_unwatch(struct region_watcher *watcher);

#endif
