/* SPDX-License-Identifier: Apache-2.0 */
/* Unguessable bytes for nonces and identities; and a 64-bit mixer for hashes. */
#ifndef TUTTI_BASE_RANDOM_H
#define TUTTI_BASE_RANDOM_H

#include "tutti/tutti.h"

tutti_result_t random_bytes(void *out, size_t size);

/* A bijection whose every output bit depends on every input bit (the finalizer of SplitMix64). */
static inline uint64_t mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static inline uint64_t hash_bytes(uint64_t seed, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint64_t hash = mix64(seed + size);
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3ull;
    return mix64(hash);
}

#endif
