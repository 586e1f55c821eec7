/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where bytes of a payload lie: in this host's memory, or in a device's, which adapters and the device reach, and no
 * processor. Code that reads or writes a payload by the processor, or asks the system to, gets its address here and
 * nowhere else.
 */
#ifndef TUTTI_BASE_PLACE_H
#define TUTTI_BASE_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct place {
    void *address;
    int device;    /* 0: this host's memory; else that of GPU device - 1 */
    uint64_t life; /* number of the memory that it lies in (base/known.h); 0: nobody has said */
    int relays;    /* it lies in a relay's slot on that device, for device relays - 1; 0: in no slot */
};

static inline struct place place_host(const void *address)
{
    return (struct place){.address = (void *)(uintptr_t)address};
}

static inline bool place_is_host(struct place place)
{
    return !place.device;
}

/* `offset` bytes behind it. */
static inline struct place place_behind(struct place place, uint64_t offset)
{
    place.address = (char *)place.address + offset;
    return place;
}

/* For the processor. NULL: it lies in a device's memory. */
static inline void *place_reach(struct place place)
{
    return place_is_host(place) ? place.address : NULL;
}

#endif
