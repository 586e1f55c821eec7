/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots of a relay: which are taken, and when their memory is made and given back. Nothing here touches memory.
 * relay_slots_test.c goes through all that can happen.
 *
 *     NONE --- somebody wanted a slot ---> MADE --- unused, low, asked for, or closed ---> ENDING
 *       ^                                                                                    |
 *       +--------------------- no slot is taken: the memory is given back -------------------+
 */
#ifndef TUTTI_EXECUTOR_STAGED_RELAY_SLOTS_H
#define TUTTI_EXECUTOR_STAGED_RELAY_SLOTS_H

#include "base/clock.h"
#include "engine/engine.h"

#include <stdbool.h>
#include <stdint.h>

#define RELAY_SLOTS 6               /* of a channel */
#define RELAY_IDLE  (10 * NS_PER_S) /* without use, after which the memory is given back */
#define RELAY_AGAIN (2 * NS_PER_S)  /* after which more may be made, where there was none */

enum relay_state { RELAY_NONE, RELAY_MADE, RELAY_ENDING };

struct relay_slots {
    enum relay_state state;
    int each;                    /* slots of a channel */
    uint32_t taken[ENGINE_MOST]; /* of each channel, as bits */
    uint64_t wanted, used;       /* when one was, last; 0: never */
    uint64_t refused;            /* when there was no memory; 0: never */
};

/* What the memory's owners say. */
struct relay_news {
    bool asked;  /* somebody there wants memory, */
    bool low;    /* little is free, */
    bool closed; /* or there will be no more to send */
};

/* What is to be done with the memory now: then relay_slots_made() or relay_slots_freed() follows. */
enum relay_step { RELAY_STAY, RELAY_MAKE, RELAY_FREE };

/* -1: none, for now. */
int relay_slots_take(struct relay_slots *slots, int channel, uint64_t now);
void relay_slots_give(struct relay_slots *slots, int channel, int slot, uint64_t now);
enum relay_step relay_slots_next(struct relay_slots *slots, const struct relay_news *news, uint64_t now);
/* each: slots of a channel that there is memory for; 0: there is none. */
void relay_slots_made(struct relay_slots *slots, int each, uint64_t now);
void relay_slots_freed(struct relay_slots *slots);

#endif
