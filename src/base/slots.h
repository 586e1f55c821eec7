/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of things in an array, found by keys that are nearly their own: hashes of names. Begins with all zeros. */
#ifndef TUTTI_BASE_SLOTS_H
#define TUTTI_BASE_SLOTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct slots_one {
    uint64_t key;
    uint32_t used; /* number + 1; 0: free */
};

struct slots {
    struct slots_one *slot;
    size_t room, used; /* room: a power of two, at least twice what is used */
};

/* False: no memory, and nothing has changed. */
bool slots_put(struct slots *slots, uint64_t key, uint32_t number);
/* Takes all out and keeps the memory: what is put in next, up to as many, needs none. */
void slots_clear(struct slots *slots);
void slots_free(struct slots *slots);
/* A number that was put in with this key, the next one at each call; -1: no more. *turn is 0 at first. */
int64_t slots_next(const struct slots *slots, uint64_t key, size_t *turn);

#endif
