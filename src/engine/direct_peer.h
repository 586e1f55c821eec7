/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading peers' buffers where they lie, without staging: in the same process by pointer, in a shared region through a mapping
 * of ours, elsewhere by cross-memory attach. For large payloads, where staging would copy once more.
 */
#ifndef TUTTI_ENGINE_DIRECT_PEER_H
#define TUTTI_ENGINE_DIRECT_PEER_H

#include "engine/arena.h"

#define PEER_MAPPINGS 32 /* at least */

/* Somebody's region, mapped here. */
struct peer_mapping {
    uint32_t pid, region;
    unsigned char *base;
    size_t size;
    uint64_t used; /* for replacing the longest unused */
};

struct peer_memory {
    struct peer_mapping *mapping;
    int mappings;
    uint64_t uses;
};

/* Room for a mapping of every rank at once: a reduction uses pointers to all peers' data. False: no memory. */
bool peer_memory_open(struct peer_memory *memory, int nranks);
void peer_memory_close(struct peer_memory *memory);

/* What peers must know to read `in` and `out` (either may be NULL). */
void peer_describe(const void *in, const void *out, struct slot_place *place);

/* Can this process read a word that rank 0 has at `address`? Looks whether it holds `expected`. */
bool peer_probe(uint32_t pid, uint64_t address, uint64_t expected);

/* A pointer to bytes [offset, offset + length) of a peer's buffer, NULL if there is none: then peer_read. */
const void *peer_pointer(struct peer_memory *memory, const struct slot_place *place, bool in, uint64_t offset, size_t length);
/* Copies them. False: the peer's memory cannot be read. */
bool peer_read(const struct slot_place *place, bool in, uint64_t offset, void *to, size_t length);

#endif
