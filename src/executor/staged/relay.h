/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Relays (FuseLink sections 4.1 and 4.2). What a GPU sends by a borrowed interface is copied to a slot on the GPU next
 * to that interface first. What comes by that interface lands in a slot, too. The interface then reads and writes
 * memory beside it, and the way between the two GPUs is NVLink. docs/notebook/relay.md says why it is so.
 *
 * The memory is this process's own, on the other GPU: the process that works there may die, and the slots stay. All
 * ranks agree on how many GPUs they have to relay by. Of each message, piece k of a channel goes by relay k modulo that
 * number and one, 0 being none. So both ends relay the same pieces, and tell each other nothing. Where there is no
 * slot, or the interface is busy, the piece lies in its own GPU's memory.
 */
#ifndef TUTTI_EXECUTOR_STAGED_RELAY_H
#define TUTTI_EXECUTOR_STAGED_RELAY_H

#include "base/place.h"
#include "device/cuda/driver.h"
#include "executor/staged/relay_slots.h"

#include <pthread.h>

#define RELAYS 8 /* GPUs, at most */

struct board;
struct board_use;
struct channel;
struct staged;

/* Slots on one GPU. */
struct relay_gpu {
    int gpu; /* its ordinal */
    char bus_id[16];
    uint32_t ports;        /* next to it, as bits */
    uint64_t name;         /* on the board */
    struct board_use *use; /* there */
    struct relay_slots slots;
    CUdeviceptr memory;
    size_t size;
    uint64_t known;  /* base/known.h */
    uint64_t looked; /* when it was asked how much memory is free, */
    bool low;        /* and what the answer was */
    bool refused;    /* adapters do not take memory of that GPU */
};

struct relays {
    pthread_mutex_t lock; /* of all slots */
    struct board *board;
    int count; /* the same on all ranks, once they have agreed */
    size_t room;
    struct relay_gpu relay[RELAYS];
};

/* Where a piece is while it is under way. */
struct relay_slot {
    struct relay_gpu *relay; /* NULL: in no slot */
    int slot;
    struct place place;
};

/* Which GPUs may relay for this one; none where nothing is borrowed. Makes no memory. */
void relay_open(struct staged *staged);
/* By an agreement of all ranks: no more than `count`. */
void relay_agree(struct staged *staged, int count);
/* No piece is under way. */
void relay_close(struct staged *staged);

/* A slot for piece number `turn` of those of a message that are this channel's, with a rank of another host. False: it
 * is to go without. Calls no driver. */
bool relay_take(struct channel *channel, size_t turn, bool sends, struct relay_slot *out);
/* No adapter and no kernel touches it any more. Of no slot: nothing happens. */
void relay_give(struct channel *channel, struct relay_slot *slot);

/* Makes memory that is wanted, and gives memory back: by a thread that may wait in the driver. Returns ns until the
 * next time. */
uint64_t relay_tend(struct staged *staged);

#endif
