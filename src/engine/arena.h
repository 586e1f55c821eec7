/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that the ranks of one host share for collectives by load and store: for each rank a ring of slots, filled
 * in steps that all ranks count alike, and a counter of the steps whose slots it has read. docs/engine.md.
 */
#ifndef TUTTI_ENGINE_ARENA_H
#define TUTTI_ENGINE_ARENA_H

#include "base/cpu.h"
#include "transport/shm/attach.h"
#include "tutti/tutti.h"
#include "wire/link.h"

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SLOT_INLINE      40 /* also room for a struct slot_place */
#define ARENA_PROCESSORS 64 /* more share the entries of others: what is said there are hints */

enum slot_kind { SLOT_STAGED, SLOT_IN_PLACE };

/* Head of a slot. Small payloads ride in the head's own cache line; others follow it. */
struct slot {
    alignas(CACHE_LINE) _Atomic uint64_t ready; /* step + 1, stored last */
    uint32_t signature;                         /* of the call, with its */
    int16_t root;
    uint16_t kind;
    uint64_t count;
    unsigned char few[SLOT_INLINE];
};
_Static_assert(sizeof(struct slot) == CACHE_LINE, "a slot's head is one cache line");

/* Where a rank's buffers lie when peers may read them there: SLOT_IN_PLACE. In `few`. */
struct slot_place {
    uint64_t in, out;               /* addresses */
    uint64_t in_offset, out_offset; /* in regions */
    uint32_t in_region, out_region; /* ids of regions that who reads there has mapped; 0: none */
};
_Static_assert(sizeof(struct slot_place) <= SLOT_INLINE, "a place fits in the head");

struct arena_rank {
    _Atomic int32_t reads;     /* can it attach to all others? 0: not known, 1: yes, 2: no */
    _Atomic int32_t processor; /* where it last ran, as a place in arena_head.running, + 1; 0: not known */
    _Atomic int32_t awaited;   /* rank + 1 that it waits for, or last waited for; 0: nobody yet */
    _Atomic bool introduced;   /* what follows is set: the process, for those who try to attach to it */
    uint32_t pid;
    uint64_t pid_namespace;
    struct attach_word word;
    alignas(CACHE_LINE) _Atomic uint64_t done;     /* steps below have been read by this rank */
    alignas(CACHE_LINE) _Atomic uint32_t sleeping; /* 0: no, 1: for anybody, else for rank - 2 */
    _Atomic uint8_t gone;                          /* enum wire_cause of how its process left; 0: it has not */
    _Atomic bool knows;                            /* of the communicator's failure: it may leave because of that */
    struct wire_abort failure;                     /* what it says of the communicator, once */
};

struct arena_head {
    uint32_t magic, nranks, slots;
    uint64_t slot_size; /* with head */
    alignas(CACHE_LINE) _Atomic uint32_t sleepers;
    _Atomic int32_t failed;    /* 0, or 1 + the first rank that has written why */
    _Atomic uint32_t finished; /* collectives up to this one go on nevertheless */
    alignas(
        CACHE_LINE) _Atomic int32_t running[ARENA_PROCESSORS]; /* rank + 1 that was last seen running on a processor */
};

struct arena_mapping;

struct arena {
    struct arena_mapping *mapping;
    void *memory;
    size_t size;
    struct arena_head *head;
    struct arena_rank *ranks;
    unsigned char *slots;
    size_t slot_size;
    uint32_t slot_count;
    int nranks;
};

/* Bytes of payload of a slot for this many ranks, by TUTTI_SHARED_SLOT. */
size_t arena_payload(int nranks);

/* Makes the memory: *fd is to be shared with the other processes and closed. */
tutti_result_t arena_create(int nranks, int *fd);
/* Maps it, once in a process. Checks what the maker wrote. */
tutti_result_t arena_map(struct arena *arena, int fd, int nranks);
void arena_unmap(struct arena *arena);

static inline struct slot *arena_slot(const struct arena *arena, int rank, uint64_t step)
{
    size_t index = (size_t)rank * arena->slot_count + (step & (arena->slot_count - 1)); /* a power of two */
    return (struct slot *)(void *)(arena->slots + index * arena->slot_size);
}

/* Says that this rank runs, where, and for which rank it waits (-1: for nobody in particular). */
void arena_say_running(struct arena *arena, int me, int awaited);
/* Does `peer` likely run now, on a processor of its own, and can it answer? A peer that waits for a rank that does not
 * run cannot. */
bool arena_is_running(const struct arena *arena, int me, int peer);

/* Wakes those who sleep for rank `me`; -1: everybody. Call after a store that they may wait for. */
void arena_wake(struct arena *arena, int me);
/* Sleeps for news of `peer` (-1: of anybody) unless `ready` says that there is something to do after the sleeper is on
 * record. */
void arena_sleep(struct arena *arena, int me, int peer, bool (*ready)(void *context), void *context,
                 uint64_t timeout_us);

#endif
