/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Regions: memory of this process that peers of this host can map, so that they write into it by themselves. Ids are never
 * used twice. All functions may be called from any thread.
 */
#ifndef TUTTI_TRANSPORT_SHM_REGION_H
#define TUTTI_TRANSPORT_SHM_REGION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Page-aligned zeroed memory, NULL with error_last() if there is none. */
void *region_alloc(size_t size);
/* False if `base` did not come from region_alloc. */
bool region_free(void *base);
/* Does [address, address + length) lie in one region? Then *id is its id and *offset where in it. */
bool region_find(const void *address, size_t length, uint32_t *id, uint64_t *offset);

/* The region that `address` lies in, and its descriptor, which stays the region's. */
bool region_locate(const void *address, uint32_t *id, uint64_t *offset, int *fd);

/* The living region with the smallest id above `after`; its descriptor is a duplicate that the caller closes. False: none. */
bool region_next(uint32_t after, uint32_t *id, uint64_t *size, int *fd);
bool region_lives(uint32_t id);
/* Changes whenever a region is freed. */
uint32_t region_frees(void);

#endif
