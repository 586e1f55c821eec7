/* SPDX-License-Identifier: Apache-2.0 */
/* Room and positions in the two rings of a direction. */
#include "transport/shm/ring.h"

#include <string.h>

#define PAGE       4096
#define MOST_SLOTS (1u << 20)
#define MOST_DATA  (1ull << 30)

static bool is_power(uint64_t value)
{
    return value && !(value & (value - 1));
}

bool ring_shape_ok(const struct shm_ring_shape *shape)
{
    return is_power(shape->slots) && shape->slots >= 8 && shape->slots <= MOST_SLOTS && is_power(shape->data) &&
           shape->data <= MOST_DATA && shape->chunk >= CACHE_LINE && shape->chunk % CACHE_LINE == 0 &&
           shape->chunk <= shape->data / 4 && (!shape->stages || shape->stages == RING_STAGES);
}

static size_t slots_size(const struct shm_ring_shape *shape)
{
    return (shape->slots * sizeof(struct ring_slot) + PAGE - 1) / PAGE * PAGE;
}

static size_t stages_at(const struct shm_ring_shape *shape)
{
    return PAGE + 2 * slots_size(shape) + (2 * (size_t)shape->data + PAGE - 1) / PAGE * PAGE;
}

size_t ring_pair_size(const struct shm_ring_shape *shape)
{
    return stages_at(shape) + 2 * (size_t)shape->stages * RING_STAGE_BYTES;
}

unsigned char *ring_stages(const struct shm_ring_shape *shape, void *memory, bool second)
{
    return (unsigned char *)memory + stages_at(shape) + second * (size_t)shape->stages * RING_STAGE_BYTES;
}

size_t ring_fixed_size(const struct shm_ring_shape *shape)
{
    return PAGE / 2 + slots_size(shape);
}

static uint64_t first_window(const struct shm_ring_shape *shape)
{
    return shape->data < RING_LEAST ? shape->data : RING_LEAST;
}

static struct ring_control *control_at(void *memory, bool second)
{
    return (struct ring_control *)memory + second;
}

static struct ring_slot *slots_at(const struct shm_ring_shape *shape, void *memory, bool second)
{
    return (struct ring_slot *)((char *)memory + PAGE + second * slots_size(shape));
}

static unsigned char *data_at(const struct shm_ring_shape *shape, void *memory, bool second)
{
    return (unsigned char *)memory + PAGE + 2 * slots_size(shape) + second * shape->data;
}

void ring_out_init(struct ring_out *ring, const struct shm_ring_shape *shape, void *memory, bool second)
{
    *ring = (struct ring_out){.control = control_at(memory, second),
                              .slots = slots_at(shape, memory, second),
                              .data = data_at(shape, memory, second),
                              .slot_mask = shape->slots - 1,
                              .data_mask = first_window(shape) - 1,
                              .most = shape->data};
}

void ring_in_init(struct ring_in *ring, const struct shm_ring_shape *shape, void *memory, bool second)
{
    *ring = (struct ring_in){.control = control_at(memory, second),
                             .slots = slots_at(shape, memory, second),
                             .data = data_at(shape, memory, second),
                             .slot_mask = shape->slots - 1,
                             .data_mask = first_window(shape) - 1,
                             .most = shape->data};
}

static uint64_t round_line(uint64_t size)
{
    return (size + CACHE_LINE - 1) & ~(uint64_t)(CACHE_LINE - 1);
}

/* Both sides compute it alike: data never wraps, what would is moved to the start of the ring. */
static uint64_t shm_ring_place(uint64_t position, uint64_t mask, uint64_t size)
{
    uint64_t offset = position & mask;
    return offset + size > mask + 1 ? position + (mask + 1 - offset) : position;
}

static bool shm_ring_fits(const struct ring_out *ring, uint64_t end)
{
    return ring->head - ring->seen <= ring->slot_mask && end - ring->position_seen <= ring->data_mask + 1;
}

/* Reads what the receiver says. What cannot be true is not believed: then there is no room. */
static void shm_ring_look(struct ring_out *ring)
{
    uint32_t slots = atomic_load_explicit(&ring->control->slots_consumed, memory_order_acquire);
    uint64_t bytes = atomic_load_explicit(&ring->control->bytes_consumed, memory_order_acquire);
    if (ring->head - slots <= ring->head - ring->seen)
        ring->seen = slots;
    if (ring->position - bytes <= ring->position - ring->position_seen)
        ring->position_seen = bytes;
}

bool ring_move(struct ring_out *ring, uint64_t window)
{
    if (ring->moving || !ring_has_slot(ring))
        return false;
    ring_post(ring, RING_WINDOW, 0, &window, sizeof window);
    ring->next_window = window;
    ring->moved_at = ring->head;
    ring->moving = true;
    return true;
}

/* The start of the memory: both sides compute it alike. */
static uint64_t restart(uint64_t position, uint64_t window)
{
    return (position + window - 1) & ~(window - 1);
}

bool ring_moved(struct ring_out *ring)
{
    if (!ring->moving)
        return true;
    shm_ring_look(ring);
    if ((int32_t)(ring->seen - ring->moved_at) < 0)
        return false;
    ring->moving = false;
    ring->data_mask = ring->next_window - 1;
    ring->position = ring->position_seen = restart(ring->position, ring->next_window);
    return true;
}

bool ring_follow(struct ring_in *ring, uint64_t window)
{
    if (!is_power(window) || window < CACHE_LINE || window > ring->most)
        return false;
    ring->data_mask = window - 1;
    ring->position = restart(ring->position, window);
    ring->tell = true;
    return true;
}

void *ring_reserve(struct ring_out *ring, size_t size)
{
    if (ring->moving && size && !ring_moved(ring))
        return NULL;
    uint64_t room = round_line(size), start = shm_ring_place(ring->position, ring->data_mask, room);
    if (!shm_ring_fits(ring, start + room)) {
        shm_ring_look(ring);
        if (!shm_ring_fits(ring, start + room))
            return NULL;
    }
    return ring->data + (start & ring->data_mask);
}

void ring_post(struct ring_out *ring, enum ring_type type, size_t size, const void *payload, size_t length)
{
    uint64_t room = round_line(size);
    ring->position = shm_ring_place(ring->position, ring->data_mask, room) + room;
    memcpy(ring_next_slot(ring)->payload, payload, length);
    ring_publish(ring, type, length);
}

const void *ring_take(struct ring_in *ring, uint64_t size)
{
    if (size > ring->data_mask + 1)
        return NULL;
    uint64_t room = round_line(size), start = shm_ring_place(ring->position, ring->data_mask, room);
    ring->position = start + room;
    return ring->data + (start & ring->data_mask);
}

bool ring_release(struct ring_in *ring)
{
    ring->head++;
    if (!ring->tell && ring->head - ring->published <= ring->slot_mask / 4 &&
        ring->position - ring->position_published <= ring->data_mask / 4)
        return false;
    ring->tell = false;
    ring->published = ring->head;
    ring->position_published = ring->position;
    atomic_store_explicit(&ring->control->bytes_consumed, ring->position, memory_order_release);
    atomic_store_explicit(&ring->control->slots_consumed, ring->head, memory_order_release);
    return true;
}
