/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading peers' buffers where they lie, without staging: in the same process by pointer, in a shared region through
 * the transport's mapping, elsewhere by cross-memory attach. For large payloads, where staging would copy once more.
 */
#ifndef TUTTI_ENGINE_SHARED_PEER_H
#define TUTTI_ENGINE_SHARED_PEER_H

#include "engine/arena.h"
#include "engine/team.h"
#include "transport/shm/import.h"

/* A peer's regions that the running operation reads. */
struct peer_views {
    struct shm_import *in, *out;
};

struct peer_memory {
    struct peer_views *views; /* by rank */
    struct attach *attach;    /* by rank */
    int *viewed;              /* the ranks of which there is a view */
    int views_held;
};

bool peer_memory_open(struct peer_memory *memory, int nranks);
void peer_memory_close(struct peer_memory *memory);
/* At the end of an operation: regions may be taken down again. */
void peer_memory_let_go(struct peer_memory *memory);

/* This process, for the ranks that may attach to it. */
void peer_introduce(struct arena_rank *self);
/* Can the memory of a rank that has introduced itself be read by cross-memory attach? */
bool peer_try_attach(struct peer_memory *memory, int rank, const struct arena_rank *shown);

/* A pointer to bytes [offset, offset + length) of a peer's buffer, valid until the end of the operation. NULL if there
 * is none: then peer_read. */
const void *peer_pointer(const struct team *team, struct peer_memory *memory, int rank, const struct slot_place *place,
                         bool in, uint64_t offset, size_t length);
/* Copies them. False, with errno: the peer's memory cannot be read. */
bool peer_read(const struct peer_memory *memory, int rank, const struct slot_place *place, bool in, uint64_t offset,
               void *to, size_t length);

#endif
