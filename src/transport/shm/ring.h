/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One direction of a shared-memory lane: slots of one cache line each, and a ring of data for what does not fit in a slot.
 *
 * A slot carries its number; the receiver polls the number it expects, and finds number and payload in the same line. Slots
 * stand at fixed places that payload never overwrites, so an old slot cannot be mistaken for a new one. The receiver says what
 * it has consumed only every quarter of a ring, in a line that the sender reads only when it runs out of room.
 *
 * The other side's memory is its word: no position is read from it, only counters, and those are clamped.
 */
#ifndef TUTTI_TRANSPORT_SHM_RING_H
#define TUTTI_TRANSPORT_SHM_RING_H

#include "base/cpu.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RING_INLINE 56 /* payload bytes of a slot */

enum ring_type { RING_SHORT = 1, RING_LONG, RING_PIECE, RING_DIRECT, RING_SHARE };

struct ring_slot {
    _Alignas(CACHE_LINE) _Atomic uint64_t head; /* number | type << 32 | length of payload << 40 */
    unsigned char payload[RING_INLINE];
};

/* A piece of a put in the data ring; or a whole put that was written directly. */
struct ring_put {
    uint32_t imm;
    uint32_t stream; /* the target is large: store around the cache */
    uint64_t offset, total;
    uint64_t length; /* of this piece */
};

struct ring_control {
    _Alignas(CACHE_LINE) _Atomic uint64_t bytes_consumed; /* by the receiver */
    _Atomic uint32_t slots_consumed;
    _Atomic uint32_t closed; /* the receiver's memory must not be written any more */
    _Alignas(CACHE_LINE) _Atomic uint32_t writing; /* the sender writes in the receiver's memory */
};

struct ring_shape {
    uint32_t slots; /* a power of two */
    uint32_t chunk; /* longest piece of a put */
    uint64_t data;  /* bytes, a power of two, at least four chunks */
};

struct ring_out {
    struct ring_control *control;
    struct ring_slot *slots;
    unsigned char *data;
    uint32_t slot_mask, head, seen; /* `seen`: slots consumed, as last looked at */
    uint64_t data_mask, position, position_seen;
};

struct ring_in {
    struct ring_control *control;
    struct ring_slot *slots;
    const unsigned char *data;
    uint32_t slot_mask, head, published;
    uint64_t data_mask, position, position_published;
};

bool ring_shape_ok(const struct ring_shape *shape);
/* Bytes of one direction, a multiple of the cache line. */
size_t ring_size(const struct ring_shape *shape);
void ring_out_init(struct ring_out *ring, const struct ring_shape *shape, void *memory);
void ring_in_init(struct ring_in *ring, const struct ring_shape *shape, void *memory);

/* Where `size` bytes can be written for the next slot, NULL if there is no room for them and the slot. size 0: the slot only. */
void *ring_reserve(struct ring_out *ring, size_t size);
/* Publishes the next slot with what ring_reserve gave for `size`. Only after a ring_reserve that succeeded. */
void ring_post(struct ring_out *ring, enum ring_type type, size_t size, const void *payload, size_t length);

static inline struct ring_slot *ring_next_slot(struct ring_out *ring)
{
    return &ring->slots[ring->head & ring->slot_mask];
}

/* Publishes the next slot, whose payload stands in it already. */
static inline void ring_publish(struct ring_out *ring, enum ring_type type, size_t length)
{
    struct ring_slot *slot = ring_next_slot(ring);
    uint64_t head = (uint64_t)++ring->head | (uint64_t)type << 32 | (uint64_t)length << 40;
    atomic_store_explicit(&slot->head, head, memory_order_release);
}

static inline bool ring_has_slot(struct ring_out *ring)
{
    if (ring->head - ring->seen <= ring->slot_mask)
        return true;
    return ring_reserve(ring, 0) != NULL;
}

/* The slot that comes next, and the number it will have. */
static inline struct ring_slot *ring_expected(struct ring_in *ring, uint32_t *number)
{
    *number = ring->head + 1;
    return &ring->slots[ring->head & ring->slot_mask];
}

/* Data of `size` bytes that came with the next slot; NULL if that is more than the ring holds. */
const void *ring_take(struct ring_in *ring, uint64_t size);
/* The slot, and all data taken, are done with. True if that was told to the sender (which may wait for it). */
bool ring_release(struct ring_in *ring);

#endif
