/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One direction of a shared-memory lane: slots of two cache lines each, and a ring of data for what does not fit in a
 * slot.
 *
 * A slot carries its number; the receiver polls the number it expects, and finds number and payload side by side: a
 * message of the link with up to 64 bytes of the user's needs no more. Slots stand at fixed places that payload never
 * overwrites, so an old slot cannot be mistaken for a new one. The receiver says what it has consumed only every
 * quarter of a ring, in a line that the sender reads only when it runs out of room.
 *
 * The data ring begins with a window of its memory, and pages beyond it do not exist. The sender widens and narrows the
 * window: a slot says how wide it is from there on. When that slot is consumed all data before it is, and data goes on
 * at the start of the memory.
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

#define RING_INLINE 120   /* payload bytes of a slot, */
#define RING_FIRST  56    /* the first bytes of a slot share a line with its number: what is said of puts fits */
#define RING_LEAST  16384 /* the first window, unless all data is less */

enum ring_type { RING_SHORT = 1, RING_LONG, RING_PIECE, RING_PULL, RING_SHARE, RING_VOID, RING_WINDOW, RING_LENT };

struct ring_slot {
    _Alignas(2 * CACHE_LINE) _Atomic uint64_t head; /* number | type << 32 | length of payload << 40 */
    unsigned char payload[RING_INLINE];
};
_Static_assert(sizeof(struct ring_slot) == 2 * CACHE_LINE, "a slot is two lines");

/* A piece of a put in the data ring. RING_VOID carries nothing: of the put under way no more pieces come. */
struct ring_put {
    uint32_t imm;
    uint32_t stream; /* the target is large: store around the cache */
    uint64_t offset, total;
    uint64_t length; /* of this piece */
};

/* A whole put, which the receiver reads where it lies in the sender's memory. */
struct ring_pull {
    uint32_t imm;
    uint32_t stream;
    uint64_t offset, total;
    uint64_t address; /* in the region, or in the sender's memory */
    uint32_t region;  /* 0: none */
    uint32_t reserved;
};
/* A message whose second part the receiver reads where it lies: a pull, of which imm is the length of the first part.
 */
#define RING_HEAD 72
struct ring_lent {
    struct ring_pull pull;
    unsigned char head[RING_HEAD];
};
_Static_assert(sizeof(struct ring_lent) <= RING_INLINE, "it fits in a slot");
_Static_assert(sizeof(struct ring_put) <= RING_FIRST && sizeof(struct ring_pull) <= RING_FIRST,
               "they fit in a slot's first line");

/* Pulls of one direction have numbers from 1. The sender waits for the end of RING_PULLS at most: one bit tells of
 * each. */
#define RING_PULLS            64u
#define RING_PULL_BIT(number) (1ull << (number) % RING_PULLS)

/* Sources of pulls that the sender has copied ahead lie in the stages of a direction, one in each. */
#define RING_STAGES      2
#define RING_STAGE_BYTES (512u << 10)

struct ring_control {
    _Alignas(CACHE_LINE) _Atomic uint64_t bytes_consumed; /* by the receiver */
    _Atomic uint32_t slots_consumed;
    _Atomic uint32_t attaches; /* the receiver can read the sender's memory */
    _Atomic uint64_t refused;  /* by bit: the receiver could not read it; valid when it is among `pulled` */
    _Atomic uint32_t pulled;   /* pulls up to this one are done with */
    _Atomic uint32_t pulling;  /* the latest one that the receiver began to read by itself */
    _Alignas(
        CACHE_LINE) _Atomic uint64_t revoked; /* the sender's, by bit: what is read of this pull is not to be used */
    _Atomic uint64_t staged[RING_STAGES];     /* number of the pull << 32 | bytes of its end that lie there; 0: none */
};

struct shm_ring_shape {
    uint32_t slots;  /* a power of two */
    uint32_t chunk;  /* longest piece of a put */
    uint64_t data;   /* bytes, a power of two, at least four chunks */
    uint32_t stages; /* RING_STAGES, or 0: there are none */
    uint32_t reserved;
};

struct ring_out {
    struct ring_control *control;
    struct ring_slot *slots;
    unsigned char *data;
    uint32_t slot_mask, head, seen; /* `seen`: slots consumed, as last looked at */
    uint32_t moved_at;              /* the slot that says the next window */
    bool moving;                    /* it is not consumed: no data until then */
    uint64_t data_mask, position, position_seen;
    uint64_t most, next_window;
};

struct ring_in {
    struct ring_control *control;
    struct ring_slot *slots;
    const unsigned char *data;
    uint32_t slot_mask, head, published;
    uint64_t data_mask, position, position_published;
    uint64_t most;
    bool tell; /* the sender waits for what the next slot's end says */
};

bool ring_shape_ok(const struct shm_ring_shape *shape);
/* Bytes of both directions of a lane, in pages: controls, slots, data, stages. */
size_t ring_pair_size(const struct shm_ring_shape *shape);
/* Bytes of one direction that are there whatever its window is. */
size_t ring_fixed_size(const struct shm_ring_shape *shape);
/* `second`: the other direction. */
void ring_out_init(struct ring_out *ring, const struct shm_ring_shape *shape, void *memory, bool second);
void ring_in_init(struct ring_in *ring, const struct shm_ring_shape *shape, void *memory, bool second);

/* The stages of a direction, in pages. */
unsigned char *ring_stages(const struct shm_ring_shape *shape, void *memory, bool second);

static inline uint64_t ring_window(const struct ring_out *ring)
{
    return ring->data_mask + 1;
}
/* Posts that the window will have this size, a power of two of at most shape.data: as many bytes then fit. False: not
 * now. */
bool ring_move(struct ring_out *ring, uint64_t window);
/* False while the receiver has not done what ring_move() asked for. */
bool ring_moved(struct ring_out *ring);
/* The sender's window is this from the next slot on. False: none can be. */
bool ring_follow(struct ring_in *ring, uint64_t window);

/* Where `size` bytes can be written for the next slot, NULL if there is no room for them and the slot. size 0: the slot
 * only. */
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

/* Has another slot come behind the expected one? */
static inline bool ring_has_second(const struct ring_in *ring)
{
    const struct ring_slot *slot = &ring->slots[(ring->head + 1) & ring->slot_mask];
    return (uint32_t)atomic_load_explicit(&slot->head, memory_order_relaxed) == ring->head + 2;
}

/* Data of `size` bytes that came with the next slot; NULL if that is more than the ring holds. */
const void *ring_take(struct ring_in *ring, uint64_t size);
/* The slot, and all data taken, are done with. True if that was told to the sender (which may wait for it). */
bool ring_release(struct ring_in *ring);

#endif
