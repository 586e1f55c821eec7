/* SPDX-License-Identifier: Apache-2.0 */
/* Receiving on a shared-memory lane. What a slot says is copied once, then checked; a message is its owner's to copy.
 */
#include "base/copy.h"
#include "transport/shm/control.h"
#include "transport/shm/pull.h"
#include "transport/shm/receive.h"
#include "transport/shm/watch.h"

#include <string.h>

#define TURN_SLOTS 64 /* of one lane before others have their turn */

static void message(struct shm_lane *lane, const void *bytes, size_t length)
{
    lane->base.lane.bytes_received += length;
    lane->base.lane.transport->owner.message(&lane->base.lane, bytes, length);
}

static void arrived(struct shm_lane *lane, const struct ring_put *put)
{
    lane->base.lane.bytes_received += put->total;
    lane->base.lane.transport->owner.arrived(&lane->base.lane, put->imm, put->offset, put->total);
}

static const char *lent_message(struct shm_lane *lane, const unsigned char *said)
{
    struct ring_lent now;
    memcpy(&now, said, sizeof now);
    if (now.pull.imm > sizeof now.head || !now.pull.total || now.pull.total > SHM_MAX_LENT || lane->put.total)
        return "the peer sent a message of impossible size";
    lane->deferred = shm_borrow_waits(lane, &now.pull, now.head);
    if (!lane->deferred)
        shm_borrow(lane, &now.pull, now.head);
    return NULL;
}

static bool put_ok(uint64_t total, uint64_t offset)
{
    return total && total <= INT64_MAX && offset <= UINT64_MAX - total;
}

/* A piece starts a put, or goes on with the one that is under way. */
static const char *piece(struct shm_lane *lane, const struct ring_put *piece)
{
    struct lane *base = &lane->base.lane;
    const void *bytes = ring_take(&lane->in, piece->length);
    if (!bytes || !piece->length || !put_ok(piece->total, piece->offset))
        return "the peer sent a piece of impossible size";
    if (!lane->put.total) {
        lane->put = *piece;
        lane->put_done = 0;
    }
    if (piece->length > lane->put.total - lane->put_done)
        return "the peer sent more than a put's length";
    /* The owner is asked for each piece: a receive may have been given up, and its memory with it. */
    void *target = transport_target(base, lane->put.imm, lane->put.offset + lane->put_done, piece->length);
    if (carrier_dead(&lane->base))
        return NULL;
    if (target && lane->put.stream)
        copy_stream(target, bytes, (size_t)piece->length);
    else if (target)
        memcpy(target, bytes, (size_t)piece->length);
    lane->put_done += piece->length;
    if (lane->put_done < lane->put.total)
        return NULL;
    struct ring_put put = lane->put;
    lane->put.total = lane->put_done = 0;
    arrived(lane, &put);
    return NULL;
}

static const char *long_message(struct shm_lane *lane, uint64_t length)
{
    const void *bytes = ring_take(&lane->in, length);
    if (!bytes || !length || length > SHM_MAX_MSG)
        return "the peer sent a message of impossible size";
    message(lane, bytes, (size_t)length);
    return NULL;
}

static const char *pull(struct shm_lane *lane, const struct ring_pull *pull)
{
    if (!put_ok(pull->total, pull->offset) || lane->put.total)
        return "the peer sent a put of impossible size";
    lane->unfinished = !shm_pull(lane, pull);
    return NULL;
}

/* Returns what is wrong with the slot, NULL if nothing. */
static const char *shm_receive_handle(struct shm_lane *lane, unsigned type, const unsigned char *said)
{
    union {
        unsigned char bytes[RING_FIRST];
        struct ring_put put;
        struct ring_pull pull;
        uint64_t size;
    } now;
    memcpy(now.bytes, said, sizeof now.bytes);
    switch (type) {
    case RING_LONG:
        return long_message(lane, now.size);
    case RING_PIECE:
        return piece(lane, &now.put);
    case RING_PULL:
        return pull(lane, &now.pull);
    case RING_LENT:
        return lent_message(lane, said);
    case RING_VOID:
        lane->put.total = lane->put_done = 0;
        return NULL;
    case RING_SHARE: /* descriptors were sent before this slot: they come first */
        shm_fetch_shared(lane);
        return NULL;
    case RING_WINDOW:
        return ring_follow(&lane->in, now.size) ? NULL : "the peer sent a window of impossible size";
    default:
        return "the peer sent a slot that is none";
    }
}

static const char *short_message(struct shm_lane *lane, const unsigned char *bytes, size_t length)
{
    if (!length || length > RING_INLINE)
        return "the peer sent a message of impossible size";
    message(lane, bytes, length);
    return NULL;
}

/* Handles the next slot, or a part of it, if it has come. */
static bool receive_one(struct shm_lane *lane)
{
    uint32_t number;
    struct ring_slot *slot = ring_expected(&lane->in, &number);
    uint64_t head = atomic_load_explicit(&slot->head, memory_order_acquire);
    unsigned type = (head >> 32) & 0xff;
    if ((uint32_t)head != number)
        return false;
    const char *wrong = type == RING_SHORT ? short_message(lane, slot->payload, (head >> 40) & 0xff)
                                           : shm_receive_handle(lane, type, slot->payload);
    if (carrier_dead(&lane->base))
        return true;
    if (lane->deferred) {
        lane->deferred = false;
        return false;
    }
    if (wrong)
        shm_fail(lane, wrong, 0);
    else if (!lane->unfinished && ring_release(&lane->in))
        shm_ring_bell(lane->peer);
    return true;
}

/* A turn ends after SHM_TURN bytes, too: what is to go the other way waits meanwhile, and so do threads that want the
 * owner's lock. */
int shm_receive(struct shm_lane *lane)
{
    uint64_t before = lane->base.lane.bytes_received;
    int done = 0;
    while (done < TURN_SLOTS && lane->base.lane.bytes_received - before < SHM_TURN && !carrier_dead(&lane->base) &&
           receive_one(lane)) {
        done++;
        if (lane->unfinished)
            break;
    }
    return done;
}
