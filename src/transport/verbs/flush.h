/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an adapter has written to a GPU's memory, and told of, may still be on its way over the bus: the GPU would see
 * what was there before. A read by the same adapter comes behind it. So a port has a queue pair that is joined to
 * itself, by which it reads a byte of the memory.
 */
#ifndef TUTTI_TRANSPORT_VERBS_FLUSH_H
#define TUTTI_TRANSPORT_VERBS_FLUSH_H

#include "transport/verbs/buffers.h"

#define VERBS_FLUSH   0x80000000u /* in the numbers of these reads */
#define VERBS_FLUSHES 16          /* reads that are under way */

struct verbs_device;

struct verbs_read {
    uint64_t address, token;
    uint32_t key;
};

struct verbs_flush {
    struct ibv_qp *pair;         /* NULL: nobody has needed it yet */
    struct verbs_buffers answer; /* where the byte goes */
    struct verbs_read *reads;    /* in a ring; those under way first */
    unsigned first, count, room, posted;
};

/* Makes the queue pair, if there is none. Else error_last() says why the device cannot read what it has written. */
tutti_result_t verbs_flush_open(struct verbs_device *device);
/* A byte of memory that the device knows by `key`. */
tutti_result_t verbs_flush_read(struct verbs_device *device, uint64_t address, uint32_t key, uint64_t token);
/* The oldest read has ended; further ones begin. False: none is under way. */
bool verbs_flush_ended(struct verbs_device *device, uint64_t *token);
/* Ends it, and what is under way. Returns an errno, or 0. */
int verbs_flush_close(const struct verbs_library *library, struct verbs_flush *flush);

#endif
