/* SPDX-License-Identifier: Apache-2.0 */
/* Room and positions in the two rings of a direction. */
#include "transport/shm/ring.h"

#include <string.h>

#define MOST_SLOTS (1u << 20)
#define MOST_DATA  (1ull << 30)

static bool is_power(uint64_t value)
{
    return value && !(value & (value - 1));
}

bool ring_shape_ok(const struct ring_shape *shape)
{
    return is_power(shape->slots) && shape->slots >= 8 && shape->slots <= MOST_SLOTS && is_power(shape->data) &&
           shape->data <= MOST_DATA && shape->chunk >= CACHE_LINE && shape->chunk % CACHE_LINE == 0 &&
           shape->chunk <= shape->data / 4;
}

size_t ring_size(const struct ring_shape *shape)
{
    return sizeof(struct ring_control) + shape->slots * sizeof(struct ring_slot) + (size_t)shape->data;
}

void ring_out_init(struct ring_out *ring, const struct ring_shape *shape, void *memory)
{
    *ring = (struct ring_out){.control = memory, .slot_mask = shape->slots - 1, .data_mask = shape->data - 1};
    ring->slots = (struct ring_slot *)(ring->control + 1);
    ring->data = (unsigned char *)(ring->slots + shape->slots);
}

void ring_in_init(struct ring_in *ring, const struct ring_shape *shape, void *memory)
{
    *ring = (struct ring_in){.control = memory, .slot_mask = shape->slots - 1, .data_mask = shape->data - 1};
    ring->slots = (struct ring_slot *)(ring->control + 1);
    ring->data = (const unsigned char *)(ring->slots + shape->slots);
}

static uint64_t round_line(uint64_t size)
{
    return (size + CACHE_LINE - 1) & ~(uint64_t)(CACHE_LINE - 1);
}

/* Both sides compute it alike: data never wraps, what would is moved to the start of the ring. */
static uint64_t place(uint64_t position, uint64_t mask, uint64_t size)
{
    uint64_t offset = position & mask;
    return offset + size > mask + 1 ? position + (mask + 1 - offset) : position;
}

static bool fits(const struct ring_out *ring, uint64_t end)
{
    return ring->head - ring->seen <= ring->slot_mask && end - ring->position_seen <= ring->data_mask + 1;
}

/* Reads what the receiver says. What cannot be true is not believed: then there is no room. */
static void look(struct ring_out *ring)
{
    uint32_t slots = atomic_load_explicit(&ring->control->slots_consumed, memory_order_acquire);
    uint64_t bytes = atomic_load_explicit(&ring->control->bytes_consumed, memory_order_acquire);
    if (ring->head - slots <= ring->head - ring->seen)
        ring->seen = slots;
    if (ring->position - bytes <= ring->position - ring->position_seen)
        ring->position_seen = bytes;
}

void *ring_reserve(struct ring_out *ring, size_t size)
{
    uint64_t room = round_line(size), start = place(ring->position, ring->data_mask, room);
    if (!fits(ring, start + room)) {
        look(ring);
        if (!fits(ring, start + room))
            return NULL;
    }
    return ring->data + (start & ring->data_mask);
}

void ring_post(struct ring_out *ring, enum ring_type type, size_t size, const void *payload, size_t length)
{
    uint64_t room = round_line(size);
    ring->position = place(ring->position, ring->data_mask, room) + room;
    memcpy(ring_next_slot(ring)->payload, payload, length);
    ring_publish(ring, type, length);
}

const void *ring_take(struct ring_in *ring, uint64_t size)
{
    if (size > ring->data_mask + 1)
        return NULL;
    uint64_t room = round_line(size), start = place(ring->position, ring->data_mask, room);
    ring->position = start + room;
    return ring->data + (start & ring->data_mask);
}

bool ring_release(struct ring_in *ring)
{
    ring->head++;
    if (ring->head - ring->published <= ring->slot_mask / 4 &&
        ring->position - ring->position_published <= ring->data_mask / 4)
        return false;
    ring->published = ring->head;
    ring->position_published = ring->position;
    atomic_store_explicit(&ring->control->bytes_consumed, ring->position, memory_order_release);
    atomic_store_explicit(&ring->control->slots_consumed, ring->head, memory_order_release);
    return true;
}
