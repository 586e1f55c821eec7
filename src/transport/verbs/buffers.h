/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that a device reads and writes for lanes, and the receives that the lanes of a device share. */
#ifndef TUTTI_TRANSPORT_VERBS_BUFFERS_H
#define TUTTI_TRANSPORT_VERBS_BUFFERS_H

#include "transport/verbs/library.h"

#include <stddef.h>

/* Registered memory; memory NULL: none. */
struct verbs_buffers {
    unsigned char *memory;
    size_t size;
    struct ibv_mr *registered;
};

/* Not of the heap: what a lane gives back there stays with the process once lanes have come and gone. Returns 0, or
 * errno and nothing was made. */
int verbs_buffers_open(const struct verbs_library *library, struct ibv_pd *pd, size_t size, struct verbs_buffers *out);
/* The device does not know them any more. What it may still write to is never used again. Returns an errno, or 0. */
int verbs_buffers_forget(const struct verbs_library *library, struct verbs_buffers *buffers, bool still_written);
/* Gives back the memory of buffers that were forgotten. */
void verbs_buffers_free(struct verbs_buffers *buffers);

/* A receive of the shared queue: its number, and the bytes that came. */
#define VERBS_SHARED_EACH 64 /* receives that are added at once, */
#define VERBS_SHARED_MOST 64 /* so often */

/*
 * Receives of all lanes of a device. Each is posted anew as soon as its completion was handled, so no lane can keep
 * one. There are few at first. When the adapter says that few are left (the limit's event) there are more: what lanes
 * use at once is what there is. When lanes end, slabs are too many that the others cannot use at once. The adapter
 * gives none back: a receive of those is not posted anew, and the last slab goes when all of its receives have come
 * back.
 */
struct verbs_shared {
    const struct verbs_library *library;
    struct ibv_srq *queue; /* NULL: each lane has receives of its own */
    unsigned slabs, kept;  /* those from `kept` on are too many */
    struct verbs_buffers slab[VERBS_SHARED_MOST];
    uint64_t unposted[VERBS_SHARED_MOST]; /* that could not be posted anew, or are not to be */
    bool missing;                         /* there are some of the former */
};

/* Makes the queue, without receives. False: the device has none. */
bool verbs_shared_open(const struct verbs_library *library, struct ibv_context *context, struct ibv_pd *pd,
                       struct verbs_shared *shared);
/* Slabs that this number of lanes begins with. */
unsigned verbs_shared_wanted(int lanes);
/* One slab more. Returns 0, or an errno. */
int verbs_shared_grow(struct ibv_pd *pd, struct verbs_shared *shared);
/* A lane has ended, and this number is left. */
void verbs_shared_left(struct verbs_shared *shared, int lanes);
/* Posts receive `number` anew. What fails is tried again by verbs_shared_mend(). */
void verbs_shared_post(struct verbs_shared *shared, uint32_t number);
/* Returns 0, or an errno: some cannot be posted. */
int verbs_shared_mend(struct verbs_shared *shared);
/* Ends the queue, of which no queue pair is left. Returns an errno, or 0. */
int verbs_shared_close(struct verbs_shared *shared);

/* Bytes of receive `number`. */
static inline const unsigned char *verbs_shared_chunk(const struct verbs_shared *shared, uint32_t number, size_t chunk)
{
    return shared->slab[number / VERBS_SHARED_EACH].memory + number % VERBS_SHARED_EACH * chunk;
}

#endif
