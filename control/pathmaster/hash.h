/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes by which lanes and owners are found. */
#ifndef TUTTI_PATHMASTER_HASH_H
#define TUTTI_PATHMASTER_HASH_H

#include "pathmaster/allot.h"

#include "base/random.h"

#define HASH_OWNERS (1 << 16)

static inline uint64_t hash_number(int32_t owner, uint64_t number)
{
    return mix64(number ^ mix64((uint32_t)owner + 1));
}

static inline uint64_t hash_port(int32_t from, int32_t to, uint16_t port)
{
    return mix64(mix64((uint64_t)(uint32_t)from << 32 | (uint32_t)to) + port);
}

static inline uint64_t hash_secret(int32_t tenant, const uint8_t secret[ALLOT_SECRET])
{
    return hash_bytes((uint32_t)tenant, secret, ALLOT_SECRET);
}

#endif
